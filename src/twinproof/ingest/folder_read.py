"""Plain folders: tables, pictures, videos and a little JSON, as people keep them.

    SOURCE/EPISODE/state.csv          a table with a time column is a signal called `state` (Parquet likewise)
    SOURCE/EPISODE/front.mp4          a camera; stamps from front.csv, front.parquet or front.json, else the file's own
    SOURCE/EPISODE/front/0001.png …   a camera; stamps from front/times.csv (file, time_s)
    SOURCE/EPISODE/episode.json       optional: {"labels": {...}, "outcome": "success"}

Without episode folders, the files of SOURCE are one episode; several tables that share at least half of their columns,
and nothing else, are an episode each, their signal called `table`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinproof.ingest.picture_feed import PICTURES, FileFeed, PictureFeed
from twinproof.ingest.raw import Feed, Probe, ProbedCamera, ProbedSignal, RawEpisode, RawSignal
from twinproof.ingest.tables import TABLES, read_table
from twinproof.nouns.errors import RecordingError
from twinproof.nouns.files import inside
from twinproof.nouns.hashing import Json
from twinproof.nouns.pictures import picture_head
from twinproof.nouns.rig import Intrinsics, Rig
from twinproof.nouns.video_write import index_packets

VIDEOS = (".mp4", ".mkv", ".mov", ".avi", ".webm")
TIMES = "times.csv"


@dataclass(frozen=True)
class Take:
    """The files of one episode: tables by signal name, cameras by name."""

    name: str
    tables: dict[str, Path]
    cameras: dict[str, Path]  # a video file, or a folder of pictures
    about: Path | None = None


def is_folder(root: Path) -> bool:
    """Whether a folder holds tables, videos or pictures that this reader takes."""
    return root.is_dir() and any(path.suffix.lower() in (*TABLES, *VIDEOS, *PICTURES) for path in root.rglob("*"))


class FolderReader:
    """Reads a plain folder; the layout is looked at once, files are opened one episode at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._left_out: list[str] = []
        self._takes = self._look()

    def _look(self) -> list[Take]:
        below = [p for p in _entries(self.root) if p.is_dir() and not _is_pictures(p)]
        folders = [p for p in below if _has_data(p)]
        flat = self._take(self.root, self.root.name)
        if folders:
            if empty := [p for p in below if p not in folders]:
                raise RecordingError(
                    f"the episode folder {empty[0]} holds no table, video or pictures directly inside"
                    f"{_holds(empty[0])}. Put its files there, or move the folder out of {self.root}."
                )
            if flat.tables or flat.cameras:
                stray = next(iter({**flat.tables, **flat.cameras}.values()))
                raise RecordingError(
                    f"{self.root} has episode folders ({folders[0].name}, …) and also {stray.name} beside them. "
                    "Put it into its episode's folder."
                )
            return [self._take(folder, folder.name) for folder in folders]
        self._left_out += [f"{p.relative_to(self.root).as_posix()}/" for p in below]
        if len(flat.tables) > 1 and not flat.cameras:
            headers = [set(read_table(path).names) for path in flat.tables.values()]
            if 2 * len(set.intersection(*headers)) >= max(len(header) for header in headers):
                return [Take(name, {"table": path}, {}) for name, path in sorted(flat.tables.items())]
        return [flat]

    def _take(self, folder: Path, name: str) -> Take:
        tables: dict[str, Path] = {}
        cameras: dict[str, Path] = {}
        about = None
        entries = _entries(folder)
        stems = {path.stem for path in entries if path.suffix.lower() in VIDEOS}
        for path in entries:
            suffix = path.suffix.lower()
            if path.is_dir() and _is_pictures(path):
                cameras[path.name] = path
            elif suffix in VIDEOS:
                cameras[path.stem] = path
            elif suffix in TABLES and path.stem not in stems:
                if path.stem in tables:
                    raise RecordingError(
                        f"{folder}: {path.name} and {tables[path.stem].name} are one signal. Keep one."
                    )
                tables[path.stem] = path
            elif path.name == "episode.json":
                about = path
            elif path.is_file() and not (suffix in (*TABLES, ".json") and path.stem in stems):
                self._left_out.append(path.relative_to(self.root).as_posix())
        if any(path.suffix.lower() in PICTURES for path in entries):
            cameras["camera"] = folder
            self._left_out = [left for left in self._left_out if Path(left).suffix.lower() not in PICTURES]
        return Take(name, tables, cameras, about)

    def episodes(self, rig: Rig) -> Iterator[RawEpisode]:
        """One episode a folder (or a table), in the order of their names."""
        for number, take in enumerate(self._takes):
            if (reason := rig.leaves_out(number, take.name)) is not None:
                self._left_out.append(f"episode {take.name}: {reason}")
            else:
                yield self._read(number, take)

    def _read(self, number: int, take: Take) -> RawEpisode:
        labels, outcome = _about(take.about)
        tables = {name: read_table(path) for name, path in take.tables.items()}
        start_ns = min((table.start_ns for table in tables.values()), default=0)
        signals = []
        for name, table in tables.items():
            labels = {**table.constants, **labels}
            self._left_out += [f"{take.name}/{name}/{column}" for column in table.texts]
            signals.append(table.signal(name, start_ns))
        feeds = tuple(_feed(name, path) for name, path in take.cameras.items())
        return RawEpisode(number, take.name, tuple(signals), feeds, start_ns, labels, outcome)

    def describe(self) -> dict[str, Json]:
        """What was read and what was left out."""
        files = sorted(path for path in self.root.rglob("*") if path.is_file())
        sizes = {path.relative_to(self.root).as_posix(): path.stat().st_size for path in files}
        return {"kind": "folder", "name": self.root.name, "files": sizes, "left_out": sorted(set(self._left_out))}

    def probe(self) -> Probe:
        """Signals and cameras of the first episode."""
        first = self._read(0, self._takes[0])
        signals = tuple(probe_signal(signal) for signal in first.signals)
        cameras = tuple(_probe_camera(name, path) for name, path in self._takes[0].cameras.items())
        return Probe(self.root.name, signals, cameras, tuple(take.name for take in self._takes), self._strange(signals))

    def _strange(self, signals: tuple[ProbedSignal, ...]) -> tuple[str, ...]:
        """Columns that later episodes have and the first does not; a first rig leaves them out, for a person to see."""
        known = {signal.source: set(signal.columns) for signal in signals}
        found: dict[str, None] = {}
        for take in self._takes[1:]:
            for name, path in take.tables.items():
                for column in read_table(path).numbers:
                    if name in known and column not in known[name]:
                        found[f"{name}/{column}"] = None
        return tuple(found)


