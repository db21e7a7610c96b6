"""The pose of a flat board from its points in one picture: both answers, where a flat board allows two.

A flat board seen from afar looks nearly the same when it is tilted the other way. Each picture so has one or two poses
that fit; which one is meant is decided where several pictures meet (hand_eye).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial.transform import Rotation

from twinproof.nouns.errors import RigError
from twinproof.nouns.frozen import frozen_array, settle
from twinproof.nouns.rig import Intrinsics
from twinproof.reconstruct.poses import difference, nudged, skew
from twinproof.sim.render_camera import distort

if TYPE_CHECKING:
    from jaxtyping import Float

SAME_RAD = np.radians(0.3)  # two answers nearer than this are one
STEP = 1e-6  # of a ray, for the derivative of the distortion


@dataclass(frozen=True, eq=False)
class Sight:
    """A board in one picture: its points in its own frame (m, flat: z = 0) and where they appear (px)."""

    name: str
    points: Float[np.ndarray, "P 3"]
    pixels: Float[np.ndarray, "P 2"]

    def __post_init__(self) -> None:
        points, pixels = frozen_array(self.points), frozen_array(self.pixels)
        if points.ndim != 2 or points.shape[1:] != (3,) or pixels.shape != (len(points), 2) or len(points) < 4:
            raise RigError(
                f"{self.name}: {points.shape} points at {pixels.shape} pixels; needed are (P, 3) and (P, 2) with at "
                "least 4 points."
            )
        if not (np.isfinite(points).all() and np.isfinite(pixels).all()):
            raise RigError(f"{self.name}: points or pixels are not finite. Leave out what was not seen.")
        flat = points[:, :2] - points[:, :2].mean(axis=0)
        wide = np.linalg.svd(flat, compute_uv=False)
        if np.abs(points[:, 2]).max() > 1e-9 or wide[1] < 1e-3 * wide[0]:
            raise RigError(f"{self.name}: the board's points must lie in its plane z = 0, and not on one line.")
        settle(self, points=points, pixels=pixels)


def project(lens: Intrinsics, p_camera: Float[np.ndarray, "... 3"]) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (..., 2) of points ahead of the camera, and how they move with the points (..., 2, 3)."""
    z = p_camera[..., 2:]
    xy = p_camera[..., :2] / z
    bent, bend = xy, np.broadcast_to(np.eye(2), (*xy.shape, 2))
    if any(lens.distortion):
        bent = distort(xy, lens.distortion)
        columns = [
            (distort(xy + h, lens.distortion) - distort(xy - h, lens.distortion)) / (2 * STEP) for h in STEP * np.eye(2)
        ]
        bend = np.stack(columns, axis=-1)
    focal = np.array([lens.fx, lens.fy])
    by_point = np.concatenate([np.broadcast_to(np.eye(2), (*xy.shape, 2)), -xy[..., None]], axis=-1) / z[..., None]
    return bent * focal + (lens.cx, lens.cy), focal[:, None] * (bend @ by_point)


def rays(lens: Intrinsics, pixels: Float[np.ndarray, "P 2"]) -> Float[np.ndarray, "P 2"]:
    """The (x, y) of each pixel's ray (x, y, 1), distortion undone."""
    seen: np.ndarray = (np.asarray(pixels, float) - (lens.cx, lens.cy)) / (lens.fx, lens.fy)
    xy = seen
    for _ in range(50 if any(lens.distortion) else 0):
        miss = distort(xy, lens.distortion) - seen
        xy = xy - miss
        if np.abs(miss).max() < 1e-11:
            break
    return xy


@dataclass(frozen=True, eq=False)
class PlanePose:
    """One pose that explains a picture: T_camera_board, and the root mean square distance of the points in px."""

    T_camera_board: Float[np.ndarray, "4 4"]
    px: float


def plane_poses(sight: Sight, lens: Intrinsics) -> tuple[PlanePose, ...]:
    """One or two poses of the board, the better-fitting first; each is a minimum of the distance in the picture."""
    first = _fitted(_from_homography(sight, lens), sight, lens)
    found = [first] + [_fitted(start, sight, lens) for start in _tilted(first.T_camera_board, sight)]
    answers = list[PlanePose]()
    for one in sorted(found, key=lambda pose: pose.px):
        near = [np.linalg.norm(difference(one.T_camera_board, kept.T_camera_board)[:3]) < SAME_RAD for kept in answers]
        if not any(near):
            answers.append(one)
    return tuple(answers[:2])


