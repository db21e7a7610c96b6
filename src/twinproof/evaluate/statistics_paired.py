"""Two policies, or two domains, on the same seeds: differences of pairs, exact or by drawing pairs anew."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.evaluate.statistics import Interval, check_level
from twinproof.nouns.errors import TraceError

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


@dataclass(frozen=True)
class Paired:
    """Outcomes of pairs: the difference of success rates (second minus first) with its interval, and McNemar's p."""

    both: int
    only_first: int
    only_second: int
    neither: int
    difference: Interval
    p_value: float


def mcnemar(
    first: Bool[np.ndarray, "n"] | Sequence[bool], second: Bool[np.ndarray, "n"] | Sequence[bool], level: float = 0.95
) -> Paired:
    """McNemar's exact test, and Agresti and Min's interval (half a pair is added to each kind) of the difference."""
    from scipy.special import bdtr, ndtri

    check_level(level)
    a, b = _pairs(first, second)
    a, b = a.astype(bool), b.astype(bool)
    one, two = int((a & ~b).sum()), int((~a & b).sum())
    apart = one + two
    p_value = min(1.0, 2 * float(bdtr(min(one, two), apart, 0.5))) if apart else 1.0
    n, down, up = len(a) + 2.0, one + 0.5, two + 0.5
    middle = (up - down) / n
    half = float(ndtri((1 + level) / 2)) * math.sqrt(up + down - (up - down) ** 2 / n) / n
    low, high = max(-1.0, middle - half), min(1.0, middle + half)
    difference = Interval((two - one) / len(a), low, high, level)
    return Paired(int((a & b).sum()), one, two, int((~a & ~b).sum()), difference, p_value)


def paired_bootstrap(
    first: Float[np.ndarray, "n"] | Sequence[float],
    second: Float[np.ndarray, "n"] | Sequence[float],
    rng: np.random.Generator,
    level: float = 0.95,
    draws: int = 4000,
) -> Interval:
    """The mean of second minus first, with the quantiles of means of pairs drawn anew.

    The quantiles are taken farther out for few pairs, as Student's are (Hesterberg, American Statistician 69, 2015).
    """
    from scipy.special import ndtr, stdtrit

    check_level(level)
    a, b = _pairs(first, second)
    change = b.astype(float) - a.astype(float)
    n = len(change)
    if n < 2:
        raise TraceError("one pair has no scatter: an interval needs two pairs or more.")
    tail = float(ndtr(math.sqrt(n / (n - 1)) * stdtrit(n - 1, (1 - level) / 2)))
    means = change[rng.integers(0, n, (draws, n))].mean(axis=1)
    low, high = np.quantile(means, [tail, 1 - tail])
    return Interval(float(change.mean()), float(low), float(high), level)


def _pairs(first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.asarray(first), np.asarray(second)
    if a.ndim != 1 or a.shape != b.shape or not len(a):
        raise TraceError(f"pairs need as many of the first as of the second; found shapes {a.shape} and {b.shape}.")
    for side in (a, b):
        if not np.isfinite(side.astype(float)).all():
            raise TraceError("a pair holds a value that is not finite. Leave the pair out, and say so.")
    return a, b
