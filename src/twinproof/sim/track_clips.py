"""An object followed through an episode: cameras that take their pictures at different times, plates, masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.clip import Clip
from twinproof.nouns.errors import RecordingError
from twinproof.nouns.progress import Progress, quiet
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.track_pose import Track, move_between, tracked
from twinproof.sim.track_sight import Sight, background_plate, sight

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from twinproof.nouns.splats import Splats
    from twinproof.sim.track import Tracker

    Masks = Mapping[str, Bool[np.ndarray, "T H W"]]
    Plates = Mapping[str, Float[np.ndarray, "H W 3"]]


def lens_of(clip: Clip) -> Lens:
    """The clip's lens."""
    width, height = clip.size
    mine = clip.intrinsics
    return Lens(width, height, mine.fx, mine.fy, mine.cx, mine.cy, mine.distortion)


def sight_of(
    clip: Clip, k: int, plates: Plates | Splats, masks: Masks | None = None, time_s: float | None = None
) -> Sight:
    """Picture k of a clip made ready. With masks for this camera its outline alone is followed."""
    camera = Camera(lens_of(clip), clip.T_world_camera[k])
    robot = None if clip.robot is None else clip.robot[k]
    lead_s = 0.0 if time_s is None else float(clip.time_s[k] - time_s)
    if masks is not None and clip.camera in masks:
        return sight(camera, None, None, robot, masks[clip.camera][k], lead_s)
    if isinstance(plates, Mapping):
        if clip.camera not in plates:
            raise RecordingError(
                f"camera {clip.camera} has no plate and no masks; there are plates of {', '.join(plates) or 'none'}. "
                "Give what it sees without the object, or leave the camera out."
            )
        if not clip.still:
            raise RecordingError(
                f"camera {clip.camera} moves, so one plate cannot be its background. Give background splats."
            )
        plate = plates[clip.camera]
    else:
        plate = background_plate(plates, camera)
    return sight(camera, clip.rgb[k], plate, robot, None, lead_s)


def times_of(clips: Sequence[Clip]) -> tuple[Float[np.ndarray, "T"], list[list[tuple[int, int]]]]:
    """Times to follow at, and for each the (clip, picture) that belong to it: at most half a period away."""
    if not clips:
        raise RecordingError("there is no clip to follow an object in. Give the clips of one episode.")
    lead = max(range(len(clips)), key=lambda c: len(clips[c]))
    time_s = np.array(clips[lead].time_s)
    apart_s = 0.5 * float(np.median(np.diff(time_s))) if len(time_s) > 1 else 0.05
    groups: list[list[tuple[int, int]]] = []
    for t in time_s:
        near = [(c, int(np.argmin(np.abs(clip.time_s - t)))) for c, clip in enumerate(clips)]
        groups.append([(c, k) for c, k in near if abs(clips[c].time_s[k] - t) <= apart_s * 1.01])
    return time_s, groups


def track(
    tracker: Tracker,
    clips: Sequence[Clip],
    plates: Plates | Splats,
    start: Float[np.ndarray, "4 4"] | None = None,
    *,
    masks: Masks | None = None,
    again: bool = True,
    progress: Progress = quiet,
) -> Track:
    """The object's pose at every time of the fullest clip, each from its own pictures: nothing is smoothed.

    Cameras that expose at other times see the object moved by its speed; with `again` a second pass takes that speed
    from the poses before and after instead of the last two.
    """
    time_s, groups = times_of(clips)
    tracker.restart(start, float(time_s[0]))
    poses = []
    for i, (t, group) in enumerate(zip(time_s, groups, strict=True)):
        poses.append(tracker.step([sight_of(clips[c], k, plates, masks, t) for c, k in group], float(t)))
        progress(i + 1, "tracking", len(time_s) * (1 + again))
    if again and len(time_s) > 2:
        first = [pose.T_world_object for pose in poses]
        for i, (t, group) in enumerate(zip(time_s, groups, strict=True)):
            low, high = max(i - 1, 0), min(i + 1, len(time_s) - 1)
            if poses[i].lost or poses[low].lost or poses[high].lost:
                continue
            speed = move_between(first[low], first[high]) / (time_s[high] - time_s[low])
            sights = [sight_of(clips[c], k, plates, masks, t) for c, k in group]
            poses[i] = tracker.step(sights, float(t), first[i], speed)
            progress(len(time_s) + i + 1, "tracking", 2 * len(time_s))
    return tracked(time_s, poses)
