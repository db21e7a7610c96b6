"""The visual hull as a signed field: how far each voxel is outside the cones of the silhouettes.

field = hull(grid, silhouettes, wrong_share=0.1, support=Plane(offset_m=table))

A view says of a voxel how far it is from the silhouette's edge, in metres: pixels to the edge times depth over focal
length, above 0 outside. The field is the largest of these over the views that know anything there; with `wrong_share`
the largest few are passed over, so that a few wrong masks cut nothing off. Blocks of voxels far from every edge are
settled by their centre; the others voxel by voxel, and outside only until enough views have denied them: from four
voxels outside on the field is a lower bound.

hull_plainly is the same without blocks, in numpy, to be read and to be compared with.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numba import njit

from twinproof.nouns.errors import MeshError
from twinproof.sim.grid import Field, Grid, Plane
from twinproof.sim.render_camera import distort
from twinproof.sim.silhouette import Silhouette
from twinproof.sim.splat.engine import blocks, spread
from twinproof.sim.splat.lens import EXACT, bend, packed, reach
from twinproof.sim.threads import threads_usable

NEAR_M = 0.01
SIDE = 8  # voxels along the side of a block
UNKNOWN = -1e30
BENT = 18  # where a lens says whether it is bent
ENOUGH = 4.0  # voxels outside: farther out only the sign counts


def hull(
    grid: Grid,
    silhouettes: Sequence[Silhouette],
    *,
    wrong_share: float = 0.0,
    least_views: int = 2,
    support: Plane | None = None,
    threads: int = 0,
) -> Field:
    """The field; inside is what no more than `wrong_share` of the views that see it deny.

    Voxels that fewer than `least_views` views know are outside. `support` is a plane that the object rests on: below
    it is outside, so the hull is closed there by assumption, which whoever asks has to declare.
    """
    edges, known, poses, lenses, offsets, sizes = _prepared(silhouettes, wrong_share, least_views)
    out = np.empty(grid.shape, np.float32)
    fixed = (edges, known, poses, lenses, offsets, sizes, wrong_share, least_views)
    spans = blocks((grid.shape[0] + SIDE - 1) // SIDE, 1)
    where = (grid.origin.copy(), grid.voxel_m)
    spread(lambda span: _carve(out, *where, *fixed, *span), spans, threads or threads_usable())
    return cut_by(Field(grid, out), support)


def cut_by(field: Field, support: Plane | None) -> Field:
    """The part of a field above a plane."""
    if support is None:
        return field
    axes = [o + field.grid.voxel_m * np.arange(n) for o, n in zip(field.grid.origin, field.grid.shape, strict=True)]
    a, b, c = support.normal
    above = (a * axes[0])[:, None, None] + (b * axes[1])[:, None] + c * axes[2] - support.offset_m
    return Field(field.grid, np.maximum(field.distance_m, -above).astype(np.float32))


def _prepared(silhouettes: Sequence[Silhouette], wrong_share: float, least_views: int) -> tuple[np.ndarray, ...]:
    """The views' planes end to end in one array (they may differ in size), their poses, lenses, starts and sizes."""
    if len(silhouettes) < max(least_views, 1) or not 0 <= wrong_share < 0.5:
        raise MeshError(
            f"hull: {len(silhouettes)} silhouettes where {least_views} views must know a voxel, and a share of "
            f"{wrong_share} may be wrong. Give more views; the share is at least 0 and below 0.5."
        )
    if not any((each.mask == 1).any() for each in silhouettes):
        raise MeshError("hull: no silhouette shows the object. Mend the prompts or the masks.")
    edges = [each.distance_px().astype(np.float32) for each in silhouettes]
    known = [each.known_px().astype(np.float32) for each in silhouettes]
    offsets = np.cumsum([0, *(plane.size for plane in edges)])[:-1]
    return (
        np.concatenate([plane.ravel() for plane in edges]),
        np.concatenate([plane.ravel() for plane in known]),
        np.stack([np.linalg.inv(each.camera.T_world_camera)[:3] for each in silhouettes]),
        np.stack([np.append(packed(each.camera.lens), each.camera.lens.bent) for each in silhouettes]),
        offsets.astype(np.int64),
        np.array([plane.shape for plane in edges], np.int64),
    )


