"""Whether intervals are as sure as they claim: coverage, interval scores, and simulation-based calibration.

K times: draw a truth → simulate data under it → infer again → where among the new draws does the truth rank?
If the inference is honest, ranks are even. Too many at both ends: intervals are too narrow; in the middle: too wide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.belief import weighted_quantile
from twinproof.nouns.errors import PosteriorError
from twinproof.nouns.progress import Progress, quiet

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from twinproof.nouns.hashing import Json

FEWEST = 10  # expected counts in a bin of ranks: fewer, and the chi-square test's p-value means little


@dataclass(frozen=True)
class Coverage:
    """How many of so many truths lay inside their intervals, and where the true rate may lie (Clopper–Pearson)."""

    inside: int
    total: int
    level: float = 0.9  # that the intervals claimed
    confidence: float = 0.95  # of the binomial interval

    def __post_init__(self) -> None:
        if not 0 <= self.inside <= self.total or self.total < 1:
            raise PosteriorError(
                f"coverage of {self.inside} among {self.total} cannot be. Count at least one truth, each once."
            )

    @property
    def rate(self) -> float:
        """The share that was covered."""
        return self.inside / self.total

    @property
    def interval(self) -> tuple[float, float]:
        """The exact binomial interval of the rate; it assumes that the truths were drawn independently."""
        from scipy import stats

        beside = (1 - self.confidence) / 2
        k, n = self.inside, self.total
        low = 0.0 if k == 0 else float(stats.beta.ppf(beside, k, n - k + 1))
        high = 1.0 if k == n else float(stats.beta.ppf(1 - beside, k + 1, n - k))
        return low, high

    def __str__(self) -> str:
        low, high = self.interval
        return f"{100 * self.rate:.1f} % ({100 * low:.1f}–{100 * high:.1f}, n = {self.total})"


def central(draws: np.ndarray, log_weights: np.ndarray, level: float = 0.9) -> Float[np.ndarray, "2 P"]:
    """The central interval of each column of weighted draws (N, P)."""
    weights = np.exp(log_weights - np.max(log_weights))
    shares = ((1 - level) / 2, (1 + level) / 2)
    return np.array([[weighted_quantile(column, weights, share) for column in draws.T] for share in shares])


def covered(low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> Bool[np.ndarray, "..."]:
    """Whether each truth lies in its interval, ends included."""
    inside: np.ndarray = (low <= truth) & (truth <= high)
    return inside


def interval_score(
    low: np.ndarray, high: np.ndarray, truth: np.ndarray, level: float = 0.9
) -> Float[np.ndarray, "..."]:
    """Winkler's score of central intervals, in the truth's unit; smaller is better.

    The width, plus 2/(1 − level) times how far the truth lies outside: neither a wide nor a wrong interval wins.
    """
    outside = np.maximum(low - truth, 0.0) + np.maximum(truth - high, 0.0)
    score: np.ndarray = (high - low) + 2 / (1 - level) * outside
    return score


def crps(draws: np.ndarray, truth: np.ndarray, log_weights: np.ndarray | None = None) -> Float[np.ndarray, "P"]:
    """The continuous ranked probability score of weighted draws (N, P) against one truth (P); smaller is better.

    E|X − truth| − ½ E|X − X′|, the expectations over the draws themselves.
    """
    count = len(draws)
    raw = np.zeros(count) if log_weights is None else log_weights
    weights = np.exp(raw - np.max(raw))
    weights = weights / weights.sum()
    near = weights @ np.abs(draws - truth)
    order = np.argsort(draws, axis=0, kind="stable")
    apart = np.empty(draws.shape[1])
    for p in range(draws.shape[1]):
        x, w = draws[order[:, p], p], weights[order[:, p]]
        below = np.cumsum(w)[:-1]
        apart[p] = 2 * float(np.sum(below * (1 - below) * np.diff(x)))  # the integral of F (1 − F), twice
    score: np.ndarray = near - 0.5 * apart
    return score


def rank(draws: np.ndarray, truth: np.ndarray, log_weights: np.ndarray | None = None) -> Float[np.ndarray, "P"]:
    """The share of the draws' weight below each truth, from 0 to 1; half of what ties counts."""
    raw = np.zeros(len(draws)) if log_weights is None else log_weights
    weights = np.exp(raw - np.max(raw))
    below = (draws < truth) + 0.5 * (draws == truth)
    found: np.ndarray = weights @ below / weights.sum()
    return found


