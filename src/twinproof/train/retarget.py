"""From how a human hand moved an object to how a robot's arm would: the motion relative to the object is kept.

HandTrack ─ scale by the object's size ─ smooth ─ T_object_pinch, aperture ─┐
twin: object at its place, the motion turned so that the arm reaches it ────┴─ joints by IK within limits ─> Motion

The pinch is the middle between thumb and index; the arm's tip takes its place, the approach from the wrist and the line
between the two fingertips turn it, as far as the arm can. Where joints would be too fast the whole motion is slowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import TaskError
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Joint, Rig
from twinproof.nouns.signal import Column, Signal
from twinproof.tasks.grasp import PRESS_M, columns, kinematics, widest_m
from twinproof.tasks.inverse import ArmKinematics, tools
from twinproof.tasks.machine import Machine
from twinproof.tasks.script import Lead
from twinproof.tasks.things import Thing, thing_of
from twinproof.train.hand_track import NEEDED, HandTrack

if TYPE_CHECKING:
    from jaxtyping import Float

STEPS = 6  # of the solver, from one tick to the next
NEAR_M = 0.015  # around the object's box: a hand there, with its fingers about it, holds it


@dataclass(frozen=True)
class Retarget:
    """Settings."""

    smooth_s: float = 0.06  # sd of the window that keypoints and poses are smoothed over
    turn_s: float = 0.25  # the same for the hand's turn: fingertips that are near each other hardly show it
    yaws: int = 24  # ways to turn the motion about the object that are tried
    per_rad_m: float = 0.02  # a radian of the hand's turn weighs like so many metres
    fastest: float = 0.8  # share of the joints' speed limits
    within_m: float = 0.02  # the median error that is asked for


@dataclass(frozen=True, eq=False)
class Motion:
    """What the robot does, at its own rate, and where the object should be: world frame, SI.

    `wanted_m` is where the hand was relative to the object, carried over; `error_m` how far the tip is from there.
    """

    time_s: Float[np.ndarray, "T"]
    joints: Float[np.ndarray, "T J"]
    command: Float[np.ndarray, "T J"]  # what servos are told, so that gravity brings them there
    tip_m: Float[np.ndarray, "T 3"]
    wanted_m: Float[np.ndarray, "T 3"]
    object_pose: Float[np.ndarray, "T 7"]
    holding: np.ndarray  # (T,) whether the fingers are about the object
    scale: float  # metres to one of the track's units
    yaw_rad: float  # by which the track was turned
    slowed: float  # times as long as the track

    @property
    def error_m(self) -> Float[np.ndarray, "T"]:
        """(T,)."""
        found: np.ndarray = np.linalg.norm(self.tip_m - self.wanted_m, axis=1)
        return found


@dataclass(frozen=True, eq=False)
class _Hand:
    """The hand and the object at ticks, in metres, in the track's axes with the object's first place as origin."""

    time_s: np.ndarray
    pinch: np.ndarray  # (T, 3)
    approach: np.ndarray  # (T, 3)
    across: np.ndarray  # (T, 3) from thumb to index
    aperture: np.ndarray  # (T,) how far they are apart
    object_pose: np.ndarray  # (T, 7)

    def turned(self, yaw_rad: float, at_m: np.ndarray) -> _Hand:
        """The same, turned about the vertical and with the object's first place put elsewhere."""
        c, s = np.cos(yaw_rad), np.sin(yaw_rad)
        turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
        half = np.array([np.cos(yaw_rad / 2), 0.0, 0.0, np.sin(yaw_rad / 2)])
        pose = np.concatenate(
            [self.object_pose[:, :3] @ turn.T + at_m, _product(half, self.object_pose[:, 3:])], axis=1
        )
        moved = (self.pinch @ turn.T + at_m, self.approach @ turn.T, self.across @ turn.T)
        return _Hand(self.time_s, *moved, self.aperture, pose)


