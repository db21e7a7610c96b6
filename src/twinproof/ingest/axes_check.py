"""Whether cameras look at their scene: poses written for other axes look away from it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from twinproof.nouns.errors import SplatError
from twinproof.nouns.views import PosedView

ENOUGH_POINTS = 10
TURNED = np.diag([1.0, -1.0, -1.0, 1.0])  # OpenGL's axes seen from OpenCV's, and the other way round
CURES = {
    ("transforms", "turned"): "transform_matrix has OpenGL axes (x right, y up, looking along -z): yours have OpenCV "
    "axes (y down, looking along +z). Negate the second and third column of each.",
    ("transforms", "inverted"): "transform_matrix is camera-to-world: yours are world-to-camera. Invert each.",
    ("colmap", "turned"): "COLMAP's axes are x right, y down, z ahead: yours are OpenGL's. Negate the second and third "
    "row of each rotation and translation.",
    ("colmap", "inverted"): "COLMAP's poses are world-to-camera: yours are camera-to-world. Invert each.",
}  # fmt: skip


def check_axes(folder: Path, kind: str, views: Sequence[PosedView], points: np.ndarray) -> tuple[str, ...]:
    """Notes about where cameras look; an error where other axes would explain that they do not see the scene."""
    if len(points) >= ENOUGH_POINTS:
        return _check_points(folder, kind, views, points)
    centre = _common_centre(views)
    if centre is None:
        return ()
    behind = sum(_front_share(view.T_world_camera, centre[None]) < 0.5 for view in views)
    if 2 * behind <= len(views):
        return ()
    # Cameras whose pictures are upright in a z-up world may well look outwards; turned axes stand on their heads.
    upright = float(np.mean([-view.T_world_camera[2, 1] for view in views]))
    if upright < 0.3:
        raise SplatError(
            f"{folder}: what the cameras look at in common lies behind {behind} of {len(views)} of them. The poses are "
            f"written for other axes. {CURES[kind, 'turned']} Where they do look outwards, add points on the scene "
            "to the model."
        )
    return (
        f"{behind} of {len(views)} cameras look away from their common centre: right for a view from within, and "
        "otherwise a sign of other axes",
    )


def _check_points(folder: Path, kind: str, views: Sequence[PosedView], points: np.ndarray) -> tuple[str, ...]:
    """A point of SfM was seen by two cameras at least, so with the right poses nearly all of them are.

    That most points lie behind a camera tells nothing by itself: a room may be filmed from within.
    """
    given = [view.T_world_camera for view in views]
    seen = _seen_by_two(views, given, points)
    if seen >= 0.5:
        return ()
    behind = sum(_front_share(pose, points) < 0.5 for pose in given)
    others = {"turned": [pose @ TURNED for pose in given], "inverted": [np.linalg.inv(pose) for pose in given]}
    shares = {name: _seen_by_two(views, poses, points) for name, poses in others.items()}
    best = max(shares, key=lambda name: shares[name])
    if shares[best] > seen + 0.25:
        raise SplatError(
            f"{folder}: most points lie behind {behind} of {len(views)} cameras; {seen:.0%} of them fall into two "
            f"pictures, with the poses {best} {shares[best]:.0%} do. The poses are written for other axes. "
            f"{CURES[kind, best]}"
        )
    return (f"only {seen:.0%} of the points fall into two pictures: points and poses may not belong together",)


def _front_share(pose: np.ndarray, points: np.ndarray) -> float:
    return float(((points - pose[:3, 3]) @ pose[:3, 2] > 0).mean())


def _seen_by_two(views: Sequence[PosedView], poses: Sequence[np.ndarray], points: np.ndarray) -> float:
    """The share of points that fall into two pictures or more; distortion is not looked at."""
    times = np.zeros(len(points), int)
    for view, pose in zip(views, poses, strict=True):
        local, lens = (points - pose[:3, 3]) @ pose[:3, :3], view.intrinsics
        depth = np.where(local[:, 2] > 1e-6, local[:, 2], np.inf)
        u, v = lens.fx * local[:, 0] / depth + lens.cx, lens.fy * local[:, 1] / depth + lens.cy
        height, width = view.rgb.shape[:2]
        times += np.isfinite(depth) & (u > -1) & (u < width) & (v > -1) & (v < height)
    return float((times >= 2).mean())


def _common_centre(views: Sequence[PosedView]) -> np.ndarray | None:
    """The point nearest to all optical axes; None where they are too parallel to tell."""
    axes = np.stack([view.T_world_camera[:3, 2] for view in views])
    positions = np.stack([view.T_world_camera[:3, 3] for view in views])
    across = np.eye(3) - axes[:, :, None] * axes[:, None, :]
    total = across.mean(axis=0)
    if np.linalg.eigvalsh(total)[0] < 0.05:
        return None
    centre: np.ndarray = np.linalg.solve(total, np.einsum("nij,nj->i", across, positions) / len(views))
    return centre
