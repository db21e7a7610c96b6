"""A run's folder: what each stage made lies under the key of everything that decides it, and is made once.

RUN/stages/NAME-KEY/        a result; what a stage keeps for its own resumption lies beside it
RUN/stages/NAME-KEY.json    its mark, written last: key, settings, parents, the hash of every file, seconds
RUN/NAME                    a link to the current one
RUN/aside/                  what was found changed or half made; never removed by us
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NoReturn

from twinproof.nouns.errors import StoreError, TwinproofError
from twinproof.nouns.files import file_hashes, read_sealed, write_sealed
from twinproof.nouns.hashing import Json

FORMAT = "twinproof/stage/1"
SHORT = 12  # digits of the key that stand in a folder's name
State = Literal["done", "reused", "to do"]
Verify = Callable[[Path], str]  # what is wrong with a folder, in a sentence; empty where it is whole


@dataclass(frozen=True)
class Stage:
    """One step: its name, the key of all that decides it, and for people its settings and what it stands on."""

    name: str
    key: str
    settings: Mapping[str, Json] = field(default_factory=dict)
    parents: tuple[str, ...] = ()
    growing: tuple[str, ...] = ()  # files that others add to later, as a split's ledger: never made anew

    @property
    def label(self) -> str:
        """The name of its folder."""
        return f"{self.name}-{self.key[:SHORT]}"


@dataclass(frozen=True)
class Outcome:
    """What became of a stage in this run: where it lies, whether it was made now, and how long that took."""

    stage: Stage
    folder: Path
    state: State
    seconds: float = 0.0  # when it was made, today or earlier


@dataclass(frozen=True)
class Kept:
    """The stages of one run. `dry` makes nothing and only tells what would be done."""

    root: Path
    note: Callable[[str], None]
    dry: bool = False

    def once(self, stage: Stage, make: Callable[[Path], None], verify: Verify | None = None) -> Outcome:
        """The stage's result, made first if nothing whole lies under its key.

        One that grows and has lost its mark is taken as it is where `verify` finds nothing wrong, else it is an error.
        """
        folder = self.root.absolute() / "stages" / stage.label
        mark = folder.with_name(f"{folder.name}.json")
        if mark.exists() and (found := self._reused(stage, folder, mark)):
            return found
        if self.dry:
            return Outcome(stage, folder, "to do")
        if any((folder / name).exists() for name in stage.growing):
            return self._adopted(stage, folder, verify)
        if folder.exists():  # a kill came between its last rename and its mark
            self._aside(folder, "it was left without its mark.")
        folder.parent.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        make(folder)
        seconds = time.monotonic() - began
        self._mark(stage, folder, seconds)
        return Outcome(stage, folder, "done", seconds)

    def _mark(self, stage: Stage, folder: Path, seconds: float) -> None:
        write_sealed(
            folder.with_name(f"{folder.name}.json"),
            {
                "format": FORMAT,
                "name": stage.name,
                "key": stage.key,
                "settings": dict(stage.settings),
                "parents": list(stage.parents),
                "seconds": round(seconds, 3),
                "files": file_hashes(folder, stage.growing),
            },
        )
        self._link(stage, folder)

    def _adopted(self, stage: Stage, folder: Path, verify: Verify | None) -> Outcome:
        """A result that may have grown since, found without its mark: a new mark where it verifies."""
        try:
            wrong = "nothing can tell whether it is whole." if verify is None else verify(folder)
        except TwinproofError as problem:
            wrong = str(problem)
        if wrong:
            _refuse(folder, f"it has lost its mark, and {wrong}")
        self._mark(stage, folder, 0.0)
        self.note(f"{folder.name} was left without its mark: every file in it holds, and it is kept as it is.")
        return Outcome(stage, folder, "reused")

    def _reused(self, stage: Stage, folder: Path, mark: Path) -> Outcome | None:
        try:
            stated = read_sealed(mark, FORMAT, StoreError)
            if stated["key"] != stage.key:
                raise StoreError(f"{mark} is the mark of another stage.")
            changed = _changed(folder, stated["files"], stage.growing)
        except StoreError as problem:
            changed = str(problem)
        if not changed:
            if not self.dry:
                self._link(stage, folder)
            return Outcome(stage, folder, "reused", float(stated["seconds"]))
        if stage.growing:
            _refuse(folder, changed)
        if not self.dry:
            self._aside(folder, changed)
            mark.unlink(missing_ok=True)
        return None

    def _aside(self, folder: Path, why: str) -> None:
        if not folder.exists():
            self.note(f"{folder.name} is gone: it is made again.")
            return
        place = self.root / "aside" / f"{folder.name}-{secrets.token_hex(4)}"
        place.parent.mkdir(exist_ok=True)
        folder.rename(place)
        self.note(f"{folder.name}: {why} It lies in {place.parent.name}/{place.name} now, and is made again.")

    def _link(self, stage: Stage, folder: Path) -> None:
        link = self.root / stage.name
        target = Path("stages") / folder.name
        if link.is_symlink() and link.readlink() == target:
            return
        if link.exists() and not link.is_symlink():
            raise StoreError(f"{link} is no link of this run. Move it away: the stage {stage.name!r} goes there.")
        fresh = self.root / f".{stage.name}.{os.getpid()}.link"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(target)
        fresh.replace(link)


def _refuse(folder: Path, why: str) -> NoReturn:
    raise StoreError(
        f"{folder}: {why} A ledger that remembers openings is never made anew in silence. Restore the folder; or move "
        "it away yourself, and every fit on it is made again."
    )


def _changed(folder: Path, stated: Mapping[str, str], growing: tuple[str, ...]) -> str:
    """What is no longer as it was written, in a sentence; empty when all is."""
    if not folder.is_dir():
        return "the folder is gone."
    found = file_hashes(folder, growing)
    for name in sorted({*found, *stated}):
        if found.get(name) != stated.get(name):
            how = "was changed" if name in found and name in stated else "is missing" if name in stated else "is new"
            return f"{name} {how}."
    return ""


@contextlib.contextmanager
def only_one(root: Path, note: Callable[[str], None]) -> Iterator[None]:
    """While the block runs no other process works in this run's folder; one that comes later waits."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        handle = os.open(root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as problem:
        raise StoreError(f"cannot write to {root}: {problem.strerror}. Name a folder you may write to.") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note(f"another run is at work in {root}: waiting for it.")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)  # a child that a stage forked may still hold the same handle
        os.close(handle)
