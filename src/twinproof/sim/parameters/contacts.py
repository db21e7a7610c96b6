"""Friction and softness of contacts, of a geom, of an explicit pair, or of all geoms of a body at once.

solref = (timeconst, dampratio). With d the impedance dmax, a contact has the stiffness k = 1/(d·timeconst·dampratio)²
and the damping b = 2/(d·timeconst), both for a unit of effective mass: its frequency is 1/(d·timeconst·dampratio).
solimp = (dmin, dmax, width, …): the impedance grows from dmin at first touch to dmax at the depth `width`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twinproof.sim.parameters.base import Parameter, index

if TYPE_CHECKING:
    from mujoco import MjModel, MjSpec

    from twinproof.sim.fields import Fields


@dataclass(frozen=True)
class _OfContact(Parameter):
    """A contact property of a geom, of a pair, or of all geoms of a body; `quantity` is the id's last part."""

    owner: str  # "geom", "pair" or "body"
    name: str

    ARRAY: ClassVar[str]  # "friction", "solref", "solimp": after geom_ or pair_ in the model, alone in the spec

    @property
    def quantity(self) -> str:
        """The last part of the id."""
        return self.QUANTITY

    @property
    def id(self) -> str:
        return f"{self.owner}.{self.name}.{self.quantity}"

    @property
    def fields(self) -> tuple[str, ...]:
        return (f"{'pair' if self.owner == 'pair' else 'geom'}_{self.ARRAY}",)

    def rows(self, model: MjModel) -> list[int]:
        """The geoms or the pair that it concerns."""
        i = index(model, self.owner, self.name)
        if self.owner != "body":
            return [i]
        first = int(model.body_geomadr[i])
        return list(range(first, first + int(model.body_geomnum[i])))

    def lacks(self, model: MjModel) -> str:
        rows = self.rows(model)
        if not rows:
            return f"the body {self.name!r} has no geoms"
        table = getattr(model, self.fields[0])[rows]
        if not (table == table[0]).all():
            return f"the geoms of body {self.name!r} differ in {self.ARRAY}: name them one by one"
        return ""

    def read(self, model: MjModel) -> float:
        row = getattr(model, self.fields[0])[self.rows(model)[0]]
        return float(self.of(row[None])[0])

    def write(self, spec: MjSpec, value: float) -> None:
        match self.owner:
            case "body":
                things: list[Any] = list(spec.body(self.name).geoms)
            case "geom":
                things = [spec.geom(self.name)]
            case _:
                things = [spec.pair(self.name)]
        for thing in things:
            row = np.array(getattr(thing, self.ARRAY), dtype=np.float64)
            setattr(thing, self.ARRAY, self.changed(row[None], np.array([value]))[0])

    def poke(self, fields: Fields, value: np.ndarray) -> None:
        table = fields[self.fields[0]]
        for row in self.rows(fields.nominal):
            table[:, row] = self.changed(table[:, row], value)

    def of(self, rows: np.ndarray) -> np.ndarray:
        """The value in each world's row."""
        raise NotImplementedError

    def changed(self, rows: np.ndarray, value: np.ndarray) -> np.ndarray:
        """Each world's row with the new value."""
        raise NotImplementedError


@dataclass(frozen=True)
class Friction(_OfContact):
    """A friction coefficient. Two geoms in contact use the larger of theirs, unless one has priority or they pair.

    Torsion (m) acts from condim 4 on, rolling (m) at condim 6.
    """

    direction: str  # "slide", "torsion", "roll"
    ARRAY: ClassVar = "friction"
    LOG: ClassVar = True

    @property
    def quantity(self) -> str:
        return f"friction_{self.direction}"

    @property
    def unit(self) -> str:
        return "1" if self.direction == "slide" else "m"

    @property
    def limits(self) -> tuple[float, float]:
        return (1e-5, 10.0) if self.direction == "slide" else (1e-7, 1.0)

    @property
    def _columns(self) -> list[int]:
        if self.owner == "pair":
            return {"slide": [0, 1], "torsion": [2], "roll": [3, 4]}[self.direction]
        return [("slide", "torsion", "roll").index(self.direction)]

    def lacks(self, model: MjModel) -> str:
        missing = super().lacks(model)
        row = getattr(model, self.fields[0])[self.rows(model)[:1]]
        if not missing and len({float(row[0, column]) for column in self._columns}) > 1:
            return f"the pair {self.name!r} has two different {self.direction} frictions"
        return missing

    def of(self, rows: np.ndarray) -> np.ndarray:
        return rows[:, self._columns[0]]

    def changed(self, rows: np.ndarray, value: np.ndarray) -> np.ndarray:
        rows = rows.copy()
        rows[:, self._columns] = value[:, None]
        return rows


