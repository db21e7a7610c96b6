"""What the cameras' own errors do to a joint: they turn and bend the world in which its axis is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial.transform import Rotation

from twinproof.reconstruct.articulation import Articulation, Kind
from twinproof.reconstruct.calibration_block import FoundCamera
from twinproof.reconstruct.robot_slopes import Shown
from twinproof.sim.render_camera import Camera, Lens

if TYPE_CHECKING:
    from jaxtyping import Float

SHIFT = slice(3, 6)  # of a camera's seven unknowns


def with_cameras(joint: Articulation, cameras: Mapping[str, FoundCamera]) -> Articulation:
    """The joint with errors that count those of the cameras too; as it is where none of them states its covariance.

    Both ends of the motion lie where the cameras' rays meet. Each camera moves that place by its own unknowns, and all
    were calibrated by one robot, so they may be off together: their standard deviations are added, not their squares.
    A turn of the line between the ends is one of the axis.
    """
    known = [camera for camera in cameras.values() if camera.covariance]
    if not known or joint.axis is None or joint.kind not in (Kind.SLIDE, Kind.HINGE):
        return joint
    ends = np.stack([_place(joint, q) for q in joint.range])
    way = ends[1] - ends[0]
    across = np.eye(3) - np.outer(way, way) / (way @ way)
    beside = np.eye(3) - np.outer(joint.axis, joint.axis)
    turn_rad = shift_m = 0.0
    for camera, moved in zip(known, _moves(ends, known), strict=True):
        covariance = np.array(camera.covariance)
        turned = across @ (moved[1] - moved[0]) / np.linalg.norm(way)
        shifted = beside @ moved.mean(axis=0)
        turn_rad += float(np.sqrt(np.trace(turned @ covariance @ turned.T)))
        shift_m += float(np.sqrt(np.trace(shifted @ covariance @ shifted.T)))
    return replace(
        joint,
        axis_sd_deg=float(np.hypot(joint.axis_sd_deg, np.degrees(turn_rad))),
        origin_sd_mm=float(np.hypot(joint.origin_sd_mm, 1e3 * shift_m)),
    )


def _place(joint: Articulation, q: float) -> Float[np.ndarray, "3"]:
    """Of the body's middle."""
    assert joint.axis is not None
    assert joint.origin is not None
    here: np.ndarray = joint.T_parent_body[:3, 3]
    if joint.kind is Kind.SLIDE:
        return np.asarray(here + q * joint.axis)
    return np.asarray(joint.origin + Rotation.from_rotvec(q * joint.axis).apply(here - joint.origin))


def _moves(points_m: Float[np.ndarray, "N 3"], cameras: list[FoundCamera]) -> list[Float[np.ndarray, "N 3 7"]]:
    """How each camera's unknowns move the places where all rays meet, which pixels leave as they are."""
    slopes = list[np.ndarray]()
    for found in cameras:
        k = found.intrinsics
        lens = Lens(found.width, found.height, k.fx, k.fy, k.cx, k.cy, k.distortion)
        motion = Shown.at(points_m, Camera(lens, found.mount.T_parent_camera)).by_camera()
        slopes.append(motion.transpose(1, 2, 0))  # N × 2 × 7
    by_point = [-each[:, :, SHIFT] for each in slopes]  # a camera's shift is the point's, the other way
    told = np.linalg.pinv(sum((p.transpose(0, 2, 1) @ p for p in by_point), np.zeros((len(points_m), 3, 3))))
    return [-told @ p.transpose(0, 2, 1) @ each for p, each in zip(by_point, slopes, strict=True)]