def retarget(track: HandTrack, machine: Machine, how: Retarget | None = None, body: str = "") -> Motion:
    """The robot's motion for a track. One that no placement brings within reach is refused."""
    how = how or Retarget()
    thing, arm = thing_of(machine.scene, body), machine.arm()
    scale = float(np.exp(np.mean(np.log(2 * thing.half_m / track.object_size))))
    hand = _smoothed(track, scale, how, 1 / machine.rate_hz)
    solver, mine = kinematics(machine, arm), columns(machine, arm)
    home = machine.home[mine]
    yaw = _placed(hand, solver, home, thing, how)
    hand = hand.turned(yaw, thing.at_m)
    q = _followed(hand, solver, home, how)
    miss = float(np.median(np.linalg.norm(solver.poses(q)[0] - hand.pinch, axis=1)))
    if miss > how.within_m:
        raise TaskError(
            f"{track.source}: the arm's tip follows the hand within {miss:.3f} m (median) wherever it is turned; "
            f"{how.within_m:g} m were asked for. It leaves the arm's reach: put the object elsewhere, or track a "
            "smaller motion."
        )
    slowed = _slowness(q, machine, mine, how)
    return _motion((hand, q), machine, thing, (scale, yaw, slowed))


def recording_of(motion: Motion, machine: Machine, source: str, body: str = "") -> Recording:
    """The motion as a recording of one episode: state, command, object_pose, hand (where the tip was wanted)."""
    units = machine.command_units
    joints = tuple(Column(name, unit) for name, unit in zip(machine.joints, units, strict=True))
    place = tuple(Column(name, "m", "world") for name in "xyz")
    turn = tuple(Column(name, "1", "world") for name in ("qw", "qx", "qy", "qz"))
    rows = (
        Signal("state", "joint_position", joints, motion.time_s, motion.joints),
        Signal("command", "joint_command", joints, motion.time_s, motion.command),
        Signal("object_pose", "pose", (*place, *turn), motion.time_s, motion.object_pose),
        Signal("hand", "other", place, motion.time_s, motion.wanted_m),
    )
    labels = {"object": thing_of(machine.scene, body).body, "task": "track"}
    note = (
        f"retargeted: scale {motion.scale:.4f}, turned by {motion.yaw_rad:.3f} rad, {motion.slowed:.2f} times as long, "
        f"median error {np.median(motion.error_m):.4f} m"
    )
    episode = Episode.of({signal.name: signal for signal in rows}, {}, labels=labels, source=source, notes=(note,))
    rig = Rig("retargeted", tuple(Joint(name) for name in machine.joints))
    return Recording(rig, (episode,), {"kind": "retarget", "name": source})


