"""Does the twin still explain the robot? One-step predictions against what the robot reports, while it runs.

At every step the twin says where the robot will be at the next; the error, in units of what is usual, is averaged over
a short window. Validation episodes tell how large that gets when all is well. The threshold is conformal: it is passed
in at most a share alpha of new episodes like those, whatever the errors' distribution (Vovk's split conformal
prediction; the unit is the episode, since errors of one episode hang together).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from twinproof.evaluate.statistics import Interval, clopper_pearson
from twinproof.nouns.errors import ConfigError, TraceError
from twinproof.nouns.hashing import Json

if TYPE_CHECKING:
    from jaxtyping import Float

State = Literal["ok", "slow", "stop"]
Episode = tuple["Float[np.ndarray, 'T D']", "Float[np.ndarray, 'T D']"]  # predicted one step ahead, measured


@dataclass(frozen=True, eq=False)
class Thresholds:
    """What validation told: usual errors, the largest windowed error of every episode, and the two thresholds."""

    usual: Float[np.ndarray, "D"]  # root mean square one-step error of each number
    worst: Float[np.ndarray, "E"]  # of every validation episode, sorted
    window: int  # steps
    slow: float
    stop: float
    slow_alpha: float
    stop_alpha: float

    def told(self) -> dict[str, Json]:
        """As plain data: thresholds in usual errors, and the share of false alarms that each promises."""
        numbers = {"slow_above": self.slow, "stop_above": self.stop, "window_ticks": self.window}
        promised = {"slow_false_alarms": self.slow_alpha, "stop_false_alarms": self.stop_alpha}
        return {**numbers, **promised, "episodes": len(self.worst), "usual": [float(each) for each in self.usual]}


def calibrate(
    episodes: Sequence[Episode],
    window: int = 10,
    slow_alpha: float = 0.2,
    stop_alpha: float = 0.05,
    usual: Float[np.ndarray, "D"] | None = None,
) -> Thresholds:
    """Thresholds from validation episodes that went well. They must not have been used to fit the twin.

    With `usual` errors from other episodes the bound on false alarms is exact; taken from these, it is nearly so.
    """
    if not (0 < stop_alpha <= slow_alpha < 1 and window >= 1):
        raise ConfigError(
            f"a window of {window} steps with false alarms of {slow_alpha} (slow) and {stop_alpha} (stop): the window "
            "is one or more, and stopping is not the more frequent."
        )
    needed = math.ceil(1 / stop_alpha - 1e-9) - 1
    if len(episodes) < needed:
        raise ConfigError(
            f"{len(episodes)} validation episodes cannot bound false alarms at {stop_alpha}: {needed} can. Record "
            "more, or allow more false alarms."
        )
    errors = [_errors(predicted, measured) for predicted, measured in episodes]
    if usual is None:
        usual = np.sqrt(np.mean([(e**2).mean(axis=0) for e in errors], axis=0))
    usual = np.where(usual > 0, usual, 1e-9)
    worst = np.sort([float(_windowed(e / usual, window).max()) for e in errors])
    slow, stop = (float(worst[math.ceil((len(worst) + 1) * (1 - a) - 1e-9) - 1]) for a in (slow_alpha, stop_alpha))
    return Thresholds(usual, worst, window, slow, stop, slow_alpha, stop_alpha)


def _errors(predicted: np.ndarray, measured: np.ndarray) -> np.ndarray:
    p, m = np.asarray(predicted, float), np.asarray(measured, float)
    if p.shape != m.shape or p.ndim != 2 or not p.size or not (np.isfinite(p).all() and np.isfinite(m).all()):
        raise TraceError(
            f"predictions of shape {p.shape} and measurements of shape {m.shape}: the monitor needs finite rows of the "
            "same numbers, one a step."
        )
    apart: np.ndarray = m - p
    return apart


def _windowed(scaled: np.ndarray, window: int) -> np.ndarray:
    """The root mean square over numbers, averaged over the last steps; the first steps average over what there is."""
    size = np.sqrt((scaled**2).mean(axis=1))
    total = np.concatenate([[0.0], np.cumsum(size)])
    last = np.arange(1, len(size) + 1)
    first = np.maximum(last - window, 0)
    mean: np.ndarray = (total[last] - total[first]) / (last - first)
    return mean


@dataclass(frozen=True)
class Reading:
    """The windowed error now, what it means, and how many validation episodes in a hundred were ever this far off."""

    score: float
    state: State
    fidelity: float  # a conformal p-value: 1 is as usual, near 0 is unlike anything in validation


@dataclass
class Watch:
    """Watches one episode. A state never gets better again within it: whoever slowed down looks before going on.

    `hook` is called at every change of state, before the next command: it slows or stops the policy.
    """

    thresholds: Thresholds
    hook: Callable[[Reading], None] | None = None
    state: State = "ok"
    _sizes: deque[float] = field(default_factory=deque)

    def update(self, predicted: Float[np.ndarray, "D"], measured: Float[np.ndarray, "D"]) -> Reading:
        """One step. A prediction or a report that is not finite explains nothing: it stops."""
        usual = self.thresholds.usual
        p, m = np.asarray(predicted, float), np.asarray(measured, float)
        if p.shape != usual.shape or m.shape != usual.shape:
            raise TraceError(
                f"the monitor was calibrated on {len(usual)} numbers a step; found {p.shape} and {m.shape}."
            )
        size = float(np.sqrt((((m - p) / usual) ** 2).mean())) if np.isfinite([*p, *m]).all() else math.inf
        self._sizes.append(size)
        if len(self._sizes) > self.thresholds.window:
            self._sizes.popleft()
        score = sum(self._sizes) / len(self._sizes)
        now: State = "stop" if score > self.thresholds.stop else "slow" if score > self.thresholds.slow else "ok"
        order: tuple[State, ...] = ("ok", "slow", "stop")
        worse = order.index(now) > order.index(self.state)
        self.state = now if worse else self.state
        beyond = int((self.thresholds.worst >= score).sum())
        reading = Reading(score, self.state, (1 + beyond) / (1 + len(self.thresholds.worst)))
        if worse and self.hook is not None:
            self.hook(reading)
        return reading


def alarms(thresholds: Thresholds, episodes: Sequence[Episode], level: float = 0.95) -> dict[str, Interval]:
    """How often episodes slow or stop: false alarms where all was well, detections where it was not."""
    states = []
    for predicted, measured in episodes:
        watch = Watch(thresholds)
        for p, m in zip(predicted, measured, strict=True):
            watch.update(p, m)
        states.append(watch.state)
    if not states:
        raise TraceError("no episodes to count alarms over. Give at least one.")
    stopped, slowed = states.count("stop"), len(states) - states.count("ok")
    return {"slow": clopper_pearson(slowed, len(states), level), "stop": clopper_pearson(stopped, len(states), level)}
