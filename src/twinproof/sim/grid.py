"""A dense grid of voxels and a signed distance on it: where marching cubes finds a surface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import MeshError
from twinproof.nouns.frozen import frozen_array, settle

if TYPE_CHECKING:
    from jaxtyping import Float

MOST_VOXELS = 400_000_000


@dataclass(frozen=True, eq=False)
class Grid:
    """Voxel centres at origin + voxel_m · (i, j, k), in the world's axes."""

    origin: Float[np.ndarray, "3"]
    voxel_m: float
    shape: tuple[int, int, int]

    def __post_init__(self) -> None:
        origin = frozen_array(self.origin)
        if origin.shape != (3,) or not np.isfinite(origin).all() or not 0 < self.voxel_m < np.inf:
            raise MeshError(f"grid: origin {origin.tolist()} and voxels of {self.voxel_m} m. Give finite metres.")
        count = int(np.prod([int(n) for n in self.shape], dtype=object))
        if len(self.shape) != 3 or min(self.shape) < 2 or count > MOST_VOXELS:
            raise MeshError(
                f"grid: {' × '.join(map(str, self.shape))} voxels of {1000 * self.voxel_m:.3g} mm; from 2 each way to "
                f"{MOST_VOXELS:,} in all are possible. Choose a tighter box or larger voxels."
            )
        settle(self, origin=origin, shape=tuple(int(n) for n in self.shape))

    @classmethod
    def over(cls, low: Float[np.ndarray, "3"], high: Float[np.ndarray, "3"], voxel_m: float) -> Grid:
        """The grid that covers a box."""
        low, high = np.asarray(low, float), np.asarray(high, float)
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all() and voxel_m > 0):
            raise MeshError(f"grid: the box from {low.tolist()} to {high.tolist()} m is empty. Give its two corners.")
        count = np.minimum(np.ceil((high - low) / voxel_m), 1e9).astype(int) + 1
        return cls(low, voxel_m, (int(count[0]), int(count[1]), int(count[2])))

    @property
    def high(self) -> Float[np.ndarray, "3"]:
        """The last voxel's centre."""
        return np.asarray(self.origin + self.voxel_m * (np.array(self.shape) - 1))

    def points(self) -> Float[np.ndarray, "X Y Z 3"]:
        """All centres, for small grids and references."""
        axes = (o + self.voxel_m * np.arange(n) for o, n in zip(self.origin, self.shape, strict=True))
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)


@dataclass(frozen=True)
class Plane:
    """Points with normal · x = offset_m; the normal has unit length and points to the side that is free."""

    normal: tuple[float, float, float] = (0.0, 0.0, 1.0)
    offset_m: float = 0.0

    def __post_init__(self) -> None:
        if abs(float(np.linalg.norm(self.normal)) - 1) > 1e-6 or not np.isfinite(self.offset_m):
            raise MeshError(f"plane: the normal {self.normal} has not the length 1, or the offset is not finite.")

    def above(self, points: Float[np.ndarray, "... 3"]) -> Float[np.ndarray, "..."]:
        """Signed distance of points, m: above 0 on the free side."""
        return np.asarray(points @ np.array(self.normal) - self.offset_m)


@dataclass(frozen=True, eq=False)
class Field:
    """Signed distance in metres on a grid: below 0 inside."""

    grid: Grid
    distance_m: Float[np.ndarray, "X Y Z"]

    def __post_init__(self) -> None:
        if self.distance_m.shape != self.grid.shape:
            raise MeshError(f"field: {self.distance_m.shape} distances on a grid of {self.grid.shape}. Give one each.")

    def at(self, points: Float[np.ndarray, "N 3"]) -> Float[np.ndarray, "N"]:
        """Distances at points, between voxels linear; beyond the grid the nearest border's."""
        place = (np.asarray(points, float) - self.grid.origin) / self.grid.voxel_m
        top = np.array(self.grid.shape) - 1
        place = np.clip(place, 0, top)
        low = np.minimum(place.astype(int), top - 1)
        share = place - low
        total = np.zeros(len(place))
        for corner in np.ndindex(2, 2, 2):
            weight = np.prod(np.where(corner, share, 1 - share), axis=1)
            i, j, k = (low + np.array(corner)).T
            total += weight * self.distance_m[i, j, k]
        return total
