"""Values that cannot change under those who hold them: mappings, JSON trees and arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

import numpy as np

from twinproof.nouns.errors import TwinproofError
from twinproof.nouns.hashing import Json

Thing = TypeVar("Thing")


class Frozen(Mapping[str, Thing], Generic[Thing]):
    """A mapping that is its own copy and has no way to be changed."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Thing] | None = None) -> None:
        self._values = dict(values or {})

    def __getitem__(self, name: str) -> Thing:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return repr(self._values)


def frozen_json(value: Any, where: str, error: type[TwinproofError]) -> Json:
    """A copy of a JSON tree made of `Frozen` and tuples; what JSON cannot hold is an error with its place."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise error(f"{where} has the key {key!r}, which is no text. Keys in JSON are texts.")
        return Frozen({key: frozen_json(item, f"{where}.{key}", error) for key, item in value.items()})
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return tuple(frozen_json(item, f"{where}[{i}]", error) for i, item in enumerate(value))
    if isinstance(value, float) and not np.isfinite(value):
        raise error(f"{where} is {value}, which JSON cannot hold. Leave it out, or say in words why it is not known.")
    if value is not None and not isinstance(value, (bool, int, float, str)):
        raise error(f"{where} is a {type(value).__name__}, which JSON cannot hold. Give numbers, texts, lists, tables.")
    return value


def frozen_array(values: Any, dtype: Any = np.float64) -> np.ndarray:
    """A read-only copy."""
    array: np.ndarray = np.array(values, dtype=dtype, order="C")
    array.setflags(write=False)
    return array


def settle(thing: object, **values: Any) -> None:
    """Sets fields of a frozen dataclass while it is being born (in `__post_init__`, and nowhere else)."""
    for name, value in values.items():
        object.__setattr__(thing, name, value)
