"""What is hidden: how a plant (one robot, one set of cameras) differs from what the user believes about it.

Magnitudes are fixed here, once, before any method is scored on them; docs/lab.md lists them with reasons. A plant is
drawn from a number, each value from a stream of its own, so that adding a parameter moves no other one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from twinproof.lab.models.text import quaternion, rotation
from twinproof.nouns.randomness import stream
from twinproof.nouns.rig import Intrinsics, Mount
from twinproof.nouns.theta import Theta

# pattern of parameter ids -> how the true value is drawn from the nominal one; the first match counts
TIMES = {  # factor, drawn evenly on a logarithmic scale
    "joint.drawer.*": (1.0, 1.0),  # a drawer's own values come with its instance
    "geom.*": (1.0, 1.0),
    "body.object.*": (1.0, 1.0),
    "body.drawer.*": (1.0, 1.0),
    "body.*.mass": (0.87, 1.15),
    "joint.*.damping": (0.60, 1.70),
    "joint.*.frictionloss": (0.60, 1.80),
    "joint.*.armature": (0.75, 1.35),
    "actuator.*.gain": (0.86, 1.12),
    "actuator.*.force_limit": (0.85, 1.05),
}
TILT_RAD = (0.002, 0.006)  # the table is not level
OFFSET_RAD = tuple(np.radians([0.5, 3.0]))  # joints whose zero was set by eye
DELAY_S = (0.014, 0.034)  # from command to motor, the bus's, one for all joints
JITTER_S = (0.001, 0.003)
BACKLASH_RAD = tuple(np.radians([0.10, 0.45]))
BACKLASH_M = (0.0002, 0.0006)
POSITION_NOISE_RAD, POSITION_NOISE_M, COUNTS_PER_TURN, QUANTUM_M = 2.5e-4, 2e-5, 4096, 2e-5
VELOCITY_NOISE, VELOCITY_NOISE_M, TORQUE_NOISE = 0.015, 0.002, 0.02  # rad/s; m/s; share of the motor's limit
CAMERA_M, CAMERA_RAD = (0.010, 0.030), tuple(np.radians([1.0, 4.0]))  # the stated mount is off by so much
WRIST_M, WRIST_RAD = (0.003, 0.008), tuple(np.radians([0.5, 2.0]))
FOCAL = (0.005, 0.015)  # share
CAMERA_LATE_S = (0.010, 0.060)  # camera stamps lag the robot's clock


@dataclass(frozen=True)
class View:
    """A camera as it was meant to be mounted: on the world or on a body, with its vertical field of view."""

    name: str
    parent: str
    T_parent_camera: np.ndarray
    fovy_rad: float


@dataclass(frozen=True)
class HiddenCamera:
    """Where a camera is, what the rig says, and how its clock runs: robot time = its stamps + clock_offset_s."""

    name: str
    parent: str
    T_true: np.ndarray
    T_stated: np.ndarray
    fovy_true_rad: float
    fovy_stated_rad: float
    clock_offset_s: float
    readout_s: float  # of a rolling shutter
    noise: float  # standard deviation of a pixel, in counts of 255
    drift: float  # log sd of the slow exposure drift

    def mount(self, true: bool = False) -> Mount:
        """The mount as the rig states it, or as it is."""
        pose = self.T_true if true else self.T_stated
        x, y, z = (float(v) for v in pose[:3, 3])
        if true:
            return Mount(self.parent, (x, y, z), quaternion(pose))
        sd = (0.012, 0.03) if self.parent == "world" else (0.004, 0.015)
        return Mount(self.parent, (x, y, z), quaternion(pose), *sd)

    def lens(self, size: tuple[int, int], true: bool = False) -> Intrinsics:
        """The pinhole in pixels of a picture size."""
        width, height = size
        focal = height / 2 / np.tan((self.fovy_true_rad if true else self.fovy_stated_rad) / 2)
        return Intrinsics(float(focal), float(focal), (width - 1) / 2, (height - 1) / 2)


@dataclass(frozen=True)
class Plant:
    """One robot with its cameras: hidden values by parameter id, and the cameras."""

    bench: str
    seed: int
    theta: Theta
    cameras: tuple[HiddenCamera, ...]

    def value(self, id: str, default: float = 0.0) -> float:
        """A hidden value, or the default where nothing was drawn."""
        return float(self.theta.get(id, default))


def draw_plant(
    bench: str,
    seed: int,
    nominal: Mapping[str, float],
    servos: tuple[str, ...],
    sliders: tuple[str, ...],
    views: tuple[View, ...],
) -> Plant:
    """The plant of this number. `servos` are position-driven hinges, `sliders` position-driven grippers."""
    values: dict[str, float] = {}

    def rng(*path: str) -> np.random.Generator:
        return stream(seed, "lab", bench, "plant", *path)

    for id, value in nominal.items():
        if id.startswith("gravity.tilt"):
            values[id] = float(rng(id).choice([-1, 1]) * rng(id, "size").uniform(*TILT_RAD))
            continue
        low, high = next((span for pattern, span in TIMES.items() if fnmatchcase(id, pattern)), (1.0, 1.0))
        if low != high:
            values[id] = value * float(np.exp(rng(id).uniform(np.log(low), np.log(high))))
    for name in (*servos, *sliders):
        hinge = name in servos
        size = float(rng("backlash", name).uniform(*(BACKLASH_RAD if hinge else BACKLASH_M)))
        values[f"actuator.{name}.backlash"] = size
        if hinge:
            turn = rng("offset", name)
            values[f"joint.{name}.offset"] = float(turn.choice([-1, 1]) * turn.uniform(*OFFSET_RAD))
    delay, jitter = float(rng("delay").uniform(*DELAY_S)), float(rng("jitter").uniform(*JITTER_S))
    for id in nominal:
        if id.startswith("actuator.") and id.endswith(".gain"):
            motor = id.removeprefix("actuator.").removesuffix(".gain")
            values[f"actuator.{motor}.delay"], values[f"actuator.{motor}.delay_jitter"] = delay, jitter
            values |= _sensors(motor, motor in sliders, nominal[f"actuator.{motor}.force_limit"])
    return Plant(bench, seed, Theta(values), tuple(_camera(view, rng("camera", view.name)) for view in views))


def _sensors(motor: str, slides: bool, limit: float) -> dict[str, float]:
    """Noise and steps of a joint's sensors; every robot of the kind has the same."""
    return {
        f"sensor.{motor}_position.noise": POSITION_NOISE_M if slides else POSITION_NOISE_RAD,
        f"sensor.{motor}_position.quantum": QUANTUM_M if slides else 2 * np.pi / COUNTS_PER_TURN,
        f"sensor.{motor}_velocity.noise": VELOCITY_NOISE_M if slides else VELOCITY_NOISE,
        f"sensor.{motor}_torque.noise": TORQUE_NOISE * limit,
    }


