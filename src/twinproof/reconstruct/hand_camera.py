"""Where a camera sits on the link that carries it, its focal length, clock and readout: without markers.

The table is a plane with texture. Every picture of it, laid on texels with the pose that the joints give, must agree
with all others; cameras that stand still and are known already (pinned) lie there too. Gauss–Newton, coarse to fine, on
what each picture differs from the mosaic of all, with the mosaic moving along.

unknown: turn (3, rad, camera frame), shift (3, m, link frame), log focal length, clock, readout
beside:  the plane's height and what is left of every joint's offset, which else would pass for an error of the mount
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.clip import Clip
from twinproof.nouns.errors import TwinError
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.rig import Mount
from twinproof.nouns.views import PosedView
from twinproof.reconstruct.hand_camera_frames import STEP_S, Hand, HandFrames, clip_of, robot_masks, way_of
from twinproof.reconstruct.hand_camera_plane import Laid, Sight, Texels, channels_of, folded, lay, mosaic_of
from twinproof.sim.grid import Plane
from twinproof.sim.render_camera import Camera, Lens, pixel_rays

if TYPE_CHECKING:
    from jaxtyping import Float

NAMES = ("turn_x", "turn_y", "turn_z", "shift_x", "shift_y", "shift_z", "log_focal", "clock", "readout")
FOCAL, CLOCK, READOUT, HEIGHT = 6, 7, 8, 9
LEAST_WAY_M = 0.05  # a camera that moves less cannot be calibrated by moving
LARGEST_M = 0.0067  # on the table; a pixel that covers more of it is not looked at
SMALLEST = 0.7  # texels are at least such a share of the middle pixel
LEAST_PIXELS = 0.05  # share of the pixels that must see the table
SHARED = 25.0  # neighbouring texels share their noise: so many count as one at most
TOGETHER = 6  # pictures in a row that are one unit of the scatter
WEAK = 0.7  # an unknown whose deviation is still such a share of what was believed before was hardly measured
MOST = np.array([0.02] * 3 + [0.006] * 3 + [0.01, 0.025, 0.01, 0.003])  # that one step changes


@dataclass(frozen=True)
class Level:
    """How finely is looked: texels, the misfit beyond which one counts little, pixels around the robot, rounds."""

    texel_m: float
    scale: float  # of log brightness
    grow_px: int
    rounds: int


LEVELS = (
    Level(0.020, 0.3, 14, 6), Level(0.012, 0.3, 12, 3), Level(0.008, 0.2, 10, 3), Level(0.005, 0.15, 6, 4),
    Level(0.003, 0.05, 3, 5),
)  # fmt: skip


@dataclass(frozen=True)
class Prior:
    """What is believed beforehand, as standard deviations; the mount's come from the rig and are at least these."""

    turn_rad: float = 0.01
    shift_m: float = 0.003
    log_focal: float = 0.01
    clock_s: float = 0.04
    readout_s: float = 0.01
    height_m: float = 0.002  # of the plane: mats and sheets have a thickness
    joint_rad: float = 0.0017  # or m, that is left of an encoder's offset
    ripple_rad: float = 0.0015  # or m, by which a joint is off at one picture and not at another: gears, play, bending


@dataclass(frozen=True, eq=False)
class Start:
    """What the rig states about the camera."""

    mount: Mount
    lens: Lens
    clock_s: float = 0.0  # robot time = stamp + what the rig says + this, when the first row is taken
    readout_s: float = 0.01  # the last row is taken so much later
    prior: Prior = Prior()


@dataclass(frozen=True, eq=False)
class HandCamera:
    """The camera found. `covariance` is over `names`: the camera's nine, the plane's height, the joints' offsets."""

    T_link_camera: Float[np.ndarray, "4 4"]
    lens: Lens
    clock_s: float
    readout_s: float
    height_m: float  # the plane is so much above the given one
    joints_rad: Float[np.ndarray, "J"]  # that the encoders still show too much
    covariance: Float[np.ndarray, "P P"]
    names: tuple[str, ...]
    notes: tuple[str, ...]

    def changed(self, by: Float[np.ndarray, "P"]) -> HandCamera:
        """After a small change of its unknowns."""
        from scipy.spatial.transform import Rotation

        T, grown = np.array(self.T_link_camera), float(np.exp(by[FOCAL]))
        T[:3, :3] = T[:3, :3] @ Rotation.from_rotvec(by[:3]).as_matrix()
        T[:3, 3] += by[3:6]
        lens = replace(self.lens, fx=self.lens.fx * grown, fy=self.lens.fy * grown)
        return replace(
            self, T_link_camera=T, lens=lens, clock_s=self.clock_s + float(by[CLOCK]),
            readout_s=self.readout_s + float(by[READOUT]), height_m=self.height_m + float(by[HEIGHT]),
            joints_rad=self.joints_rad + by[HEIGHT + 1 :],
        )  # fmt: skip

    def clip(self, frames: HandFrames, hand: Hand) -> Clip:
        """The pictures with where the camera was at the middle row, and where the robot is drawn."""
        return clip_of(frames, hand, self.T_link_camera, self.lens, self.clock_s, self.readout_s)