@dataclass(frozen=True)
class ContactReference(_OfContact):
    """The time constant (s) or the damping ratio of a contact: the entries of solref in its standard form."""

    entry: str  # "timeconst" or "dampratio"
    ARRAY: ClassVar = "solref"
    LOG: ClassVar = True

    @property
    def quantity(self) -> str:
        return f"contact_{self.entry}"

    @property
    def unit(self) -> str:
        return "s" if self.entry == "timeconst" else "1"

    @property
    def limits(self) -> tuple[float, float]:
        return (1e-4, 10.0) if self.entry == "timeconst" else (1e-3, 100.0)

    @property
    def _column(self) -> int:
        return ("timeconst", "dampratio").index(self.entry)

    def lacks(self, model: MjModel) -> str:
        return super().lacks(model) or _direct(self, model)

    def of(self, rows: np.ndarray) -> np.ndarray:
        return rows[:, self._column]

    def changed(self, rows: np.ndarray, value: np.ndarray) -> np.ndarray:
        rows = rows.copy()
        rows[:, self._column] = value
        return rows


@dataclass(frozen=True)
class ContactSpring(_OfContact):
    """Stiffness (1/s²) or damping (1/s) of a contact for a unit of mass: solref in its direct, negative form."""

    entry: str  # "stiffness" or "damping"
    ARRAY: ClassVar = "solref"
    LOG: ClassVar = True

    @property
    def quantity(self) -> str:
        return f"contact_{self.entry}"

    @property
    def unit(self) -> str:
        return "1/s²" if self.entry == "stiffness" else "1/s"

    @property
    def limits(self) -> tuple[float, float]:
        return (1.0, 1e9) if self.entry == "stiffness" else (1e-2, 1e6)

    @property
    def _column(self) -> int:
        return ("stiffness", "damping").index(self.entry)

    def lacks(self, model: MjModel) -> str:
        if missing := super().lacks(model):
            return missing
        direct = getattr(model, self.fields[0])[self.rows(model)[0], 0] < 0
        return "" if direct else f"{self.owner} {self.name!r} states solref as timeconst and dampratio: use those"

    def of(self, rows: np.ndarray) -> np.ndarray:
        return -rows[:, self._column]

    def changed(self, rows: np.ndarray, value: np.ndarray) -> np.ndarray:
        rows = rows.copy()
        rows[:, self._column] = -value
        return rows


@dataclass(frozen=True)
class ContactImpedance(_OfContact):
    """dmin, dmax or width (m) of solimp: how hard a contact is at first touch, when deep, and what counts as deep."""

    entry: str
    ARRAY: ClassVar = "solimp"

    @property
    def quantity(self) -> str:
        return f"contact_{self.entry}"

    @property
    def unit(self) -> str:
        return "m" if self.entry == "width" else "1"

    @property
    def limits(self) -> tuple[float, float]:
        return (1e-6, 1.0) if self.entry == "width" else (1e-4, 0.9999)  # MuJoCo clips d to these

    @property
    def _column(self) -> int:
        return ("dmin", "dmax", "width").index(self.entry)

    def of(self, rows: np.ndarray) -> np.ndarray:
        return rows[:, self._column]

    def changed(self, rows: np.ndarray, value: np.ndarray) -> np.ndarray:
        rows = rows.copy()
        rows[:, self._column] = value
        return rows


@dataclass(frozen=True)
class Restitution(_OfContact):
    """Speed after a bounce over speed before, without gravity. It sets the damping and keeps the stiffness:
    timeconst · dampratio stays."""

    QUANTITY: ClassVar = "restitution"
    LIMITS: ClassVar = (1e-3, 0.97)
    ARRAY: ClassVar = "solref"

    def lacks(self, model: MjModel) -> str:
        return super().lacks(model) or _direct(self, model)

    def of(self, rows: np.ndarray) -> np.ndarray:
        return restitution(rows[:, 1])

    def changed(self, rows: np.ndarray, value: np.ndarray) -> np.ndarray:
        ratio = damping_ratio(value)
        return np.stack([rows[:, 0] * rows[:, 1] / ratio, ratio], axis=-1)


def _direct(parameter: _OfContact, model: MjModel) -> str:
    direct = getattr(model, parameter.fields[0])[parameter.rows(model)[0], 0] <= 0
    return f"{parameter.owner} {parameter.name!r} states solref as stiffness and damping: use those" if direct else ""


def restitution(ratio: np.ndarray) -> np.ndarray:
    """Speed ratio of a bounce on a spring and damper that cannot pull (Schwager & Pöschel 2007), by damping ratio."""
    root = np.sqrt(np.abs((1 - ratio) * (1 + ratio)))
    angle = np.where(ratio < 1, np.arctan2(root, ratio), np.arcsinh(root))
    critical = root == 0
    found: np.ndarray = np.exp(-2 * ratio * np.where(critical, 1.0, angle / np.where(critical, 1.0, root)))
    return found


def damping_ratio(bounce: np.ndarray) -> np.ndarray:
    """The inverse of `restitution`, by bisection on a logarithmic scale: the function falls all the way."""
    low, high = np.full_like(bounce, np.log(1e-4)), np.full_like(bounce, np.log(1e3))
    for _ in range(64):
        middle = (low + high) / 2
        above = restitution(np.exp(middle)) > bounce
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    found: np.ndarray = np.exp((low + high) / 2)
    return found
