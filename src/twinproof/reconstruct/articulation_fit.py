"""Fits of the three joint models to a track: fixed, slide and hinge, with robust weights and covariances.

A model is a pose P and, in P's frame, a direction (slide) or a line (hinge). For given P and axis the best q[i] of
every frame follows alone, so the search is over P and the axis only: 6, 8 or 10 numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial.transform import Rotation

from twinproof.reconstruct.poses import nudged

if TYPE_CHECKING:
    from jaxtyping import Float

FAR = 4.1  # standard deviations of a frame's six numbers: 1 in 100 of honest frames lies beyond
MOST_STEPS, FIRST_STEPS = 30, 6  # of a search, and of one that only compares starts
STEP = 1e-6
Gaps = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # of the numbers x: whitened gaps (T, 6) and q (T,)
Idle = Callable[[np.ndarray], np.ndarray]
# Numbers x, weights, loss, covariance of x, root mean square gap, gap of each frame.
Found = tuple[np.ndarray, np.ndarray, float, np.ndarray, float, np.ndarray]


@dataclass(frozen=True, eq=False)
class Motion:
    """Poses of a body in its parent's frame, with standard deviations of a component of each."""

    poses: Float[np.ndarray, "T 4 4"]
    turn_sd: Float[np.ndarray, "T"]
    shift_sd: Float[np.ndarray, "T"]

    def __len__(self) -> int:
        return len(self.poses)

    @cached_property
    def turns(self) -> Rotation:
        """The rotations; made once, as every fit asks for them hundreds of times."""
        return Rotation.from_matrix(self.poses[:, :3, :3])

    def seen_from(self, P: Float[np.ndarray, "4 4"]) -> tuple[Rotation, Float[np.ndarray, "T 3"]]:
        """Rotations and positions in the frame of a pose."""
        return Rotation.from_matrix(P[:3, :3]).inv() * self.turns, (self.poses[:, :3, 3] - P[:3, 3]) @ P[:3, :3]

    def whitened(self, turn: np.ndarray, shift: np.ndarray) -> Float[np.ndarray, "T 6"]:
        """Gaps in standard deviations."""
        return np.concatenate([turn / self.turn_sd[:, None], shift / self.shift_sd[:, None]], axis=1)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model at its best. `loss` is twice the negative log-likelihood up to a constant, far frames held down."""

    P: Float[np.ndarray, "4 4"]
    axis: Float[np.ndarray, "3"] | None  # in the parent's frame
    origin: Float[np.ndarray, "3"] | None
    turns: bool
    q: Float[np.ndarray, "T"]
    q_sd: float
    loss: float
    bic: float
    off: float
    weight: Float[np.ndarray, "T"]
    far: Float[np.ndarray, "T"]  # each frame's gap in stated standard deviations
    axis_sd_deg: float
    origin_sd_mm: float

    def pose_at(self, q: float) -> Float[np.ndarray, "4 4"]:
        """The body's pose in the parent's frame for one q."""
        if self.axis is None:
            return self.P
        T = np.eye(4)
        if self.turns:
            assert self.origin is not None, "a hinge has one"
            T[:3, :3] = Rotation.from_rotvec(q * self.axis).as_matrix()
            T[:3, 3] = self.origin - T[:3, :3] @ self.origin
        else:
            T[:3, 3] = q * self.axis
        pose: np.ndarray = T @ self.P
        return pose


def fit_fixed(motion: Motion) -> Fitted:
    """One pose."""
    start = np.eye(4)
    start[:3, :3] = _middle_turn(motion)
    start[:3, 3] = np.median(motion.poses[:, :3, 3], axis=0)

    def gaps(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        turns, away = motion.seen_from(nudged(start, x))
        return motion.whitened(turns.as_rotvec(), away), np.zeros(len(motion))

    x, weight, loss, spread, off, far = _search(motion, gaps, np.zeros(6), None)
    q = np.zeros(len(motion))
    sd = float(1e3 * np.sqrt(np.trace(spread[3:6, 3:6])))
    bic = loss + 6 * np.log(6 * len(motion))
    return Fitted(nudged(start, x), None, None, False, q, 0.0, loss, float(bic), off, weight, far, np.inf, sd)


def fit_slide(motion: Motion) -> Fitted:
    """One pose and a direction."""
    start = np.eye(4)
    start[:3, :3] = _middle_turn(motion)
    start[:3, 3] = np.median(motion.poses[:, :3, 3], axis=0)
    away = (motion.poses[:, :3, 3] - start[:3, 3]) @ start[:3, :3]
    frame = _frame_of(_principal(away / motion.shift_sd[:, None]))

    def gaps(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        turns, away = motion.seen_from(nudged(start, x[:6]))
        axis = frame @ _turned(x[6:8])
        q = away @ axis
        return motion.whitened(turns.as_rotvec(), away - q[:, None] * axis), q

    def idle(x: np.ndarray) -> np.ndarray:
        return np.concatenate([np.zeros(3), frame @ _turned(x[6:8]), np.zeros(2)])

    x, weight, loss, spread, off, far = _search(motion, gaps, np.zeros(8), idle)
    P, axis, q = nudged(start, x[:6]), frame @ _turned(x[6:8]), gaps(x)[1]

    def rest(y: np.ndarray) -> np.ndarray:
        """Where the body was when the track began."""
        T = nudged(start, y[:6])
        place: np.ndarray = T[:3, 3] + q[0] * T[:3, :3] @ frame @ _turned(y[6:8])
        return place

    by, there = _slope(rest, x), P[:3, :3] @ axis
    across = (np.eye(3) - np.outer(there, there)) @ by @ spread @ by.T
    return Fitted(
        P, there, P[:3, 3], False, q, float(np.median(motion.shift_sd)), loss,
        _bic(loss, 8, motion), off, weight, far,
        # The direction turns with P and by its own two numbers.
        _axis_sd(spread, lambda y: nudged(start, y[:6])[:3, :3] @ frame @ _turned(y[6:8]), x),
        float(1e3 * np.sqrt(max(0.0, np.trace(across)))),
    )  # fmt: skip


def fit_hinge(motion: Motion) -> Fitted:
    """One pose and a line; several starts, as a small turn may hide in the rotations' noise."""
    start = np.eye(4)
    start[:3, :3] = _middle_turn(motion)
    start[:3, 3] = np.median(motion.poses[:, :3, 3], axis=0)
    seen, away = motion.seen_from(start)
    turns = seen.as_rotvec()
    flat = np.linalg.svd((away - away.mean(axis=0)) / motion.shift_sd[:, None])[2]
    found = []
    for axis in (_principal(turns / motion.turn_sd[:, None]), flat[2], flat[1]):
        found.append(_hinge_from(motion, start, axis, _pivot(axis, turns, away, motion), FIRST_STEPS))
    best = min(found, key=lambda fit: fit.loss)
    assert best.axis is not None, "a hinge has one"
    assert best.origin is not None, "a hinge has one"
    back = best.P[:3, :3].T
    return _hinge_from(motion, best.P, back @ best.axis, back @ (best.origin - best.P[:3, 3]), MOST_STEPS)


