"""LeRobot datasets, v2.1 and v3.0, with Parquet and PyAV alone: one episode in memory at a time, none left out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.ingest.lerobot_feeds import ImageFeed, VideoFeed
from twinproof.ingest.lerobot_layout import BOOKKEEPING, Entry, Feature, Layout, is_lerobot, read_layout
from twinproof.ingest.lerobot_sidecar import Shown, Sidecar, read_sidecar, sidecar_rig
from twinproof.ingest.lerobot_table import column_names, numbers, read_rows, row_count, texts, whole_numbers
from twinproof.ingest.raw import Feed, Probe, ProbedCamera, ProbedSignal, RawEpisode, RawSignal
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import RecordingError
from twinproof.nouns.hashing import Json
from twinproof.nouns.rig import Rig
from twinproof.nouns.video_write import Packets, index_packets

__all__ = ["LeRobotReader", "is_lerobot", "sidecar_rig"]

KINDS = {"observation.state": "joint_position", "action": "joint_command"}
TURN_RAD = 2 * math.pi * 1.05  # a joint angle beyond a whole turn is taken for degrees


class LeRobotReader:
    """Reads a dataset's episodes in order. Text becomes labels, pictures become feeds, every other feature a signal.

    Time is frame / fps, which is all that LeRobot keeps; a dataset that `write_lerobot` made has its true stamps, and
    its signals under their own names, in a sidecar (`lerobot_sidecar`), which is used while the data are unchanged.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._packets: dict[Path, Packets] = {}
        self._read: set[Path] = set()
        self._left_out: dict[str, None] = {}  # an ordered set

    @cached_property
    def _layout(self) -> Layout:
        layout = read_layout(self.root)
        self._read.update(layout.meta)
        self._left_out.update(dict.fromkeys(layout.stray))
        self._check_row_counts(layout)
        return layout

    @cached_property
    def _sidecar(self) -> Sidecar | None:
        sidecar, stale = read_sidecar(self.root)
        if stale:
            self._left_out[stale] = None
        if sidecar and len(sidecar.ids) != len(self._layout.entries):
            raise RecordingError(
                f"{self.root}/twinproof/episodes.json lists {len(sidecar.ids)} episodes, the dataset has "
                f"{len(self._layout.entries)}. Restore it, or remove the folder."
            )
        self._left_out.update(dict.fromkeys(sidecar.left_out if sidecar else ()))
        return sidecar

    def probe(self) -> Probe:
        """Features of the first episode, with ranges, and a guess at kinds and units."""
        layout = self._layout
        first = self._episode(layout.entries[0], Rig("unknown"), check_videos=False)
        signals = tuple(_probed(signal) for signal in first.signals)
        cameras = tuple(ProbedCamera(f.name, *f.size) for f in layout.features.values() if f.is_camera)
        return Probe(layout.robot, signals, cameras, tuple(entry.name for entry in layout.entries))

    def episodes(self, rig: Rig) -> Iterator[RawEpisode]:
        """Every episode, or an error: none is skipped. Features that the rig ignores are not read."""
        for entry in self._layout.entries:
            if (reason := rig.leaves_out(entry.index, entry.name)) is not None:
                self._left_out[f"{entry.name}: {reason}"] = None
            else:
                yield self._episode(entry, rig, check_videos=True)

    def describe(self) -> dict[str, Json]:
        """Version, files read, and what was left out."""
        version = self._layout.version
        files = {path.relative_to(self.root).as_posix(): path.stat().st_size for path in sorted(self._read)}
        left_out = list(self._left_out)
        name = self.root.absolute().name
        return {"kind": "lerobot", "version": version, "name": name, "files": files, "left_out": left_out}

    def _check_row_counts(self, layout: Layout) -> None:
        """Rows are the truth: a table of episodes that promises more or fewer is refused."""
        stated: dict[Path, int] = {}
        for entry in layout.entries:
            stated[entry.data] = stated.get(entry.data, 0) + entry.length
        for path, rows in stated.items():
            found = row_count(path)
            if found != rows:
                raise RecordingError(
                    f"{path} has {found} rows, the table of episodes gives its episodes {rows}. The recorder was "
                    "stopped while writing: restore the file or the table, or remove the unfinished episode."
                )

    def _episode(self, entry: Entry, rig: Rig, *, check_videos: bool) -> RawEpisode:
        features = {name: f for name, f in self._layout.features.items() if not rig.ignores(name)}
        self._note_undeclared(entry)
        flat = [name for name, feature in features.items() if not feature.is_camera]
        table = read_rows(entry.data, entry.row, entry.length, [*BOOKKEEPING, *flat])
        self._read.add(entry.data)
        time_s, notes = _time(table, entry, self._layout.fps)
        labels = {"task": self._task(table, entry, notes)}
        signals = []
        for name in flat:
            if features[name].dtype == "string":
                labels.update(self._text(table, name, entry))
            else:
                signals.append(_signal(table, features[name], time_s, entry))
        outcome = _outcome(signals)
        if self._sidecar is not None and not self._reads_features(rig):
            exact, shown = self._sidecar.episode(entry.index), self._sidecar.shown(entry.index)
            feeds = self._feeds(entry, features, time_s, shown, check_videos)
            return _restored(exact, entry, feeds, rig)
        feeds = self._feeds(entry, features, time_s, {}, check_videos)
        return RawEpisode(
            entry.index, entry.name, tuple(signals), feeds, labels=labels, outcome=outcome, notes=tuple(notes)
        )

    def _reads_features(self, rig: Rig) -> bool:
        """Whether the rig reads the dataset as any other tool would, by its features, past the sidecar."""
        sources = [rule.source for rule in rig.signals.values()]
        return bool(sources) and all(source in self._layout.features for source in sources)

    def _note_undeclared(self, entry: Entry) -> None:
        for name in column_names(entry.data):
            if name not in self._layout.features and name not in BOOKKEEPING:
                self._left_out[f"{name}: a column of the data that meta/info.json does not list"] = None

    def _task(self, table: Any, entry: Entry, notes: list[str]) -> str:
        found = dict.fromkeys(whole_numbers(table, "task_index", entry.data).tolist())
        for index in found:
            if index not in self._layout.tasks:
                raise RecordingError(
                    f"{entry.data}: {entry.name} has task_index {index}; the table of tasks has "
                    f"{len(self._layout.tasks)} tasks. Restore the table of tasks."
                )
        if len(found) > 1:
            notes.append(f"the task changes {len(found) - 1} times or more; the label joins the texts in order")
        return " | ".join(self._layout.tasks[index] for index in found)

    def _text(self, table: Any, name: str, entry: Entry) -> dict[str, str]:
        values = set(texts(table, name, entry.data))
        (value,) = values if len(values) == 1 else (None,)
        if value is None:
            why = "holds no text" if values == {None} else "a text that changes within an episode"
            self._left_out[f"{name}: {why} ({entry.name})"] = None
            return {}
        return {name: value}

    def _feeds(
        self, entry: Entry, features: dict[str, Feature], time_s: np.ndarray, shown: dict[str, Shown], check: bool
    ) -> tuple[Feed, ...]:
        feeds: list[Feed] = []
        for name, feature in features.items():
            if feature.dtype == "image":
                feeds.append(ImageFeed(name, entry.data, entry.row, time_s, self.root))
            elif feature.dtype == "video":
                span = entry.videos[name]
                if check and not span.path.is_file():
                    raise RecordingError(
                        f"{entry.name}: the video {span.path} of {name!r} is missing. Restore it, or add {name!r} to "
                        "ignore = [...] in the rig."
                    )
                if check:
                    self._read.add(span.path)
                pixels = self._sidecar.pixels.get(name, "rgb") if self._sidecar else "rgb"
                feeds.append(
                    VideoFeed(
                        name, span.path, span.from_s, time_s, self._layout.fps, self._index, feature, pixels,
                        shown.get(name),
                    )
                )  # fmt: skip
        return tuple(feeds)

    def _index(self, path: Path, camera: str) -> Packets:
        if path not in self._packets:
            self._packets[path] = index_packets(path, camera)
        return self._packets[path]


