"""Trajectories: a file that says what it holds, refused where it does not fit, and played as it stands."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from twinproof.lab.drive import play
from twinproof.lab.record import Options, in_memory, record
from twinproof.lab.robot import LabRobot
from twinproof.nouns.errors import ConfigError, RobotError
from twinproof.nouns.robot import Start
from twinproof.nouns.trajectory import Trajectory, read_trajectory


def wave(size: float = 0.5, rate_hz: float = 100.0, joints: tuple[str, ...] = ("shoulder", "elbow")) -> Trajectory:
    time_s = np.arange(100) / rate_hz
    commands = size * np.sin(2 * np.pi * time_s)[:, None] * np.array([1.0, 0.5])
    return Trajectory("torque", joints, ("N m", "N m"), rate_hz, (-2.0, -2.0), (2.0, 2.0), (1e3, 1e3), commands)


def changed(path, **values):
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, **values}))
    return path


def test_what_is_saved_is_what_is_read(tmp_path):
    wave().save(tmp_path / "t.json")
    read = read_trajectory(tmp_path / "t.json")
    assert np.array_equal(read.commands, wave().commands)
    assert (read.joints, read.kind, read.rate_hz, read.seconds) == (("shoulder", "elbow"), "torque", 100.0, 1.0)
    assert not read.commands.flags.writeable


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"commands": [[0.0, 0.0], [0.0]]}, "command 1 has 1 numbers; needed are 2, for shoulder, elbow"),
        ({"commands": [[0.0, float("nan")]]}, "command 0 for 'elbow' is nan"),
        ({"commands": [[0.0, 2.5]]}, "command 0 for 'elbow' is 2.5; its limits are -2 to 2"),
        ({"commands": [[0.0, "x"]]}, "what is no number"),
        ({"commands": []}, "has 1 to 1000000 commands, found 0"),
        ({"commands": 3}, "has 1 to 1000000 commands, found 0"),
        ({"speed": [1e3, 0.1]}, "command 1 for 'elbow' is .* a second away"),
        ({"joints": ["elbow", "elbow"]}, "names each joint once"),
        ({"units": ["N m"]}, "units has 1 entries for 2 joints"),
        ({"low": [3.0, 3.0]}, "low is not above high"),
        ({"rate_hz": 0.0}, "0.0 commands a second cannot be played"),
        ({"kind": "voltage"}, "one of 'position', 'torque' is needed"),
        ({"colour": "red"}, "unknown key 'colour'"),
        ({"format": "twinproof/trajectory/9"}, "this version reads"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_with_its_place(tmp_path, values, words):
    wave().save(tmp_path / "t.json")
    with pytest.raises(RobotError, match=words):
        read_trajectory(changed(tmp_path / "t.json", **values))


def test_a_robot_refuses_a_trajectory_in_another_order_or_at_another_rate():
    with pytest.raises(RobotError, match="The order differs"):
        wave(joints=("elbow", "shoulder")).for_robot(("shoulder", "elbow"), 100.0)
    with pytest.raises(RobotError, match="50 commands a second; the robot takes 100"):
        wave(rate_hz=50.0).for_robot(("shoulder", "elbow"), 100.0)


def test_a_trajectory_plays_through_the_robot_interface_and_tells_what_was_seen():
    robot = LabRobot("pendulum", 3, effects="off")
    seen = play(robot, wave(1.5), Start(seed=2))
    assert seen.position.shape == (101, 2)
    assert np.allclose(np.diff(seen.stamp_s), 0.01)
    assert np.abs(seen.position).max() > 0.1
    assert seen.counts == {}
    again = play(robot, wave(1.5), Start(seed=2))
    assert np.array_equal(seen.position, again.position)


def test_nothing_moves_where_a_command_is_beyond_the_robots_limits():
    robot = LabRobot("pendulum", 3)
    far = replace(wave(), high=(9.0, 9.0), commands=np.full((10, 2), 8.0))
    with pytest.raises(RobotError, match="command 0 for 'shoulder', 8 after 8, is beyond the robot's range"):
        play(robot, far)
    with pytest.raises(RobotError, match="not at its start"):
        robot.observe()


def test_a_robot_that_stops_half_way_says_so():
    class Tired(LabRobot):
        def observe(self):
            seen = super().observe()
            return replace(seen, stopped=seen.stamp_s > 0.2)

    with pytest.raises(RobotError, match="stopped after 21 of 100 commands"):
        play(Tired("pendulum", 3), wave())


def test_a_recording_plays_the_trajectory_in_every_episode_and_else_stays_as_it_was():
    episodes, _ = in_memory("pendulum", 2, 3, Options(effects="off", trajectory=wave(1.0)))
    for episode in episodes:
        assert np.array_equal(episode.signals["command"].value, wave(1.0).commands)
        assert episode.labels["behaviour"] == "trajectory"
    assert not np.array_equal(episodes[0].signals["state"].value, episodes[1].signals["state"].value)
    robot = play(LabRobot("pendulum", 3, effects="off"), wave(1.0))
    sensed = episodes[0].signals["state"].value[:: 250 // 50]
    assert np.abs(robot.position[::2][: len(sensed)] - sensed[: len(robot.position[::2])]).max() < 0.02


def test_an_arm_obeys_the_targets_as_they_stand():
    home = np.array([0.0, -0.75, 0.65, 0.0, 0.75, 0.0, 0.02])
    time_s = np.arange(30) / 20
    commands = home + np.outer(0.2 * np.sin(2 * np.pi * 0.5 * time_s), [1, 0, 0, 0, 0, 0, 0])
    joints = ("waist", "shoulder", "elbow", "forearm_roll", "wrist", "wrist_rotate", "gripper")
    units = ("rad",) * 6 + ("m",)
    told = Trajectory("position", joints, units, 20.0, (-3.0,) * 7, (3.0,) * 7, (2.0,) * 7, commands)
    (episode,), _ = in_memory("drawer", 1, 3, Options(effects="off", trajectory=told))
    assert np.array_equal(episode.signals["command"].value, commands)
    assert np.ptp(episode.signals["state"].value[:, 0]) > 0.2


def test_a_trajectory_and_behaviours_exclude_each_other(tmp_path):
    with pytest.raises(ConfigError, match="one or the other"):
        Options(trajectory=wave(), behaviours=("chirp",))
    with pytest.raises(RobotError, match="the robot has waist"):
        record("drawer", 1, 0, tmp_path / "out", None, Options(trajectory=wave()))
