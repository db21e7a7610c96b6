"""Cameras that the rig gives, and no robot's model: objects alone, from what is pointed at.

given_room(calibration, table, physical)   the rig's cameras as they are, in an empty scene
turned(bench, thing, shaping)              the object followed where it moves, and the shape that its sides show

Nothing is calibrated and no robot is drawn, so what hides the object is told from it by its looks alone. A mask is then
often too small, and the hull passes over the few masks at a place that would cut most off (WRONG_SHARE).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import TwinError, TwinproofError
from twinproof.nouns.hashing import content_hash
from twinproof.nouns.parts import Calibration
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.views import Views
from twinproof.reconstruct.assemble import Physical, Room, Thing
from twinproof.reconstruct.calibration_block import FoundCamera, FoundRobot
from twinproof.reconstruct.joint_shape import handled_views, outlines_met, worse
from twinproof.reconstruct.motion_block import MOVED_M, FoundMotion, found_motion
from twinproof.reconstruct.moving import Workbench
from twinproof.reconstruct.object_block import FoundObject, Shaping, baked, outline_iou, pulled
from twinproof.reconstruct.robot_frames import still_cameras
from twinproof.reconstruct.shape import ShapeRecipe, shape_from_masks
from twinproof.sim.grid import Plane
from twinproof.sim.scene import Scene
from twinproof.sim.splat.placed import placed

if TYPE_CHECKING:
    from twinproof.nouns.clip import Clip
    from twinproof.nouns.episode import Episode
    from twinproof.nouns.rig import Rig

EMPTY = '<mujoco model="room"><compiler angle="radian"/><worldbody/></mujoco>'
FORMAT = "twinproof/reconstruct-turned/1"
WRONG_SHARE = 0.2  # of the masks at a place may lack it: an arm that nobody draws hides a part of the object
FULL = 0.5  # of the largest mask of its camera (nine tenths of them are smaller): smaller ones are mostly hidden
TOLD = "cameras are as rig.toml gives them: declared; no robot is drawn, so objects are told from it by their looks"


def given_room(calibration: Calibration, table: Plane, physical: Physical) -> Room:
    """An empty scene and the rig's cameras that stand in the world."""
    rig = calibration.recording.rig
    cameras = {
        name: found
        for name in still_cameras(calibration.recording)
        if (found := _as_given(calibration, rig, name)) is not None
    }
    if not cameras:
        raise TwinError(
            "--cameras given: no camera of the rig has pictures, a lens and a place in the world. State "
            "[cameras.NAME] intrinsics and [cameras.NAME.mount] with parent = 'world' in rig.toml and ingest again, or "
            "name the --robot to have cameras found."
        )
    return Room(Scene(EMPTY), None, FoundRobot(cameras, {}, {}, {}, (TOLD,), {}), {}, table, physical)


