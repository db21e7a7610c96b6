"""How episodes are played: inverse kinematics, smooth paths, and a planner that turns waypoints into commands.

The planner stands for an operator who sees the real scene: it works with the true kinematics and leads the joints far
enough to make up for gravity, as an operator's eye does. What is recorded is only what was commanded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from twinproof.lab.models.arm import FINGER_TRAVEL_M, Placed
from twinproof.lab.models.text import rotation_vector
from twinproof.lab.population import Instance
from twinproof.nouns.errors import SimError
from twinproof.sim.world import World

if TYPE_CHECKING:
    from jaxtyping import Float

    from twinproof.lab.bench import Bench


@dataclass(frozen=True)
class Style:
    """How an operator works: speed (1 is usual), clearance above the table, sideways bow of long moves, pauses."""

    name: str
    speed: float
    clearance_m: float
    bow_m: float
    pause_s: float


OPERATORS = (
    Style("ada", 1.0, 0.09, 0.0, 0.10),
    Style("bruno", 1.35, 0.06, 0.01, 0.04),
    Style("chen", 0.8, 0.13, -0.03, 0.20),
)


def minimum_jerk(share: np.ndarray) -> np.ndarray:
    """The smooth way from 0 to 1 with no velocity and no acceleration at both ends."""
    s = np.clip(share, 0, 1)
    path: np.ndarray = s**3 * (10 - 15 * s + 6 * s * s)
    return path


def fourier(time_s: np.ndarray, terms: np.ndarray, base_hz: float) -> np.ndarray:
    """A sum of harmonics, (T, J) from terms (K, 2, J), faded in and out over half a second."""
    turn = 2 * np.pi * base_hz * np.arange(1, len(terms) + 1)[:, None] * time_s
    wave = np.einsum("kj,kt->tj", terms[:, 0], np.sin(turn)) + np.einsum("kj,kt->tj", terms[:, 1], np.cos(turn))
    fade = minimum_jerk(time_s / 0.5) * minimum_jerk((time_s[-1] - time_s) / 0.5)
    faded: np.ndarray = wave * fade[:, None]
    return faded


def chirp(time_s: np.ndarray, low_hz: float, high_hz: float) -> np.ndarray:
    """A sine whose frequency rises evenly, faded in and out."""
    span = time_s[-1]
    phase = 2 * np.pi * (low_hz * time_s + (high_hz - low_hz) * time_s**2 / (2 * span))
    wave: np.ndarray = np.sin(phase) * minimum_jerk(time_s / 0.4) * minimum_jerk((span - time_s) / 0.4)
    return wave


def up(metres: float) -> np.ndarray:
    """A step straight up."""
    return np.array([0.0, 0.0, metres])


def tool_pose(position_m: np.ndarray, approach: np.ndarray, fingers: np.ndarray) -> Float[np.ndarray, "4 4"]:
    """T_world_tip of a hand that points along `approach` and opens along `fingers`."""
    x = np.asarray(approach, float) / np.linalg.norm(approach)
    y = np.asarray(fingers, float) - x * (x @ np.asarray(fingers, float))
    y /= np.linalg.norm(y)
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = np.stack([x, y, np.cross(x, y)], axis=1), position_m
    return pose


class Reach:
    """Damped least squares on the joints of one arm."""

    def __init__(self, world: World, arm: Placed, home: np.ndarray) -> None:
        self.world, self.arm, self.home = world, arm, home
        self.q, self.v = world.joint_indices(arm.joints[:-1])
        limits = np.array([world.joint_range(name) for name in arm.joints[:-1]])
        self.low, self.high = limits[:, 0] + 0.02, limits[:, 1] - 0.02

    def solve(self, T_world_tip: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Joint angles that put the tip there, within 0.5 mm and 0.3°, or an error that says how far off it stays."""
        best, best_error = start, np.inf
        for first in (start, *self._starts(T_world_tip)):
            found, error = self._descend(T_world_tip, np.asarray(first, float))
            if error < best_error:
                best, best_error = found, error
            if best_error < 1e-3:
                return best
        x, y, z = T_world_tip[:3, 3]
        raise SimError(
            f"the {self.arm.prefix or 'arm '}tip cannot reach ({x:.3f}, {y:.3f}, {z:.3f}) m in the wanted direction; "
            f"the nearest is {best_error:.4f} away (m, with 0.2 m per rad). Move the object closer."
        )

    def _starts(self, goal: np.ndarray) -> list[np.ndarray]:
        """Home poses that already face the goal, with the hand turned this way and that."""
        x, y = goal[:2, 3] - self.arm.at_m[:2]
        first = self.home.copy()
        first[0] = (np.arctan2(y, x) - self.arm.yaw_rad + np.pi) % (2 * np.pi) - np.pi
        return [
            first + np.array([0, 0, 0, roll, 0, turn])
            for roll in (0.0, 1.2, -1.2)
            for turn in (0.0, 1.3, -1.3, 2.6, -2.6)
        ]

    def _descend(self, goal: np.ndarray, q: np.ndarray, steps: int = 120) -> tuple[np.ndarray, float]:
        error = np.inf
        for _ in range(steps):
            self.world.qpos[self.q] = q
            self.world.kinematics()
            now = self.world.site_pose(self.arm.tip)
            miss = np.concatenate([goal[:3, 3] - now[:3, 3], 0.2 * rotation_vector(goal[:3, :3] @ now[:3, :3].T)])
            error = float(np.linalg.norm(miss))
            if error < 5e-4:
                break
            jacobian = self.world.site_jacobian(self.arm.tip)[:, self.v]
            jacobian[3:] *= 0.2
            step = jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + 1e-4 * np.eye(6), miss)
            q = np.clip(q + np.clip(step, -0.3, 0.3), self.low, self.high)
        return q, error


