"""The three parts of a split as three types: Calibration fits, Validation chooses, Holdout stays sealed until opened.

opening a holdout:   decide under the ledger's lock -> line on the disk -> only then decrypt -> private folder -> gone
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import SplitError
from twinproof.nouns.files import read_json, sweep, write_json
from twinproof.nouns.hashing import Json, content_hash, hash_file
from twinproof.nouns.ledger import Ledger, LedgerHead, Line
from twinproof.nouns.recording import Recording
from twinproof.nouns.seal import seal, unseal

if TYPE_CHECKING:
    from types import TracebackType

    from twinproof.nouns.episode import Episode

FORMAT = "twinproof/holdout/1"
OPEN_FOLDER = "twinproof-holdout"  # in the folder for temporary files, while a holdout is open


@dataclass(frozen=True)
class Statistics:
    """Of one column over one part: how many values were measured, their mean, deviation and range."""

    count: int
    mean: float
    std: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Part:
    """A Recording of its own and the hash of the split it belongs to. Never built itself: Calibration or Validation."""

    recording: Recording
    split: str

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of its episodes, sorted: the parents of whatever is fitted on it."""
        return tuple(sorted(episode.id for episode in self.recording.episodes))

    @cached_property
    def hash(self) -> str:
        """Names the part: its kind, its recording and its split."""
        return content_hash([type(self).__name__, self.recording.hash, self.split])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Part) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)

    def statistics(self) -> dict[str, Statistics]:
        """'signal/column' -> mean, deviation and range over this part alone; missing values are not counted."""
        kept: dict[str, Statistics] = {}
        for episode in self.recording.episodes:
            for name, signal in episode.fresh().signals.items():  # one episode in memory at a time
                for j, column in enumerate(signal.columns):
                    measured = signal.value[:, j] if signal.missing is None else signal.value[~signal.missing[:, j], j]
                    if len(measured):
                        key = f"{name}/{column.name}"
                        kept[key] = _merged(kept.get(key), measured)
        return kept


def _merged(before: Statistics | None, values: np.ndarray) -> Statistics:
    """Statistics of two sets from those of each (Chan, Golub, LeVeque)."""
    new = Statistics(
        len(values), float(values.mean()), float(values.std()), float(values.min()), float(values.max())
    )  # fmt: skip
    if before is None:
        return new
    count, shift = before.count + new.count, new.mean - before.mean
    spread = before.count * before.std**2 + new.count * new.std**2 + shift**2 * before.count * new.count / count
    mean = before.mean + shift * new.count / count
    return Statistics(count, mean, float(np.sqrt(spread / count)), min(before.low, new.low), max(before.high, new.high))


class Calibration(Part):
    """What every fit sees, and the only thing it sees."""


class Validation(Part):
    """What widens ranges and chooses between models; nothing is fitted on it."""


