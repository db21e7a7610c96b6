"""Where calibration begins: each camera from several places around the one that its rig states, by outlines alone.

Far from the answer outlines have more than one way to fit. Cameras are tried one by one, coarsely: how well the drawn
robot covers what is not the plate says which place is best. The rig's own stays unless another one ends clearly better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.randomness import stream
from twinproof.reconstruct import robot_fit as fit
from twinproof.reconstruct.robot_compare import KNOWN, foreground
from twinproof.reconstruct.robot_fit import CAMERA, Guess, Level, Robot, Sighting
from twinproof.reconstruct.robot_frames import RobotFrames, averaged, spread, with_plate

if TYPE_CHECKING:
    from twinproof.reconstruct.robot_look import Look

DAMPING = 1e-2  # Levenberg's, of the diagonal: few pictures are looked at


@dataclass(frozen=True)
class Starts:
    """How many places beside the rig's own are tried for each camera, and how far away from it."""

    count: int = 4
    turn_rad: float = 0.06
    shift_m: float = 0.02
    better: float = 0.15  # a place is left for one whose misfit is smaller by this share
    episodes: int = 2  # that are looked at, of all that show the camera's pictures
    frames: int = 4  # of each of these


@dataclass(frozen=True)
class Tried:
    """Misfits of one camera where each start ended, the rig's own first, and which one was taken."""

    misfits: tuple[float, ...]  # 0: the drawn robot covers exactly what is not the plate; 1: nothing of it
    taken: int

    @property
    def sentence(self) -> str:
        """What came of it."""
        first, best, second = self.misfits[0], *sorted(self.misfits)[:2]
        kept = "the rig's own" if self.taken == 0 else f"number {self.taken}"
        return (
            f"of {len(self.misfits)} starts {kept} was taken: misfit of the outlines {self.misfits[self.taken]:.3f}, "
            f"rig's own {first:.3f}, best two {best:.3f} and {second:.3f}, worst {max(self.misfits):.3f}"
        )


def best_start(
    robot: Robot, start: Guess, frames: Sequence[RobotFrames], look: Look, levels: Sequence[Level], how: Starts
) -> tuple[Guess, dict[str, Tried]]:
    """The start, with those cameras elsewhere whose robot fits better there; and what was tried. The same every time.

    `levels` are the coarse ones, by outlines.
    """
    cameras, tried = dict(start.cameras), dict[str, Tried]()
    for name in start.cameras if how.count and levels else ():
        own = [f for f in frames if f.camera == name]
        own = [own[k] for k in spread(tuple(range(len(own))), how.episodes)]
        trial = _Trial(robot, own, look, tuple(replace(level, frames=how.frames) for level in levels))
        begun = (start.cameras[name], *_around(start.cameras[name], name, how))
        ends = [trial.descended(replace(start, cameras={name: each})) for each in begun]
        misfits = tuple(trial.misfit(each) for each in ends)
        best = int(np.argmin(misfits))
        taken = best if misfits[best] < (1 - how.better) * misfits[0] else 0
        tried[name] = Tried(misfits, taken)
        if taken:
            cameras[name] = ends[taken].cameras[name]
    return replace(start, cameras=cameras), tried


def replated(robot: Robot, guess: Guess, frames: RobotFrames, look: Look, level: Level) -> RobotFrames:
    """The frames with the plate made without the robot where it is drawn now."""
    return with_plate(frames, lambda time_s: fit.robot_mask(robot, guess, frames, time_s, look, level.grow_px))


def _around(sight: Sighting, name: str, how: Starts) -> list[Sighting]:
    """Places in pairs to both sides, so that no side is preferred."""
    rng, out = stream(0, "starts", name), list[Sighting]()
    by = np.zeros(len(CAMERA))
    for k in range(how.count):
        if k % 2 == 0:
            turn, shift = (direction / np.linalg.norm(direction) for direction in rng.normal(size=(2, 3)))
            by[:3], by[3:6] = how.turn_rad * turn, how.shift_m * shift
        out.append(sight.changed(by if k % 2 == 0 else -by))
    return out


@dataclass(frozen=True, eq=False)
class _Trial:
    """One camera's pictures, looked at coarsely."""

    robot: Robot
    frames: Sequence[RobotFrames]
    look: Look
    levels: tuple[Level, ...]

    def descended(self, guess: Guess) -> Guess:
        """After Gauss–Newton steps of the camera by outlines; joints stay."""
        (name,), width = tuple(guess.cameras), len(CAMERA)
        for level in self.levels:
            free = np.array([unknown in level.free for unknown in CAMERA])
            jobs = self._jobs(guess, level)
            for _ in range(level.rounds):
                parts = [fit.frame_part(self.robot, guess, f, k, self.look, level) for f, k in jobs]
                H = sum((part.hessian[:width, :width] for part in parts), np.zeros((width, width)))
                g = sum((part.pull[:width] for part in parts), np.zeros(width))
                told = free & (np.diag(H) > 0)
                A, step = H[np.ix_(told, told)], np.zeros(width)
                step[told] = np.linalg.solve(A + DAMPING * np.diag(np.diag(A)), g[told])
                guess = guess.changed((name,), (), np.clip(step, -np.array(fit.MOST), fit.MOST))
        return guess

    def misfit(self, guess: Guess) -> float:
        """What drawn robot and foreground do not share, as a share of both together, over all pictures."""
        apart, either, level = 0.0, 0.0, self.levels[-1]
        for f, k in self._jobs(guess, level):
            drawn = fit.drawn_at(self.robot, guess, f, float(f.time_s[k]), self.look, level).alpha
            trust = averaged(f.trust, level.block)
            trust = trust * (trust > KNOWN)
            wanted = averaged(foreground(f.rgb[k], f.plate), level.block)
            apart += float((trust * np.abs(drawn - wanted)).sum())
            either += float((trust * np.maximum(drawn, wanted)).sum())
        return apart / either if either > 0 else 1.0

    def _jobs(self, guess: Guess, level: Level) -> list[tuple[RobotFrames, int]]:
        """Pictures with plates made without the robot where it is drawn now."""
        plated = [replated(self.robot, guess, f, self.look, level) for f in self.frames]
        return [(f, k) for f in plated for k in spread(f.chosen, level.frames)]
