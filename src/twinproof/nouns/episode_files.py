"""One episode on disk: signals in one Parquet file, each video with a table of its frames, JSON last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from twinproof.nouns.episode import Episode, Lazy, recomputed_id
from twinproof.nouns.errors import RecordingError
from twinproof.nouns.files import SAFE_NAME, check_files, file_hashes, link_or_copy, read_sealed, write_sealed
from twinproof.nouns.hashing import Json, hash_file
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.video import Video

FORMAT = "twinproof/episode/1"


def write_episode(folder: Path, episode: Episode) -> None:
    """Writes an episode into a new folder; video files are linked, not copied, where the file system allows."""
    folder.mkdir(parents=True)
    if episode.signals:
        _write_signals(folder / "signals.parquet", episode)
    for name, video in episode.videos.items():
        _check_name(name, episode)
        link_or_copy(video.path, folder / "video" / f"{name}.mp4")
        _write_frames(folder / "video" / f"{name}.parquet", video)
    head = {
        "format": FORMAT,
        "id": episode.id,
        "hash": episode.hash,
        "source": episode.source,
        "start_ns": episode.start_ns,
        "labels": dict(episode.labels),
        "outcome": episode.outcome,
        "notes": list(episode.notes),
        "signals": [_signal_head(signal) for signal in episode.signals.values()],
        "videos": [_video_head(video) for video in episode.videos.values()],
        "files": file_hashes(folder),
    }
    write_sealed(folder / "episode.json", head)


def _check_name(name: str, episode: Episode) -> None:
    if not SAFE_NAME.fullmatch(name):
        raise RecordingError(f"{episode.source}: the name {name!r} cannot be a file name. Rename it in the rig.")


def _signal_head(signal: Signal) -> Json:
    columns = [{"name": c.name, "unit": c.unit, "frame": c.frame} for c in signal.columns]
    log_time = signal.log_time_s is not None
    samples = len(signal.time_s)
    return {"name": signal.name, "kind": signal.kind, "samples": samples, "log_time": log_time, "columns": columns}


def _video_head(video: Video) -> Json:
    fields = ("camera", "pixels", "codec", "width", "height", "packets_hash")
    return {**{field: getattr(video, field) for field in fields}, "frames": len(video)}


def _write_signals(path: Path, episode: Episode) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = max(len(signal.time_s) for signal in episode.signals.values())
    arrays: dict[str, Any] = {}

    def put(name: str, values: np.ndarray, missing: np.ndarray | None = None) -> None:
        mask = np.arange(rows) >= len(values)  # shorter signals end in nulls
        if missing is not None:
            mask[: len(values)] |= missing
        padded = np.zeros(rows)
        padded[: len(values)] = values
        arrays[name] = pa.array(padded, mask=mask)

    for name, signal in episode.signals.items():
        _check_name(name, episode)
        put(f"{name}/time_s", signal.time_s)
        if signal.log_time_s is not None:
            put(f"{name}/log_time_s", signal.log_time_s)
        for j, column in enumerate(signal.columns):
            put(f"{name}/{column.name}", signal.value[:, j], None if signal.missing is None else signal.missing[:, j])
    if len(arrays) != sum(1 + (s.log_time_s is not None) + len(s.columns) for s in episode.signals.values()):
        raise RecordingError(
            f"{episode.source}: a column may not be called time_s or log_time_s. Leave it out by ignore."
        )
    pq.write_table(pa.table(arrays), path, compression="zstd", write_page_checksum=True, row_group_size=1 << 16)


def _write_frames(path: Path, video: Video) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"time_s": video.time_s, "pts": video.pts, "key": video.key}
    if video.log_time_s is not None:
        columns["log_time_s"] = video.log_time_s
    pq.write_table(pa.table(columns), path, compression="zstd", write_page_checksum=True)


def read_episode(folder: Path) -> Episode:
    """The episode in a folder; arrays come when they are asked for, and their file's hash is checked then."""
    head = read_sealed(folder / "episode.json", FORMAT, RecordingError)
    try:
        signals = {str(entry["name"]): entry for entry in head["signals"]}
        videos = {str(entry["camera"]): entry for entry in head["videos"]}
        files = {str(name): str(hash) for name, hash in head["files"].items()}
        for name in (*signals, *videos):
            if not SAFE_NAME.fullmatch(name):
                raise RecordingError(f"{folder}/episode.json names {name!r}, which is no signal or camera name.")
        episode = Episode(
            id=str(head["id"]),
            signals=Lazy(tuple(signals), _signal_reader(folder, signals, files)),
            videos=Lazy(tuple(videos), _video_reader(folder, videos, files)),
            labels={str(key): str(value) for key, value in head["labels"].items()},
            outcome=str(head["outcome"]),
            start_ns=int(head["start_ns"]),
            source=str(head["source"]),
            notes=tuple(str(note) for note in head["notes"]),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        raise RecordingError(f"{folder}/episode.json is not whole ({problem!r}). Make the recording again.") from None
    if episode.id != folder.name or episode.hash != head.get("hash"):
        raise RecordingError(f"{folder}/episode.json was changed since it was written. Make the recording again.")
    return episode


def _checked_table(folder: Path, name: str, files: dict[str, str], columns: list[str] | None = None) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / name
    if not path.is_file() or hash_file(path) != files.get(name):
        raise RecordingError(f"{path} is missing or was changed since it was written. Restore it from the source.")
    try:
        return pq.read_table(path, columns=columns, page_checksum_verification=True)
    except (pa.ArrowException, OSError, KeyError) as problem:
        raise RecordingError(f"{path} cannot be read ({problem}). Make the recording again.") from None


def _signal_reader(folder: Path, heads: dict[str, Any], files: dict[str, str]) -> Any:
    def read(name: str) -> Signal:
        head = heads[name]
        columns = tuple(Column(c["name"], c["unit"], c["frame"]) for c in head["columns"])
        wanted = [f"{name}/time_s", *(f"{name}/{column.name}" for column in columns)]
        if head["log_time"]:
            wanted.append(f"{name}/log_time_s")
        samples = int(head["samples"])
        table = _checked_table(folder, "signals.parquet", files, wanted).slice(0, samples)
        if set(wanted) - set(table.column_names):
            raise RecordingError(f"{folder}/signals.parquet lacks the columns of {name!r}. Make the recording again.")

        def column_of(key: str) -> np.ndarray:
            values: np.ndarray = table[key].to_numpy()
            return values

        value = np.stack([column_of(f"{name}/{column.name}") for column in columns], axis=1)
        log_time = column_of(f"{name}/log_time_s") if head["log_time"] else None
        return Signal(name, head["kind"], columns, column_of(f"{name}/time_s"), value, np.isnan(value), log_time)

    return read


def _video_reader(folder: Path, heads: dict[str, Any], files: dict[str, str]) -> Any:
    def read(name: str) -> Video:
        head = heads[name]
        path = folder / "video" / f"{name}.mp4"
        if not path.is_file():
            raise RecordingError(f"{path} is missing. Restore it from the source.")
        table = _checked_table(folder, f"video/{name}.parquet", files)
        log_time = table["log_time_s"].to_numpy() if "log_time_s" in table.column_names else None
        return Video(
            head["camera"], path, head["pixels"], head["codec"], int(head["width"]), int(head["height"]),
            table["time_s"].to_numpy(), table["pts"].to_numpy(), table["key"].to_numpy(),
            head["packets_hash"], log_time,
        )  # fmt: skip

    return read


def verify_episode(folder: Path) -> None:
    """Reads every byte: each file has its hash, and the measurements give the episode's id."""
    head = read_sealed(folder / "episode.json", FORMAT, RecordingError)
    check_files(folder, head["files"], RecordingError)
    episode = read_episode(folder)
    if recomputed_id(episode) != episode.id:
        raise RecordingError(f"{folder}: its measurements no longer give the id {episode.id}. Make it again.")