def _time(table: Any, entry: Entry, fps: float) -> tuple[np.ndarray, list[str]]:
    """frame / fps where the stamps say just that, up to float32; otherwise the stamps themselves."""
    where = f"{entry.data}: {entry.name}"
    owner = whole_numbers(table, "episode_index", entry.data)
    if (owner != entry.index).any():
        row = int(np.argmax(owner != entry.index))
        raise RecordingError(
            f"{where}: row {entry.row + row} belongs to episode {int(owner[row])}. The table of episodes and the rows "
            "disagree: restore one of them."
        )
    frame = whole_numbers(table, "frame_index", entry.data)
    if (frame != np.arange(len(frame))).any():
        row = int(np.argmax(frame != np.arange(len(frame))))
        raise RecordingError(
            f"{where}: frame_index is {int(frame[row])} at frame {row}. Frames are numbered 0, 1, 2, …: rows are "
            "missing or out of order; restore the file."
        )
    value, missing = numbers(table, "timestamp", (1,), entry.data)
    stamps, grid = value[:, 0], frame / fps
    if missing is not None or not np.isfinite(stamps).all():
        raise RecordingError(f"{where}: a timestamp is null, NaN or infinite. Re-stamp the rows.")
    if (np.abs(stamps - grid) <= 1e-4 + 2.0**-23 * grid).all():
        return grid, []
    return stamps, ["timestamps are not frame / fps; they are kept as they are"]


