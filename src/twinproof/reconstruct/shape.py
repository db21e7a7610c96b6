"""The shape of an object, from depth, from masks, or from surfels: a closed mesh, and what had to be assumed.

masks  ──hull──────────────┐
depth  ──fusion────────────┼─> one signed field ─> marching cubes ─> one piece ─> smoothed ─> simplified
surfels ─median depth─┘    │        (inside: no view that knows denies it)
support plane ─────────────┘

Where depth was seen it decides, a little inside the hull; where it was not, the hull does. What no view saw is filled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import MeshError
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.splats import Splats
from twinproof.reconstruct.mesh_mend import Check, checked, largest_piece, meshed, simplified, smoothed
from twinproof.sim.grid import Field, Grid, Plane

if TYPE_CHECKING:
    from jaxtyping import Float

    from twinproof.sim.fusion import DepthMap
    from twinproof.sim.render_camera import Camera
    from twinproof.sim.silhouette import Silhouette

FEWEST = 2  # views
LEAST = 0.2  # of one straight look: what was seen at a slant only is no evidence against the hull


@dataclass(frozen=True)
class ShapeRecipe:
    """How a shape is made."""

    voxel_m: float | None = None  # None: `across` voxels along the longest side
    across: int = 160
    truncation_voxels: float = 3.0
    wrong_share: float = 0.0  # of the views whose masks may be wrong at a place
    hull_slack_voxels: float = 0.5  # how far outside the hull a depth may put the surface
    smooth_rounds: int = 8
    faces: int = 8000

    def __post_init__(self) -> None:
        if self.across < 8 or self.faces < 20 or (self.voxel_m is not None and not self.voxel_m > 0):
            raise MeshError(
                f"shape: {self.across} voxels across, {self.faces} faces and voxels of {self.voxel_m} m. Needed are at "
                "least 8 voxels, 20 faces, and a size above 0."
            )


@dataclass(frozen=True, eq=False)
class Shape:
    """A closed mesh in the frame of the cameras' world, what manifold3d says of it, and what a reader should know."""

    mesh: Mesh
    check: Check
    notes: tuple[str, ...] = ()  # what was found
    declared: tuple[str, ...] = ()  # what was assumed because nothing showed it

    @property
    def volume_m3(self) -> float:
        """Its volume."""
        return self.mesh.volume_m3


Box = tuple["Float[np.ndarray, '3']", "Float[np.ndarray, '3']"]  # two opposite corners, m
PLAIN = ShapeRecipe()


def shape_from_masks(
    silhouettes: Sequence[Silhouette],
    recipe: ShapeRecipe = PLAIN,
    *,
    support: Plane | None = None,
    box: Box | None = None,
) -> Shape:
    """The visual hull. Without a box it is found from the masks."""
    from twinproof.sim.hull import hull

    box = box or _box_of(silhouettes, support)
    grid = _grid(box, recipe)
    field = hull(grid, silhouettes, wrong_share=recipe.wrong_share, support=support)
    notes = (f"visual hull of {len(silhouettes)} views: hollows that no silhouette shows are filled",)
    return _finished(field, recipe, notes, _declared([s.camera for s in silhouettes], support))


