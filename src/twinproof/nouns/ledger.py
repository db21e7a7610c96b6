"""The ledger: one line for everything that touched a split, each line chained to the one before it.

{"at": …, "hash": H1, "kind": "created", "n": 1, "prev": "", …}
{"at": …, "hash": H2, "kind": "fit",     "n": 2, "prev": H1, …}     H = blake3 of the line without its hash
{"at": …, "hash": H3, "kind": "opened",  "n": 3, "prev": H2, …}

Lines are only ever added, and an append returns when its line is on the disk. A chain cut at its end still looks whole
from inside, so every later artifact carries the head it saw: count and hash.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from twinproof.nouns.errors import LedgerError
from twinproof.nouns.files import sync_folder
from twinproof.nouns.hashing import Json, canonical, content_hash

OWN = ("n", "kind", "at", "prev", "hash")  # what every line has; the rest are its fields


@dataclass(frozen=True)
class LedgerHead:
    """How many lines a ledger had and the hash of the last: what an artifact remembers of it."""

    count: int
    hash: str


@dataclass(frozen=True)
class Line:
    """One line: its number from 1, what happened, when (UTC), and the fields of its kind."""

    n: int
    kind: str
    at: str
    prev: str
    fields: dict[str, Json]
    hash: str


@dataclass(frozen=True)
class Break:
    """One place where a chain does not hold: changed, removed, reordered, repeated, rewritten or truncated."""

    line: int
    kind: str
    text: str


@dataclass(frozen=True)
class Chain:
    """What a ledger file holds: the lines that are whole in themselves, every break, and a torn tail."""

    lines: tuple[Line, ...]
    breaks: tuple[Break, ...]
    torn: bytes = b""  # after the last newline, and no whole line
    unended: bool = False  # the last line is whole and lacks only its newline

    def require(self, path: Path) -> Chain:
        """Itself, or LedgerError where a line was changed, removed, reordered or rewritten."""
        broken = [found for found in self.breaks if found.kind != "truncated"]
        if broken:
            raise LedgerError(
                f"{path}: {'; '.join(found.text for found in broken)}. Nothing may be built on a broken chain: "
                "restore the file from a copy, or make the split again."
            )
        return self

    def saw(self, head: LedgerHead) -> str:
        """'' when the chain still holds what the head saw, otherwise a sentence that says how it does not."""
        if head.count > len(self.lines):
            return f"was shortened: it had {head.count} lines, now it has {len(self.lines)}"
        if head.count < 1 or self.lines[head.count - 1].hash != head.hash:
            return f"was rewritten: its line {head.count} is not the one that was seen ({head.hash[:16]})"
        return ""


class Ledger:
    """The append-only file of a split. Every method reads the file anew; two processes may append at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def chain(self) -> Chain:
        """The chain as it stands, with its breaks named and nothing raised except for a file that is missing."""
        with self._locked(fcntl.LOCK_SH):
            return read_chain(self._bytes())

    def lines(self) -> tuple[Line, ...]:
        """All lines of a chain that holds; LedgerError names what broke it."""
        return self.chain().require(self.path).lines

    def head(self) -> LedgerHead:
        """Count and hash of the last line, for an artifact to carry."""
        lines = self.lines()
        if not lines:
            raise LedgerError(f"{self.path} has no whole line. Restore it from a copy, or make the split again.")
        return LedgerHead(lines[-1].n, lines[-1].hash)

    def append(self, kind: str, fields: dict[str, Json]) -> LedgerHead:
        """Adds a line and returns when it is on the disk."""
        line = self.decide(lambda lines: (kind, fields))
        return LedgerHead(line.n, line.hash)

    def decide(self, make: Callable[[tuple[Line, ...]], tuple[str, dict[str, Json]]]) -> Line:
        """Adds the line that `make` gives for the lines so far; nobody can add one in between."""
        with self._locked(fcntl.LOCK_EX):
            data = self._bytes() if self.path.exists() else b""
            chain = read_chain(data).require(self.path) if data else Chain((), ())
            kind, fields = make(chain.lines)
            if (kind == "created") != (not data):
                raise LedgerError(
                    f"{self.path} {'already has its first line' if data else 'does not exist'}. A ledger is created "
                    "once, with its split: make the split again in a new folder."
                )
            lines = list(chain.lines)
            text = b"\n" if chain.unended else b""
            if chain.torn:
                # A kill in the middle of an append leaves a part of a line. That append never returned, so nothing was
                # opened or fitted on its strength, and the part may go. It goes visibly: its bytes stay in a line.
                lines.append(_line(lines, "torn", {"text": chain.torn.decode("utf-8", "replace")}))
                text += _encoded(lines[-1])
            lines.append(_line(lines, kind, fields))
            self._write(len(data) - len(chain.torn), text + _encoded(lines[-1]))
            return lines[-1]

    def _bytes(self) -> bytes:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            raise LedgerError(
                f"{self.path} is missing. A split without its ledger cannot be trusted: restore the file, or make the "
                "split again."
            ) from None
        except OSError as problem:
            raise LedgerError(f"{self.path} cannot be read ({problem.strerror}). Restore it.") from None

    def _write(self, whole: int, text: bytes) -> None:
        """Puts bytes after the first `whole` ones; on a full disk the file is left as it was."""
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.ftruncate(handle, whole)
            os.lseek(handle, whole, os.SEEK_SET)
            try:
                written = 0
                while written < len(text):
                    written += os.write(handle, text[written:])
                os.fsync(handle)
            except OSError as problem:
                os.ftruncate(handle, whole)
                raise LedgerError(
                    f"{self.path}: the line could not be written ({problem.strerror}). Nothing was opened or logged: "
                    "free space, then run again."
                ) from None
        finally:
            os.close(handle)
        sync_folder(self.path.parent)

    @contextlib.contextmanager
    def _locked(self, mode: int) -> Iterator[None]:
        lock = self.path.with_suffix(".lock")
        writing = mode == fcntl.LOCK_EX
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT if writing else os.O_RDONLY, 0o644)
        except OSError as problem:
            if writing:
                raise LedgerError(
                    f"{lock} cannot be written ({problem.strerror}), so no line can be added. Make the folder "
                    "writable, or use the split where it was made."
                ) from None
            yield  # a copy without its lock has no writers to wait for
            return
        try:
            fcntl.flock(handle, mode)
            yield
        finally:
            os.close(handle)


