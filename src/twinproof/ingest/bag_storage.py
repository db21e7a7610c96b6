"""Every message of a bag's storage file, from mcap or sqlite3, and the one place where broken bytes become an error.

A file is read once from front to back, so the same code reads a whole mcap and one that a power cut left without its
index. Pictures are not kept: their places are, and a feed fetches them one at a time.
"""

from __future__ import annotations

import contextlib
import io
import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import quote

from twinproof.nouns.errors import MissingExtra, RecordingError

Place = tuple[int, int, int, int]  # file of the bag, chunk (-1: none) or row, first byte, length
LARGEST = 2**30  # bytes of one chunk or message; more is taken for a broken length
MAGIC = b"\x89MCAP0\r\n"
HEADER, FOOTER, SCHEMA, CHANNEL, MESSAGE, CHUNK, STATISTICS, DATA_END = 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x0B, 0x0F
_HEAD = struct.Struct("<BQ")  # opcode, length
_MESSAGE = struct.Struct("<QHIQ")  # length, channel, sequence, log time; publish time and data follow
_MESSAGE_HEAD = 31
_CHUNK = struct.Struct("<QQQII")  # start, end, uncompressed size, CRC, length of the compression's name


@dataclass(frozen=True)
class Topic:
    """A topic as the bag states it; `definition` is empty where the bag does not carry the type."""

    name: str
    msgtype: str
    encoding: str
    definition_format: str
    definition: str


class Sink(Protocol):
    """Takes the messages of one topic in file order."""

    def add(self, log_ns: int, data: bytes, place: Place) -> None:
        """One message."""
        ...


OpenTopic = Callable[[Topic], "Sink | None"]  # None: the topic is not wanted
Fetch = Callable[[Place], bytes]


class Storage(Protocol):
    """One storage file of a bag."""

    def scan(self, file: int, open_topic: OpenTopic) -> tuple[int, bool]:
        """Hands every message to its topic's sink; gives their number and whether the file ends too early."""
        ...

    def fetcher(self) -> contextlib.AbstractContextManager[Fetch]:
        """Reads single messages again by their place."""
        ...


def need_ros() -> None:
    """Says how to add the packages that bags need."""
    try:
        import mcap  # noqa: F401
        import rosbags  # noqa: F401
    except ImportError as problem:
        raise MissingExtra(
            f"ROS 2 bags need the package {problem.name!r}. Run pip install 'twinproof[ros]' to add it."
        ) from None


@contextlib.contextmanager
def clear_errors(path: Path) -> Iterator[None]:
    """The one read point: whatever the parsers below throw at broken bytes becomes one error that names the bag.

    TypeError, AttributeError, NameError and SyntaxError are among them because a damaged message definition is
    compiled to code by rosbags. OSError is not: a full disk while frames are written must stay what it is.
    """
    import zstandard
    from mcap.exceptions import McapError
    from rosbags.rosbag2 import ReaderError
    from rosbags.serde import SerdeError
    from rosbags.typesys import TypesysError

    broken = (
        struct.error, LookupError, ValueError, AssertionError, ArithmeticError, MemoryError, RuntimeError, EOFError,
        TypeError, AttributeError, NameError, SyntaxError, zlib.error, sqlite3.Error, zstandard.ZstdError, McapError,
        ReaderError, SerdeError, TypesysError,
    )  # fmt: skip
    try:
        yield
    except broken as problem:
        raise RecordingError(
            f"{path}: the bag is damaged ({type(problem).__name__}: {str(problem)[:200]}). {_cure(path)}"
        ) from problem  # kept: it may also be our own bug


def _cure(path: Path) -> str:
    if path.suffix == ".db3":
        return f"Restore the file, or run sqlite3 {path.name} .recover to save what is left."
    return "Restore it from the original, or leave it out."


