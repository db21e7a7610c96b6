"""Values of physical parameters by id. `sim` knows what an id means; here it has a unit, limits and a scale."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from twinproof.nouns.errors import ParameterError
from twinproof.nouns.hashing import content_hash


@dataclass(frozen=True)
class ParameterInfo:
    """A parameter's id ("body.cube.mass"), SI unit and physical limits; `log` says that its natural scale is one."""

    id: str
    unit: str
    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        check_id(self.id)
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ParameterError(f"{self.id}: the limits are {self.low} and {self.high}; give two numbers, low first.")
        if self.log and self.low <= 0:
            raise ParameterError(f"{self.id}: a logarithmic scale needs limits above zero, found {self.low}.")

    def contains(self, values: np.ndarray | float) -> np.ndarray:
        """Whether each value is finite and inside the limits."""
        inside: np.ndarray = (np.asarray(values) >= self.low) & (np.asarray(values) <= self.high)
        return inside

    def to_scale(self, values: np.ndarray | float) -> np.ndarray:
        """Values on the natural scale: their logarithm where `log` is set."""
        scaled: np.ndarray = np.log(values) if self.log else np.asarray(values, dtype=np.float64)
        return scaled

    def from_scale(self, scaled: np.ndarray | float) -> np.ndarray:
        """The inverse of `to_scale`."""
        values: np.ndarray = np.exp(scaled) if self.log else np.asarray(scaled, dtype=np.float64)
        return values


class Theta(Mapping[str, float]):
    """Parameter id -> value in SI units. It cannot change, and the order of its entries is irrelevant."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, float] | None = None) -> None:
        pairs = sorted((values or {}).items())
        for id, value in pairs:
            check_id(id)
            if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not math.isfinite(value):
                raise ParameterError(f"{id} is {value!r}; a parameter's value is a finite number.")
        self._values = {id: float(value) for id, value in pairs}

    def __getitem__(self, id: str) -> float:
        return self._values[id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def hash(self) -> str:
        """Names the ids and values."""
        return content_hash(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Theta) and self._values == other._values

    def __hash__(self) -> int:
        return hash(tuple(self._values.items()))

    def __repr__(self) -> str:
        return f"Theta({self._values})"

    def __or__(self, other: Mapping[str, float]) -> Theta:
        """These values, with the other's in their place where both have one."""
        return Theta({**self._values, **other})


def check_id(id: str) -> None:
    """An id is a printable text without blanks at its ends."""
    if not isinstance(id, str) or not id or not id.isprintable() or id != id.strip() or len(id) > 200:
        raise ParameterError(f"{id!r} is no parameter id. Write it like 'body.cube.mass'.")
