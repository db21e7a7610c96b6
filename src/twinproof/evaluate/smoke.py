"""Before many trials are run: the same seed twice gives the same trial, and small changes make small differences.

A twin or a policy that fails here gives numbers that nobody can reproduce, so nothing large is run on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from twinproof.evaluate.closed_loop import BROKE, Job, Stage
from twinproof.evaluate.runs import Run
from twinproof.nouns.actor import Actor
from twinproof.nouns.errors import PanelError
from twinproof.nouns.hashing import Json
from twinproof.nouns.randomness import stream
from twinproof.nouns.theta import Theta
from twinproof.sim.parameters.resolve import parameter

FEW = 4  # trials that are tried
EARLY_S = 0.3  # a difference is looked at this long: later, contact and instability magnify anything
CHANGE = 1e-4  # of each parameter's value, and of each observation
MOST = 0.02  # largest difference of a joint, in rad or m, that such a change may make early


@dataclass(frozen=True)
class Steady:
    """What was tried, and the largest early difference that a small change made."""

    trials: int
    same: bool
    by_parameters: float  # rad or m
    by_observations: float

    def told(self) -> dict[str, Json]:
        """For the summary."""
        limits = {"early_s": EARLY_S, "change": CHANGE, "most": MOST}
        return {"trials": self.trials, "same_seed_same_trial": self.same, **limits, **self._differences()}

    def _differences(self) -> dict[str, float]:
        return {"by_parameters": self.by_parameters, "by_observations": self.by_observations}


def steady(stage: Stage, jobs: Sequence[Job], name: str, repeatable: bool = True) -> Steady:
    """Tries a few trials of a policy; PanelError says what does not hold. Of one that draws luck of its own, as many
    servers do (`repeatable` is false), it is only told how far its trials differ."""
    few = list(jobs[:FEW])
    first = stage.run(few)
    if all(run.note.startswith(BROKE) for run in first):
        raise PanelError(f"the policy {name!r} breaks in every trial that is tried first. {first[0].note}")
    again = stage.run(few)
    alone = stage.run(few[:1])
    if not repeatable and any(a.trace.hash != b.trace.hash for a, b in zip(first, again, strict=True)):
        apart = max(_apart(a, b) for a, b in zip(first, again, strict=True))
        return Steady(len(few), False, apart, apart)
    for k, (one, other) in enumerate(zip((*first, first[0]), (*again, *alone), strict=True)):
        if one.trace.hash != other.trace.hash:
            how = "alone and beside others" if k == len(few) else "twice"
            raise PanelError(
                f"condition {few[k % len(few)].cell.condition.name!r}, run {how} with one seed, gave two trials that "
                f"differ by {_apart(one, other):.3g} rad or m: the policy {name!r} or the twin is no function of its "
                "seed. Nobody could repeat these numbers: look for randomness without a seed in the policy."
            )
    nudged = [replace(job, theta=_nudged(job.theta)) for job in few]
    by_parameters = _largest(first, stage.run(nudged), name, "parameters")
    seeing_wrong = replace(stage, actor=_Nudged(stage.actor))
    by_observations = _largest(first, seeing_wrong.run(few), name, "observations")
    return Steady(len(few), True, by_parameters, by_observations)


def _largest(first: Sequence[Run], other: Sequence[Run], name: str, what: str) -> float:
    worst = max(_apart(a, b) for a, b in zip(first, other, strict=True))
    if worst > MOST:
        raise PanelError(
            f"{what} that differ by {CHANGE:.0e} of their value move a joint by {worst:.3g} rad or m within "
            f"{EARLY_S:g} s; at most {MOST:g} is let pass. The twin or the policy {name!r} magnifies what nobody can "
            "know, so its success says nothing: look for stiff contacts, or for huge gains."
        )
    return worst


def _apart(one: Run, other: Run) -> float:
    a, b = (run.trace.signals["state"] for run in (one, other))
    shared = min(len(a.time_s), len(b.time_s))
    early = int((a.time_s[:shared] <= EARLY_S).sum())
    return float(np.abs(a.value[:early] - b.value[:early]).max(initial=0.0))


def _nudged(theta: Theta) -> Theta:
    """Every value off by a share, and inside its limits; but for delays, which act in whole physics steps."""
    moved = dict(theta)
    for id, value in theta.items():
        if id.endswith(("delay", "latency")):
            continue
        low, high = parameter(id).limits
        moved[id] = next(v for v in (value * (1 + CHANGE), value * (1 - CHANGE), value) if low <= v <= high)
    return Theta(moved)


class _Nudged:
    """A policy that sees every number a little wrong."""

    def __init__(self, actor: Actor) -> None:
        self.contract, self._actor = actor.contract, actor

    def reset(self, count: int, seed: int, which: np.ndarray | None = None) -> None:
        """As the policy itself."""
        self._actor.reset(count, seed, which)

    def act(self, observations: Mapping[str, np.ndarray]) -> np.ndarray:
        """What the policy does on numbers that are off by a share; pictures stay as they are."""
        off = {name: 1 + CHANGE * stream(0, "evaluate", "nudge", name).choice([-1.0, 1.0]) for name in observations}
        moved = {n: v if v.dtype == np.uint8 else v * off[n] for n, v in observations.items()}
        return self._actor.act(moved)
