"""Cameras and joint offsets by descending through the rasteriser on the robot's links: the step and its numbers.

unknown of each camera: turn (3), shift (3), log focal length, clock, readout; of the robot: an offset for each joint
residual of a frame: links drawn over the plate − picture, blurred; slopes by small changes of each unknown
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.reconstruct.robot_frames import RobotFrames, averaged
from twinproof.reconstruct.robot_look import Look, Samples, learn, seen
from twinproof.sim.link_splats import LinkPoses, LinkSplats, moved
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.splat.render import Device, SplatImage, render_many

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

CAMERA = ("turn_x", "turn_y", "turn_z", "shift_x", "shift_y", "shift_z", "log_focal", "clock", "readout")
STEP = (2e-3, 2e-3, 2e-3, 2e-3, 2e-3, 2e-3, 4e-3, 6e-3)  # of a finite difference; the readout's slope needs none
JOINT_STEP = 3e-3
COVERED = 1.07  # inside a link so much more light is stopped than its discs draw
OTHER = 0.08  # pixels that differ by more from the plate are not the scene behind
SHADOW = (0.45, 1.1)  # a shadow leaves so much of the light
NEAR, FAR = 0.04, 0.09  # colours closer to the plate than this are the plate's, those farther are not
CLOCK, READOUT = CAMERA.index("clock"), CAMERA.index("readout")


@dataclass(frozen=True, eq=False)
class Sighting:
    """One camera as it is believed to be now. readout_s: the last row is taken so much later than the first."""

    T_world_camera: Float[np.ndarray, "4 4"]
    lens: Lens
    clock_s: float = 0.0  # robot time = stamp + what the rig says + this
    readout_s: float = 0.0

    def changed(self, by: Float[np.ndarray, "9"]) -> Sighting:
        """After a small change of its unknowns."""
        from scipy.spatial.transform import Rotation

        T = np.array(self.T_world_camera)
        T[:3, :3] = T[:3, :3] @ Rotation.from_rotvec(by[:3]).as_matrix()
        T[:3, 3] += by[3:6]
        grown = float(np.exp(by[6]))
        lens = replace(self.lens, fx=self.lens.fx * grown, fy=self.lens.fy * grown)
        return Sighting(T, lens, self.clock_s + float(by[CLOCK]), self.readout_s + float(by[READOUT]))

    def camera(self, block: int = 1) -> Camera:
        """To draw with, in pictures averaged over blocks of pixels."""
        lens = self.lens
        if block > 1:
            lens = shrunk_lens(lens, block)
        return Camera(lens, self.T_world_camera)


def shrunk_lens(lens: Lens, block: float) -> Lens:
    """The lens of pictures averaged over blocks of pixels; a share of 1 undoes it."""
    size = round(lens.width // block), round(lens.height // block)
    cx, cy = ((c + 0.5) / block - 0.5 for c in (lens.cx, lens.cy))
    return Lens(*size, lens.fx / block, lens.fy / block, cx, cy, lens.distortion)


@dataclass(frozen=True, eq=False)
class Guess:
    """All that is sought: the cameras by name, and what each encoder shows more than the truth."""

    cameras: Mapping[str, Sighting]
    offsets: Float[np.ndarray, "J"]  # rad; 0 for joints that are not sought

    def changed(self, names: Sequence[str], sought: Sequence[int], by: np.ndarray) -> Guess:
        """After a step over the cameras in this order and the sought joints."""
        width = len(CAMERA)
        cameras = {n: self.cameras[n].changed(by[k * width : (k + 1) * width]) for k, n in enumerate(names)}
        offsets = np.array(self.offsets)
        offsets[list(sought)] += by[len(names) * width :]
        return Guess({**self.cameras, **cameras}, offsets)


@dataclass(frozen=True)
class Level:
    """How finely is looked: pictures averaged over blocks, then blurred; how many frames and rounds; which unknowns."""

    block: int
    blur_px: float
    scale: float  # misfits, in shares of full brightness, well beyond which a pixel counts little
    rounds: int
    frames: int = 99  # of each camera in each episode, at most
    free: tuple[str, ...] = CAMERA
    joints: bool = True
    outline: bool = False  # compare where the robot is, not what it looks like
    grow_px: int = 0  # by which the drawn robot is grown when the plates are made without it


@dataclass(frozen=True, eq=False)
class Robot:
    """The robot's links, covered as finely as pictures averaged over 1, 2 and 4 pixels ask for, and how they move."""

    covers: tuple[LinkSplats, LinkSplats, LinkSplats]
    poses: LinkPoses
    sought: tuple[int, ...]  # joints whose offsets are looked for

    @property
    def fine(self) -> LinkSplats:
        """For whole pictures."""
        return self.covers[0]

    def links(self, block: int) -> LinkSplats:
        """What is drawn in pictures averaged over such blocks."""
        return self.covers[min(2, block.bit_length() - 1)]


