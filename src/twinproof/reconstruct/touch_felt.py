"""What the joints felt of a touch: measured torques less what moving the robot in free air takes.

A robot's model has its gravity and friction a little wrong. So what is left over while the object stands still (a bias,
and friction by the speed) is learnt for each joint and taken off, and what is left then, in stretches that were not
learnt from, is how well a torque tells of touch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import SimError
from twinproof.nouns.rig import Rig
from twinproof.reconstruct.couple import Touch
from twinproof.sim.free_torques import free_torques
from twinproof.sim.track_pose import poses_at

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from twinproof.reconstruct.robot_frames import Angles
    from twinproof.sim.scene import Scene
    from twinproof.sim.track_pose import Track

AROUND_S = 0.3  # the object stands still when it is in one place for so long before and after
STILL_M, STILL_RAD = 0.003, 0.03
FEWEST = 5  # stretches in free air
TURNING = 0.02  # rad/s or m/s: friction has its full size from about twice this speed on
FAINT = 1e-3  # of a torque's spread: what a column of the free-air model must at least explain
MOSTLY = 0.5  # of an episode has a torque that counts at all
FAR = 3.0  # standard errors, from which on a sample counts less


def recorded_torques(
    episode: Episode, rig: Rig, time_s: Float[np.ndarray, "T"]
) -> tuple[Float[np.ndarray, "T J"] | None, str]:
    """Torques of the rig's joints at these times on the robot's clock (NaN: not recorded); or none, and why."""
    told = np.full((len(time_s), len(rig.joint_names)), np.nan)
    for signal in episode.of_kind("joint_torque"):
        rule = rig.signals.get(signal.name)
        clock_s = rule.clock_offset_s if rule is not None else 0.0
        for column in signal.columns:
            if column.name in rig.joint_names:
                value = signal.column(column.name)
                whole = np.isfinite(value)
                if whole.sum() > 1:
                    at = signal.time_s[whole] + clock_s
                    inside = (time_s >= at[0]) & (time_s <= at[-1])
                    mine = told[:, rig.joint_names.index(column.name)]
                    mine[inside] = np.interp(time_s[inside], at, value[whole])
    if not np.isfinite(told).any():
        return None, "torques of touch are not part of it: the episode has no joint_torque of the rig's joints"
    return told, ""


def felt(
    scene: Scene,
    joints: Sequence[str],
    angles: Angles,
    torque: Float[np.ndarray, "T J"],
    track: Track,
    segment_s: float,
) -> tuple[Touch | None, str]:
    """The torques of touch with the errors that they show while nothing touches; or none, and why.

    `angles` and `torque` have the same times; NaN was not recorded.
    """
    try:
        free = free_torques(scene, joints, angles.time_s, angles.value)
    except SimError as problem:
        return None, f"torques of touch are not part of it: {problem}"
    still = stands_still(track, angles.time_s)
    able = np.flatnonzero(~free.tied & (np.isfinite(torque).mean(axis=0) > MOSTLY))
    rows = np.isfinite(torque[:, able]).all(axis=1)
    if not len(able) or not rows.any():
        return None, "torques of touch are not part of it: no joint that moves by itself has its torque recorded"
    time_s = angles.time_s[rows]
    still = stands_still(track, time_s)
    left, sd = np.zeros((len(time_s), len(joints))), np.zeros(len(joints))
    for j in able:
        over, speed = (torque[rows, j] - free.torque[rows, j]), free.speed[rows, j]
        left[:, j], sd[j] = _less_free(over, speed, still, time_s, segment_s)
    if not (sd > 0).any():
        return None, (
            f"torques of touch are not part of it: the object stands still in fewer than {FEWEST} stretches of "
            f"{segment_s:g} s, so that nobody knows what free air takes"
        )
    size = ", ".join(f"{name} {one:.2g}" for name, one in zip(joints, sd, strict=True) if one > 0)
    return Touch(time_s, left, sd), f"torques of touch join, in free air right to (N m): {size}"


def stands_still(track: Track, time_s: Float[np.ndarray, "T"]) -> Bool[np.ndarray, "T"]:
    """Whether the object is in one place from `AROUND_S` before to as long after."""
    T = poses_at(track, time_s)
    before, after = poses_at(track, time_s - AROUND_S), poses_at(track, time_s + AROUND_S)
    still: np.ndarray = (time_s >= track.time_s[0]) & (time_s <= track.time_s[-1])
    for other in (before, after):
        way_m = np.linalg.norm(other[:, :3, 3] - T[:, :3, 3], axis=1)
        cosine = (np.einsum("tij,tij->t", other[:, :3, :3], T[:, :3, :3]) - 1) / 2
        still &= (way_m < STILL_M) & (np.arccos(np.clip(cosine, -1, 1)) < STILL_RAD)
    return still


def _less_free(
    over: np.ndarray, speed: np.ndarray, still: np.ndarray, time_s: np.ndarray, segment_s: float
) -> tuple[np.ndarray, float]:
    """A joint's torque less what free air was learnt to take, and the error of its mean over a stretch; 0: unknown."""
    columns = np.stack([np.ones_like(speed), np.tanh(speed / TURNING), speed], axis=1)
    stretch = np.floor((time_s - time_s[0]) / segment_s).astype(int)
    whole = [s for s in np.unique(stretch[still]) if still[stretch == s].all()]
    if len(whole) < FEWEST:
        return np.zeros_like(over), 0.0
    off = []
    for s in whole:
        mine = stretch == s
        others = still & ~mine
        off.append(float(np.mean(over[mine] - columns[mine] @ _fitted(columns[others], over[others]))))
    return over - columns @ _fitted(columns[still], over[still]), float(np.sqrt(np.mean(np.square(off))))


def _fitted(columns: np.ndarray, over: np.ndarray) -> np.ndarray:
    """Weights of the columns by least squares in which what is far off counts less."""
    weight = np.ones(len(over))
    faint = FAINT * len(over) * np.eye(columns.shape[1]) * np.square(columns).mean(axis=0)
    found = np.zeros(columns.shape[1])
    for _ in range(5):
        H = (columns.T * weight) @ columns + faint + 1e-12 * np.eye(len(found))
        found = np.linalg.solve(H, (columns.T * weight) @ over)
        left = over - columns @ found
        spread = max(1.4826 * float(np.median(np.abs(left))), 1e-9)
        weight = 1 / np.maximum(1.0, np.abs(left) / (FAR * spread))
    return found