def _hinge_from(motion: Motion, start: np.ndarray, axis: np.ndarray, pivot: np.ndarray, most: int) -> Fitted:
    frame = _frame_of(axis)
    begin = np.concatenate([np.zeros(8), (frame.T @ pivot)[:2]])

    def line(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return frame @ _turned(x[6:8]), frame @ np.array([x[8], x[9], 0.0])

    def gaps(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        direction, point = line(x)
        return _hinge_gaps(*motion.seen_from(nudged(start, x[:6])), direction, point, motion)

    def idle(x: np.ndarray) -> np.ndarray:
        direction, point = line(x)
        return np.concatenate([direction, np.cross(point, direction), np.zeros(4)])

    x, weight, loss, spread, off, far = _search(motion, gaps, begin, idle, most)
    P, direction, q = nudged(start, x[:6]), line(x)[0], gaps(x)[1]

    def origin(y: np.ndarray) -> np.ndarray:
        """The point of the axis nearest to the body's mean place, in the parent's frame."""
        a, c = line(y)
        T = nudged(start, y[:6])
        axis_there, point_there = T[:3, :3] @ a, T[:3, :3] @ c + T[:3, 3]
        nearest: np.ndarray = point_there + axis_there * (axis_there @ (middle - point_there))
        return nearest

    middle = np.average(motion.poses[:, :3, 3], axis=0, weights=weight)
    by = _slope(origin, x)
    there = P[:3, :3] @ direction
    across = np.eye(3) - np.outer(there, there)
    place_sd = np.sqrt(max(0.0, np.trace(across @ by @ spread @ by.T @ across)))
    arm = np.linalg.norm(np.cross(there, middle - origin(x)))
    q_sd = 1 / np.sqrt(1 / np.median(motion.turn_sd) ** 2 + arm**2 / np.median(motion.shift_sd) ** 2)
    return Fitted(
        P, there, origin(x), True, q, float(q_sd), loss, _bic(loss, 10, motion), off, weight, far,
        _axis_sd(spread, lambda y: nudged(start, y[:6])[:3, :3] @ line(y)[0], x), float(1e3 * place_sd),
    )  # fmt: skip


def _hinge_gaps(
    turns: Rotation, away: np.ndarray, axis: np.ndarray, point: np.ndarray, motion: Motion
) -> tuple[np.ndarray, np.ndarray]:
    """Gaps with the best q of every frame, by Newton from the turn about the axis."""
    quats = turns.as_quat()
    q = 2 * np.arctan2(quats[:, :3] @ axis, quats[:, 3])
    q = (q + np.pi) % (2 * np.pi) - np.pi
    by_turn, by_shift = 1 / motion.turn_sd**2, 1 / motion.shift_sd**2
    for _ in range(2):
        back = Rotation.from_rotvec(-q[:, None] * axis)
        arm = back.apply(away - point)
        swing = np.cross(axis, arm)
        push = by_turn * ((back * turns).as_rotvec() @ axis) + by_shift * (swing * (arm + point)).sum(axis=1)
        q = q + push / (by_turn + by_shift * (swing**2).sum(axis=1))
    back = Rotation.from_rotvec(-q[:, None] * axis)
    return motion.whitened((back * turns).as_rotvec(), back.apply(away - point) + point), q


def _search(motion: Motion, gaps: Gaps, x: np.ndarray, idle: Idle | None, most: int = MOST_STEPS) -> Found:
    """Levenberg and Marquardt with weights made anew at every step.

    `idle` is the direction of x that moves q alone: it is held, or nothing could be inverted.
    """
    damping, usual = 1e-3, np.inf
    left, (weight, loss) = gaps(x)[0], (np.ones(len(motion)), np.inf)
    for k in range(most):
        far = np.linalg.norm(left, axis=1)
        # At first only the worst are let go, judged by the usual frame: a bad start must not condemn the good ones.
        usual = min(usual, max(1.0, float(np.median(far)) / 2.3)) if k < most // 2 else 1.0
        weight, loss = _robust(far, FAR * usual)
        H, g = _normal(gaps, x, left, weight, idle)
        while True:
            trial = x - np.linalg.solve(H + damping * np.diag(np.diag(H)), g)
            new = gaps(trial)[0]
            better = loss - _robust(np.linalg.norm(new, axis=1), FAR * usual)[1]
            if better >= 0 or damping > 1e6:
                break
            damping *= 10
        if better < 0:
            break
        x, left, damping = trial, new, max(1e-9, damping / 10)
        if better < 1e-6 * max(loss, 1.0) and usual == 1.0:
            break
    far = np.linalg.norm(left, axis=1)
    weight, loss = _robust(far, FAR)
    free = 6 * len(motion) - len(x) - (len(motion) if idle is not None else 0)
    scale = max(1.0, float((weight[:, None] * left**2).sum()) / max(1, free))
    spread = np.linalg.inv(_normal(gaps, x, left, weight, idle)[0]) * scale * _slowness(left, weight)
    off = float(np.sqrt(np.median(far**2) / 5.35))  # 5.35 is the median of chi² with 6
    return x, weight, loss, spread, off, far


def _robust(far: np.ndarray, beyond: float) -> tuple[np.ndarray, float]:
    """Weights and loss: squares up to `beyond`, then growing with the logarithm."""
    ratio = np.maximum(far, 1e-12) / beyond
    loss = np.where(ratio < 1, far**2, beyond**2 * (1 + 2 * np.log(np.maximum(ratio, 1))))
    return np.minimum(1, ratio**-2.0), float(loss.sum())


def _normal(
    gaps: Gaps, x: np.ndarray, left: np.ndarray, weight: np.ndarray, idle: Idle | None
) -> tuple[np.ndarray, np.ndarray]:
    slope = np.stack([(gaps(x + h)[0] - left) / STEP for h in STEP * np.eye(len(x))], axis=-1)
    H = np.einsum("t,tia,tib->ab", weight, slope, slope)
    if idle is not None:
        way = idle(x)
        H += np.trace(H) * np.outer(way, way) / (way @ way)
    return H + 1e-12 * np.trace(H) * np.eye(len(x)), np.einsum("t,tia,ti->a", weight, slope, left)


def _slowness(left: np.ndarray, weight: np.ndarray) -> float:
    """How many frames count as one: noise that drifts from frame to frame averages out more slowly."""
    kept = left * np.sqrt(weight)[:, None]
    power = (kept**2).sum()
    alike = float((kept[1:] * kept[:-1]).sum() / power) if power > 0 else 0.0
    return (1 + min(0.95, alike)) / (1 - min(0.95, alike)) if alike > 0.1 else 1.0


def _bic(loss: float, numbers: int, motion: Motion) -> float:
    """Every q is a number too; one of them is bound to P."""
    return float(loss + (numbers + len(motion) - 1) * np.log(6 * len(motion)))


def _axis_sd(spread: np.ndarray, axis: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> float:
    by = _slope(axis, x)
    return float(np.degrees(np.sqrt(np.trace(by @ spread @ by.T))))


def _slope(f: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    steps = 1e-6 * np.eye(len(x))
    return np.stack([(f(x + h) - f(x - h)) / 2e-6 for h in steps], axis=-1)


def _middle_turn(motion: Motion) -> np.ndarray:
    """A rotation in the midst of the frames that no outlier moves: the one with the least median distance."""
    few = motion.poses[:: max(1, len(motion) // 40), :3, :3]
    cosine = (np.einsum("aij,bij->ab", few, few) - 1) / 2
    middle: np.ndarray = few[int(np.median(np.arccos(np.clip(cosine, -1, 1)), axis=1).argmin())]
    return middle


def _principal(vectors: np.ndarray) -> np.ndarray:
    """The direction along which vectors spread most, each held to four times the usual length."""
    length = np.linalg.norm(vectors, axis=1)
    held = vectors * np.minimum(1, 4 * np.median(length) / np.maximum(length, 1e-12))[:, None]
    direction: np.ndarray = np.linalg.svd(held - held.mean(axis=0))[2][0]
    return direction


def _frame_of(axis: np.ndarray) -> np.ndarray:
    """A rotation whose third column is the axis."""
    side = np.cross(axis, np.eye(3)[int(np.abs(axis).argmin())])
    side /= np.linalg.norm(side)
    return np.stack([side, np.cross(axis, side), axis], axis=1)


def _turned(tilt: np.ndarray) -> np.ndarray:
    """The z axis tilted by two small numbers."""
    tilted: np.ndarray = Rotation.from_rotvec([tilt[0], tilt[1], 0.0]).as_matrix()[:, 2]
    return tilted


def _pivot(axis: np.ndarray, turns: np.ndarray, away: np.ndarray, motion: Motion) -> np.ndarray:
    """The point that stays: (I − R) c = t in least squares, far ones held down, kept within some metres."""
    R = Rotation.from_rotvec((turns @ axis)[:, None] * axis).as_matrix()
    rows, right = np.eye(3) - R, away
    weight = np.ones(len(away))
    point = np.zeros(3)
    for _ in range(5):
        A = (rows * weight[:, None, None]).reshape(-1, 3)
        b = (right * weight[:, None]).reshape(-1)
        point = np.linalg.solve(A.T @ A + 1e-4 * np.eye(3), A.T @ b)
        far = np.linalg.norm(rows @ point - right, axis=1)
        weight = 1 / np.maximum(1, far / max(1e-9, 2 * float(np.median(far))))
    return point