@dataclass
class Planner:
    """Rows of joint targets at the command rate, in the true joint angles, with the phase that each row belongs to."""

    bench: Bench
    world: World  # a scratch copy of the true one, for kinematics
    speed: float = 1.0
    thing: Instance | None = None  # what lies before the operator
    rows: list[np.ndarray] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)
    goal_m: np.ndarray | None = None  # where the object should end, for the judge
    _phase: str = "home"

    def __post_init__(self) -> None:
        self.home = np.array([self.bench.home[name] for name in self.bench.joints])
        self.now = self.home.copy()
        self._at = {arm.prefix: self.bench.joints.index(arm.joints[0]) for arm in self.bench.arms}
        self._reach = {
            arm.prefix: Reach(self.world, arm, self.home[self._at[arm.prefix] :][:6]) for arm in self.bench.arms
        }

    def base_m(self, prefix: str) -> np.ndarray:
        """Where an arm stands."""
        return np.array(self._reach[prefix].arm.at_m)

    def reached(self, prefix: str, pose: np.ndarray, near: np.ndarray) -> np.ndarray:
        """All joints with one arm's tip at a pose, the search begun at `near`."""
        at, target = self._at[prefix], near.copy()
        target[at : at + 6] = self._reach[prefix].solve(pose, near[at : at + 6])
        return target

    def phase(self, name: str) -> None:
        """The name of what follows."""
        self._phase = name

    def wait(self, seconds: float) -> None:
        """Holds still."""
        for _ in range(self._count(seconds)):
            self._append(self.now)

    def to(self, target: np.ndarray, seconds: float, bow: np.ndarray | None = None) -> None:
        """Moves all joints smoothly to a target; `bow` bends the way there."""
        start, count = self.now.copy(), self._count(seconds / self.speed)
        share = minimum_jerk(np.arange(1, count + 1) / count)[:, None]
        path = start + share * (target - start)
        if bow is not None:
            path = path + 4 * share * (1 - share) * bow
        for row in path:
            self._append(row)

    def go(
        self, poses: Mapping[str, np.ndarray], seconds: float, bow_rad: float = 0.0, homing: str | None = None
    ) -> None:
        """Moves one or both tips to poses, straight in the joints' space; keys are the arms' prefixes.

        The arm `homing` goes home meanwhile.
        """
        target, bow = self.now.copy(), np.zeros_like(self.now)
        if homing is not None:
            at = self._at[homing]
            target[at : at + 7] = self.home[at : at + 7]
        for prefix, pose in poses.items():
            target = self.reached(prefix, pose, target)
            bow[self._at[prefix]] = bow_rad
        self.to(target, seconds, bow)

    def line(self, prefix: str, pose: np.ndarray, seconds: float, via: np.ndarray | None = None) -> None:
        """Moves a tip straight in space at its present orientation's interpolation; `via` bends the path sideways."""
        at, count = self._at[prefix], self._count(seconds / self.speed)
        self.world.qpos[self._reach[prefix].q] = self.now[at : at + 6]
        self.world.kinematics()
        start = self.world.site_pose(self._reach[prefix].arm.tip)
        for share in minimum_jerk(np.arange(1, count + 1) / count):
            step = pose.copy()
            step[:3, 3] = start[:3, 3] + share * (pose[:3, 3] - start[:3, 3])
            if via is not None:
                step[:3, 3] += 4 * share * (1 - share) * via
            row = self.now.copy()
            row[at : at + 6] = self._reach[prefix].solve(step, self.now[at : at + 6])
            self._append(row)

    def grip(self, prefix: str, opening_m: float, seconds: float) -> None:
        """Moves the fingers of one arm; 0 is closed."""
        target = self.now.copy()
        target[self._at[prefix] + 6] = np.clip(opening_m, -0.003, FINGER_TRAVEL_M)
        self.to(target, seconds)

    def follow(self, rows: np.ndarray) -> None:
        """Appends joint targets as they are."""
        for row in rows:
            self._append(row)

    def _count(self, seconds: float) -> int:
        return max(1, round(seconds * self.bench.rate_hz))

    def _append(self, row: np.ndarray) -> None:
        self.now = np.array(row)
        self.rows.append(self.now.copy())
        self.phases.append(self._phase)
