"""The fast default: a Gaussian at the optimum, widened where the recording disagrees with itself, cut at the limits.

The inverse Hessian believes in white noise. Model error, jitter and quantisation are not white: the pulls of stretches
of the recording on a parameter then scatter more than they should. Each parameter's sd grows by as much as they do (a
block-wise "sandwich"), and never shrinks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinproof.identify.fit import Fit
from twinproof.identify.method import Draws, Method
from twinproof.identify.problem import Problem
from twinproof.nouns.progress import Progress, quiet

SWEEPS = 30
LAGS = 4  # blocks of a quarter of a second that may err alike


@dataclass(frozen=True)
class Laplace(Method):
    """Gaussian draws, inside the limits. `widen` off gives the plain inverse Hessian, known to be far too narrow."""

    draws: int = 1000
    widen: bool = True

    name = "laplace"

    def infer(self, problem: Problem, fitted: Fit, rng: np.random.Generator, progress: Progress = quiet) -> Draws:
        covariance = covariance_of(fitted)
        widened = widening(fitted, covariance) if self.widen else np.ones(len(covariance))
        # Where a limit stops the fit, the slope there still says how fast the likelihood falls inside.
        centre = fitted.unknowns + covariance @ fitted.gradient
        spread = covariance * np.outer(widened, widened)
        low, high = problem.span
        unknowns = normal_inside(centre, spread, fitted.unknowns, low, high, self.draws, rng)
        told = {name: round(float(w), 3) for name, w in zip(problem.names, widened, strict=True)}
        return Draws(unknowns, np.full(self.draws, -np.log(self.draws)), 0, {"widened": told})


def covariance_of(fitted: Fit) -> np.ndarray:
    """The inverse of what recording and normal priors tell. What they do not tell at all stays wider than its range."""
    problem = fitted.problem
    low, high = problem.span
    faint = 1 / np.square(4 * (high - low))
    precision = fitted.information + np.diag(problem.prior()[1] + faint)
    scale = 1 / np.sqrt(np.diag(precision))
    values, vectors = np.linalg.eigh(precision * np.outer(scale, scale))
    inverse = (vectors / np.maximum(values, 1e-14)) @ vectors.T
    found: np.ndarray = inverse * np.outer(scale, scale)
    return found


def widening(fitted: Fit, covariance: np.ndarray) -> np.ndarray:
    """For every unknown the sd that the blocks' scatter gives, over the sd of the inverse Hessian; at least one.

    Neighbouring blocks of an episode may err alike (an encoder at rest repeats one rounding error), so their products
    count too (Bartlett weights). Where few blocks decide, their scatter is itself uncertain: Student's quantile.
    """
    from scipy.special import stdtrit

    moved = fitted.scores @ covariance
    moved = moved - moved.mean(axis=0)
    alone = np.square(moved).sum(axis=0)
    together = alone.copy()
    for lag in range(1, LAGS + 1):
        same = fitted.score_episode[lag:] == fitted.score_episode[:-lag]
        products = (moved[lag:] * moved[:-lag])[same].sum(axis=0)
        together += 2 * (1 - lag / (LAGS + 1)) * products
    scattered = np.maximum(alone, together)
    deciding = np.maximum(np.square(alone) / np.maximum(np.power(moved, 4).sum(axis=0), 1e-300), 2.0)
    few = stdtrit(deciding - 1, 0.95) / stdtrit(1e6, 0.95) * np.sqrt(deciding / (deciding - 1))
    ratio = few * np.sqrt(scattered / np.diag(covariance))
    found: np.ndarray = np.maximum(ratio, 1.0)
    return found


def normal_inside(
    centre: np.ndarray,
    covariance: np.ndarray,
    inside: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    count: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draws of a normal distribution cut off at a box; `inside` is a point in it.

    Draws that fall into the box are kept. Where too few do, every draw walks along the covariance's own axes, on which
    only the box ties the coordinates together (hit and run).
    """
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    drawn = centre + rng.normal(size=(count, len(centre))) @ root.T
    outside = ~((drawn >= low) & (drawn <= high)).all(axis=1)
    if outside.mean() < 0.3:
        for _ in range(40):
            if not outside.any():
                return np.asarray(drawn)
            drawn[outside] = centre + rng.normal(size=(int(outside.sum()), len(centre))) @ root.T
            outside = ~((drawn >= low) & (drawn <= high)).all(axis=1)
    return _walk(centre, vectors, np.maximum(values, 0.0), inside, low, high, count, rng)


def _walk(
    centre: np.ndarray,
    axes: np.ndarray,
    variance: np.ndarray,
    inside: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    count: int,
    rng: np.random.Generator,
) -> np.ndarray:
    # not in a corner of the box, where no axis but the coordinates' own leads anywhere
    inset = 1e-3 * (high - low)
    at = np.tile(np.clip(inside, low + inset, high - inset), (count, 1))
    moving = np.flatnonzero(variance > 1e-14 * max(float(variance.max(initial=0.0)), 1e-300))
    sharp = (axes[:, moving] / variance[moving]) @ axes[:, moving].T
    for _ in range(SWEEPS):
        for k in rng.permutation(moving):
            axis, sd = axes[:, k], np.sqrt(variance[k])
            with np.errstate(divide="ignore", invalid="ignore"):
                one, two = (low - at) / axis, (high - at) / axis
            still = np.abs(axis) < 1e-12
            least = np.where(still, -np.inf, np.minimum(one, two)).max(axis=1)
            most = np.where(still, np.inf, np.maximum(one, two)).min(axis=1)
            here = (at - centre) @ axis
            there = _cut_normal(here + np.minimum(least, 0.0), here + np.maximum(most, 0.0), sd, rng)
            at = np.clip(at + np.outer(there - here, axis), low, high)
        for k in rng.permutation(len(centre)):
            if sharp[k, k] <= 0:
                continue
            mean = centre[k] - ((at - centre) @ sharp[k] - sharp[k, k] * (at[:, k] - centre[k])) / sharp[k, k]
            at[:, k] = np.clip(
                mean + _cut_normal(low[k] - mean, high[k] - mean, sharp[k, k] ** -0.5, rng), low[k], high[k]
            )
    return at


def _cut_normal(low: np.ndarray, high: np.ndarray, sd: float, rng: np.random.Generator) -> np.ndarray:
    """Draws of a normal around zero between two ends, also far out in a tail."""
    from scipy.special import ndtr, ndtri

    a, b = low / sd, high / sd
    flip = a > 0  # in the upper tail shares are one to rounding: there the mirror image is drawn
    a, b = np.where(flip, -b, a), np.where(flip, -a, b)
    share = ndtr(a) + rng.uniform(size=len(a)) * (ndtr(b) - ndtr(a))
    z = np.clip(ndtri(np.clip(share, 1e-300, 1.0)), a, b)
    found: np.ndarray = np.where(flip, -z, z) * sd
    return found
