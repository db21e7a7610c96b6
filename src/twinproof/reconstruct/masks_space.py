"""Where pixels and points meet: a table's plane, rays, projections, and a block of voxels around an object."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.clip import Clip
from twinproof.sim.grid import Plane
from twinproof.sim.render_camera import Lens, distort, pixel_rays

if TYPE_CHECKING:
    from jaxtyping import Float, Int


def lens_of(clip: Clip) -> Lens:
    """The lens of a clip's pictures."""
    at = clip.intrinsics
    return Lens(*clip.size, at.fx, at.fy, at.cx, at.cy, at.distortion)


def project(clip: Clip, frame: int, points: Float[np.ndarray, "N 3"]) -> Float[np.ndarray, "N 3"]:
    """Pixel x, y and depth in metres of world points; x and y are NaN behind the camera."""
    pose, at = clip.T_world_camera[frame], clip.intrinsics
    local = (points - pose[:3, 3]) @ pose[:3, :3]
    z = np.where(local[:, 2] > 1e-6, local[:, 2], np.nan)
    xy = local[:, :2] / z[:, None]
    if any(at.distortion):
        xy = distort(xy, at.distortion)
    return np.column_stack([xy * (at.fx, at.fy) + (at.cx, at.cy), local[:, 2]])


def rays(clip: Clip, frame: int, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the camera is, and the direction of depth 1 through each (whole) pixel, in the world."""
    pose = clip.T_world_camera[frame]
    grid = pixel_rays(lens_of(clip))
    width, height = clip.size
    xy = grid[np.clip(y, 0, height - 1), np.clip(x, 0, width - 1)]
    return pose[:3, 3], np.column_stack([xy, np.ones(len(xy))]) @ pose[:3, :3].T


def table_depth(plane: Plane, origin: np.ndarray, along: np.ndarray) -> np.ndarray:
    """The depth at which rays meet the plane; inf where they do not."""
    slope = along @ np.array(plane.normal)
    with np.errstate(divide="ignore", invalid="ignore"):
        depth = -plane.above(origin) / slope
    met: np.ndarray = np.where(np.isfinite(depth) & (depth > 0), depth, np.inf)
    return met


def block(centre: np.ndarray, half_m: float, side: int, table: Plane | None) -> Float[np.ndarray, "V 3"]:
    """Centres of side³ voxels around a point, those below the table left out."""
    line = (np.arange(side) + 0.5) / side * 2 * half_m - half_m
    points: np.ndarray = np.stack(np.meshgrid(line, line, line, indexing="ij"), axis=-1).reshape(-1, 3) + centre
    return points if table is None else points[table.above(points) > -0.25 * half_m / side]


def pixels(clip: Clip, frame: int, points: np.ndarray) -> Int[np.ndarray, "V 2"]:
    """The whole pixel of each point; -1 where it is behind the camera."""
    at = project(clip, frame, points)[:, :2]
    return np.where(np.isfinite(at), np.floor(np.clip(at, -1e6, 1e6) + 0.5), -1).astype(np.int32)


def window(clip: Clip, frame: int, centre: np.ndarray, radius_m: float) -> tuple[slice, slice] | None:
    """Rows and columns that a ball is seen in; None where it is out of sight."""
    x, y, depth = project(clip, frame, centre[None])[0]
    if depth <= radius_m * 0.3:
        return None
    at = clip.intrinsics
    reach = radius_m / max(depth, 1e-6)
    width, height = clip.size
    row0, row1 = int(max(0, np.floor(y - reach * at.fy))), int(min(height, np.ceil(y + reach * at.fy) + 1))
    col0, col1 = int(max(0, np.floor(x - reach * at.fx))), int(min(width, np.ceil(x + reach * at.fx) + 1))
    return (slice(row0, row1), slice(col0, col1)) if row1 - row0 > 2 and col1 - col0 > 2 else None


def nearest(clip: Clip, time_s: float) -> int:
    """The picture taken nearest to a time."""
    after = int(np.clip(np.searchsorted(clip.time_s, time_s), 1, max(len(clip) - 1, 1)))
    if len(clip) == 1:
        return 0
    return after if clip.time_s[after] - time_s < time_s - clip.time_s[after - 1] else after - 1
