"""Where the camera is, from poses of the hand and of a board."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from tests.reconstruct.boards import LENS, TAG, pose, scene
from twinproof.nouns.errors import RigError
from twinproof.reconstruct.hand_eye import Setup, hand_eye, park_martin, shah
from twinproof.reconstruct.plane_pose import Sight, plane_poses, project
from twinproof.reconstruct.poses import checked, difference, inverse, mean_pose, nudged, scatter


def off(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Degrees and millimetres between two poses."""
    motion = difference(a, b)
    return float(np.degrees(np.linalg.norm(motion[:3]))), float(1e3 * np.linalg.norm(motion[3:]))


@pytest.mark.parametrize("setup", list(Setup))
def test_both_closed_forms_are_exact_on_perfect_poses(setup):
    plant = scene(setup, count=5)
    A = plant.logged if setup is Setup.EYE_IN_HAND else inverse(plant.logged)
    np.testing.assert_allclose(park_martin(A, plant.boards), plant.X, atol=1e-10)
    X, Z = shah(A, plant.boards)
    np.testing.assert_allclose(X, plant.X, atol=1e-10)
    np.testing.assert_allclose(Z, plant.Z, atol=1e-10)
    answer = hand_eye(setup, plant.logged, plant.boards)
    np.testing.assert_allclose(answer.T_parent_camera, plant.X, atol=1e-10)
    np.testing.assert_allclose(answer.T_other_board, plant.Z, atol=1e-10)
    assert max(answer.camera.mm, answer.board.mm, answer.camera.deg, answer.board.deg) < 1e-6


@pytest.mark.parametrize("setup", list(Setup))
def test_noisy_poses_give_a_near_answer_and_a_scatter_of_the_noise(setup):
    plant = scene(setup, count=30, turn_deg=0.2, shift_mm=1.0, seed=3)
    answer = hand_eye(setup, plant.logged, plant.boards)
    deg, mm = off(plant.X, answer.T_parent_camera)
    assert deg < 0.3
    assert mm < 2.5
    assert answer.camera.deg == pytest.approx(0.2 * np.sqrt(3), rel=0.35)


def test_the_scatter_is_the_root_mean_square_distance_to_the_mean():
    poses = np.stack([pose((0, 0, a), (a / 1e3, 0, 0)) for a in (-3.0, 0.0, 3.0)])
    found = scatter(poses)
    assert found.deg == pytest.approx(np.sqrt(6))
    assert found.mm == pytest.approx(np.sqrt(6))
    np.testing.assert_allclose(found.each_deg, [3, 0, 3], atol=1e-6)
    np.testing.assert_allclose(mean_pose(poses), np.eye(4), atol=1e-12)


def test_a_far_tag_has_two_poses_and_the_ones_that_agree_are_taken():
    plant = scene(count=12, distance=1.2, px=0.3, seed=5)
    both = [plane_poses(sight, LENS) for sight in plant.sights]
    assert sum(len(few) == 2 for few in both) >= 8
    worse_first = [np.stack([one.T_camera_board for one in reversed(few)]) for few in both]
    answer = hand_eye(plant.setup, plant.logged, worse_first)
    deg, _ = off(plant.X, answer.T_parent_camera)
    blind = hand_eye(plant.setup, plant.logged, np.stack([few[0] for few in worse_first]))
    assert deg < 3
    assert off(plant.X, blind.T_parent_camera)[0] > 2 * deg
    assert answer.board.mm < blind.board.mm / 2


def test_the_pose_of_a_flat_board_is_found_with_a_bent_lens():
    lens = type(LENS)(600.0, 602.0, 320.0, 240.0, (0.1, -0.2, 0.001, -0.002, 0.05))
    for k, board in enumerate(scene(count=6, lens=lens).boards):
        sight = Sight(f"picture {k}", TAG, project(lens, TAG @ board[:3, :3].T + board[:3, 3])[0])
        assert off(board, plane_poses(sight, lens)[0].T_camera_board)[0] < 1e-5


