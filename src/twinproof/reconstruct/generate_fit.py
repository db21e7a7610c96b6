"""Scale and pose of a generated shape, from points that were seen and from its outlines in several pictures.

A shape of unit size is turned, scaled and moved until points that were measured on the thing lie on it, its own points
fall into the masks, and the masks' borders are reached by it. The 24 turns of a cube are tried, the best few refined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

from twinproof.nouns.errors import ConfigError, TwinError
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.randomness import stream
from twinproof.nouns.rig import Intrinsics
from twinproof.reconstruct.plane_pose import rays
from twinproof.reconstruct.poses import checked
from twinproof.sim.render_camera import distort

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

MOST_POINTS = 250  # seen points that are used
BORDER = 40  # pixels of a mask's border that are used
COARSE, FINE, LAST = 160, 600, 6000  # points on the shape
BEST = 3  # turns that are refined
FEW_PAIRS = 40_000
SOFT = 0.05  # of the thing's size: gaps beyond pull less


@dataclass(frozen=True, eq=False)
class Outline:
    """The thing in one picture: its mask, the lens and the camera's pose."""

    mask: Bool[np.ndarray, "H W"]
    intrinsics: Intrinsics
    T_world_camera: Float[np.ndarray, "4 4"]

    def __post_init__(self) -> None:
        if not np.asarray(self.mask).any():
            raise ConfigError("an outline's mask is empty. Leave out pictures in which the thing is not seen.")
        checked(self.T_world_camera, "an outline's T_world_camera")

    @cached_property
    def outside_px(self) -> Float[np.ndarray, "H W"]:
        """Distance of every pixel to the mask, 0 inside."""
        from scipy.ndimage import distance_transform_edt

        far: np.ndarray = distance_transform_edt(~np.asarray(self.mask, bool))
        return far

    @cached_property
    def border(self) -> Float[np.ndarray, "B 2"]:
        """Some pixels (x, y) on the inner side of the mask's border, away from the picture's edge."""
        from scipy.ndimage import binary_erosion

        mask = np.asarray(self.mask, bool)
        rows, columns = np.nonzero(mask & ~binary_erosion(mask, border_value=1))
        kept = np.linspace(0, len(rows) - 1, min(BORDER, len(rows))).astype(int) if len(rows) else np.zeros(0, int)
        return np.stack([columns[kept], rows[kept]], axis=1).astype(float)

    def seen(self, p_world: Float[np.ndarray, "P 3"]) -> tuple[np.ndarray, np.ndarray]:
        """Pixels (P, 2) and depth of points; those behind the camera are put just before it."""
        lens, pose = self.intrinsics, np.asarray(self.T_world_camera, float)
        p = (p_world - pose[:3, 3]) @ pose[:3, :3]
        depth = np.maximum(p[:, 2], 1e-3)
        xy = p[:, :2] / depth[:, None]
        bent = distort(xy, lens.distortion) if any(lens.distortion) else xy
        return bent * (lens.fx, lens.fy) + (lens.cx, lens.cy), depth


@dataclass(frozen=True, eq=False)
class Similarity:
    """p_world = scale · R p + t. `points_mm` and `outline_px` are root mean square gaps (nan: not used)."""

    scale: float
    T_world_object: Float[np.ndarray, "4 4"]
    points_mm: float
    outline_px: float
    runner_up: float  # cost of the next best turn over that of the best: near 1 where the turn is a guess

    def of(self, mesh: Mesh) -> Mesh:
        """The mesh in the world."""
        return mesh.moved(self.T_world_object, self.scale)


def fit_similarity(
    mesh: Mesh, points: Float[np.ndarray, "P 3"] | None = None, outlines: Sequence[Outline] = (), seed: int = 0
) -> Similarity:
    """The similarity that explains points on the thing and its outlines best."""
    cloud = np.zeros((0, 3)) if points is None else np.asarray(points, float)
    cloud = cloud[np.isfinite(cloud).all(axis=1)]
    if len(cloud) < 10 and len(outlines) < 2:
        raise ConfigError(
            f"{len(cloud)} points and {len(outlines)} outlines: scale and distance cannot be told apart. Give depth "
            "(10 points at least), or outlines from two places."
        )
    rng = stream(seed, "similarity")
    if len(cloud) > MOST_POINTS:
        cloud = cloud[rng.choice(len(cloud), MOST_POINTS, replace=False)]
    centre, size = _start(cloud, outlines)
    problem = _Problem(cloud, tuple(outlines), size)
    tried = []
    few = surface_points(mesh, COARSE, rng)
    for turn in Rotation.create_group("O"):
        x = np.concatenate([turn.as_rotvec(), centre, [np.log(size)]])
        tried.append(problem.solved(few, x, 8))
    tried.sort(key=lambda one: float(one.cost))
    many = surface_points(mesh, FINE, rng)
    best = sorted((problem.solved(many, one.x, 40) for one in tried[:BEST]), key=lambda one: float(one.cost))
    # Few points leave a rim between themselves and the shape's outline, which the scale would fill: so many at the end.
    many = surface_points(mesh, LAST, rng)
    x = problem.solved(many, best[0].x, 15).x
    near, px = problem.gaps_of(many, x)
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = Rotation.from_rotvec(x[:3]).as_matrix(), x[3:6]
    other = [float(one.cost) for one in tried if _apart(one.x, tried[0].x)]
    ratio = other[0] / max(float(tried[0].cost), 1e-12) if other else np.inf
    return Similarity(float(np.exp(x[6])), pose, near, px, ratio)


