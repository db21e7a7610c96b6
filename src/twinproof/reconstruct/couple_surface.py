"""Shape and looks from an object that moves: every picture seen from the object's own frame, by the poses found.

joint = couple(…)                                              poses, cameras, physics
refined = reshaped(mesh, clips, masks, joint.track, joint.cameras)   vertices and colours, first-order
and again, where more is to be had: the new mesh into the scene, the new splats into Seen (joint_shape does it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.clip import Clip
from twinproof.nouns.errors import MissingExtra, RecordingError
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.views import PosedView, Views
from twinproof.sim.track_pose import Track, poses_at

if TYPE_CHECKING:
    from jaxtyping import Float

    from twinproof.reconstruct.surface_refine import Refined, Refining
    from twinproof.sim.track_clips import Masks

LATE_S = 0.1  # a picture this far from any time at which the object was found is left out
GROUPS = ("object", "rest")


def object_views(
    clips: Sequence[Clip],
    masks: Masks,
    track: Track,
    cameras: Mapping[str, Float[np.ndarray, "4 4"]] | None = None,
    every: int = 1,
) -> Views:
    """The pictures as views of the object at rest in its own frame: T_world_camera of a view is T_object_camera.

    `masks` say where the object is; the robot's pixels are not known. `cameras` replaces the poses of cameras that
    stand still. `every` takes one picture out of so many.
    """
    found = track.time_s[~track.lost]
    views = []
    for clip in clips:
        if clip.camera not in masks:
            raise RecordingError(
                f"camera {clip.camera} has no masks of the object. Give them, or leave the camera out."
            )
        T_object = np.linalg.inv(poses_at(track, clip.time_s))
        for k in range(0, len(clip), every):
            if np.abs(found - clip.time_s[k]).min() > LATE_S:
                continue
            stands = (cameras or {}).get(clip.camera, clip.T_world_camera[k])
            mask = np.where(masks[clip.camera][k], 0, 1).astype(np.int32)
            if clip.robot is not None:
                mask[clip.robot[k]] = -1
            depth = None if clip.depth_m is None else clip.depth_m[k]
            views.append(
                PosedView(f"{clip.camera}_{k}", clip.rgb[k], clip.intrinsics, T_object[k] @ stands, depth, mask)
            )
    return Views(tuple(views), groups=GROUPS)


def reshaped(
    mesh: Mesh,
    clips: Sequence[Clip],
    masks: Masks,
    track: Track,
    cameras: Mapping[str, Float[np.ndarray, "4 4"]] | None = None,
    how: Refining | None = None,
    *,
    every: int = 1,
    progress: Progress = quiet,
) -> Refined:
    """The mesh (in the object's frame) and its looks, moved to where the pictures at these poses have them."""
    views = object_views(clips, masks, track, cameras, every)
    try:
        from twinproof.reconstruct.surface import bind
        from twinproof.reconstruct.surface_refine import refine, sights_of
    except ImportError as problem:
        raise MissingExtra(
            f"refining a shape needs {problem.name}. Install it: pip install 'twinproof[learn]'."
        ) from None
    return refine(bind(mesh), sights_of(views, GROUPS[0]), how, progress=progress)