def test_a_board_seen_head_on_has_a_pose():
    board = pose((0, 0, 10), (0, 0, 0.4))
    sight = Sight("head on", TAG, project(LENS, TAG @ board[:3, :3].T + board[:3, 3])[0])
    assert off(board, plane_poses(sight, LENS)[0].T_camera_board)[0] < 1e-3


def test_projection_knows_its_own_derivative():
    lens = type(LENS)(600.0, 602.0, 320.0, 240.0, (0.1, -0.2, 0.001, -0.002, 0.05))
    p = np.array([[0.1, -0.2, 0.9], [-0.3, 0.1, 1.2]])
    _, slope = project(lens, p)
    for k in range(3):
        h = 1e-6 * np.eye(3)[k]
        np.testing.assert_allclose(slope[..., k], (project(lens, p + h)[0] - project(lens, p - h)[0]) / 2e-6, atol=1e-3)


def test_poses_that_disagree_are_left_out_of_the_closed_form():
    plant = scene(count=10, turn_deg=0.05, shift_mm=0.2)
    logged = plant.logged.copy()
    logged[3] = nudged(logged[3], np.array([0.2, 0, 0, 0.05, 0, 0]))
    answer = hand_eye(plant.setup, logged, plant.boards)
    assert answer.left_out == (3,)
    assert off(plant.X, answer.T_parent_camera)[1] < 1


def test_turns_about_one_axis_are_refused_with_the_cure():
    hands = np.stack([pose((0, 0, a), (0.01 * a, 0, 0.3)) for a in range(0, 60, 10)])
    with pytest.raises(RigError, match="about one axis.*second.*square to each other"):
        hand_eye(Setup.EYE_IN_HAND, hands, hands)


def test_a_hand_that_never_turns_is_refused():
    hands = np.stack([pose((0, 0, 0), (0.01 * a, 0, 0.3)) for a in range(5)])
    with pytest.raises(RigError, match="turns by 0"):
        hand_eye(Setup.EYE_IN_HAND, hands, hands)


def test_two_poses_are_too_few():
    plant = scene(count=2)
    with pytest.raises(RigError, match="2 poses; hand-eye calibration needs 3"):
        hand_eye(plant.setup, plant.logged, plant.boards)


def test_poses_that_do_not_pair_or_are_not_rigid_are_refused():
    plant = scene(count=4)
    with pytest.raises(RigError, match="Give one of each a picture"):
        hand_eye(plant.setup, plant.logged[:3], plant.boards)
    mirrored = plant.logged.copy()
    mirrored[2, :3, 0] *= -1
    with pytest.raises(RigError, match="T_base_hand: pose 2 is no rigid transform"):
        hand_eye(plant.setup, mirrored, plant.boards)
    with pytest.raises(RigError, match="4 × 4"):
        checked(np.zeros((3, 3)), "poses")


@pytest.mark.parametrize(
    ("points", "pixels", "says"),
    [
        (TAG[:3], np.zeros((3, 2)), "at least 4 points"),
        (TAG, np.full((4, 2), np.nan), "not finite"),
        (TAG + np.array([0, 0, 0.01]), np.zeros((4, 2)), "plane z = 0"),
        (np.outer(np.arange(4), [1, 0, 0]), np.zeros((4, 2)), "not on one line"),
    ],
)
def test_a_sight_that_cannot_be_is_refused(points, pixels, says):
    with pytest.raises(RigError, match=says):
        Sight("picture 1", points, pixels)


def test_a_nudge_and_a_difference_undo_each_other():
    start, motion = pose((10, 20, 30), (1, 2, 3)), np.array([0.1, -0.2, 0.3, 0.01, 0.02, -0.03])
    np.testing.assert_allclose(difference(start, nudged(start, motion)), motion, atol=1e-12)
    assert Rotation.from_matrix(nudged(start, motion)[:3, :3]).magnitude() > 0