def _signal(table: Any, feature: Feature, time_s: np.ndarray, entry: Entry) -> RawSignal:
    value, missing = numbers(table, feature.name, feature.shape, entry.data)
    flag = feature.dtype == "bool"
    return RawSignal(
        feature.name, feature.columns, time_s, value, missing,
        unit="1" if flag else None, kind="event" if flag else None,
    )  # fmt: skip


def _outcome(signals: list[RawSignal]) -> str:
    for signal in signals:
        if signal.source == "next.success" and np.isfinite(signal.value[-1]).all():
            return "success" if signal.value[-1].all() else "failure"
    return "unknown"


def _restored(exact: Episode, entry: Entry, feeds: tuple[Feed, ...], rig: Rig) -> RawEpisode:
    """The episode as the sidecar has it, with the dataset's pictures."""
    signals = []
    for name, signal in exact.signals.items():
        if rig.ignores(name):
            continue
        signals.append(
            RawSignal(
                name, tuple(column.name for column in signal.columns), signal.time_s, signal.value, signal.missing,
                signal.log_time_s, None, tuple(column.unit for column in signal.columns), signal.kind,
                signal.columns[0].frame,
            )
        )  # fmt: skip
    return RawEpisode(
        entry.index, exact.source or entry.name, tuple(signals), feeds, exact.start_ns, dict(exact.labels),
        exact.outcome, exact.notes,
    )  # fmt: skip


def _probed(signal: RawSignal) -> ProbedSignal:
    value = np.where(np.isfinite(signal.value), signal.value, np.nan)
    blank = np.isnan(value).all(axis=0)
    low = np.where(blank, 0.0, np.min(np.where(np.isnan(value), np.inf, value), axis=0))
    high = np.where(blank, 0.0, np.max(np.where(np.isnan(value), -np.inf, value), axis=0))
    unit = signal.units[0] if signal.units and len(set(signal.units)) == 1 else signal.unit
    if unit is None and signal.source in KINDS:
        unit = "deg" if max(np.abs(low).max(), np.abs(high).max()) > TURN_RAD else "rad"
    kind = signal.kind or KINDS.get(signal.source, "other")
    return ProbedSignal(signal.source, signal.columns, kind, unit, tuple(low.tolist()), tuple(high.tolist()))