@dataclass(frozen=True, eq=False)
class Part:
    """A frame's share of the normal equations, over its camera's unknowns and the sought joints."""

    camera: str
    hessian: np.ndarray
    pull: np.ndarray
    by_link: np.ndarray  # (links, unknowns): the pull of each link's pixels
    cost: float


def drawn_at(robot: Robot, guess: Guess, frames: RobotFrames, time_s: float, look: Look, level: Level) -> SplatImage:
    """The robot as the camera sees it at a stamp: colour, alpha and depth."""
    sight = guess.cameras[frames.camera]
    poses = robot.poses.at(angles_at(frames, sight, time_s) - guess.offsets)
    links, camera = robot.links(level.block), sight.camera(level.block)
    splats = links.towards(look.colours(links, poses), poses, camera)
    what = ("colour", "alpha", "depth", "group")
    return whole(render_many(splats, [camera], moved=[moved(links, poses)], what=what)[0])


def whole(picture: SplatImage) -> SplatImage:
    """The same picture with what shines through between the discs covered by them."""
    more = np.minimum(picture.alpha * COVERED, 1) / np.maximum(picture.alpha, 1e-6)
    return replace(picture, colour=picture.colour * more[..., None], alpha=picture.alpha * more)


def angles_at(frames: RobotFrames, sight: Sighting, time_s: float) -> np.ndarray:
    """At the middle row: half of the readout later than the first."""
    row: np.ndarray = frames.angles.at(np.array([time_s + sight.clock_s + 0.5 * sight.readout_s]))[0]
    return row


def looks(robot: Robot, guess: Guess, all_frames: Sequence[RobotFrames], level: Level) -> dict[str, Look]:
    """The links' colours for each camera, learnt where the links are drawn to be now."""
    out, links = dict[str, Look](), robot.links(level.block)
    model = Look.of_model(robot.fine)
    for name in guess.cameras:
        samples = list[Samples]()
        for frames in (f for f in all_frames if f.camera == name):
            for k in frames.chosen[: level.frames]:
                picture = drawn_at(robot, guess, frames, float(frames.time_s[k]), model, level)
                poses = robot.poses.at(angles_at(frames, guess.cameras[name], float(frames.time_s[k])) - guess.offsets)
                assert picture.depth is not None
                rgb, plate = averaged(frames.rgb[k], level.block), averaged(frames.plate, level.block)
                other = (np.abs(rgb - plate).max(axis=2) > OTHER) | (averaged(frames.trust, level.block) < 0.9)
                camera = guess.cameras[name].camera(level.block)
                samples.append(seen(links, poses, camera, rgb, picture.depth, other))
        out[name] = learn(model, samples)
    return out


def frame_part(
    robot: Robot, guess: Guess, frames: RobotFrames, k: int, look: Look, level: Level, by_link: bool = False
) -> Part:
    """Residual, slopes and weights of one frame, folded into normal equations; if asked, pulls link by link."""
    sight, time_s = guess.cameras[frames.camera], float(frames.time_s[k])
    variants, placed = _variants(robot, guess, frames, time_s, level)
    here = placed[0]
    links = robot.links(level.block)
    splats = links.towards(look.colours(links, here), here, sight.camera(level.block))
    images = render_many(
        splats, [v.camera(level.block) for v in variants], Device(threads=1), moved=[moved(links, p) for p in placed]
    )
    images = [whole(image) for image in images]
    known = averaged(frames.trust, level.block)
    if level.outline:
        over = np.stack([image.alpha[..., None] for image in images])
        rgb, trust = averaged(foreground(frames.rgb[k], frames.plate), level.block)[..., None], known * (known > 0.9)
    else:
        plate, rgb = averaged(frames.plate, level.block), averaged(frames.rgb[k], level.block)
        over = np.stack([image.colour + (1 - image.alpha[..., None]) * plate for image in images])
        trust = np.maximum(known, images[0].alpha)
    off = blurred(over[0] - rgb, level.blur_px)
    steps = np.array([s * _coarse(level) for s in (*STEP, *([JOINT_STEP] * len(robot.sought)))])
    slopes = blurred((over[1:] - over[0]) / steps[:, None, None, None], level.blur_px)
    rows = (np.arange(off.shape[0], dtype=np.float32) / max(1, off.shape[0] - 1) - 0.5)[:, None, None]
    off = off + sight.readout_s * rows * slopes[CLOCK]  # the first order of a shutter that rolls
    columns = np.concatenate([slopes[:READOUT], (rows * slopes[CLOCK])[None], slopes[READOUT:]])
    owner = _owners(drawn_at(robot, guess, frames, time_s, look, level)) if by_link else None
    return _folded(frames, off, columns, trust, level, owner, len(links.splats.groups))