def hand_camera(
    frames: Sequence[HandFrames],
    hand: Hand,
    start: Start,
    plane: Plane | None = None,
    pinned: Sequence[tuple[str, PosedView]] = (),
    levels: Sequence[Level] = LEVELS,
    progress: Progress = quiet,
) -> HandCamera:
    """The mount, lens, clock and readout that make all pictures of the table agree.

    pinned: (scene, view) of cameras that stand still; only pixels whose mask is 0, or all without one, are looked at.
    They are taken as exact: a view that is off by more than a millimetre or two on the table does more harm than good.
    """
    plane = plane or Plane()
    frames = [f for f in frames if len(f.time_s)]
    _check_motion(frames, hand)
    count = frames[0].angles.value.shape[1]
    names = (*NAMES, "plane_height", *(f"joint_{k}" for k in range(count)))
    now = HandCamera(
        start.mount.T_parent_camera, start.lens, start.clock_s, start.readout_s, 0.0, np.zeros(count),
        np.zeros((len(names), len(names))), names, (),
    )  # fmt: skip
    work = _Work(frames, hand, plane, pinned, start, [channels_of(f.rgb.astype(np.float32) / 255) for f in frames])
    rounds, done, temper = sum(level.rounds for level in levels), 0, 1.0
    sums = None
    for level in levels:
        masks = work.masks(now, level.grow_px)
        texels = work.texels(now, level.texel_m)
        for _ in range(level.rounds):
            sums = work.sums(now, masks, texels, level.scale)
            temper = _temper(sums, work.precision)
            now = now.changed(_step(sums, work, now, temper))
            done += 1
            progress(done, f"table in texels of {1000 * level.texel_m:.3g} mm", rounds)
    sums = work.sums(now, masks, texels, level.scale)
    covariance = _covariance(sums, work.precision, _temper(sums, work.precision))
    return replace(now, covariance=covariance, notes=_notes(covariance, work, now, sums))


@dataclass(frozen=True, eq=False)
class Sums:
    """The normal equations of all pictures; `pulls` is each picture's own."""

    hessian: np.ndarray
    pull: np.ndarray
    pulls: np.ndarray
    cost: float


