"""Where the cameras are, how their clocks run and what the encoders show too much: from the robot's own pictures.

No marker and no click: the links, drawn with the logged joint angles, must cover the robot in every picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.rig import Mount, Rig
from twinproof.reconstruct import robot_fit as fit
from twinproof.reconstruct.robot_compare import Colours, Outlines
from twinproof.reconstruct.robot_doubt import LOOSE, Unknowns, held, jackknifed, weak
from twinproof.reconstruct.robot_fit import CAMERA, Guess, Level, Part, Robot, Sighting
from twinproof.reconstruct.robot_frames import RobotFrames, spread
from twinproof.reconstruct.robot_look import Look
from twinproof.reconstruct.robot_looks import looks as learnt
from twinproof.reconstruct.robot_starts import Starts, Tried, best_start, replated
from twinproof.sim.render_camera import Lens

if TYPE_CHECKING:
    from jaxtyping import Float

TURN, POSE, ALL = CAMERA[:3], CAMERA[:6], CAMERA[:-1]
LEVELS = (
    Level(4, 2.0, 0.6, 6, 4, TURN, joints=False, compare=Outlines(), grow_px=14),
    Level(4, 1.5, 0.6, 5, 6, (*POSE, "clock"), joints=False, compare=Outlines(), grow_px=10),
    Level(4, 1.0, 0.3, 5, 6, (*POSE, "clock"), grow_px=7),
    Level(2, 1.5, 0.3, 5, 6, (*POSE, "clock", "log_focal"), grow_px=5),
    Level(1, 1.5, 0.25, 4, 6, ALL, grow_px=3),
    Level(1, 1.0, 0.20, 4, 6, grow_px=3),
)
DAMPING = 1e-3  # Levenberg's, of the diagonal
MOST_JOINT = 0.02


@dataclass(frozen=True, eq=False)
class Calibrated:
    """The cameras and offsets found, their covariance over `names`, and how well the drawn robot matches."""

    guess: Guess
    names: tuple[str, ...]  # "front.turn_x", …, "joint.waist"
    covariance: Float[np.ndarray, "P P"]
    looks: dict[str, Look]
    frames: tuple[RobotFrames, ...]  # with the last plates
    weak: tuple[str, ...]  # what the pictures hardly told, in sentences
    tried: dict[str, Tried] = field(default_factory=dict)  # starts of each camera


def calibrate(
    robot: Robot,
    joint_names: Sequence[str],
    start: Guess,
    all_frames: Sequence[RobotFrames],
    levels: Sequence[Level] = LEVELS,
    mounts: Mapping[str, Mount] | None = None,
    progress: Progress = quiet,
    starts: Starts | None = None,
) -> Calibrated:
    """Coarse to fine: colours of the links and Gauss–Newton steps in turn, from the best of several starts.

    `mounts` are as the rig states them.
    """
    unknowns = Unknowns(tuple(start.cameras), tuple(joint_names[j] for j in robot.sought))
    looks = dict.fromkeys(unknowns.cameras, Look.of_model(robot.fine))
    coarse = [level for level in levels if isinstance(level.compare, Outlines)]
    guess, tried = best_start(robot, start, all_frames, Look.of_model(robot.fine), coarse, starts or Starts())
    total, done = sum(level.rounds for level in levels), 0
    frames = list(all_frames)
    for level in levels:
        frames = [replated(robot, guess, f, looks[f.camera], level) for f in frames]
        for _ in range(level.rounds):
            if isinstance(level.compare, Colours):
                looks = learnt(robot, guess, frames, level)
            parts = _parts(robot, guess, frames, looks, level)
            guess = guess.changed(unknowns.cameras, robot.sought, _step(parts, unknowns, robot, guess, start, level))
            done += 1
            progress(done, f"cameras and joints, pictures at 1/{level.block}", total)
    parts = _parts(robot, guess, frames, looks, levels[-1], by_link=True)
    behind = _behind(guess, start, unknowns.cameras, robot.sought)
    alone = jackknifed(parts, unknowns, behind, _free(unknowns, levels[-1]))
    told = unknowns.precision(mounts)
    step, covariance = held(alone, behind, told)
    guess = guess.changed(unknowns.cameras, robot.sought, step)
    told_weak = weak(alone, unknowns.names, told)
    return Calibrated(guess, unknowns.names, covariance, looks, tuple(frames), told_weak, tried)


def _parts(
    robot: Robot,
    guess: Guess,
    frames: Sequence[RobotFrames],
    looks: dict[str, Look],
    level: Level,
    by_link: bool = False,
) -> list[Part]:
    jobs = [(f, k) for f in frames for k in spread(f.chosen, level.frames)]
    return [fit.frame_part(robot, guess, f, k, looks[f.camera], level, by_link) for f, k in jobs]


def _free(unknowns: Unknowns, level: Level) -> np.ndarray:
    one = [name in level.free for name in CAMERA]
    return np.array([*(one * len(unknowns.cameras)), *([level.joints] * len(unknowns.joints))])


def _behind(guess: Guess, start: Guess, cameras: Sequence[str], sought: Sequence[int]) -> np.ndarray:
    """How far the guess has gone from the start, in the unknowns' own units."""
    from scipy.spatial.transform import Rotation

    out = list[float]()
    for name in cameras:
        now, then = guess.cameras[name], start.cameras[name]
        turn = Rotation.from_matrix(then.T_world_camera[:3, :3].T @ now.T_world_camera[:3, :3]).as_rotvec()
        shift = now.T_world_camera[:3, 3] - then.T_world_camera[:3, 3]
        focal, times = float(np.log(now.lens.fx / then.lens.fx)), (now.clock_s - then.clock_s)
        out += [*turn, *shift, focal, times, now.readout_s - then.readout_s, now.swell_px - then.swell_px]
    return np.array([*out, *(guess.offsets - start.offsets)[list(sought)]])


def _step(
    parts: Sequence[Part], unknowns: Unknowns, robot: Robot, guess: Guess, start: Guess, level: Level
) -> np.ndarray:
    H, g = unknowns.summed(parts)
    prior = LOOSE * unknowns.precision()
    H[np.diag_indices_from(H)] += prior
    g -= prior * _behind(guess, start, unknowns.cameras, robot.sought)
    free = _free(unknowns, level)
    step = np.zeros(len(g))
    A = H[np.ix_(free, free)]
    step[free] = np.linalg.solve(A + DAMPING * np.diag(np.diag(A)), g[free])
    most = np.array([*(fit.MOST * len(unknowns.cameras)), *([MOST_JOINT] * len(unknowns.joints))])
    return np.clip(step, -most, most)


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
