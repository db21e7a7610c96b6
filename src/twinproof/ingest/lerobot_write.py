"""A recording as a LeRobot v3.0 dataset: a fixed-rate float32 grid, videos joined, and a sidecar for all the rest.

Grid time k is the episode's first stamp + k / fps. Each value is the measured sample nearest in time, and each frame
the picture nearest in time: nothing is interpolated. The exact signals and stamps go into the sidecar.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.ingest.lerobot_sidecar import CAMERA, Shown, add_episode, finish_sidecar
from twinproof.ingest.lerobot_store import Codec, JoinedVideos, RowFiles, Tally, mebibytes
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import ConfigError, RecordingError
from twinproof.nouns.files import new_folder, remove_tree, write_json
from twinproof.nouns.hashing import Json
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.recording import Recording
from twinproof.nouns.signal import Signal
from twinproof.nouns.video import Video

DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
CHUNK_FILES = 1000
NO_TASK = "task not stated"
WHOLE = ("frame_index", "episode_index", "index", "task_index")


@dataclass(frozen=True)
class Plan:
    """Which signals and cameras of every episode become which features."""

    fps: int
    vectors: dict[str, tuple[str, ...]]  # feature -> the signals whose columns it joins
    cameras: dict[str, str]  # feature -> camera
    left_out: tuple[str, ...]


def write_lerobot(
    recording: Recording,
    out: Path,
    *,
    fps: int | None = None,
    codec: str = "libsvtav1",
    data_mb: int = 100,
    video_mb: int = 200,
    progress: Progress = quiet,
) -> tuple[str, ...]:
    """Writes the dataset, whole or not at all, and gives back what it could not hold: depth cameras.

    Joint positions become `observation.state`, joint commands `action`, any other signal `observation.NAME`, a camera
    `observation.images.NAME`. Without `fps`, the rate of the first camera, or of the first joint signal, is rounded.
    `twinproof.ingest.lerobot_sidecar.sidecar_rig` gives the rig that ingests the dataset back.
    """
    plan = _plan(recording, fps)
    with new_folder(out) as root:
        rows = RowFiles(root, DATA_PATH, mebibytes(data_mb), CHUNK_FILES)
        how = Codec(codec, plan.fps, mebibytes(video_mb), CHUNK_FILES)
        videos = {name: JoinedVideos(root, VIDEO_PATH, name, how) for name in plan.cameras}
        tasks: dict[str, int] = {}
        totals: dict[str, Tally] = {}
        table: list[dict[str, Json]] = []
        with contextlib.ExitStack() as ending:  # every file is ended, also when ending another one fails
            for open_file in (rows.close, *(joined.close for joined in videos.values())):
                ending.callback(open_file)
            for number, episode in enumerate(recording.episodes):
                task = tasks.setdefault(episode.labels.get("task", NO_TASK), len(tasks))
                entry, tallies = _write_one(root, plan, number, episode, task, rows, videos)
                table.append(entry)
                progress(number + 1, episode.id[:8], len(recording.episodes))
                totals = {name: totals[name].joined(own) if totals else own for name, own in tallies.items()}
        remove_tree(root / "parts")
        _write_meta(root, recording, plan, table, tasks, totals)
        write_json(root / "meta" / "info.json", _info(recording, plan, table, tasks, (data_mb, video_mb), videos))
        pixels = {name: recording.episodes[0].videos[camera].pixels for name, camera in plan.cameras.items()}
        finish_sidecar(root, recording, pixels, plan.left_out)
    return plan.left_out


def _plan(recording: Recording, fps: int | None) -> Plan:
    if fps is not None and fps < 1:
        raise ConfigError(f"fps is {fps}; LeRobot needs a whole number from 1 on.")
    first = recording.episodes[0]
    for episode in recording.episodes:
        if _columns(episode) != _columns(first) or set(episode.videos) != set(first.videos):
            raise RecordingError(
                f"episode {episode.source!r} has other signals, columns or cameras than {first.source!r}. A LeRobot "
                "dataset has one table of features: write them as two datasets."
            )
    vectors: dict[str, tuple[str, ...]] = {}
    for feature, kind in (("observation.state", "joint_position"), ("action", "joint_command")):
        if first.of_kind(kind):
            vectors[feature] = tuple(signal.name for signal in first.of_kind(kind))
    for name in sorted(first.signals):
        if first.signals[name].kind not in ("joint_position", "joint_command"):
            taken = f"observation.{name}" == "observation.state" or f"observation.{name}.".startswith(CAMERA)
            vectors[f"observation.signals.{name}" if taken else f"observation.{name}"] = (name,)
    flat = {name: video for name, video in first.videos.items() if video.pixels in ("rgb", "gray")}
    depth = [f"{name}: a depth camera; 8-bit video would round it" for name in first.videos if name not in flat]
    if not vectors and not flat:
        raise RecordingError("the recording has depth cameras alone, which a LeRobot dataset of ours cannot hold.")
    cameras = {f"{CAMERA}{name}": name for name in sorted(flat)}
    return Plan(_rate(first, flat) if fps is None else fps, vectors, cameras, tuple(depth))


def _columns(episode: Episode) -> dict[str, Json]:
    return {name: [signal.kind, [c.name for c in signal.columns]] for name, signal in episode.signals.items()}


def _rate(episode: Episode, cameras: dict[str, Video]) -> int:
    joints = [*episode.of_kind("joint_position"), *episode.of_kind("joint_command")]
    stamps = [cameras[name].time_s for name in sorted(cameras)]
    stamps += [signal.time_s for signal in (*joints, *episode.signals.values())]
    step = np.diff(stamps[0])
    return max(1, round(1 / float(np.median(step)))) if len(step) else 1


def _write_one(
    root: Path,
    plan: Plan,
    number: int,
    episode: Episode,
    task: int,
    rows: RowFiles,
    videos: dict[str, JoinedVideos],
) -> tuple[dict[str, Json], dict[str, Tally]]:
    """Writes one episode; gives its line in the table of episodes, and its statistics."""
    start_s, count = _grid(episode, plan)
    grid = start_s + np.arange(count) / plan.fps
    columns: dict[str, np.ndarray] = {
        name: np.concatenate([_nearest_values(episode, signal, grid) for signal in signals], axis=1)
        for name, signals in plan.vectors.items()
    }
    columns["timestamp"] = (np.arange(count) / plan.fps).astype(np.float32)[:, None]
    whole = (np.arange(count), np.full(count, number), rows.total + np.arange(count), np.full(count, task))
    columns.update({name: values[:, None].astype(np.int64) for name, values in zip(WHOLE, whole, strict=True)})
    tallies = {name: Tally.of(values) for name, values in columns.items()}
    low = rows.total
    chunk, file = rows.add(columns)
    entry: dict[str, Json] = {
        "episode_index": number,
        "tasks": [episode.labels.get("task", NO_TASK)],
        "length": count,
        "data/chunk_index": chunk,
        "data/file_index": file,
        "dataset_from_index": low,
        "dataset_to_index": low + count,
    }
    shown = {}
    for name, camera in plan.cameras.items():
        video = episode.videos[camera]
        picked = nearest(video.time_s, grid)
        tally, place = videos[name].add(_pictures(video, picked), video, root / "parts", count)
        tallies[name] = tally
        entry.update({f"videos/{name}/{key}": value for key, value in place.items()})
        new = np.flatnonzero(np.diff(picked, prepend=-1))
        log = None if video.log_time_s is None else video.log_time_s[picked[new]]
        shown[name] = Shown(new, video.time_s[picked[new]], log)
    for name, tally in tallies.items():
        entry.update({f"stats/{name}/{key}": value for key, value in tally.plain().items()})
    entry.update({"meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0})
    add_episode(root, number, episode, shown)
    return entry, tallies


def _grid(episode: Episode, plan: Plan) -> tuple[float, int]:
    """First stamp of any signal or camera written, and how many grid times reach the last one."""
    times = [signal.time_s for signal in episode.signals.values()]
    times += [episode.videos[camera].time_s for camera in plan.cameras.values()]
    low, high = min(float(t[0]) for t in times), max(float(t[-1]) for t in times)
    return low, int(np.floor((high - low) * plan.fps + 1e-6)) + 1


def nearest(stamps: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """For each grid time, the index of the stamp nearest to it; the earlier one of two equally near."""
    after = np.searchsorted(stamps, grid).clip(0, len(stamps) - 1)
    before = (after - 1).clip(0)
    closer: np.ndarray = np.where(np.abs(grid - stamps[before]) <= np.abs(stamps[after] - grid) + 1e-9, before, after)
    return closer


def _nearest_values(episode: Episode, name: str, grid: np.ndarray) -> np.ndarray:
    """The signal on the grid, float32; where a sample is marked missing, the nearest one that was measured."""
    signal: Signal = episode.signals[name]
    if signal.missing is None:
        value = signal.value[nearest(signal.time_s, grid)]
    else:
        value = np.empty((len(grid), len(signal.columns)))
        for j, column in enumerate(signal.columns):
            there = np.flatnonzero(~signal.missing[:, j])
            if not len(there):
                raise RecordingError(
                    f"{episode.source}: {name}/{column.name} has no measured value, and LeRobot cannot mark a value "
                    "missing. Leave the column out of the rig."
                )
            value[:, j] = signal.value[there[nearest(signal.time_s[there], grid)], j]
    if np.abs(value).max() > np.finfo(np.float32).max:
        raise RecordingError(f"{episode.source}: {name} holds {np.abs(value).max():.3g}, too large for float32.")
    single: np.ndarray = value.astype(np.float32)
    return single


def _pictures(video: Video, picked: np.ndarray) -> Iterator[np.ndarray]:
    with video.reader() as reader:
        for index in picked.tolist():
            yield reader.frame(index)


def _info(
    recording: Recording,
    plan: Plan,
    table: list[dict[str, Json]],
    tasks: dict[str, int],
    sizes_mb: tuple[int, int],
    videos: dict[str, JoinedVideos],
) -> dict[str, Json]:
    features: dict[str, Json] = {}
    for name, signals in plan.vectors.items():
        names = _names(recording.episodes[0], signals)
        features[name] = {"dtype": "float32", "shape": [len(names)], "names": names}
    for name, joined in videos.items():
        features[name] = joined.feature()
    features["timestamp"] = {"dtype": "float32", "shape": [1], "names": None}
    features.update({name: {"dtype": "int64", "shape": [1], "names": None} for name in WHOLE})
    return {
        "codebase_version": "v3.0",
        "robot_type": recording.rig.robot,
        "total_episodes": len(table),
        "total_frames": sum(entry["length"] for entry in table),
        "total_tasks": len(tasks),
        "chunks_size": CHUNK_FILES,
        "data_files_size_in_mb": sizes_mb[0],
        "video_files_size_in_mb": sizes_mb[1],
        "fps": plan.fps,
        "splits": {"train": f"0:{len(table)}"},
        "data_path": DATA_PATH,
        "video_path": VIDEO_PATH if videos else None,
        "features": features,
    }


def _names(episode: Episode, signals: tuple[str, ...]) -> list[str]:
    """Column names, with their signal's name in front where two signals share one."""
    pairs = [(signal, column.name) for signal in signals for column in episode.signals[signal].columns]
    plain = [column for _, column in pairs]
    return plain if len(set(plain)) == len(plain) else [f"{signal}.{column}" for signal, column in pairs]


