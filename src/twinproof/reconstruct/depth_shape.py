"""An object's shape from the depth that masked views carry: fused where it was seen, else as its outlines allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.views import PosedView, Views
from twinproof.reconstruct.shape import Box, Shape, ShapeRecipe, shape_from_depth
from twinproof.sim.depth_points import depth_points
from twinproof.sim.fusion import DepthMap
from twinproof.sim.grid import Plane
from twinproof.sim.render_camera import Camera, Lens

if TYPE_CHECKING:
    from jaxtyping import Float

    from twinproof.sim.silhouette import Silhouette

FEWEST = 10  # points on an object that make a depth picture of it
BEHIND_M = 0.05  # the table beside an object is no surface of it: it says only that the way there is free
EDGE_PX = 2  # beside an outline, depth is of both sides
STRAY = 0.002  # share of an object's points at either end that may fly


def points_on(views: Views, group: str) -> Float[np.ndarray, "P 3"]:
    """Points that depth pictures show on an object, in the world."""
    number = views.groups.index(group)
    own = [replace(v, mask=np.where(v.mask == number, 0, -1)) for v in views.views if v.mask is not None]
    return depth_points(own)[0]


def measured(views: Views, group: str) -> bool:
    """Whether depth pictures show enough of an object."""
    return len(points_on(views, group)) >= FEWEST


def fused(
    views: Views, group: str, silhouettes: Sequence[Silhouette], recipe: ShapeRecipe, support: Plane | None
) -> Shape:
    """The object's shape in the world; with fewer than two silhouettes what nobody saw is filled, and declared."""
    number = views.groups.index(group)
    maps = [_map(view, number) for view in views.views if view.depth_m is not None and view.mask is not None]
    box = _box(points_on(views, group), support) if len(silhouettes) < 2 else None
    return shape_from_depth(maps, recipe, silhouettes=silhouettes, support=support, box=box)


def _map(view: PosedView, number: int) -> DepthMap:
    """Depth of the object; of the background that it lies behind; of nothing else, and not along the outline."""
    from scipy.ndimage import binary_dilation

    assert view.mask is not None
    assert view.depth_m is not None
    own, known = view.mask == number, view.depth_m > 0
    beside = binary_dilation(own, iterations=EDGE_PX)
    free = known & (view.mask == 0) & ~beside
    depth = np.where(own & known, view.depth_m, np.where(free, view.depth_m + BEHIND_M, 0)).astype(np.float32)
    k, (height, width) = view.intrinsics, view.mask.shape
    lens = Lens(width, height, k.fx, k.fy, k.cx, k.cy, k.distortion)
    return DepthMap(depth, Camera(lens, view.T_world_camera))


def _box(points: np.ndarray, support: Plane | None) -> Box:
    """A box around nearly all points, down to the support plane."""
    low, high = np.quantile(points, (STRAY, 1 - STRAY), axis=0)
    if support is None:
        return low, high
    kept = points[((points >= low) & (points <= high)).all(axis=1)]
    feet = kept - np.outer(support.above(kept), support.normal)
    return np.minimum(low, feet.min(axis=0)), np.maximum(high, feet.max(axis=0))
