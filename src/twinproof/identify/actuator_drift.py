"""How a motor's Coulomb level wandered over a recording: window by window, then a random walk through the windows.

gaps of each window ── slope by the level ──> level ± error ── Kalman filter, likelihood over the walk ──> drift, N m/√s
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.identify.actuator_fit import Matched, Windowed, changed
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.theta import Theta
from twinproof.sim.actuator_law import ActuatorLaw

if TYPE_CHECKING:
    from jaxtyping import Float

NUDGE = 0.01  # of the level, for its slope


@dataclass(frozen=True, eq=False)
class Walk:
    """A random walk through levels that were read at some times: its pace, and the level at each time."""

    time_s: Float[np.ndarray, "n"]
    level: Float[np.ndarray, "n"]
    sd: Float[np.ndarray, "n"]
    drift: float  # N m/√s
    gain: float  # in log likelihood over a level that stands still

    @property
    def found(self) -> bool:
        """Whether the recording asks for a drift: 3 in log likelihood, as one more number should bring."""
        return self.gain > 3.0


def walk(
    times_s: Sequence[np.ndarray],
    levels: Sequence[np.ndarray],
    errors: Sequence[np.ndarray],
    centre: float,
    pace: float | None = None,
) -> Walk:
    """The walk that explains levels (one array a run, each with a beginning of its own near `centre`) best.

    With a `pace`, that one or a level that stands still: for runs that it was not found on.
    """
    count = sum(map(len, times_s))
    if count < 5 or any(len(t) != len(x) or len(t) != len(e) for t, x, e in zip(times_s, levels, errors, strict=True)):
        raise ConfigError(
            f"{count} levels with their times and errors were given; a walk needs 5 or more, with a time and an error "
            "each. Use more or shorter windows."
        )
    spread = float(np.std(np.concatenate([np.asarray(x) for x in levels]))) + 1e-9
    longest = max(float(t[-1] - t[0]) for t in times_s) + 1e-9
    tried = np.geomspace(1e-3, 10.0, 41) * spread / np.sqrt(longest) if pace is None else [pace]
    paces = np.concatenate([[0.0], tried])
    runs = list(zip(times_s, levels, errors, strict=True))
    likely = np.array([sum(_filter(*run, pace, centre, spread)[0] for run in runs) for pace in paces])
    best = int(np.argmax(likely))
    smooth = [_filter(*run, paces[best], centre, spread)[1] for run in runs]
    level, sd = (np.concatenate([part[k] for part in smooth]) for k in (0, 1))
    times = np.concatenate([np.asarray(t) for t in times_s])
    return Walk(times, level, sd, float(paces[best]), float(likely[best] - likely[0]))


def _filter(
    times: np.ndarray, levels: np.ndarray, errors: np.ndarray, pace: float, centre: float, spread: float
) -> tuple[float, tuple[np.ndarray, np.ndarray]]:
    """Log likelihood of one run's levels, and the level with its sd at each time, from what came before and after."""
    mean, variance, likely = centre, (3 * spread) ** 2, 0.0
    means, variances, ahead = [], [], []
    for k, (level, error) in enumerate(zip(levels, errors, strict=True)):
        variance += pace**2 * (float(times[k] - times[k - 1]) if k else 0.0)
        ahead.append(variance)
        total = variance + error**2
        likely -= 0.5 * float(np.log(2 * np.pi * total) + (level - mean) ** 2 / total)
        share = variance / total
        mean, variance = mean + share * (level - mean), (1 - share) * variance
        means.append(mean)
        variances.append(variance)
    for k in range(len(means) - 2, -1, -1):  # Rauch, Tung and Striebel's way back
        share = variances[k] / max(ahead[k + 1], 1e-300)
        means[k] += share * (means[k + 1] - means[k])
        variances[k] += share**2 * (variances[k + 1] - ahead[k + 1])
    return likely, (np.array(means), np.sqrt(np.maximum(variances, 0.0)))


def wander(
    windows: Windowed, found: Matched, motor: str, known: Theta | None = None, pace: float | None = None
) -> Walk:
    """The walk of a motor's Coulomb level over some runs; `drift` is its number for the law. `known` as in the fit.

    What windows miss is mostly not noise, so the errors are those that make the windows' levels agree with their
    neighbours' as a random walk plus white noise would.
    """
    law, name = found.law, f"{motor}.coulomb"
    if not isinstance(law, ActuatorLaw):
        raise ConfigError(f"the Coulomb level of a {type(law).__name__} is not known. Fit an ActuatorLaw alone.")
    centre = law.value(name)
    if centre <= 0:
        raise ConfigError(f"{motor!r} has no Coulomb friction, so there is no level that could wander.")
    thetas = [(known or Theta({})) | found.theta(run.id) for run in windows.runs]
    gap = windows.gaps([thetas, thetas], [law, changed(law, {name: centre * (1 + NUDGE)})])
    residual = np.nan_to_num(gap[0]).reshape(len(windows.first), -1)
    slope = np.nan_to_num(gap[1] - gap[0]).reshape(len(windows.first), -1) / (centre * NUDGE)
    information = (slope**2).sum(axis=1) + 1e-12
    level = centre - (slope * residual).sum(axis=1) / information
    left = residual + slope * (level - centre)[:, None]
    # one degree of freedom a window, not one a sample: neighbours in a window err together
    error = np.sqrt((left**2).sum(axis=1) / information) + 1e-6
    time = windows.first * windows.driven.sample_s
    mine = [np.flatnonzero(windows.run == r) for r in range(len(windows.runs))]
    return walk([time[m] for m in mine], [level[m] for m in mine], [error[m] for m in mine], centre, pace)
