"""An object under a robot that moves as recorded: it is pushed by exactly that motion, and by nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.pushing import HALF, SCENE, pushing, standing
from twinproof.nouns.errors import RecordingError, SimError
from twinproof.nouns.theta import Theta
from twinproof.sim.handled import Handling, Variant, pose_of, qpos_of, resting_height
from twinproof.sim.scene import Scene
from twinproof.sim.track_pose import move_between, nudged


def test_a_pushed_box_ends_where_the_pusher_leaves_it() -> None:
    handling = pushing()
    replay = handling.replay()
    piece = replay.roll(Variant(), 0, replay.steps, qpos_of(standing()), np.zeros(6), [0, replay.steps])
    assert piece.touched
    T = pose_of(piece.qpos[-1])
    assert T[0, 3] == pytest.approx(handling.angle[:, 0].max() + 0.01 + HALF[0], abs=6e-4)
    assert abs(T[1, 3]) < 1e-3
    assert T[2, 3] == pytest.approx(HALF[2], abs=3e-4)


def test_an_offset_of_the_joint_moves_the_end_by_as_much() -> None:
    replay = pushing().replay()
    start = qpos_of(standing())
    ends = [
        replay.roll(Variant(Theta(), np.array([off])), 0, replay.steps, start, np.zeros(6), [replay.steps]).qpos[0, 0]
        for off in (0.0, 0.003)
    ]
    assert ends[1] - ends[0] == pytest.approx(0.003, abs=3e-4)


def test_nothing_happens_to_a_box_that_nothing_touches() -> None:
    replay = pushing().replay()
    aside = nudged(standing(), np.array([0, 0.3, 0, 0, 0, 0.4]))
    begun = resting_height(replay.handling.scene, "box", aside)
    piece = replay.roll(Variant(), 0, replay.steps, qpos_of(begun), np.zeros(6), [replay.steps])
    assert not piece.touched
    assert np.abs(move_between(begun, pose_of(piece.qpos[0]))).max() < 2e-4


def test_friction_decides_how_a_box_turns_under_an_eccentric_push() -> None:
    replay = pushing().replay()
    start = qpos_of(nudged(standing(), np.array([0, 0.03, 0, 0, 0, 0])))
    turns = []
    for theta in (Theta(), Theta({"geom.box.friction_slide": 0.9})):
        piece = replay.roll(Variant(theta), 0, replay.steps, start, np.zeros(6), [replay.steps])
        turns.append(move_between(standing(), pose_of(piece.qpos[0]))[5])
    assert abs(turns[0]) > 0.02
    assert turns[0] != pytest.approx(turns[1], abs=1e-4)


def test_a_driven_joint_follows_its_commands() -> None:
    handling = pushing(driven=True)
    replay = handling.replay()
    piece = replay.roll(Variant(), 0, replay.steps, qpos_of(standing()), np.zeros(6), [replay.steps])
    assert pose_of(piece.qpos[0])[0, 3] > 0.03


def test_steps_are_the_nearest_to_a_time() -> None:
    replay = pushing().replay()
    assert list(replay.step_at(np.array([-1.0, 0.0, 0.0041, 99.0]))) == [0, 0, 1, replay.steps]


def test_recordings_that_cannot_be_replayed_are_refused() -> None:
    scene, time_s = Scene(SCENE), np.array([0.0, 1.0])
    with pytest.raises(RecordingError, match="one finite row a time"):
        Handling(scene, "box", ("push",), time_s, np.zeros((2, 2)))
    with pytest.raises(RecordingError, match="do not increase"):
        Handling(scene, "box", ("push",), time_s[::-1], np.zeros((2, 1)))
    with pytest.raises(RecordingError, match="are to follow their commands"):
        Handling(scene, "box", ("push",), time_s, np.zeros((2, 1)), driven=("push",))
    with pytest.raises(SimError, match="no free body 'mug' to be handled"):
        Handling(scene, "mug", ("push",), time_s, np.zeros((2, 1))).replay()
    with pytest.raises(SimError, match="no joint 'pull'"):
        Handling(scene, "box", ("pull",), time_s, np.zeros((2, 1))).replay()
    with pytest.raises(SimError, match="no free body 'pusher' that could rest"):
        resting_height(scene, "pusher", np.eye(4))
    still = Handling(scene, "box", ("idle",), time_s, np.zeros((2, 1)), ("idle",), time_s, np.zeros((2, 1)))
    with pytest.raises(SimError, match="'idle' has no actuator"):
        still.replay()
