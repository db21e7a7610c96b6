"""Whether a real failure lies within what is believed: the trial anew, with physics drawn instead of at its point.

the twin at its point succeeds ─> the same seed under draws ─┬─ most succeed          nothing is told
                                                             └─ half or more fail ─> one factor's parameters drawn alone
    one factor fails in half its draws, the others in few: its label        several, or none: undecided
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from twinproof.evaluate.closed_loop import Job, Stage
from twinproof.evaluate.explain import LABELS
from twinproof.evaluate.swaps import factor_of
from twinproof.nouns.failure import Failure
from twinproof.nouns.theta import Theta

Draw = Callable[[Job, int], Theta]  # the parameters of a trial's world in one of many draws
DRAWS = 12  # worlds of a swap
MOST = DRAWS // 2  # failures in them, at least, that reproduce a failure
FEW = 2  # failures, at most, under any other factor


def doubted(stage: Stage, job: Job, draw: Draw) -> tuple[Failure, str]:
    """The label that draws give, and why: the factor whose doubt alone makes the trial fail as it did in reality."""
    drawn = [draw(job, k) for k in range(DRAWS)]
    failed = _failed(stage, job, drawn)
    told = f"with parameters drawn instead of at their point it fails in {failed} of {DRAWS} worlds"
    if failed < MOST:
        return Failure.UNDECIDED, told
    alone = {factor: _failed(stage, job, [_only(job.theta, each, factor) for each in drawn]) for factor in _of(drawn)}
    (factor, most), *others = sorted(alone.items(), key=lambda item: -item[1])
    if most < MOST:
        return Failure.UNDECIDED, f"{told}, and under no factor alone"
    if others and others[0][1] > FEW:
        return (
            Failure.UNDECIDED,
            f"{told}, under {factor} alone in {most} and under {others[0][0]} alone in {others[0][1]}",
        )
    return LABELS[factor], f"{told}, under {factor} alone in {most}"


def _failed(stage: Stage, job: Job, thetas: Sequence[Theta]) -> int:
    return sum(not run.success for run in stage.run([replace(job, theta=theta) for theta in thetas]))


def _of(drawn: Sequence[Theta]) -> list[str]:
    return sorted({factor_of(id) for theta in drawn for id in theta})


def _only(point: Theta, drawn: Theta, factor: str) -> Theta:
    return point | {id: value for id, value in drawn.items() if factor_of(id) == factor}
