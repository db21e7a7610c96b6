"""Sensors that see where an object is, where a rig has one: a tag, or motion capture. Never the truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinproof.lab.bench import Bench
from twinproof.lab.models.text import quaternion, rotation
from twinproof.lab.models.things import OBJECT
from twinproof.lab.reality import Reality
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.randomness import stream
from twinproof.nouns.signal import Column, Signal
from twinproof.sim.world import World

COLUMNS = ("x", "y", "z", "qw", "qx", "qy", "qz")


@dataclass(frozen=True)
class Tracker:
    """A pose sensor: rate, noise, how often it loses sight, and a fixed error of its own frame."""

    name: str
    rate_hz: float
    noise_m: float
    noise_rad: float
    lost: float  # share of samples missing
    frame_m: float
    frame_rad: float


TRACKERS = {
    "tag": Tracker("tag", 20.0, 0.0015, 0.012, 0.08, 0.004, 0.008),
    "mocap": Tracker("mocap", 100.0, 0.0002, 0.002, 0.02, 0.0015, 0.003),
}


def tracker(name: str, bench: Bench) -> Tracker:
    """The sensor of this name; a bench without objects has none."""
    if name not in TRACKERS:
        raise ConfigError(f"there is no tracker {name!r}. Use one of {', '.join(TRACKERS)}.")
    if not bench.families:
        raise ConfigError(f"bench {bench.name!r} has no object to track. Record it without --tracker.")
    return TRACKERS[name]


def track(reality: Reality, sensor: Tracker, frame: np.random.Generator, rng: np.random.Generator) -> Signal:
    """The object's pose over an episode as the sensor gives it; where it lost sight there is no sample.

    `frame` draws the error of the sensor's own calibration, the same in every episode of a plant.
    """
    view = Mounted(reality, sensor, frame)
    scratch = World(reality.world.model)
    span_s = (len(reality.log.qpos) - 1) * reality.dt
    steps = np.round(np.arange(0, span_s, 1 / sensor.rate_hz) / reality.dt).astype(int)
    value = np.zeros((len(steps), 7))
    for row, step in zip(value, steps, strict=True):
        scratch.qpos[:] = reality.log.qpos[step]
        scratch.kinematics()
        row[:] = view.read(scratch, rng)
    seen = rng.uniform(size=len(steps)) >= sensor.lost
    seen[[0, -1]] = True
    columns = tuple(Column(name, "m" if k < 3 else "1", "world") for k, name in enumerate(COLUMNS))
    return Signal("object_pose", "pose", columns, np.round(steps[seen] * reality.dt * 1e9) / 1e9, value[seen])


class Mounted:
    """One sensor over one reality, with the error of its own calibration."""

    def __init__(self, reality: Reality, sensor: Tracker, frame: np.random.Generator) -> None:
        self.sensor, self._body = sensor, OBJECT if reality.world.has("body", OBJECT) else "drawer"
        self._shift = frame.normal(0, sensor.frame_m, 3)
        self._turn = rotation(frame.normal(0, sensor.frame_rad, 3))

    def read(self, world: World, rng: np.random.Generator) -> np.ndarray:
        """(7,) where the sensor sees the object in a world whose kinematics are up to date."""
        pose = world.body_pose(self._body)
        place = pose[:3, 3] + self._shift + rng.normal(0, self.sensor.noise_m, 3)
        return np.array(
            [*place, *quaternion(self._turn @ pose[:3, :3] @ rotation(rng.normal(0, self.sensor.noise_rad, 3)))]
        )


def frame_of(plant: int, bench: str) -> np.random.Generator:
    """Draws the error of a tracker's calibration: the same in every recording and trial of a plant."""
    return stream(plant, "lab", bench, "tracker")
