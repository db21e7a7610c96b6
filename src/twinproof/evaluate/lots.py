"""Simulated trials that are kept a few at a time while others still run: a kill loses those under way, no more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from twinproof.evaluate.closed_loop import Job, Stage, run_jobs
from twinproof.evaluate.runs import Run, Runs
from twinproof.nouns.store import Store


@dataclass(frozen=True, eq=False)
class Lot:
    """A few trials that lie in the store together: their places in the panel, and the key of all that decides them."""

    places: tuple[int, ...]
    jobs: tuple[Job, ...]
    key: str


def run_lots(stage: Stage, lots: Sequence[Lot], store: Store, ended: Callable[[int], None]) -> None:
    """Runs all trials side by side, and keeps each lot as soon as it is whole. `ended` is told how many are over."""
    jobs = [job for lot in lots for job in lot.jobs]
    owner = [(lot, k) for lot in lots for k in range(len(lot.jobs))]
    found: dict[str, dict[int, Run]] = {lot.key: {} for lot in lots}
    over = 0

    def one(place: int, run: Run) -> None:
        nonlocal over
        over += 1
        lot, k = owner[place]
        mine = found[lot.key]
        mine[k] = run
        if len(mine) == len(lot.jobs):
            store.once(lot.key, lambda: Runs(tuple(mine[i] for i in range(len(mine)))), Runs)
            del found[lot.key]
        ended(over)

    run_jobs(stage.scene, stage.task, stage.actor, jobs, stage.how, one)
