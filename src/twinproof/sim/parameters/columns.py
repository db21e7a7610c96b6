"""A parameter that is one entry of one field: most of them are."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twinproof.sim.fields import field
from twinproof.sim.parameters.base import Named

if TYPE_CHECKING:
    from mujoco import MjModel, MjSpec

    from twinproof.sim.fields import Fields


@dataclass(frozen=True)
class Entry(Named):
    """One or more equal entries of row `index` in one field, and of one attribute in the spec.

    `columns` are the places in the field's row and in the spec's attribute, which agree; none for a plain number.
    """

    ATTRIBUTE: ClassVar[str]
    COLUMNS: ClassVar[tuple[int, ...]] = ()  # none: the field has one number a row
    FACTOR: ClassVar[float] = 1.0  # the model's number for one SI unit

    @property
    def columns(self) -> tuple[int, ...]:
        """The places in the row that hold the value."""
        return self.COLUMNS

    def read(self, model: MjModel) -> float:
        row = field(model, self.fields[0])[self.index(model)]
        return float(row[self.columns[0]] if self.columns else row) / self.FACTOR

    def write(self, spec: MjSpec, value: float) -> None:
        thing = self.thing(spec)
        if not self.columns:
            setattr(thing, self.ATTRIBUTE, value * self.FACTOR)
            return
        row = np.array(getattr(thing, self.ATTRIBUTE))
        row[list(self.columns)] = value * self.FACTOR
        setattr(thing, self.ATTRIBUTE, row)

    def poke(self, fields: Fields, value: np.ndarray) -> None:
        rows = fields[self.fields[0]][:, self.index(fields.nominal)]
        if self.columns:
            rows[:, list(self.columns)] = (value * self.FACTOR)[:, None]
        else:
            fields[self.fields[0]][:, self.index(fields.nominal)] = value * self.FACTOR

    @abstractmethod
    def thing(self, spec: MjSpec) -> Any:
        """The spec's element."""
