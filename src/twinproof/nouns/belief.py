"""What a posterior is made of: priors, model error, a family of objects, and the arithmetic of weighted draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from twinproof.nouns.errors import PosteriorError
from twinproof.nouns.frozen import frozen_array, settle
from twinproof.nouns.source import Source
from twinproof.nouns.theta import ParameterInfo

UNMOVED = 0.05  # largest gap between the cumulative curves of prior and posterior that counts as "not moved"


@dataclass(frozen=True)
class Prior:
    """What was believed before: even over the limits, or a bell inside them, on the parameter's natural scale."""

    source: Source
    shape: Literal["uniform", "normal"] = "uniform"
    mean: float | None = None  # of the value, or of its logarithm where the parameter is logarithmic
    sd: float | None = None

    def __post_init__(self) -> None:
        if self.shape == "normal" and (self.mean is None or self.sd is None or not 0 < self.sd < np.inf):
            raise PosteriorError(f"a normal prior has mean {self.mean} and sd {self.sd}; give both, sd above zero.")

    def cumulative(self, parameter: ParameterInfo, values: np.ndarray) -> np.ndarray:
        """The share of the prior below each value."""
        x = parameter.to_scale(values)
        low, high = parameter.to_scale(np.array([parameter.low, parameter.high]))
        if self.shape == "uniform":
            share: np.ndarray = np.clip((x - low) / (high - low), 0.0, 1.0)
            return share
        from scipy.special import ndtr

        below, at, above = (ndtr((edge - (self.mean or 0.0)) / (self.sd or 1.0)) for edge in (low, x, high))
        if not above > below:
            raise PosteriorError(
                f"{parameter.id}: the prior (mean {self.mean}, sd {self.sd}) lies outside the limits {parameter.low} "
                f"to {parameter.high}. Mend the one or the other."
            )
        inside: np.ndarray = np.clip((at - below) / (above - below), 0.0, 1.0)
        return inside


@dataclass(frozen=True)
class Discrepancy:
    """Model error of one signal: the spread of what the best parameters leave unexplained, by prediction horizon."""

    signal: str
    unit: str
    horizon_s: tuple[float, ...]
    sd: tuple[float, ...]

    def __post_init__(self) -> None:
        times = np.array(self.horizon_s, dtype=float)
        if not times.size or not (np.diff(times) > 0).all() or len(self.sd) != len(times):
            raise PosteriorError(f"the model error of {self.signal!r} needs rising horizons and one sd for each.")
        if not all(0 <= sd < np.inf for sd in self.sd):
            raise PosteriorError(f"the model error of {self.signal!r} has an sd that is negative or not finite.")

    def at(self, horizon_s: float) -> float:
        """The sd at a horizon, linear between the stated ones and constant beyond them."""
        return float(np.interp(horizon_s, self.horizon_s, self.sd))


@dataclass(frozen=True, eq=False)
class Population:
    """A family of objects: the value of each measured one, and of a new one, draw by draw of the posterior.

    The posterior's own column of such a parameter is the family's centre.
    """

    family: str
    instances: tuple[str, ...]
    parameters: tuple[str, ...]
    values: np.ndarray  # N × I × K: draw, instance, parameter
    predictive: np.ndarray  # N × K: an instance that was never seen

    def __post_init__(self) -> None:
        settle(self, values=frozen_array(self.values), predictive=frozen_array(self.predictive))
        draws, width = len(self.predictive), len(self.parameters)
        wanted = (draws, len(self.instances), width)
        if self.values.shape != wanted or self.predictive.shape != (draws, width):
            raise PosteriorError(
                f"population {self.family!r}: values have shape {self.values.shape} and predictive "
                f"{self.predictive.shape}; {len(self.instances)} instances and {width} parameters need {wanted}."
            )


def normalised(log_weights: np.ndarray) -> np.ndarray:
    """The same log weights, shifted so that the weights sum to one."""
    top = np.max(log_weights)
    shifted: np.ndarray = log_weights - (top + np.log(np.exp(log_weights - top).sum()))
    return shifted


def weighted_quantile(values: np.ndarray, weights: np.ndarray, share: float) -> float:
    """The smallest value with at least `share` of the weight at or below it."""
    order = np.argsort(values, kind="stable")
    cumulated = np.cumsum(weights[order])
    # Rounding in the sum must not push a share such as 0.05 of 20 equal weights over the edge of its step.
    first = int(np.searchsorted(cumulated, share * cumulated[-1] * (1 - 1e-12), side="left"))
    return float(values[order[min(first, len(values) - 1)]])


def unmoved(
    parameters: tuple[ParameterInfo, ...], priors: tuple[Prior, ...], draws: np.ndarray, weights: np.ndarray
) -> tuple[str, ...]:
    """The ids whose weighted draws follow the prior as closely as draws of the prior itself would.

    The measure is the largest gap between the two cumulative curves; few draws are given more room, up to 0.25.
    """
    room = min(0.25, UNMOVED + np.sqrt(np.square(weights).sum()))
    found = []
    for parameter, prior, column in zip(parameters, priors, draws.T, strict=True):
        order = np.argsort(column, kind="stable")
        after = np.cumsum(weights[order])
        believed = prior.cumulative(parameter, column[order])
        gap = max(np.max(after - believed), np.max(believed - after + weights[order]))
        if gap < room:
            found.append(parameter.id)
    return tuple(found)
