"""A posterior: what the recordings say about the parameters, how sure that is, and what they cannot say.

posterior.json   parameters, units, limits, priors, method, diagnostics, model error, what is unidentified, parents
samples.npz      draws (N × P), log_weights (N); for a family of objects also values (N × I × K), predictive (N × K)
drive.npz        arrays of the drive, where one was adopted and has some (nouns/drive.py)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from twinproof.nouns.artifact import Artifact, read_arrays, write_arrays
from twinproof.nouns.belief import Discrepancy, Population, Prior, unmoved, weighted_quantile
from twinproof.nouns.drive import Drive
from twinproof.nouns.errors import PosteriorError
from twinproof.nouns.frozen import Frozen, frozen_array, frozen_json, settle
from twinproof.nouns.hashing import Json, hash_array
from twinproof.nouns.ledger import LedgerHead
from twinproof.nouns.strict import build, plain
from twinproof.nouns.theta import ParameterInfo, Theta


@dataclass(frozen=True, eq=False)
class Posterior(Artifact):
    """Weighted draws of the parameters, with what is needed to trust them or not.

    Draws are finite and inside the limits; weights sum to one; what the data did not move is marked unidentified.
    """

    NAME: ClassVar = "posterior"
    ERROR: ClassVar = PosteriorError
    PARTS: ClassVar = ("draws", "log_weights", "population", "drive")

    parameters: tuple[ParameterInfo, ...]
    priors: tuple[Prior, ...]  # one for each parameter
    draws: np.ndarray  # N × P, in SI units
    log_weights: np.ndarray  # N
    method: str
    episodes: tuple[str, ...]  # calibration episodes that were read
    parents: Mapping[str, str]  # "twin" -> hash, "split" -> hash
    unidentified: tuple[str, ...] = ()
    weak_directions: tuple[str, ...] = ()  # sentences: "only the sum of … is determined"
    discrepancy: tuple[Discrepancy, ...] = ()
    no_discrepancy: str = ""  # why the model error was not estimated, where it was not
    diagnostics: Mapping[str, Json] = field(default_factory=dict)  # whiteness, coverage, ranks, bounds hit, …
    settings: Mapping[str, Json] = field(default_factory=dict)  # of the method
    population: Population | None = None
    drive: Drive | None = None  # what moves the twin beside its parameters; draws are those found without it
    seed: int = 0
    ledger: LedgerHead | None = None

    def __post_init__(self) -> None:
        settle(
            self,
            draws=frozen_array(self.draws),
            log_weights=frozen_array(self.log_weights),
            parents=Frozen(self.parents),
            diagnostics=frozen_json(self.diagnostics, "diagnostics", PosteriorError),
            settings=frozen_json(self.settings, "settings", PosteriorError),
        )
        _check_shapes(self)
        for parameter, column in zip(self.parameters, self.draws.T, strict=True):
            check_inside(parameter, column, "draw")
        _check_population(self)
        if not self.episodes:
            raise PosteriorError("a posterior names the calibration episodes it was fitted to; found none.")
        if bool(self.discrepancy) == bool(self.no_discrepancy.strip()):
            raise PosteriorError(
                "a posterior carries a model error for each signal, or says in no_discrepancy why it has none. "
                "Intervals without one are known to be far too narrow on real data."
            )
        unknown = [id for id in self.unidentified if id not in self.ids]
        silent = [id for id in self._unmoved if id not in self.unidentified]
        if unknown or silent:
            raise PosteriorError(
                f"the draws of {', '.join(silent) or 'no parameter'} are spread like the prior: the data did not move "
                f"them, so they must be marked unidentified; marked without being parameters: {unknown or 'none'}."
            )

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The parameters' ids, in the order of the columns."""
        return tuple(parameter.id for parameter in self.parameters)

    @cached_property
    def weights(self) -> np.ndarray:
        """The weight of each draw; they sum to one."""
        weights = np.exp(self.log_weights)
        return frozen_array(weights / weights.sum())

    @property
    def effective_draws(self) -> float:
        """How many equally weighted draws these are worth."""
        return float(1 / np.square(self.weights).sum())

    @property
    def _unmoved(self) -> tuple[str, ...]:
        return unmoved(self.parameters, self.priors, self.draws, self.weights)

    def column(self, id: str) -> np.ndarray:
        """The draws of one parameter."""
        if id not in self.ids:
            raise PosteriorError(f"the posterior has no parameter {id!r}; it has {', '.join(self.ids)}.")
        column: np.ndarray = self.draws[:, self.ids.index(id)]
        return column

    def mean(self, id: str) -> float:
        """The weighted mean of a parameter."""
        return float(self.weights @ self.column(id))

    def sd(self, id: str) -> float:
        """The weighted standard deviation of a parameter."""
        return float(np.sqrt(self.weights @ np.square(self.column(id) - self.mean(id))))

    def quantile(self, id: str, share: float) -> float:
        """The smallest draw with at least this share of the weight at or below it."""
        return weighted_quantile(self.column(id), self.weights, share)

    def interval(self, id: str, level: float = 0.9) -> tuple[float, float]:
        """The central interval: at most (1 - level) / 2 of the weight lies below it, and as much above."""
        if not 0 < level < 1:
            raise PosteriorError(f"{id}: an interval of level {level} was asked for; a level lies between 0 and 1.")
        tail = (1 - level) / 2
        return self.quantile(id, tail), -weighted_quantile(-self.column(id), self.weights, tail)

    def z_score(self, id: str, value: float) -> float:
        """How many standard deviations a value lies above the mean."""
        sd = self.sd(id)
        if sd == 0:
            raise PosteriorError(f"{id}: all its draws are {self.mean(id)}, so no distance can be measured in sd.")
        return (value - self.mean(id)) / sd

    def covered(self, truth: Mapping[str, float], level: float = 0.9) -> dict[str, bool]:
        """Whether each true value lies inside its central interval of the given level."""
        intervals = {id: self.interval(id, level) for id in truth}
        return {id: low <= truth[id] <= high for id, (low, high) in intervals.items()}

    def point(self) -> Theta:
        """The mean of every parameter."""
        return Theta({id: self.mean(id) for id in self.ids})

    def draw(self, rng: np.random.Generator) -> Theta:
        """One draw of all parameters together, for the objects that were measured."""
        return self._row(self.draws, rng)

    def draw_new(self, rng: np.random.Generator) -> Theta:
        """One draw for an instance of the family that was never seen; without a family the same as `draw`."""
        return self._row(self.new_instance_draws, rng)

    def _row(self, rows: np.ndarray, rng: np.random.Generator) -> Theta:
        index = rng.choice(len(rows), p=self.weights)
        return Theta(dict(zip(self.ids, rows[index].tolist(), strict=True)))

    @cached_property
    def new_instance_draws(self) -> np.ndarray:
        """N × P: the draws, with the family's parameters as a new instance would have them. Same weights."""
        rows = np.array(self.draws)
        if self.population is not None:
            rows[:, [self.ids.index(id) for id in self.population.parameters]] = self.population.predictive
        return frozen_array(rows)

    def head(self) -> dict[str, Json]:
        found = super().head()
        if self.population is not None:
            told = {name: getattr(self.population, name) for name in ("family", "instances", "parameters")}
            found["population"] = plain(told)
        if self.drive is not None:
            found["drive"] = self.drive.head()
        return found

    def _arrays(self) -> dict[str, np.ndarray]:
        arrays = {"draws": self.draws, "log_weights": self.log_weights}
        if self.population is not None:
            arrays |= {"values": self.population.values, "predictive": self.population.predictive}
        return arrays

    def part_hashes(self) -> dict[str, str]:
        own = {name: hash_array(array) for name, array in self._arrays().items()}
        return own if self.drive is None else {**own, **self.drive.part_hashes()}

    def write_parts(self, folder: Path) -> None:
        write_arrays(folder / "samples.npz", self._arrays())
        if self.drive is not None:
            self.drive.write(folder)

    @classmethod
    def read_parts(cls, folder: Path, head: Mapping[str, Json]) -> dict[str, Any]:
        arrays = read_arrays(folder / "samples.npz", PosteriorError)
        parts: dict[str, Any] = {"draws": arrays["draws"], "log_weights": arrays["log_weights"], "population": None}
        parts["drive"] = Drive.read(folder, head["drive"], PosteriorError) if "drive" in head else None
        if "population" in head:
            made = {name: arrays[name] for name in ("values", "predictive")}
            parts["population"] = build(Population, head["population"], f"{folder}: population", PosteriorError, made)
        return parts


