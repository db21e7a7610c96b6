"""What every parameter is: an id with unit and limits that writes itself whole into a spec, or pokes model fields."""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from twinproof.nouns.errors import SimError
from twinproof.nouns.theta import ParameterInfo

if TYPE_CHECKING:
    from mujoco import MjModel, MjSpec

    from twinproof.sim.fields import Fields


class Parameter(ABC):
    """One number of the physics. `write` and `poke` make the same change, from what is there now.

    The constants are what the properties of the same name give, where these do not depend on the instance.
    """

    KIND: ClassVar[str]
    QUANTITY: ClassVar[str] = ""
    UNIT: ClassVar[str] = "1"
    LIMITS: ClassVar[tuple[float, float]] = (0.0, 1.0)
    LOG: ClassVar[bool] = False
    FIELDS: ClassVar[tuple[str, ...]] = ()
    DERIVES: ClassVar[bool] = False
    CHANNEL: ClassVar[str] = ""

    @property
    @abstractmethod
    def id(self) -> str:
        """The name under which a Theta holds its value."""

    @property
    def unit(self) -> str:
        """SI. Where a joint or actuator may turn or slide, both units are named, turning first."""
        return self.UNIT

    @property
    def limits(self) -> tuple[float, float]:
        """What is physical: not a prior."""
        return self.LIMITS

    @property
    def log(self) -> bool:
        """Whether its natural scale is logarithmic."""
        return self.LOG

    @property
    def fields(self) -> tuple[str, ...]:
        """The model fields that it may change, apart from what derives from them."""
        return self.FIELDS

    @property
    def derives(self) -> bool:
        """Whether mj_setConst must follow a poke."""
        return self.DERIVES

    @property
    def channel(self) -> str:
        """Where it acts outside the model: "control" or "sensor" (channels.py), "episode" (disturb.py); else empty."""
        return self.CHANNEL

    @property
    def info(self) -> ParameterInfo:
        """The parameter as the nouns know it."""
        return ParameterInfo(self.id, self.unit, *self.limits, self.log)

    @abstractmethod
    def lacks(self, model: MjModel) -> str:
        """Why the model has no such parameter, as a clause; empty where it has one. Unknown names are an error."""

    @abstractmethod
    def read(self, model: MjModel) -> float:
        """The value in a compiled model."""

    @abstractmethod
    def write(self, spec: MjSpec, value: float) -> None:
        """Changes a settled spec (Scene.spec), whole: whatever else would win over the value is put aside."""

    @abstractmethod
    def poke(self, fields: Fields, value: np.ndarray) -> None:
        """The same change on the fields of many worlds; `value` has one number a world."""

    def fast(self, model: MjModel) -> bool:
        """Whether `poke` can do it; otherwise a model must be compiled for every value."""
        return True

    def above(self, model: MjModel) -> str:
        """Why a value inside the limits is still too large for this model; see `most`."""
        return ""

    def most(self, model: MjModel) -> float:
        """The largest value that this model has room for."""
        return self.limits[1]


@dataclass(frozen=True)
class Named(Parameter):
    """A parameter of one named thing: KIND.name.quantity."""

    name: str

    @property
    def quantity(self) -> str:
        """The last part of the id."""
        return self.QUANTITY

    @property
    def id(self) -> str:
        return f"{self.KIND}.{self.name}.{self.quantity}"

    def index(self, model: MjModel) -> int:
        """Which of its kind it is in a model."""
        return index(model, self.KIND, self.name)

    def lacks(self, model: MjModel) -> str:
        self.index(model)
        return ""


@dataclass(frozen=True)
class Outside(Named):
    """A parameter that the model does not know: it acts on controls or measurements (channels.py), and is zero there
    unless a Theta says otherwise."""

    def read(self, model: MjModel) -> float:
        return 0.0

    def write(self, spec: MjSpec, value: float) -> None:
        pass

    def poke(self, fields: Fields, value: np.ndarray) -> None:
        pass


# kind -> (mjtObj, count in the model)
OBJECTS = {
    "body": ("BODY", "nbody"),
    "geom": ("GEOM", "ngeom"),
    "pair": ("PAIR", "npair"),
    "joint": ("JOINT", "njnt"),
    "actuator": ("ACTUATOR", "nactuator"),
    "camera": ("CAMERA", "ncam"),
    "light": ("LIGHT", "nlight"),
    "material": ("MATERIAL", "nmat"),
    "mesh": ("MESH", "nmesh"),
    "sensor": ("SENSOR", "nsensor"),
}


def names(model: MjModel, kind: str) -> tuple[str, ...]:
    """The names of all things of a kind, in the model's order; those without one are empty texts."""
    import mujoco

    object_type, count = OBJECTS[kind]
    number = getattr(mujoco.mjtObj, f"mjOBJ_{object_type}")
    return tuple(mujoco.mj_id2name(model, number, i) or "" for i in range(getattr(model, count)))


def index(model: MjModel, kind: str, name: str) -> int:
    """Which of its kind a name is; an unknown one is an error with the nearest known names."""
    import mujoco

    found: int = mujoco.mj_name2id(model, getattr(mujoco.mjtObj, f"mjOBJ_{OBJECTS[kind][0]}"), name)
    if found < 0:
        raise SimError(f"the model has no {kind} {name!r}. {nearest(name, names(model, kind))}")
    return found


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence that helps someone who mistyped a name."""
    known = sorted({other for other in known if other})
    close = difflib.get_close_matches(name, known, n=3)
    if close:
        return f"Did you mean {' or '.join(map(repr, close))}?"
    shown = ", ".join(known[:12]) + (", …" if len(known) > 12 else "")
    return f"It has {shown}." if known else "It has none."
