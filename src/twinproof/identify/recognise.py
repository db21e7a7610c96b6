"""What kind of experiment an episode is, from its signals alone, and what such an experiment is good for."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from twinproof.sim.experiment import Experiment


class Motion(StrEnum):
    """Kinds of experiments, each with what it tells best."""

    FREE = "free motion: damping and friction loss"
    DRIVEN = "driven (chirp, Fourier): inertia, armature, gains, delay"
    TOSS = "drop or toss: contact stiffness, damping, friction"
    PUSH = "push or slide: friction and mass of the object"
    LIFT = "lift: payload mass, centre of mass, inertia"
    STILL = "at rest: gravity and offsets at most"


LIFTED_M = 0.02
MOVED_M = 0.01


def recognise(experiment: Experiment) -> Motion:
    """The kind of an episode. Object tracks decide first; then what was commanded."""
    poses = [reading for reading in experiment.readings if reading.kind == "pose"]
    driven = experiment.command.shape[1] > 0 and bool(np.ptp(experiment.command, axis=0).max() > 1e-6)
    for pose in poses:
        height = pose.value[:, 2]
        if not driven:
            return Motion.TOSS if np.ptp(height) > MOVED_M or _moved(pose.value) > MOVED_M else Motion.STILL
        if height.max() - height[0] > LIFTED_M:
            return Motion.LIFT
        if _moved(pose.value) > MOVED_M:
            return Motion.PUSH
    if driven:
        return Motion.DRIVEN
    moving = any(
        np.nanmax(np.ptp(reading.value, axis=0) / np.maximum(reading.sd, 1e-12)) > 50
        for reading in experiment.readings
        if reading.kind == "position"
    )
    return Motion.FREE if moving else Motion.STILL


def _moved(pose: np.ndarray) -> float:
    return float(np.linalg.norm(pose[:, :2] - pose[0, :2], axis=1).max())
