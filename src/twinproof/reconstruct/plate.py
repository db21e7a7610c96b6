"""What is behind: the picture of a scene without the things that stand before it, and where each pixel came from.

plate = plate_over_time(rgb, hidden)                  a still camera: pixels that were free at some time
plate = from_views(plate, camera, others, surface)    the rest from other cameras, where the surface's depth is known
plate = inpainted(plate)                              what nobody ever saw: made up, and labelled so
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import RecordingError
from twinproof.sim.grid import Plane
from twinproof.sim.render_camera import Camera, distort, pixel_rays

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int8, UInt8

BAND = 64  # rows that are sorted at once: a median over many frames needs memory


class Origin(IntEnum):
    """Where a pixel of a plate came from."""

    NONE = 0
    SEEN = 1  # by this camera, at some time
    OTHER_VIEW = 2  # by another camera, carried over along the surface
    MADE_UP = 3  # inpainted: nobody saw it


@dataclass(frozen=True, eq=False)
class Plate:
    """A picture and the origin of each of its pixels."""

    rgb: UInt8[np.ndarray, "H W 3"]
    origin: Int8[np.ndarray, "H W"]

    def share(self, origin: Origin) -> float:
        """How much of the picture came from there."""
        return float((self.origin == origin).mean())

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know."""
        shares = {"carried over from other views": Origin.OTHER_VIEW, "made up (inpainted)": Origin.MADE_UP}
        return tuple(
            f"{self.share(kind):.1%} of the background is {words}"
            for words, kind in shares.items()
            if (self.origin == kind).any()
        )


