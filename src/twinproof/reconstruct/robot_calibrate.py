"""Where the cameras are, how their clocks run and what the encoders show too much: from the robot's own pictures.

No marker and no click: the links, drawn with the logged joint angles, must cover the robot in every picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.rig import Rig
from twinproof.reconstruct import robot_fit as fit
from twinproof.reconstruct.robot_fit import CAMERA, Guess, Level, Part, Robot, Sighting
from twinproof.reconstruct.robot_frames import RobotFrames, with_plate
from twinproof.reconstruct.robot_look import Look
from twinproof.sim.render_camera import Lens

if TYPE_CHECKING:
    from jaxtyping import Float

TURN, POSE = CAMERA[:3], CAMERA[:6]
LEVELS = (
    Level(4, 2.0, 0.6, 6, 4, TURN, joints=False, outline=True, grow_px=14),
    Level(4, 1.5, 0.6, 5, 6, (*POSE, "clock"), joints=False, outline=True, grow_px=10),
    Level(4, 1.0, 0.3, 5, 6, (*POSE, "clock"), grow_px=7),
    Level(2, 1.5, 0.3, 5, 6, (*POSE, "clock", "log_focal"), grow_px=5),
    Level(1, 1.5, 0.25, 4, 6, grow_px=3),
    Level(1, 1.0, 0.20, 2, 6, grow_px=3),
)
# what is believed beforehand of the rig's mounts, lenses and clocks, and of encoders' zeros, as standard deviations
PRIOR = {"turn": 0.06, "shift": 0.025, "log_focal": 0.02, "clock": 0.05, "readout": 0.015, "joint": 0.04}
DOUBT = 4.5  # standard errors were too small by this factor on a lab recording (seed 201): what no scatter shows
DAMPING = 1e-3  # Levenberg's, of the diagonal
WEAK = 0.5  # an uncertainty that shrank by less than this share was hardly told by the pictures


@dataclass(frozen=True, eq=False)
class Calibrated:
    """The cameras and offsets found, their covariance over `names`, and how well the drawn robot matches."""

    guess: Guess
    names: tuple[str, ...]  # "front.turn_x", …, "joint.waist"
    covariance: Float[np.ndarray, "P P"]
    looks: dict[str, Look]
    frames: tuple[RobotFrames, ...]  # with the last plates
    weak: tuple[str, ...]  # what the pictures hardly told, in sentences


def calibrate(
    robot: Robot,
    joint_names: Sequence[str],
    start: Guess,
    all_frames: Sequence[RobotFrames],
    levels: Sequence[Level] = LEVELS,
    progress: Progress = quiet,
) -> Calibrated:
    """Coarse to fine: colours of the links and Gauss–Newton steps in turn."""
    guess, cameras = start, tuple(start.cameras)
    looks = dict.fromkeys(cameras, Look.of_model(robot.fine))
    total, done = sum(level.rounds for level in levels), 0
    frames = list(all_frames)
    for level in levels:
        frames = [_replated(robot, guess, f, looks[f.camera], level) for f in frames]
        for _ in range(level.rounds):
            looks = looks if level.outline else fit.looks(robot, guess, frames, level)
            parts = _parts(robot, guess, frames, looks, level)
            step = _step(parts, cameras, robot, guess, start, level)
            guess = guess.changed(cameras, robot.sought, step)
            done += 1
            progress(done, f"cameras and joints, pictures at 1/{level.block}", total)
    names = (*(f"{c}.{u}" for c in cameras for u in CAMERA), *(f"joint.{joint_names[j]}" for j in robot.sought))
    parts = _parts(robot, guess, frames, looks, levels[-1], by_link=True)
    covariance = _covariance(parts, cameras, robot)
    weak = _weak(covariance, names, _prior(cameras, len(robot.sought)))
    return Calibrated(guess, names, covariance, looks, tuple(frames), weak)


def _replated(robot: Robot, guess: Guess, frames: RobotFrames, look: Look, level: Level) -> RobotFrames:
    return with_plate(frames, lambda time_s: fit.robot_mask(robot, guess, frames, time_s, look, level.grow_px))


def _parts(
    robot: Robot,
    guess: Guess,
    frames: Sequence[RobotFrames],
    looks: dict[str, Look],
    level: Level,
    by_link: bool = False,
) -> list[Part]:
    jobs = [(f, k) for f in frames for k in _spread(f.chosen, level.frames)]
    return [fit.frame_part(robot, guess, f, k, looks[f.camera], level, by_link) for f, k in jobs]


def _spread(chosen: tuple[int, ...], most: int) -> list[int]:
    if len(chosen) <= most:
        return list(chosen)
    return [chosen[i] for i in np.linspace(0, len(chosen) - 1, most).round().astype(int)]


def _places(camera: str, cameras: Sequence[str], joints: int) -> np.ndarray:
    first = cameras.index(camera) * len(CAMERA)
    return np.concatenate(
        [np.arange(first, first + len(CAMERA)), len(cameras) * len(CAMERA) + np.arange(joints)]
    ).astype(int)


def _summed(parts: Sequence[Part], cameras: Sequence[str], joints: int) -> tuple[np.ndarray, np.ndarray]:
    size = len(cameras) * len(CAMERA) + joints
    H, g = np.zeros((size, size)), np.zeros(size)
    for part in parts:
        at = _places(part.camera, cameras, joints)
        H[np.ix_(at, at)] += part.hessian
        g[at] += part.pull
    return H, g


def _prior(cameras: Sequence[str], joints: int) -> np.ndarray:
    one = [PRIOR[name.split("_")[0] if name != "log_focal" else name] for name in CAMERA]
    return np.array([*(one * len(cameras)), *([PRIOR["joint"]] * joints)]) ** -2.0


def _free(cameras: Sequence[str], joints: int, level: Level) -> np.ndarray:
    one = [name in level.free for name in CAMERA]
    return np.array([*(one * len(cameras)), *([level.joints] * joints)])


def _behind(guess: Guess, start: Guess, cameras: Sequence[str], sought: Sequence[int]) -> np.ndarray:
    """How far the guess has gone from the start, in the unknowns' own units."""
    from scipy.spatial.transform import Rotation

    out = list[float]()
    for name in cameras:
        now, then = guess.cameras[name], start.cameras[name]
        turn = Rotation.from_matrix(then.T_world_camera[:3, :3].T @ now.T_world_camera[:3, :3]).as_rotvec()
        shift = now.T_world_camera[:3, 3] - then.T_world_camera[:3, 3]
        focal = float(np.log(now.lens.fx / then.lens.fx))
        out += [*turn, *shift, focal, now.clock_s - then.clock_s, now.readout_s - then.readout_s]
    return np.array([*out, *(guess.offsets - start.offsets)[list(sought)]])


