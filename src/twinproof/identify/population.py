"""Many objects of one family: each one's value, how much they differ, and what a new one will be like.

x̂_i, V_i   what the recordings say of object i                 x_i ~ Normal(μ, τ²)   on the natural scale
μ, τ, x_i   drawn in turn (Gibbs); a new object is one more draw from Normal(μ, τ²). That, and not the spread of the
            objects that were measured, is what randomisation has to cover.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, ndtri

from twinproof.nouns.errors import PosteriorError

if TYPE_CHECKING:
    from jaxtyping import Float

SPREAD = 0.3  # objects of a family are thought to differ by about this share of the prior's sd (half-t, 3 degrees)
WARM_UP = 200


@dataclass(frozen=True, eq=False)
class Family:
    """Draws of a family's centre, spread, members and a new member, on the natural scale."""

    centre: Float[np.ndarray, "N K"]
    spread: Float[np.ndarray, "N K"]
    members: Float[np.ndarray, "N I K"]
    new: Float[np.ndarray, "N K"]


def family(
    estimate: Float[np.ndarray, "I K"],
    covariance: Float[np.ndarray, "I K K"],
    width: Float[np.ndarray, "K"],
    span: tuple[np.ndarray, np.ndarray],
    count: int,
    rng: np.random.Generator,
) -> Family:
    """Draws of the hierarchical posterior. `width` is the prior's sd of each parameter, `span` its limits."""
    members, parameters = estimate.shape
    low, high = span
    scale = SPREAD * width
    precision = np.linalg.inv(covariance)
    pulled = np.einsum("ikl,il->ik", precision, estimate)
    grid = np.exp(np.linspace(np.log(1e-3), np.log(30.0), 120))  # of τ, in units of `scale`
    log_prior = -2.0 * np.log1p(np.square(grid) / 3.0) + np.log(grid)  # half-t with 3 degrees, on a logarithmic grid
    x = estimate.copy()
    tau = np.maximum(x.std(axis=0), 0.1 * scale)
    kept = Family(*(np.empty((count, *shape)) for shape in ((parameters,), (parameters,), x.shape, (parameters,))))
    for step in range(WARM_UP + count):
        mu = _inside(x.mean(axis=0), tau / np.sqrt(members), low, high, rng)
        off = np.square(x - mu).sum(axis=0)
        for k in range(parameters):
            log_p = log_prior - members * np.log(grid) - 0.5 * off[k] / np.square(grid * scale[k])
            tau[k] = scale[k] * rng.choice(grid, p=np.exp(log_p - np.logaddexp.reduce(log_p)))
        for k in range(parameters):  # every member's parameter k, given its others
            sharp = precision[:, k, k] + 1 / tau[k] ** 2
            rest = np.einsum("il,il->i", precision[:, k], x) - precision[:, k, k] * x[:, k]
            mean = (pulled[:, k] - rest + mu[k] / tau[k] ** 2) / sharp
            x[:, k] = _inside(mean, 1 / np.sqrt(sharp), low[k], high[k], rng)
        if step >= WARM_UP:
            n = step - WARM_UP
            kept.centre[n], kept.spread[n], kept.members[n] = mu, tau, x
            kept.new[n] = _inside(mu, tau, low, high, rng)
    return kept


def _inside(
    mean: np.ndarray, sd: np.ndarray, low: np.ndarray | float, high: np.ndarray | float, rng: np.random.Generator
) -> np.ndarray:
    """A normal draw cut off at the limits."""
    a, b = ndtr((low - mean) / sd), ndtr((high - mean) / sd)
    share = np.clip(a + rng.uniform(size=len(mean)) * (b - a), 1e-12, 1 - 1e-12)
    drawn: np.ndarray = np.clip(mean + sd * ndtri(share), low, high)
    return drawn


def measured_range(values: Mapping[str, float], margin: float, holdout: Sequence[str] = ()) -> tuple[float, float]:
    """The range for a new object from a few that were measured with a ruler: their extremes, a stated margin wider.

    The smallest case of the above: lengths 9.8, 10.1, 10.0, 9.9 cm with a margin of 0.3 give 9.5 to 10.4 cm. Objects of
    the holdout are refused, not skipped: their values should not have been looked up.
    """
    seen = sorted(set(values) & set(holdout))
    if seen:
        raise PosteriorError(f"{seen[0]} is an object of the holdout: its value may not shape a range. Leave it out.")
    if not values or not all(np.isfinite(list(values.values()))) or not (np.isfinite(margin) and margin >= 0):
        raise PosteriorError(
            f"a range needs finite values and a margin of zero or more; found {dict(values)} and {margin}."
        )
    return min(values.values()) - margin, max(values.values()) + margin
