"""Points on the surfaces that depth pictures show, in the world."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.views import PosedView
from twinproof.sim.render_camera import Lens, pixel_rays

if TYPE_CHECKING:
    from jaxtyping import Float, UInt8

MOST_POINTS = 100_000


def depth_points(
    views: Sequence[PosedView], most: int = MOST_POINTS
) -> tuple[Float[np.ndarray, "P 3"], UInt8[np.ndarray, "P 3"]]:
    """Points and colours of all pixels that count and whose depth is known, thinned on a grid to about `most`."""
    deep = [(view, view.depth_m) for view in views if view.depth_m is not None]
    pixels = sum(depth.size for _, depth in deep)
    step = max(1, int(np.ceil(np.sqrt(pixels / most))))
    grid = (slice(step // 2, None, step), slice(step // 2, None, step))
    points, colours = [np.zeros((0, 3))], [np.zeros((0, 3), np.uint8)]
    for view, depth in deep:
        height, width = depth.shape
        lens = view.intrinsics
        rays = pixel_rays(Lens(width, height, lens.fx, lens.fy, lens.cx, lens.cy, lens.distortion))[grid]
        known = depth[grid] > 0
        if view.mask is not None:
            known = known & (view.mask[grid] >= 0)
        local = np.concatenate([rays[known], np.ones((int(known.sum()), 1))], axis=1) * depth[grid][known][:, None]
        points.append(local @ view.T_world_camera[:3, :3].T + view.T_world_camera[:3, 3])
        colours.append(view.rgb[grid][known])
    return np.concatenate(points), np.concatenate(colours)