@dataclass(frozen=True)
class Holdout:
    """Ids and hashes, and no arrays: those come out of `open`, which leaves a line in the ledger first."""

    folder: Path  # of the split
    split: str
    recording: str  # hash
    hashes: Mapping[str, str]  # episode id -> hash

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the sealed episodes, sorted."""
        return tuple(sorted(self.hashes))

    @staticmethod
    def load(folder: Path, split: str, recording: str) -> Holdout:
        """The sealed part of the split in a folder."""
        path = folder / "holdout" / "holdout.json"
        head = read_json(path, FORMAT, SplitError)
        hashes = head.get("episodes")
        if head.get("recording") != recording or not isinstance(hashes, dict):
            raise SplitError(f"{path} describes another holdout than split.json. Restore it, or make the split again.")
        return Holdout(folder, split, recording, {str(id): str(hash) for id, hash in hashes.items()})

    def open(self, by: str, change: str | None = None) -> OpenHoldout:
        """The sealed episodes, for the panel with this hash. The ledger line is on the disk before a byte is decrypted.

        The first opening is attempt 1. The same panel again, with nothing refitted, resumes it. Anything else is a new
        attempt and has to say what changed: `change="friction range widened"`.
        """
        container, key = self.folder / "holdout" / "sealed.bin", self.folder / "holdout" / "key"
        for path in (container, key):
            if not path.is_file():
                raise SplitError(f"{path} is missing, so the holdout cannot be opened. Restore it; nothing was logged.")
        line = Ledger(self.folder / "openings.jsonl").decide(lambda lines: next_opening(lines, self, by, change))
        temporary = Path(tempfile.gettempdir()) / OPEN_FOLDER
        sweep(temporary)
        scratch = Path(tempfile.mkdtemp(prefix=f".{OPEN_FOLDER}.{os.getpid()}.", suffix=".tmp"))  # mode 0700
        try:
            unseal(container, key, scratch)
            recording = Recording.load(scratch)
            if recording.hash != self.recording:
                raise SplitError(f"{container} holds another recording than split.json states. Make the split again.")
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        return OpenHoldout(recording, int(line.fields["attempt"]), LedgerHead(line.n, line.hash), scratch)


class OpenHoldout:
    """A holdout while it is open. Use as a context manager: its files vanish on close, or with the object."""

    def __init__(self, recording: Recording, attempt: int, ledger: LedgerHead, scratch: Path) -> None:
        self.recording, self.attempt, self.ledger = recording, attempt, ledger
        self._finalizer = weakref.finalize(self, shutil.rmtree, scratch, ignore_errors=True)  # also at exit

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """The episodes; their arrays and pictures can be read until `close`."""
        return self.recording.episodes

    def __enter__(self) -> OpenHoldout:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Removes the unpacked files; a second call does nothing."""
        self._finalizer()


def seal_holdout(folder: Path, plain_folder: Path, recording: Recording) -> None:
    """Fills a new folder with the sealed container, its key, and the JSON that says what is inside."""
    folder.mkdir()
    seal(plain_folder, folder / "sealed.bin", folder / "key")
    container = folder / "sealed.bin"
    head = {
        "format": FORMAT,
        "recording": recording.hash,
        "episodes": {episode.id: episode.hash for episode in recording.episodes},
        "sealed": {"hash": hash_file(container), "bytes": container.stat().st_size},
        "key": hash_file(folder / "key"),  # tells whether the key is the one, and nothing about it
    }
    write_json(folder / "holdout.json", head)


def refits_since(lines: tuple[Line, ...], opening: Line) -> tuple[Line, ...]:
    """The fits after an opening that made something new; the same artifact logged once more is no refit."""
    known = {line.fields.get("artifact") for line in lines if line.kind == "fit" and line.n < opening.n}
    later = (line for line in lines if line.kind == "fit" and line.n > opening.n)
    return tuple(line for line in later if line.fields.get("artifact") not in known)


def next_opening(lines: tuple[Line, ...], holdout: Holdout, by: str, change: str | None) -> tuple[str, dict[str, Json]]:
    """The kind and fields of the line that opening the holdout now would add, or SplitError where it may not."""
    if not by.strip():
        raise SplitError("by is empty. A holdout is opened by a panel: give the panel's hash.")
    if lines and lines[0].fields.get("split") != holdout.split:
        raise SplitError(f"{holdout.folder}/openings.jsonl was started for another split. Restore both files.")
    change = change.strip() or None if change else None
    opened = [line for line in lines if line.kind == "opened"]
    fields: dict[str, Json] = {"by": by, "ids": list(holdout.ids), "change": change}
    if not opened:
        return "opened", {**fields, "attempt": 1}
    last = opened[-1]
    attempt, refits = int(last.fields["attempt"]), refits_since(lines, last)
    same = last.fields["by"] == by and change in (None, last.fields["change"])
    if same and not refits:
        return "resumed", {"by": by, "attempt": attempt}
    if change is None or (refits and change == last.fields["change"]):
        since = f"{refits[-1].fields['name']!r} was fitted after it" if refits else "this is another panel"
        raise SplitError(
            f"the holdout was opened at {last.at} (attempt {attempt}, by {str(last.fields['by'])[:16]}), and {since}. "
            'Say what changed since, in a few words: --change "friction range widened" (in a job: change = "…" under '
            f"[evaluate]). It becomes attempt {attempt + 1}, and the evidence prints that."
        )
    return "opened", {**fields, "attempt": attempt + 1}
