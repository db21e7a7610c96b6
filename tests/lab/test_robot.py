"""The robot interface: fixed rate, watchdog, limits; and the driver that the documentation shows."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from twinproof.lab.handover import ORDER
from twinproof.lab.motion import OPERATORS
from twinproof.lab.robot import LabRobot, default_limits
from twinproof.lab.take import Take, play
from twinproof.nouns.errors import RobotError
from twinproof.nouns.robot import Limits, Robot, Start

PAGE = Path(__file__).parents[2] / "docs" / "robot_interface.md"


def driver() -> type:
    """The driver class as the documentation shows it."""
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    space: dict[str, type] = {}
    exec(code, space)
    return space["LeRobotDriver"]


class Arm:
    """A small robot of LeRobot's kind: two servos in degrees that go half the way at every reading."""

    def __init__(self) -> None:
        self.angle, self.target, self.connected = np.zeros(2), np.zeros(2), False

    def connect(self) -> None:
        self.connected = True

    def get_observation(self) -> dict[str, object]:
        self.angle = (self.angle + self.target) / 2
        picture = np.full((4, 6, 3), 7, np.uint8)
        return {"pan.pos": float(self.angle[0]), "lift.pos": float(self.angle[1]), "front": picture}

    def send_action(self, action: dict[str, float]) -> None:
        self.target = np.array([action["pan.pos"], action["lift.pos"]])

    def disconnect(self) -> None:
        self.connected = False


def lab(**how: object) -> LabRobot:
    return LabRobot("push", 0, **how)  # type: ignore[arg-type]


def test_ticks_come_at_the_stated_rate_and_sensors_show_the_hidden_offsets():
    robot: Robot = lab()
    first = robot.reset(Start("box_02"))
    times = [first.stamp_s]
    for _ in range(5):
        robot.act(first.position)
        times.append(robot.observe().stamp_s)
    assert np.diff(times) == pytest.approx(1 / robot.rate_hz)
    home = np.array([lab().bench.home[name] for name in robot.joints])
    off = (first.position - home)[:6]
    planted = [lab().bench.plant(0).value(f"joint.{name}.offset") for name in robot.joints[:6]]
    assert off == pytest.approx(planted, abs=0.03)
    assert np.abs(off - planted).max() < np.abs(off).max()


def test_a_command_arrives_late_and_moves_the_arm():
    robot = lab(effects="off")
    first = robot.reset(Start("box_02"))
    target = first.position + np.array([0.3, 0, 0, 0, 0, 0, 0])
    seen = []
    for _ in range(20):
        robot.act(target)
        seen.append(robot.observe().position[0] - first.position[0])
    assert seen[0] < 0.1 < 0.27 < seen[-1] < 0.33


def test_the_watchdog_holds_the_robot_and_refuses_until_a_reset():
    robot = lab(watchdog=3)
    seen = robot.reset(Start("can_01"))
    robot.act(seen.position + 0.02)
    stopped = [robot.observe().stopped for _ in range(6)]
    assert stopped == [False, False, False, True, True, True]
    assert robot.counts["watchdog"] == 1
    with pytest.raises(RobotError, match="stopped after 3 ticks without a command. Reset it"):
        robot.act(seen.position)
    before = robot.observe().position
    for _ in range(10):
        after = robot.observe().position
    assert after == pytest.approx(before, abs=0.01)
    assert not robot.reset(Start("can_01")).stopped


def test_commands_beyond_the_limits_are_clipped_and_counted():
    robot = lab()
    seen = robot.reset(Start("box_02"))
    robot.act(seen.position + np.array([1.0, 0, 0, 0, 0, 0, 0]))
    assert robot.counts == {"speed limit": 1}
    robot.observe()
    robot.act(np.where(np.arange(7) == 1, -9.0, seen.position))
    robot.observe()
    assert robot.counts["joint limit"] == 1
    sent = np.stack(robot._running().log.command)
    assert (np.abs(np.diff(sent, axis=0)) <= robot.limits.speed / robot.rate_hz + 1e-9).all()


def test_commands_beyond_the_limits_are_refused_where_that_is_the_rule():
    usual = default_limits("push")
    robot = lab(limits=Limits(usual.low, usual.high, usual.speed, "refuse"))
    seen = robot.reset(Start("box_02"))
    with pytest.raises(RobotError, match=r"for 'waist' is beyond its joint limit: -3.1 to 3.1"):
        robot.act(seen.position + np.array([5.0, 0, 0, 0, 0, 0, 0]))
    with pytest.raises(RobotError, match=r"for 'elbow' is beyond its speed limit"):
        robot.act(seen.position + np.array([0, 0, 0.5, 0, 0, 0, 0]))
    assert robot.counts == {"joint limit": 1, "speed limit": 1}
    assert robot._running().log.command == []


@pytest.mark.parametrize(
    "command", [np.zeros(6), np.full(7, np.nan), np.zeros((1, 7)), "forward", [1.0, [2.0, 3.0]], None]
)
def test_what_is_no_command_is_refused(command):
    robot = lab()
    robot.reset(Start("box_02"))
    with pytest.raises(RobotError, match="needed are 7 numbers, for waist, shoulder"):
        robot.act(command)
    assert robot.counts["refused: not a command"] == 1


