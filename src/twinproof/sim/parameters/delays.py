"""Delays by MuJoCo's own history: a field like any other, once the scene has reserved room for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from twinproof.sim.parameters.base import Named

if TYPE_CHECKING:
    from mujoco import MjModel, MjSpec

    from twinproof.sim.fields import Fields


@dataclass(frozen=True)
class History(Named):
    """The delay of an actuator or a sensor."""

    QUANTITY: ClassVar = "delay"
    UNIT: ClassVar = "s"
    LIMITS: ClassVar = (0.0, 10.0)

    def lacks(self, model: MjModel) -> str:
        if self.most(model) > 0:
            return ""
        return f"the {self.KIND} {self.name!r} keeps no history: reserve it with scene.reserving({self._reserving}=…)"

    @property
    def _reserving(self) -> str:
        return "control_delay_s" if self.KIND == "actuator" else "sensor_delay_s"

    def most(self, model: MjModel) -> float:
        steps = getattr(model, f"{self.KIND}_history")[self.index(model), 0]
        return float(steps * model.opt.timestep)

    def above(self, model: MjModel) -> str:
        return f"reserve more with scene.reserving({self._reserving}=…)"

    def read(self, model: MjModel) -> float:
        return float(getattr(model, self.fields[0])[self.index(model)])

    def write(self, spec: MjSpec, value: float) -> None:
        (spec.actuator if self.KIND == "actuator" else spec.sensor)(self.name).delay = value

    def poke(self, fields: Fields, value: np.ndarray) -> None:
        fields[self.fields[0]][:, self.index(fields.nominal)] = value
