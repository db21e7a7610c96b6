"""A tag on the hand puts the cameras where they are; what no board can tell is said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.reconstruct.boards import drawn_tag, pose
from tests.reconstruct.test_robot_calibrate import ARM, JOINTS, looking
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import ConfigError, RigError, TwinError
from twinproof.nouns.parts import Calibration
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Camera, Intrinsics, Joint, Mount, Rig, SignalRule
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.video_write import write_pictures
from twinproof.reconstruct.assemble import Physical, Room
from twinproof.reconstruct.board_block import Board, FoundBoards, found_boards, read_board
from twinproof.reconstruct.calibration_block import FoundCamera, FoundRobot
from twinproof.reconstruct.poses import quat_of
from twinproof.reconstruct.robot_fit import Robot
from twinproof.sim.grid import Plane
from twinproof.sim.link_splats import LinkPoses, link_splats, robot_bodies
from twinproof.sim.scene import Scene

SIZE, LENS = 0.06, Intrinsics(320.0, 320.0, 159.5, 119.5)
CAMERA = looking((0.9, 0.3, 0.5), (0.3, 0, 0.1))
TAG = Board("tag36h11", SIZE, "lower", 10)


def room(stated: Mount) -> Room:
    scene = Scene(ARM)
    model = scene.nominal()
    links = link_splats(model, robot_bodies(model), 0.05)
    robot = Robot((links, links, links), LinkPoses(model, JOINTS, links.bodies), (0, 1, 2))
    camera = FoundCamera(320, 240, LENS, stated, 0.0, 0.001, 0.0, 0.001, 0.002, 0.9)
    found = FoundRobot({"front": camera}, dict.fromkeys(JOINTS, 0.0), dict.fromkeys(JOINTS, 0.001), {}, (), {})
    return Room(scene, robot, found, {}, Plane(), Physical())


def recorded(folder, robot: Robot, postures: int) -> Calibration:
    """The arm stands still in some postures and shows its tag; between them it moves fast."""
    rng = np.random.default_rng(3)
    stands = np.concatenate([np.zeros((1, 3)), rng.uniform(-0.35, 0.35, (postures - 1, 3))])
    link = robot.fine.splats.groups.index("lower")
    hand = robot.poses.at(stands[0])[link]
    Z = np.linalg.inv(hand) @ CAMERA @ pose((15, 20, 5), (0.0, 0.0, 0.45))
    time_s = np.arange(0, postures, 0.05)
    value = stands[np.minimum((time_s + 0.3).astype(int), postures - 1)]
    shots = []
    for k, q in enumerate(stands):
        board = np.linalg.inv(CAMERA) @ robot.poses.at(q)[link] @ Z
        shots.append((float(k), np.repeat(drawn_tag(board, LENS, SIZE, (240, 320))[..., None], 3, axis=2)))
    video = write_pictures(iter(shots), "front", folder / "front.mp4")
    signal = Signal("state", "joint_position", tuple(Column(n, "rad") for n in JOINTS), time_s, value)
    rig = Rig(
        "arm",
        tuple(Joint(name) for name in JOINTS),
        cameras={"front": Camera("front", LENS, mount=Mount())},
        signals={"state": SignalRule("state", "joint_position", "rad")},
    )
    episode = Episode.of({"state": signal}, {"front": video}, source="made")
    return Calibration(Recording(rig, (episode,), {"kind": "made"}), "5" * 64)


def test_a_tag_on_a_link_puts_the_camera_where_it_is(tmp_path) -> None:
    pytest.importorskip("pupil_apriltags")
    wrong = CAMERA.copy()
    wrong[:3, 3] += 0.02
    before = room(Mount("world", tuple(wrong[:3, 3].tolist()), quat_of(wrong), 0.03, 0.03))
    part = recorded(tmp_path, before.robot, 8)
    found = found_boards(part, before, [TAG])
    found.save(tmp_path)
    after = FoundBoards.load(tmp_path).applied(before).cameras["front"]
    assert np.linalg.norm(np.array(after.mount.position_m) - CAMERA[:3, 3]) < 0.006
    assert after.mount.position_sd_m < 0.03
    assert "tag36h11 10 on lower in" in found.notes[0]


def test_what_no_board_tells_is_said(tmp_path) -> None:
    pytest.importorskip("pupil_apriltags")
    before = room(Mount("world", tuple(CAMERA[:3, 3].tolist()), quat_of(CAMERA), 1e-6, 1e-6))
    part = recorded(tmp_path, before.robot, 6)
    kept = found_boards(part, before, [TAG])
    assert not kept.cameras
    assert "had told more, and stay" in kept.notes[0]
    with pytest.raises(TwinError, match="no camera shows tag36h11 10 on world in 5 pictures"):
        found_boards(part, before, [replace(TAG, parent="world")])
    with pytest.raises(RigError, match="the robot has no link 'thumb'"):
        found_boards(part, before, [replace(TAG, parent="thumb")])


def test_boards_are_read_from_the_command_line() -> None:
    assert read_board("tag36h11:10@lower=0.06") == TAG
    chess = read_board("chessboard:9x6@world=0.0236")
    assert chess == Board("chessboard", 0.0236, "world", inner=(9, 6))
    assert str(chess) == "the chessboard of 9 × 6 corners on world"
    assert chess.seen(np.full((60, 80), 99, np.uint8), "a", room(Mount()).found.cameras["front"]) is None
    with pytest.raises(ConfigError, match="is neither FAMILY:NUMBER@LINK=METRES"):
        read_board("a tag")
