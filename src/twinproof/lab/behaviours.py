"""What operators do at the table with one arm: push, lift, drop, shake, scan. Each fills a planner with commands."""

from __future__ import annotations

import numpy as np

from twinproof.lab.models.arm import FINGER_TRAVEL_M
from twinproof.lab.models.things import OBJECT
from twinproof.lab.motion import Planner, Style, chirp, fourier, tool_pose, up
from twinproof.lab.population import Instance
from twinproof.nouns.errors import SimError

DOWN = np.array([0.0, 0.0, -1.0])
TIP_HALF_M = 0.012  # from the tip's axis to the outside of closed fingers
GRIP_DEPTH_M = 0.034  # how far below an object's top the tip takes it
REACH_M = (0.20, 0.46)


def object_pose(planner: Planner) -> tuple[np.ndarray, float]:
    """Where the operator sees the object, and how it is turned about the vertical."""
    pose = planner.world.qpos[planner.world.joint_slices(OBJECT)[0]]
    w, x, y, z = pose[3:]
    return pose[:3].copy(), float(np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))


def boundary_m(thing: Instance, direction: np.ndarray) -> float:
    """How far the object reaches from its origin along a direction in its own axes."""
    x, y, _ = thing.half_m
    if thing.shape == "can":
        return x
    dx, dy = np.abs(direction[:2]) + 1e-9
    bar = min(x / dx, y / dy)
    if thing.shape == "tee" and direction[1] < 0:
        bar = max(bar, min(y / dx, (2 * x - y) / dy))
    return float(bar)


def push(planner: Planner, thing: Instance, style: Style, rng: np.random.Generator) -> None:
    """Pushes the object over the table to a mark, with closed fingers that point down."""
    centre, yaw = object_pose(planner)
    heading, length = _heading(thing, centre, yaw, rng)
    along = np.array([np.cos(heading), np.sin(heading), 0.0])
    own = np.array([np.cos(heading - yaw), np.sin(heading - yaw), 0.0])
    gap = boundary_m(thing, -own) + TIP_HALF_M
    height = max(0.022, min(0.8 * thing.half_m[2], 0.034))
    turn = (heading + np.pi / 2) % np.pi
    side = np.array([np.cos(turn), np.sin(turn), 0.0])
    planner.goal_m = centre + length * along

    def pose(back: float, up: float) -> np.ndarray:
        at = centre - back * along
        return tool_pose(np.array([at[0], at[1], up]), DOWN, side)

    planner.phase("approach")
    planner.grip("", 0.0, 0.25)
    planner.go({"": pose(gap + 0.035, height + style.clearance_m)}, 0.75, bow_rad=4 * style.bow_m)
    planner.line("", pose(gap + 0.035, height), 0.35)
    planner.wait(style.pause_s)
    planner.phase("push")
    planner.line("", pose(gap - length, height), 0.3 + length / 0.13)
    planner.wait(style.pause_s)
    planner.phase("retreat")
    planner.line("", pose(gap - length + 0.02, height), 0.2)
    planner.line("", pose(gap - length + 0.03, height + style.clearance_m), 0.3)
    planner.phase("home")
    planner.to(planner.home, 0.7)


def _heading(thing: Instance, centre: np.ndarray, yaw: float, rng: np.random.Generator) -> tuple[float, float]:
    """A direction (across a face, for things that have faces) and a length that keep the object in reach."""
    free = thing.shape == "can"
    turns = rng.uniform(-np.pi, np.pi, 16) if free else yaw + np.pi / 2 * rng.permutation(4)
    length = float(rng.uniform(0.07, 0.12))
    for turn in turns:
        along = np.array([np.cos(turn), np.sin(turn)])
        ends = [centre[:2] + length * along, centre[:2] - 0.09 * along]
        if all(REACH_M[0] < np.hypot(*end) < REACH_M[1] and abs(np.arctan2(end[1], end[0])) < 1.2 for end in ends):
            return float(turn), length
    return float(np.arctan2(centre[1], centre[0])), 0.06


def _grasp(planner: Planner, thing: Instance, style: Style) -> tuple[np.ndarray, np.ndarray]:
    """Takes the object from above; gives back where the tip is and the direction of the fingers."""
    centre, yaw = object_pose(planner)
    stem = thing.shape == "tee"  # its bar is blocked by the stem, so the stem is taken
    turn = (yaw if stem else yaw + np.pi / 2) % np.pi  # a gripper is the same when turned by half a turn
    fingers = np.array([np.cos(turn), np.sin(turn), 0.0])
    x, y = centre[:2] - (0.9 * thing.half_m[0] * np.array([-np.sin(yaw), np.cos(yaw)]) if stem else 0.0)
    at = np.array([x, y, max(0.020, 2 * thing.half_m[2] - GRIP_DEPTH_M)])
    above = at + up(0.03 + style.clearance_m)
    planner.phase("approach")
    planner.grip("", FINGER_TRAVEL_M, 0.25)
    planner.go({"": tool_pose(above, DOWN, fingers)}, 0.75, bow_rad=4 * style.bow_m)
    planner.wait(0.1)
    planner.line("", tool_pose(at, DOWN, fingers), 0.45)
    planner.wait(0.12 + style.pause_s)
    planner.phase("grasp")
    planner.grip("", thing.half_m[0 if thing.shape == "can" else 1] - 0.022, 0.35)
    planner.wait(0.12)
    return at, fingers