def check_inside(parameter: ParameterInfo, column: np.ndarray, what: str) -> None:
    """Every value is finite and inside the parameter's limits."""
    outside = ~parameter.contains(column)
    if outside.any():
        i = int(np.argmax(outside))
        raise PosteriorError(
            f"{parameter.id}: {what} {i} is {column[i]:.6g} {parameter.unit}, outside the limits {parameter.low:.6g} "
            f"to {parameter.high:.6g} ({int(outside.sum())} of {len(column)} such). Draw inside the limits."
        )


def _check_shapes(posterior: Posterior) -> None:
    count, width = len(posterior.log_weights), len(posterior.parameters)
    if not width or len(set(posterior.ids)) != width or len(posterior.priors) != width:
        named = ", ".join(posterior.ids)
        raise PosteriorError(f"{len(posterior.priors)} priors for {named}: each parameter stands once, with one prior.")
    if posterior.log_weights.shape != (count,) or posterior.draws.shape != (count, width) or not count:
        raise PosteriorError(
            f"draws have shape {posterior.draws.shape} for {count} log weights and {width} parameters; at least one "
            f"draw is needed, in the shape {(count, width)}."
        )
    total = np.exp(posterior.log_weights).sum()
    if not abs(total - 1) < 1e-9:
        raise PosteriorError(f"the weights sum to {total:.9g}, not to one. Pass log_weights through normalised().")


def _check_population(posterior: Posterior) -> None:
    family = posterior.population
    if family is None:
        return
    if len(family.predictive) != len(posterior.draws) or not set(family.parameters) <= set(posterior.ids):
        raise PosteriorError(
            f"population {family.family!r} has {len(family.predictive)} draws of {', '.join(family.parameters)}; the "
            f"posterior has {len(posterior.draws)} of {', '.join(posterior.ids)}. They go draw by draw."
        )
    known = {parameter.id: parameter for parameter in posterior.parameters}
    for k, id in enumerate(family.parameters):
        check_inside(known[id], family.predictive[:, k], "the new instance of draw")
        check_inside(known[id], family.values[:, :, k].reshape(-1), f"an instance of {family.family}, number")