def test_a_robot_that_was_not_started_or_is_closed_refuses_everything():
    robot = lab()
    with pytest.raises(RobotError, match="not at its start. Call reset first"):
        robot.observe()
    robot.close()
    with pytest.raises(RobotError, match="closed. Construct a new one"):
        robot.act(np.zeros(7))
    with pytest.raises(RobotError, match="the robot is closed"):
        robot.reset(Start())
    with pytest.raises(RobotError, match="no camera 'roof'. It has front, left, right, wrist"):
        lab(cameras=("roof",))


def test_pictures_come_with_the_stamp_of_their_camera_s_clock():
    robot = lab(cameras=("front", "wrist"), size=(32, 24))
    robot.reset(Start("box_02"))
    seen = robot.observe()
    assert set(seen.images) == {"front", "wrist"}
    assert seen.images["front"].rgb.shape == (24, 32, 3)
    planted = next(camera for camera in robot.bench.plant(0).cameras if camera.name == "front").clock_offset_s
    assert seen.images["front"].stamp_s == pytest.approx(seen.stamp_s - 0.03 - planted)


def test_the_same_condition_is_the_same_trial_and_an_object_can_be_placed():
    first, again = lab().reset(Start("box_02", seed=4)), lab().reset(Start("box_02", seed=4))
    assert (first.position == again.position).all()
    robot = lab()
    robot.reset(Start("box_02", at_m=(0.33, -0.05)))
    assert robot._running().log.snaps[0].object_m[:2] == pytest.approx([0.33, -0.05], abs=2e-3)


def test_logged_commands_played_through_the_interface_do_the_task_and_the_referee_sees_it():
    robot = LabRobot("handover", 1, limits=Limits(np.full(14, -9.0), np.full(14, 9.0), np.full(14, np.inf)))
    take = Take(0, "handover", "cube_04", "day_0", OPERATORS[0])
    demo = play(robot.bench, robot.bench.plant(1), take, robot.effects, 0)
    at = demo.reality.log.snaps[0]
    yaw = 2 * float(np.arctan2(at.object_quat[3], at.object_quat[0]))
    robot.reset(Start("cube_04", at_m=(float(at.object_m[0]), float(at.object_m[1])), yaw_rad=yaw))
    for command in demo.reality.log.command:
        robot.act(command)
        robot.observe()
    assert tuple(event.name for event in robot.events()) == ORDER
    assert robot.succeeded("handover", demo.reality.log.snaps[-1].object_m)


def test_the_driver_in_the_documentation_drives_a_lerobot_style_robot():
    arm = Arm()
    limits = Limits(np.radians([-90.0, -45.0]), np.radians([90.0, 45.0]), np.full(2, 1000.0))
    robot = driver()(arm, ("pan", "lift"), limits, cameras=("front",), rate_hz=500.0, watchdog=2)
    seen = robot.reset(Start())
    assert arm.connected
    assert seen.images["front"].rgb.shape == (4, 6, 3)
    for _ in range(12):
        robot.act(np.radians([30.0, 80.0]))
        seen = robot.observe()
    assert np.degrees(seen.position) == pytest.approx([30.0, 45.0], abs=0.1)
    assert robot.counts["clipped"] == 12
    with pytest.raises(RobotError):
        robot.act(np.array([np.nan, 0.0]))
    stopped = [robot.observe().stopped for _ in range(4)]
    assert stopped[-1]
    assert robot.counts["watchdog"] == 1
    with pytest.raises(RobotError):
        robot.act(np.zeros(2))
    robot.close()
    assert not arm.connected


def test_the_driver_in_the_documentation_is_forty_lines():
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    body = code[code.index("class LeRobotDriver") :]
    assert len([line for line in body.splitlines() if line.strip()]) <= 40


def test_many_acts_in_one_tick_move_the_target_by_one_tick_s_step_and_the_last_counts():
    robot = lab()
    seen = robot.reset(Start("box_02"))
    start, step = robot._last.copy(), robot.limits.speed / robot.rate_hz
    for k in range(20):
        robot.act(seen.position + np.array([0.05 * (k + 1), 0, 0, 0, 0, 0, 0]))
    robot.observe()
    sent = robot._running().log.command
    assert len(sent) == 1
    assert sent[0][0] == pytest.approx(start[0] + step[0])
    robot.act(start + 1.0)
    robot.act(start)
    robot.observe()
    assert sent[-1][0] == pytest.approx(start[0])