def lift(planner: Planner, thing: Instance, style: Style, rng: np.random.Generator) -> None:
    """Lifts the object, sways it so that its mass shows in the torques, and puts it back."""
    at, fingers = _grasp(planner, thing, style)
    top = at + up(0.13)
    planner.phase("lift")
    planner.line("", tool_pose(top, DOWN, fingers), 0.55)
    planner.phase("sway")
    rows = np.repeat(planner.now[None], round(1.0 * planner.bench.rate_hz), axis=0)
    time_s = np.arange(len(rows)) / planner.bench.rate_hz
    rows[:, [0, 1, 2, 4]] += (
        chirp(time_s, 0.8, 2.2)[:, None] * np.array([0.16, 0.08, -0.08, 0.12]) * rng.uniform(0.8, 1.1)
    )
    planner.follow(rows)
    planner.wait(0.15)
    planner.phase("lower")
    planner.line("", tool_pose(at + up(0.004), DOWN, fingers), 0.6)
    planner.wait(0.15)
    planner.phase("release")
    planner.grip("", FINGER_TRAVEL_M, 0.3)
    planner.line("", tool_pose(at + up(0.06 + style.clearance_m), DOWN, fingers), 0.5)
    planner.phase("home")
    planner.to(planner.home, 0.7)


def drop(planner: Planner, thing: Instance, style: Style, rng: np.random.Generator) -> None:
    """Lifts the object and lets it fall from a few centimetres."""
    at, fingers = _grasp(planner, thing, style)
    height = float(rng.uniform(0.05, 0.10))
    planner.phase("lift")
    planner.line("", tool_pose(at + up(height), DOWN, fingers), 0.6)
    planner.wait(0.2)
    planner.phase("drop")
    planner.grip("", FINGER_TRAVEL_M, 0.08)
    planner.wait(0.5)
    planner.phase("home")
    planner.line("", tool_pose(at + up(height + 0.07), DOWN, fingers), 0.4)
    planner.to(planner.home, 0.8)


def shake(planner: Planner, arms: int, rng: np.random.Generator, seconds: float = 3.5) -> None:
    """Fourier excitation of all joints in free air, and a chirp of the gripper."""
    time_s = np.arange(round(seconds * planner.bench.rate_hz)) / planner.bench.rate_hz
    scale = np.tile([0.32, 0.22, 0.22, 0.35, 0.30, 0.45, 0.0], arms)
    terms = rng.normal(size=(5, 2, len(scale))) * scale / np.sqrt(5) / np.sqrt(np.arange(1, 6))[:, None, None]
    rows = planner.now + fourier(time_s, terms, 0.35)
    low = np.array([planner.world.joint_range(name)[0] for name in planner.bench.joints]) + 0.05
    high = np.array([planner.world.joint_range(name)[1] for name in planner.bench.joints]) - 0.05
    grippers = np.array([name in planner.bench.grippers for name in planner.bench.joints])
    rows = np.where(grippers, rows, np.clip(rows, low, high))
    rows[:, grippers] = (0.018 + 0.014 * chirp(time_s, 0.4, 1.5))[:, None]
    planner.phase("shake")
    planner.to(rows[0], 0.4)
    planner.follow(rows)
    planner.phase("home")
    planner.to(planner.home, 0.6)


def scan(planner: Planner, prefix: str, centre_m: np.ndarray, style: Style, seconds: float = 6.0) -> None:
    """Carries the wrist camera around the scene, looking at its middle from all sides that the arm reaches."""
    planner.phase("scan")
    planner.grip(prefix, FINGER_TRAVEL_M, 0.3)
    stops: list[np.ndarray] = []
    for height, turns in ((0.13, np.linspace(-1.8, 1.8, 8)), (0.24, np.linspace(1.9, -1.9, 6))):
        for turn in turns:
            stop = _viewpoint(planner, prefix, centre_m, (float(turn), height), stops[-1] if stops else planner.now)
            stops += [] if stop is None else [stop]
    for stop in stops:
        planner.to(stop, seconds / len(stops) * style.speed)
    planner.phase("home")
    planner.to(planner.home, 1.0)


def _viewpoint(
    planner: Planner, prefix: str, centre: np.ndarray, turn_height: tuple[float, float], near: np.ndarray
) -> np.ndarray | None:
    """Joints that bring the hand above one side of the scene, looking at its middle, with the least motion from `near`.

    None where nothing of the kind is in reach.
    """
    turn, height = turn_height
    outward = (centre - planner.base_m(prefix))[:2]
    outward = outward / np.linalg.norm(outward)
    spin = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    for radius in (0.24, 0.19, 0.15, 0.11, 0.07):
        hand = centre + np.array([*(-radius * (spin @ outward)), height])
        look = centre - hand
        side = np.cross(look, [0, 0, 1.0])
        found = []
        for sign in (-1, 1):
            try:
                found.append(
                    planner.reached(
                        prefix, tool_pose(hand + 0.08 * look / np.linalg.norm(look), look, sign * side), near
                    )
                )
            except SimError:  # out of reach this way round
                continue
        if found:
            return min(found, key=lambda joints: float(np.abs(joints - near).max()))
    return None
