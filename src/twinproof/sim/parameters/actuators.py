"""Actuators: gains, bias, force limit, delay and its jitter, backlash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from twinproof.sim.parameters.base import Named, Outside
from twinproof.sim.parameters.delays import History

if TYPE_CHECKING:
    from mujoco import MjModel, MjSpec

    from twinproof.sim.fields import Fields

FIXED = 0  # mjtGain
NONE, AFFINE = 0, 1  # mjtBias


def is_servo(model: MjModel, actuator: int) -> bool:
    """Whether an actuator pulls its joint to the commanded position."""
    affine = model.actuator_gaintype[actuator] == FIXED and model.actuator_biastype[actuator] == AFFINE
    gain, bias = model.actuator_gainprm[actuator, 0], model.actuator_biasprm[actuator, 1]
    return bool(affine and gain > 0 and bias < 0 and abs(gain + bias) <= 1e-9 * gain)


@dataclass(frozen=True)
class ActuatorGain(Named):
    """Force for one unit of control. A position servo's stiffness is in two places, which change together."""

    KIND: ClassVar = "actuator"
    QUANTITY: ClassVar = "gain"
    UNIT: ClassVar = "N m or N, per unit of control"
    LIMITS: ClassVar = (1e-6, 1e7)
    LOG: ClassVar = True
    FIELDS: ClassVar = ("actuator_gainprm", "actuator_biasprm")

    def lacks(self, model: MjModel) -> str:
        i = self.index(model)
        fixed = model.actuator_gaintype[i] == FIXED and model.actuator_gainprm[i, 0] > 0
        return "" if fixed else f"the actuator {self.name!r} has no constant positive gain"

    def read(self, model: MjModel) -> float:
        return float(model.actuator_gainprm[self.index(model), 0])

    def write(self, spec: MjSpec, value: float) -> None:
        actuator = spec.actuator(self.name)
        if actuator.biasprm[1] != 0:
            actuator.biasprm[1] *= value / actuator.gainprm[0]
        actuator.gainprm[0] = value

    def poke(self, fields: Fields, value: np.ndarray) -> None:
        i = self.index(fields.nominal)
        fields["actuator_biasprm"][:, i, 1] *= value / fields["actuator_gainprm"][:, i, 0]
        fields["actuator_gainprm"][:, i, 0] = value


@dataclass(frozen=True)
class ActuatorVelocityGain(Named):
    """How strongly a servo brakes: force for one unit of the joint's speed."""

    KIND: ClassVar = "actuator"
    QUANTITY: ClassVar = "velocity_gain"
    UNIT: ClassVar = "N m s/rad or N s/m"
    LIMITS: ClassVar = (0.0, 1e6)
    FIELDS: ClassVar = ("actuator_biasprm",)

    def lacks(self, model: MjModel) -> str:
        i = self.index(model)
        return "" if is_servo(model, i) else f"the actuator {self.name!r} is no position servo"

    def read(self, model: MjModel) -> float:
        return float(-model.actuator_biasprm[self.index(model), 2])

    def write(self, spec: MjSpec, value: float) -> None:
        spec.actuator(self.name).biasprm[2] = -value

    def poke(self, fields: Fields, value: np.ndarray) -> None:
        fields["actuator_biasprm"][:, self.index(fields.nominal), 2] = -value


@dataclass(frozen=True)
class ActuatorBias(Named):
    """A force that is always there: a current offset, an unbalanced spring."""

    KIND: ClassVar = "actuator"
    QUANTITY: ClassVar = "bias"
    UNIT: ClassVar = "N m or N"
    LIMITS: ClassVar = (-1e4, 1e4)
    FIELDS: ClassVar = ("actuator_biasprm", "actuator_biastype")

    def lacks(self, model: MjModel) -> str:
        plain = model.actuator_biastype[self.index(model)] in (NONE, AFFINE)
        return "" if plain else f"the actuator {self.name!r} has a bias of another kind"

    def read(self, model: MjModel) -> float:
        return float(model.actuator_biasprm[self.index(model), 0])

    def write(self, spec: MjSpec, value: float) -> None:
        import mujoco

        actuator = spec.actuator(self.name)
        if value != 0:
            actuator.biastype = mujoco.mjtBias.mjBIAS_AFFINE  # without it a motor ignores its bias
        actuator.biasprm[0] = value

    def poke(self, fields: Fields, value: np.ndarray) -> None:
        i = self.index(fields.nominal)
        kinds = fields["actuator_biastype"]
        kinds[:, i] = np.where(value != 0, AFFINE, kinds[:, i])
        fields["actuator_biasprm"][:, i, 0] = value


@dataclass(frozen=True)
class ActuatorForceLimit(Named):
    """The largest force; the smallest follows in proportion."""

    KIND: ClassVar = "actuator"
    QUANTITY: ClassVar = "force_limit"
    UNIT: ClassVar = "N m or N"
    LIMITS: ClassVar = (1e-6, 1e6)
    LOG: ClassVar = True
    FIELDS: ClassVar = ("actuator_forcerange",)

    def lacks(self, model: MjModel) -> str:
        i = self.index(model)
        limited = model.actuator_forcelimited[i] and model.actuator_forcerange[i, 1] > 0
        return "" if limited else f"the actuator {self.name!r} has no force limit in the model"

    def read(self, model: MjModel) -> float:
        return float(model.actuator_forcerange[self.index(model), 1])

    def write(self, spec: MjSpec, value: float) -> None:
        low, high = spec.actuator(self.name).forcerange
        spec.actuator(self.name).forcerange = (low * (value / high), value)

    def poke(self, fields: Fields, value: np.ndarray) -> None:
        i = self.index(fields.nominal)
        limits = fields["actuator_forcerange"]
        limits[:, i, 0] *= value / limits[:, i, 1]
        limits[:, i, 1] = value


@dataclass(frozen=True)
class ActuatorDelay(History):
    """From the command to the force; whole steps of the simulation, rounded up."""

    KIND: ClassVar = "actuator"
    FIELDS: ClassVar = ("actuator_delay",)


@dataclass(frozen=True)
class ActuatorDelayJitter(Outside):
    """The delay that is added to some commands, drawn evenly from zero to this; commands never overtake each other."""

    KIND: ClassVar = "actuator"
    QUANTITY: ClassVar = "delay_jitter"
    UNIT: ClassVar = "s"
    LIMITS: ClassVar = (0.0, 1.0)
    CHANNEL: ClassVar = "control"


@dataclass(frozen=True)
class ActuatorBacklash(Outside):
    """The width of the play between a servo's command and what its joint is pulled to."""

    KIND: ClassVar = "actuator"
    QUANTITY: ClassVar = "backlash"
    UNIT: ClassVar = "rad or m"
    LIMITS: ClassVar = (0.0, 1.0)
    CHANNEL: ClassVar = "control"

    def lacks(self, model: MjModel) -> str:
        return "" if is_servo(model, self.index(model)) else f"the actuator {self.name!r} is no position servo"