def _owners(picture: SplatImage) -> np.ndarray:
    """For every pixel the link that is drawn there or nearest."""
    from scipy.ndimage import distance_transform_edt

    assert picture.group is not None
    bare = (picture.group < 0) | (picture.alpha < 0.3)
    if bare.all():
        return np.zeros(bare.shape, int)
    near = distance_transform_edt(bare, return_distances=False, return_indices=True)
    return np.asarray(picture.group[tuple(near)])


def foreground(rgb: np.ndarray, plate: np.ndarray) -> Float[np.ndarray, "H W"]:
    """How sure it is, 0 … 1, that a pixel shows something else than the plate, or the plate in shadow."""
    shade = np.clip((rgb * plate).sum(axis=2) / np.maximum((plate * plate).sum(axis=2), 1e-4), *SHADOW)
    far = np.linalg.norm(rgb - shade[..., None] * plate, axis=2)
    share = np.clip((far - NEAR) / (FAR - NEAR), 0, 1)
    return np.asarray(share * share * (3 - 2 * share), np.float32)


def _coarse(level: Level) -> float:
    return float(np.clip(level.block * max(level.blur_px, 0.5) / 2, 0.7, 4))


def _variants(
    robot: Robot, guess: Guess, frames: RobotFrames, time_s: float, level: Level
) -> tuple[list[Sighting], list[np.ndarray]]:
    """As it is, then with every unknown changed a little: cameras and the places of the links."""
    sight, size = guess.cameras[frames.camera], _coarse(level)
    still = robot.poses.at(angles_at(frames, sight, time_s) - guess.offsets)
    variants, placed = [sight], [still]
    for j, step in enumerate(STEP):
        other = sight.changed(step * size * np.eye(len(CAMERA))[j])
        variants.append(other)
        placed.append(robot.poses.at(angles_at(frames, other, time_s) - guess.offsets) if j == CLOCK else still)
    angles = angles_at(frames, sight, time_s) - guess.offsets
    for joint in robot.sought:
        less = np.array(angles)
        less[joint] -= JOINT_STEP * size
        variants.append(sight)
        placed.append(robot.poses.at(less))
    return variants, placed


def _folded(
    frames: RobotFrames,
    off: np.ndarray,
    columns: np.ndarray,
    trust: np.ndarray,
    level: Level,
    owner: np.ndarray | None,
    links: int,
) -> Part:
    moving = np.abs(columns).sum(axis=(0, 3)) > 1e-3  # pixels that no unknown moves say nothing
    moving &= trust > 0.05
    J, r = columns[:, moving], off[moving]
    size = np.linalg.norm(r, axis=1) if len(r) else np.zeros(0)
    scale = level.scale
    w = trust[moving] / (1 + (size / scale) ** 2) ** 2
    width = len(columns)
    flat, weights = J.reshape(width, -1), np.repeat(w, r.shape[1])
    # neighbours share their noise by the blur, and edges by what the model of the looks lacks
    shared = max(1.0, 4 * np.pi * level.blur_px**2)
    factor = 1 / (scale**2 * shared)
    hessian = factor * (flat * weights) @ flat.T
    pull = -factor * (flat * weights) @ r.reshape(-1)
    shares = np.zeros((links, width))
    if owner is not None and len(r):
        each = -factor * (J * (w[:, None] * r)).sum(axis=2)
        np.add.at(shares, owner[moving], each.T)
    cost = factor * float((scale**2 * (1 - 1 / (1 + (size / scale) ** 2))).sum())
    return Part(frames.camera, hessian, pull, shares, cost)


def blurred(pictures: Float[np.ndarray, "*N H W 3"], sigma: float) -> np.ndarray:
    """A Gaussian blur along rows and columns."""
    if sigma <= 0:
        return pictures
    from scipy.ndimage import correlate1d

    reach = int(np.ceil(2.5 * sigma))
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    kernel = (kernel / kernel.sum()).astype(np.float32)
    once = correlate1d(pictures.astype(np.float32), kernel, axis=-2, mode="nearest")
    return np.asarray(correlate1d(once, kernel, axis=-3, mode="nearest"))


def robot_mask(
    robot: Robot, guess: Guess, frames: RobotFrames, time_s: float, look: Look, grow_px: int, block: int = 2
) -> Bool[np.ndarray, "H W"]:
    """Where the robot is drawn to be, grown by some pixels."""
    from scipy.ndimage import maximum_filter

    picture = drawn_at(robot, guess, frames, time_s, look, Level(block, 0, 1, 0))
    small: np.ndarray = picture.alpha > 0.3
    height, width = frames.rgb.shape[1:3]
    large = np.zeros((height, width), bool)
    grown = np.repeat(np.repeat(small, block, axis=0), block, axis=1)
    large[: grown.shape[0], : grown.shape[1]] = grown
    return np.asarray(maximum_filter(large, 2 * grow_px + 1)) if grow_px else large
