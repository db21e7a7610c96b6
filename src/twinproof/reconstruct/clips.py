"""What calibrated cameras saw in an episode: clips on the robot's clock, with the robot drawn into masks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinproof.nouns.clip import Clip
from twinproof.nouns.episode import Episode
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.rig import Rig
from twinproof.reconstruct.calibration_block import FoundCamera, FoundRobot
from twinproof.reconstruct.depth_beside import depth_of
from twinproof.reconstruct.hand_camera_frames import Hand, HandFrames, clip_of, smooth
from twinproof.reconstruct.hand_views import Ride, agreed
from twinproof.reconstruct.robot_fit import Robot
from twinproof.reconstruct.robot_frames import Angles, joint_angles
from twinproof.sim.grid import Plane
from twinproof.sim.link_splats import moved
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.splat.render import render

GROW_PX = 3  # around the drawn robot, where the table is looked at
FRAMES = 60  # pictures of a camera in an episode that are looked at


def clips_of(
    episode: Episode, rig: Rig, found: FoundRobot, robot: Robot | None, frames: int = FRAMES, progress: Progress = quiet
) -> dict[str, Clip]:
    """What the calibrated still cameras saw in one episode, on the robot's clock, with the robot drawn into masks.

    Without a robot nothing is drawn: what hides an object is not known.
    """
    angles = None if robot is None else joint_angles(episode, rig)
    less = offsets_of(rig, found)
    clips = dict[str, Clip]()
    for name, camera in found.cameras.items():
        if name not in episode.videos:
            continue
        video, pose = episode.videos[name], camera.mount.T_parent_camera
        picked = np.unique(np.linspace(0, len(video) - 1, min(frames, len(video))).round().astype(int))
        times = video.time_s[picked] + rig.cameras[name].clock_offset_s + camera.clock_offset_s + camera.readout_s / 2
        with video.reader() as reader:
            rgb = np.stack([_coloured(reader.frame(int(k))) for k in picked])
        k = camera.intrinsics
        lens = Lens(rgb.shape[2], rgb.shape[1], k.fx, k.fy, k.cx, k.cy, k.distortion)
        masks = None
        if robot is not None and angles is not None:
            masks = _drawn(robot, angles.at(times) - less, Camera(lens, pose))
        deep = depth_of(rig, episode, name, lens, picked.tolist())
        clips[name] = Clip(name, times, rgb, k, np.broadcast_to(pose, (len(times), 4, 4)), masks, deep, numbers=picked)
        progress(len(clips), f"clip of {name}", len(found.cameras))
    return clips


def _drawn(robot: Robot, rows: np.ndarray, view: Camera) -> np.ndarray:
    """Where the robot is in each picture (T, H, W), its joints as in each row."""
    grey, masks = np.full((len(robot.fine.geom), 3), 0.5), list[np.ndarray]()
    for row in rows:
        placed = robot.poses.at(row)
        splats = robot.fine.towards(grey, placed, view)
        masks.append(render(splats, view, moved=moved(robot.fine, placed), what=("alpha",)).alpha > 0.3)
    return np.stack(masks)


def hand_clip(
    episode: Episode, rig: Rig, name: str, camera: FoundCamera, robot: Robot, found: FoundRobot, table: Plane,
    every: int = 1,
) -> Clip:  # fmt: skip
    """What a calibrated riding camera saw in one episode, on the robot's clock; all pictures agree on the table."""
    raw = joint_angles(episode, rig)
    angles = smooth(Angles(raw.time_s, raw.value - offsets_of(rig, found)))
    video = episode.videos[name]
    picked = np.arange(0, len(video), every)
    with video.reader() as reader:
        rgb = np.stack([_coloured(reader.frame(int(k))) for k in picked])
    frames = HandFrames(name, episode.id, angles, video.time_s[picked] + rig.cameras[name].clock_offset_s, rgb)
    k = camera.intrinsics
    lens = Lens(camera.width, camera.height, k.fx, k.fy, k.cx, k.cy, k.distortion)
    hand = hand_of(robot, camera.mount.parent)
    clip = clip_of(frames, hand, camera.mount.T_parent_camera, lens, camera.clock_offset_s, camera.readout_s)
    begin = clip.time_s - 0.5 * camera.readout_s
    ends = [
        np.stack([hand.T_world_link(q) @ camera.mount.T_parent_camera for q in angles.at(at)])
        for at in (begin, begin + camera.readout_s)
    ]
    ride = agreed(Ride(lens, rgb, ~grown(clip.robot, GROW_PX), np.stack(ends, axis=1)), table)
    deep = depth_of(rig, episode, name, lens, picked.tolist())
    return replace(clip, T_world_camera=ride.at(0.5), sweep=ride.sweep, depth_m=deep, numbers=picked)


def grown(masks: np.ndarray | None, by_px: int) -> np.ndarray:
    """Masks (T, H, W), each grown by some pixels."""
    from scipy.ndimage import maximum_filter

    assert masks is not None
    return np.asarray(maximum_filter(masks, (1, 2 * by_px + 1, 2 * by_px + 1)))


def hand_of(robot: Robot, link: str) -> Hand:
    """The robot as a riding camera sees it."""
    return Hand(robot.links(2), robot.poses, link)


def offsets_of(rig: Rig, found: FoundRobot) -> np.ndarray:
    """What the encoders show too much, in the rig's order."""
    return np.array([found.offsets.get(name, 0.0) for name in rig.joint_names])


def _coloured(picture: np.ndarray) -> np.ndarray:
    return picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, axis=2)
