"""Work on this machine: in this process, or in a pool of processes that outlives the death of any of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context

from twinproof.fleet.spread import Answer, Fill, Piece, answers
from twinproof.nouns.errors import FleetError


@dataclass(frozen=True)
class Here:
    """This process, one chunk after the other: the reference."""

    workers: int = 1

    def run(self, fill: Fill, chunks: Sequence[Sequence[Piece]]) -> Iterator[list[Answer]]:
        """Each chunk's answers in turn."""
        for chunk in chunks:
            yield answers(fill, chunk)


@dataclass(frozen=True)
class Pool:
    """Processes of this machine. When one is killed the pool is made anew and unfinished chunks are run again."""

    workers: int = 2
    tries: int = 3  # a chunk during which the pool broke so often is given up

    def __post_init__(self) -> None:
        if self.workers < 1 or self.tries < 1:
            raise FleetError(f"a pool of {self.workers} workers with {self.tries} tries cannot work. Use 1 or more.")

    def run(self, fill: Fill, chunks: Sequence[Sequence[Piece]]) -> Iterator[list[Answer]]:
        """Answers as chunks end."""
        left = dict(enumerate(chunks))
        broken = 0
        while left:
            with ProcessPoolExecutor(self.workers, mp_context=get_context("spawn")) as pool:
                waiting: dict[Future[list[Answer]], int] = {
                    pool.submit(answers, fill, chunk): k for k, chunk in left.items()
                }
                try:
                    while waiting:
                        ended, _ = wait(waiting, return_when=FIRST_COMPLETED)
                        for future in ended:
                            found = future.result()
                            del left[waiting.pop(future)]
                            yield found
                except BrokenProcessPool:
                    broken += 1
            if left and broken >= self.tries:
                first = next(iter(left.values()))[0]
                raise FleetError(
                    f"workers died {broken} times; {sum(map(len, left.values()))} pieces are left, the first is "
                    f"{first.name or first.key[:12]!r}. Look for a lack of memory, or use fewer workers."
                )
