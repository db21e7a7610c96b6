"""A content-addressed store: an answer is computed once, and found again under the key of all that decides it.

ROOT/ab/abcd…/             an entry: what was written, and entry.json with a hash for every file, written last
ROOT/ab/.abcd….lock        held while the entry is looked at or made; never removed
ROOT/ab/.corrupt-abcd…-x   an entry that no longer was what was written; kept for whoever wants to know why
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from twinproof.nouns.errors import StoreError, TwinproofError
from twinproof.nouns.files import file_hashes, new_folder, read_json, remove_tree, sync_folder, write_json

FORMAT = "twinproof/entry/1"
MANIFEST = "entry.json"
KEY = re.compile(r"[0-9a-f]{64}")
Thing = TypeVar("Thing")
Thing_co = TypeVar("Thing_co", covariant=True)


class Saved(Protocol):
    """Something that writes itself into a folder."""

    def save(self, folder: Path) -> None:
        """Writes everything."""


class Kind(Protocol[Thing_co]):
    """What reads it back: a noun's class."""

    def load(self, folder: Path) -> Thing_co:
        """Reads everything."""


def _log(sentence: str) -> None:
    logging.getLogger("twinproof.store").warning(sentence)


@dataclass(frozen=True)
class Store:
    """Entries below a root. Any number of processes may use it at once, and any of them may die at any moment.

    `note` is told, in a sentence, when an entry was found changed and is made again.
    """

    root: Path
    note: Callable[[str], None] = _log

    def once(self, key: str, make: Callable[[], Saved], kind: Kind[Thing]) -> Thing:
        """What lies under the key, made and saved first if nothing whole lies there; `make` runs at most once."""
        return self._fetch(key, lambda folder: make().save(folder), kind.load)

    def once_folder(self, key: str, write: Callable[[Path], None]) -> Path:
        """The folder under the key, filled by `write` first if nothing whole lies there. Read it, never change it."""
        return self._fetch(key, write, lambda folder: folder)

    def path(self, key: str) -> Path:
        """Where the entry of a key lies, whether it exists or not."""
        if not KEY.fullmatch(key):
            raise StoreError(f"{key!r} is no store key. Make one with content_key(…): 64 hex digits.")
        return self.root.absolute() / key[:2] / key

    def has(self, key: str) -> bool:
        """Whether an entry lies under the key; its content is checked when it is asked for."""
        return (self.path(key) / MANIFEST).is_file()

    def _fetch(self, key: str, write: Callable[[Path], None], load: Callable[[Path], Thing]) -> Thing:
        entry = self.path(key)
        with self._locked(entry, fcntl.LOCK_SH):
            if entry.exists():
                with contextlib.suppress(TwinproofError):
                    return _checked(entry, load)
        with self._locked(entry, fcntl.LOCK_EX):  # between the locks another process may have made or mended it
            if entry.exists():
                try:
                    return _checked(entry, load)
                except TwinproofError as problem:
                    self._set_aside(entry, problem)
            _sweep(entry)
            _write(entry, write)
            return load(entry)

    @contextlib.contextmanager
    def _locked(self, entry: Path, kind: int) -> Iterator[None]:
        try:
            entry.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(entry.with_name(f".{entry.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as problem:
            raise StoreError(
                f"cannot write below the store {self.root}: {problem.strerror}. Name a folder you may write to."
            ) from None
        try:
            fcntl.flock(handle, kind)  # the system lets go of it when the process dies
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)  # a child that `make` forked may still hold the same handle
            os.close(handle)

    def _set_aside(self, entry: Path, problem: TwinproofError) -> None:
        aside = entry.with_name(f".corrupt-{entry.name}-{secrets.token_hex(4)}")
        entry.rename(aside)
        sync_folder(entry.parent)
        self.note(
            f"The store entry {entry} is not what was written: {problem} It is kept as {aside.name} and made again."
        )


def _write(entry: Path, write: Callable[[Path], None]) -> None:
    with new_folder(entry) as scratch:
        write(scratch)
        write_json(scratch / MANIFEST, {"format": FORMAT, "key": entry.name, "files": file_hashes(scratch)})


def _checked(entry: Path, load: Callable[[Path], Thing]) -> Thing:
    """What lies in an entry, if every file is there with its hash, and no other."""
    manifest = read_json(entry / MANIFEST, FORMAT, StoreError)
    expected = manifest.get("files")
    found = {name: hash for name, hash in file_hashes(entry).items() if name != MANIFEST}
    if manifest.get("key") != entry.name or not isinstance(expected, dict):
        raise StoreError(f"{entry / MANIFEST} belongs to another entry.")
    for name in sorted({*found, *expected}):
        if found.get(name) != expected.get(name):
            state = (
                "was changed" if name in found and name in expected else "is missing" if name in expected else "is new"
            )
            raise StoreError(f"{entry / name} {state}.")
    return load(entry)


def _sweep(entry: Path) -> None:
    """Removes what writers of this entry left when they were killed; the lock says that none is alive."""
    for stale in entry.parent.glob(f".*{entry.name}.*.tmp"):
        remove_tree(stale)