def _camera(view: View, rng: np.random.Generator) -> HiddenCamera:
    """A camera that somebody mounted roughly where it was meant to be and measured with a tape."""
    fixed = view.parent == "world"
    true = view.T_parent_camera.copy()
    true[:3, 3] += rng.normal(0, 0.008 if fixed else 0.002, 3)
    true[:3, :3] = true[:3, :3] @ rotation(rng.normal(0, 0.02 if fixed else 0.01, 3))
    wrong = true.copy()
    wrong[:3, 3] += _direction(rng) * rng.uniform(*(CAMERA_M if fixed else WRIST_M))
    wrong[:3, :3] = wrong[:3, :3] @ rotation(_direction(rng) * rng.uniform(*(CAMERA_RAD if fixed else WRIST_RAD)))
    share = 1 + rng.choice([-1, 1]) * rng.uniform(*FOCAL)
    stated = 2 * np.arctan(np.tan(view.fovy_rad / 2) * share)
    return HiddenCamera(
        view.name, view.parent, true, wrong, view.fovy_rad, float(stated), -float(rng.uniform(*CAMERA_LATE_S)),
        float(rng.uniform(0.012, 0.022)), float(rng.uniform(1.2, 2.4)), float(rng.uniform(0.05, 0.10)),
    )  # fmt: skip


def _direction(rng: np.random.Generator) -> np.ndarray:
    vector: np.ndarray = rng.normal(size=3)
    unit: np.ndarray = vector / np.linalg.norm(vector)
    return unit