def check_file(path: Path) -> int:
    """The size of a storage file that is there, readable and not empty."""
    try:
        with path.open("rb"):
            size = path.stat().st_size
    except OSError as problem:
        raise RecordingError(f"{path} cannot be read ({problem.strerror}). Restore it, or leave it out.") from None
    if size == 0:
        raise RecordingError(
            f"{path} is empty (0 bytes): nothing was recorded, or a copy failed. Restore or remove it."
        )
    return size


class _Cut(Exception):
    """A record that reaches beyond the end of the file."""


class _Damaged(Exception):
    """A record that is all there and does not say what it should."""


@dataclass(frozen=True)
class McapStorage:
    """An mcap file, walked record by record; chunk checksums are checked, indexes are not needed."""

    path: Path

    def scan(self, file: int, open_topic: OpenTopic) -> tuple[int, bool]:
        """Hands out every message; in a file that was cut, those of the whole chunks."""
        size = check_file(self.path)
        with self.path.open("rb") as handle:
            if handle.read(len(MAGIC)) != MAGIC:
                raise RecordingError(f"{self.path} does not start as an MCAP file does. Restore it, or leave it out.")
            handle.seek(max(0, size - len(MAGIC)))
            cut = size < 2 * len(MAGIC) or handle.read() != MAGIC
            handle.seek(len(MAGIC))
            walk = _Walk(file, open_topic)
            try:
                walk.run(handle, size)
            except (_Cut, _Damaged) as problem:
                if not cut:
                    raise RecordingError(f"{self.path}: {problem}. The file is damaged: restore it.") from None
        if cut and not walk.messages:
            raise RecordingError(
                f"{self.path} was cut off before its first whole chunk: no message can be recovered. Leave it out."
            )
        if not cut and walk.stated not in (None, walk.messages):
            raise RecordingError(
                f"{self.path}: its index counts {walk.stated} messages, {walk.messages} can be read. The file is "
                "damaged: restore it."
            )
        return walk.messages, cut

    @contextlib.contextmanager
    def fetcher(self) -> Iterator[Fetch]:
        """Reads messages by place; the last chunk is kept, as neighbours usually share it."""
        with self.path.open("rb") as handle:
            kept_at, kept = -1, b""

            def fetch(place: Place) -> bytes:
                nonlocal kept_at, kept
                _, chunk, start, length = place
                if chunk < 0:
                    handle.seek(start)
                    return handle.read(length)
                if chunk != kept_at:
                    handle.seek(chunk)
                    _, size = _HEAD.unpack(handle.read(_HEAD.size))
                    kept_at, kept = chunk, _unpacked(handle.read(size), chunk)
                return kept[start : start + length]

            yield fetch


