"""Depth pictures become one signed distance: a weighted mean of truncated distances on a dense grid.

volume = fuse(grid, maps, truncation_m)       columns of voxels along z, in threads
volume = fuse_plainly(grid, maps, …)          the same in numpy, to be read and to be compared with

A pixel is a small plane, tilted as its neighbours say: a voxel's distance is that to the plane, in front positive, and
counts with the cosine of the tilt. Distances along the ray alone would push surfaces seen at a slant outwards. Far in
front a voxel is free (it counts with the full truncation); behind, a picture counts less and less from half the
truncation on, and then nothing: there other surfaces may be. Where four neighbours belong to one surface depth is read
between pixels, else at the nearest one.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from twinproof.nouns.errors import MeshError
from twinproof.sim.grid import Field, Grid
from twinproof.sim.render_camera import Camera, distort, pixel_rays
from twinproof.sim.splat.engine import blocks, spread
from twinproof.sim.splat.lens import EXACT, bend, is_bent, packed, reach
from twinproof.sim.threads import threads_usable

if TYPE_CHECKING:
    from jaxtyping import Float, UInt8

NEAR_M = 0.01


@dataclass(frozen=True, eq=False)
class DepthMap:
    """Depth along the optical axis (m, 0: not known), where it was taken from, how much it counts, and its colours."""

    depth_m: Float[np.ndarray, "H W"]
    camera: Camera
    weight: Float[np.ndarray, "H W"] | None = None  # confidence: 0 leaves a pixel out
    rgb: UInt8[np.ndarray, "H W 3"] | None = None

    def __post_init__(self) -> None:
        size = (self.camera.lens.height, self.camera.lens.width)
        for name in ("depth_m", "weight", "rgb"):
            plane = getattr(self, name)
            if plane is not None and plane.shape[:2] != size:
                raise MeshError(f"depth map: {name} has the shape {plane.shape}, its lens {size}. Resize one of them.")
        for plane in (self.depth_m, self.weight):
            if plane is not None and not (np.isfinite(plane).all() and (plane >= 0).all()):
                raise MeshError("depth map: values below 0 or not finite. Write 0 where nothing is known.")


@dataclass(frozen=True, eq=False)
class Volume:
    """Truncated distances, how much was seen of each voxel (0: nothing), and colours near surfaces (0 … 1)."""

    grid: Grid
    truncation_m: float
    distance_m: Float[np.ndarray, "X Y Z"]
    weight: Float[np.ndarray, "X Y Z"]
    colour: Float[np.ndarray, "X Y Z 3"] = field(default_factory=lambda: np.zeros((0, 0, 0, 3), np.float32))

    def known(self, unseen_m: float) -> Field:
        """The distances, with those of voxels that nobody saw set to `unseen_m`."""
        return Field(self.grid, np.where(self.weight > 0, self.distance_m, np.float32(unseen_m)))


def fuse(grid: Grid, maps: Iterable[DepthMap], truncation_m: float, *, threads: int = 0) -> Volume:
    """All depth pictures in one field; they may come from a generator. Colours stay if all have them."""
    _check(grid, truncation_m)
    distance, weight = np.full(grid.shape, truncation_m, np.float32), np.zeros(grid.shape, np.float32)
    colour = np.zeros((0, 0, 0, 4), np.float32)  # sums of red, green, blue, and of what they count
    threads = threads or threads_usable()
    slabs = blocks(grid.shape[0], max(1, grid.shape[0] // (8 * threads)))
    # One picture after the other: several in one pass over the grid save memory traffic, and lose more in the cache.
    for number, each in enumerate(maps):
        if number == 0 and each.rgb is not None:
            colour = np.zeros((*grid.shape, 4), np.float32)
        if bool(colour.size) != (each.rgb is not None):
            raise MeshError("depth maps: some have colours and some have none. Give all of them, or leave all away.")
        rgb = np.zeros((0, 0, 3), np.uint8) if each.rgb is None else np.ascontiguousarray(each.rgb)
        pose = np.ascontiguousarray(np.linalg.inv(each.camera.T_world_camera)[:3])
        fixed = (facing(each, truncation_m), rgb, pose, _with_bounds(packed(each.camera.lens)))
        where = (grid.origin.copy(), grid.voxel_m, truncation_m)
        spread(lambda span: _add(distance, weight, colour, *where, *fixed, *span), slabs, threads)  # noqa: B023
    return Volume(grid, truncation_m, distance, weight, colour[..., :3] / np.maximum(colour[..., 3:], 1e-12))


def _with_bounds(lens: np.ndarray) -> np.ndarray:
    """The lens, and the least and largest x and y of the rays that the picture holds."""
    if is_bent(lens):
        return np.concatenate([lens, reach(lens)])
    (fx, fy, cx, cy), (width, height) = lens[:4], lens[16:]
    sides = ((-0.5 - cx) / fx, (width - 0.5 - cx) / fx, (-0.5 - cy) / fy, (height - 0.5 - cy) / fy)
    return np.concatenate([lens, sides])


def facing(each: DepthMap, truncation_m: float) -> Float[np.ndarray, "H W 3"]:
    """For every pixel: depth, metres from its plane for each metre along the axis, and how much it counts."""
    lens = each.camera.lens
    sure = np.ones((1, 1)) if each.weight is None else each.weight
    out = np.zeros((*each.depth_m.shape, 3), np.float32)
    _face(
        np.asarray(each.depth_m, np.float64),
        np.array(pixel_rays(lens)),
        np.asarray(sure, np.float64),
        truncation_m,
        out,
    )
    return out


@njit(**EXACT)
def _face(depth, rays, sure, cut, out):
    height, width = depth.shape
    along = np.zeros((2, 3))
    for row in range(height):
        for col in range(width):
            d = depth[row, col]
            if d <= 0:
                continue
            whole = True
            for axis in range(2):
                found = 0
                for k in range(3):
                    along[axis, k] = 0.0
                for side in (-1, 1):
                    r, c = (row, col + side) if axis == 0 else (row + side, col)
                    if r < 0 or c < 0 or r >= height or c >= width:
                        continue
                    other = depth[r, c]
                    if other <= 0 or abs(other - d) > cut:
                        continue
                    found += 1
                    along[axis, 0] += side * (other * rays[r, c, 0] - d * rays[row, col, 0])
                    along[axis, 1] += side * (other * rays[r, c, 1] - d * rays[row, col, 1])
                    along[axis, 2] += side * (other - d)
                whole &= found > 0
            x, y = rays[row, col, 0], rays[row, col, 1]
            scale, cosine = 1.0, 0.1  # alone, or on an edge: it counts little
            if whole:
                nx = along[0, 1] * along[1, 2] - along[0, 2] * along[1, 1]
                ny = along[0, 2] * along[1, 0] - along[0, 0] * along[1, 2]
                nz = along[0, 0] * along[1, 1] - along[0, 1] * along[1, 0]
                length = math.sqrt(nx * nx + ny * ny + nz * nz)
                scale = abs(nx * x + ny * y + nz) / max(length, 1e-30)
                cosine = scale / math.sqrt(x * x + y * y + 1.0)
            counts = sure[row, col] if sure.size > 1 else 1.0
            out[row, col, 0], out[row, col, 1], out[row, col, 2] = d, scale, counts * cosine


def _check(grid: Grid, truncation_m: float) -> None:
    if not grid.voxel_m < truncation_m < np.inf:
        raise MeshError(
            f"fusion: a truncation of {truncation_m:.4g} m with voxels of {grid.voxel_m:.4g} m. It is wider than a "
            "voxel: three to five of them are usual."
        )


@njit(**EXACT)
def _add(distance, weight, colour, origin, voxel, cut, faced, rgb, pose, lens, lo, hi):
    """Adds a picture to the columns i in lo … hi."""
    for i in range(lo, hi):
        for j in range(distance.shape[1]):
            x, y = origin[0] + voxel * i, origin[1] + voxel * j
            column(distance[i, j], weight[i, j], colour, i, j, x, y, origin[2], voxel, cut, faced, rgb, pose, lens)


@njit(**EXACT)
def column(distance, weight, colour, i, j, x, y, z0, voxel, cut, faced, rgb, pose, lens):
    """Adds one picture to one column of voxels."""
    height, width, _ = faced.shape
    cx = pose[0, 0] * x + pose[0, 1] * y + pose[0, 2] * z0 + pose[0, 3]
    cy = pose[1, 0] * x + pose[1, 1] * y + pose[1, 2] * z0 + pose[1, 3]
    cz = pose[2, 0] * x + pose[2, 1] * y + pose[2, 2] * z0 + pose[2, 3]
    sx, sy, sz = pose[0, 2] * voxel, pose[1, 2] * voxel, pose[2, 2] * voxel
    bent = is_bent(lens)
    left, right, top, bottom = lens[18], lens[19], lens[20], lens[21]
    fx, fy, px, py = lens[0], lens[1], lens[2], lens[3]
    first, last = seen_span(cx, cy, cz, sx, sy, sz, left, right, top, bottom, len(distance))
    for k in range(first, last):
        z = cz + k * sz
        if z <= NEAR_M:
            continue
        over = 1.0 / z
        u, v = (cx + k * sx) * over, (cy + k * sy) * over
        if bent:
            if u < left or u > right or v < top or v > bottom:
                continue
            found = bend(u, v, lens)
            u, v = found[0], found[1]
        u, v = fx * u + px, fy * v + py
        if u < -0.5 or v < -0.5 or u >= width - 0.5 or v >= height - 0.5:
            continue
        col, row = int(u + 0.5), int(v + 0.5)
        d, share = faced[row, col, 0], np.float64(faced[row, col, 2])
        if share <= 0 or d - z <= -cut:
            continue
        gap = measured(faced, u, v, row, col, z, cut)
        if gap < 0:
            share *= fading(gap / cut) * fading(min(d - z, 0.0) / cut)
            if share <= 0:
                continue
        old = weight[k]
        distance[k] = (distance[k] * old + gap * share) / (old + share)
        if colour.size and gap < cut:
            for c in range(3):
                colour[i, j, k, c] += rgb[row, col, c] / 255.0 * share
            colour[i, j, k, 3] += share
        weight[k] = old + share


@njit(**EXACT)
def seen_span(cx, cy, cz, sx, sy, sz, left, right, top, bottom, count):
    """The voxels of a column that may be seen: every side of the view is a half-space, so they are one run."""
    lo, hi = 0.0, float(count)
    for side in range(5):
        if side == 0:
            a, b = cz - NEAR_M, sz
        elif side == 1:
            a, b = cx - left * cz, sx - left * sz
        elif side == 2:
            a, b = right * cz - cx, right * sz - sx
        elif side == 3:
            a, b = cy - top * cz, sy - top * sz
        else:
            a, b = bottom * cz - cy, bottom * sz - sy
        if b > 0:
            lo = max(lo, -a / b)
        elif b < 0:
            hi = min(hi, -a / b + 1.0)
        elif a < 0:
            hi = 0.0
    first = int(max(0.0, math.floor(min(lo, float(count)))))
    return first, int(max(float(first), min(math.ceil(hi), float(count))))


@njit(**EXACT)
def fading(behind):
    """How much a picture counts at a share of the truncation behind its surface: fully down to a half, then less.

    Were it less from the surface on, noise in front would count more than noise behind, and thin walls would wear off.
    """
    return min(1.0, max(0.0, 2.0 + 2.0 * behind))


@njit(**EXACT)
def measured(faced, u, v, row, col, z, cut):
    """Metres from the plane of a pixel to the voxel that is seen there at depth z, at most the truncation.

    Depth is read between four pixels where all are known and within the truncation of each other.
    """
    height, width, _ = faced.shape
    d = np.float64(faced[row, col, 0])
    if d - z > 2.0 * cut:
        return cut
    c, r = math.floor(u), math.floor(v)
    if c >= 0 and r >= 0 and c + 1 < width and r + 1 < height:
        a, b = faced[r, c, 0], faced[r, c + 1, 0]
        e, f = faced[r + 1, c, 0], faced[r + 1, c + 1, 0]
        low, high = min(min(a, b), min(e, f)), max(max(a, b), max(e, f))
        if low > 0 and high - low <= cut:
            s, t = u - c, v - r
            d = (a * (1 - s) + b * s) * (1 - t) + (e * (1 - s) + f * s) * t
    return min((d - z) * faced[row, col, 1], cut)


def fuse_plainly(grid: Grid, maps: Iterable[DepthMap], truncation_m: float) -> Volume:
    """The reference: picture by picture, all voxels at once. Slow, and without colours."""
    _check(grid, truncation_m)
    total, weight = np.zeros(grid.shape), np.zeros(grid.shape)
    for each in maps:
        lens = each.camera.lens
        T_camera_world = np.linalg.inv(each.camera.T_world_camera)
        p_camera = grid.points() @ T_camera_world[:3, :3].T + T_camera_world[:3, 3]
        z = p_camera[..., 2]
        ahead = z > NEAR_M
        xy = p_camera[..., :2] / np.where(ahead, z, 1)[..., None]
        left, right, top, bottom = reach(packed(lens))
        ahead &= (xy >= (left, top)).all(axis=-1) & (xy <= (right, bottom)).all(axis=-1)
        seen = distort(xy, lens.distortion) if lens.bent else xy
        u, v = lens.fx * seen[..., 0] + lens.cx, lens.fy * seen[..., 1] + lens.cy
        col, row = (
            np.floor(np.where(ahead, u, -9) + 0.5).astype(int),
            np.floor(np.where(ahead, v, -9) + 0.5).astype(int),
        )
        inside = ahead & (col >= 0) & (row >= 0) & (col < lens.width) & (row < lens.height)
        faced = facing(each, truncation_m)
        for i, j, k in np.argwhere(inside):
            pixel = row[i, j, k], col[i, j, k]
            d, _, share = faced[pixel]
            behind = min(d - z[i, j, k], 0.0) / truncation_m
            if share <= 0 or behind <= -1:
                continue
            gap = measured.py_func(faced, u[i, j, k], v[i, j, k], *pixel, z[i, j, k], truncation_m)
            if gap < 0:
                share = share * fading.py_func(gap / truncation_m) * fading.py_func(behind)
            total[i, j, k] += share * gap
            weight[i, j, k] += share
    mean = np.where(weight > 0, total / np.where(weight > 0, weight, 1), truncation_m)
    return Volume(grid, truncation_m, mean.astype(np.float32), weight.astype(np.float32))