def probe_signal(signal: RawSignal) -> ProbedSignal:
    """What a table tells about a signal: its columns and the values seen."""
    kind = "other"
    with np.errstate(all="ignore"):
        low, high = np.nanmin(signal.value, axis=0), np.nanmax(signal.value, axis=0)
    return ProbedSignal(signal.source, signal.columns, kind, None, tuple(low.tolist()), tuple(high.tolist()))


def _probe_camera(name: str, path: Path) -> ProbedCamera:
    if path.is_dir():
        first = _pictures(path)[0]
        head = picture_head(first.read_bytes(), str(first))
        return ProbedCamera(name, head.width, head.height)
    packets = index_packets(path, name)
    return ProbedCamera(name, packets.width, packets.height, _beside(path)[1])


def _holds(folder: Path) -> str:
    names = [path.name for path in _entries(folder)]
    return f" (it has {', '.join(names[:3])})" if names else " (it is empty)"


def _entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _pictures(folder: Path) -> list[Path]:
    return [path for path in _entries(folder) if path.suffix.lower() in PICTURES]


def _is_pictures(folder: Path) -> bool:
    return bool(_pictures(folder))


def _has_data(folder: Path) -> bool:
    return any(path.suffix.lower() in (*TABLES, *VIDEOS) or _is_camera(path) for path in _entries(folder))


def _is_camera(path: Path) -> bool:
    return path.is_dir() and _is_pictures(path)


def _about(path: Path | None) -> tuple[dict[str, str], str]:
    if path is None:
        return {}, "unknown"
    try:
        about = json.loads(path.read_bytes())
        return {str(k): str(v) for k, v in about.get("labels", {}).items()}, str(about.get("outcome", "unknown"))
    except (ValueError, AttributeError, OSError, RecursionError) as problem:
        raise RecordingError(f"{path} is not readable JSON with labels and outcome ({problem}). Mend it.") from None


def _feed(name: str, path: Path) -> Feed:
    if path.is_file():
        times, intrinsics = _beside(path)
        return FileFeed(name, path, times, intrinsics)
    files = _pictures(path)
    table = path / TIMES
    if not table.is_file():
        raise RecordingError(
            f"camera {name}: {len(files)} pictures in {path} have no times. Add {TIMES} there with the columns "
            "file,time_s, one row a picture."
        )
    stamps = read_table(table)
    names = stamps.texts.get("file")
    if names is None:
        raise RecordingError(f"{table}: the column 'file' is missing. Give one row a picture: file,time_s.")
    listed = [inside(path, file, RecordingError) for file in names]
    if absent := [file for file in listed if not file.is_file()]:
        raise RecordingError(f"{table} lists {absent[0].name}, which is not there. Restore it, or remove the row.")
    if extra := sorted(set(files) - set(listed)):
        raise RecordingError(f"{table} does not list {extra[0].name}. Add its row, or remove the picture.")
    return PictureFeed(name, tuple(listed), stamps.time_ns / 1e9)


def _beside(video: Path) -> tuple[np.ndarray | None, Intrinsics | None]:
    """Stamps and intrinsics in a file of the same name: a table, or JSON with `timestamps` and `K`."""
    for suffix in TABLES:
        if (table := video.with_suffix(suffix)).is_file():
            return read_table(table).time_ns / 1e9, None
    about = video.with_suffix(".json")
    if not about.is_file():
        return None, None
    try:
        data = json.loads(about.read_bytes())
        times = np.array([float(t) for t in data["timestamps"]])
        K = data.get("K")
        intrinsics = None if K is None else Intrinsics(float(K[0][0]), float(K[1][1]), float(K[0][2]), float(K[1][2]))
    except (ValueError, KeyError, TypeError, IndexError, OSError, RecursionError) as problem:
        raise RecordingError(f"{about}: timestamps cannot be read ({problem!r}). Give a list of seconds.") from None
    return times, intrinsics
