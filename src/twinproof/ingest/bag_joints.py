"""sensor_msgs/JointState straight from its bytes: most messages of a topic differ only in stamp and numbers.

little-endian CDR, offsets from byte 4, numbers aligned to 8:
  0 encapsulation | 4 sec, nanosec | 12 frame_id | names | n, positions | n, velocities | n, efforts
                                     `------- head, compared as bytes -----'
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass, field

import numpy as np

from twinproof.ingest.bag_table import Table
from twinproof.nouns.errors import RecordingError

FIELDS = ("position", "velocity", "effort")
ENDINGS = ("", ":velocity", ":effort")
KINDS = ("joint_position", "joint_velocity", "joint_torque")
UNITS = ("rad", "rad/s", "N m")


@dataclass(frozen=True)
class Shape:
    """Where everything lies in messages of one length with one head."""

    flag: int  # 1: little-endian
    head: bytes  # from byte 12 to the first position
    names: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]  # bytes of positions, velocities, efforts
    stamp_and_counts: struct.Struct  # sec, nanosec, number of velocities, number of efforts
    counts: tuple[int, int]

    def fits(self, data: bytes) -> tuple[int, int] | None:
        """The stamp (sec, nanosec) of a message of this shape, or None for another shape."""
        if data[1] != self.flag or data[12 : 12 + len(self.head)] != self.head:
            return None
        sec, nanosec, *counts = self.stamp_and_counts.unpack_from(data)
        return (sec, nanosec) if (counts[0], counts[1]) == self.counts else None


def shape_of(data: bytes) -> Shape:
    """Reads a message's layout from front to back, with every length checked."""
    if len(data) < 12 or data[0] != 0 or data[1] > 1:
        raise RecordingError(f"a JointState starts with {data[:4].hex()}, which is not CDR. The bag is damaged.")
    order = "<" if data[1] else ">"
    count_of = struct.Struct(f"{order}I")

    def count(at: int, each: int) -> tuple[int, int]:
        at += -at % 4
        number = int(count_of.unpack_from(data, at)[0])
        if number * each > len(data) - at:
            raise struct.error(f"{number} entries at byte {at} of {len(data)}")
        return number, at + 4

    length, at = count(12, 1)
    at += length
    joints, at = count(at, 4)
    names = []
    for _ in range(joints):
        length, at = count(at, 1)
        names.append(data[at : at + max(0, length - 1)].decode())
        at += length
    spans, counts, counted_at, begin = [], [], [], 0
    for _ in FIELDS:
        number, at = count(at, 8)
        counts.append(number)
        counted_at.append(at - 4)
        begin = at + (-(at - 4) % 8 if number else 0)
        at = begin + 8 * number
        spans.append((begin, at))
    if not at <= len(data) <= at + 3:
        raise struct.error(f"{len(data)} bytes for a JointState of {at}")
    _, second, third = counted_at
    layout = struct.Struct(f"{order}4xiI{second - 12}xI{third - second - 4}xI")
    return Shape(data[1], data[12 : spans[0][0]], tuple(names), tuple(spans), layout, (counts[1], counts[2]))


@dataclass
class _Block:
    """Samples of one field that name the same joints in one order."""

    names: tuple[str, ...]
    flag: int
    number: array[int] = field(default_factory=lambda: array("q"))  # position in the topic, to put blocks together
    stamp_ns: array[int] = field(default_factory=lambda: array("q"))
    log_ns: array[int] = field(default_factory=lambda: array("q"))
    value: array[float] = field(default_factory=lambda: array("d"))


class JointTrack:
    """The joint states of one topic: up to three tables, columns by joint name."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.count = 0
        self._shapes: dict[int, tuple[Shape, tuple[tuple[int, int, _Block], ...]]] = {}
        self._blocks: tuple[dict[tuple[int, tuple[str, ...]], _Block], ...] = ({}, {}, {})

    def add(self, log_ns: int, data: bytes, place: object) -> None:
        """One message; the usual one costs a comparison, an unpacking and a copy of its numbers."""
        known = self._shapes.get(len(data))
        stamp = known[0].fits(data) if known is not None else None
        if known is None or stamp is None:
            shape = shape_of(data)
            known = self._shapes[len(data)] = (shape, self._blocks_for(shape))
            stamp = struct.unpack_from("<iI" if shape.flag else ">iI", data, 4)
        stamp_ns = stamp[0] * 1_000_000_000 + stamp[1]
        number, self.count = self.count, self.count + 1
        for begin, end, block in known[1]:
            block.number.append(number)
            block.stamp_ns.append(stamp_ns)
            block.log_ns.append(log_ns)
            block.value.frombytes(data[begin:end])

    def _blocks_for(self, shape: Shape) -> tuple[tuple[int, int, _Block], ...]:
        blocks = []
        for k, (begin, end) in enumerate(shape.spans):
            given = (end - begin) // 8
            if given == 0:
                continue
            names = shape.names or tuple(f"#{i}" for i in range(given))
            if given != len(names):
                raise RecordingError(
                    f"{self.topic}: message {self.count} names {len(names)} joints and gives {given} {FIELDS[k]} "
                    "values. Mend the publisher, or leave the topic out with ignore."
                )
            if len(set(names)) != len(names):
                raise RecordingError(
                    f"{self.topic}: message {self.count} names a joint twice ({', '.join(names)}). Mend the publisher."
                )
            block = self._blocks[k].setdefault((shape.flag, names), _Block(names, shape.flag))
            blocks.append((begin, end, block))
        return tuple(blocks)

    def tables(self) -> list[Table]:
        """One table for each field that any message gave."""
        return [self._table(k, list(blocks.values())) for k, blocks in enumerate(self._blocks) if blocks]

    def _table(self, k: int, blocks: list[_Block]) -> Table:
        if len(blocks) == 1:
            return self._finished(k, blocks[0].names, blocks, _values(blocks[0]), None)
        columns = tuple(dict.fromkeys(name for block in blocks for name in block.names))
        count = sum(len(block.number) for block in blocks)
        value = np.full((count, len(columns)), np.nan)
        missing = np.ones(value.shape, dtype=bool)
        row = 0
        for block in blocks:
            rows = slice(row, row + len(block.number))
            at = [columns.index(name) for name in block.names]
            value[rows, at] = _values(block)
            missing[rows, at] = False
            row = rows.stop
        return self._finished(k, columns, blocks, value, missing if missing.any() else None)

    def _finished(
        self, k: int, columns: tuple[str, ...], blocks: list[_Block], value: np.ndarray, missing: np.ndarray | None
    ) -> Table:
        """The blocks' rows put back into the order of the topic."""
        number, stamp_ns, log_ns = (
            np.concatenate([np.array(getattr(block, name), np.int64) for block in blocks])
            for name in ("number", "stamp_ns", "log_ns")
        )
        order = np.argsort(number, kind="stable") if len(blocks) > 1 else slice(None)
        named = any(name != f"#{i}" for i, name in enumerate(columns))
        return Table(
            self.topic + ENDINGS[k], columns if named else (), stamp_ns[order], log_ns[order], value[order],
            None if missing is None else missing[order], unit=UNITS[k], kind=KINDS[k],
        )  # fmt: skip


def _values(block: _Block) -> np.ndarray:
    stored = np.frombuffer(block.value, "<f8" if block.flag else ">f8").reshape(-1, len(block.names))
    return stored.astype(np.float64, copy=False)
