"""What a robot can know at one tick, and what only a judge knows: the two things that tasks are written in.

worlds (noise, delay) ──┐
                        ├──> Sensed ──> task.observe ──> what a policy sees
robot + tracker ────────┘
worlds, or a trace ─────────> Situation ──> task.reward, succeeded, failed, error, privileged

Both hold N worlds at once, in numpy or torch arrays. `xp` is the namespace of the arrays: functions of a task call
xp.where, xp.stack(…, -1), xp.concatenate(…, -1), and methods that both have, such as x.sum(-1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from twinproof.nouns.robot import Observation

Array = Any  # a numpy array or a torch tensor; the first axis is the world


@dataclass(frozen=True, eq=False)
class Sensed:
    """What the robot reports in N worlds, in the order of the task's joints, and what it was asked and told.

    `objects` are poses in the world (x, y, z, qw, qx, qy, qz) as a tracker gives them, by name; `last` is the newest
    command, before the first one the measured positions (or no torque).
    """

    xp: Any
    time_s: Array  # (N,) since the episode began
    position: Array  # (N, J) rad or m
    velocity: Array  # (N, J)
    goal: Array  # (N, G)
    last: Array  # (N, J)
    torque: Array | None = None  # (N, J)
    objects: Mapping[str, Array] = field(default_factory=dict)  # name -> (N, 7)
    images: Mapping[str, Array] = field(default_factory=dict)  # camera -> bytes (N, height, width, 3)

    @classmethod
    def of_robot(
        cls,
        seen: Observation,
        goal: np.ndarray,
        last: np.ndarray | None = None,
        objects: Mapping[str, np.ndarray] | None = None,
        begun_s: float = 0.0,
    ) -> Sensed:
        """What one robot reports: N = 1. `last` is what it was told at the tick before; None at the first one, where
        it is `seen.position`. `begun_s` is the stamp of the first observation."""
        told = seen.position if last is None else last
        return cls(
            np,
            np.array([seen.stamp_s - begun_s]),
            seen.position[None],
            seen.velocity[None],
            np.asarray(goal, dtype=np.float64)[None],
            np.asarray(told, dtype=np.float64)[None],
            seen.torque[None],
            {name: np.asarray(pose, dtype=np.float64)[None] for name, pose in (objects or {}).items()},
        )


@dataclass(frozen=True, eq=False)
class Situation:
    """What is the case in N worlds: true where it comes from worlds, as measured where it comes from a trace.

    `tips`, `objects` and `first` are by name; `first` are the objects' poses when the episode began, `speed` how fast
    an object moved since the last tick. `notes` are what the task remembers of the episode, `touching` whether a pair
    of `task.touch` touches and how hard (N): None where nothing tells.
    """

    xp: Any
    period_s: float
    time_s: Array  # (N,)
    position: Array  # (N, J)
    velocity: Array  # (N, J)
    goal: Array  # (N, G)
    command: Array  # (N, J) sent for the tick that has just passed
    before: Array  # (N, J) the one before
    tips: Mapping[str, Array] = field(default_factory=dict)  # (N, 3)
    objects: Mapping[str, Array] = field(default_factory=dict)  # (N, 7)
    first: Mapping[str, Array] = field(default_factory=dict)  # (N, 7)
    speed: Mapping[str, Array] = field(default_factory=dict)  # (N,) m/s
    notes: Mapping[str, Array] = field(default_factory=dict)  # (N,)
    touching: Array | None = None  # (N, pairs) bool
    force_n: Array | None = None  # (N, pairs)


class Fixed:
    """Numbers of the host, as arrays of whatever kind they meet: numpy, or torch of a type and device."""

    def __init__(self, values: object) -> None:
        self.host = np.array(values)
        self._kept: dict[tuple[object, ...], Array] = {}

    def like(self, other: Array) -> Array:
        """The numbers in the kind of another array; torch tensors are made once."""
        if isinstance(other, np.ndarray):
            return self.host
        key = (other.dtype, other.device)
        if key not in self._kept:
            exact = self.host.dtype.kind != "f"  # indices and masks keep their own type
            import torch

            self._kept[key] = torch.as_tensor(self.host, device=other.device).to(None if exact else other.dtype)
        return self._kept[key]


def distance(a: Array, b: Array) -> Array:
    """How far points lie apart, over the last axis."""
    off = a - b
    return ((off * off).sum(-1)) ** 0.5


# the first two columns of a rotation matrix are sums of products of the quaternion's numbers: base + 2 (± ab ± cd)
BASE = Fixed([1.0, 0.0, 0.0, 0.0, 1.0, 0.0])
LEFT, RIGHT = (
    Fixed([[2, 3], [1, 0], [1, 0], [1, 0], [1, 3], [2, 0]]),
    Fixed([[2, 3], [2, 3], [3, 2], [2, 3], [1, 3], [3, 1]]),
)
SIGN = Fixed([[-2.0, -2.0], [2.0, 2.0], [2.0, -2.0], [2.0, -2.0], [-2.0, -2.0], [2.0, 2.0]])


def turn(quat_wxyz: Array) -> Array:
    """The first two columns of the rotation matrices (N, 6): without the jumps and the double sign of quaternions."""
    products = quat_wxyz[:, LEFT.like(quat_wxyz)] * quat_wxyz[:, RIGHT.like(quat_wxyz)]
    return BASE.like(quat_wxyz) + (SIGN.like(quat_wxyz) * products).sum(-1)


def yaw(quat_wxyz: Array, xp: Any) -> Array:
    """The turn about the vertical (N,), rad."""
    w, x, y, z = (quat_wxyz[:, k] for k in range(4))
    return xp.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
