"""Joints of drawers, doors and lids from tracked motion with planted truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from tests.reconstruct.boards import pose
from twinproof.nouns.errors import RecordingError
from twinproof.nouns.randomness import stream
from twinproof.reconstruct.articulation import Articulation, Kind, articulation
from twinproof.reconstruct.poses import inverse, nudged

TURN, SHIFT = np.radians(1.0), 0.002  # the noise of a component
AXIS = np.array([0.2, -0.3, 1.0]) / np.linalg.norm([0.2, -0.3, 1.0])
HINGE_AT = np.array([0.4, 0.1, 0.3])
CLOSED = pose((10, 20, 30), (0.6, 0.35, 0.3))


def track(kind: Kind, span: float, frames: int = 120, seed: int = 0, outliers: float = 0.0) -> np.ndarray:
    """A body that is opened smoothly by `span`, tracked with 1° and 2 mm."""
    rng = stream(seed, "track")
    q = span * (0.5 - 0.5 * np.cos(np.linspace(0, np.pi, frames)))
    T = np.tile(np.eye(4), (frames, 1, 1))
    if kind is Kind.SLIDE:
        T[:, :3, 3] = q[:, None] * AXIS
    if kind is Kind.HINGE:
        T[:, :3, :3] = Rotation.from_rotvec(q[:, None] * AXIS).as_matrix()
        T[:, :3, 3] = HINGE_AT - T[:, :3, :3] @ HINGE_AT
    noise = np.concatenate([TURN * rng.normal(size=(frames, 3)), SHIFT * rng.normal(size=(frames, 3))], axis=1)
    bad = rng.random(frames) < outliers
    noise[bad] += np.array([0.5] * 3 + [0.1] * 3) * rng.normal(size=(bad.sum(), 6))
    return nudged(T @ CLOSED, noise)


def off_axis(found: Articulation) -> float:
    assert found.axis is not None
    return float(np.degrees(np.arccos(np.clip(found.axis @ AXIS, -1, 1))))


def off_line(found: Articulation) -> float:
    """Distance of the found origin from the planted axis, mm."""
    assert found.origin is not None
    away = found.origin - HINGE_AT
    return float(1e3 * np.linalg.norm(away - AXIS * (away @ AXIS)))


@pytest.mark.parametrize("outliers", [0.0, 0.1])
def test_a_drawer_opened_by_ten_centimetres(outliers):
    found = articulation(track(Kind.SLIDE, 0.1, outliers=outliers), TURN, SHIFT)
    assert found.kind is Kind.SLIDE
    assert off_axis(found) < 0.5
    assert found.origin is not None
    assert 1e3 * np.linalg.norm(found.origin - CLOSED[:3, 3]) < 3
    assert found.range == pytest.approx((0, 0.1), abs=0.004)
    assert 0.1 < found.axis_sd_deg < 1
    assert 0.8 < found.off < 1.2


@pytest.mark.parametrize("outliers", [0.0, 0.1])
def test_a_door_opened_by_thirty_degrees(outliers):
    found = articulation(track(Kind.HINGE, np.radians(30), frames=240, outliers=outliers), TURN, SHIFT)
    assert found.kind is Kind.HINGE
    assert off_axis(found) < max(0.5, 3 * found.axis_sd_deg)
    assert off_axis(found) < 1.0
    assert off_line(found) < max(3.0, 3 * found.origin_sd_mm)
    assert np.degrees(found.range) == pytest.approx((0, 30), abs=1.0)


def test_the_stated_uncertainty_covers_the_planted_axis():
    squares = []
    for seed in range(3):
        slide = articulation(track(Kind.SLIDE, 0.1, 40, seed), TURN, SHIFT)
        hinge = articulation(track(Kind.HINGE, np.radians(40), 40, seed), TURN, SHIFT)
        squares += [(off_axis(one) / one.axis_sd_deg) ** 2 for one in (slide, hinge)]
        squares.append((off_line(hinge) / hinge.origin_sd_mm) ** 2)
    assert 0.3 < np.mean(squares) < 2.5  # each is the square of a two-dimensional error over its variance: 1 expected


def test_a_body_that_never_moves_is_fixed_with_a_reservation():
    for outliers in (0.0, 0.1):
        found = articulation(track(Kind.FIXED, 0.0, 60, outliers=outliers), TURN, SHIFT)
        assert found.kind is Kind.FIXED
        assert "or its joint was not moved" in found.reason
        assert found.mjcf("none") == ""


def test_a_motion_that_is_too_small_cannot_be_told():
    found = articulation(track(Kind.SLIDE, 0.006, 80), TURN, SHIFT)
    assert found.kind is Kind.UNKNOWN
    assert "too little to say how" in found.reason


def test_a_body_that_moves_freely_cannot_be_told():
    rng = stream(1, "free")
    loose = nudged(track(Kind.HINGE, 1.0, 60), rng.normal(size=(60, 6)) * [0.3, 0.3, 0.3, 0.1, 0.1, 0.1])
    found = articulation(loose, TURN, SHIFT)
    assert found.kind is Kind.UNKNOWN
    assert "no joint explains the track" in found.reason


def test_few_frames_of_a_small_door_do_not_decide_between_slide_and_hinge():
    """A hinge far away moves like a slide: with noise that hides the turn, both explain it."""
    frames = 10
    q = np.linspace(0, 0.03, frames)
    far = np.array([3.0, 0, 0])
    T = np.tile(np.eye(4), (frames, 1, 1))
    T[:, :3, :3] = Rotation.from_rotvec(q[:, None] * [0, 0, 1.0]).as_matrix()
    T[:, :3, 3] = far - T[:, :3, :3] @ far
    rng = stream(3, "far")
    noisy = nudged(T, np.concatenate([0.004 * rng.normal(size=(frames, 3)), 0.002 * rng.normal(size=(frames, 3))], 1))
    found = articulation(noisy, 0.004, 0.002)
    assert found.kind in (Kind.UNKNOWN, Kind.HINGE)
    kinds = {articulation(nudged(T, np.zeros((frames, 6))), sd, 0.002).kind for sd in (0.001, 0.02)}
    assert Kind.HINGE in kinds
    assert kinds & {Kind.UNKNOWN, Kind.SLIDE}


def test_noise_that_drifts_widens_the_uncertainty():
    clean = track(Kind.SLIDE, 0.1, 100)
    rng = stream(5, "drift")
    slow = np.zeros((100, 6))
    for k in range(1, 100):
        slow[k] = 0.95 * slow[k - 1] + 0.3 * rng.normal(size=6) * [TURN, TURN, TURN, SHIFT, SHIFT, SHIFT]
    plain = articulation(clean, TURN, SHIFT)
    drifting = articulation(nudged(clean, 2 * slow), TURN, SHIFT)
    assert drifting.axis_sd_deg > 1.3 * plain.axis_sd_deg


def test_a_parent_that_moves_is_taken_off():
    carried = np.stack([pose((0, 0, a), (0.01 * a, 0, 0)) for a in np.linspace(0, 40, 60)])
    found = articulation(carried @ track(Kind.SLIDE, 0.1, 60), TURN, SHIFT, T_world_parent=carried)
    assert found.kind is Kind.SLIDE
    assert off_axis(found) < 1


def test_the_joint_stands_in_mjcf_and_moves_the_body_as_it_was_seen():
    mujoco = pytest.importorskip("mujoco")
    true = track(Kind.HINGE, np.radians(50), 80)
    found = articulation(true, TURN, SHIFT)
    place, quat = found.T_parent_body[:3, 3], Rotation.from_matrix(found.T_parent_body[:3, :3]).as_quat()[[3, 0, 1, 2]]
    text = " ".join(map(str, place)), " ".join(map(str, quat))
    xml = f'<body pos="{text[0]}" quat="{text[1]}">{found.mjcf("door")}<geom size=".1"/></body>'
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{xml}</worldbody></mujoco>")
    data = mujoco.MjData(model)
    np.testing.assert_allclose(model.jnt_range[0], found.range, atol=1e-4)
    data.qpos[0] = found.q[-1]
    mujoco.mj_kinematics(model, data)
    away = 1e3 * np.linalg.norm(data.xpos[1] - true[-5:, :3, 3].mean(axis=0))
    assert away < 6
    turn = data.xmat[1].reshape(3, 3).T @ true[-1, :3, :3]
    assert np.degrees(Rotation.from_matrix(turn).magnitude()) < 6
    assert 'type="hinge"' in found.mjcf("door", degrees=False)


def test_tracks_that_cannot_be_are_refused():
    with pytest.raises(RecordingError, match="5 frames; a joint needs 8"):
        articulation(track(Kind.SLIDE, 0.1, 5), TURN, SHIFT)
    with pytest.raises(RecordingError, match="turn_sd_rad"):
        articulation(track(Kind.SLIDE, 0.1, 10), 0.0, SHIFT)
    with pytest.raises(RecordingError, match="shift_sd_m has the shape"):
        articulation(track(Kind.SLIDE, 0.1, 10), TURN, np.ones(3))


def test_the_pose_at_rest_is_where_the_track_began():
    found = articulation(track(Kind.SLIDE, 0.1, 100), TURN, SHIFT)
    away = inverse(CLOSED) @ found.T_parent_body
    assert np.linalg.norm(away[:3, 3]) < 0.003
    assert abs(found.q[:10].mean()) < 0.002