@dataclass(frozen=True, eq=False)
class _Work:
    """What does not change from round to round."""

    frames: Sequence[HandFrames]
    hand: Hand
    plane: Plane
    pinned: Sequence[tuple[str, PosedView]]
    start: Start
    pictures: Sequence[np.ndarray]

    @property
    def precision(self) -> np.ndarray:
        """Of the unknowns, before anything is measured."""
        prior, mount = self.start.prior, self.start.mount
        turn, shift = max(prior.turn_rad, mount.rotation_sd_rad), max(prior.shift_m, mount.position_sd_m)
        joints = [prior.joint_rad] * self.frames[0].angles.value.shape[1]
        sds = [turn] * 3 + [shift] * 3 + [prior.log_focal, prior.clock_s, prior.readout_s, prior.height_m, *joints]
        return np.array(sds) ** -2.0

    def gone(self, now: HandCamera) -> np.ndarray:
        """How far the guess is from the start, in the unknowns' own units."""
        from scipy.spatial.transform import Rotation

        then = self.start.mount.T_parent_camera
        turn = Rotation.from_matrix(then[:3, :3].T @ now.T_link_camera[:3, :3]).as_rotvec()
        shift = now.T_link_camera[:3, 3] - then[:3, 3]
        focal = float(np.log(now.lens.fx / self.start.lens.fx))
        times = now.clock_s - self.start.clock_s, now.readout_s - self.start.readout_s
        return np.array([*turn, *shift, focal, *times, now.height_m, *now.joints_rad])

    def cameras(self, now: HandCamera, frames: HandFrames) -> tuple[list[Camera], np.ndarray]:
        """At the middle row of every picture, and the joints' angles then."""
        angles = frames.angles.at(frames.time_s + now.clock_s + 0.5 * now.readout_s) - now.joints_rad
        return [Camera(now.lens, self.hand.T_world_link(q) @ now.T_link_camera) for q in angles], angles

    def masks(self, now: HandCamera, grow_px: int) -> list[np.ndarray]:
        """Pixels that do not show the robot."""
        return [~robot_masks(self.hand, *self.cameras(now, f), grow_px=grow_px) for f in self.frames]

    def texels(self, now: HandCamera, texel_m: float) -> Texels:
        """A grid over what the pictures see well of the plane."""
        points, sizes, asked = [], [], 0
        rays = pixel_rays(now.lens)[::16, ::16].reshape(-1, 2)
        normal = np.array(self.plane.normal)
        for camera in (c for f in self.frames for c in self.cameras(now, f)[0]):
            T = camera.T_world_camera
            ahead = np.concatenate([rays, np.ones((len(rays), 1))], 1) @ T[:3, :3].T
            falls, height = ahead @ normal, float(self.plane.above(T[:3, 3]))
            depth = -height / np.where(falls < -1e-6, falls, -1e-6)
            slant = -falls / np.linalg.norm(ahead, axis=1)
            pixel_m = depth / (now.lens.fx * np.maximum(slant, 1e-6))
            fine = (falls < 0) & (height > 0) & (pixel_m < LARGEST_M)
            sizes.append(pixel_m[fine])
            points.append(T[:3, 3] + depth[fine, None] * ahead[fine])
            asked += len(rays)
        found = np.concatenate(points)
        if len(found) < LEAST_PIXELS * asked:
            raise TwinError(
                f"camera {self.frames[0].camera}: {100 * len(found) / asked:.0f} % of its pixels see the table; needed "
                f"are {100 * LEAST_PIXELS:.0f} %. Check where the rig puts the camera and how high the table is, "
                "or record episodes in which it looks at the table from nearby."
            )
        least_m = SMALLEST * float(np.median(np.concatenate(sizes)))  # texels below this would hardly be seen
        return Texels.over(self.plane, found, max(texel_m, least_m), now.height_m)

    def sights(self, now: HandCamera, frames: HandFrames) -> list[Sight]:
        """Poses at the begin and the end of each readout, and how every unknown moves the camera."""
        begin = frames.time_s + now.clock_s
        ends = np.stack([frames.angles.at(begin), frames.angles.at(begin + now.readout_s)], 1) - now.joints_rad
        around = [frames.angles.at(begin + 0.5 * now.readout_s + s) - now.joints_rad for s in (-STEP_S, STEP_S)]
        T_camera_link = np.linalg.inv(now.T_link_camera)
        out = []
        for k in range(len(begin)):
            poses = np.stack([T_camera_link @ np.linalg.inv(self.hand.T_world_link(q)) for q in ends[k]])
            before, after = (self.hand.T_world_link(a[k]) @ now.T_link_camera for a in around)
            twists = np.zeros((len(now.names), 6))
            twists[:3, :3] = np.eye(3)
            twists[3:6, 3:] = T_camera_link[:3, :3].T
            twists[FOCAL, 0] = 1
            twists[[CLOCK, READOUT]] = _twist(before, after) / (2 * STEP_S)
            twists[HEIGHT, 3:] = -poses[0][:3, :3] @ np.array(self.plane.normal)
            middle = 0.5 * (around[0][k] + around[1][k])
            for j in range(len(now.joints_rad)):
                by = 1e-3 * np.eye(len(middle))[j]
                low, high = (self.hand.T_world_link(middle - s * by) @ now.T_link_camera for s in (-1, 1))
                twists[HEIGHT + 1 + j] = _twist(low, high) / 2e-3
            out.append(Sight(now.lens, poses, twists))
        return out

    def sums(self, now: HandCamera, masks: Sequence[np.ndarray], texels: Texels, scale: float) -> Sums:
        """Over all scenes: what the pictures of each differ from its mosaic."""
        hessians, pulls, cost = list[np.ndarray](), list[np.ndarray](), 0.0
        texels = replace(texels, corner=texels.corner + _rise(self.plane, texels, now.height_m))
        for scene in dict.fromkeys(f.scene for f in self.frames):
            laid, sights = list[Laid](), list[Sight]()
            for f, pictures, use in zip(self.frames, self.pictures, masks, strict=True):
                if f.scene == scene:
                    mine = self.sights(now, f)
                    sights += mine
                    laid += [lay(p, u, s, texels) for p, u, s in zip(pictures, use, mine, strict=True)]
            for view in (view for name, view in self.pinned if name == scene):
                sight = _pinned(view, len(now.names), self.plane)
                use = np.ones(view.rgb.shape[:2], bool) if view.mask is None else view.mask == 0
                sights.append(sight)
                laid.append(lay(channels_of(view.rgb.astype(np.float32) / 255), use, sight, texels))
            curved, own, misfit = folded(laid, sights, mosaic_of(laid, texels, scale), texels, READOUT, FOCAL)
            hessians.append(curved)
            pulls.append(own)
            cost += misfit
        return _without_ripple(np.concatenate(hessians), np.concatenate(pulls), cost, self.start.prior.ripple_rad)


