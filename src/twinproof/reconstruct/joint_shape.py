"""Vertices and looks by turns with the joint problem: poses tell the shape, and the shape tells poses.

first = refine(thing, motion)                     poses, cameras, physics, on the shape as it was found
shape = reshaped_by(thing, …, first)              vertices, then looks, first-order, by all pictures at these poses
second = refine(shape, motion in its looks)       and once more on the new shape

The second is what comes out only where the shape is sound (closed, nothing below the table, no other size) and where
outlines in pictures that moved no vertex are met as well as before, or better; else the first, and it says why.
Vertices follow outlines alone: colours of coarse pictures hold them back (measured on two planted objects).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import MeshError, MissingExtra, TwinproofError
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.splats import Splats
from twinproof.nouns.views import Views
from twinproof.reconstruct.couple_surface import object_views
from twinproof.reconstruct.motion_block import FoundMotion, in_colours, splats_over
from twinproof.reconstruct.object_block import BANDS, FoundObject, baked, outline_iou
from twinproof.sim.grid import Plane
from twinproof.sim.mesh_raster import rasterise
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.splat.placed import placed

if TYPE_CHECKING:
    from jaxtyping import Float

    from twinproof.nouns.clip import Clip
    from twinproof.nouns.mesh import Mesh
    from twinproof.reconstruct.joint_block import FoundJoint
    from twinproof.sim.track_pose import Track

PICTURES = 48  # of the handled episode, over all cameras
APART = 4  # every so-many-th of them is kept apart, to judge by
FEWEST_PX = 30  # of the object, in a picture that counts
BELOW_M = 2e-4  # under the table is no vertex by more
RESIZED = 0.5  # by no larger share may the volume change: tips of a hull of few cameras are a third of it
STEPS = 200
AREA = 0.03  # of the least surface: pictures from many sides leave little open

Refine = Callable[[FoundObject, FoundMotion], "FoundJoint"]


def together(
    thing: FoundObject,
    motion: FoundMotion,
    clips: Sequence[Clip],
    table: Plane,
    refine: Refine,
    progress: Progress = quiet,
) -> FoundJoint:
    """What `refine` tells on the object's shape, and on the shape that vertices have at its poses if that is better.

    `clips` are those of the handled episode.
    """
    first = refine(thing, motion)
    before, now = resized(thing, first.scale), replace(motion, track=first.track)
    if thing.made_by:
        return replace(first, reshaped=f"vertices stay as {thing.made_by} made them")
    try:
        shape = reshaped_by(before, now, clips, first, table, progress)
        _check(before.mesh, shape, table)
        second = refine(shape, relooked(shape, now, clips))
    except TwinproofError as problem:
        return replace(first, reshaped=f"vertices stay: {problem}")
    met = [
        outlines_met(each, handled_views(each, now, clips, joint.track, joint.cameras)[1])
        for each, joint in ((before, first), (resized(shape, second.scale), second))
    ]
    said = f"outlines in pictures kept apart are met by {np.mean(met[0]):.1%} before and {np.mean(met[1]):.1%} after"
    if worse(*met):
        return replace(first, reshaped=f"vertices stay: {said}")
    way_m = np.linalg.norm(shape.mesh.vertices - before.mesh.vertices, axis=1)
    return replace(
        second,
        shape=shape,
        first_cost=first.first_cost,
        moves=first.moves + second.moves,
        reshaped=f"vertices moved by {1e3 * float(np.sqrt(np.mean(way_m**2))):.2f} mm (rms): {said}",
    )


def resized(thing: FoundObject, scale: float) -> FoundObject:
    """The object so many times as large, its lowest point where it was."""
    lowest = float((thing.mesh.vertices @ thing.T_world_object[2, :3]).min())
    T = np.array(thing.T_world_object)
    T[2, 3] -= (scale - 1) * lowest
    splats = placed(thing.splats, np.eye(4), scale)
    return replace(thing, mesh=thing.mesh.moved(np.eye(4), scale), splats=splats, T_world_object=T)


def handled_views(
    thing: FoundObject,
    motion: FoundMotion,
    clips: Sequence[Clip],
    track: Track,
    cameras: Mapping[str, np.ndarray] | None = None,
) -> tuple[Views, Views]:
    """Pictures of the handled episode as views of the object where it stood: those that are fitted, those kept apart.

    Groups are those of its views at rest: 1 is the object, 0 what is behind it, -1 not known.
    """
    own = [clip for clip in clips if clip.camera in motion.masks]
    every = max(1, sum(map(len, own)) // PICTURES)
    seen = object_views(own, motion.masks, track, cameras, every).views
    shown = []
    for view in seen:
        assert view.mask is not None
        if (view.mask == 0).sum() >= FEWEST_PX:
            mask = np.where(view.mask == 0, 1, np.where(view.mask == 1, 0, -1))
            shown.append(replace(view, T_world_camera=thing.T_world_object @ view.T_world_camera, mask=mask))
    groups = ("other", thing.name)
    fitted = tuple(view for k, view in enumerate(shown) if k % APART != APART // 2)
    return Views(fitted, groups=groups), Views(tuple(shown[APART // 2 :: APART]), groups=groups)


def reshaped_by(
    thing: FoundObject,
    motion: FoundMotion,
    clips: Sequence[Clip],
    found: FoundJoint,
    table: Plane,
    progress: Progress = quiet,
) -> FoundObject:
    """The object, its vertices and looks moved to where pictures have them, at rest and at the poses found.

    Figures on held-out views of its looks are dropped: they are of the looks before.
    """
    try:
        from twinproof.reconstruct.surface import bind
        from twinproof.reconstruct.surface_refine import Refining, coloured, refine, sights_of
    except ImportError as problem:
        raise MissingExtra(
            f"refining a shape needs {problem.name}. Install it: pip install 'twinproof[learn]'."
        ) from None
    rest = () if thing.views is None else thing.views.views
    handled, _ = handled_views(thing, motion, clips, found.track, found.cameras)
    views = Views((*rest, *handled.views), groups=("other", thing.name))
    T, sights = thing.T_world_object, sights_of(views, thing.name)
    how = Refining(
        steps=STEPS, area_weight=AREA, least_volume=1 - RESIZED, colour_pull=0.0, support=table, colour_steps=1
    )
    mesh = refine(bind(thing.mesh.moved(T), per_face=1, group=thing.name), sights, how, progress=progress).mesh
    splats = coloured(mesh, sights, thing.name, Refining(bands=BANDS), progress)
    iou = {view.name: outline_iou(splats, sight) for view, sight in zip(rest, sights, strict=False)}
    back = np.linalg.inv(T)
    made = replace(
        thing,
        mesh=mesh.moved(back),
        splats=placed(splats, back),
        silhouette_iou={**thing.silhouette_iou, **iou},
        held_out={name: value for name, value in thing.held_out.items() if not name.startswith("object")},
    )
    return replace(baked(made, views), views=thing.views)


def relooked(thing: FoundObject, motion: FoundMotion, clips: Sequence[Clip]) -> FoundMotion:
    """The motion with splats on the object's new surface, in the colours of the episode at its poses."""
    bare = {name: plate.astype(np.float32) / 255 for name, plate in motion.plates.items()}
    splats: Splats = splats_over(thing, {clip.camera: clip for clip in clips})
    return replace(motion, splats=in_colours(splats, tuple(clips), bare, motion.track))


