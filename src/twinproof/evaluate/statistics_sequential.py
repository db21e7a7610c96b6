"""Looking after every trial without paying for it: an anytime-valid confidence sequence by betting.

For each candidate mean m one gambler bets on the next value being above m, another on its being below. Against the true
mean their wealth, halved and added, stays below 1 / alpha for ever with probability 1 - alpha (Ville). Candidates
against which it grows beyond that are refused (Waudby-Smith and Ramdas, JRSS B 86, 2024). Stop whenever one likes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from twinproof.evaluate.statistics import check_level
from twinproof.nouns.errors import ConfigError, TraceError

if TYPE_CHECKING:
    from jaxtyping import Float

CANDIDATES = 1001
CAREFUL = 0.5  # the largest share of the wealth's reach that is staked


@dataclass(frozen=True, eq=False)
class ConfidenceSequence:
    """What is enclosed after each value; the enclosure never grows again. `level` holds for all moments at once."""

    low: Float[np.ndarray, "n"]
    high: Float[np.ndarray, "n"]
    level: float


def confidence_sequence(values: Sequence[float] | np.ndarray, level: float = 0.95) -> ConfidenceSequence:
    """Encloses the mean of values in [0, 1], after each of them."""
    check_level(level)
    x = np.asarray(values, dtype=float)
    if x.ndim != 1 or not len(x) or not ((x >= 0) & (x <= 1)).all():
        raise TraceError("a confidence sequence needs values between 0 and 1. Successes are 0 and 1.")
    alpha = 1 - level
    m = np.linspace(0, 1, CANDIDATES)
    up, down, alive = np.zeros(len(m)), np.zeros(len(m)), np.ones(len(m), dtype=bool)
    low, high = np.empty(len(x)), np.empty(len(x))
    with np.errstate(divide="ignore"):
        most_up, most_down = CAREFUL / m, CAREFUL / (1 - m)
    for t, (value, stake) in enumerate(zip(x, _stakes(x, alpha), strict=True)):
        up += np.log1p(np.minimum(stake, most_up) * (value - m))
        down += np.log1p(-np.minimum(stake, most_down) * (value - m))
        # log of the mean of both gamblers' wealth
        alive &= np.logaddexp(up, down) - np.log(2) < np.log(1 / alpha)
        left = np.flatnonzero(alive)
        if len(left):
            # one step of the grid on either side: the truth may lie between candidates
            low[t], high[t] = m[max(left[0] - 1, 0)], m[min(left[-1] + 1, len(m) - 1)]
        else:
            low[t], high[t] = low[t - 1], high[t - 1]  # all were refused, which is rare: what was enclosed last stands
    return ConfidenceSequence(low, high, level)


def _stakes(x: np.ndarray, alpha: float) -> np.ndarray:
    """Predictable bets: each uses what came before it alone (the plug-in of Waudby-Smith and Ramdas)."""
    t = np.arange(1, len(x) + 1)
    mean = (0.5 + np.cumsum(x)) / (t + 1)
    spread = (0.25 + np.cumsum((x - mean) ** 2)) / (t + 1)
    before = np.concatenate([[0.25], spread[:-1]])
    stakes: np.ndarray = np.sqrt(2 * np.log(2 / alpha) / (before * t * np.log(1 + t)))
    return stakes


@dataclass(frozen=True)
class Decision:
    """Which of two is better, after how many pairs, and what is enclosed then."""

    verdict: Literal["first", "second", "continue", "no difference found"]
    pairs: int
    low: float  # of second minus first
    high: float


def sequential_comparison(
    first: Sequence[float] | np.ndarray,
    second: Sequence[float] | np.ndarray,
    most_pairs: int,
    level: float = 0.95,
) -> Decision:
    """Second minus first on the same seeds, values in [0, 1]; stops at the first pair that decides.

    `most_pairs` is stated beforehand: when it is reached without a decision, no difference was found.
    """
    a, b = np.asarray(first, float), np.asarray(second, float)
    if most_pairs < 1:
        raise ConfigError(f"at most {most_pairs} pairs cannot decide anything. State one or more.")
    if a.shape != b.shape or a.ndim != 1 or not 0 < len(a) <= most_pairs:
        raise TraceError(f"{a.shape} and {b.shape} values; as many of both are needed, 1 to {most_pairs}.")
    found = confidence_sequence((b - a + 1) / 2, level)
    low, high = 2 * found.low - 1, 2 * found.high - 1
    decided = np.flatnonzero((low > 0) | (high < 0))
    last = int(decided[0]) if len(decided) else len(a) - 1
    if len(decided):
        return Decision("second" if low[last] > 0 else "first", last + 1, float(low[last]), float(high[last]))
    over = len(a) == most_pairs
    return Decision("no difference found" if over else "continue", len(a), float(low[last]), float(high[last]))