def utc_text(moment: datetime) -> str:
    """A time as the ledger writes it, so that texts compare as the times do."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def _line(lines: list[Line], kind: str, fields: dict[str, Json]) -> Line:
    assert not set(fields) & set(OWN), "a field may not take the name of a line's own part"
    n, prev = (lines[-1].n + 1, lines[-1].hash) if lines else (1, "")
    at = utc_text(datetime.now(UTC))
    return Line(n, kind, at, prev, fields, content_hash({**fields, "n": n, "kind": kind, "at": at, "prev": prev}))


def _encoded(line: Line) -> bytes:
    own = {name: getattr(line, name) for name in OWN}
    return canonical({**line.fields, **own}) + b"\n"


def _parsed(raw: bytes) -> Line | None:
    """The line in some bytes, or None where they are not exactly what an append wrote."""
    try:
        value = json.loads(raw)
        own = {name: value.pop(name) for name in OWN}
        line = Line(**own, fields=value)
        content = {**value, **{name: own[name] for name in OWN if name != "hash"}}
        exact = canonical({**value, **own}) == raw and content_hash(content) == line.hash
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return line if exact and isinstance(line.n, int) and isinstance(line.kind, str) else None


def read_chain(data: bytes) -> Chain:
    """The chain in a ledger's bytes, with every break named."""
    *whole, tail = data.split(b"\n")
    unended = bool(tail) and _parsed(tail) is not None
    if unended:
        whole, tail = [*whole, tail], b""
    entries: list[tuple[int, Line | None]] = []
    for raw in whole:
        line = _parsed(raw)
        entries.append((line.n if line else (entries[-1][0] if entries else 0) + 1, line))
    breaks = [Break(n, "changed", f"line {n} was changed") for n, line in entries if line is None]
    breaks += _order_breaks([n for n, _ in entries]) + _link_breaks({n: line for n, line in entries if line})
    if tail:
        text = f"the last line, {len(entries) + 1}, is truncated after {len(tail)} bytes (a kill during an append?)"
        breaks.append(Break(len(entries) + 1, "truncated", text))
    if not entries:
        breaks.append(Break(1, "removed", "every line was removed"))
    return Chain(tuple(line for _, line in entries if line), tuple(breaks), tail, unended)


def _order_breaks(numbers: list[int]) -> list[Break]:
    missing = sorted(set(range(1, max(numbers, default=0) + 1)) - set(numbers))
    breaks = [Break(n, "removed", f"line {n} was removed") for n in missing]
    for before, n in pairwise(numbers):
        if n < before:
            breaks.append(Break(n, "reordered", f"line {n} stands after line {before}: lines were reordered"))
    twice = sorted({n for n in numbers if numbers.count(n) > 1}) if len(set(numbers)) != len(numbers) else []
    return breaks + [Break(n, "repeated", f"line {n} stands more than once") for n in twice]


def _link_breaks(lines: dict[int, Line]) -> list[Break]:
    breaks = []
    for n, line in sorted(lines.items()):
        if (n == 1) != (line.kind == "created") or (n == 1 and line.prev):
            breaks.append(Break(n, "rewritten", f"line {n} was rewritten: only line 1 says 'created'"))
        elif n - 1 in lines and line.prev != lines[n - 1].hash:
            text = f"line {n - 1} was rewritten: line {n} follows one with another hash"
            breaks.append(Break(n - 1, "rewritten", text))
    return breaks
