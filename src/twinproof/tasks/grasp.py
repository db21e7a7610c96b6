"""Where hands take things, and from where they push them: geometry for scripted experts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinproof.nouns.errors import TaskError
from twinproof.tasks.inverse import ArmKinematics, tools
from twinproof.tasks.machine import Arm, Machine
from twinproof.tasks.script import Seen
from twinproof.tasks.things import Box, Thing, gripper_of

DOWN, UP = np.array([0.0, 0.0, -1.0]), np.array([0.0, 0.0, 1.0])
DEPTH_M = 0.034  # how far below an object's top the tip takes it
LOW_M = 0.020  # but not lower than this above the table
PRESS_M = 0.022  # how far inside an object fingers are told to close
ROOM_M = 0.004  # between open fingers and an object, on each side
PAD_M = 0.008  # beyond a finger's inside another part must not be


@dataclass(frozen=True, eq=False)
class Hold:
    """A part of an object that fits between fingers, in the object's frame."""

    at_m: np.ndarray  # (3,)
    axis: int  # 0 or 1: along which the fingers close
    half_m: float


def hold_of(thing: Thing, widest_m: float) -> Hold:
    """The whole object over its narrow side, where it fits; else its narrowest part that both fingers can reach."""
    whole = Box(thing.middle_m, thing.half_m)
    for box in (whole, *sorted(thing.parts, key=lambda part: float(part.half_m[:2].min()))):
        for axis in (1, 0) if box.half_m[1] <= box.half_m[0] else (0, 1):
            half = float(box.half_m[axis])
            if half + ROOM_M <= widest_m and (box is whole or not _blocked(thing, box, axis)):
                return Hold(box.middle_m, axis, half)
    raise TaskError(
        f"no part of {thing.body!r} fits between fingers that open {widest_m:.3f} m each: the narrowest side of it is "
        f"{2 * float(thing.half_m[:2].min()):.3f} m. Use another object, or write your own expert."
    )


def _blocked(thing: Thing, box: Box, axis: int) -> bool:
    """Whether another part is where a finger would be."""
    for sign in (-1, 1):
        finger = box.middle_m.copy()
        finger[axis] += sign * (box.half_m[axis] + PAD_M)
        for other in thing.parts:
            if (np.abs(finger - other.middle_m)[:2] < other.half_m[:2]).all():
                return True
    return False


def taken(machine: Machine, arm: Arm, thing: Thing, hold: Hold, seen: Seen) -> tuple[np.ndarray, np.ndarray]:
    """Where the tip takes an object from above (N, 3), and how it is turned (N, 3, 3)."""
    axes = axes_of(seen["object_rotation"])
    fingers = axes[:, :, hold.axis].copy()
    fingers[:, 2] = 0.0
    at: np.ndarray = seen["object_position"] + np.einsum("nij,j->ni", axes, hold.at_m)
    at[:, 2] += max(LOW_M - thing.half_m[2], thing.half_m[2] - DEPTH_M)
    down = np.tile(DOWN, (len(at), 1))
    return at, tools(down, nearer(machine, arm, seen, fingers))


def axes_of(rotation: np.ndarray) -> np.ndarray:
    """Rotation matrices (N, 3, 3) of the six numbers that observations hold."""
    x, y = rotation[:, :3], rotation[:, 3:]
    return np.stack([x, y, np.cross(x, y)], axis=2)


def boundary(thing: Thing, rotation: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """How far an object reaches from its frame's origin along a level direction (N,), m: where a ray leaves it."""
    own = np.einsum("nij,ni->nj", axes_of(rotation), direction)[:, :2]
    if thing.round:
        return np.full(len(own), float(thing.half_m[0]))
    reach = np.zeros(len(own))
    for part in thing.parts:
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = (part.middle_m[:2] + np.stack([-part.half_m[:2], part.half_m[:2]])[:, None]) / own
        near, far = np.nanmin(ends, axis=0).max(axis=1), np.nanmax(ends, axis=0).min(axis=1)
        reach = np.where((far > near) & (far > 0), np.maximum(reach, far), reach)
    return reach


def nearer(machine: Machine, arm: Arm, seen: Seen, fingers: np.ndarray) -> np.ndarray:
    """The direction of the fingers or its opposite, whichever turns the hand less: a gripper is the same both ways."""
    _, turn, _ = kinematics(machine, arm).poses(seen["joint_position"][:, columns(machine, arm)])
    flip = np.sign((turn[:, :, 1] * fingers).sum(axis=1))
    return fingers * np.where(flip == 0, 1.0, flip)[:, None]


def columns(machine: Machine, arm: Arm) -> list[int]:
    """The places of an arm's joints among the machine's."""
    return [machine.joints.index(name) for name in arm.joints]


def kinematics(machine: Machine, arm: Arm) -> ArmKinematics:
    """The arm's chain within its limits."""
    mine = columns(machine, arm)
    return ArmKinematics(machine.chain(arm), machine.limits.low[mine], machine.limits.high[mine])


def widest_m(machine: Machine, arm: Arm) -> float:
    """How far the arm's fingers open, each."""
    gripper_of(machine.scene, arm)
    return float(min(machine.limits.high[[machine.joints.index(name) for name in arm.fingers]]))
