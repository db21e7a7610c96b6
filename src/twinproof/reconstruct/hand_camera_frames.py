"""Pictures of a camera on a moving link, with the joint angles of the moment; its clip once it is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.clip import Clip
from twinproof.nouns.errors import TwinError
from twinproof.nouns.parts import Calibration
from twinproof.nouns.rig import Intrinsics
from twinproof.reconstruct.robot_frames import Angles, joint_angles, shrunk
from twinproof.sim.link_splats import LinkPoses, LinkSplats, moved
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.splat.render import Device, render_many

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

HOUSING_M = 0.02  # shapes nearer to the camera than this are its own housing, which it does not see
STEP_S = 0.004  # of the finite difference that gives a velocity
SMOOTH_S = 0.03  # on each side, over which angles are smoothed: encoders are coarse and noisy
TURN_M = 0.3  # a turn by 1 rad counts as a way so long


@dataclass(frozen=True, eq=False)
class HandFrames:
    """Pictures of one episode. `scene` names those episodes in which table and light are the same: one mosaic each."""

    camera: str
    scene: str
    angles: Angles  # offsets of the encoders already taken off
    time_s: Float[np.ndarray, "F"]  # the camera's stamps with what the rig says about its clock
    rgb: Float[np.ndarray, "F H W 3"]  # uint8


@dataclass(frozen=True, eq=False)
class Hand:
    """The robot's links, how they move, and the link that carries the camera."""

    links: LinkSplats
    poses: LinkPoses
    link: str

    def __post_init__(self) -> None:
        if self.link not in self.links.splats.groups:
            raise TwinError(
                f"the robot has no link {self.link!r} to carry the camera; it has "
                f"{', '.join(self.links.splats.groups)}. Name one of them as mount.parent of the camera in rig.toml."
            )

    def T_world_link(self, angles: Float[np.ndarray, "J"]) -> Float[np.ndarray, "4 4"]:
        """Where the carrying link is."""
        return np.asarray(self.poses.at(angles)[self.links.splats.groups.index(self.link)])


def smooth(angles: Angles, reach_s: float = SMOOTH_S) -> Angles:
    """A parabola fitted around every sample: the noise of the encoders is less, the motion is the same."""
    from scipy.signal import savgol_filter

    step = float(np.median(np.diff(angles.time_s)))
    half = int(reach_s / step)
    if half < 2 or len(angles.time_s) < 2 * half + 1:
        return angles
    return Angles(angles.time_s, savgol_filter(angles.value, 2 * half + 1, 2, axis=0))


def hand_frames(
    calibration: Calibration, camera: str, offsets: Float[np.ndarray, "J"], hand: Hand, count: int | None = 120,
    scene: str | None = None,
) -> list[HandFrames]:  # fmt: skip
    """About `count` pictures of a camera over all episodes, spread along the way of its link; None: all pictures.

    `scene` is the label of episodes that share a table; without one every episode has a mosaic of its own.
    """
    rig, ways = calibration.recording.rig, list[tuple[HandFrames, np.ndarray]]()
    episodes = [e for e in calibration.recording.episodes if camera in e.videos]
    for episode in episodes:
        fresh = episode.fresh()
        raw = joint_angles(fresh, rig)
        angles = smooth(Angles(raw.time_s, raw.value - offsets))
        times = fresh.videos[camera].time_s + rig.cameras[camera].clock_offset_s
        name = episode.labels.get(scene, episode.id) if scene else episode.id
        frames = HandFrames(camera, name, angles, times, np.zeros((0, 1, 1, 3), np.uint8))
        ways.append((frames, way_of(hand, frames)))
    if not ways:
        raise TwinError(f"no episode has pictures of {camera}. Record with that camera on, or name another.")
    spacing = sum(float(way[-1]) for _, way in ways) / count if count else 0.0
    return [_read(f, way, spacing, e.fresh().videos[camera]) for (f, way), e in zip(ways, episodes, strict=True)]