def even(ranks: np.ndarray) -> tuple[str, float]:
    """Which test was made of whether ranks (K) in 0–1 are even, and its p-value.

    Chi-square over bins where these would hold ten each, Kolmogorov–Smirnov where there are too few ranks for that.
    """
    from scipy import stats

    count = len(ranks)
    bins = min(20, count // FEWEST)
    if bins >= 5:
        counts, _ = np.histogram(ranks, bins=bins, range=(0.0, 1.0))
        return "chi-square", float(stats.chisquare(counts).pvalue)
    return "Kolmogorov–Smirnov", float(stats.kstest(np.clip(ranks, 0.0, 1.0), "uniform").pvalue)


@dataclass(frozen=True, eq=False)
class Calibration:
    """Ranks (K, P) of K truths among draws inferred from data simulated under them, and how these score."""

    names: tuple[str, ...]
    ranks: Float[np.ndarray, "K P"]
    inside: Bool[np.ndarray, "K P"]
    scores: Float[np.ndarray, "K P"]  # interval scores on the natural scale
    crps: Float[np.ndarray, "K P"]
    level: float = 0.9
    failed: int = 0  # data sets that nothing could be inferred from, beside the K

    def only(self, names: Sequence[str]) -> Calibration:
        """The same of some unknowns."""
        kept = [self.names.index(name) for name in names]
        ranks, inside, scores, crps = (each[:, kept] for each in (self.ranks, self.inside, self.scores, self.crps))
        return Calibration(tuple(names), ranks, inside, scores, crps, self.level, self.failed)

    def coverage(self, name: str) -> Coverage:
        """Of one unknown."""
        if name not in self.names:
            raise PosteriorError(f"the calibration has no unknown {name!r}; it has {', '.join(self.names)}.")
        mine = self.inside[:, self.names.index(name)]
        return Coverage(int(mine.sum()), len(mine), self.level)

    @property
    def overall(self) -> Coverage:
        """Over all unknowns; these share their data, so its binomial interval is somewhat too narrow."""
        return Coverage(int(self.inside.sum()), self.inside.size, self.level)

    def diagnostics(self) -> dict[str, Json]:
        """Ranks, tests and coverage as a posterior keeps them."""
        found: dict[str, Json] = {}
        for p, name in enumerate(self.names):
            test, p_value = even(self.ranks[:, p])
            one = self.coverage(name)
            found[name] = {
                "ranks": [round(float(r), 4) for r in self.ranks[:, p]],
                "test": test,
                "p_value": p_value,
                "coverage": one.rate,
                "coverage_interval": list(one.interval),
                "interval_score": float(np.mean(self.scores[:, p])),
                "crps": float(np.mean(self.crps[:, p])),
            }
        return found


def calibrate(
    names: tuple[str, ...],
    truths: np.ndarray,
    infer: Callable[[int, np.ndarray], tuple[np.ndarray, np.ndarray] | None],
    level: float = 0.9,
    progress: Progress = quiet,
) -> Calibration:
    """Simulation-based calibration over truths (K, P).

    `infer(k, truth)` simulates data number k under the truth, infers from it anew, and gives draws (N, P) with log
    weights, or None where nothing can be inferred. For the ranks to be even, truths must come from the prior that
    `infer` uses.
    """
    if truths.ndim != 2 or not len(truths) or truths.shape[1] != len(names):
        raise PosteriorError(
            f"truths of shape {truths.shape} were given for {len(names)} unknowns. Give a row for each data set and a "
            "column for each unknown."
        )
    ranks, inside, scores, ranked = [], [], [], []
    for k, truth in enumerate(truths):
        told = infer(k, truth)
        if told is None:
            continue
        draws, log_weights = told
        low, high = central(draws, log_weights, level)
        ranks.append(rank(draws, truth, log_weights))
        inside.append(covered(low, high, truth))
        scores.append(interval_score(low, high, truth, level))
        ranked.append(crps(draws, truth, log_weights))
        progress(k + 1, f"{100 * float(np.mean(inside)):.0f} % inside", len(truths))
    if not ranks:
        raise PosteriorError(
            f"nothing could be inferred from any of {len(truths)} simulated data sets. Leave the check out, and look "
            "at how single draws move."
        )
    failed = len(truths) - len(ranks)
    return Calibration(names, np.array(ranks), np.array(inside), np.array(scores), np.array(ranked), level, failed)
