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
from twinproof.reconstruct.robot_base import Base, sharpened, standing
from twinproof.reconstruct.robot_compare import Colours, Outlines
from twinproof.reconstruct.robot_doubt import LOOSE, Unknowns, held, jackknifed, settled, weak
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
MOST_JOINT = 0.02
LOOKS_AT_BASE = 3  # each from where the one before has led


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
    last = _Last(robot, guess, unknowns, behind, unknowns.precision(mounts), _free(unknowns, levels[-1]))
    base = Base.of(robot, guess, frames, looks)
    guess, covariance, alone = last.with_base(parts, base) or last.without_base(parts)
    told_weak = weak(alone, unknowns.names, last.stated)
    return Calibrated(guess, unknowns.names, covariance, looks, tuple(frames), told_weak, tried)


@dataclass(frozen=True, eq=False)
class _Last:
    """Where the steps ended, and what is left to count: the base's edges, and what the rig states.

    Both ways come back with the guess, its covariance, and the covariance by pictures alone.
    """

    robot: Robot
    guess: Guess
    unknowns: Unknowns
    behind: np.ndarray
    stated: np.ndarray  # precision of what the rig states
    free: np.ndarray

    def with_base(self, parts: Sequence[Part], base: Base | None) -> tuple[Guess, np.ndarray, np.ndarray] | None:
        """By the standing links' edges in place of their surfels; None where too few edges are seen."""
        first = base.told(self.guess, self.unknowns) if base else None
        if base is None or first is None or not first.enough:
            return None
        moving = [part.of_links(~standing(self.robot)) for part in parts]
        arm = settled(moving, self.unknowns, self.behind, self.free)
        arm_covariance = jackknifed(moving, self.unknowns, self.behind, self.free)
        told, guess = first, self.guess
        for _ in range(LOOKS_AT_BASE):
            own, alone = sharpened(arm, arm_covariance, told)
            more, covariance = held(alone, self.behind + own, self.stated)
            guess = self.guess.changed(self.unknowns.cameras, self.robot.sought, own + more)
            again = base.told(guess, self.unknowns)
            if not again.enough:
                break
            told = again.seen_before(own + more)
        return guess, covariance, alone

    def without_base(self, parts: Sequence[Part]) -> tuple[Guess, np.ndarray, np.ndarray]:
        """By surfels alone."""
        alone = jackknifed(parts, self.unknowns, self.behind, self.free)
        step, covariance = held(alone, self.behind, self.stated)
        return self.guess.changed(self.unknowns.cameras, self.robot.sought, step), covariance, alone


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
    most = np.array([*(fit.MOST * len(unknowns.cameras)), *([MOST_JOINT] * len(unknowns.joints))])
    step[free] = _within(H[np.ix_(free, free)], g[free], most[free])
    return step


def _within(H: np.ndarray, g: np.ndarray, most: np.ndarray) -> np.ndarray:
    """The best step of which no unknown changes by more than its most.

    Nothing else holds it. Levenberg's damping would hardly let a direction move that little but the base tells, however
    far it has to go, and a step cut off unknown by unknown would leave that direction.
    """
    from scipy.optimize import lsq_linear

    scale = 1 / np.sqrt(np.diag(H))
    root = np.linalg.cholesky(H * np.outer(scale, scale))
    found = lsq_linear(root.T, np.linalg.solve(root, scale * g), bounds=(-most / scale, most / scale))
    return np.asarray(scale * found.x)


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
