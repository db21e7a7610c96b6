"""Hand-eye calibration from pictures: camera, board, lens and the robot's own pose errors fitted to the seen corners.

Unknown are X (camera in its parent), Z (board in the other frame), changes of the lens that the user frees, and one
small motion s[i] for each pose of the hand. A real hand is never quite where its log says (backlash, late stamps);
without s[i] such errors bend the camera. Minimised is

    Σ |pixel gap|² / px²  +  Σ |rotation of s[i]|² / turn²  +  Σ |translation of s[i]|² / shift²  +  prior of the lens

The three noises px, turn and shift are estimated with the rest (expectation–maximisation over the linearised problem,
so what the unknowns swallowed is given back), or given. Corners and poses that lie far out lose weight. The
covariance is the inverse of the weighted Hessian, all other unknowns (the lens and s included) left free, widened where
the noises were estimated from few poses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import RigError
from twinproof.nouns.rig import Intrinsics
from twinproof.reconstruct.hand_eye import HandEye, Setup, hand_eye, judged
from twinproof.reconstruct.plane_pose import PlanePose, Sight, plane_poses, project
from twinproof.reconstruct.poses import checked, difference, inverse, nudged, skew

if TYPE_CHECKING:
    from jaxtyping import Float

FAR_CORNER = 3.0  # standard deviations of a corner's distance beyond which it loses weight
FAR_POSE = 4.1  # the same for the six numbers of a pose: 1 in 100 of honest poses lies beyond
LEAST_PX, LEAST_RAD, LEAST_M = 0.01, 1e-5, 1e-6  # noises below are not believed
LENS = ("focal", "centre x", "centre y", "k1", "k2")
ROUNDS = 60


@dataclass(frozen=True)
class Noise:
    """Standard deviations: of a corner in px, of the robot's pose (a rotation's component in rad, a shift's in m).

    What is None is estimated.
    """

    px: float | None = None
    turn_rad: float | None = None
    shift_m: float | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and not (np.isfinite(value) and value > 0):
                raise RigError(f"noise {name} is {value}; a standard deviation is positive. Write None to estimate it.")


@dataclass(frozen=True)
class LensFreedom:
    """How far the lens may lie from what is given (standard deviations): 0 holds it."""

    focal: float = 0.0  # share of the focal length
    centre_px: float = 0.0
    k1: float = 0.0
    k2: float = 0.0

    @property
    def sd(self) -> Float[np.ndarray, "5"]:
        """In the order of LENS."""
        return np.array([self.focal, self.centre_px, self.centre_px, self.k1, self.k2])


@dataclass(frozen=True, eq=False)
class Calibrated:
    """A calibrated camera. `covariance` is of the small motion of T_parent_camera: rotation (rad), translation (m).

    answer     poses and scatter; the scatter takes each picture's board pose from its own pixels and this lens
    px         root mean square distance of corners with the robot's errors s allowed; `px_robot` without them
    noise      px, turn_rad, shift_m as estimated or given
    robot      s[i]: by how much each pose of the hand is off, rotation (rad) and translation (m) in the hand's frame
    suspects   names of pictures whose pose lies so far out that it lost half its weight
    """

    answer: HandEye
    covariance: Float[np.ndarray, "6 6"]
    lens: Intrinsics
    px: float
    px_robot: float
    noise: Noise
    robot: Float[np.ndarray, "N 6"]
    suspects: tuple[str, ...]

    @property
    def sd_deg(self) -> float:
        """Standard deviation of the camera's direction: root of the summed variances of its rotation."""
        return float(np.degrees(np.sqrt(np.trace(self.covariance[:3, :3]))))

    @property
    def sd_mm(self) -> float:
        """Standard deviation of the camera's place: root of the summed variances."""
        return float(1e3 * np.sqrt(np.trace(self.covariance[3:, 3:])))


def calibrate(
    setup: Setup,
    T_base_hand: Float[np.ndarray, "N 4 4"],
    sights: Sequence[Sight],
    lens: Intrinsics,
    freedom: LensFreedom | None = None,
    noise: Noise | None = None,
) -> Calibrated:
    """Where the camera is, from one sight of the board for each pose of the hand."""
    hands = checked(T_base_hand, "T_base_hand")
    if len(hands) != len(sights):
        raise RigError(f"{len(hands)} poses of the hand and {len(sights)} sights of the board. Give one of each.")
    both = [plane_poses(sight, lens) for sight in sights]
    start = hand_eye(setup, hands, [np.stack([one.T_camera_board for one in few]) for few in both])
    problem = _Problem(setup, hands, tuple(sights), lens, (freedom or LensFreedom()).sd)
    robot = _implied(start, both, hands)
    state = _State(start.T_parent_camera, start.T_other_board, np.zeros(5), robot)
    state, spread, found, weight = _fitted(problem, state, noise or Noise(), _usual(robot))
    final = problem.lens_at(state.lens)
    views = _own_poses(problem, state, final)
    gap = problem.gap(state)[0].reshape(-1, 2)
    stiff = problem.gap(replace(state, robot=np.zeros_like(state.robot)))[0].reshape(-1, 2)
    return Calibrated(
        answer=replace(judged(setup, state.X, state.Z, hands, np.stack(views)), chosen=start.chosen),
        covariance=spread[:6, :6] * _unsure_noise(noise or Noise(), len(hands)),
        lens=final,
        px=float(np.sqrt((gap**2).sum(axis=1).mean())),
        px_robot=float(np.sqrt((stiff**2).sum(axis=1).mean())),
        noise=found,
        robot=state.robot,
        suspects=tuple(sight.name for sight, w in zip(sights, weight, strict=True) if w < 0.5),
    )


