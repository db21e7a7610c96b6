"""What cameras are off by is in a joint's errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.reconstruct.test_motion_block import still_track
from tests.reconstruct.test_moving import box
from tests.reconstruct.test_robot_calibrate import looking
from tests.sim.tracking import thing
from twinproof.nouns.rig import Intrinsics, Mount
from twinproof.reconstruct.calibration_block import FoundCamera, triple
from twinproof.reconstruct.joint_world import with_cameras
from twinproof.reconstruct.motion_block import FoundMotion
from twinproof.reconstruct.moving import held_by, joint_of
from twinproof.reconstruct.poses import quat_of

EYES = {"front": (1.0, 0.1, 0.5), "left": (0.2, 0.8, 0.6), "right": (0.1, -0.7, 0.5)}
ONE_DEG = float(np.radians(1.0))


def camera(eye: tuple[float, float, float], unknowns: np.ndarray) -> FoundCamera:
    """Its seven unknowns are off along one direction alone."""
    T = looking(eye, (0.0, 0.0, 0.05))
    mount = Mount("world", triple(T[:3, 3]), quat_of(T), 0.01, 0.01)
    covariance = tuple(tuple(float(v) for v in row) for row in np.outer(unknowns, unknowns))
    lens = Intrinsics(350.0, 350.0, 159.5, 119.5)
    return FoundCamera(320, 240, lens, mount, 0.0, 0.001, 0.0, 0.001, 0.003, 0.9, covariance)


def turned_about(axis: np.ndarray, by_rad: float) -> dict[str, FoundCamera]:
    """Three cameras that may all be turned about an axis through the world's middle."""
    out = {}
    for name, eye in EYES.items():
        T = looking(eye, (0.0, 0.0, 0.05))
        out[name] = camera(eye, by_rad * np.concatenate([T[:3, :3].T @ axis, np.cross(axis, eye), [0.0]]))
    return out


@pytest.fixture
def slide():
    return joint_of(FoundMotion("box", "e" * 32, still_track(0.12), {}, {}, thing()), 0.1)


def test_cameras_that_are_turned_together_turn_the_axis_as_far(slide) -> None:
    up = with_cameras(slide, turned_about(np.array([0.0, 0.0, 1.0]), ONE_DEG))
    least = float(np.hypot(slide.axis_sd_deg, 1.0))
    assert least <= up.axis_sd_deg < 1.3 * least  # more, as each camera moves the ends another way
    along = with_cameras(slide, turned_about(slide.axis, ONE_DEG))  # about itself nothing turns, to the first order
    assert along.axis_sd_deg < slide.axis_sd_deg + 0.35
    assert up.kind == slide.kind
    assert np.array_equal(up.axis, slide.axis)


def test_cameras_that_are_shifted_together_shift_the_origin(slide) -> None:
    by = np.array([0.0, 0.0, 0.0, 0.0, 0.004, 0.0, 0.0])  # along y, across the axis
    found = with_cameras(slide, {name: camera(eye, by) for name, eye in EYES.items()})
    assert found.origin_sd_mm == pytest.approx(np.hypot(slide.origin_sd_mm, 4.0), rel=0.35)
    assert found.origin_sd_mm > 3.9


def test_a_held_object_s_joint_knows_of_the_cameras(slide) -> None:
    motion = FoundMotion("box", "e" * 32, still_track(0.12), {}, {}, thing())
    sure = held_by(box(0.1), motion, {}).joint
    unsure = held_by(box(0.1), motion, turned_about(np.array([0.0, 1.0, 0.0]), 2 * ONE_DEG)).joint
    assert sure is not None
    assert unsure is not None
    assert sure.axis_sd_deg == slide.axis_sd_deg
    assert unsure.axis_sd_deg > 1.5
    bare = {name: replace(each, covariance=()) for name, each in turned_about(slide.axis, ONE_DEG).items()}
    assert with_cameras(slide, bare) == slide