def _step(
    parts: Sequence[Part],
    cameras: Sequence[str],
    robot: Robot,
    guess: Guess,
    start: Guess,
    level: Level,
) -> np.ndarray:
    joints = len(robot.sought)
    H, g = _summed(parts, cameras, joints)
    prior = _prior(cameras, joints)
    H[np.diag_indices_from(H)] += prior
    g -= prior * _behind(guess, start, cameras, robot.sought)
    free = _free(cameras, joints, level)
    step = np.zeros(len(g))
    A = H[np.ix_(free, free)]
    step[free] = np.linalg.solve(A + DAMPING * np.diag(np.diag(A)), g[free])
    most = np.tile([0.03] * 3 + [0.02] * 3 + [0.01, 0.02, 0.01], len(cameras))
    return np.clip(step, -np.concatenate([most, [0.02] * joints]), np.concatenate([most, [0.02] * joints]))


def _covariance(parts: Sequence[Part], cameras: Sequence[str], robot: Robot) -> np.ndarray:
    """Sandwich: the scatter of the pulls about their sum, seen through the curvature.

    Pictures err together: a link whose drawn outline is a little off is so in all of them. So what scatters is, beside
    each picture, the pull of each link in each camera over all pictures.
    """
    joints = len(robot.sought)
    H, _ = _summed(parts, cameras, joints)
    H[np.diag_indices_from(H)] += _prior(cameras, joints)
    inverse = np.linalg.inv(H)
    meat = np.zeros_like(H)
    count = max(2, len(parts))
    for part in parts:
        at = _places(part.camera, cameras, joints)
        meat[np.ix_(at, at)] += np.outer(part.pull, part.pull) * count / (count - 1)
    for name in cameras:
        at = _places(name, cameras, joints)
        shares = np.sum([part.by_link for part in parts if part.camera == name], axis=0)
        count = max(2, int((np.abs(shares).sum(axis=1) > 0).sum()))
        meat[np.ix_(at, at)] += shares.T @ shares * count / (count - 1)
    return np.asarray(inverse @ (DOUBT**2 * meat + np.diag(_prior(cameras, joints))) @ inverse)


def _weak(covariance: np.ndarray, names: tuple[str, ...], prior: np.ndarray) -> tuple[str, ...]:
    """Directions in which the pictures narrowed what was believed by less than half."""
    scale = np.sqrt(prior)
    values, vectors = np.linalg.eigh(covariance * np.outer(scale, scale))
    out = list[str]()
    for value, vector in zip(values[::-1], vectors.T[::-1], strict=True):
        if np.sqrt(value) < WEAK or len(out) == 5:
            break
        main = [names[i] for i in np.argsort(-np.abs(vector))[:4] if abs(vector[i]) > 0.25]
        left = min(float(np.sqrt(value)), 1.0)
        out.append(f"the pictures hardly tell {' together with '.join(main)}: {left:.0%} of the doubt is left")
    return tuple(out)


def start_of(
    rig: Rig, cameras: Sequence[str], size: Mapping[str, tuple[int, int]], shrink: Mapping[str, int] | None = None
) -> Guess:
    """What the rig states: where calibration starts. `size` is the pictures' size as they are used."""
    sights = {}
    for name in cameras:
        camera, block = rig.cameras[name], (shrink or {}).get(name, 1)
        lens, mount, (width, height) = camera.intrinsics, camera.mount, size[name]
        assert lens is not None
        assert mount is not None
        whole = Lens(width * block, height * block, lens.fx, lens.fy, lens.cx, lens.cy, lens.distortion)
        sights[name] = Sighting(mount.T_parent_camera, fit.shrunk_lens(whole, block))
    return Guess(sights, np.zeros(len(rig.joints)))