class _Walk:
    """One pass over the records of an mcap file.

    mcap's own StreamReader parses every index entry in Python, which costs more than the messages themselves.
    """

    def __init__(self, file: int, open_topic: OpenTopic) -> None:
        self.messages = 0
        self.stated: int | None = None
        self._file, self._open_topic = file, open_topic
        self._schemas: dict[int, Any] = {}
        self._sinks: dict[int, Callable[[int, bytes, Place], None] | None] = {}
        self._channels: dict[int, Topic] = {}
        self._crc = zlib.crc32(MAGIC)

    def run(self, handle: IO[bytes], size: int) -> None:
        """Walks to the footer."""
        while True:
            at = handle.tell()
            head = handle.read(_HEAD.size)
            if len(head) < _HEAD.size:
                raise _Cut(f"the file ends at byte {at} without a footer")
            opcode, length = _HEAD.unpack(head)
            if opcode == 0 or length > size - handle.tell():
                raise _Cut(f"the record at byte {at} (kind {opcode}) claims {length} bytes, more than there are")
            if opcode not in (SCHEMA, CHANNEL, MESSAGE, CHUNK, STATISTICS, DATA_END, FOOTER):
                self._skip(handle, head, length)
                continue
            if length > LARGEST:
                raise _Damaged(f"the record at byte {at} (kind {opcode}) claims {length} bytes")
            body = handle.read(length)
            if opcode == FOOTER:
                return
            if opcode == DATA_END:
                stated = int.from_bytes(body[:4], "little")
                if stated not in (0, self._crc):
                    raise _Damaged(f"the checksum of the data up to byte {at} does not hold")
            self._crc = zlib.crc32(body, zlib.crc32(head, self._crc))
            if opcode == CHUNK:
                self._deliver(_unpacked(body, at), at)
            elif opcode == STATISTICS:
                self.stated = int.from_bytes(body[:8], "little")
            elif opcode == MESSAGE:
                self._deliver(head + body, -1, at)
            else:
                self._deliver(head + body, at)

    def _skip(self, handle: IO[bytes], head: bytes, length: int) -> None:
        self._crc = zlib.crc32(head, self._crc)
        while length:
            block = handle.read(min(length, 2**20))
            self._crc = zlib.crc32(block, self._crc)
            length -= len(block)

    def _deliver(self, data: bytes, chunk: int, base: int = 0) -> None:
        """Hands out the messages in a run of records."""
        at, end, file, sinks, unpack = 0, len(data), self._file, self._sinks, _MESSAGE.unpack_from
        count = 0
        while at < end:
            if data[at] == MESSAGE:
                length, channel, _, log_ns = unpack(data, at + 1)
                start, at = at + _MESSAGE_HEAD, at + 9 + length
                if not start <= at <= end:
                    raise _Damaged(f"a message in the chunk at byte {chunk} reaches beyond it")
                if channel not in sinks:
                    raise _Damaged(f"a message in the chunk at byte {chunk} belongs to the unknown channel {channel}")
                sink = sinks[channel]
                count += 1
                if sink is not None:
                    sink(log_ns, data[start:at], (file, chunk, base + start, at - start))
            else:
                opcode, length = _HEAD.unpack_from(data, at)
                at += _HEAD.size + length
                if at > end:
                    raise _Damaged(f"a record in the chunk at byte {chunk} reaches beyond it")
                self._declare(opcode, data[at - length : at])
        self.messages += count

    def _declare(self, opcode: int, body: bytes) -> None:
        from mcap.data_stream import ReadDataStream
        from mcap.records import Channel, Schema

        if opcode == SCHEMA:
            schema = Schema.read(ReadDataStream(io.BytesIO(body)))
            self._schemas[schema.id] = schema
        elif opcode == CHANNEL:
            channel = Channel.read(ReadDataStream(io.BytesIO(body)))
            schema = self._schemas.get(channel.schema_id)
            stated = (schema.name, channel.message_encoding, schema.encoding, schema.data.decode()) if schema else (
                "", channel.message_encoding, "", "")  # fmt: skip
            topic = Topic(channel.topic, *stated)
            if self._channels.setdefault(channel.id, topic) != topic:
                raise _Damaged(f"channel {channel.id} is {self._channels[channel.id].name} and later {topic.name}")
            if channel.id not in self._sinks:
                sink = self._open_topic(topic)
                self._sinks[channel.id] = None if sink is None else sink.add


def _unpacked(body: bytes, at: int) -> bytes:
    """The records of a chunk, with its size and checksum checked."""
    import lz4.frame  # type: ignore[import-untyped]
    import zstandard

    _, _, size, crc, name_length = _CHUNK.unpack_from(body)
    at_size = _CHUNK.size + name_length
    compression = body[_CHUNK.size : at_size].decode()
    (stored,) = struct.unpack_from("<Q", body, at_size)
    data = body[at_size + 8 : at_size + 8 + stored]
    if size > LARGEST:
        raise _Damaged(f"the chunk at byte {at} claims {size} bytes")
    try:
        if compression == "zstd":
            if zstandard.frame_content_size(data) not in (-1, size):
                raise _Damaged(f"the chunk at byte {at} has another size than it states")
            data = zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
        elif compression == "lz4":
            if lz4.frame.get_frame_info(data)["content_size"] not in (0, size):
                raise _Damaged(f"the chunk at byte {at} has another size than it states")
            data = lz4.frame.decompress(data)
        elif compression:
            raise _Damaged(f"the chunk at byte {at} is compressed with {compression!r}, which is not lz4 or zstd")
    except (zstandard.ZstdError, RuntimeError, EOFError) as problem:
        raise _Damaged(f"the chunk at byte {at} does not decompress ({problem})") from None
    if len(data) != size:
        raise _Damaged(f"the chunk at byte {at} has {len(data)} bytes, not the {size} it states")
    if crc and zlib.crc32(data) != crc:
        raise _Damaged(f"the checksum of the chunk at byte {at} does not hold")
    return data


