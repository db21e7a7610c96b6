"""Hand-eye calibration from poses: where a camera sits on the hand, or beside the robot that shows it a board.

eye in hand    T_base_hand[i]  · T_hand_camera · T_camera_board[i] = T_base_board     the board stands, the camera rides
eye to hand    T_base_hand[i]⁻¹ · T_base_camera · T_camera_board[i] = T_hand_board    the camera stands, the board rides

Both are A[i] X B[i] = Z with the camera's pose X in its parent (hand or base) and the board's pose Z in the other one.
The closed forms are Park and Martin's (1994) over all pairs of poses, and Shah's (2013) over single poses. A flat
board's picture may allow two poses: B[i] may be given as several, and those that agree with each other are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import RigError
from twinproof.nouns.randomness import stream
from twinproof.reconstruct.poses import (
    Scatter,
    checked,
    difference,
    inverse,
    mean_pose,
    rotation_vectors,
    scatter,
)

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

FEWEST = 3  # poses; two motions about different axes
SPREAD_DEG = 2.0  # root mean square turn about the second axis; below, the camera's place is not determined
STARTS = 20  # triples that are tried to find poses that agree
ARM_M = 0.1  # a turn of 1 rad counts like a shift of this
CAP = 0.02  # m, with turns at ARM_M: poses farther off are outliers while starts are compared
FAR = 6.0  # times the usual distance: a pose beyond was logged wrongly, or its board misread
CURE = (
    "Record at least 8 poses; between them turn the hand by 20° to 60° about two axes that stand square to each other, "
    "and keep the whole board in the picture."
)


class Setup(StrEnum):
    """Who carries the camera."""

    EYE_IN_HAND = "eye in hand"  # its parent is the hand
    EYE_TO_HAND = "eye to hand"  # its parent is the robot's base


@dataclass(frozen=True, eq=False)
class HandEye:
    """The camera's pose in its parent (hand or base), the board's pose in the other, and how well the poses agree.

    `camera`  scatter of the camera's pose in its parent, as each pose gives it with the board's pose held: this is what
              ViSP prints as "Mean residual rMo" (root mean square angle and distance to the mean).
    `board`   the same of the board's pose, with the camera's pose held.
    `chosen`  which of several poses of the board was taken, for each picture.
    `left_out`  pictures whose poses agree so badly with the others that the closed form did without them. They count in
              the scatter all the same.
    """

    setup: Setup
    T_parent_camera: Float[np.ndarray, "4 4"]
    T_other_board: Float[np.ndarray, "4 4"]
    camera: Scatter
    board: Scatter
    chosen: tuple[int, ...]
    left_out: tuple[int, ...] = ()


def hand_eye(
    setup: Setup,
    T_base_hand: Float[np.ndarray, "N 4 4"],
    T_camera_board: Float[np.ndarray, "N 4 4"] | Sequence[Float[np.ndarray, "C 4 4"]],
) -> HandEye:
    """The closed form. `T_camera_board` holds one pose for each picture, or several of which one is right."""
    hands = checked(T_base_hand, "T_base_hand")
    boards = [checked(one, f"T_camera_board[{i}]").reshape(-1, 4, 4) for i, one in enumerate(T_camera_board)]
    if hands.ndim != 3 or len(hands) != len(boards):
        raise RigError(f"{hands.shape} poses of the hand and {len(boards)} of the board. Give one of each a picture.")
    A = hands if setup is Setup.EYE_IN_HAND else inverse(hands)
    check_motion(A)
    chosen, agree = _chosen(A, boards)
    B = np.stack([one[k] for one, k in zip(boards, chosen, strict=True)])
    return of_poses(setup, hands, B, tuple(int(k) for k in chosen), agree)


def of_poses(
    setup: Setup,
    T_base_hand: np.ndarray,
    T_camera_board: np.ndarray,
    chosen: tuple[int, ...] = (),
    agree: Bool[np.ndarray, "N"] | None = None,
) -> HandEye:
    """The better of the two closed forms for poses that are not ambiguous, judged by the scatter of the board."""
    A = T_base_hand if setup is Setup.EYE_IN_HAND else inverse(T_base_hand)
    agree = np.ones(len(A), bool) if agree is None else agree
    kept, seen = A[agree], T_camera_board[agree]
    X = min((park_martin(kept, seen), shah(kept, seen)[0]), key=lambda X: _cost(kept @ X @ seen))
    found = judged(setup, X, mean_pose(kept @ X @ seen), T_base_hand, T_camera_board)
    return replace(found, chosen=chosen or found.chosen, left_out=tuple(int(i) for i in np.flatnonzero(~agree)))


def judged(setup: Setup, X: np.ndarray, Z: np.ndarray, T_base_hand: np.ndarray, T_camera_board: np.ndarray) -> HandEye:
    """A given answer with its scatter over poses of the board."""
    A = T_base_hand if setup is Setup.EYE_IN_HAND else inverse(T_base_hand)
    cameras, boards = inverse(A) @ Z @ inverse(T_camera_board), A @ X @ T_camera_board
    return HandEye(setup, X, Z, scatter(cameras), scatter(boards), (0,) * len(A))


def park_martin(A: Float[np.ndarray, "N 4 4"], B: Float[np.ndarray, "N 4 4"]) -> Float[np.ndarray, "4 4"]:
    """X of A[i] X B[i] = const, from all pairs of poses: rotation by Procrustes on rotation vectors, then linear."""
    i, j = np.triu_indices(len(A), 1)
    left, right = inverse(A[i]) @ A[j], B[i] @ inverse(B[j])  # left X = X right
    U, _, Vt = np.linalg.svd(rotation_vectors(left[:, :3, :3]).T @ rotation_vectors(right[:, :3, :3]))
    X = np.eye(4)
    X[:3, :3] = U @ np.diag([1, 1, np.linalg.det(U @ Vt)]) @ Vt
    rows = (left[:, :3, :3] - np.eye(3)).reshape(-1, 3)
    X[:3, 3] = np.linalg.lstsq(rows, (right[:, :3, 3] @ X[:3, :3].T - left[:, :3, 3]).reshape(-1), rcond=None)[0]
    return X


def shah(
    A: Float[np.ndarray, "N 4 4"], B: Float[np.ndarray, "N 4 4"]
) -> tuple[Float[np.ndarray, "4 4"], Float[np.ndarray, "4 4"]]:
    """X and Z of A[i] X = Z B[i]⁻¹ (robot-world): rotations from one SVD of Kronecker products, then linear."""
    C = inverse(B)
    K = sum((np.kron(a, c) for a, c in zip(A[:, :3, :3], C[:, :3, :3], strict=True)), np.zeros((9, 9)))
    U, _, Vt = np.linalg.svd(K)
    X, Z = np.eye(4), np.eye(4)
    for pose, column in ((X, Vt[0]), (Z, U[:, 0])):
        turn = column.reshape(3, 3)
        u, _, vt = np.linalg.svd(turn * np.sign(np.linalg.det(turn)))
        pose[:3, :3] = u @ vt
    rows = np.concatenate([A[:, :3, :3], np.broadcast_to(-np.eye(3), (len(A), 3, 3))], axis=-1).reshape(-1, 6)
    both = np.linalg.lstsq(rows, (C[:, :3, 3] @ Z[:3, :3].T - A[:, :3, 3]).reshape(-1), rcond=None)[0]
    X[:3, 3], Z[:3, 3] = both[:3], both[3:]
    return X, Z


def check_motion(A: Float[np.ndarray, "N 4 4"]) -> None:
    """Refuses poses that cannot tell where the camera is: too few, or turned about one axis only."""
    if len(A) < FEWEST:
        raise RigError(f"{len(A)} poses; hand-eye calibration needs {FEWEST} at least. {CURE}")
    i, j = np.triu_indices(len(A), 1)
    turns = rotation_vectors(inverse(A[i])[:, :3, :3] @ A[j][:, :3, :3])
    spread = np.degrees(np.linalg.svd(turns, compute_uv=False) / np.sqrt(len(turns)))
    if spread[0] < SPREAD_DEG:
        raise RigError(
            f"the hand turns by {spread[0]:.2g}° (root mean square) between the {len(A)} poses; {SPREAD_DEG}° at least "
            f"are needed, or the camera's place is not determined. {CURE}"
        )
    if spread[1] < SPREAD_DEG:
        raise RigError(
            f"all turns of the hand are about one axis: {spread[0]:.3g}° about the first, {spread[1]:.2g}° about the "
            f"second (root mean squares over {len(A)} poses); {SPREAD_DEG}° at least are needed, or the camera's place "
            f"along the axis is not determined. {CURE}"
        )


def _chosen(A: np.ndarray, boards: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Of each picture's poses the one that agrees with the others, and whether it agrees well enough to be used.

    Triples vote; then all that agree are solved again until nothing changes.
    """
    rng = stream(0, "hand-eye")
    best, off, least = np.zeros(len(boards), int), np.zeros(len(boards)), np.inf
    for _ in range(STARTS):
        three = rng.choice(len(A), 3, replace=False)
        for answer in product(*(range(len(boards[i])) for i in three)):
            B = np.stack([boards[i][k] for i, k in zip(three, answer, strict=True)])
            X = park_martin(A[three], B)
            picked, squares = _nearest(A, boards, X, mean_pose(A[three] @ X @ B))
            cost = float(np.minimum(squares, CAP**2).sum())
            if cost < least:
                best, off, least = picked, squares, cost
    agree = _agreeing(A, off)
    for _ in range(10):
        B = np.stack([one[k] for one, k in zip(boards, best, strict=True)])[agree]
        X = park_martin(A[agree], B)
        picked, off = _nearest(A, boards, X, mean_pose(A[agree] @ X @ B))
        fresh = _agreeing(A, off)
        if (picked == best).all() and (fresh == agree).all():
            break
        best, agree = picked, fresh
    return best, agree


def _agreeing(A: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """All whose distance is usual; all at all where the usual ones do not determine the camera."""
    agree: np.ndarray = squares <= max(FAR**2 * float(np.median(squares)), 1e-12)
    try:
        check_motion(A[agree])
    except RigError:
        return np.ones(len(A), bool)
    return agree


def _nearest(
    A: np.ndarray, boards: Sequence[np.ndarray], X: np.ndarray, Z: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """For every picture the pose that is nearest to the board's, and the square of how far off it is."""
    width = max(len(one) for one in boards)
    stack = np.stack([np.concatenate([one, np.repeat(one[:1], width - len(one), axis=0)]) for one in boards])
    off = difference(Z, A[:, None] @ X @ stack)
    far = (ARM_M * off[..., :3]) ** 2 + off[..., 3:] ** 2
    squares = far.sum(axis=-1)
    return squares.argmin(axis=1), squares.min(axis=1)


def _cost(Z: np.ndarray) -> float:
    off = difference(mean_pose(Z), Z)
    return float(((ARM_M * off[:, :3]) ** 2 + off[:, 3:] ** 2).sum())
