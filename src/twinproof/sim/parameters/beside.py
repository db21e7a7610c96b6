"""What an episode adds around the model: pictures, noise, pushes, where things start. No model field knows any of it.

disturb.py applies starts, pushes and noise to worlds; `randomize.augment` applies what concerns pictures to them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from twinproof.sim.parameters.base import Outside, Parameter
from twinproof.sim.parameters.joints import FREE, HINGE, SLIDE

if TYPE_CHECKING:
    from mujoco import MjModel, MjSpec

    from twinproof.sim.fields import Fields


class Quantity(NamedTuple):
    """Unit, limits, scale, the value that changes nothing, and what it is."""

    unit: str
    low: float
    high: float
    log: bool
    neutral: float
    what: str


# kind -> quantity: what belongs to no thing of the model
AROUND: dict[str, dict[str, Quantity]] = {
    "image": {
        "brightness": Quantity("1", 0.05, 20.0, True, 1.0, "factor on all colours: exposure and light together"),
        "contrast": Quantity("1", 0.05, 20.0, True, 1.0, "factor on the distance from the picture's mean grey"),
        "saturation": Quantity("1", 0.0, 5.0, False, 1.0, "factor on the distance from grey, at every pixel"),
        "hue": Quantity("rad", -math.pi, math.pi, False, 0.0, "turn of all colours about grey"),
        "temperature": Quantity("K", 1700.0, 25000.0, True, 6500.0, "colour temperature of the light"),
        "noise": Quantity("1", 0.0, 1.0, False, 0.0, "sd of the noise of every colour, of a full scale of 1"),
        "blur": Quantity("px", 0.0, 20.0, False, 0.0, "sd of a Gaussian blur"),
        "dropout": Quantity("1", 0.0, 1.0, False, 0.0, "share of blocks of 8 × 8 pixels that are lost"),
        "latency": Quantity("s", 0.0, 10.0, False, 0.0, "from the exposure to the moment the picture is used"),
    },
    "depth": {
        "noise": Quantity("1/m", 0.0, 1.0, False, 0.0, "sd of a depth of 1 m; it grows with the square of the depth"),
        "dropout": Quantity("1", 0.0, 1.0, False, 0.0, "share of pixels without a reading"),
    },
    "proprioception": {
        "latency": Quantity("s", 0.0, 10.0, False, 0.0, "from the moment measured to the moment read, of all joints"),
        "dropout": Quantity("1", 0.0, 1.0, False, 0.0, "share of readings that are lost: the one before stands"),
    },
    "tracker": {
        "position_noise": Quantity("m", 0.0, 1.0, False, 0.0, "sd of each coordinate of a tracked pose"),
        "rotation_noise": Quantity("rad", 0.0, math.pi, False, 0.0, "sd of a tracked pose's turn about each axis"),
        "position_bias": Quantity("m", 0.0, 1.0, False, 0.0, "sd of each coordinate of a shift that stays an episode"),
        "rotation_bias": Quantity(
            "rad", 0.0, math.pi, False, 0.0, "sd about each axis of a turn that stays an episode"
        ),
        "latency": Quantity("s", 0.0, 10.0, False, 0.0, "from the picture to the pose"),
        "dropout": Quantity("1", 0.0, 1.0, False, 0.0, "share of poses that are lost: the one before stands"),
    },
}


@dataclass(frozen=True)
class Around(Parameter):
    """KIND.QUANTITY of no thing of the model: image.noise, depth.dropout, tracker.latency."""

    kind: str
    quantity: str
    CHANNEL: ClassVar = "episode"

    @property
    def about(self) -> Quantity:
        """Unit, limits, scale, neutral value, meaning."""
        return AROUND[self.kind][self.quantity]

    @property
    def id(self) -> str:
        return f"{self.kind}.{self.quantity}"

    @property
    def unit(self) -> str:
        return self.about.unit

    @property
    def limits(self) -> tuple[float, float]:
        return self.about.low, self.about.high

    @property
    def log(self) -> bool:
        return self.about.log

    def lacks(self, model: MjModel) -> str:
        return ""

    def read(self, model: MjModel) -> float:
        return self.about.neutral

    def write(self, spec: MjSpec, value: float) -> None:
        pass

    def poke(self, fields: Fields, value: np.ndarray) -> None:
        pass


@dataclass(frozen=True)
class JointReadingNoise(Outside):
    """Sd of the noise of what a joint reports: its position, its velocity or its torque."""

    which: str  # "position", "velocity", "torque"
    KIND: ClassVar = "joint"
    LIMITS: ClassVar = (0.0, 1e4)
    CHANNEL: ClassVar = "episode"

    @property
    def quantity(self) -> str:
        return f"{self.which}_noise"

    @property
    def unit(self) -> str:
        return {"position": "rad or m", "velocity": "rad/s or m/s", "torque": "N m or N"}[self.which]

    def lacks(self, model: MjModel) -> str:
        return _not_plain(self, model)


@dataclass(frozen=True)
class JointStart(Outside):
    """Where a joint stands when an episode begins."""

    KIND: ClassVar = "joint"
    QUANTITY: ClassVar = "start"
    UNIT: ClassVar = "rad or m"
    LIMITS: ClassVar = (-1e3, 1e3)
    CHANNEL: ClassVar = "episode"

    def lacks(self, model: MjModel) -> str:
        return _not_plain(self, model)

    def read(self, model: MjModel) -> float:
        return float(model.qpos0[model.jnt_qposadr[self.index(model)]])


def _not_plain(parameter: Outside, model: MjModel) -> str:
    plain = model.jnt_type[parameter.index(model)] in (HINGE, SLIDE)
    return "" if plain else f"the joint {parameter.name!r} neither turns about an axis nor slides along one"


@dataclass(frozen=True)
class BodyStart(Outside):
    """Where a free body stands when an episode begins: x, y, z in the world, or its turn about z from the nominal."""

    which: str  # "x", "y", "z", "yaw"
    KIND: ClassVar = "body"
    CHANNEL: ClassVar = "episode"

    @property
    def quantity(self) -> str:
        return f"start_{self.which}"

    @property
    def unit(self) -> str:
        return "rad" if self.which == "yaw" else "m"

    @property
    def limits(self) -> tuple[float, float]:
        return (-math.pi, math.pi) if self.which == "yaw" else (-1e3, 1e3)

    def lacks(self, model: MjModel) -> str:
        return "" if free_joint(model, self.index(model)) >= 0 else f"the body {self.name!r} does not move freely"

    def read(self, model: MjModel) -> float:
        if self.which == "yaw":
            return 0.0
        first = int(model.jnt_qposadr[free_joint(model, self.index(model))])
        return float(model.qpos0[first + "xyz".index(self.which)])


def free_joint(model: MjModel, body: int) -> int:
    """The number of a body's free joint; -1 where it has none."""
    first = int(model.body_jntadr[body])
    return first if first >= 0 and model.jnt_type[first] == FREE else -1


@dataclass(frozen=True)
class BodyPush(Outside):
    """The force of pushes on a body: now and then, each for a tenth of a second, in any direction."""

    KIND: ClassVar = "body"
    QUANTITY: ClassVar = "push"
    UNIT: ClassVar = "N"
    LIMITS: ClassVar = (0.0, 1e4)
    CHANNEL: ClassVar = "episode"

    def lacks(self, model: MjModel) -> str:
        still = model.body_weldid[self.index(model)] == 0
        return f"the body {self.name!r} is fixed to the world" if still else ""


@dataclass(frozen=True)
class ActuatorNoise(Outside):
    """Sd of the noise added to every command, in the unit of the control."""

    KIND: ClassVar = "actuator"
    QUANTITY: ClassVar = "noise"
    UNIT: ClassVar = "the control's"
    LIMITS: ClassVar = (0.0, 1e4)
    CHANNEL: ClassVar = "episode"
