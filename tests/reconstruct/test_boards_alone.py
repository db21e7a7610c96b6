"""Cameras from a tag and the hand's own poses: found where they were planted, and what is missing is said."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.reconstruct.boards import drawn_tag, scene
from twinproof.cli import main
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import RecordingError, RigError
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Camera, Intrinsics, Mount, Rig, SignalRule
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.video_write import write_pictures
from twinproof.reconstruct.board_block import Board
from twinproof.reconstruct.boards_alone import placed_by_boards
from twinproof.reconstruct.hand_eye_refine import LensFreedom
from twinproof.reconstruct.poses import quat_of

SIZE, LENS = 0.06, Intrinsics(320.0, 320.0, 159.5, 119.5)
TAG = Board("tag36h11", SIZE, "hand", 10)
COLUMNS = tuple(Column(name, "m" if name in "xyz" else "1") for name in ("x", "y", "z", "qw", "qx", "qy", "qz"))
FREE = LensFreedom(focal=0.01)


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Eight postures of a hand with a tag before a camera that stands."""
    folder, plant = tmp_path_factory.mktemp("boards"), scene(count=8, seed=1)
    shots = [
        (float(k), np.repeat(drawn_tag(board, LENS, SIZE, (240, 320))[..., None], 3, axis=2))
        for k, board in enumerate(plant.boards)
    ]
    video = write_pictures(iter(shots), "front", folder / "front.mp4")
    rows = np.array([[*T[:3, 3], *quat_of(T)] for T in plant.logged])
    hand = Signal("hand", "pose", COLUMNS, np.arange(8.0), rows)
    rig = Rig("arm", (), signals={"hand": SignalRule("hand", "pose")}, cameras={"front": Camera("front", LENS)})
    return plant, Recording(rig, (Episode.of({"hand": hand}, {"front": video}),), {"kind": "made"})


def test_a_camera_is_found_where_it_was_planted(planted, tmp_path, capsys):
    plant, recording = planted
    recording.save(tmp_path / "recording")
    command = ["calibrate", str(tmp_path / "recording"), "--board", f"tag36h11:10@hand={SIZE}", "--out"]
    with pytest.raises(SystemExit) as ended:
        main([*command, str(tmp_path / "cameras")])
    assert ended.value.code == 0, capsys.readouterr().err
    (camera,) = json.loads((tmp_path / "cameras" / "cameras.json").read_text())["cameras"]
    assert camera["pictures"] == 8
    assert camera["mount"]["parent"] == "world"
    assert np.allclose(camera["mount"]["position_m"], plant.X[:3, 3], atol=2e-3)
    with pytest.raises(SystemExit) as ended:
        main([*command, str(tmp_path / "cameras")])
    assert ended.value.code == 1
    assert "Nothing is overwritten" in capsys.readouterr().err


def test_a_free_lens_is_refined(planted):
    plant, recording = planted
    wrong = Camera("front", Intrinsics(322.0, 322.0, 159.5, 119.5))
    off = replace(recording, rig=replace(recording.rig, cameras={"front": wrong}))
    held, free = (placed_by_boards(off, [TAG], how)[0].found for how in (LensFreedom(), FREE))
    assert abs(free.lens.fx - 320) < abs(held.lens.fx - 320)
    assert np.linalg.norm(free.answer.T_parent_camera[:3, 3] - plant.X[:3, 3]) < 3e-3


def test_a_tag_that_is_not_there_is_named(planted):
    with pytest.raises(RecordingError, match="tag36h11 9 on hand in 0 pictures; 5 are needed"):
        placed_by_boards(planted[1], [replace(TAG, number=9)], FREE)


def test_a_camera_and_a_board_that_both_stand_tell_nothing(planted):
    with pytest.raises(RigError, match="both stand"):
        placed_by_boards(planted[1], [replace(TAG, parent="world")], FREE)


def test_a_riding_camera_needs_the_pose_of_what_it_rides_on(planted):
    recording = planted[1]
    riding = Camera("front", LENS, mount=Mount("wrist"))
    moved = replace(recording, rig=replace(recording.rig, cameras={"front": riding}))
    with pytest.raises(RecordingError, match="no pose of 'wrist'; its poses are hand"):
        placed_by_boards(moved, [replace(TAG, parent="world")], FREE)


def test_a_picture_without_a_pose_is_named(planted):
    recording = planted[1]
    (episode,) = recording.episodes
    signal = episode.signals["hand"]
    late = replace(signal, time_s=signal.time_s + 0.2)
    shifted = Recording(recording.rig, (Episode.of({"hand": late}, dict(episode.videos)),), {"kind": "made"})
    with pytest.raises(RecordingError, match="has no pose of 'hand' within"):
        placed_by_boards(shifted, [TAG], FREE)


def test_a_rig_without_a_lens_is_refused(planted):
    recording = planted[1]
    with pytest.raises(RigError, match="no camera of the rig has intrinsics"):
        placed_by_boards(replace(recording, rig=replace(recording.rig, cameras={})), [TAG], FREE)
