"""Poses of an object that is followed: small moves of a pose, and what a tracker says about it.

A small move has six numbers: a shift of the object's origin (m) and a turn about it (rad), both in world axes.
Covariances of poses are of such moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import RecordingError
from twinproof.nouns.frozen import frozen_array, settle

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


def turn_matrix(turn: Float[np.ndarray, "... 3"]) -> Float[np.ndarray, "... 3 3"]:
    """Rotation matrices of rotation vectors (Rodrigues)."""
    turn = np.asarray(turn, float)
    angle = np.linalg.norm(turn, axis=-1)[..., None, None]
    K = cross_matrix(turn)
    small = angle < 1e-8
    safe = np.where(small, 1.0, angle)
    first = np.where(small, 1.0, np.sin(safe) / safe)
    second = np.where(small, 0.5, (1 - np.cos(safe)) / safe**2)
    matrix: np.ndarray = np.eye(3) + first * K + second * (K @ K)
    return matrix


def turn_vector(matrix: Float[np.ndarray, "... 3 3"]) -> Float[np.ndarray, "... 3"]:
    """Rotation vectors, at most half a turn long, of rotation matrices."""
    from scipy.spatial.transform import Rotation

    flat = np.asarray(matrix, float).reshape(-1, 3, 3)
    vectors: np.ndarray = Rotation.from_matrix(flat).as_rotvec().reshape(*np.shape(matrix)[:-2], 3)
    return vectors


def cross_matrix(vector: Float[np.ndarray, "... 3"]) -> Float[np.ndarray, "... 3 3"]:
    """The matrix that takes w to vector × w."""
    x, y, z = np.moveaxis(np.asarray(vector, float), -1, 0)
    zero = np.zeros_like(x)
    rows = [np.stack(row, axis=-1) for row in ((zero, -z, y), (z, zero, -x), (-y, x, zero))]
    return np.stack(rows, axis=-2)


def nudged(T: Float[np.ndarray, "... 4 4"], move: Float[np.ndarray, "... 6"]) -> Float[np.ndarray, "... 4 4"]:
    """The pose after a small move."""
    T, move = np.asarray(T, float), np.asarray(move, float)
    shape = np.broadcast_shapes(T.shape[:-2], move.shape[:-1])
    moved: np.ndarray = np.array(np.broadcast_to(T, (*shape, 4, 4)))
    moved[..., :3, 3] += move[..., :3]
    moved[..., :3, :3] = turn_matrix(move[..., 3:]) @ T[..., :3, :3]
    return moved


def move_between(T: Float[np.ndarray, "... 4 4"], there: Float[np.ndarray, "... 4 4"]) -> Float[np.ndarray, "... 6"]:
    """The small move that leads from one pose to another: nudged(T, move) is `there`."""
    T, there = np.asarray(T, float), np.asarray(there, float)
    turn = turn_vector(there[..., :3, :3] @ np.swapaxes(T[..., :3, :3], -1, -2))
    return np.concatenate([there[..., :3, 3] - T[..., :3, 3], turn], axis=-1)


def by_camera(T_world_camera: Float[np.ndarray, "4 4"], origin_m: Float[np.ndarray, "3"]) -> Float[np.ndarray, "6 6"]:
    """How an object at `origin_m` seems to move when its camera does: the move seen = this @ the camera's move.

    The camera's move is one of its own pose (shift, turn about its centre, world axes). What it sees moves the other
    way: origin' = centre + R(-turn)(origin - centre - shift).
    """
    seen = np.zeros((6, 6))
    seen[:3, :3] = -np.eye(3)
    seen[:3, 3:] = cross_matrix(np.asarray(origin_m) - T_world_camera[:3, 3])
    seen[3:, 3:] = -np.eye(3)
    return seen


@dataclass(frozen=True, eq=False)
class Pose:
    """Where an object is at one time, as pictures tell it.

    `covariance` (6 × 6) is of small moves. `seen` is the share of the object that some camera sees, `residual` the
    misfit of its pixels (0 … 1 of full scale), `explained` how much better the pictures are with it than without.
    """

    T_world_object: Float[np.ndarray, "4 4"]
    covariance: Float[np.ndarray, "6 6"]
    seen: float
    residual: float
    explained: float
    lost: bool
    rests: bool = False  # whether the tie to the table was used


@dataclass(frozen=True, eq=False)
class Track:
    """Poses over time, each from its own pictures: nothing is smoothed."""

    time_s: Float[np.ndarray, "T"]
    T_world_object: Float[np.ndarray, "T 4 4"]
    covariance: Float[np.ndarray, "T 6 6"]
    seen: Float[np.ndarray, "T"]
    residual: Float[np.ndarray, "T"]
    lost: Bool[np.ndarray, "T"]

    def __post_init__(self) -> None:
        count = len(self.time_s)
        shapes = {"time_s": (), "T_world_object": (4, 4), "covariance": (6, 6), "seen": (), "residual": (), "lost": ()}
        for name, shape in shapes.items():
            array = frozen_array(getattr(self, name), np.bool_ if name == "lost" else np.float64)
            if array.shape != (count, *shape) or not np.isfinite(array).all():
                raise RecordingError(
                    f"track: {name} has the shape {array.shape}; needed is {(count, *shape)}, all finite."
                )
            settle(self, **{name: array})

    def __len__(self) -> int:
        return len(self.time_s)

    @property
    def sd_m(self) -> Float[np.ndarray, "T"]:
        """Standard error of the position: the root of the sum over the axes."""
        return np.asarray(np.sqrt(np.trace(self.covariance[:, :3, :3], axis1=1, axis2=2)))

    @property
    def sd_rad(self) -> Float[np.ndarray, "T"]:
        """Standard error of the turn."""
        return np.asarray(np.sqrt(np.trace(self.covariance[:, 3:, 3:], axis1=1, axis2=2)))


def poses_at(track: Track, time_s: Float[np.ndarray, "K"]) -> Float[np.ndarray, "K 4 4"]:
    """Poses between those that were found, on the shortest way; before the first and after the last they stay."""
    good = np.flatnonzero(~track.lost)
    if not len(good):
        raise RecordingError(
            f"track: the object is lost at all of its {len(track)} times, so it has no pose. Track it again."
        )
    known, poses = track.time_s[good], track.T_world_object[good]
    after = np.clip(np.searchsorted(known, time_s), 1, max(len(known) - 1, 1))
    if len(known) == 1:
        return np.tile(poses[0], (len(time_s), 1, 1))
    share = np.clip((time_s - known[after - 1]) / (known[after] - known[after - 1]), 0, 1)
    return nudged(poses[after - 1], share[:, None] * move_between(poses[after - 1], poses[after]))


def tracked(time_s: np.ndarray, poses: list[Pose]) -> Track:
    """The track of poses at these times."""
    return Track(
        time_s,
        np.stack([pose.T_world_object for pose in poses]),
        np.stack([pose.covariance for pose in poses]),
        np.array([pose.seen for pose in poses]),
        np.array([pose.residual for pose in poses]),
        np.array([pose.lost for pose in poses]),
    )