def _smoothed(track: HandTrack, scale: float, how: Retarget, period_s: float) -> _Hand:
    """The track at the robot's ticks, in metres."""
    time_s = np.arange(track.time_s[0], track.time_s[-1], period_s)

    def at_ticks(rows: np.ndarray, over_s: float = how.smooth_s) -> np.ndarray:
        weight = np.exp(-0.5 * ((time_s[:, None] - track.time_s[None]) / over_s) ** 2)
        found: np.ndarray = (weight / weight.sum(axis=1, keepdims=True)) @ rows
        return found

    pose = at_ticks(np.concatenate([track.object_pose[:, :3], _continuous(track.object_pose[:, 3:])], axis=1))
    pose[:, 3:] /= np.linalg.norm(pose[:, 3:], axis=1, keepdims=True)
    origin = np.median(track.object_pose[: max(3, len(track.time_s) // 20), :3], axis=0)
    thumb, index = (at_ticks(track.point(name)) for name in ("thumb_tip", "index_tip"))
    pinch, aperture = scale * ((thumb + index) / 2 - origin), scale * np.linalg.norm(index - thumb, axis=1)
    palm, thumbs, indices = (at_ticks(track.point(name), how.turn_s) for name in NEEDED)
    metric = np.concatenate([scale * (pose[:, :3] - origin), pose[:, 3:]], axis=1)
    return _Hand(time_s - time_s[0], pinch, (thumbs + indices) / 2 - palm, indices - thumbs, aperture, metric)


def _placed(hand: _Hand, solver: ArmKinematics, home: np.ndarray, thing: Thing, how: Retarget) -> float:
    """How far to turn the motion about the object, so that the arm follows it best."""
    some = slice(None, None, max(1, len(hand.time_s) // 16))
    best, chosen = np.inf, 0.0
    for yaw in np.linspace(-np.pi, np.pi, how.yaws, endpoint=False):
        there = hand.turned(float(yaw), thing.at_m)
        turns = tools(there.approach[some], there.across[some])
        q = solver.solved(home, there.pinch[some], turns, how.per_rad_m)
        place, facing, _ = solver.poses(q)
        off_m = np.linalg.norm(place - there.pinch[some], axis=1)
        off_rad = np.arccos(np.clip((facing[:, :, 0] * turns[:, :, 0]).sum(axis=1), -1, 1))
        cost = float(off_m.max() + how.per_rad_m * off_rad.mean() + 1e-3 * np.abs(np.diff(q, axis=0)).sum(axis=1).max())
        if cost < best:
            best, chosen = cost, float(yaw)
    return chosen


def _followed(hand: _Hand, solver: ArmKinematics, home: np.ndarray, how: Retarget) -> np.ndarray:
    """Joints of the arm at every tick, each from the one before, so that they never jump."""
    turns = tools(hand.approach, hand.across)
    q = solver.solved(home, hand.pinch[:1], turns[:1], how.per_rad_m)
    facing = solver.poses(q)[1][:, :, 1]
    if float((facing * turns[:1, :, 1]).sum()) < 0:  # a gripper is the same both ways
        turns = tools(hand.approach, -hand.across)
    found = []
    for k in range(len(turns)):
        q = solver.towards(q, hand.pinch[k : k + 1], turns[k : k + 1], how.per_rad_m, STEPS)
        found.append(q[0])
    return np.array(found)


def _slowness(q: np.ndarray, machine: Machine, mine: list[int], how: Retarget) -> float:
    speed = np.abs(np.diff(q, axis=0)).max(axis=0) * machine.rate_hz
    return float(max(1.0, (speed / (how.fastest * machine.limits.speed[mine])).max()))


def _motion(
    followed: tuple[_Hand, np.ndarray], machine: Machine, thing: Thing, told: tuple[float, float, float]
) -> Motion:
    (hand, q), (scale, yaw, slowed) = followed, told
    count = int(np.ceil((len(q) - 1) * slowed)) + 1
    at = np.minimum(np.arange(count) / slowed, len(q) - 1)  # the tick of the track at each of the robot's

    def stretched(rows: np.ndarray) -> np.ndarray:
        return np.stack([np.interp(at, np.arange(len(rows)), column) for column in rows.T], axis=1)

    arm, mine = machine.arm(), columns(machine, machine.arm())
    joints = np.tile(machine.home, (count, 1))
    joints[:, mine] = stretched(q)
    holding = _holding(hand, thing)
    if arm.fingers:
        fingers = [machine.joints.index(name) for name in arm.fingers]
        wide = widest_m(machine, arm)
        each = hand.aperture / 2
        grip = np.where(holding, np.minimum(each, thing.half_m[:2].min()) - PRESS_M, each)
        low, high = machine.limits.low[fingers], np.minimum(machine.limits.high[fingers], wide)
        joints[:, fingers] = np.clip(stretched(grip[:, None]), low, high)
    pose = stretched(hand.object_pose)
    pose[:, 3:] /= np.linalg.norm(pose[:, 3:], axis=1, keepdims=True)
    tip = kinematics(machine, arm).poses(joints[:, mine])[0]
    command = np.clip(joints + Lead(machine)(joints), machine.limits.low, machine.limits.high)
    shown = np.interp(at, np.arange(len(q)), holding) > 0.5
    time_s = np.arange(count) / machine.rate_hz
    return Motion(time_s, joints, command, tip, stretched(hand.pinch), pose, shown, scale, yaw, slowed)


def _holding(hand: _Hand, thing: Thing) -> np.ndarray:
    """Whether the pinch is at the object and the fingers are about it."""
    w, x, y, z = (hand.object_pose[:, k] for k in range(3, 7))
    turns = np.stack(
        [
            np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)], axis=1),
            np.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)], axis=1),
            np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], axis=1),
        ],
        axis=1,
    )
    own = np.einsum("tij,ti->tj", turns, hand.pinch - hand.object_pose[:, :3]) - thing.middle_m
    inside = (np.abs(own) < thing.half_m + NEAR_M).all(axis=1)
    narrow = 2 * float(thing.half_m[:2].min())
    found: np.ndarray = inside & (hand.aperture < 1.25 * narrow)
    return found


def _continuous(quat: np.ndarray) -> np.ndarray:
    """The same orientations, each on the side of the one before."""
    flips = np.sign((quat[1:] * quat[:-1]).sum(axis=1))
    found: np.ndarray = quat * np.r_[1.0, np.cumprod(np.where(flips == 0, 1.0, flips))][:, None]
    return found


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The quaternion a times each of b (T, 4), wxyz."""
    w, x, y, z = a
    left = np.array([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]])
    found: np.ndarray = b @ left.T
    return found
