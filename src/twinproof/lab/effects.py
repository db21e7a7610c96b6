"""Effects that the twin's vocabulary never models, each switchable: what makes the lab's reality more than parameters.

cable_drag          the cable bundle along the arm: bending stiffness with hysteresis (Bouc-Wen) that couples two joints
gear_ripple         torque ripple and transmission error that repeat with the gear teeth
gripper_compliance  a rack and fingers that give way: the grip is softer, and the encoder does not see it all
table_flex          the table sags and rocks under the arm (its joints are in models/room.py)
rolling_exposure    picture rows are exposed one after the other
lens_shading        pictures get darker and warmer towards the corners
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import ConfigError
from twinproof.nouns.randomness import stream

if TYPE_CHECKING:
    from twinproof.lab.bench import Bench

EFFECTS = ("cable_drag", "gear_ripple", "gripper_compliance", "table_flex", "rolling_exposure", "lens_shading")


def chosen(text: str, bench: Bench | None = None) -> frozenset[str]:
    """The effects named by "all" (that the bench has), "off" or a list with commas."""
    has = EFFECTS if bench is None else bench.effects
    if text in ("all", "off"):
        return frozenset(has if text == "all" else ())
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in EFFECTS:
            raise ConfigError(f"there is no effect {name!r}. Use all, off, or some of {', '.join(has)}.")
        if bench is not None and name not in has:
            raise ConfigError(
                f"bench {bench.name!r} has no effect {name!r}. Use all, off, or some of {', '.join(has)}."
            )
    return frozenset(names)


class CableDrag:
    """Torque of a cable bundle that bends with pairs of joints. Its state is how much each bend has wound up."""

    STIFFNESS, LOOP, TURN_RAD = 0.55, 0.9, 0.12  # N m/rad; N m of hysteresis; rad over which a loop closes

    def __init__(self, pairs: np.ndarray, rest: np.ndarray, scale: np.ndarray) -> None:
        self.pairs, self.rest, self.scale = pairs, rest, scale  # (P, 2) joints, (P,) rad, (P,)
        self.wound = np.zeros(len(pairs))

    def torque(self, q: np.ndarray, qd: np.ndarray, dt: float) -> np.ndarray:
        """Torque on each joint; advances the hysteresis by one step."""
        bend, rate = q[self.pairs].sum(1) - self.rest, qd[self.pairs].sum(1)
        step = rate * dt / self.TURN_RAD
        self.wound += step - np.abs(step) * self.wound  # Bouc-Wen with exponent 1: settles at ±1
        pull = -self.scale * (self.STIFFNESS * bend + self.LOOP * self.wound)
        torque = np.zeros_like(qd)
        np.add.at(torque, self.pairs.ravel(), np.repeat(pull, 2))
        return torque


@dataclass(frozen=True)
class GearRipple:
    """Torque and angle errors of the gears, periodic in the joint angle."""

    joints: np.ndarray  # which of the robot's joints have gears
    teeth: np.ndarray  # periods a turn
    phase: np.ndarray
    torque_nm: np.ndarray
    angle_rad: np.ndarray  # amplitude of the transmission error, in what the encoder reads

    def torque(self, q: np.ndarray) -> np.ndarray:
        """Torque on the geared joints."""
        turn = self.teeth * q + self.phase
        ripple: np.ndarray = self.torque_nm * (np.sin(turn) + 0.4 * np.sin(2 * turn + 1.0))
        return ripple

    def reading(self, q: np.ndarray) -> np.ndarray:
        """How far the encoder, on the motor's side, is from the joint."""
        error: np.ndarray = self.angle_rad * np.sin(self.teeth / 3 * q + 2 * self.phase)
        return error


@dataclass(frozen=True)
class GripperCompliance:
    """A spring between motor and finger."""

    stiffness: float = 6000.0  # N/m

    def felt(self, force_n: np.ndarray, gain: np.ndarray) -> np.ndarray:
        """What is left of a stiff servo's force when a spring lies between motor and finger."""
        left: np.ndarray = force_n * self.stiffness / (gain + self.stiffness)
        return left

    def reading(self, felt_n: np.ndarray) -> np.ndarray:
        """How far the motor's encoder is ahead of the finger."""
        return felt_n / self.stiffness


def draw_cable(plant: int, bench: str, joints: np.ndarray, home: np.ndarray, limits_nm: np.ndarray) -> CableDrag:
    """A cable along neighbouring joints, heavy where the motors are strong."""
    rng = stream(plant, "lab", bench, "effect", "cable_drag")
    first = np.arange(0, len(joints) - 1)
    pairs = np.stack([joints[first], joints[first + 1]], axis=1)
    rest = home[joints[first]] + home[joints[first + 1]] + rng.normal(0, 0.2, len(first))
    scale = np.minimum(limits_nm[joints[first]], limits_nm[joints[first + 1]]) / 30 * rng.uniform(0.7, 1.3, len(first))
    return CableDrag(pairs, rest, scale)


def draw_ripple(plant: int, bench: str, joints: np.ndarray, limits_nm: np.ndarray) -> GearRipple:
    """Ripple of about 1.5 % of each motor's limit, and 0.05–0.12° of transmission error."""
    rng = stream(plant, "lab", bench, "effect", "gear_ripple")
    count = len(joints)
    return GearRipple(
        joints, rng.integers(36, 60, count).astype(float), rng.uniform(0, 6.28, count),
        limits_nm[joints] * rng.uniform(0.010, 0.020, count), np.radians(rng.uniform(0.05, 0.12, count)),
    )  # fmt: skip


def shade(picture: np.ndarray, strength: float, warmth: float) -> np.ndarray:
    """Linear light darkened as the fourth power of a cosine towards the corners, and warmer there."""
    height, width = picture.shape[:2]
    y, x = np.mgrid[0:height, 0:width]
    radius2 = ((x - width / 2 + 0.5) ** 2 + (y - height / 2 + 0.5) ** 2) / (width / 2) ** 2
    fall = 1 / (1 + strength * radius2) ** 2
    tint = 1 + warmth * radius2[..., None] * np.array([1.0, 0.0, -1.0])
    shaded: np.ndarray = picture * fall[..., None] * tint
    return shaded


def row_times(readout_s: float, bands: int) -> np.ndarray:
    """When each band of rows is exposed, from the start of the exposure."""
    return readout_s * (np.arange(bands) + 0.5) / bands


def named(effects: Iterable[str]) -> list[str]:
    """Effects in a fixed order, for files."""
    return [name for name in EFFECTS if name in set(effects)]
