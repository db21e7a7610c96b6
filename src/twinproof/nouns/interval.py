"""A number with what encloses it: intervals of success rates and means that hold what they promise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twinproof.nouns.errors import ConfigError, TraceError


@dataclass(frozen=True)
class Interval:
    """A number and what encloses it at a level: `low` to `high` cover the truth in that share of experiments."""

    value: float
    low: float
    high: float
    level: float

    def __str__(self) -> str:
        return f"{self.value:.3g} ({self.low:.3g} … {self.high:.3g})"


def clopper_pearson(successes: int, trials: int, level: float = 0.95) -> Interval:
    """The exact interval of a success rate: it covers at least `level`, whatever the rate."""
    from scipy.special import betaincinv

    check_counts(successes, trials, level)
    tail = (1 - level) / 2
    low = 0.0 if successes == 0 else float(betaincinv(successes, trials - successes + 1, tail))
    high = 1.0 if successes == trials else float(betaincinv(successes + 1, trials - successes, 1 - tail))
    return Interval(successes / trials, low, high, level)


def mean_interval(values: Sequence[float] | np.ndarray, level: float = 0.95) -> Interval:
    """A mean with Student's interval; the values are independent, such as one a pair of episodes."""
    from scipy.special import stdtrit

    array = np.asarray(values, dtype=float)
    check_level(level)
    if array.ndim != 1 or len(array) < 2 or not np.isfinite(array).all():
        raise TraceError(f"an interval of a mean needs two finite values or more; found {array.shape}.")
    half = float(stdtrit(len(array) - 1, (1 + level) / 2)) * float(array.std(ddof=1)) / math.sqrt(len(array))
    middle = float(array.mean())
    return Interval(middle, middle - half, middle + half, level)


def check_level(level: float) -> None:
    """A level lies strictly between 0 and 1."""
    if not 0 < level < 1:
        refuse_level(level)


def refuse_level(level: float) -> float:
    """Always ConfigError."""
    raise ConfigError(f"the level {level} is no share between 0 and 1 (above 0.5 where it is one-sided).")


def check_counts(successes: int, trials: int, level: float, fewest: int = 1) -> None:
    """Successes are at most the trials, of which there are `fewest` or more."""
    check_level(level)
    if not (trials >= fewest and 0 <= successes <= trials):
        raise TraceError(f"{successes} successes of {trials} trials cannot be. Count them again.")
