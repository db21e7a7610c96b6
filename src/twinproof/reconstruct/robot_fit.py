"""Cameras and joint offsets by descending through the rasteriser on the robot's links: the step and its numbers.

unknown of each camera: turn (3), shift (3), log focal length, clock, readout, and by how much outlines are drawn too
                        large or too small (swell); of the robot: an offset for each joint
residual of a frame: links drawn over the plate − picture, blurred; slopes from how the drawn pixels move (robot_slopes)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.reconstruct.robot_compare import Colours, Cut, Outlines
from twinproof.reconstruct.robot_frames import RobotFrames
from twinproof.reconstruct.robot_look import Look
from twinproof.reconstruct.robot_slopes import Shown
from twinproof.sim.link_splats import LinkPoses, LinkSplats, moved
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.splat.render import SplatImage, render_many

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

CAMERA = ("turn_x", "turn_y", "turn_z", "shift_x", "shift_y", "shift_z", "log_focal", "clock", "readout", "swell")
MOST = (*[0.03] * 3, *[0.02] * 3, 0.01, 0.02, 0.01, 0.1)  # that one step changes of a camera
FLAT = 4e-3  # per px: slopes below this are noise
JOINT_STEP, CLOCK_STEP_S = 1e-3, 4e-3  # of links' motions, to either side
CLOCK_SIDES = (CLOCK_STEP_S, -CLOCK_STEP_S)
COVERED = 1.07  # inside a link so much more light is stopped than its discs draw
CLOCK, READOUT, SWELL = (CAMERA.index(name) for name in ("clock", "readout", "swell"))


@dataclass(frozen=True, eq=False)
class Sighting:
    """One camera as it is believed to be now. readout_s: the last row is taken so much later than the first.

    swell_px is what its pictures show the robot larger than it is drawn: blur, light, the discs themselves. Left out, a
    tenth of a pixel of it would pass for a longer lens.
    """

    T_world_camera: Float[np.ndarray, "4 4"]
    lens: Lens
    clock_s: float = 0.0  # robot time = stamp + what the rig says + this
    readout_s: float = 0.0
    swell_px: float = 0.0

    def changed(self, by: Float[np.ndarray, "10"]) -> Sighting:
        """After a small change of its unknowns."""
        from scipy.spatial.transform import Rotation

        T = np.array(self.T_world_camera)
        T[:3, :3] = T[:3, :3] @ Rotation.from_rotvec(by[:3]).as_matrix()
        T[:3, 3] += by[3:6]
        grown = float(np.exp(by[6]))
        lens = replace(self.lens, fx=self.lens.fx * grown, fy=self.lens.fy * grown)
        times = self.clock_s + float(by[CLOCK]), self.readout_s + float(by[READOUT])
        return Sighting(T, lens, *times, self.swell_px + float(by[SWELL]))

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
    compare: Colours | Outlines = Colours()
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
    cost: float
    episode: str = ""
    by_link: np.ndarray | None = None  # (links, unknowns, unknowns + 1): curvature and pull of each link's pixels

    def of_links(self, kept: Bool[np.ndarray, "G"]) -> Part:
        """The share of these links' pixels alone."""
        assert self.by_link is not None
        gone = self.by_link[~kept].sum(axis=0)
        left = np.where(kept[:, None, None], self.by_link, 0.0)
        return replace(self, hessian=self.hessian - gone[:, :-1], pull=self.pull - gone[:, -1], by_link=left)


def drawn_at(robot: Robot, guess: Guess, frames: RobotFrames, time_s: float, look: Look, level: Level) -> SplatImage:
    """The robot as the camera sees it at a stamp: colour, alpha and depth."""
    sight = guess.cameras[frames.camera]
    poses = robot.poses.at(angles_at(frames, sight, time_s) - guess.offsets)
    links, camera = robot.links(level.block), sight.camera(level.block)
    splats = links.towards(look.colours(links, poses), poses, camera, sight.swell_px / level.block)
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


