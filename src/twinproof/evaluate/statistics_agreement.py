"""Does the twin rank policies as reality does? Pearson's r and MMRV with intervals, their noise ceiling, and the bias.

A perfect twin does not show r = 1: trials are few on both sides. The ceiling is what such a twin would show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.evaluate.statistics import Interval, check_level, wilson
from twinproof.nouns.errors import TraceError

if TYPE_CHECKING:
    from jaxtyping import Float

CHAINS, BURN, KEPT = 200, 15, 20
SPREAD = 0.2  # of true rates between policies, on the scale asin √p, before any trial


@dataclass(frozen=True)
class Ceiling:
    """What a perfect twin shows with this many trials: quantiles of r (5, 50, 95 %) and of MMRV (50, 95 %)."""

    pearson: tuple[float, float, float]
    mmrv: tuple[float, float]


@dataclass(frozen=True)
class Agreement:
    """Policies in both domains. `bias_points` is simulated minus real success, in points, mean over policies."""

    pearson: Interval | None  # None where one side has the same rate for all
    mmrv: Interval
    bias_points: Interval
    ceiling: Ceiling


def pearson(*, real: Float[np.ndarray, "... P"], sim: Float[np.ndarray, "... P"]) -> Float[np.ndarray, "..."]:
    """Pearson's r over policies; NaN where one side does not vary (SIMPLER's code says 1 there)."""
    a, b = real - real.mean(axis=-1, keepdims=True), sim - sim.mean(axis=-1, keepdims=True)
    power = np.sqrt((a**2).sum(axis=-1) * (b**2).sum(axis=-1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(power > 1e-15, (a * b).sum(axis=-1) / power, np.nan)


def mmrv(*, real: Float[np.ndarray, "... P"], sim: Float[np.ndarray, "... P"]) -> Float[np.ndarray, "..."]:
    """Mean maximum rank violation, as SIMPLER's code has it: mean_i max_j |R_i - R_j| [(S_i > S_j) ≠ (R_i > R_j)].

    Real and simulated are not interchangeable, so both are named. 0 is best.
    """
    apart = np.abs(real[..., :, None] - real[..., None, :])
    wrong = (sim[..., :, None] > sim[..., None, :]) != (real[..., :, None] > real[..., None, :])
    worst: np.ndarray = (apart * wrong).max(axis=-1).mean(axis=-1)
    return worst


def agreement(
    real: Sequence[tuple[int, int]], sim: Sequence[tuple[int, int]], rng: np.random.Generator, level: float = 0.95
) -> Agreement:
    """From (successes, trials) of every policy, in the same order on both sides.

    Values are those of the observed rates. Intervals are for the true rates, from draws of them (`true_rates`): trials
    drawn anew would add the noise of few trials a second time, and cover too little. Where a perfect twin is not
    refused (r or MMRV is what one in twenty of them shows, or better), the interval reaches to the perfect value.
    """
    check_level(level)
    (k_real, n_real), (k_sim, n_sim) = _counts(real, "real"), _counts(sim, "simulated")
    if len(k_real) != len(k_sim) or len(k_real) < 2:
        raise TraceError(f"{len(k_real)} real and {len(k_sim)} simulated policies; the same two or more are needed.")
    ceiling = noise_ceiling(n_real, n_sim, rng, (k_real + 0.5) / (n_real + 1))
    p, q = true_rates((k_real, n_real), (k_sim, n_sim), rng)
    shares = [(1 - level) / 2, (1 + level) / 2]
    r, wrong = (float(f(real=k_real / n_real, sim=k_sim / n_sim)) for f in (pearson, mmrv))
    found = None
    if not math.isnan(r):
        low, high = np.quantile(pearson(real=p, sim=q), shares)
        found = Interval(r, min(float(low), r), 1.0 if r >= ceiling.pearson[0] else max(float(high), r), level)
    low, high = np.quantile(mmrv(real=p, sim=q), shares)
    ranks = Interval(wrong, 0.0 if wrong <= ceiling.mmrv[1] else min(float(low), wrong), max(float(high), wrong), level)
    return Agreement(found, ranks, sim_bias(real, sim, level), ceiling)


def true_rates(
    real: tuple[np.ndarray, np.ndarray], sim: tuple[np.ndarray, np.ndarray], rng: np.random.Generator
) -> tuple[Float[np.ndarray, "D P"], Float[np.ndarray, "D P"]]:
    """Draws of the policies' true success rates in both domains, given (successes, trials).

    On the scale asin √p, where the trials' noise has the sd 1 / (2 √n), policies are drawn from one Gaussian over both
    domains; its mean and covariance are unknown (flat, and inverse Wishart with 3 degrees of freedom: every correlation
    is as likely as any other). Gibbs sampling, many chains side by side.
    """
    y = np.stack([np.arcsin(np.sqrt((k + 0.375) / (n + 0.75))) for k, n in (real, sim)], -1)
    sharpness = np.stack([4.0 * n + 2.0 for _, n in (real, sim)], -1)
    count, drawn = len(y), []
    x = np.tile(y, (CHAINS, 1, 1))
    mean = x.mean(axis=1)
    for sweep in range(BURN + KEPT):
        off = x - mean[:, None]
        scatter = np.einsum("cpi,cpj->cij", off, off) + 1.5 * SPREAD**2 * np.eye(2)
        precision = _wishart(3.0 + count, np.linalg.inv(scatter), rng)
        shaken = np.linalg.cholesky(np.linalg.inv(precision) / count)
        mean = x.mean(axis=1) + np.einsum("cij,cj->ci", shaken, rng.normal(size=(CHAINS, 2)))
        spread = np.linalg.inv(precision[:, None] + np.eye(2) * sharpness[None, :, :, None])
        pull = np.einsum("cij,cj->ci", precision, mean)[:, None] + y * sharpness
        noise = np.einsum("cpij,cpj->cpi", np.linalg.cholesky(spread), rng.normal(size=x.shape))
        x = np.einsum("cpij,cpj->cpi", spread, pull) + noise
        if sweep >= BURN:
            drawn.append(x)
    rates = np.sin(np.clip(np.concatenate(drawn), 0, np.pi / 2)) ** 2
    return rates[..., 0], rates[..., 1]


def _wishart(freedom: float, scale: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One 2 × 2 Wishart matrix for every scale (Bartlett)."""
    root = np.zeros(scale.shape)
    root[:, 0, 0] = np.sqrt(rng.chisquare(freedom, len(scale)))
    root[:, 1, 1] = np.sqrt(rng.chisquare(freedom - 1, len(scale)))
    root[:, 1, 0] = rng.normal(size=len(scale))
    half = np.linalg.cholesky(scale) @ root
    drawn: np.ndarray = half @ np.swapaxes(half, 1, 2)
    return drawn