@dataclass(frozen=True, eq=False)
class _Problem:
    cloud: np.ndarray
    outlines: tuple[Outline, ...]
    size: float

    def solved(self, samples: np.ndarray, start: np.ndarray, most: int) -> Any:
        scale = np.array([0.1, 0.1, 0.1, *[0.1 * self.size] * 3, 0.1])
        return least_squares(
            lambda x: self._gaps(samples, x), start, x_scale=scale, loss="soft_l1", f_scale=SOFT, diff_step=1e-4,
            max_nfev=most,
        )  # fmt: skip

    def _gaps(self, samples: np.ndarray, x: np.ndarray) -> np.ndarray:
        """All gaps as shares of the thing's size, each kind with the same weight whatever its number."""
        placed = np.exp(np.clip(x[6], -15, 8)) * samples @ Rotation.from_rotvec(x[:3]).as_matrix().T + x[3:6]
        parts = []
        if len(self.cloud):
            parts.append(_nearest(placed, self.cloud) / self.size / np.sqrt(len(self.cloud)))
        for outline in self.outlines:
            pixels, depth = outline.seen(placed)
            per_px = float(np.median(depth)) / outline.intrinsics.fx / self.size
            parts.append(_sampled(outline.outside_px, pixels) * per_px / np.sqrt(len(pixels)))
            reach = _nearest(pixels, outline.border)
            parts.append(reach * per_px / np.sqrt(max(1, len(reach))))
        return 10 * np.concatenate(parts)

    def gaps_of(self, samples: np.ndarray, x: np.ndarray) -> tuple[float, float]:
        """Root mean square gap of points in mm, of outlines in px."""
        placed = np.exp(x[6]) * samples @ Rotation.from_rotvec(x[:3]).as_matrix().T + x[3:6]
        near = 1e3 * np.sqrt((_nearest(placed, self.cloud) ** 2).mean()) if len(self.cloud) else np.nan
        far = [_sampled(outline.outside_px, outline.seen(placed)[0]) for outline in self.outlines]
        return float(near), float(np.sqrt((np.concatenate(far) ** 2).mean())) if far else np.nan


def _nearest(points: np.ndarray, of: np.ndarray) -> np.ndarray:
    """Distance of each of `of` to the nearest of the points: all pairs where they are few, else by a tree."""
    from scipy.spatial import KDTree
    from scipy.spatial.distance import cdist

    if len(points) * len(of) < FEW_PAIRS:
        return np.asarray(cdist(of, points).min(axis=1))
    return np.asarray(KDTree(points).query(of)[0])


def _start(cloud: np.ndarray, outlines: Sequence[Outline]) -> tuple[np.ndarray, float]:
    """Where the thing is, and how long its longest side, roughly."""
    if len(cloud) >= 10:
        low, high = np.quantile(cloud, (0.02, 0.98), axis=0)
        centre = (low + high) / 2
        size = float((high - low).max())
    else:
        centre, size = _crossing(outlines), 0.0
    sizes = []
    for outline in outlines:
        rows, columns = np.nonzero(outline.mask)
        depth = float(outline.seen(centre[None].copy())[1][0])
        sizes.append(max(np.ptp(rows) + 1, np.ptp(columns) + 1) * depth / outline.intrinsics.fx)
    return centre, max(size, float(np.median(sizes)) if sizes else 0.0, 1e-3)


def _crossing(outlines: Sequence[Outline]) -> np.ndarray:
    """The point nearest to the rays through the masks' middles."""
    H, b = np.zeros((3, 3)), np.zeros(3)
    for outline in outlines:
        rows, columns = np.nonzero(outline.mask)
        pose = np.asarray(outline.T_world_camera, float)
        xy = rays(outline.intrinsics, np.array([[columns.mean(), rows.mean()]]))[0]
        way = pose[:3, :3] @ np.array([xy[0], xy[1], 1.0])
        way /= np.linalg.norm(way)
        across = np.eye(3) - np.outer(way, way)
        H, b = H + across, b + across @ pose[:3, 3]
    if np.linalg.eigvalsh(H)[0] < 1e-4:
        raise ConfigError(
            "the outlines were taken from one place and direction: scale and distance cannot be told apart. Give "
            "depth, or an outline from another place."
        )
    crossing: np.ndarray = np.linalg.solve(H, b)
    return crossing


def surface_points(mesh: Mesh, count: int, rng: np.random.Generator) -> np.ndarray:
    """Points on the surface, evenly."""
    a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    if area.sum() <= 0:
        raise TwinError("the shape has no area. Refuse it.")
    face = rng.choice(len(area), count, p=area / area.sum())
    u, v = rng.random((2, count))
    flip = u + v > 1
    u[flip], v[flip] = 1 - u[flip], 1 - v[flip]
    points: np.ndarray = a[face] + u[:, None] * (b - a)[face] + v[:, None] * (c - a)[face]
    return points


def _sampled(plane: np.ndarray, pixels: np.ndarray) -> np.ndarray:
    """Bilinear values; outside of the picture that of its edge plus the way there."""
    from scipy.ndimage import map_coordinates

    limit = np.array(plane.shape[::-1]) - 1.0
    held = np.clip(pixels, 0, limit)
    value: np.ndarray = map_coordinates(plane, [held[:, 1], held[:, 0]], order=1, mode="nearest")
    value = value + np.linalg.norm(np.clip(pixels - held, -1e6, 1e6), axis=1)
    return value


def _apart(x: np.ndarray, y: np.ndarray) -> bool:
    turn = Rotation.from_rotvec(x[:3]).inv() * Rotation.from_rotvec(y[:3])
    return bool(turn.magnitude() > np.radians(30))
