"""A designed experiment: what is known before it, how it is sought, how it is judged, and what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from twinproof.identify.beliefs import Belief
from twinproof.identify.evolution import Evolution
from twinproof.identify.excite_information import Told
from twinproof.identify.excite_limits import Margins
from twinproof.nouns.trajectory import Trajectory

if TYPE_CHECKING:
    from jaxtyping import Float

    from twinproof.nouns.posterior import Posterior

FAR_FROM_ZERO = 0.02  # of its median: a parameter with smaller draws may be zero, and has no useful logarithm


@dataclass(frozen=True, eq=False)
class Today:
    """What is known now: draws of the unknowns on their natural scale, and their inverse covariance.

    The covariance is that of logarithms where `relative` says so: what is known of positive parameters is mostly known
    of their ratios (twice the mass with twice the friction moves alike), and only as logarithms do these lie straight.
    """

    draws: Float[np.ndarray, "N G"]
    relative: np.ndarray  # bool, G
    precision: Float[np.ndarray, "G G"]

    @staticmethod
    def of_draws(beliefs: Sequence[Belief], draws: np.ndarray, weights: np.ndarray | None = None) -> Today:
        """From draws on the natural scale, with their weights where these differ."""
        positive = np.array([not b.info.log and b.info.low >= 0 for b in beliefs])
        relative = positive & (draws.min(axis=0) > FAR_FROM_ZERO * np.median(draws, axis=0))
        straight = np.where(relative, np.log(np.maximum(draws, 1e-300)), draws)
        spread = np.atleast_2d(np.cov(straight.T, aweights=weights))
        # few draws leave directions without spread: each parameter keeps a little of its own
        spread = spread + np.diag(np.maximum(np.diag(spread), 1e-16) * 1e-6)
        return Today(draws, relative, np.linalg.inv(spread))

    @staticmethod
    def of_prior(beliefs: Sequence[Belief], rng: np.random.Generator, count: int = 256) -> Today:
        """Nothing but the beliefs. Draws keep to the middle half of a range: nobody expects its ends."""
        width, spans = np.array([b.width for b in beliefs]), np.array([b.span for b in beliefs])
        middle = np.array([float(b.info.to_scale(max(b.nominal, b.info.low))) for b in beliefs])
        reach = np.minimum(0.25 * (spans[:, 1] - spans[:, 0]), 2 * width)
        draws = np.clip(middle + rng.uniform(-1, 1, (count, len(beliefs))) * reach, spans[:, 0], spans[:, 1])
        return Today(draws, np.zeros(len(beliefs), dtype=bool), np.diag(width**-2.0))

    @staticmethod
    def of_posterior(posterior: Posterior) -> tuple[Today, tuple[Belief, ...]]:
        """A posterior's draws, and its parameters as beliefs around their means."""
        infos = posterior.parameters
        beliefs = tuple(
            Belief(info, prior, posterior.mean(info.id)) for info, prior in zip(infos, posterior.priors, strict=True)
        )
        draws = np.stack([i.to_scale(column) for i, column in zip(infos, posterior.draws.T, strict=True)], axis=1)
        return Today.of_draws(beliefs, draws, np.asarray(posterior.weights)), beliefs

    def only(self, kept: np.ndarray) -> Today:
        """The same for some of the unknowns; what is known of the others is averaged over."""
        covariance = np.linalg.inv(self.precision)[np.ix_(kept, kept)]
        return Today(self.draws[:, kept], self.relative[kept], np.linalg.inv(covariance))

    def straight(self, told: Told, draw: np.ndarray) -> Told:
        """What is told of the natural scale, around a draw, as told of what `precision` is about."""
        factor = np.where(self.relative, draw, 1.0)
        square = np.outer(factor, factor)
        return Told(told.information * square, told.scatter * square)


@dataclass(frozen=True)
class Design:
    """How an experiment is sought."""

    seconds: float = 10.0
    rate_hz: float = 50.0
    criterion: Literal["D", "E"] = "D"  # the volume of what stays unknown, or its longest axis
    first: int = 48  # random series that the search begins with
    evolution: Evolution = Evolution()
    draws: int = 2  # of today's knowledge, under which a candidate's information is judged
    bounding: int = 8  # under which it must keep the limits while it is sought
    checks: int = 16  # fresh ones, under which it must keep them at the end
    harmonics: int = 7
    window_s: float = 0.25
    jitter_s: float = 0.0005  # how much a command is late or early by chance: buses and schedulers are no clocks
    at_once: int = 16  # candidates of one rollout


@dataclass(frozen=True, eq=False)
class Excitation:
    """A designed experiment: its commands, what it should tell, and how near it goes to every limit."""

    trajectory: Trajectory
    criterion: str
    parameters: tuple[str, ...]  # those it was designed for
    relative: tuple[bool, ...]  # whether a parameter's sd is a share of its value, or in its unit
    sd_now: Float[np.ndarray, "n"]
    sd_after: Float[np.ndarray, "n"]  # predicted
    gain: float  # the geometric mean of sd now over sd after, directions included
    margins: tuple[Margins, ...]
    clearance_m: float
    candidates: int
    notes: tuple[str, ...] = ()

    @property
    def ratio(self) -> Float[np.ndarray, "n"]:
        """How many times narrower each interval should become."""
        found: np.ndarray = self.sd_now / self.sd_after
        return found


class Judge:
    """How much an experiment tells: the log of how many times narrower the named parameters become, on average (D), or
    the widest direction does (E)."""

    def __init__(self, criterion: str, precision: np.ndarray, named: Sequence[int]) -> None:
        self.criterion, self.precision, self.named = criterion, precision, np.array(named)
        self.sd_now = np.sqrt(np.diag(np.linalg.inv(precision))[self.named])
        nothing = np.zeros((1, *precision.shape))
        self._now = self._size(self.covariance(Told(nothing, nothing)))[0]

    def covariance(self, told: Told) -> np.ndarray:
        """Of the named parameters, in units of their sd today, after experiments."""
        inverse = np.linalg.inv(self.precision + told.information)
        inverse = inverse + inverse @ told.scatter @ inverse
        block = inverse[:, self.named[:, None], self.named]
        found: np.ndarray = block / np.outer(self.sd_now, self.sd_now)
        return found

    def _size(self, covariance: np.ndarray) -> np.ndarray:
        values = np.maximum(np.linalg.eigvalsh(covariance), 1e-300)
        size: np.ndarray = 0.5 * (np.log(values).mean(axis=1) if self.criterion == "D" else np.log(values[:, -1]))
        return size

    def gain(self, told: Told) -> np.ndarray:
        """The gain of each experiment over today."""
        found: np.ndarray = self._now - self._size(self.covariance(told))
        return found
