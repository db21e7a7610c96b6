"""Following an object of a twin that has no background: masks and outlines first, then looks before what is behind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinproof.nouns.clip import Clip
from twinproof.nouns.errors import RecordingError, TwinError
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_files import read_mesh
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.splats import Splats
from twinproof.nouns.twin import Body, Twin
from twinproof.reconstruct.masks_space import project
from twinproof.reconstruct.motion_block import found_motion
from twinproof.reconstruct.object_block import FoundObject
from twinproof.reconstruct.prompts import Box, Prompt, Prompts
from twinproof.sim.grid import Plane
from twinproof.sim.track_pose import Track
from twinproof.sim.world import World

MARGIN = 0.3  # of its outline's width, by which it may have moved where nothing but its place is known
PLANE = 0  # MuJoCo's number of that type of geom


def has_background(twin: Twin) -> bool:
    """Whether surfels show what is behind the objects."""
    return any(body.splats and body.layer == "background" for body in twin.bodies)


def bare_of_robot(clips: Sequence[Clip]) -> bool:
    """Whether no robot is drawn: what moves may then be it, and what it hides is not known."""
    return all(clip.robot is None for clip in clips)


def followed_bare(
    twin: Twin,
    objects: Sequence[Body],
    splats: Splats,
    clips: Sequence[Clip],
    world: World,
    prompts: Prompts | None = None,
    progress: Progress = quiet,
) -> Track:
    """Where the twin's one object is in clips of still cameras: what is pointed at, or moves, or stands on the table.

    Where no robot is drawn, what moves may be the robot: without prompts it is then looked for around where it was.
    What a camera sees without it comes from the other times of its own pictures, and where it never leaves, is made up.
    """
    names = ", ".join(body.name for body in objects)
    if len(objects) != 1 or not all(clip.still for clip in clips):
        raise TwinError(
            f"the twin has no background splats, so {names} cannot be told from what is behind. One object before "
            "cameras that stand still can be followed without: reconstruct with a riding camera (--background-steps), "
            "or compose a twin with one object."
        )
    body = objects[0]
    if body.visual is None:
        raise TwinError(f"{body.name} has no mesh and the twin no background: it cannot be followed. Give it one.")
    mesh, T = read_mesh(twin.path(body.visual)), world.body_pose(body.name)
    found, table = FoundObject(body.name, mesh, splats, T, {}, (), ()), _table(world)
    own = {clip.camera: clip for clip in clips}

    def asked(prompts: Prompts) -> Track:
        return found_motion(own, found, "update", table, prompts, progress=progress).track

    def around() -> Track:
        return asked(Prompts((Prompt(body.name, boxes=_around(mesh.moved(T), clips)),)))

    if prompts is not None:
        return asked(prompts)
    if bare_of_robot(clips):
        return around()
    try:
        return asked(Prompts())
    except RecordingError:  # nothing stands out by itself: it is looked for around where it was
        return around()


def _around(mesh: Mesh, clips: Sequence[Clip]) -> tuple[Box, ...]:
    """A box in the first picture of each camera: where the object was, and a part of its size on every side."""
    boxes = []
    for clip in clips:
        x, y, depth = project(clip, 0, mesh.vertices).T
        if (depth <= 0).any():
            continue
        wide, high = clip.size
        more_x, more_y = MARGIN * np.ptp(x), MARGIN * np.ptp(y)
        low, top = max(float(x.min() - more_x), 0.0), max(float(y.min() - more_y), 0.0)
        right, low_end = min(float(x.max() + more_x), wide - 1.0), min(float(y.max() + more_y), high - 1.0)
        if low < right and top < low_end:
            boxes.append(Box(clip.camera, low, top, right, low_end, frame=0))
    return tuple(boxes)


def _table(world: World) -> Plane:
    """The plane that things stand on: the first one of the scene."""
    for k in np.flatnonzero(np.asarray(world.model.geom_type) == PLANE):
        normal = np.asarray(world.data.geom_xmat[k]).reshape(3, 3)[:, 2]
        return Plane(tuple(normal.tolist()), float(normal @ world.data.geom_xpos[k]))
    raise TwinError("the twin has neither background splats nor a table: nothing tells its object from what is behind.")
