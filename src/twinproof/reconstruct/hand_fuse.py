"""What the camera on the hand tells of the joints, taken over by the cameras that saw the robot.

Pictures of the table from many postures agree for one set of offsets only: they tell the joints between the first and
the last better than outlines do. An offset that was wrong had moved the still cameras with it, and their covariance
with the offsets says how far.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.spatial.transform import Rotation

from twinproof.nouns.rig import Rig
from twinproof.reconstruct.calibration_block import SEVEN, FoundRobot, rows
from twinproof.reconstruct.hand_camera import HEIGHT, HandCamera, Prior


def joint_priors(rig: Rig, found: FoundRobot) -> tuple[float, ...]:
    """What is left of each encoder's offset, as the outlines know it; the usual for joints that were not sought."""
    usual = float(np.max(Prior().joint_rad))
    return tuple(max(usual, found.offset_sd.get(name, 0.0)) for name in rig.joint_names)


def fused(rig: Rig, found: FoundRobot, done: HandCamera, prior_rad: tuple[float, ...]) -> FoundRobot:
    """Offsets and still cameras after the table's word on the joints; `prior_rad` is what the table began with."""
    joints = [f"joint.{name}" for name in rig.joint_names]
    own = [k for k, name in enumerate(joints) if name in found.names]
    if not own:
        return found
    scanned = done.covariance[HEIGHT + 1 :, HEIGHT + 1 :][np.ix_(own, own)]
    before = np.diag(np.array(prior_rad)[own] ** -2.0)
    values, vectors = np.linalg.eigh(np.linalg.inv(scanned) - before)
    told = (vectors * np.maximum(values, 0.0)) @ vectors.T  # the scan's own word: what it adds to the prior
    where = np.array(done.joints_rad)[own]
    V = np.array(found.covariance)
    pick = np.zeros((len(own), len(V)))
    for row, k in enumerate(own):
        pick[row, found.names.index(joints[k])] = 1.0
    after = np.linalg.inv(np.linalg.inv(V) + pick.T @ told @ pick)
    step = after @ pick.T @ told @ where
    return moved(found, step, 0.5 * (after + after.T))


def moved(found: FoundRobot, step: np.ndarray, covariance: np.ndarray) -> FoundRobot:
    """All of it after a step over `found.names`."""
    cameras, first = {}, 0
    for name, camera in found.cameras.items():
        at = slice(first, first + SEVEN)
        T = np.array(camera.mount.T_parent_camera)
        T[:3, :3] = T[:3, :3] @ Rotation.from_rotvec(step[at][:3]).as_matrix()
        T[:3, 3] += step[at][3:6]
        cameras[name] = camera.placed(T, float(np.exp(step[at][6])), covariance[at, at])
        first += SEVEN
    names = [name.removeprefix("joint.") for name in found.names[first:]]
    sd = np.sqrt(np.diag(covariance))[first:]
    return replace(
        found,
        cameras=cameras,
        offsets={**found.offsets, **{n: found.offsets[n] + float(v) for n, v in zip(names, step[first:], strict=True)}},
        offset_sd={**found.offset_sd, **{n: float(v) for n, v in zip(names, sd, strict=True)}},
        covariance=rows(covariance),
    )