def worse(before: Float[np.ndarray, "N"], after: Float[np.ndarray, "N"]) -> bool:
    """Whether views are met less well, by more than the mean's standard error; without views nothing is borne out."""
    if not len(before):
        return True
    less = before - after
    return bool(less.mean() > less.std() / np.sqrt(max(1, len(less) - 1)))


def outlines_met(thing: FoundObject, views: Views) -> Float[np.ndarray, "N"]:
    """By how much the mesh's outline overlaps that of the masks, where they are known, in each view."""
    mesh, met = thing.mesh.moved(thing.T_world_object), []
    for view in views.views:
        assert view.mask is not None
        k, (height, width) = view.intrinsics, view.mask.shape
        lens = Lens(width, height, k.fx, k.fy, k.cx, k.cy, k.distortion)
        drawn = rasterise(mesh, Camera(lens, view.T_world_camera)).face >= 0
        known, shown = view.mask >= 0, view.mask == 1
        met.append((drawn & shown & known).sum() / max(1, ((drawn | shown) & known).sum()))
    return np.array(met, float)


def _check(before: Mesh, thing: FoundObject, table: Plane) -> None:
    """Refuses a shape that no scene should hold."""
    mesh = thing.mesh
    lowest = float(np.min(table.above(mesh.moved(thing.T_world_object).vertices)))
    grown = mesh.volume_m3 / before.volume_m3 - 1
    if not mesh.closed:
        raise MeshError("moved, they left the surface open.")
    if lowest < -BELOW_M:
        raise MeshError(f"moved, they went {-1e3 * lowest:.1f} mm below the table.")
    if abs(grown) > RESIZED:
        raise MeshError(f"moved, they changed the volume by {grown:+.0%}.")