def shape_from_depth(
    maps: Sequence[DepthMap],
    recipe: ShapeRecipe = PLAIN,
    *,
    silhouettes: Sequence[Silhouette] = (),
    support: Plane | None = None,
    box: Box | None = None,
) -> Shape:
    """From depth pictures, and the object's silhouettes where there are some.

    Depth may be 0 beside the object; depth of what stands behind it says that the way there is free.
    """
    from twinproof.sim.fusion import fuse
    from twinproof.sim.hull import cut_by, hull

    if not maps:
        raise MeshError("shape: there are no depth pictures. Give some, or use the masks alone.")
    box = box or (_box_of(silhouettes, support) if len(silhouettes) >= FEWEST else _box_of_points(maps, support))
    grid = _grid(box, recipe)
    cut = recipe.truncation_voxels * grid.voxel_m
    volume = fuse(grid, maps, cut)
    if not (volume.weight > 0).any():
        raise MeshError("shape: no depth picture shows anything inside the box. Check cameras, units and box.")
    if len(silhouettes) >= FEWEST:
        outer = hull(grid, silhouettes, wrong_share=recipe.wrong_share).distance_m
    else:
        outer = np.full(grid.shape, -cut, np.float32)
    slack = np.float32(recipe.hull_slack_voxels * grid.voxel_m)
    seen = volume.weight > LEAST
    distance = np.where(seen, np.maximum(volume.distance_m, outer - slack), outer)
    share = float(seen[np.abs(distance) < grid.voxel_m].mean()) if (np.abs(distance) < grid.voxel_m).any() else 0.0
    notes = [f"{len(maps)} depth pictures show {share:.0%} of the surface"]
    declared = _declared([m.camera for m in maps], support)
    if len(silhouettes) < FEWEST:
        declared += ("what no depth picture saw is taken as filled, up to the box and the support plane",)
    return _finished(cut_by(Field(grid, distance), support), recipe, tuple(notes), declared)


def shape_from_surfels(
    splats: Splats,
    cameras: Sequence[Camera],
    recipe: ShapeRecipe = PLAIN,
    *,
    silhouettes: Sequence[Silhouette] = (),
    support: Plane | None = None,
    box: Box | None = None,
) -> Shape:
    """From splats of the object alone: their median depth in each camera is fused like a depth picture's."""
    return shape_from_depth(depth_of_splats(splats, cameras), recipe, silhouettes=silhouettes, support=support, box=box)


def depth_of_splats(splats: Splats, cameras: Sequence[Camera]) -> list[DepthMap]:
    """What each camera would measure: the depth where half of the light is stopped, counting with the alpha."""
    from twinproof.sim.fusion import DepthMap
    from twinproof.sim.splat.render import render_many

    images = render_many(splats, cameras, what=("median", "alpha"))
    return [
        DepthMap(np.asarray(image.median), camera, np.clip(image.alpha, 0, 1))
        for image, camera in zip(images, cameras, strict=True)
        if image.median is not None
    ]


def _grid(box: Box, recipe: ShapeRecipe) -> Grid:
    low, high = (np.asarray(corner, float) for corner in box)
    voxel = recipe.voxel_m or float((high - low).max()) / recipe.across
    return Grid.over(low - 2 * voxel, high + 2 * voxel, voxel)


def _declared(cameras: Sequence[Camera], support: Plane | None) -> tuple[str, ...]:
    """What the support plane closes: nothing where a camera looked from below it."""
    if support is None:
        return ()
    above = [float(support.above(camera.T_world_camera[:3, 3])) for camera in cameras]
    if min(above) < 0:
        return ("it is cut by a support plane although a camera was below that",)
    return (
        f"never seen from below: closed flat at the support plane (normal {_words(support.normal)}, offset "
        f"{support.offset_m:.4f} m)",
    )


def _words(numbers: Sequence[float]) -> str:
    return " ".join(f"{x:.4g}" for x in numbers)


def _finished(field: Field, recipe: ShapeRecipe, notes: tuple[str, ...], declared: tuple[str, ...]) -> Shape:
    whole, left_out = largest_piece(meshed(field))
    soft = smoothed(whole, recipe.smooth_rounds)
    fewer, kept = simplified(soft, recipe.faces)
    check = checked(fewer)
    if not (fewer.closed and check.solid):
        raise MeshError(
            f"shape: the mesh of {len(fewer.faces)} faces does not bound a solid ({check.status}). Choose other voxels "
            "(--voxel), or fewer rounds of smoothing."
        )
    notes = (*notes, f"voxels of {1000 * field.grid.voxel_m:.3g} mm", *left_out, *kept)
    touching = [
        "xyz"[axis]
        for axis in range(3)
        if min(
            fewer.vertices[:, axis].min() - field.grid.origin[axis],
            field.grid.high[axis] - fewer.vertices[:, axis].max(),
        )
        < 0.5 * field.grid.voxel_m
    ]
    if touching:
        notes = (*notes, f"it reaches the border of its box along {' and '.join(touching)}: it may be cut off there")
    return Shape(fewer, check, notes, declared)


