"""The links' colours for each camera, learnt where the links are drawn to be now."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinproof.reconstruct.robot_fit import Guess, Level, Robot, angles_at, drawn_at
from twinproof.reconstruct.robot_frames import RobotFrames, averaged, spread
from twinproof.reconstruct.robot_look import Look, Samples, learn, seen

OTHER = 0.08  # pixels that differ by more from the plate are not the scene behind


def looks(robot: Robot, guess: Guess, all_frames: Sequence[RobotFrames], level: Level) -> dict[str, Look]:
    """The links' colours for each camera, learnt where the links are drawn to be now."""
    out, links = dict[str, Look](), robot.links(level.block)
    model = Look.of_model(robot.fine)
    for name in guess.cameras:
        samples = list[Samples]()
        for frames in (f for f in all_frames if f.camera == name):
            for k in spread(frames.chosen, level.frames):
                picture = drawn_at(robot, guess, frames, float(frames.time_s[k]), model, level)
                poses = robot.poses.at(angles_at(frames, guess.cameras[name], float(frames.time_s[k])) - guess.offsets)
                assert picture.depth is not None
                rgb, plate = averaged(frames.rgb[k], level.block), averaged(frames.plate, level.block)
                other = (np.abs(rgb - plate).max(axis=2) > OTHER) | (averaged(frames.trust, level.block) < 0.9)
                camera = guess.cameras[name].camera(level.block)
                samples.append(seen(links, poses, camera, rgb, picture.depth, other))
        out[name] = learn(model, samples)
    return out