@dataclass(frozen=True, eq=False)
class _State:
    X: np.ndarray
    Z: np.ndarray
    lens: np.ndarray  # changes, in the order of LENS
    robot: np.ndarray  # (N, 6)

    def stepped(self, step: np.ndarray) -> _State:
        return _State(
            nudged(self.X, step[:6]),
            nudged(self.Z, step[6:12]),
            self.lens + step[12:17],
            self.robot + step[17:].reshape(-1, 6),
        )


@dataclass(frozen=True, eq=False)
class _Problem:
    setup: Setup
    hands: np.ndarray
    sights: tuple[Sight, ...]
    lens: Intrinsics
    lens_sd: np.ndarray

    @property
    def unknowns(self) -> int:
        return 17 + 6 * len(self.hands)

    @property
    def free(self) -> np.ndarray:
        """Which of the unknowns may move."""
        return np.concatenate([np.ones(12, bool), self.lens_sd > 0, np.ones(6 * len(self.hands), bool)])

    def lens_at(self, change: np.ndarray) -> Intrinsics:
        """The given lens with changes of focal length, centre and first two radial coefficients."""
        old = np.zeros(max(4, len(self.lens.distortion)))
        old[: len(self.lens.distortion)] = self.lens.distortion
        old[:2] += change[3:]
        bent = tuple(float(k) for k in old) if old.any() else self.lens.distortion
        scale = 1 + float(change[0])
        cx, cy = self.lens.cx + float(change[1]), self.lens.cy + float(change[2])
        return Intrinsics(self.lens.fx * scale, self.lens.fy * scale, cx, cy, bent)

    def gap(self, state: _State) -> tuple[np.ndarray, np.ndarray]:
        """Seen minus expected pixels of all corners (negated), and how they move with all unknowns."""
        lens, hands = self.lens_at(state.lens), nudged(self.hands, state.robot)
        at, points, pixels = self.corners
        riding = self.setup is Setup.EYE_TO_HAND
        T_hand_board = np.broadcast_to(state.Z, hands.shape) if riding else inverse(hands) @ state.Z
        T_camera_hand = inverse(state.X) @ (hands if riding else np.broadcast_to(np.eye(4), hands.shape))
        T = (T_camera_hand @ T_hand_board)[at]
        p_hand = _applied(T_hand_board[at], points)
        p = _applied(T, points)
        expected, by_point = project(lens, p)
        slope = np.zeros((len(p), 2, self.unknowns))
        slope[..., 0:3], slope[..., 3:6] = by_point @ skew(p), -by_point
        slope[..., 6:9], slope[..., 9:12] = -by_point @ T[:, :3, :3] @ skew(points), by_point @ T[:, :3, :3]
        slope[..., 12:17] = self._by_lens(state.lens, p)
        by_hand = (1.0 if riding else -1.0) * by_point @ T_camera_hand[at][:, :3, :3]
        by_robot = np.concatenate([-by_hand @ skew(p_hand), by_hand], axis=-1)
        columns = 17 + 6 * at[:, None] + np.arange(6)
        np.put_along_axis(slope, columns[:, None, :].repeat(2, axis=1), by_robot, axis=-1)
        return (expected - pixels).reshape(-1), slope.reshape(-1, self.unknowns)

    @cached_property
    def corners(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All corners in one list: index of the picture, point on the board, pixel."""
        at = np.repeat(np.arange(len(self.sights)), [len(sight.points) for sight in self.sights])
        points = np.concatenate([sight.points for sight in self.sights])
        return at, points, np.concatenate([sight.pixels for sight in self.sights])

    def _by_lens(self, change: np.ndarray, p: np.ndarray) -> np.ndarray:
        slope = np.zeros((len(p), 2, 5))
        for k in np.flatnonzero(self.lens_sd > 0):
            h = 1e-5 * np.eye(5)[k]
            up, down = (project(self.lens_at(change + side * h), p)[0] for side in (1, -1))
            slope[..., k] = (up - down) / 2e-5
        return slope


def _fitted(
    problem: _Problem, state: _State, given: Noise, start: Noise
) -> tuple[_State, np.ndarray, Noise, np.ndarray]:
    """State, covariance of all unknowns, noise, and the weight of each pose."""
    noise = Noise(given.px or 0.3, given.turn_rad or start.turn_rad, given.shift_m or start.shift_m)
    count = len(problem.hands)
    for turn in range(ROUNDS):
        state, spread, weights = _minimum(problem, state, noise, rounds=2)
        gap, slope = problem.gap(state)
        corners, poses = weights
        left = (gap**2 * corners).sum() + np.einsum("ij,jk,ik->", slope * corners[:, None], spread, slope)
        # Weighted squares and what the unknowns' spread adds: the EM step for a variance.
        own = np.diag(spread)[17:].reshape(count, 6) + state.robot**2
        fresh = Noise(
            given.px or max(LEAST_PX, float(np.sqrt(left / len(gap)))),
            given.turn_rad or max(LEAST_RAD, float(np.sqrt((poses[:, None] * own[:, :3]).mean()))),
            given.shift_m or max(LEAST_M, float(np.sqrt((poses[:, None] * own[:, 3:]).mean()))),
        )
        change = max(abs(np.log(float(vars(fresh)[k]) / float(vars(noise)[k]))) for k in vars(noise))
        noise = fresh
        if change < 1e-3 and turn > 1:
            break
    state, spread, (_, poses) = _minimum(problem, state, noise, rounds=20)
    return state, spread, noise, poses


def _unsure_noise(given: Noise, poses: int) -> float:
    """How much wider the covariance is for a noise that was itself estimated, from 3 numbers a pose less 6 unknowns.

    It is the variance of Student's distribution over that of the Gaussian with the same scale.
    """
    if given.turn_rad is not None and given.shift_m is not None:
        return 1.0
    freedom = 3 * poses - 6
    return freedom / (freedom - 2)


def _implied(start: HandEye, both: Sequence[tuple[PlanePose, ...]], hands: np.ndarray) -> np.ndarray:
    """By how much each pose of the hand would have to be off to explain its picture wholly."""
    B = np.stack([few[k].T_camera_board for few, k in zip(both, start.chosen, strict=True)])
    seen = start.T_parent_camera @ B @ inverse(start.T_other_board)
    if start.setup is Setup.EYE_IN_HAND:
        seen = start.T_other_board @ inverse(start.T_parent_camera @ B)
    return difference(hands, seen)


def _usual(robot: np.ndarray) -> Noise:
    """Noise of the hand's poses to begin with, from medians: a pose that is far off must not make all look bad."""
    turn, shift = (1.4826 * float(np.median(np.abs(part))) for part in (robot[:, :3], robot[:, 3:]))
    return Noise(None, max(1e-4, turn), max(1e-5, shift))


def _minimum(
    problem: _Problem, state: _State, noise: Noise, rounds: int
) -> tuple[_State, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Gauss–Newton with weights made anew at every step; the noise is held."""
    assert noise.px is not None, "made whole by the caller"
    assert noise.turn_rad is not None, "made whole by the caller"
    assert noise.shift_m is not None, "made whole by the caller"
    free, count = problem.free, len(problem.hands)
    robot_sd = np.tile([noise.turn_rad] * 3 + [noise.shift_m] * 3, count)
    spread = np.zeros((problem.unknowns, problem.unknowns))
    for _ in range(rounds):
        gap, slope = problem.gap(state)
        corners = _weights(np.linalg.norm(gap.reshape(-1, 2), axis=1) / noise.px, FAR_CORNER).repeat(2)
        far = np.linalg.norm((state.robot.reshape(-1) / robot_sd).reshape(-1, 6), axis=1)
        poses = _weights(far, FAR_POSE)
        prior = np.zeros(problem.unknowns)
        held = problem.lens_sd > 0
        prior[12:17][held] = 1 / problem.lens_sd[held] ** 2
        prior[17:] = poses.repeat(6) / robot_sd**2
        at = np.concatenate([np.zeros(12), state.lens, state.robot.reshape(-1)])
        H = (slope * (corners / noise.px**2)[:, None]).T @ slope + np.diag(prior)
        g = slope.T @ (corners / noise.px**2 * gap) + prior * at
        inside = np.ix_(free, free)
        spread[inside] = np.linalg.inv(H[inside])
        step = -spread @ g
        state = state.stepped(step)
        if np.abs(step).max() < 1e-7:
            break
    return state, spread, (corners, poses)


def _own_poses(problem: _Problem, state: _State, lens: Intrinsics) -> list[np.ndarray]:
    """Each picture's pose of the board from its own pixels alone; of two, the one that the answer expects."""
    A = problem.hands if problem.setup is Setup.EYE_IN_HAND else inverse(problem.hands)
    expected = inverse(A @ state.X) @ state.Z
    own = []
    for sight, pose in zip(problem.sights, expected, strict=True):
        few = [one.T_camera_board for one in plane_poses(sight, lens)]
        own.append(min(few, key=lambda one: float(np.linalg.norm(difference(pose, one)[:3]))))
    return own


def _applied(T: np.ndarray, points: np.ndarray) -> np.ndarray:
    moved: np.ndarray = np.einsum("pij,pj->pi", T[:, :3, :3], points) + T[:, :3, 3]
    return moved


def _weights(far: np.ndarray, beyond: float) -> np.ndarray:
    """1 up to `beyond` standard deviations, then falling with the square: far out, the pull goes to nothing."""
    weights: np.ndarray = np.minimum(1, (beyond / np.maximum(far, 1e-12)) ** 2)
    return weights