def way_of(hand: Hand, frames: HandFrames) -> Float[np.ndarray, "F"]:
    """How far the link has come at each picture, m; turns count too."""
    poses = np.stack([hand.T_world_link(q) for q in frames.angles.at(frames.time_s)])
    step = np.linalg.norm(np.diff(poses[:, :3, 3], axis=0), axis=1)
    cosine = (np.einsum("fij,fij->f", poses[1:, :3, :3], poses[:-1, :3, :3]) - 1) / 2
    turn = np.arccos(np.clip(cosine, -1, 1))
    return np.concatenate([[0.0], np.cumsum(step + TURN_M * turn)])


def _read(frames: HandFrames, way: np.ndarray, spacing: float, video: object) -> HandFrames:
    from twinproof.nouns.video import Video

    assert isinstance(video, Video)
    places = np.arange(0.5 * spacing, way[-1], spacing) if spacing > 0 else way
    picked = np.unique(np.clip(np.searchsorted(way, places), 0, len(way) - 1)) if spacing else np.arange(len(way))
    if not len(picked):
        return replace(frames, time_s=frames.time_s[:0])
    with video.reader() as reader:
        rgb = np.stack([shrunk(reader.frame(int(k))) for k in picked])
    return replace(frames, time_s=frames.time_s[picked], rgb=np.clip(rgb + 0.5, 0, 255).astype(np.uint8))


def robot_masks(
    hand: Hand, cameras: Sequence[Camera], angles: Float[np.ndarray, "F J"], grow_px: int = 0, block: int = 2
) -> Bool[np.ndarray, "F H W"]:
    """Where the robot is drawn before each camera, grown by some pixels; the camera's own housing is not drawn.

    Discs bulge over edges that are near: cover the links finely (5 mm) where the outline matters.
    """
    from scipy.ndimage import maximum_filter

    lens = cameras[0].lens
    small = Lens(
        -(-lens.width // block), -(-lens.height // block), lens.fx / block, lens.fy / block,
        (lens.cx + 0.5) / block - 0.5, (lens.cy + 0.5) / block - 0.5, lens.distortion,
    )  # fmt: skip
    poses = [hand.poses.at(q) for q in angles]
    splats = hand.links.splats
    centres = np.concatenate([splats.means, np.ones((len(splats), 1))], 1)
    link = splats.groups.index(hand.link)
    T_link_camera = np.linalg.inv(poses[0][link]) @ cameras[0].T_world_camera
    far = np.linalg.norm(centres[:, :3] - T_link_camera[:3, 3], axis=1) > HOUSING_M
    shown = splats.take(far | (splats.group != link))
    placed = [moved(hand.links, each) for each in poses]
    drawn = render_many(shown, [Camera(small, c.T_world_camera) for c in cameras], Device(threads=1), moved=placed)
    out = np.zeros((len(cameras), lens.height, lens.width), bool)
    for mask, image in zip(out, drawn, strict=True):
        grown = maximum_filter(image.alpha > 0.3, 2 * -(-grow_px // block) + 1) if grow_px else image.alpha > 0.5
        mask[:] = np.repeat(np.repeat(grown, block, 0), block, 1)[: lens.height, : lens.width]
    return out


def clip_of(
    frames: HandFrames, hand: Hand, T_link_camera: np.ndarray, lens: Lens, clock_s: float, readout_s: float
) -> Clip:
    """The pictures with where the camera was when the middle row was taken, and where the robot is drawn."""
    times = frames.time_s + clock_s + 0.5 * readout_s
    angles = frames.angles.at(times)
    cameras = [Camera(lens, hand.T_world_link(q) @ T_link_camera) for q in angles]
    poses = np.stack([camera.T_world_camera for camera in cameras])
    intrinsics = Intrinsics(lens.fx, lens.fy, lens.cx, lens.cy, lens.distortion)
    return Clip(frames.camera, times, frames.rgb, intrinsics, poses, robot=robot_masks(hand, cameras, angles))
