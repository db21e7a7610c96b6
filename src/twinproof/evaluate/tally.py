"""What is counted of a policy in every trial, in twins and in reality alike: how long it thinks, which limits it meets.

latency_p50_s, latency_p95_s   of its answers: ticks at which it was asked; where a chunk is played out nobody asks
deadline_misses                answers that took longer than a tick
safety_…                       ticks in which a limit changed what was sent: joint_limit, speed_limit, workspace,
                               effort_limit of the safety filter; without one, joint and speed limits of the robot

fidelity                       of a real trial with a monitor: how unlike validation it was at worst (a p-value)
slowed_ticks, stopped_ticks    ticks at which the monitor slowed or stopped it

In the twin many worlds are asked in one call; each answer is counted with its share of the call's time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from twinproof.nouns.panel import Metric
from twinproof.policies.drive import Driven
from twinproof.policies.safety import KINDS, RANGE, SPEED
from twinproof.policies.timing import Timing

LATENCY = ("latency_p50_s", "latency_p95_s", "deadline_misses")
SAFETY = {kind: f"safety_{kind.replace(' ', '_')}" for kind in KINDS}
METRICS = (
    Metric("latency_p50_s", "s", "lower"),
    Metric("latency_p95_s", "s", "lower"),
    Metric("deadline_misses", "1", "lower"),
    *(Metric(name, "1", "lower") for name in SAFETY.values()),
    Metric("fidelity", "1", "higher"),
    Metric("slowed_ticks", "1", "lower"),
    Metric("stopped_ticks", "1", "lower"),
)
OF_ROBOT = {RANGE: "robot: joint limit", SPEED: "robot: speed limit"}  # what a driver's own limits are counted as


def measured(answers_s: Sequence[float], period_s: float, met: Mapping[str, int]) -> dict[str, float]:
    """The metrics of one trial; latency is absent where nothing was asked, a limit where nobody keeps it."""
    found = {SAFETY[kind]: float(count) for kind, count in met.items()}
    if not len(answers_s):
        return found
    timing = Timing.of(list(answers_s))
    late = float(sum(took > period_s for took in answers_s))
    return {"latency_p50_s": timing.p50_s, "latency_p95_s": timing.p95_s, "deadline_misses": late, **found}


def of_driven(driven: Driven, rate_hz: float) -> dict[str, float]:
    """The metrics of a trial on a robot."""
    mine = {kind: driven.counts[kind] for kind in KINDS if kind in driven.counts}
    if driven.filtered:
        met = {**dict.fromkeys(KINDS, 0), **mine}
    else:
        met = {kind: driven.counts.get(name, 0) for kind, name in OF_ROBOT.items()}
    return measured(driven.latency_s[driven.asked], 1 / rate_hz, met)


class Tally:
    """Counts in N worlds while their trials run."""

    def __init__(self, count: int, period_s: float) -> None:
        self._period_s = period_s
        self._answers: list[list[float]] = [[] for _ in range(count)]
        self._clipped = {kind: np.zeros(count, np.int64) for kind in (RANGE, SPEED)}

    def begin(self, which: np.ndarray) -> None:
        """A new trial in the worlds of the mask."""
        for world in np.flatnonzero(which):
            self._answers[world] = []
        for ticks in self._clipped.values():
            ticks[which] = 0

    def asked(self, which: np.ndarray, took_s: float) -> None:
        """The worlds of the mask were asked in one call that took so long."""
        asked = np.flatnonzero(which)
        for world in asked:
            self._answers[world].append(took_s / len(asked))

    def clipped(self, beyond: Mapping[str, np.ndarray]) -> None:
        """The worlds' own limits changed so many joints of a command."""
        for kind, ticks in self._clipped.items():
            ticks += np.asarray(beyond[kind]) > 0

    def metrics(self, world: int, met: Mapping[str, int] | None) -> dict[str, float]:
        """Of the trial that ended in a world; `met` are counts of a safety filter, where there is one."""
        own = {kind: int(ticks[world]) for kind, ticks in self._clipped.items()}
        return measured(self._answers[world], self._period_s, own if met is None else met)