def _as_given(calibration: Calibration, rig: Rig, name: str) -> FoundCamera | None:
    video = next((e.videos[name] for e in calibration.recording.episodes if name in e.videos), None)
    lens, mount = rig.cameras[name].intrinsics, rig.cameras[name].mount
    if video is None or lens is None or mount is None:
        return None
    found = FoundCamera(video.width, video.height, lens, mount, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    sds = np.repeat([mount.rotation_sd_rad, mount.position_sd_m], 3)  # a rig states one component's
    return found.placed(mount.T_parent_camera, 1.0, np.diag([*sds, 0.0]) ** 2) if sds.any() else found


def turned(bench: Workbench, thing: FoundObject, shaping: Shaping) -> tuple[Thing, tuple[str, ...]]:
    """The object followed through the episode of its shape, and what its other sides tell; and what to say."""
    if thing.went_m <= MOVED_M:
        return Thing(thing), (f"{thing.name} stands where it stood, so its sides are those that cameras saw at rest",)
    try:
        found = bench.motion(thing, shaping, bench.room.table)
        if found is None:
            return Thing(thing), (f"{thing.name} was not followed: it moves too little to tell its other sides",)
        motion, episode = found
        clips = bench.clips(episode)
        key = content_hash([bench.key, episode.id, FORMAT])

        def make() -> FoundObject:
            return by_its_sides(thing, motion, clips, bench.room.table, shaping.device, bench.progress)

        shaped = bench.store.once(key, make, FoundObject)
        motion = bench.store.once(
            content_hash([key, "motion"]), lambda: _again(bench, shaped, episode, clips, shaping), FoundMotion
        )
    except TwinproofError as problem:
        return Thing(thing), (f"{thing.name} was not followed: {problem}",)
    lost = (
        f"{thing.name} was followed through episode {episode.id[:8]} and lost in {motion.track.lost.mean():.0%} of it"
    )
    return Thing(shaped, followed=motion.track), (*motion.notes, lost)


def _again(
    bench: Workbench, thing: FoundObject, episode: Episode, clips: Sequence[Clip], shaping: Shaping
) -> FoundMotion:
    own = {clip.camera: clip for clip in clips}
    return found_motion(own, thing, episode.id, bench.room.table, shaping.prompts, shaping.segmenter, bench.progress)


def by_its_sides(
    thing: FoundObject,
    motion: FoundMotion,
    clips: Sequence[Clip],
    table: Plane,
    device: str = "cpu",
    progress: Progress = quiet,
) -> FoundObject:
    """The hull of the outlines at all poses, pulled by them, where pictures kept apart are met as well as before."""
    from twinproof.reconstruct.surface_refine import sights_of

    fitted, apart = (_full(each) for each in handled_views(thing, motion, clips, motion.track))
    if thing.made_by:
        return replace(thing, notes=(*thing.notes, f"its shape stays as {thing.made_by} made it"))
    if not apart.views:
        said = "its shape at rest stays: it was found in too few pictures of its motion to judge another by"
        return replace(thing, notes=(*thing.notes, said))
    sights, T = sights_of(fitted, thing.name), thing.T_world_object
    recipe = ShapeRecipe(across=96, faces=3000, wrong_share=WRONG_SHARE)
    made = shape_from_masks([sight.silhouette for sight in sights], recipe, support=table)
    found, back = pulled(made.mesh, sights, thing.name, table, False, progress, device), np.linalg.inv(T)
    new = replace(thing, mesh=found.mesh.moved(back), splats=placed(found.splats, back))
    met = outlines_met(thing, apart), outlines_met(new, apart)
    said = f"outlines in pictures kept apart are met by {np.mean(met[0]):.1%} by its rest's hull"
    said += f" and {np.mean(met[1]):.1%} by that of {len(sights)} pictures of it elsewhere"
    if worse(*met):
        return replace(thing, notes=(*thing.notes, f"its shape at rest stays: {said}"))
    iou = {view.name: outline_iou(found.splats, sight) for view, sight in zip(fitted.views, sights, strict=True)}
    notes = (*thing.notes, *made.notes, f"its shape is that of its sides: {said}")
    declared = tuple(dict.fromkeys((*thing.declared, *made.declared)))
    held_out = {name: value for name, value in thing.held_out.items() if not name.startswith("object")}
    new = replace(new, silhouette_iou=iou, notes=notes, declared=declared, held_out=held_out)
    return replace(baked(new, fitted), views=thing.views)


def _full(views: Views) -> Views:
    """Those views that show most of the object, as its camera sees it."""
    sizes = dict[str, list[int]]()
    for view in views.views:
        sizes.setdefault(_camera(view.name), []).append(_shown(view.mask))
    least = {name: FULL * float(np.quantile(each, 0.9)) for name, each in sizes.items()}
    kept = tuple(view for view in views.views if _shown(view.mask) >= least[_camera(view.name)])
    return replace(views, views=kept)


def _camera(view: str) -> str:
    return view.rpartition("_")[0]


def _shown(mask: np.ndarray | None) -> int:
    assert mask is not None
    return int((mask == 1).sum())
