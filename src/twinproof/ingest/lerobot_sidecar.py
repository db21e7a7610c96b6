"""What LeRobot has no place for, in a folder that other readers pass by: true stamps, units, calibration, labels.

twinproof/rig.json                     the rig under which the dataset ingests back to the signals it came from
twinproof/episodes/ID/                 episode.json and signals.parquet as a recording has them, without pictures
twinproof/frames/episode_000000.parquet  camera, frame (in the episode), time_s, log_time_s of every picture
twinproof/episodes.json                ids in the dataset's order, hashes of the data and of the files above; last
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from twinproof.ingest.lerobot_table import read_small, reading
from twinproof.nouns.episode import Episode
from twinproof.nouns.episode_files import read_episode, write_episode
from twinproof.nouns.errors import RecordingError
from twinproof.nouns.files import SAFE_NAME, check_files, file_hashes, inside, read_json, write_json
from twinproof.nouns.hashing import hash_file
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Rig, rig_from
from twinproof.nouns.strict import plain

FOLDER = "twinproof"
FORMAT = "twinproof/lerobot-sidecar/1"
CAMERA = "observation.images."
_HASHED = ("data/", "videos/", "meta/info.json", "meta/episodes/")  # what an edit of the dataset would change


@dataclass(frozen=True)
class Shown:
    """The frames of a dataset's episode that show a new picture, and when each picture was really taken."""

    frame: np.ndarray
    time_s: np.ndarray
    log_time_s: np.ndarray | None = None


@dataclass(frozen=True)
class Sidecar:
    """A sidecar whose own files are whole and whose dataset is as it was written."""

    root: Path
    rig: Rig
    ids: tuple[str, ...]
    pixels: dict[str, str]  # camera feature -> pixels of the recording's camera
    left_out: tuple[str, ...]

    def episode(self, number: int) -> Episode:
        """The signals, labels and start of one episode, exactly as recorded."""
        return read_episode(self.root / FOLDER / "episodes" / self.ids[number])

    def shown(self, number: int) -> dict[str, Shown]:
        """Camera feature -> true stamps, for one episode."""
        path = self.root / FOLDER / "frames" / f"episode_{number:06d}.parquet"
        if not self.pixels:
            return {}
        table = read_small(path, ["camera", "frame", "time_s", "log_time_s"])
        with reading(path):
            camera = np.array(table["camera"].to_pylist())
            frame, time_s, log_time_s = (table[key].to_numpy() for key in ("frame", "time_s", "log_time_s"))
        found = {}
        for source in self.pixels:
            own = camera == source
            log = None if np.isnan(log_time_s[own]).any() else log_time_s[own]
            found[source] = Shown(frame[own], time_s[own], log)
        return found


def read_sidecar(root: Path) -> tuple[Sidecar | None, str | None]:
    """The sidecar of a dataset, or why there is none to use: the dataset was edited since. (None, None) if absent."""
    folder = inside(root, FOLDER, RecordingError)
    if not folder.is_dir():
        return None, None
    head = read_json(folder / "episodes.json", FORMAT, RecordingError)
    try:
        data = {str(name): str(value) for name, value in head["data"].items()}
        own = {str(name): str(value) for name, value in head["own"].items()}
        ids = tuple(str(id) for id in head["episodes"])
        pixels = {str(name): str(value) for name, value in head["pixels"].items()}
        left_out = tuple(str(text) for text in head["left_out"])
    except (KeyError, TypeError, AttributeError) as problem:
        raise RecordingError(
            f"{folder}/episodes.json is not whole ({problem!r}). Restore it, or remove {FOLDER}/ to read the dataset "
            "without its true stamps."
        ) from None
    if not all(SAFE_NAME.fullmatch(id) for id in ids):
        raise RecordingError(f"{folder}/episodes.json names an episode that is no episode id. Restore it.")
    for name, stated in data.items():
        path = inside(root, name, RecordingError)
        if not path.is_file() or hash_file(path) != stated:
            return None, f"{FOLDER}/: {name} was changed since it was written, so true stamps and units are not used"
    check_files(root, own, RecordingError)
    rig = read_json(folder / "rig.json", FORMAT, RecordingError)
    return Sidecar(root, rig_from(rig.get("rig")), ids, pixels, left_out), None


def sidecar_rig(root: Path) -> Rig | None:
    """The rig under which a dataset written by `write_lerobot` ingests back to equal signals; None without one.

    Each signal's source is its own name in the recording, with its columns and SI units; each camera's source is its
    LeRobot feature. Labels and outcomes come from the sidecar, so the rig has no label rules. A signal whose columns
    are in different frames comes back in the first column's frame, because a rig gives a signal one frame.
    """
    sidecar, _ = read_sidecar(root)
    return None if sidecar is None else sidecar.rig


def add_episode(root: Path, number: int, episode: Episode, shown: Mapping[str, Shown]) -> None:
    """Writes one episode's part of the sidecar of a dataset that is being written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = root / FOLDER
    write_episode(folder / "episodes" / episode.id, replace(episode, videos={}))
    if not shown:
        return
    absent = {name: np.full(len(own.frame), np.nan) for name, own in shown.items()}
    table = {
        "camera": np.concatenate([np.full(len(own.frame), name) for name, own in shown.items()]),
        "frame": np.concatenate([own.frame for own in shown.values()]),
        "time_s": np.concatenate([own.time_s for own in shown.values()]),
        "log_time_s": np.concatenate(
            [absent[name] if own.log_time_s is None else own.log_time_s for name, own in shown.items()]
        ),
    }
    (folder / "frames").mkdir(exist_ok=True)
    path = folder / "frames" / f"episode_{number:06d}.parquet"
    pq.write_table(pa.table(table), path, compression="zstd", write_page_checksum=True)


def finish_sidecar(root: Path, recording: Recording, pixels: dict[str, str], left_out: tuple[str, ...]) -> None:
    """Writes the rig and the list of episodes with all hashes, after every other file of the dataset."""
    folder = root / FOLDER
    rig = _ingest_rig(recording, pixels)
    write_json(folder / "rig.json", {"format": FORMAT, "rig": plain(rig), "recorded_with": plain(recording.rig)})
    hashes = file_hashes(root)
    head = {
        "format": FORMAT,
        "episodes": [episode.id for episode in recording.episodes],
        "pixels": pixels,
        "left_out": list(left_out),
        "data": {name: value for name, value in hashes.items() if name.startswith(_HASHED)},
        "own": {name: value for name, value in hashes.items() if name.startswith(f"{FOLDER}/")},
    }
    write_json(folder / "episodes.json", head)


def _ingest_rig(recording: Recording, pixels: dict[str, str]) -> Rig:
    rig, signals = recording.rig, {}
    for name, signal in recording.episodes[0].signals.items():
        rule = {
            **(plain(rig.signals[name]) if name in rig.signals else {}),
            "source": name,
            "kind": signal.kind,
            "units": [column.unit for column in signal.columns],
            "columns": [column.name for column in signal.columns],
            "frame": signal.columns[0].frame,
        }
        rule.pop("unit", None)
        signals[name] = rule
    cameras = {}
    for source in pixels:
        name = source.removeprefix(CAMERA)
        known = plain(rig.cameras[name]) if name in rig.cameras else {"intrinsics_unknown": True}
        cameras[name] = {**known, "source": source}
    return rig_from({**plain(rig), "signals": signals, "cameras": cameras, "labels": [], "ignore": []})