def _box_of(silhouettes: Sequence[Silhouette], support: Plane | None) -> Box:
    """A box around the hull: first around where the rays through the masks' centres meet, then around a coarse hull."""
    from twinproof.sim.hull import hull
    from twinproof.sim.render_camera import pixel_rays

    seen = [each for each in silhouettes if (each.mask == 1).sum() >= 4]
    if len(seen) < FEWEST:
        raise MeshError(
            f"shape: {len(seen)} views show the object; {FEWEST} at least are needed. Mend masks or prompts."
        )
    A, b, spread = np.zeros((3, 3)), np.zeros(3), []
    for each in seen:
        rays, T = pixel_rays(each.camera.lens)[each.mask == 1], each.camera.T_world_camera
        ahead = T[:3, :3] @ np.array([*rays.mean(axis=0), 1.0])
        ahead /= np.linalg.norm(ahead)
        across = np.eye(3) - np.outer(ahead, ahead)
        A, b = A + across, b + across @ T[:3, 3]
        spread.append((T[:3, 3], float(np.linalg.norm(rays - rays.mean(axis=0), axis=1).max())))
    centre = np.linalg.lstsq(A, b, rcond=None)[0]
    # The silhouette's reach around its centre, at the centre's distance; twice that, as a hull may stick out.
    radius = 2.0 * max(wide * float(np.linalg.norm(centre - place)) for place, wide in spread)
    for _ in range(3):
        low, high = centre - radius, centre + radius
        grid = Grid.over(low, high, radius / 40)
        # Half of the views that show the object must know a place: beyond their pictures two cones always meet.
        least = max(FEWEST, len(seen) // 2)
        rough = hull(grid, silhouettes, wrong_share=0.2, least_views=least, support=support)
        inside = np.argwhere(rough.distance_m < 0.5 * grid.voxel_m)
        if not len(inside):
            raise MeshError(
                "shape: the masks agree on no place: their cones do not meet. Check the cameras' poses, the clocks and "
                "whether all masks show the same object."
            )
        first, last = inside.min(axis=0), inside.max(axis=0)
        if (first > 0).all() and (last < np.array(grid.shape) - 1).all():
            margin = 1.5 * grid.voxel_m
            return grid.origin + grid.voxel_m * first - margin, grid.origin + grid.voxel_m * last + margin
        radius *= 2
    raise MeshError(
        "shape: the hull of the masks has no end within its box: too few directions. Give a box, or more views."
    )


def _box_of_points(maps: Sequence[DepthMap], support: Plane | None) -> Box:
    """A box around what the depth pictures show, down to the support plane."""
    from twinproof.sim.render_camera import pixel_rays

    points = [np.zeros((0, 3))]
    for each in maps:
        some = each.depth_m > 0
        rays, T = pixel_rays(each.camera.lens)[some], each.camera.T_world_camera
        points.append(np.c_[rays, np.ones(len(rays))] * each.depth_m[some][:, None] @ T[:3, :3].T + T[:3, 3])
    cloud = np.concatenate(points)
    if len(cloud) < 10:
        raise MeshError(f"shape: the depth pictures show {len(cloud)} points of the object. Check masks and depth.")
    low, high = cloud.min(axis=0), cloud.max(axis=0)
    if support is not None:
        feet = cloud - np.outer(support.above(cloud), support.normal)
        low, high = np.minimum(low, feet.min(axis=0)), np.maximum(high, feet.max(axis=0))
    return low, high