@njit(**EXACT)
def _carve(out, origin, voxel, edges, known, poses, lenses, offsets, sizes, wrong_share, least, lo, hi):
    """Fills the layers lo … hi of blocks."""
    nx, ny, nz = out.shape
    far = 0.5 * math.sqrt(3.0) * (SIDE + 1) * voxel
    half, top = 0.5 * (SIDE - 1), np.empty(len(offsets) // 2 + 2)
    for bi in range(lo, hi):
        for bj in range((ny + SIDE - 1) // SIDE):
            for bk in range((nz + SIDE - 1) // SIDE):
                i0, j0, k0 = bi * SIDE, bj * SIDE, bk * SIDE
                x, y, z = (
                    origin[0] + voxel * (i0 + half),
                    origin[1] + voxel * (j0 + half),
                    origin[2] + voxel * (k0 + half),
                )
                value, even = ask(
                    x, y, z, far, 1.5 * far, edges, known, poses, lenses, offsets, sizes, wrong_share, least, top
                )
                whole = even and abs(value) > 1.5 * far
                for i in range(i0, min(i0 + SIDE, nx)):
                    for j in range(j0, min(j0 + SIDE, ny)):
                        for k in range(k0, min(k0 + SIDE, nz)):
                            if not whole:
                                x, y, z = origin[0] + voxel * i, origin[1] + voxel * j, origin[2] + voxel * k
                                value, _ = ask(
                                    x, y, z, 0.0, ENOUGH * voxel,
                                    edges, known, poses, lenses, offsets, sizes, wrong_share, least, top,
                                )  # fmt: skip
                            out[i, j, k] = value


@njit(**EXACT)
def ask(x, y, z, radius, enough, edges, known, poses, lenses, offsets, sizes, wrong_share, least, top):
    """The field at a point, and whether every view knows all or nothing of the ball around it.

    Stops as soon as so many views say "outside, by more than `enough`" that the others cannot matter.
    """
    count, even, deny = 0, True, 0
    most, needed = len(top), 1 + int(wrong_share * len(offsets) + 1e-9)
    for k in range(most):
        top[k] = UNKNOWN
    for m in range(len(offsets)):
        said, part = view_says(x, y, z, radius, edges, known, poses[m], lenses[m], offsets[m], sizes[m])
        even &= not part
        if said == UNKNOWN:
            continue
        count += 1
        if said > enough and not part:
            deny += 1
            if deny >= needed:
                return max(said, enough * 1.001), True
        k = most - 1
        if said > top[k]:
            while k > 0 and top[k - 1] < said:
                top[k] = top[k - 1]
                k -= 1
            top[k] = said
    if count < least:
        return 1e3, even
    return top[int(wrong_share * count + 1e-9)], even


@njit(**EXACT)
def view_says(x, y, z, radius, edges, known, pose, lens, offset, size):
    """How far outside the silhouette one view sees a point (m; UNKNOWN where it does not), and whether it sees the
    ball around it in part only."""
    depth = pose[2, 0] * x + pose[2, 1] * y + pose[2, 2] * z + pose[2, 3]
    if depth <= NEAR_M:
        return UNKNOWN, depth + radius > NEAR_M
    over = 1.0 / depth
    a = (pose[0, 0] * x + pose[0, 1] * y + pose[0, 2] * z + pose[0, 3]) * over
    b = (pose[1, 0] * x + pose[1, 1] * y + pose[1, 2] * z + pose[1, 3]) * over
    height, width = size[0], size[1]
    around = 0.0
    if radius > 0:  # px, with room for what a lens does at the border
        around = 2.0 * radius * max(lens[0], lens[1]) / max(depth - radius, NEAR_M)
    if lens[BENT]:
        left, right, up, down = reach(lens)
        if a < left or a > right or b < up or b > down:
            return UNKNOWN, radius > 0
        found = bend(a, b, lens)
        a, b = found[0], found[1]
    u, v = lens[0] * a + lens[2], lens[1] * b + lens[3]
    if u < 0 or v < 0 or u > width - 1 or v > height - 1:
        off = max(max(-u, u - (width - 1)), max(-v, v - (height - 1)))
        return UNKNOWN, off < around
    sure = known[offset + int(v + 0.5) * width + int(u + 0.5)]
    part = False
    if radius > 0:
        border = min(min(u, width - 1 - u), min(v, height - 1 - v))
        part = abs(sure) < around + 1.0 or border < around
    if sure < 0:
        return UNKNOWN, part
    r, c = min(int(v), height - 2), min(int(u), width - 2)
    s, t = u - c, v - r
    at = offset + r * width + c
    upper, lower = edges[at] * (1 - s) + edges[at + 1] * s, edges[at + width] * (1 - s) + edges[at + width + 1] * s
    return (upper * (1 - t) + lower * t) * depth / (0.5 * (lens[0] + lens[1])), part


def hull_plainly(
    grid: Grid, silhouettes: Sequence[Silhouette], *, wrong_share: float = 0.0, least_views: int = 2
) -> Field:
    """The reference: view by view, every voxel, in numpy."""
    from scipy.ndimage import map_coordinates

    points, said = grid.points(), []
    for each in silhouettes:
        lens, T = each.camera.lens, np.linalg.inv(each.camera.T_world_camera)
        p = points @ T[:3, :3].T + T[:3, 3]
        ahead = p[..., 2] > NEAR_M
        depth = np.where(ahead, p[..., 2], 1.0)
        xy = p[..., :2] / depth[..., None]
        if lens.bent:
            left, right, up, down = reach(packed(lens))
            ahead &= (xy >= (left, up)).all(axis=-1) & (xy <= (right, down)).all(axis=-1)
            xy = distort(xy, lens.distortion)
        u, v = lens.fx * xy[..., 0] + lens.cx, lens.fy * xy[..., 1] + lens.cy
        seen = ahead & (u >= 0) & (v >= 0) & (u <= lens.width - 1) & (v <= lens.height - 1)
        u, v = np.where(seen, u, 0), np.where(seen, v, 0)
        edge = map_coordinates(each.distance_px(), [v, u], order=1, mode="nearest")
        seen &= each.mask[(v + 0.5).astype(int), (u + 0.5).astype(int)] >= 0
        said.append(np.where(seen, edge * depth / (0.5 * (lens.fx + lens.fy)), UNKNOWN))
    values = -np.sort(-np.stack(said), axis=0)
    count = (values > UNKNOWN).sum(axis=0)
    rank = (wrong_share * count + 1e-9).astype(int)
    found = np.take_along_axis(values, rank[None], axis=0)[0]
    return Field(grid, np.where(count < least_views, 1e3, found).astype(np.float32))
