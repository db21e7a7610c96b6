"""Joints for tools: where tips are and how they turn, for N arms at once, and the joints that bring them somewhere."""

from __future__ import annotations

import numpy as np

from twinproof.nouns.theta import Theta
from twinproof.sim.kinematics import Chain
from twinproof.sim.scene import Scene
from twinproof.sim.worlds import Worlds

NOMINAL = Theta()
PER_RAD_M = 0.2  # a radian of a tool's turn weighs like so many metres
DAMPING = 1e-4
MARGIN_RAD = 0.02  # from the ends of the joints' ranges
MOST_RAD = 0.25  # a step
SOLVING_STEPS = 60
REACHED_M = 1e-3


class ArmKinematics:
    """The chain of one arm with its Jacobian. `low` and `high` bound the joints."""

    def __init__(self, chain: Chain, low: np.ndarray, high: np.ndarray) -> None:
        self._chain, self._low, self._high = chain, low + MARGIN_RAD, high - MARGIN_RAD

    def poses(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tip positions (N, 3), rotations (N, 3, 3) and Jacobians (N, 6, n), translation first."""
        chain, count = self._chain, len(q)
        turn, place = np.tile(chain.T_before[0][:3, :3], (count, 1, 1)), np.tile(chain.T_before[0][:3, 3], (count, 1))
        axes, origins = np.empty((count, len(chain.axis), 3)), np.empty((count, len(chain.axis), 3))
        for k, axis in enumerate(chain.axis):
            value = q[:, k] - chain.zero[k]
            axes[:, k], origins[:, k] = turn @ axis, place
            if chain.slides[k]:
                place = place + value[:, None] * axes[:, k]
            else:
                turn = turn @ turned(axis, value)
            place = place + turn @ chain.T_before[k + 1][:3, 3]
            turn = turn @ chain.T_before[k + 1][:3, :3]
        slides = chain.slides[None, :, None]
        along = np.where(slides, axes, np.cross(axes, place[:, None] - origins))
        jacobian = np.concatenate([along, np.where(slides, 0.0, axes)], axis=2).transpose(0, 2, 1)
        return place, turn, jacobian

    def towards(
        self, q: np.ndarray, place_m: np.ndarray, turn: np.ndarray, per_rad_m: float = PER_RAD_M, steps: int = 2
    ) -> np.ndarray:
        """Joints (N, n) that bring the tips nearer to these poses: damped least squares, from where they are.

        A radian of turn weighs like `per_rad_m` metres: with little of it a tip may turn as it likes."""
        for _ in range(steps):
            now, facing, jacobian = self.poses(q)
            miss = np.concatenate(
                [place_m - now, per_rad_m * rotation_vectors(turn @ facing.transpose(0, 2, 1))], axis=1
            )
            jacobian[:, 3:] *= per_rad_m
            square = jacobian @ jacobian.transpose(0, 2, 1) + DAMPING * np.eye(6)
            step = (jacobian.transpose(0, 2, 1) @ np.linalg.solve(square, miss[:, :, None]))[:, :, 0]
            q = np.clip(q + np.clip(step, -MOST_RAD, MOST_RAD), self._low, self._high)
        return q

    def solved(
        self, home: np.ndarray, place_m: np.ndarray, turn: np.ndarray, per_rad_m: float = PER_RAD_M
    ) -> np.ndarray:
        """Joints (N, n) that have the tips at these poses: of the solutions found the one nearest to `home` (n,), so
        that neighbouring poses have neighbouring joints. What is out of reach is come near to."""
        starts = np.stack(_postures(home))
        q = np.repeat(starts[:, None], len(place_m), axis=1).reshape(-1, len(home))
        places, turns = np.tile(place_m, (len(starts), 1)), np.tile(turn, (len(starts), 1, 1))
        q = self.towards(q, places, turns, per_rad_m, SOLVING_STEPS)
        now, facing, _ = self.poses(q)
        off = np.concatenate([places - now, per_rad_m * rotation_vectors(turns @ facing.transpose(0, 2, 1))], axis=1)
        miss_m = np.maximum(np.linalg.norm(off, axis=1), REACHED_M)  # among those that reach, the way decides
        cost = 1e6 * miss_m + np.abs(q - home).sum(axis=1)
        best = cost.reshape(len(starts), -1).argmin(axis=0)
        found: np.ndarray = q.reshape(len(starts), len(place_m), -1)[best, np.arange(len(place_m))]
        return found


def _postures(home: np.ndarray) -> list[np.ndarray]:
    """Where solutions are looked for from: home, with a joint bent the other way, each with the hand turned."""
    bent = [home]
    for k in np.flatnonzero(np.abs(home) > 0.1):
        other = home.copy()
        other[k] = -other[k]
        bent.append(other)
    hand = np.zeros_like(home)
    hand[-1] = np.pi / 2
    return [each + sign * hand for each in bent for sign in (0, 1, -1)]


class Weight:
    """Forces of gravity on the joints of N robots, from the nominal model or one with a Theta's values."""

    def __init__(self, scene: Scene, at: np.ndarray, dof: np.ndarray, theta: Theta = NOMINAL) -> None:
        self._scene, self._at, self._dof, self._theta = scene.leaner(), at, dof, theta
        self._worlds: Worlds | None = None

    def __call__(self, joints: np.ndarray) -> np.ndarray:
        """(N, J) for joint positions (N, J), at rest."""
        if self._worlds is None or self._worlds.count != len(joints):
            self._worlds = Worlds(self._scene, [self._theta] * len(joints))
        self._worlds.qpos[:, self._at] = joints
        self._worlds.refresh()
        return np.array(self._worlds.view("qfrc_bias")[:, self._dof])


def turned(axis: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Rodrigues: rotations (N, 3, 3) about one axis."""
    x, y, z = axis
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    s, c = np.sin(angle)[:, None, None], np.cos(angle)[:, None, None]
    found: np.ndarray = np.eye(3) + s * cross + (1 - c) * (cross @ cross)
    return found


def turned_by(vectors: np.ndarray) -> np.ndarray:
    """Rotations (N, 3, 3) of rotation vectors (N, 3)."""
    angle = np.linalg.norm(vectors, axis=1)
    x, y, z = (vectors / np.maximum(angle, 1e-12)[:, None]).T
    zero = np.zeros_like(x)
    cross = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=1).reshape(-1, 3, 3)
    s, c = np.sin(angle)[:, None, None], np.cos(angle)[:, None, None]
    found: np.ndarray = np.eye(3) + s * cross + (1 - c) * (cross @ cross)
    return found


def rotation_vectors(turns: np.ndarray) -> np.ndarray:
    """The rotation vectors (N, 3) of rotations, up to half a turn."""
    skew = np.stack(
        [turns[:, 2, 1] - turns[:, 1, 2], turns[:, 0, 2] - turns[:, 2, 0], turns[:, 1, 0] - turns[:, 0, 1]], axis=1
    )
    sine = np.linalg.norm(skew, axis=1) / 2
    angle = np.arctan2(sine, (np.trace(turns, axis1=1, axis2=2) - 1) / 2)
    scale = np.where(sine > 1e-9, angle / np.maximum(2 * sine, 1e-12), 0.5)
    found: np.ndarray = skew * scale[:, None]
    return found


def tools(approach: np.ndarray, fingers: np.ndarray) -> np.ndarray:
    """Rotations (N, 3, 3) of hands that point along `approach` (x) and open along `fingers` (y)."""
    x = approach / np.linalg.norm(approach, axis=1)[:, None]
    y = fingers - x * (x * fingers).sum(axis=1)[:, None]
    y = y / np.linalg.norm(y, axis=1)[:, None]
    return np.stack([x, y, np.cross(x, y)], axis=2)
