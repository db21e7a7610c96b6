"""Planted hand-eye scenes: a robot that shows a board to a camera, with and without errors of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from twinproof.nouns.randomness import stream
from twinproof.nouns.rig import Intrinsics
from twinproof.reconstruct.hand_eye import Setup
from twinproof.reconstruct.plane_pose import Sight, project
from twinproof.reconstruct.poses import inverse, nudged

LENS = Intrinsics(600.0, 602.0, 320.0, 240.0)
TAG = np.array([(-0.03, 0.03, 0.0), (0.03, 0.03, 0.0), (0.03, -0.03, 0.0), (-0.03, -0.03, 0.0)])
# The 6 × 6 cells of AprilTag 36h11 number 10, 1 is white.
TAG_10 = np.array([[0, 0, 1, 1, 0, 1], [0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 1, 0],
                   [0, 1, 0, 0, 0, 1], [1, 0, 1, 1, 1, 0], [0, 0, 0, 1, 1, 0]])  # fmt: skip


def pose(rotation_deg: tuple[float, float, float], position: tuple[float, float, float]) -> np.ndarray:
    """A pose from xyz Euler angles."""
    T = np.eye(4)
    T[:3, :3] = Rotation.from_euler("xyz", rotation_deg, degrees=True).as_matrix()
    T[:3, 3] = position
    return T


@dataclass(frozen=True, eq=False)
class Scene:
    """Truth (X, Z), what the robot logged, and what the camera saw."""

    setup: Setup
    X: np.ndarray
    Z: np.ndarray
    logged: np.ndarray
    boards: np.ndarray  # T_camera_board, true
    sights: list[Sight]


def scene(
    setup: Setup = Setup.EYE_TO_HAND,
    count: int = 10,
    seed: int = 0,
    px: float = 0.0,
    turn_deg: float = 0.0,
    shift_mm: float = 0.0,
    lens: Intrinsics = LENS,
    points: np.ndarray = TAG,
    distance: float = 0.35,
) -> Scene:
    """Poses that turn the board by up to 35° in front of the camera; noise as named (a component's deviation)."""
    rng = stream(seed, "boards")
    X = pose((-100, 3, 92), (0.9, -0.05, 0.5)) if setup is Setup.EYE_TO_HAND else pose((2, -3, 40), (0.05, 0.01, 0.06))
    Z = pose((10, 80, 20), (0.02, 0.01, 0.08)) if setup is Setup.EYE_TO_HAND else pose((178, 4, 30), (0.5, 0.1, 0.02))
    boards = np.stack(
        [
            pose((*rng.uniform(-35, 35, 2), rng.uniform(-90, 90)), (*rng.uniform(-0.05, 0.05, 2), distance))
            for _ in range(count)
        ]
    )
    true = X @ boards @ inverse(Z) if setup is Setup.EYE_TO_HAND else Z @ inverse(X @ boards)
    noise = np.concatenate(
        [np.radians(turn_deg) * rng.normal(size=(count, 3)), shift_mm / 1e3 * rng.normal(size=(count, 3))], 1
    )
    sights = []
    for i, board in enumerate(boards):
        pixels = project(lens, points @ board[:3, :3].T + board[:3, 3])[0]
        sights.append(Sight(f"picture {i}", points, pixels + px * rng.normal(size=pixels.shape)))
    return Scene(setup, X, Z, nudged(true, noise), boards, sights)


def drawn_tag(board: np.ndarray, lens: Intrinsics, size_m: float, shape: tuple[int, int] = (480, 640)) -> np.ndarray:
    """A picture of tag 10 on grey, each pixel the mean of 5 × 5 samples."""
    cells = np.zeros((10, 10))
    cells[[0, -1]] = cells[:, [0, -1]] = 1
    cells[2:8, 2:8] = TAG_10
    fine = (np.arange(5) - 2) / 5
    total = np.zeros(shape)
    v, u = np.mgrid[: shape[0], : shape[1]].astype(float)
    from twinproof.reconstruct.plane_pose import rays

    H = np.linalg.inv(board[:3, [0, 1, 3]])
    for du in fine:
        for dv in fine:
            xy = rays(lens, np.stack([u.reshape(-1) + du, v.reshape(-1) + dv], axis=1))
            x, y, w = H @ np.concatenate([xy.T, np.ones((1, len(xy)))])
            column, row = (np.floor(a / w / size_m * 8 + 5).astype(int) for a in (x, y))
            inside = (column >= 0) & (column < 10) & (row >= 0) & (row < 10)
            total += np.where(inside, 30 + 200 * cells[row.clip(0, 9), column.clip(0, 9)], 150).reshape(shape)
    return np.round(total / 25).astype(np.uint8)