def noise_ceiling(
    real_trials: Sequence[int] | np.ndarray,
    sim_trials: Sequence[int] | np.ndarray,
    rng: np.random.Generator,
    rates: Sequence[float] | np.ndarray | None = None,
    draws: int = 4000,
) -> Ceiling:
    """What a twin with exactly the real success rates would show. Without `rates`, they are even in 0.1 to 0.9."""
    n_real, n_sim = np.asarray(real_trials), np.asarray(sim_trials)
    if n_real.shape != n_sim.shape or n_real.ndim != 1 or len(n_real) < 2 or min(n_real.min(), n_sim.min()) < 1:
        raise TraceError("a ceiling needs a number of trials, one or more, for two policies or more on both sides.")
    shape = (draws, len(n_real))
    p = rng.uniform(0.1, 0.9, shape) if rates is None else np.broadcast_to(np.asarray(rates, float), shape)
    real, sim = rng.binomial(n_real, p) / n_real, rng.binomial(n_sim, p) / n_sim
    r = pearson(real=real, sim=sim)
    low, middle, high = np.quantile(r[np.isfinite(r)], [0.05, 0.5, 0.95]) if np.isfinite(r).any() else (np.nan,) * 3
    usual, most = np.quantile(mmrv(real=real, sim=sim), [0.5, 0.95])
    return Ceiling((float(low), float(middle), float(high)), (float(usual), float(most)))


def sim_bias(real: Sequence[tuple[int, int]], sim: Sequence[tuple[int, int]], level: float = 0.95) -> Interval:
    """Simulated minus real success in percentage points, mean over policies. Trials are independent on both sides.

    Newcombe's square-and-add of Wilson intervals (Statistics in Medicine 17, 1998), over all rates at once.
    """
    if len(real) != len(sim) or not real:
        raise TraceError(f"{len(real)} real and {len(sim)} simulated policies; the same ones are needed.")
    below = above = total = 0.0
    for (k, n), (j, m) in zip(real, sim, strict=True):
        one, other = wilson(k, n, level), wilson(j, m, level)
        total += other.value - one.value
        below += (other.value - other.low) ** 2 + (one.high - one.value) ** 2
        above += (other.high - other.value) ** 2 + (one.value - one.low) ** 2
    share, mean = 100 / len(real), 100 * total / len(real)
    return Interval(mean, mean - share * math.sqrt(below), mean + share * math.sqrt(above), level)


def _counts(rows: Sequence[tuple[int, int]], side: str) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(rows, dtype=int).reshape(-1, 2)
    successes, trials = table[:, 0], table[:, 1]
    if (trials < 1).any() or (successes < 0).any() or (successes > trials).any():
        raise TraceError(f"the {side} policies have counts {table.tolist()}: successes of trials cannot be so.")
    return successes, trials