def _from_homography(sight: Sight, lens: Intrinsics) -> np.ndarray:
    xy, uv = sight.points[:, :2], rays(lens, sight.pixels)
    size, one = np.abs(xy - xy.mean(axis=0)).max(), np.ones((len(xy), 1))
    plane = np.concatenate([(xy - xy.mean(axis=0)) / size, one], axis=1)
    zero = np.zeros_like(plane)
    rows = np.concatenate(
        [
            np.concatenate([plane, zero, -uv[:, :1] * plane], axis=1),
            np.concatenate([zero, plane, -uv[:, 1:] * plane], axis=1),
        ]
    )
    H = np.linalg.svd(rows)[2][-1].reshape(3, 3)
    H = H / (np.linalg.norm(H[:, :2], axis=0).mean() / size)
    H = H if H[2, 2] > 0 else -H
    U, _, Vt = np.linalg.svd(np.stack([H[:, 0], H[:, 1], np.cross(H[:, 0], H[:, 1]) / size], axis=1) / size)
    pose = np.eye(4)
    pose[:3, :3] = U @ np.diag([1, 1, np.linalg.det(U @ Vt)]) @ Vt
    pose[:3, 3] = H[:, 2] - pose[:3, :2] @ xy.mean(axis=0)
    return pose


def _tilted(pose: np.ndarray, sight: Sight) -> list[np.ndarray]:
    """Starts for the other answer: the board's normal mirrored at the line of sight through the board's middle."""
    middle_board = sight.points.mean(axis=0)
    middle = pose[:3, :3] @ middle_board + pose[:3, 3]
    ahead, normal = middle / np.linalg.norm(middle), pose[:3, 2]
    mirrored = 2 * (normal @ ahead) * ahead - normal
    axis = np.cross(normal, mirrored)
    length = np.linalg.norm(axis)
    if length < 1e-6:  # seen head on: tilt a little about both axes of the board, the fit decides
        turns = [Rotation.from_rotvec(0.1 * pose[:3, k]).as_matrix() for k in (0, 1)]
    else:
        turns = [Rotation.from_rotvec(axis / length * np.arctan2(length, normal @ mirrored)).as_matrix()]
    starts = []
    for turn in turns:
        start = np.eye(4)
        start[:3, :3] = turn @ pose[:3, :3]
        start[:3, 3] = middle - start[:3, :3] @ middle_board
        starts.append(start)
    return starts


def _fitted(pose: np.ndarray, sight: Sight, lens: Intrinsics) -> PlanePose:
    """Levenberg and Marquardt on the six numbers of the pose."""
    damping, gap, slope = 1e-3, *_gap(pose, sight, lens)
    for _ in range(60):
        H, g = slope.T @ slope, slope.T @ gap
        step = -np.linalg.solve(H + damping * np.diag(np.diag(H)), g)
        trial = nudged(pose, step)
        new_gap, new_slope = _gap(trial, sight, lens)
        if new_gap @ new_gap <= gap @ gap:
            gained = 1 - (new_gap @ new_gap) / max(gap @ gap, 1e-300)
            pose, gap, slope, damping = trial, new_gap, new_slope, damping / 5
            if gained < 1e-10:
                break
        else:
            damping *= 5
            if damping > 1e8:
                break
    return PlanePose(pose, float(np.sqrt((gap**2).sum() / len(sight.points))))


def _gap(pose: np.ndarray, sight: Sight, lens: Intrinsics) -> tuple[np.ndarray, np.ndarray]:
    p_camera = sight.points @ pose[:3, :3].T + pose[:3, 3]
    if p_camera[:, 2].min() <= 1e-6:  # behind the camera: as bad as can be, and no way to go
        return np.full(2 * len(p_camera), 1e6), np.ones((2 * len(p_camera), 6))
    pixels, by_point = project(lens, p_camera)
    by_pose = np.concatenate(
        [-pose[:3, :3] @ skew(sight.points), np.broadcast_to(pose[:3, :3], (len(p_camera), 3, 3))], -1
    )
    return (pixels - sight.pixels).reshape(-1), (by_point @ by_pose).reshape(-1, 6)
