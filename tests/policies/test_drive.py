"""Trials on the lab's robots: the loop closes, and whatever fails, the robot stops."""

from __future__ import annotations

import numpy as np
import pytest

from twinproof.lab.robot import LabRobot
from twinproof.nouns.errors import PolicyError, RobotError
from twinproof.nouns.policy import Channel, Contract
from twinproof.nouns.robot import Limits, Start
from twinproof.policies.drive import Manner, drive
from twinproof.policies.safety import RANGE, Safety
from twinproof.policies.scripted import Scripted

START = Start(seed=3)


@pytest.fixture
def arm() -> LabRobot:
    return LabRobot("push", plant=0)


def observe(seen, last):
    return {"position": seen.position[None], "last": last[None]}


def contract(robot: LabRobot, unit: str = "rad", **changes) -> Contract:
    width = (len(robot.joints),)
    limits = zip(robot.joints, robot.limits.low, robot.limits.high, strict=True)
    actions = tuple(Channel(name, unit, float(low), float(high)) for name, low, high in limits)
    channels = (Channel("position", unit, shape=width), Channel("last", unit, shape=width))
    return Contract(channels, actions, **{"rate_hz": robot.rate_hz, **changes})


def towards(robot: LabRobot, goal: np.ndarray, **changes) -> Scripted:
    return Scripted(contract(robot, **changes), lambda seen: seen["last"] + 0.2 * (goal - seen["last"]))


def test_the_loop_closes_and_reaches_its_goal(arm):
    goal = arm.reset(START).position + np.array([0.2, 0.1, 0, 0, 0, 0, 0])
    driven = drive(towards(arm, goal), arm, observe, START, 2.0)
    assert driven.ended == "horizon"
    assert len(driven.commands) == len(driven.actions) == len(driven.latency_s) == 40
    np.testing.assert_allclose(driven.position[40], goal, atol=0.03)
    assert (driven.latency_s > 0).all()
    assert (np.diff(driven.stamp_s) > 0).all()
    assert driven.counts["robot: watchdog"] == 1  # it was left stopped


def test_the_same_trial_twice_is_the_same(arm):
    goal = arm.reset(START).position + 0.1
    a, b = (drive(towards(arm, goal), arm, observe, START, 0.5) for _ in range(2))
    assert (a.position == b.position).all()
    assert (a.commands == b.commands).all()


def test_a_trial_may_end_before_its_horizon(arm):
    goal = arm.reset(START).position + np.array([0.2, 0, 0, 0, 0, 0, 0])
    done = Manner(done=lambda seen: "the waist is there." if abs(seen.position[0] - goal[0]) < 0.05 else "")
    driven = drive(towards(arm, goal), arm, observe, START, 5.0, done)
    assert (driven.ended, driven.because) == ("done", "the waist is there.")
    assert len(driven.commands) < 100


def failing_at(robot: LabRobot, tick: int, given) -> Scripted:
    """Holds, and at one tick gives something else, or raises it."""
    asked = []

    def script(seen):
        asked.append(1)
        if len(asked) <= tick:
            return seen["last"]
        if isinstance(given, Exception):
            raise given
        return given

    return Scripted(contract(robot), script)


@pytest.mark.parametrize(
    ("given", "because"),
    [
        (PolicyError("the server closed the connection."), "the server closed the connection."),
        (np.full((1, 7), np.nan), "the script gave nan for 'waist'"),
        (np.zeros((1, 6)), "the script gave actions of shape (1, 6)"),
    ],
)
def test_a_policy_that_fails_stops_the_robot_where_it_is(arm, given, because):
    driven = drive(failing_at(arm, 5, given), arm, observe, START, 5.0)
    assert driven.ended == "policy"
    assert because in driven.because
    assert len(driven.commands) == 5
    assert arm.observe().stopped
    with pytest.raises(RobotError, match="stopped after"):
        arm.act(driven.position[-1])
    np.testing.assert_allclose(driven.position[-1], driven.position[5], atol=0.05)


def test_an_actor_that_checks_nothing_is_checked(arm):
    actor = failing_at(arm, 0, None)
    actor.act = lambda seen: np.full((1, 1, 7), np.inf)
    driven = drive(actor, arm, observe, START, 5.0)
    assert "shape (1, 1, 7) with 7 non-finite values; needed are finite numbers" in driven.because
    assert len(driven.commands) == 0
    assert driven.commands.shape == (0, 7)


def test_an_unforeseen_error_stops_the_robot_and_comes_out(arm):
    for problem in (KeyboardInterrupt(), ZeroDivisionError()):
        actor = failing_at(arm, 3, None)
        actor._script = lambda seen, problem=problem: (_ for _ in ()).throw(problem)
        with pytest.raises(type(problem)):
            drive(actor, arm, observe, START, 5.0)
        assert arm.observe().stopped


def test_a_robot_that_refuses_ends_the_trial():
    limits = LabRobot("push", plant=0).limits
    strict = LabRobot("push", plant=0, limits=Limits(limits.low, limits.high, limits.speed, "refuse"))
    driven = drive(failing_at(strict, 2, np.full((1, 7), 1.2)), strict, observe, START, 5.0)
    assert driven.ended == "robot"
    assert "is beyond its joint limit" in driven.because
    assert driven.counts["robot: joint limit"] == 1