def plate_over_time(rgb: UInt8[np.ndarray, "T H W 3"], hidden: Bool[np.ndarray, "T H W"]) -> Plate:
    """Of a camera that stands still: the median over the times at which nothing hid a pixel."""
    if rgb.ndim != 4 or rgb.shape[3] != 3 or hidden.shape != rgb.shape[:3] or not len(rgb):
        raise RecordingError(
            f"plate: pictures {rgb.shape} with masks {hidden.shape}; needed is (T, H, W, 3), (T, H, W)."
        )
    out = np.zeros(rgb.shape[1:], np.uint8)
    for top in range(0, rgb.shape[1], BAND):
        rows = slice(top, top + BAND)
        stack = np.where(hidden[:, rows, :, None], np.int16(300), rgb[:, rows])  # hidden ones sort behind all others
        stack = np.sort(stack, axis=0)
        count = (~hidden[:, rows]).sum(axis=0)
        low, high = np.maximum((count - 1) // 2, 0), np.maximum(count // 2, 0).clip(max=len(rgb) - 1)
        pick = [np.take_along_axis(stack, which[None, ..., None].repeat(3, axis=3), axis=0)[0] for which in (low, high)]
        out[rows] = np.where(count[..., None] > 0, (pick[0].astype(np.int32) + pick[1]) // 2, 0)
    return Plate(out, np.where((~hidden).any(axis=0), Origin.SEEN, Origin.NONE).astype(np.int8))


def surface_points(camera: Camera, surface: Plane | Float[np.ndarray, "H W"]) -> Float[np.ndarray, "H W 3"]:
    """Where the pixels' rays meet a plane, or end at a depth; NaN where they do not."""
    rays = np.dstack([pixel_rays(camera.lens), np.ones((camera.lens.height, camera.lens.width))])
    T = camera.T_world_camera
    ahead = rays @ T[:3, :3].T
    if isinstance(surface, Plane):
        along = ahead @ np.array(surface.normal)
        depth = -float(surface.above(T[:3, 3])) / np.where(np.abs(along) > 1e-9, along, np.nan)
    else:
        depth = np.where(surface > 0, surface, np.nan)
    depth = np.where(depth > 0, depth, np.nan)
    return np.asarray(T[:3, 3] + ahead * depth[..., None])


def from_views(
    plate: Plate,
    camera: Camera,
    others: Sequence[tuple[Plate, Camera]],
    surface: Plane | Float[np.ndarray, "H W"],
) -> Plate:
    """Pixels that this camera never saw, from the plates of others that did: the nearest camera first.

    Exposures may differ: each other picture is scaled to agree where both saw the surface.
    """
    points, rgb, origin = surface_points(camera, surface), plate.rgb.copy(), plate.origin.copy()
    ordered = sorted(
        others, key=lambda each: float(np.linalg.norm(each[1].T_world_camera[:3, 3] - camera.T_world_camera[:3, 3]))
    )
    for other, eye in ordered:
        there, found = _carried(points, other, eye)
        both = found & (plate.origin == Origin.SEEN)
        if both.sum() >= 50:
            ours, theirs = np.median(plate.rgb[both], axis=0), np.median(there[both], axis=0)
            there = there * (np.maximum(ours, 1) / np.maximum(theirs, 1)).clip(0.5, 2.0)
        take = found & (origin == Origin.NONE)
        rgb[take] = np.round(there[take].clip(0, 255)).astype(np.uint8)
        origin[take] = Origin.OTHER_VIEW
    return Plate(rgb, origin)


def _carried(
    points: Float[np.ndarray, "H W 3"], other: Plate, eye: Camera
) -> tuple[Float[np.ndarray, "H W 3"], Bool[np.ndarray, "H W"]]:
    """What another plate shows at places, and where it does."""
    T, lens = np.linalg.inv(eye.T_world_camera), eye.lens
    known = np.isfinite(points).all(axis=-1)
    p = np.where(known[..., None], points, 0.0) @ T[:3, :3].T + T[:3, 3]
    known &= p[..., 2] > 0.01
    xy = p[..., :2] / np.where(known, p[..., 2], 1.0)[..., None]
    xy = distort(xy, lens.distortion) if lens.bent else xy
    u, v = lens.fx * xy[..., 0] + lens.cx, lens.fy * xy[..., 1] + lens.cy
    known &= (u >= 0) & (v >= 0) & (u <= lens.width - 1) & (v <= lens.height - 1)
    col, row = (np.where(known, x, 0) + 0.5 for x in (u, v))
    at = row.astype(int), col.astype(int)
    return other.rgb[at].astype(float), known & (other.origin[at] == Origin.SEEN)


def inpainted(plate: Plate) -> Plate:
    """The rest by diffusion: a smooth sheet over each hole, held at its border. It is labelled, and no evidence."""
    hole = plate.origin == Origin.NONE
    if hole.all():
        raise RecordingError("plate: no pixel was ever seen. Use pictures in which the background shows.")
    if not hole.any():
        return plate
    rgb = plate.rgb.copy()
    rgb[hole] = np.round(_diffused(plate.rgb.astype(float), hole).clip(0, 255)).astype(np.uint8)
    return replace(plate, rgb=rgb, origin=np.where(hole, Origin.MADE_UP, plate.origin).astype(np.int8))


def _diffused(rgb: Float[np.ndarray, "H W 3"], hole: Bool[np.ndarray, "H W"]) -> Float[np.ndarray, "N 3"]:
    """Each pixel of a hole is the mean of its neighbours (Laplace's equation)."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.linalg import splu

    number = np.full(hole.shape, -1)
    number[hole] = np.arange(int(hole.sum()))
    rows, columns, values, right = [], [], [], np.zeros((int(hole.sum()), 3))
    degree = np.zeros(len(right))
    r, c = np.nonzero(hole)
    for dr, dc in ((0, 1), (0, -1), (1, 0), (-1, 0)):
        nr, nc = r + dr, c + dc
        inside = (nr >= 0) & (nc >= 0) & (nr < hole.shape[0]) & (nc < hole.shape[1])
        degree[inside] += 1
        nr, nc, own = nr[inside], nc[inside], np.flatnonzero(inside)
        open_ = hole[nr, nc]
        rows.append(own[open_])
        columns.append(number[nr[open_], nc[open_]])
        values.append(np.full(int(open_.sum()), -1.0))
        np.add.at(right, own[~open_], rgb[nr[~open_], nc[~open_]])
    index = np.arange(len(right))
    matrix = coo_matrix(
        (np.concatenate([*values, degree]), (np.concatenate([*rows, index]), np.concatenate([*columns, index])))
    )
    return np.asarray(splu(matrix.tocsc()).solve(right))