def frame_part(
    robot: Robot, guess: Guess, frames: RobotFrames, k: int, look: Look, level: Level, by_link: bool = False
) -> Part:
    """Residual, slopes and weights of one frame, folded into normal equations; if asked, link by link too."""
    sight, time_s, width = guess.cameras[frames.camera], float(frames.time_s[k]), len(CAMERA) + len(robot.sought)
    picture = drawn_at(robot, guess, frames, time_s, look, level)
    shown = Shown.of(picture, sight.camera(level.block))
    links = len(robot.fine.splats.groups)
    if shown is None:
        none = np.zeros((links, width, width + 1)) if by_link else None
        return Part(frames.camera, np.zeros((width, width)), np.zeros(width), 0.0, frames.episode, none)
    seen = level.compare.over(picture, frames, k, Cut(level.block, shown.rows, shown.cols))
    off = blurred(seen.drawn - seen.wanted, level.blur_px)
    slopes = np.moveaxis(blurred(np.moveaxis(seen.slopes, 3, 0), level.blur_px), 0, 3)
    kept = (seen.trust > 0.05) & (np.abs(slopes).sum(axis=(2, 3)) > FLAT)  # what no motion changes says nothing
    place = np.arange(picture.alpha.shape[0], dtype=np.float32) / max(1, picture.alpha.shape[0] - 1) - 0.5
    rows = np.broadcast_to(place[shown.rows, None], kept.shape)[kept]
    motion = _motions(robot, guess, frames, time_s, shown.only(kept))
    motion[READOUT] = rows[:, None] * motion[CLOCK]
    J = -np.einsum("nca,pna->pnc", slopes[kept], motion)
    r = off[kept] + sight.readout_s * J[READOUT]  # the first order of a shutter that rolls
    return _folded(frames, r, J, seen.trust[kept], level, shown.link[kept] if by_link else None, links)


def _motions(
    robot: Robot, guess: Guess, frames: RobotFrames, time_s: float, shown: Shown
) -> Float[np.ndarray, "P N 2"]:
    """How every unknown moves the pixels; the readout's place is left empty."""
    sight = guess.cameras[frames.camera]
    angles = angles_at(frames, sight, time_s) - guess.offsets
    here = robot.poses.at(angles)
    out = np.zeros((len(CAMERA) + len(robot.sought), len(shown.link), 2), np.float32)
    out[:CLOCK] = shown.by_camera()
    late, early = (robot.poses.at(angles_at(frames, sight, time_s + s) - guess.offsets) for s in CLOCK_SIDES)
    out[CLOCK] = shown.by_links(here, early, late, 2 * CLOCK_STEP_S)
    out[SWELL] = shown.outwards
    for column, joint in enumerate(robot.sought):
        by = JOINT_STEP * np.eye(len(angles))[joint]
        less, more = robot.poses.at(angles - by), robot.poses.at(angles + by)  # a larger offset is a smaller angle
        out[len(CAMERA) + column] = shown.by_links(here, more, less, 2 * JOINT_STEP)
    return out


def _folded(
    frames: RobotFrames,
    r: Float[np.ndarray, "N C"],
    J: Float[np.ndarray, "P N C"],
    trust: Float[np.ndarray, "N"],
    level: Level,
    owner: np.ndarray | None,
    links: int,
) -> Part:
    """The normal equations of a frame's pixels."""
    size, scale, width = np.linalg.norm(r, axis=1), level.scale, len(J)
    w = trust / (1 + (size / scale) ** 2) ** 2
    flat, weights = J.reshape(width, -1), np.repeat(w, r.shape[1])
    # neighbours share their noise by the blur, and edges by what the model of the looks lacks
    shared = max(1.0, 4 * np.pi * level.blur_px**2)
    factor = 1 / (scale**2 * shared)
    hessian = factor * (flat * weights) @ flat.T
    pull = -factor * (flat * weights) @ r.reshape(-1)
    cost = factor * float((scale**2 * (1 - 1 / (1 + (size / scale) ** 2))).sum())
    shares = None
    if owner is not None:
        shares = np.zeros((links, width, width + 1))
        for link in np.unique(owner):
            mine = owner == link
            weighed = (J[:, mine] * w[mine][:, None]).reshape(width, -1)
            both = np.concatenate([J[:, mine].reshape(width, -1), -r[mine].reshape(1, -1)])
            shares[link] = factor * weighed @ both.T
    return Part(frames.camera, hessian, pull, cost, frames.episode, shares)


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
