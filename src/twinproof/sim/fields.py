"""Model fields with a world axis in front: what parameters poke into, starting from the nominal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from mujoco import MjModel
    from mujoco.batch import Batch


class Fields(Mapping[str, np.ndarray]):
    """Field name -> writable array (worlds, …), the nominal values until someone pokes. Options are "opt.gravity".

    Iterating gives the fields that were asked for. `derives` is set when mj_setConst must follow.
    """

    def __init__(self, nominal: MjModel, count: int) -> None:
        self.nominal = nominal
        self.count = count
        self.derives = False
        self._arrays: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            value = field(self.nominal, name)
            self._arrays[name] = np.repeat(value[np.newaxis], self.count, axis=0)
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def into_model(self, model: MjModel, world: int = 0) -> None:
        """Copies one world's values into a model of the same layout."""
        for name in self:
            field(model, name)[...] = self[name][world]

    def into_batch(self, batch: Batch, worlds: np.ndarray | None = None, reset: Iterable[str] = ()) -> None:
        """Copies all worlds' values into the given simulations of a batch; fields in `reset` that nobody poked become
        nominal there."""
        rows = slice(None) if worlds is None else worlds
        for name in sorted({*reset, *self}):
            batch.expand(name)[rows] = self[name]

    def put(self, worlds: np.ndarray, part: Fields) -> None:
        """Takes over the values of some worlds from fields of those worlds alone."""
        for name in part:
            self[name][worlds] = part[name]
        self.derives |= part.derives


def field(model: MjModel, name: str) -> np.ndarray:
    """The live array of a model's field, by the name that `mujoco.batch` gives it."""
    owner, _, last = name.rpartition(".")
    value: np.ndarray = getattr(model.opt if owner == "opt" else model, last)
    return value