def _without_ripple(hessians: np.ndarray, pulls: np.ndarray, cost: float, ripple_rad: float) -> Sums:
    """The sums after every picture's own small errors of the joints are taken out (marginalised)."""
    H, g, joints = hessians / SHARED, pulls / SHARED, slice(HEIGHT + 1, None)
    inside = H[:, joints, joints] + np.eye(H.shape[1] - HEIGHT - 1) / ripple_rad**2
    gain = np.linalg.solve(inside, H[:, joints, :]).transpose(0, 2, 1)
    own = g - np.einsum("fpj,fj->fp", gain, g[:, joints])
    return Sums((H - gain @ H[:, joints, :]).sum(axis=0), own.sum(axis=0), own, cost)


def _rise(plane: Plane, texels: Texels, height_m: float) -> np.ndarray:
    return np.asarray((plane.offset_m + height_m - texels.corner @ np.array(plane.normal)) * np.array(plane.normal))


def _twist(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Turn and shift from one pose to the other, in the camera's frame between."""
    from scipy.spatial.transform import Rotation

    change = np.linalg.inv(before) @ after
    turn = Rotation.from_matrix(change[:3, :3]).as_rotvec()
    return np.concatenate([turn, Rotation.from_rotvec(-0.5 * turn).as_matrix() @ change[:3, 3]])


def _pinned(view: PosedView, count: int, plane: Plane) -> Sight:
    """A camera that stands still: of all unknowns only the plane's height moves what it sees of the table."""
    lens, (height, width) = view.intrinsics, view.rgb.shape[:2]
    T = np.linalg.inv(view.T_world_camera)
    twists = np.zeros((count, 6))
    twists[HEIGHT, 3:] = -T[:3, :3] @ np.array(plane.normal)
    return Sight(Lens(width, height, lens.fx, lens.fy, lens.cx, lens.cy, lens.distortion), np.stack([T, T]), twists)


def _temper(sums: Sums, precision: np.ndarray) -> float:
    """By how much pictures scatter more than their pixels would on their own: their weight is less by so much."""
    meat = sums.pulls.T @ sums.pulls
    inside = np.linalg.solve(sums.hessian + np.diag(precision), meat)
    return max(1.0, float(np.trace(inside)) / len(precision))


def _step(sums: Sums, work: _Work, now: HandCamera, temper: float) -> np.ndarray:
    precision = work.precision
    H = sums.hessian / temper + np.diag(precision)
    step = np.linalg.solve(H, sums.pull / temper - precision * work.gone(now))
    most = np.concatenate([MOST, np.full(len(step) - len(MOST), 0.003)])
    return np.clip(step, -most, most)


def _covariance(sums: Sums, precision: np.ndarray, temper: float) -> np.ndarray:
    """Sandwich: the scatter of the pulls, and the prior's, seen through the curvature.

    Pictures that follow each other share what the joints are off by, so groups of them are the units.
    """
    inverse = np.linalg.inv(sums.hessian / temper + np.diag(precision))
    own = np.add.reduceat(sums.pulls, np.arange(0, len(sums.pulls), TOGETHER), axis=0)
    count = max(2, len(own))
    meat = own.T @ own * count / (count - 1) / temper**2
    return np.asarray(inverse @ (meat + np.diag(precision)) @ inverse)


def _notes(covariance: np.ndarray, work: _Work, now: HandCamera, sums: Sums) -> tuple[str, ...]:
    """What stayed weak, in sentences; nothing at all about the camera's direction is an error."""
    left = np.sqrt(np.diag(covariance) * work.precision)
    if (left[:3] > WEAK).all():
        raise TwinError(
            f"camera {work.frames[0].camera}: its pictures say nothing about where it looks. They are blurred or dark, "
            "or the table is plain. Record sharp pictures of a table with texture: a mat, a newspaper, wood."
        )
    units = dict.fromkeys(NAMES[:3], ("rad", 1.0)) | dict.fromkeys(NAMES[3:6], ("mm", 1e3))
    units |= {"log_focal": ("%", 100.0), "clock": ("ms", 1e3), "readout": ("ms", 1e3)}
    sd = np.sqrt(np.diag(covariance))
    return tuple(
        f"{name} was hardly measured: its deviation is {sd[k] * units[name][1]:.2g} {units[name][0]}, "
        f"{100 * left[k]:.0f} % of what was believed beforehand."
        for k, name in enumerate(NAMES)
        if left[k] > WEAK
    )


def _check_motion(frames: Sequence[HandFrames], hand: Hand) -> None:
    if not frames:
        raise TwinError("there are no pictures of the camera on the robot. Record with that camera on.")
    way = sum(float(way_of(hand, f)[-1]) for f in frames)
    if way < LEAST_WAY_M:
        raise TwinError(
            f"camera {frames[0].camera} moves by {1000 * way:.0f} mm in all; at least {1000 * LEAST_WAY_M:.0f} mm are "
            "needed. Record episodes in which its link moves and turns, such as a scan of the table."
        )