class Quitting(LabRobot):
    """A robot whose own watchdog takes over in the middle, or that is switched off."""

    def __init__(self, off: bool = False) -> None:
        super().__init__("push", plant=0)
        self.off, self.seen = off, 0

    def observe(self):
        self.seen += 1
        if self.seen == 4:
            if self.off:
                self.close()
            else:
                self._stop(self._running())
        return super().observe()


def test_a_robot_that_stops_or_is_switched_off_ends_the_trial():
    stopped = Quitting()
    driven = drive(failing_at(stopped, 99, None), stopped, observe, START, 5.0)
    assert (driven.ended, driven.because) == ("robot", "the robot reports that it stopped.")
    off = Quitting(off=True)
    driven = drive(failing_at(off, 99, None), off, observe, START, 5.0)
    assert driven.ended == "robot"
    assert driven.because.count("the robot is closed") == 2  # once in the trial, once while it was being stopped
    assert "While it was being stopped" in driven.because


class Deaf(LabRobot):
    """A robot without a working watchdog."""

    def _stop(self, reality):
        pass


def test_a_watchdog_that_does_not_bite_is_told():
    deaf = Deaf("push", plant=0)
    driven = drive(failing_at(deaf, 1, PolicyError("gone.")), deaf, observe, START, 5.0)
    assert driven.because == "gone. Its watchdog did not report a stop."


def test_safety_is_kept_between_policy_and_robot(arm):
    tight = Limits(arm.limits.low, np.minimum(arm.limits.high, 0.05), np.full(7, 0.5))
    safety = Safety(arm.joints, tight, arm.rate_hz)
    goal = arm.reset(START).position + np.array([0.5, 0, 0, 0, 0, 0, 0])
    driven = drive(towards(arm, goal), arm, observe, START, 1.0, Manner(safety=safety))
    assert driven.commands[:, 0].max() <= 0.05
    assert (np.abs(np.diff(driven.commands, axis=0)) <= 0.5 / 20 + 1e-9).all()
    assert driven.counts[RANGE] > 0
    assert driven.actions[:, 0].max() > 0.06  # what the policy wanted is kept as it was
    stop = Manner(safety=Safety(arm.joints, tight, arm.rate_hz, beyond="stop"))
    driven = drive(towards(arm, goal), arm, observe, START, 1.0, stop)
    assert driven.ended == "policy"
    assert "meets the" in driven.because


def test_who_watches_may_slow_or_stop(arm):
    goal = arm.reset(START).position + np.array([0.4, 0, 0, 0, 0, 0, 0])
    fast = drive(towards(arm, goal), arm, observe, START, 0.5)
    slow = drive(towards(arm, goal), arm, observe, START, 0.5, Manner(hook=lambda seen, command: "slow"))
    assert slow.slowed == 10
    assert slow.position[10, 0] < fast.position[10, 0] - 0.05
    states = iter(["ok", "ok", "stop"])
    driven = drive(towards(arm, goal), arm, observe, START, 0.5, Manner(hook=lambda seen, command: next(states)))
    assert (driven.ended, driven.because) == ("hook", "who watched said stop.")
    assert len(driven.commands) == 2


def test_a_torque_driven_robot_is_let_go():
    pendulum = LabRobot("pendulum", plant=0)
    actor = Scripted(contract(pendulum, "N·m"), lambda seen: np.full((1, 2), 1.0))
    driven = drive(actor, pendulum, observe, START, 0.2)
    assert (driven.commands == 1.0).all()
    assert (pendulum._reality.held == 0).all()
    relative = Manner(command=lambda seen, last, action: last + 0.1 * action)
    driven = drive(actor, pendulum, observe, START, 0.1, relative)
    np.testing.assert_allclose(driven.commands[:, 0], 0.1 * np.arange(1, 11))


def test_what_does_not_fit_the_robot_moves_nothing(arm):
    goal = np.zeros(7)
    other = Contract(contract(arm).observations, contract(arm).actions[::-1], arm.rate_hz)
    for actor, match in (
        (towards(arm, goal, chunk=4), "gives 4 actions at once, and a robot takes one a tick"),
        (towards(arm, goal, rate_hz=50.0), "acts at 50 Hz and the robot at 20 Hz"),
        (Scripted(other, lambda seen: goal), "the policy's actions are gripper, .*; the robot's joints are waist"),
        (towards(arm, goal, unit="1"), "the actions are in 1, which does not tell how the robot is told to stay"),
    ):
        with pytest.raises(PolicyError, match=match):
            drive(actor, arm, observe, START, 1.0)
    torque = Manner(safety=Safety(arm.joints, arm.limits, arm.rate_hz, torque_driven=True))
    with pytest.raises(PolicyError, match="for a robot that is told torques, and the actions are in rad. To stop it"):
        drive(towards(arm, goal), arm, observe, START, 1.0, torque)
    position = Manner(safety=Safety(arm.joints, arm.limits, arm.rate_hz))
    with pytest.raises(PolicyError, match="for a robot that is told positions, and the actions are in N·m"):
        drive(towards(arm, goal, unit="N·m"), arm, observe, START, 1.0, position)
    with pytest.raises(RobotError, match="not at its start"):
        arm.observe()
