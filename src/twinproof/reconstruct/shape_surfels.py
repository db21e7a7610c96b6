"""Surfels of one object from its pictures and masks alone, and the shape that they cover.

views = object_only(views, "cup", hull)                the object before black, points on and in its hull to start from
shape = shape_of_surfels(views, cameras, silhouettes)  fit, rendered depth, fusion, within the hull

Silhouettes never show a hollow; colours do, where there is texture. So discs start on the hull and inside it, and those
that the pictures do not need fade away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import MeshError
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.randomness import stream
from twinproof.nouns.splats import Splats
from twinproof.nouns.views import PosedView, Views
from twinproof.reconstruct.gap import points_on
from twinproof.reconstruct.shape import PLAIN, Shape, ShapeRecipe, shape_from_surfels
from twinproof.reconstruct.splat_recipe import Growth, Recipe
from twinproof.sim.grid import Plane
from twinproof.sim.render_camera import Camera

if TYPE_CHECKING:
    from jaxtyping import Float

    from twinproof.sim.silhouette import Silhouette

SURFELS = Recipe(
    iterations=1500,
    degree=0,
    sizes=((0.0, 2), (0.4, 1)),
    normal_weight=0.05,
    exposure=False,
    flat=True,
    growth=Growth(most=8000),
)


def object_only(views: Views, group: str, hull: Mesh, *, points: int = 6000, seed: int = 0) -> Views:
    """The same pictures with black around the object (unknown pixels still do not count), and points to start from."""
    if group not in views.groups:
        raise MeshError(f"views: there is no group {group!r}; there are {', '.join(views.groups)}.")
    own = views.groups.index(group)
    alone = [_alone(view, own) for view in views.views if view.mask is not None]
    if not alone:
        raise MeshError(f"views: no view of {group!r} has a mask. Segment the pictures first.")
    on, inside = points_on(hull, points // 2, seed), _points_in(hull, points - points // 2, seed)
    places = np.concatenate([on, inside])
    pixels = [view.rgb[view.mask == own] for view in views.views if view.mask is not None]
    grey = np.median(np.concatenate(pixels), axis=0) if sum(map(len, pixels)) else np.full(3, 128.0)
    colours = np.repeat(grey[None].astype(np.uint8), len(places), axis=0)
    return Views(tuple(alone), places, colours, (group,), views.notes)


def _alone(view: PosedView, own: int) -> PosedView:
    assert view.mask is not None
    rgb = np.where((view.mask == own)[..., None], view.rgb, 0).astype(np.uint8)
    depth = None if view.depth_m is None else np.where(view.mask == own, view.depth_m, 0)
    return replace(view, rgb=rgb, depth_m=depth, mask=np.where(view.mask < 0, -1, 0))


def _points_in(mesh: Mesh, count: int, seed: int) -> Float[np.ndarray, "P 3"]:
    """Points drawn evenly inside a closed mesh: those that a ray upwards leaves an odd number of times."""
    rng = stream(seed, "points in a mesh")
    low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    found, a, b, c = [np.zeros((0, 3))], *(mesh.vertices[mesh.faces[:, k]] for k in range(3))
    while sum(map(len, found)) < count:
        points = rng.uniform(low, high, (256, 3))
        # Twice the signed areas of the point against each edge, seen from above; a hit has all of one sign.
        edges = [
            (q[:, 0] - p[:, 0]) * (points[:, None, 1] - p[:, 1]) - (q[:, 1] - p[:, 1]) * (points[:, None, 0] - p[:, 0])
            for p, q in ((b, c), (c, a), (a, b))
        ]
        area = sum(edges)
        hit = ((edges[0] > 0) == (edges[1] > 0)) & ((edges[1] > 0) == (edges[2] > 0)) & (area != 0)
        height = (edges[0] * a[:, 2] + edges[1] * b[:, 2] + edges[2] * c[:, 2]) / np.where(area == 0, 1, area)
        found.append(points[(hit & (height > points[:, None, 2])).sum(axis=1) % 2 == 1])
    return np.concatenate(found)[:count]


def surfels_of(views: Views, recipe: Recipe = SURFELS, seed: int = 0, progress: Progress = quiet) -> Splats:
    """Surfels fitted to pictures of the object alone, as one group of its name."""
    from twinproof.reconstruct.splat_fit import fit

    fitted = fit(views, replace(recipe, flat=True), seed, progress=progress).splats
    return replace(fitted, group=np.zeros(len(fitted), np.int32), groups=views.groups)


def shape_of_surfels(
    views: Views,
    silhouettes: Sequence[Silhouette],
    recipe: Recipe = SURFELS,
    shape: ShapeRecipe = PLAIN,
    *,
    support: Plane | None = None,
    progress: Progress = quiet,
) -> tuple[Shape, Splats]:
    """The shape that fitted surfels cover, within the hull of the silhouettes, and the surfels."""
    splats = surfels_of(views, recipe, progress=progress)
    cameras: list[Camera] = [each.camera for each in silhouettes]
    return shape_from_surfels(splats, cameras, shape, silhouettes=silhouettes, support=support), splats