@pytest.mark.parametrize(
    ("how", "match"),
    [
        ((np.array([np.nan, 0.0]), np.ones(2), np.ones(2)), "bounds must be finite"),
        ((np.zeros(2), np.array([1.0, np.inf]), np.ones(2)), "limits of joint 1 are 0.0 to inf"),
        ((np.ones(2), np.zeros(2), np.ones(2)), "low must not be above high"),
        ((np.zeros(2), np.ones(2), np.array([1.0, 0.0])), "a speed must be positive"),
        ((np.zeros(2), np.ones(2), np.full(2, np.nan)), "a speed must be positive"),
        ((np.zeros(2), np.ones(3), np.ones(2)), "have 2, 3 and 2 numbers"),
        (("low", np.ones(2), np.ones(2)), "limits.low is 'low'. Give a row of numbers"),
        ((np.zeros(2), np.ones(2), np.ones(2), "shrug"), "beyond='shrug' cannot be. Use clip or refuse"),
    ],
)
def test_limits_that_cannot_be_are_refused_when_they_are_made(how, match):
    with pytest.raises(RobotError, match=match):
        Limits(*how)


@pytest.mark.parametrize(
    ("how", "match"),
    [
        ({"limits": Limits(np.zeros(2), np.ones(2), np.ones(2))}, "limits for 2 joints, and bench 'push' has 7"),
        ({"watchdog": 0}, "a watchdog of 0 ticks"),
        ({"plant": -1}, "there is no plant -1"),
    ],
)
def test_a_robot_that_cannot_be_is_refused_at_construction(how, match):
    with pytest.raises(RobotError, match=match):
        LabRobot("push", how.pop("plant", 0), **how)


@pytest.mark.parametrize("how", [{"seed": -1}, {"at_m": (np.nan, 0.0)}, {"yaw_rad": np.inf}])
def test_a_start_that_cannot_be_is_refused(how):
    with pytest.raises(RobotError, match="cannot"):
        Start("box_02", **how)


@pytest.mark.parametrize(
    ("name", "thing", "match"),
    [
        ("push", "cube_01", "bench 'push' has no object 'cube_01'. It has box_00 to box_11, can_00"),
        ("push", "box_99", "no object 'box_99'"),
        ("pendulum", "box_01", "bench 'pendulum' has no objects, and 'box_01' was asked for"),
    ],
)
def test_an_object_that_the_bench_does_not_have_is_refused_at_reset(name, thing, match):
    with pytest.raises(RobotError, match=match):
        LabRobot(name, 0).reset(Start(thing))


def test_the_referee_judges_only_the_bench_s_behaviours_and_only_with_a_goal():
    robot = lab()
    robot.reset(Start("box_02"))
    with pytest.raises(RobotError, match="no behaviour 'junk' to judge. It has push, lift, drop, shake, scan"):
        robot.succeeded("junk")
    for goal in (None, np.zeros(1), np.full(2, np.nan), "there"):
        with pytest.raises(RobotError, match="needed is where the object was to go, 2 finite numbers"):
            robot.succeeded("push", goal)  # type: ignore[arg-type]
    assert robot.succeeded("push", robot._running().log.snaps[0].object_m)


def test_a_robot_shows_neither_its_plant_nor_its_cameras_truth():
    shown = [value for name, value in vars(lab(cameras=("front",))).items() if not name.startswith("_")]
    assert not any("theta" in repr(value) or "T_true" in repr(value) for value in shown)


class Connects(Arm):
    """Refuses a second connection, as LeRobot's robots do."""

    def connect(self) -> None:
        assert not self.connected
        super().connect()


def test_the_driver_in_the_documentation_limits_by_the_tick_and_refuses_where_that_is_the_rule():
    arm, usual = Connects(), (np.full(2, -1.0), np.full(2, 1.0), np.full(2, 50.0))
    robot = driver()(arm, ("pan", "lift"), Limits(*usual), rate_hz=500.0)
    robot.reset(Start())
    for _ in range(20):
        robot.act(np.ones(2))
    assert np.radians(arm.target) == pytest.approx([0.1, 0.1])
    robot.limits = Limits(*usual, "refuse")
    with pytest.raises(RobotError, match="beyond its limits"):
        robot.act(np.ones(2))
    for junk in ("forward", [1.0, [2.0]], np.array(["a", "b"]), None):
        with pytest.raises(RobotError, match="no command"):
            robot.act(junk)
    assert np.radians(arm.target) == pytest.approx([0.1, 0.1])


def test_the_driver_in_the_documentation_stops_as_early_as_the_lab_connects_once_and_is_closed_for_good():
    arm = Connects()
    limits = Limits(np.full(2, -1.0), np.full(2, 1.0), np.full(2, 50.0))
    robot = driver()(arm, ("pan", "lift"), limits, rate_hz=500.0, watchdog=3, scale={"lift": 1.0})
    for act in (False, True):
        seen = robot.reset(Start())
        if act:
            robot.act(seen.position + np.array([0.0, 0.02]))
            assert arm.target[1] == pytest.approx(seen.position[1] + 0.02)  # metres stay metres
        assert [robot.observe().stopped for _ in range(5)] == [False, False, False, True, True]
    robot.close()
    robot.close()
    for refused in (robot.observe, lambda: robot.act(np.zeros(2)), lambda: robot.reset(Start())):
        with pytest.raises(RobotError, match="closed"):
            refused()
    assert not arm.connected
