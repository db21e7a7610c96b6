"""A practice bench's tracker while the robot runs, and the sight that it gives to trials."""

import numpy as np
import pytest

from tests.tasks.scenes import made
from twinproof.cli_robot import Markers, place_of
from twinproof.lab.robot import LabRobot
from twinproof.nouns.errors import ConfigError, RobotError
from twinproof.nouns.robot import Start

BEGIN = Start("drawer_02", "day_0", 4)


def tracked(robot, ticks=5):
    robot.reset(BEGIN)
    poses = [robot.tracked()]
    for _ in range(ticks):
        robot.observe()
        poses.append(robot.tracked())
    return poses


def test_the_same_trial_is_seen_the_same_way_twice_and_near_the_truth():
    robot = LabRobot("drawer", 0, tracker="mocap")
    first, again = tracked(robot), tracked(robot)
    assert [None if a is None else a.tolist() for a in first] == [None if b is None else b.tolist() for b in again]
    pose = next(pose for pose in first if pose is not None)
    truth = robot._reality.world.body_pose("drawer")
    assert np.linalg.norm(pose[:3] - truth[:3, 3]) < 0.01
    assert np.linalg.norm(pose[3:]) == pytest.approx(1.0)


def test_a_bench_without_a_tracker_says_so():
    robot = LabRobot("drawer", 0)
    robot.reset(BEGIN)
    with pytest.raises(RobotError, match="nothing tracks the object of bench 'drawer'. Construct it with a tracker."):
        robot.tracked()


def test_a_trial_sees_the_object_through_the_tracker_that_the_robot_was_named_with():
    task = made("drawer")
    place = place_of("lab:drawer?plant=0&tracker=tag", task, "", None, None)
    assert isinstance(place.sight, Markers)
    seen = place.robot.reset(BEGIN)
    place.sight.begin(seen, None)
    for _ in range(20):
        found = place.sight.look(seen)
        seen = place.robot.observe()
    assert found["drawer"].shape == (7,)


def test_an_object_that_was_lost_for_long_is_not_seen():
    class Blind:
        def tracked(self):
            return None

    class At:
        stamp_s = 0.0

    sight = Markers(Blind(), "drawer")
    sight.begin(At(), None)
    assert dict(sight.look(At())) == {}


def test_a_robot_that_cannot_be_read_is_refused():
    with pytest.raises(ConfigError, match="cannot be read. Write 'lab:push"):
        place_of("lab:drawer?sight=mocap", made("drawer"), "", None, None)
