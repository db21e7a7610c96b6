"""Why a real trial failed, as far as real data can tell: a robot's physics cannot be swapped, so few labels are given.

the twin fails on the same seed, the task's script succeeds there        policy
the twin succeeds, and the policy acts otherwise on reported states
than on the same states without noise, or on the robot's pictures than
on the twin's of the same states                                         perception
its commands, played again in twins that believe one thing otherwise,
make the robot's motion under one factor alone                           that factor, or the range (evaluate.explain)
the twin under draws fails on the same seed, and does so with one
factor's parameters drawn alone                                          that factor (evaluate.doubts)
anything else                                                            undecided, with what was seen
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from twinproof.evaluate.cameras import pictures_in
from twinproof.evaluate.closed_loop import Job, Stage, run_jobs
from twinproof.evaluate.decompose import Played, gap_of, posed, whole
from twinproof.evaluate.doubts import Draw, doubted
from twinproof.evaluate.explain import decided, explain
from twinproof.evaluate.runs import Run
from twinproof.nouns.actor import Actor
from twinproof.nouns.failure import Failure
from twinproof.nouns.randomization import Randomization

PLAYED_AGAIN = 20  # failures of a policy, at most, that are played again under guesses
LARGE = 0.25  # of half an action's range, root mean square: a policy shown something else


@dataclass(frozen=True)
class Told:
    """What is known of one failed trial beside its trace."""

    twin: bool  # it succeeds in the twin, with the same seed
    script: bool | None  # the task's script does; None where there is no script
    action_gap: float | None  # None where the trial was too short to say
    looks: bool = False  # the policy sees pictures, and the gap is between the robot's and the twin's


def decide(told: Told) -> tuple[Failure, str]:
    """The label, and the sentence that says why."""
    if not told.twin:
        if told.script:
            return Failure.POLICY, "the twin foresees the failure, and the task's script succeeds there"
        why = "and there is no script to try" if told.script is None else "and the task's script fails there too"
        return Failure.UNDECIDED, f"the twin foresees the failure, {why}"
    if told.action_gap is not None and told.action_gap > LARGE:
        share = f"{told.action_gap:.2f} of half an action's range"
        what = "the robot's pictures, instead of the twin's of the same states, move" if told.looks else ""
        why = f"{what or 'noise in what was reported moves'} actions by {share}"
        return Failure.PERCEPTION, f"it succeeds in the twin; {why}"
    return Failure.UNDECIDED, "it succeeds in the twin: something of the robot or the object is not as believed"


def labelled(
    stage: Stage,
    script: Actor | None,
    played: Mapping[int, Played],
    ranges: Randomization | None = None,
    again: int = PLAYED_AGAIN,
    draw: Draw | None = None,
) -> dict[int, Run]:
    """Failed real runs with labels; what ended by itself (a policy that broke, a robot that stopped) keeps its own. So
    many at most are played `again` under guesses, and then under draws where there are any, which takes longest."""
    failed = {k: each for k, each in played.items() if not each.real.success}
    open_ = {k: each for k, each in failed.items() if each.real.failure is Failure.UNDECIDED}
    tried = _tried(stage, script, [each.job for each in open_.values()])
    found, played_again = {}, 0
    for (k, each), succeeds in zip(open_.items(), tried, strict=True):
        gap = gap_of(stage, each) if whole(each.real.trace) else None
        failure, why = decide(Told(each.twin.success, succeeds, gap, bool(pictures_in(stage.task.contract))))
        looked_into = failure is Failure.UNDECIDED and each.twin.success and whole(each.real.trace)
        if looked_into and not posed(stage.task, each.real.trace):
            why = f"{why}; what, a record of where {', '.join(stage.task.tracked)} was at every tick might tell"
        elif looked_into and played_again < again:
            played_again += 1
            failure, why = _looked_into(stage, each, ranges, draw, why)
        found[k] = replace(each.real, failure=failure, note="; ".join(filter(None, (each.real.note.rstrip("."), why))))
    return found


def _looked_into(
    stage: Stage, played: Played, ranges: Randomization | None, draw: Draw | None, why: str
) -> tuple[Failure, str]:
    """The label of a failure that the twin did not foresee, by guesses, and where those leave it open, by draws."""
    failure, told = decided(explain(stage, played.job, played.real.trace), ranges)
    if failure is not Failure.UNDECIDED:
        return failure, told
    if draw is None:
        return failure, f"{why}; {told}"
    failure, drawn = doubted(stage, played.job, draw)
    return failure, f"{why}; {told}; {drawn}" if failure is Failure.UNDECIDED else drawn


def _tried(stage: Stage, script: Actor | None, jobs: Sequence[Job]) -> list[bool | None]:
    if script is None:
        return [None] * len(jobs)
    return [run.success for run in run_jobs(stage.scene, stage.task, script, jobs, replace(stage.how, eyes=None))]
