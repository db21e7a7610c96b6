"""ROS 2 bags: one bag is one episode, header stamps for physics, log times kept for latency."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twinproof.ingest.bag_feed import BagFeed
from twinproof.ingest.bag_find import Bag, find_bags, is_bag
from twinproof.ingest.bag_messages import InfoTrack, PictureTrack, Track, sources_of, track_for
from twinproof.ingest.bag_sidecar import NAME, Sidecar, SignalNote, exact_times, read_sidecar, sidecar_rig
from twinproof.ingest.bag_storage import Topic, clear_errors, need_ros
from twinproof.ingest.bag_table import Table
from twinproof.ingest.raw import Probe, ProbedCamera, ProbedSignal, RawEpisode, RawSignal
from twinproof.nouns.errors import RecordingError, RigError
from twinproof.nouns.rig import Rig

if TYPE_CHECKING:
    from jaxtyping import Int

    from twinproof.nouns.hashing import Json
    from twinproof.nouns.rig import Intrinsics

__all__ = ["BagReader", "is_bag", "sidecar_rig"]

# What every ROS 2 bag carries about ROS itself; a first rig leaves it out.
HOUSEKEEPING = ("/rosout", "/parameter_events", "/clock", "/diagnostics", "/events/write_split")


@dataclass
class _Content:
    """What one pass over a bag found."""

    tracks: dict[str, Track] = field(default_factory=dict)  # by topic
    topics: dict[str, Topic] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    messages: int = 0
    cut: dict[str, int] = field(default_factory=dict)  # messages of each file that ends too early
    tables: list[Table] = field(default_factory=list)

    def pictures(self) -> list[PictureTrack]:
        """The camera topics that have pictures."""
        return [track for track in self.tracks.values() if isinstance(track, PictureTrack) and len(track)]


class BagReader:
    """Reads a bag, a bare .mcap or .db3, or a folder of these; names sorted."""

    def __init__(self, source: Path) -> None:
        need_ros()
        self._source = source
        self._bags, strangers = find_bags(source)
        self._left_out: dict[str, Json] = dict(strangers)
        self._recovered: dict[str, Json] = {}

    def probe(self) -> Probe:
        """Signals with the range they have in the first bag, cameras with size and calibration."""
        bag = self._bags[0]
        with clear_errors(bag.path):
            content = _scan(bag, Rig("unknown"))
            cameras = []
            for track in content.pictures():
                empty = np.zeros(0)
                feed = BagFeed(track.topic.name, bag, track.topic, track.places()[:1], empty, None)
                cameras.append(ProbedCamera(feed.source, *feed.size(), _intrinsics(content, feed.source)))
            if not content.tables and not cameras:
                raise RecordingError(_nothing(bag, content))
            good = [table for table in content.tables if not table.problem and table.source not in HOUSEKEEPING]
            signals = tuple(_probed(table) for table in good)
        ignore = tuple(table.source for table in content.tables if table not in good)
        return Probe("robot", signals, tuple(cameras), tuple(bag.name for bag in self._bags), ignore)

    def episodes(self, rig: Rig) -> Iterator[RawEpisode]:
        """One episode for each bag."""
        for number, bag in enumerate(self._bags):
            if (reason := rig.leaves_out(number, bag.name)) is not None:
                self._left_out[f"episode {bag.name}"] = reason
                continue
            with clear_errors(bag.path):
                episode = self._episode(number, bag, rig)
            yield episode

    def describe(self) -> dict[str, Json]:
        """Storage, files with their sizes, what was recovered and what was left out."""
        files = sorted(path for bag in self._bags for path in bag.files)
        versions = sorted({str(bag.version) if bag.version is not None else "bare" for bag in self._bags})
        return {
            "kind": "ros2_bag",
            "version": ", ".join(versions),
            "storage": sorted({bag.storage for bag in self._bags}),
            "files": {self._relative(path): path.stat().st_size for path in files},
            "recovered": dict(self._recovered),
            "left_out": [f"{name}: {reason}" for name, reason in self._left_out.items()],
        }

    def _relative(self, path: Path) -> str:
        root = self._source if self._source.is_dir() else self._source.parent
        return path.relative_to(root).as_posix()

    def _episode(self, number: int, bag: Bag, rig: Rig) -> RawEpisode:
        sidecar = read_sidecar(bag)
        content = _scan(bag, rig)
        self._left_out |= content.left_out
        tables = [table for table in content.tables if not rig.ignores(table.source)]
        for table in tables:
            if table.problem:
                raise RecordingError(
                    f"{bag.name}: {table.source} {table.problem}. Leave it out with ignore = ['{table.source}']."
                )
        if not tables and not content.pictures():
            raise RecordingError(_nothing(bag, content))
        notes = self._notes(bag, content)
        clocks = _Clocks.of(tables, content.pictures(), rig, sidecar)
        notes += clocks.notes
        signals = tuple(clocks.signal(table, bool(content.cut)) for table in tables)
        feeds = tuple(clocks.feed(track, bag, content) for track in content.pictures())
        if sidecar is None:
            return RawEpisode(number, bag.name, signals, feeds, clocks.start_ns, notes=tuple(notes))
        return RawEpisode(
            number, sidecar.source, signals, feeds, sidecar.start_ns, sidecar.labels, sidecar.outcome,
            (*sidecar.notes, *notes),
        )  # fmt: skip

    def _notes(self, bag: Bag, content: _Content) -> list[str]:
        notes = [track.note for track in content.tracks.values() if isinstance(track, InfoTrack) and track.note]
        for name, messages in content.cut.items():
            notes.append(
                f"{name}: recovered: true, {messages} messages up to the last whole chunk; how many were lost "
                "is unknown"
            )
            path = next(path for path in bag.files if path.name == name)
            self._recovered[self._relative(path)] = {"recovered": True, "messages": messages}
        if bag.counted is not None and bag.counted != content.messages:
            notes.append(f"metadata.yaml counts {bag.counted} messages, the files hold {content.messages}")
        return notes


def _scan(bag: Bag, rig: Rig) -> _Content:
    content = _Content()

    def open_topic(topic: Topic) -> Track | None:
        if all(rig.ignores(source) for source in sources_of(topic)):
            return None
        if topic.name in content.topics:
            if content.topics[topic.name].msgtype != topic.msgtype:
                raise RecordingError(
                    f"{bag.name}: {topic.name} is {content.topics[topic.name].msgtype} and also {topic.msgtype}. "
                    f"Leave it out with ignore = ['{topic.name}'], or rename one."
                )
            return content.tracks.get(topic.name)
        content.topics[topic.name] = topic
        track = track_for(topic, content.left_out)
        if track is not None:
            content.tracks[topic.name] = track
        return track

    content.messages, content.cut = bag.scan(open_topic)
    cameras = {_camera_of(track.topic.name) for track in content.pictures()}
    for name, track in content.tracks.items():
        if isinstance(track, InfoTrack):
            if _camera_of(name) not in cameras:
                content.left_out[name] = "a calibration without a picture topic beside it"
            continue
        tables = track.tables()
        content.tables += tables
        if not tables and not (isinstance(track, PictureTrack) and len(track)):
            content.left_out[name] = "no message with a value"
    return content


def _camera_of(topic: str) -> str:
    """The namespace of a camera: /cam for /cam/image_raw, /cam/image_raw/compressed and /cam/camera_info."""
    parts = topic.rstrip("/").split("/")
    if parts[-1] in ("compressed", "compressedDepth"):
        parts.pop()
    return "/".join(parts[:-1])


def _intrinsics(content: _Content, picture_topic: str) -> Intrinsics | None:
    for name, track in content.tracks.items():
        if isinstance(track, InfoTrack) and _camera_of(name) == _camera_of(picture_topic):
            return track.intrinsics
    return None


def _nothing(bag: Bag, content: _Content) -> str:
    why = "; ".join(f"{name}: {reason}" for name, reason in content.left_out.items()) or "it has no messages"
    return f"{bag.path} has no topic that can be read ({why}). Remove the bag from the source."


def _probed(table: Table) -> ProbedSignal:
    value = np.where(np.isfinite(table.value), table.value, np.nan)
    low, high = (), ()
    if len(value) and not np.isnan(value).all(axis=0).any():
        low, high = tuple(np.nanmin(value, axis=0).tolist()), tuple(np.nanmax(value, axis=0).tolist())
    unset = table.stamp_ns is not None and bool((table.stamp_ns == 0).any())
    time = "log" if unset else "header"
    return ProbedSignal(table.source, table.columns, table.kind or "other", table.unit, low, high, table.units, time)


@dataclass
class _Clocks:
    """Which clock each source uses, and the stamp at time 0."""

    log_timed: frozenset[str]
    sidecar: Sidecar | None
    start_ns: int = 0
    notes: list[str] = field(default_factory=list)

    @staticmethod
    def of(tables: list[Table], pictures: list[PictureTrack], rig: Rig, sidecar: Sidecar | None) -> _Clocks:
        """The clocks that the rig asks for; a type without a header has only log times, and a note says so."""
        asked: dict[str, str] = {}
        rules = [(rule.source, rule.time) for rule in rig.signals.values()]
        for source, time in rules + [(camera.source, camera.time) for camera in rig.cameras.values()]:
            if asked.setdefault(source, time) != time:
                raise RigError(f"rig: {source!r} is read with time = 'header' and with time = 'log'. Keep one of them.")
        clocks = _Clocks(frozenset(source for source, time in asked.items() if time == "log"), sidecar)
        bare = [table.source for table in tables if table.stamp_ns is None and table.source not in clocks.log_timed]
        stamped = len(tables) + len(pictures) > len(bare)
        if bare and stamped:
            clocks.notes.append(f"{', '.join(bare)}: no header in this type, so log times are its times")
        used = [clocks.chosen(table.source, table.stamp_ns, table.log_ns) for table in tables if not table.static]
        used += [clocks.chosen(track.topic.name, *track.times()) for track in pictures]
        used = used or [table.log_ns for table in tables]
        clocks.start_ns = min(int(stamps.min()) for stamps in used)
        if sidecar is not None:
            clocks.start_ns = sidecar.start_ns + sidecar.shift_ns
        return clocks

    def chosen(
        self, source: str, stamp_ns: Int[np.ndarray, "T"] | None, log_ns: Int[np.ndarray, "T"]
    ) -> Int[np.ndarray, "T"]:
        """The stamps that count as time."""
        if stamp_ns is None or source in self.log_timed:
            return log_ns
        unset = np.flatnonzero(stamp_ns == 0)
        if self.sidecar is None and len(unset):
            raise RecordingError(
                f"{source}: message {unset[0]} has no header stamp (0 s; {len(unset)} of {len(stamp_ns)} messages). "
                f"Set time = 'log' for {source!r} in the rig, or mend the publisher."
            )
        return stamp_ns

    def signal(self, table: Table, cut: bool) -> RawSignal:
        """The table on the episode's clock, in the order of log times."""
        if self.sidecar is not None and table.source in self.sidecar.signals:
            return self._restored(table, self.sidecar.signals[table.source], cut)
        order = np.argsort(table.log_ns, kind="stable")
        if table.static:
            time_s = np.zeros(1)
        else:
            time_s = self._seconds(self.chosen(table.source, table.stamp_ns, table.log_ns)[order])
        return RawSignal(
            table.source, table.columns, time_s, table.value[order],
            None if table.missing is None else table.missing[order], self._seconds(table.log_ns[order]),
            table.unit, table.units, table.kind, table.frame,
        )  # fmt: skip

    def _restored(self, table: Table, note: SignalNote, cut: bool) -> RawSignal:
        _expect(table.source, len(table.log_ns), note.samples, cut)
        if table.value.shape[1] != len(note.columns):
            raise RecordingError(
                f"{table.source}: {table.value.shape[1]} columns, {NAME} names {len(note.columns)}. Restore the bag."
            )
        clocks = (self.chosen(table.source, table.stamp_ns, table.log_ns), table.log_ns)
        time_s, log_time_s = self._exact(f"signal.{note.name}", clocks, note.log_time, cut)
        return RawSignal(
            table.source, note.columns, time_s, table.value, np.isnan(table.value), log_time_s,
            units=note.units, kind=note.kind, frame=note.frame,
        )  # fmt: skip

    def _exact(
        self, key: str, clocks: tuple[np.ndarray, np.ndarray], log_time: bool, cut: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Times and log times as they were before they became whole nanoseconds."""
        assert self.sidecar is not None
        stamps, logs = (self._seconds(ns) for ns in clocks)
        time_s = exact_times(self.sidecar, f"{key}.time_s", stamps, cut)
        return time_s, exact_times(self.sidecar, f"{key}.log_time_s", logs, cut) if log_time else None

    def feed(self, track: PictureTrack, bag: Bag, content: _Content) -> BagFeed:
        """A camera topic on the episode's clock."""
        source, (stamp_ns, log_ns) = track.topic.name, track.times()
        intrinsics = _intrinsics(content, source)
        if self.sidecar is not None and source in self.sidecar.cameras:
            note = self.sidecar.cameras[source]
            _expect(source, len(log_ns), note.frames, bool(content.cut))
            times = self._exact(f"camera.{note.name}", (stamp_ns, log_ns), note.log_time, bool(content.cut))
            return BagFeed(source, bag, track.topic, track.places(), *times, intrinsics, note.pixels)
        order = np.argsort(log_ns, kind="stable")
        time_s = self._seconds(self.chosen(source, stamp_ns, log_ns)[order])
        return BagFeed(
            source, bag, track.topic, track.places()[order], time_s, self._seconds(log_ns[order]), intrinsics
        )

    def _seconds(self, ns: Int[np.ndarray, "T"]) -> np.ndarray:
        seconds: np.ndarray = (ns - self.start_ns) / 1e9  # whole nanoseconds below 2^53 divide to the nearest float
        return seconds


def _expect(source: str, found: int, stated: int, cut: bool) -> None:
    if found != stated and not (cut and found < stated):
        raise RecordingError(
            f"{source}: {found} messages, {NAME} states {stated}. The bag was changed after it was written: restore "
            f"it, or remove {NAME} to read it as any other bag."
        )
