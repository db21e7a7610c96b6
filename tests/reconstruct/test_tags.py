"""Corners of tags and chessboards in pictures."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.reconstruct.boards import LENS, drawn_tag, pose
from twinproof.nouns.errors import MissingExtra, RecordingError, RigError
from twinproof.nouns.rig import Intrinsics
from twinproof.reconstruct.plane_pose import plane_poses, project
from twinproof.reconstruct.poses import difference
from twinproof.reconstruct.tag_pattern import aligned
from twinproof.reconstruct.tags import april_tags, chessboard

SIZE = 0.06
DATA = Path(__file__).parents[3] / "shared/data/franka_handeye/data-eye-to-hand"


def test_corners_of_a_tag_are_found_to_a_twentieth_of_a_pixel_and_give_its_pose():
    pytest.importorskip("pupil_apriltags")
    board = pose((25, -20, 30), (0.02, -0.01, 0.3))
    sight = april_tags(drawn_tag(board, LENS, SIZE), SIZE)[10]
    expected = project(LENS, sight.points @ board[:3, :3].T + board[:3, 3])[0]
    assert np.abs(sight.pixels - expected).max() < 0.05
    motion = difference(board, plane_poses(sight, LENS)[0].T_camera_board)
    assert np.degrees(np.linalg.norm(motion[:3])) < 0.2
    assert np.linalg.norm(motion[3:]) < 3e-4


def test_a_bent_lens_is_allowed_for_within_the_tag():
    pytest.importorskip("pupil_apriltags")
    lens = Intrinsics(300, 300, 120, 90, (0.4, 0.0, 0.0, 0.0))
    board = pose((10, 15, 5), (0.02, 0.015, 0.18))
    picture = drawn_tag(board, lens, SIZE, (200, 260))
    points = april_tags(picture, SIZE)[10].points
    expected = project(lens, points @ board[:3, :3].T + board[:3, 3])[0]
    worst = [np.abs(april_tags(picture, SIZE, lens=given)[10].pixels - expected).max() for given in (None, lens)]
    assert worst[1] < 0.05 < worst[0]


def test_a_pattern_that_is_not_there_is_not_laid_over():
    blank = np.full((60, 60), 128.0)
    assert aligned(blank, np.array([[1.0, 3], [3, 3], [3, 1], [1, 1]])) is None
    assert aligned(blank, np.array([[90.0, 99], [99, 99], [99, 90], [90, 90]])) is None


def test_corners_of_a_chessboard_are_found():
    pytest.importorskip("cv2")
    board, square = pose((15, -10, 5), (-0.06, -0.05, 0.4)), 0.02
    v, u = np.mgrid[:480, :640].astype(float)
    rays = np.stack([(u - LENS.cx) / LENS.fx, (v - LENS.cy) / LENS.fy, np.ones_like(u)]).reshape(3, -1)
    x, y, w = np.linalg.inv(board[:3, [0, 1, 3]]) @ rays
    column, row = np.floor(x / w / square).astype(int), np.floor(y / w / square).astype(int)
    inside = (column >= -1) & (column < 7) & (row >= -1) & (row < 6)
    picture = np.where(inside & ((column + row) % 2 == 0), 20, 220).reshape(480, 640).astype(np.uint8)
    sight = chessboard(np.stack([picture] * 3, axis=-1), (7, 6), square)
    assert sight is not None
    expected = project(LENS, sight.points @ board[:3, :3].T + board[:3, 3])[0]
    # The board may be read from either end: the set of corners is the same.
    gaps = np.linalg.norm(sight.pixels[:, None] - expected[None], axis=-1).min(axis=1)
    assert gaps.max() < 0.5
    assert chessboard(np.full((100, 100), 99, np.uint8), (7, 6), square) is None


def test_a_tag_seen_twice_is_refused():
    pytest.importorskip("pupil_apriltags")
    picture = drawn_tag(pose((0, 0, 0), (0, 0, 0.3)), LENS, SIZE)[120:360, 200:440]
    with pytest.raises(RecordingError, match="AprilTag 10 is seen twice"):
        april_tags(np.concatenate([picture, picture], axis=1), SIZE)


def test_measures_and_pictures_that_cannot_be_are_refused():
    grey = np.zeros((40, 40), np.uint8)
    with pytest.raises(RigError, match="family 'tag99' is not known"):
        april_tags(grey, SIZE, family="tag99")
    with pytest.raises(RigError, match="0 m wide"):
        april_tags(grey, 0.0)
    with pytest.raises(RigError, match="looks the same when turned round"):
        chessboard(grey, (6, 8), 0.02)
    with pytest.raises(RigError, match="Measure over several squares"):
        chessboard(grey, (7, 6), -1.0)
    pytest.importorskip("pupil_apriltags")
    with pytest.raises(RecordingError, match="needed is uint8"):
        april_tags(grey.astype(float), SIZE)


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pupil_apriltags", None)
    with pytest.raises(MissingExtra, match=r"pip install 'twinproof\[tags\]'"):
        april_tags(np.zeros((40, 40), np.uint8), SIZE)


def test_the_real_tag_is_found_to_a_fraction_of_a_pixel():
    pytest.importorskip("pupil_apriltags")
    if not DATA.is_dir():
        pytest.skip(f"{DATA} is not there: real data lie outside the repository")
    from PIL import Image

    lens = Intrinsics(607.59, 607.57, 323.46, 243.26)
    sight = april_tags(np.asarray(Image.open(DATA / "franka_image-4.png").convert("L")), 0.048)[10]
    assert plane_poses(sight, lens)[0].px < 0.3


def test_a_detector_that_dies_is_asked_again_and_then_named(monkeypatch):
    pytest.importorskip("pupil_apriltags")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(RecordingError, match="the AprilTag detector died 3 times"):
        april_tags(np.zeros((40, 40), np.uint8), 0.05)
