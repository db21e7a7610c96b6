"""Few real trials and many simulated ones, together: prediction-powered estimates, and what the twin is worth for them.

PPI++ (Angelopoulos, Duchi and Zrnic 2023): mean(Y) - λ (mean(f on the real scenes) - mean(f on all others)), λ tuned so
that the variance is least. A useless twin gets λ near 0 and costs little; the correlation ρ of outcomes is its worth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twinproof.evaluate.statistics import Interval, check_level, share_interval
from twinproof.nouns.errors import TraceError

FEWEST = 10  # real trials, below which the normal approximation has no ground


@dataclass(frozen=True)
class Powered:
    """Success (or a score in [0, 1]) in reality, from both; what the real trials say alone; and the twin's worth."""

    estimate: Interval
    real_alone: Interval
    correlation: Interval  # of real and simulated outcomes on the same scenes
    weight: float  # λ
    saved: float  # the share of real trials that the twin stands for: 1 - (width together / width alone)²


def powered(
    real: Sequence[float] | np.ndarray,
    sim_same: Sequence[float] | np.ndarray,
    sim_other: Sequence[float] | np.ndarray,
    level: float = 0.95,
) -> Powered:
    """`sim_same` are the twin's outcomes on the scenes of `real`, in order; `sim_other` on further scenes alike."""
    check_level(level)
    y, f, g = (np.asarray(side, dtype=float) for side in (real, sim_same, sim_other))
    if y.shape != f.shape or y.ndim != 1 or g.ndim != 1 or len(y) < FEWEST or len(g) < 2:
        raise TraceError(
            f"{len(y)} real trials, {len(f)} simulated on the same scenes and {len(g)} on others: at least {FEWEST} "
            "pairs and two others are needed."
        )
    if not all(((side >= 0) & (side <= 1)).all() for side in (y, f, g)):
        raise TraceError(
            "an outcome lies outside 0 to 1, or is not known. Leave its scene out on both sides, and say so."
        )
    n, more = len(y), len(g)
    scale = (1 + n / more) * float(np.concatenate([f, g]).var(ddof=1))
    shared = (y - y.mean()) * (f - f.mean())
    weight = float(np.clip(shared.sum() / (n - 1) / scale, 0.0, 1.0)) if scale > 0 else 0.0
    middle = float(np.clip(y.mean() - weight * (f.mean() - g.mean()), 0.0, 1.0))
    # each residual with the weight that the other pairs give: a weight that saw it would flatter it
    without = (shared.sum() - shared * n / (n - 1)) / (n - 2)
    left = y - (np.clip(without / scale, 0.0, 1.0) if scale > 0 else 0.0) * (f - g.mean())
    twin = weight**2 * float(g.var(ddof=1)) / more
    own = float(y.var(ddof=1)) / n
    saved = 1 - (float(left.var(ddof=1)) / n + twin) / own if own > 0 else 0.0
    # two pairs that disagree by a half are added: few pairs that all agree do not show that none would differ
    variance = float(np.append(left, [middle - 0.5, middle + 0.5]).var(ddof=1)) / n + twin
    together = share_interval(middle, variance, n, level)
    alone = share_interval(float(y.mean()), own, n, level)
    return Powered(together, alone, correlation(y, f, level), weight, max(0.0, saved))


def correlation(first: np.ndarray, second: np.ndarray, level: float = 0.95) -> Interval:
    """Pearson's r of paired outcomes; the interval leaves out one pair at a time (jackknife on Fisher's scale)."""
    from scipy.special import stdtrit

    check_level(level)
    n = len(first)
    r = _r(first, second)
    if r is None or n < 4:
        return Interval(0.0, -1.0, 1.0, level)  # one side does not vary: nothing is known
    left = [_r(np.delete(first, k), np.delete(second, k)) for k in range(n)]
    z = np.arctanh(np.clip([r if one is None else one for one in left], -0.999999, 0.999999))
    middle = float(np.arctanh(np.clip(r, -0.999999, 0.999999)))
    pseudo = n * middle - (n - 1) * z
    half = float(stdtrit(n - 1, (1 + level) / 2)) * math.sqrt(float(pseudo.var(ddof=1)) / n)
    return Interval(r, float(np.tanh(middle - half)), float(np.tanh(middle + half)), level)


def _r(first: np.ndarray, second: np.ndarray) -> float | None:
    a, b = first - first.mean(), second - second.mean()
    power = math.sqrt(float((a**2).sum() * (b**2).sum()))
    return float((a * b).sum()) / power if power > 1e-12 else None


def saved_share(rho: float, real_trials: int, sim_trials: int) -> float:
    """The share of real trials that a twin with outcome correlation ρ stands for: ρ² N / (n + N)."""
    if not (-1 <= rho <= 1 and real_trials > 0 and sim_trials >= 0):
        raise TraceError(f"a correlation of {rho} with {real_trials} real and {sim_trials} simulated trials cannot be.")
    return rho**2 * sim_trials / (real_trials + sim_trials)
