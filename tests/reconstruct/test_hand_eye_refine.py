"""Camera, board, lens and the robot's errors, from the corners that were seen."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reconstruct.boards import LENS, TAG, pose, scene
from twinproof.nouns.errors import RigError
from twinproof.nouns.rig import Intrinsics
from twinproof.reconstruct.hand_eye import Setup
from twinproof.reconstruct.hand_eye_refine import LensFreedom, Noise, calibrate
from twinproof.reconstruct.plane_pose import Sight
from twinproof.reconstruct.poses import difference, nudged


@pytest.mark.parametrize("setup", list(Setup))
def test_perfect_pictures_give_the_planted_camera(setup):
    plant = scene(setup, count=6)
    found = calibrate(setup, plant.logged, plant.sights, LENS)
    np.testing.assert_allclose(found.answer.T_parent_camera, plant.X, atol=1e-6)
    np.testing.assert_allclose(found.answer.T_other_board, plant.Z, atol=1e-6)
    assert found.px_robot < 1e-3


@pytest.mark.parametrize("setup", list(Setup))
def test_errors_of_the_robot_do_not_bend_the_camera(setup):
    """With the robot's slack the error stays below that of the same fit to pixels alone."""
    with_slack, without = [], []
    for seed in range(2):
        plant = scene(setup, count=10, seed=seed, px=0.2, turn_deg=0.15, shift_mm=2.0)
        slack = calibrate(setup, plant.logged, plant.sights, LENS)
        stiff = calibrate(setup, plant.logged, plant.sights, LENS, noise=Noise(0.2, 1e-5, 1e-6))
        with_slack.append(np.linalg.norm(difference(plant.X, slack.answer.T_parent_camera)[:3]))
        without.append(np.linalg.norm(difference(plant.X, stiff.answer.T_parent_camera)[:3]))
        assert slack.px < 0.5 < slack.px_robot
    assert np.mean(with_slack) < np.mean(without)


def test_the_covariance_covers_planted_cameras():
    """90 % ellipsoids of the six numbers: with variances estimated from 14 poses a little under 90 % is expected."""
    inside, squares = 0, []
    for seed in range(6):
        setup = list(Setup)[seed % 2]
        plant = scene(setup, count=14, seed=100 + seed, px=0.2, turn_deg=0.15, shift_mm=1.0)
        found = calibrate(setup, plant.logged, plant.sights, LENS)
        motion = difference(found.answer.T_parent_camera, plant.X)
        square = motion @ np.linalg.solve(found.covariance, motion)
        inside += square < 10.64  # the 90 % quantile of chi² with 6 degrees of freedom
        squares.append(square)
    assert 3 <= inside <= 6
    assert 2 < np.mean(squares) < 14


def test_noises_are_estimated():
    plant = scene(count=25, seed=2, px=0.25, turn_deg=0.2, shift_mm=1.5)
    noise = calibrate(plant.setup, plant.logged, plant.sights, LENS).noise
    assert noise.px == pytest.approx(0.25, rel=0.3)
    assert noise.shift_m == pytest.approx(1.5e-3, rel=0.3)
    assert np.degrees(noise.turn_rad) == pytest.approx(0.2, rel=0.5)


def test_a_wrong_lens_is_mended_where_it_is_free():
    bent = Intrinsics(606.0, 608.02, 322.0, 239.0, (0.15, -0.3, 0.0, 0.0))
    grid = np.stack([np.tile(np.arange(5), 4), np.arange(4).repeat(5), np.zeros(20)], axis=1) * [0.03, 0.03, 0]
    board = grid - grid.mean(axis=0)
    plant = scene(count=15, seed=1, px=0.05, lens=bent, points=board, distance=0.3)
    free = calibrate(plant.setup, plant.logged, plant.sights, LENS, LensFreedom(0.02, 5, 0.3, 0.5))
    held = calibrate(plant.setup, plant.logged, plant.sights, LENS)
    assert free.lens.fx == pytest.approx(606, rel=2e-3)
    assert free.lens.distortion[0] == pytest.approx(0.15, abs=0.03)
    assert free.answer.camera.deg < held.answer.camera.deg / 2
    assert held.lens == LENS


def test_a_pose_that_was_logged_wrongly_is_named_and_loses_its_pull():
    plant = scene(count=12, seed=4, px=0.1, turn_deg=0.05, shift_mm=0.3)
    logged = plant.logged.copy()
    logged[5] = nudged(logged[5], np.array([0.1, -0.1, 0.05, 0.03, -0.02, 0.04]))
    found = calibrate(plant.setup, logged, plant.sights, LENS)
    assert found.suspects == ("picture 5",)
    assert np.linalg.norm(difference(plant.X, found.answer.T_parent_camera)[3:]) < 2e-3
    assert found.sd_mm < 3
    assert found.sd_deg < 1


def test_sights_and_poses_must_pair():
    plant = scene(count=5)
    with pytest.raises(RigError, match="5 poses of the hand and 4 sights"):
        calibrate(plant.setup, plant.logged, plant.sights[:4], LENS)


def test_a_noise_of_nothing_is_refused():
    with pytest.raises(RigError, match="noise px is 0"):
        Noise(px=0)


def test_one_axis_is_refused_for_pictures_too():
    hands = np.stack([pose((0, 0, a), (0, 0, 0.3)) for a in range(0, 60, 10)])
    sights = [Sight(f"picture {k}", TAG, scene(count=1).sights[0].pixels) for k in range(6)]
    with pytest.raises(RigError, match="about one axis"):
        calibrate(Setup.EYE_TO_HAND, hands, sights, LENS)
