"""Silhouettes and how far each pixel is from their edge (exact Euclidean distances, in time linear in the pixels)."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from twinproof.nouns.errors import MeshError
from twinproof.nouns.frozen import frozen_array, settle
from twinproof.sim.render_camera import Camera
from twinproof.sim.splat.lens import EXACT

if TYPE_CHECKING:
    from jaxtyping import Float, Int8

FAR = 1e9  # px: nothing of that kind is in the picture


@dataclass(frozen=True, eq=False)
class Silhouette:
    """Which pixels show the object: 1 yes, 0 no, -1 not known (hidden by the robot, cut off, not looked at)."""

    mask: Int8[np.ndarray, "H W"]
    camera: Camera

    def __post_init__(self) -> None:
        mask = np.asarray(self.mask)
        size = (self.camera.lens.height, self.camera.lens.width)
        if mask.shape != size:
            raise MeshError(f"silhouette: the mask has the shape {mask.shape}, its lens {size}. Resize one of them.")
        if not np.isin(mask, (-1, 0, 1)).all():
            raise MeshError(
                f"silhouette: the mask holds {mask.min()} to {mask.max()}. Write 1, 0, and -1 for not known."
            )
        settle(self, mask=frozen_array(mask, np.int8))

    def distance_px(self) -> Float[np.ndarray, "H W"]:
        """Distance to the edge of the silhouette, px: above 0 outside, below inside. Edges run between pixels."""
        to_object, to_other = distances_px(self.mask == 1), distances_px(self.mask == 0)
        outside, inside = np.minimum(to_object - 0.5, FAR), -np.minimum(to_other - 0.5, FAR)
        # What is not known gets a value between its neighbours', so that reading between pixels has no jump.
        between = 0.5 * (np.minimum(to_object, FAR) - np.minimum(to_other, FAR))
        return np.asarray(np.where(self.mask == 1, inside, np.where(self.mask == 0, outside, between)))

    def known_px(self) -> Float[np.ndarray, "H W"]:
        """Distance to where knowing ends, px: above 0 where the mask is known, below where it is not."""
        known = self.mask >= 0
        return np.where(known, distances_px(~known) - 0.5, 0.5 - distances_px(known))


def distances_px(of: np.ndarray) -> Float[np.ndarray, "H W"]:
    """For every pixel the distance to the nearest one that is true; FAR where there is none."""
    out = np.empty(of.shape)
    _distances(np.ascontiguousarray(of, np.bool_), out)
    return out


@njit(**EXACT)
def _distances(of, out):
    """Along columns first, then the lower envelope of parabolas along rows (Felzenszwalb and Huttenlocher)."""
    height, width = of.shape
    for col in range(width):
        near = FAR
        for row in range(height):
            near = 0.0 if of[row, col] else near + 1
            out[row, col] = near
        near = FAR
        for row in range(height - 1, -1, -1):
            near = 0.0 if of[row, col] else near + 1
            out[row, col] = min(out[row, col], near)
    at, begin, line = np.empty(width, np.int64), np.empty(width + 1), np.empty(width)
    for row in range(height):
        for col in range(width):
            line[col] = min(out[row, col], FAR) ** 2
        last = 0
        at[0], begin[0], begin[1] = 0, -np.inf, np.inf
        for col in range(1, width):
            cross = meet(line, at[last], col)
            while cross <= begin[last]:
                last -= 1
                cross = meet(line, at[last], col)
            last += 1
            at[last], begin[last], begin[last + 1] = col, cross, np.inf
        last = 0
        for col in range(width):
            while begin[last + 1] < col:
                last += 1
            out[row, col] = min(np.sqrt((col - at[last]) ** 2 + line[at[last]]), FAR)


@njit(**EXACT)
def meet(line, first, second):
    """Where the parabolas over two columns cross."""
    return ((line[second] + second * second) - (line[first] + first * first)) / (2.0 * second - 2.0 * first)
