"""Rigid poses as 4 × 4 matrices: inverse, small motions, differences, mean and scatter.

A small motion is six numbers, a rotation vector in rad and then a translation in m, both in the pose's own frame:
T · (rotation, translation). Derivatives and covariances of poses are written in these six.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial.transform import Rotation

from twinproof.nouns.errors import RigError

if TYPE_CHECKING:
    from jaxtyping import Float


def checked(poses: Float[np.ndarray, "... 4 4"], what: str) -> Float[np.ndarray, "... 4 4"]:
    """The poses with their rotations made exact; what is no rigid pose is an error that names the first one."""
    array = np.array(poses, float)
    if array.ndim < 2 or array.shape[-2:] != (4, 4):
        raise RigError(f"{what} has the shape {array.shape}; needed are rigid 4 × 4 matrices, one after the other.")
    turn = array[..., :3, :3]
    with np.errstate(invalid="ignore"):
        off = np.abs(turn @ np.swapaxes(turn, -1, -2) - np.eye(3)).max(axis=(-1, -2))
        bad = ~(np.isfinite(array).all(axis=(-1, -2)) & (off < 1e-3) & (np.linalg.det(turn) > 0))
        bad |= ~np.isclose(array[..., 3, :], (0, 0, 0, 1)).all(axis=-1)
    if bad.any():
        raise RigError(
            f"{what}: pose {int(np.flatnonzero(bad.reshape(-1))[0])} is no rigid transform. Needed are finite "
            "matrices whose upper left 3 × 3 is a rotation, not a reflection, and whose last row is 0 0 0 1."
        )
    U, _, Vt = np.linalg.svd(turn)
    array[..., :3, :3] = U @ Vt
    return array


def inverse(T: Float[np.ndarray, "... 4 4"]) -> Float[np.ndarray, "... 4 4"]:
    """The inverse of rigid poses."""
    back = np.zeros_like(T)
    back[..., :3, :3] = np.swapaxes(T[..., :3, :3], -1, -2)
    back[..., :3, 3] = -np.einsum("...ji,...j->...i", T[..., :3, :3], T[..., :3, 3])
    back[..., 3, 3] = 1
    return back


def nudged(T: Float[np.ndarray, "... 4 4"], motion: Float[np.ndarray, "... 6"]) -> Float[np.ndarray, "... 4 4"]:
    """The poses after a small motion in their own frames."""
    step = np.zeros((*motion.shape[:-1], 4, 4))
    step[..., :3, :3] = (
        Rotation.from_rotvec(motion[..., :3].reshape(-1, 3)).as_matrix().reshape(step[..., :3, :3].shape)
    )
    step[..., :3, 3] = motion[..., 3:]
    step[..., 3, 3] = 1
    moved: np.ndarray = T @ step
    return moved


def difference(start: Float[np.ndarray, "... 4 4"], end: Float[np.ndarray, "... 4 4"]) -> Float[np.ndarray, "... 6"]:
    """The motion that `nudged` needs to bring `start` to `end`."""
    between = inverse(start) @ end
    turns = rotation_vectors(between[..., :3, :3])
    return np.concatenate([turns, between[..., :3, 3]], axis=-1)


def rotation_vectors(turns: Float[np.ndarray, "... 3 3"]) -> Float[np.ndarray, "... 3"]:
    """Axis times angle (at most π) of rotation matrices."""
    vectors: np.ndarray = Rotation.from_matrix(turns.reshape(-1, 3, 3)).as_rotvec().reshape(turns.shape[:-1])
    return vectors


def skew(v: Float[np.ndarray, "... 3"]) -> Float[np.ndarray, "... 3 3"]:
    """The matrices whose product with a vector is the cross product."""
    x, y, z = np.moveaxis(np.asarray(v), -1, 0)
    o = np.zeros_like(x)
    return np.stack([np.stack([o, -z, y], -1), np.stack([z, o, -x], -1), np.stack([-y, x, o], -1)], -2)


def mean_pose(poses: Float[np.ndarray, "N 4 4"], weights: Float[np.ndarray, "N"] | None = None) -> np.ndarray:
    """The rotation that is nearest to all, and the mean position."""
    mean = np.eye(4)
    mean[:3, :3] = Rotation.from_matrix(poses[:, :3, :3]).mean(weights).as_matrix()
    mean[:3, 3] = np.average(poses[:, :3, 3], axis=0, weights=weights)
    return mean


@dataclass(frozen=True, eq=False)
class Scatter:
    """How far poses that should be one lie from their mean: root mean squares, and each pose's own distance."""

    deg: float
    mm: float
    each_deg: Float[np.ndarray, "N"]
    each_mm: Float[np.ndarray, "N"]


def scatter(poses: Float[np.ndarray, "N 4 4"], about: Float[np.ndarray, "4 4"] | None = None) -> Scatter:
    """Angle to the mean rotation and distance to the mean position (or to the pose `about`)."""
    centre = mean_pose(poses) if about is None else about
    each_deg = np.degrees(np.linalg.norm(rotation_vectors(centre[:3, :3].T @ poses[:, :3, :3]), axis=-1))
    each_mm = 1e3 * np.linalg.norm(poses[:, :3, 3] - centre[:3, 3], axis=-1)
    return Scatter(float(np.sqrt((each_deg**2).mean())), float(np.sqrt((each_mm**2).mean())), each_deg, each_mm)


def quat_of(T: np.ndarray) -> tuple[float, float, float, float]:
    """The rotation of a pose, w first."""
    from scipy.spatial.transform import Rotation

    x, y, z, w = (float(v) for v in Rotation.from_matrix(T[:3, :3]).as_quat())
    return w, x, y, z
