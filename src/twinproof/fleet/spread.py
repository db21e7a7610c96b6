"""Independent pieces of work, spread over workers, each result kept in a store under the key of what decides it.

pieces ──> those not in the store ──> chunks ──> where.run ──> files of each result ──> store
              (a stopped run goes on)   (overhead is shared)     (a dead worker's chunk is run again)

A piece is a function of a module, its plain arguments and a folder that it fills. It draws from named streams alone, so
one worker and a thousand give the same bytes.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from twinproof.nouns.errors import FleetError, TwinproofError
from twinproof.nouns.hashing import Json
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.store import Store

LARGEST_BYTES = 256 * 2**20  # of one result on its way back
Fill = Callable[..., None]  # fill(folder, *arguments)


@dataclass(frozen=True)
class Piece:
    """One piece of work: the key of everything that decides its result, and what its function is called with."""

    key: str
    arguments: tuple[Json, ...]
    name: str = ""  # for people


@dataclass(frozen=True)
class Answer:
    """What came back of a piece: the files of its result, or why there is none; and how long it took its worker."""

    key: str
    files: Mapping[str, bytes] | None
    problem: str = ""
    seconds: float = 0.0


class Where(Protocol):
    """A place where chunks of work run. Answers come in any order; a chunk whose worker died is run again."""

    @property
    def workers(self) -> int: ...

    def run(self, fill: Fill, chunks: Sequence[Sequence[Piece]]) -> Iterator[list[Answer]]: ...


def spread(
    fill: Fill, pieces: Sequence[Piece], store: Store, where: Where, *, progress: Progress = quiet, chunk_s: float = 2.0
) -> list[Path]:
    """The folder of each piece's result, in the order of the pieces.

    A piece that fails does not stop the others: what is done stays in the store, and the first failure is told at the
    end. Chunks are sized by the first pieces so that each takes about `chunk_s`, and all workers stay busy.
    """
    waiting = list({piece.key: piece for piece in pieces if not store.has(piece.key)}.values())
    done, failed = len(pieces) - len(waiting), dict[str, Answer]()
    progress(done, "from the store", len(pieces))

    def keep(answers: Sequence[Answer]) -> None:
        nonlocal done
        for answer in answers:
            if answer.files is None:
                failed[answer.key] = answer
            else:
                _keep(store, answer.key, answer.files)
            done += 1
            progress(done, f"{len(failed)} failed" if failed else "spread", len(pieces))

    first = waiting[: max(1, where.workers)]
    seconds = list[float]()
    for answers in where.run(fill, [[piece] for piece in first]):
        keep(answers)
        seconds += [answer.seconds for answer in answers]
    rest = waiting[len(first) :]
    if rest:
        size = chunk_size(len(rest), where.workers, sum(seconds) / len(seconds), chunk_s)
        for answers in where.run(fill, [rest[k : k + size] for k in range(0, len(rest), size)]):
            keep(answers)
    if failed:
        piece = next(piece for piece in pieces if piece.key in failed)
        raise FleetError(
            f"{len(failed)} of {len(pieces)} pieces failed, the first is {piece.name or piece.key[:12]!r}: "
            f"{failed[piece.key].problem} The others are kept; mend it and run again."
        )
    return [store.path(piece.key) for piece in pieces]


def chunk_size(pieces: int, workers: int, seconds: float, chunk_s: float) -> int:
    """How many pieces go together: about `chunk_s` of work, and at least four chunks for every worker at the end."""
    wanted = math.ceil(chunk_s / max(seconds, 1e-4))
    return max(1, min(wanted, math.ceil(pieces / (4 * max(1, workers)))))


def answer(fill: Fill, piece: Piece) -> Answer:
    """Runs one piece in a scratch folder, on a worker; an error of ours comes back as a sentence."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="twinproof-") as scratch:
        folder = Path(scratch) / "result"
        folder.mkdir()
        try:
            fill(folder, *piece.arguments)
        except TwinproofError as problem:
            return Answer(piece.key, None, str(problem), time.monotonic() - began)
        files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
        size = sum(path.stat().st_size for path in files.values())
        if size > LARGEST_BYTES:
            told = f"its result has {size / 2**20:.0f} MiB; at most {LARGEST_BYTES // 2**20} travel back. Write less."
            return Answer(piece.key, None, told, time.monotonic() - began)
        found = {name: path.read_bytes() for name, path in files.items()}
    return Answer(piece.key, found, "", time.monotonic() - began)


def answers(fill: Fill, chunk: Sequence[Piece]) -> list[Answer]:
    """Runs a chunk, piece by piece."""
    return [answer(fill, piece) for piece in chunk]


def _keep(store: Store, key: str, files: Mapping[str, bytes]) -> None:
    def write(folder: Path) -> None:
        for name, data in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    store.once_folder(key, write)
