"""Sensors: what a measurement adds to the truth. Delay is MuJoCo's; bias, noise and quantisation are channels.py's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from twinproof.sim.parameters.base import Named, Outside
from twinproof.sim.parameters.delays import History

if TYPE_CHECKING:
    from mujoco import MjModel, MjSpec

    from twinproof.sim.fields import Fields


@dataclass(frozen=True)
class SensorBias(Outside):
    """Added to every number of the sensor."""

    KIND: ClassVar = "sensor"
    QUANTITY: ClassVar = "bias"
    UNIT: ClassVar = "the sensor's"
    LIMITS: ClassVar = (-1e4, 1e4)
    CHANNEL: ClassVar = "sensor"


@dataclass(frozen=True)
class SensorNoise(Named):
    """Standard deviation of the Gaussian noise. MuJoCo keeps the number in the model and leaves the noise to us."""

    KIND: ClassVar = "sensor"
    QUANTITY: ClassVar = "noise"
    UNIT: ClassVar = "the sensor's"
    LIMITS: ClassVar = (0.0, 1e4)
    FIELDS: ClassVar = ("sensor_noise",)
    CHANNEL: ClassVar = "sensor"

    def read(self, model: MjModel) -> float:
        return float(model.sensor_noise[self.index(model)])

    def write(self, spec: MjSpec, value: float) -> None:
        spec.sensor(self.name).noise = value

    def poke(self, fields: Fields, value: np.ndarray) -> None:
        fields["sensor_noise"][:, self.index(fields.nominal)] = value


@dataclass(frozen=True)
class SensorQuantum(Outside):
    """The step between two readings that the sensor can tell apart; 0 is continuous."""

    KIND: ClassVar = "sensor"
    QUANTITY: ClassVar = "quantum"
    UNIT: ClassVar = "the sensor's"
    LIMITS: ClassVar = (0.0, 1e3)
    CHANNEL: ClassVar = "sensor"


@dataclass(frozen=True)
class SensorDelay(History):
    """From the moment measured to the moment read; whole steps of the simulation, rounded up."""

    KIND: ClassVar = "sensor"
    FIELDS: ClassVar = ("sensor_delay",)


@dataclass(frozen=True)
class SignalError(Outside):
    """What a recorded signal adds by itself: stamps that are late, or a tracker's frame beside the world's.

    No model knows it: it acts where recordings are compared with simulations, and nowhere else.
    """

    KIND: ClassVar = "signal"
    which: str = "delay"  # delay | offset_x | offset_y | offset_z

    @property
    def quantity(self) -> str:
        return self.which

    @property
    def unit(self) -> str:
        return "s" if self.which == "delay" else "m"

    @property
    def limits(self) -> tuple[float, float]:
        return (-10.0, 10.0)

    def lacks(self, model: MjModel) -> str:
        return ""