@dataclass(frozen=True)
class SqliteStorage:
    """A rosbag2 sqlite3 file, opened so that nothing is written beside it."""

    path: Path

    def scan(self, file: int, open_topic: OpenTopic) -> tuple[int, bool]:
        """Hands out every message in the order of the rows."""
        self._check()
        count, last = 0, -1
        with contextlib.closing(self._connect()) as base:
            tables = {name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if not {"topics", "messages"} <= tables:
                raise RecordingError(f"{self.path} is a database without a bag's tables. Give the .db3 of a ROS 2 bag.")
            sinks = {id: open_topic(topic) for id, topic in self._topics(base, tables)}
            wanted = {id: sink.add for id, sink in sinks.items() if sink is not None}
            for row, topic, log_ns, data in base.execute(
                "SELECT id, topic_id, timestamp, data FROM messages ORDER BY id"
            ):
                if row <= last or topic not in sinks:
                    raise RecordingError(f"{self.path}: row {row} is out of place. {_cure(self.path)}")
                last, count = row, count + 1
                if topic in wanted:
                    wanted[topic](log_ns, bytes(data), (file, row, 0, len(data)))
        return count, False

    @contextlib.contextmanager
    def fetcher(self) -> Iterator[Fetch]:
        """Reads messages by row."""
        with contextlib.closing(self._connect()) as base:

            def fetch(place: Place) -> bytes:
                (data,) = base.execute("SELECT data FROM messages WHERE id = ?", (place[1],)).fetchone()
                return bytes(data)

            yield fetch

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(f"file:{quote(str(self.path.absolute()))}?mode=ro&immutable=1", uri=True)

    def _check(self) -> None:
        size = check_file(self.path)
        with self.path.open("rb") as handle:
            head = handle.read(100)
        if head[:16] != b"SQLite format 3\x00":
            raise RecordingError(f"{self.path} is not an SQLite file. Restore it, or leave it out.")
        page_bytes, pages = (int.from_bytes(head[a:b], "big") for a, b in ((16, 18), (28, 32)))
        page_bytes = 65536 if page_bytes == 1 else page_bytes
        if len(head) < 100 or (head[24:28] == head[92:96] and size < pages * page_bytes):
            raise RecordingError(
                f"{self.path} was cut off: {size} bytes of {pages * page_bytes}. Its rows cannot be trusted. "
                f"{_cure(self.path)}"
            )
        for ending in ("-wal", "-journal"):
            beside = self.path.with_name(self.path.name + ending)
            if beside.is_file() and beside.stat().st_size:
                raise RecordingError(
                    f"{beside} holds messages that never reached {self.path.name}: the recorder was stopped hard. "
                    f"Run sqlite3 {self.path.name} 'PRAGMA wal_checkpoint(TRUNCATE)' on a copy to merge them."
                )

    @staticmethod
    def _topics(base: sqlite3.Connection, tables: set[str]) -> Iterator[tuple[int, Topic]]:
        definitions = {}
        if "message_definitions" in tables:
            query = "SELECT topic_type, encoding, encoded_message_definition FROM message_definitions"
            definitions = {name: (form, text) for name, form, text in base.execute(query)}
        for id, name, msgtype, encoding in base.execute("SELECT id, name, type, serialization_format FROM topics"):
            yield id, Topic(name, msgtype, encoding, *definitions.get(msgtype, ("", "")))