def _write_meta(
    root: Path,
    recording: Recording,
    plan: Plan,
    table: list[dict[str, Json]],
    tasks: dict[str, int],
    totals: dict[str, Tally],
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = root / "meta" / "episodes" / "chunk-000"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(table), folder / "file-000.parquet", write_page_checksum=True)
    pq.write_table(_tasks_table(tasks), root / "meta" / "tasks.parquet", write_page_checksum=True)
    write_json(root / "meta" / "stats.json", {name: tally.plain() for name, tally in totals.items()})


def _tasks_table(tasks: dict[str, int]) -> Any:
    """A pandas frame whose index is the task's text, as LeRobot's own loader expects; pandas itself is not needed."""
    import pyarrow as pa

    def column(name: str, kind: str, numpy_kind: str) -> Json:
        return {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": numpy_kind, "metadata": None}

    described = {
        "index_columns": ["task"],
        "column_indexes": [{**column("", "unicode", "object"), "name": None, "field_name": None}],
        "columns": [column("task_index", "int64", "int64"), column("task", "unicode", "object")],
        "creator": {"library": "pyarrow", "version": pa.__version__},
        "pandas_version": "2.2.3",
    }
    table = pa.table({"task_index": pa.array(list(tasks.values()), pa.int64()), "task": list(tasks)})
    return table.replace_schema_metadata({"pandas": json.dumps(described)})
