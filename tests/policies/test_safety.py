"""Limits hold whatever a policy wants, and every time one is met is counted."""

from __future__ import annotations

import numpy as np
import pytest

from twinproof.nouns.errors import PolicyError
from twinproof.nouns.robot import Limits
from twinproof.policies.safety import EFFORT, RANGE, SPEED, WORKSPACE, Safe, Safety, Workspace
from twinproof.sim.kinematics import chain_of
from twinproof.sim.scene import Scene

ARM = """<mujoco><compiler angle="radian"/><worldbody><body name="upper"><joint name="a" axis="0 1 0"/>
<geom size=".1"/><body name="lower" pos="1 0 0"><joint name="b" axis="0 1 0"/><geom size=".1"/>
<site name="tip" pos="1 0 0"/></body></body></worldbody></mujoco>"""
LIMITS = Limits(np.array([-1.0, -2.0]), np.array([1.0, 2.0]), np.array([1.0, 10.0]))


def box() -> Workspace:
    """The tip stays above z = -0.5."""
    chain = chain_of(Scene(ARM), ("a", "b"), "tip")
    return Workspace((chain,), np.array([-3.0, -3.0, -0.5]), np.array([3.0, 3.0, 3.0]))


def safe(position: list[list[float]], **changes) -> Safe:
    made = Safe(Safety(("a", "b"), LIMITS, 10.0, **changes))
    made.reset(np.array(position))
    return made


def test_a_safe_command_passes_as_it_is():
    filtered = safe([[0, 0]])
    assert filtered.filter(np.array([[0.05, 0.7]]), np.zeros((1, 2))).tolist() == [[0.05, 0.7]]
    assert not filtered.counts


def test_range_and_speed_are_kept_and_counted():
    filtered = safe([[0, 0], [0.95, 0]])
    given = filtered.filter(np.array([[0.5, 0.0], [1.5, 2.5]]), np.zeros((2, 2)))
    np.testing.assert_allclose(given, [[0.1, 0.0], [1.0, 1.0]])
    assert filtered.counts == {RANGE: 1, SPEED: 2}
    assert filtered.violations[RANGE].tolist() == [0, 1]
    given = filtered.filter(np.array([[0.5, 0.0], [1.0, 1.0]]), np.zeros((2, 2)))
    np.testing.assert_allclose(given[0], [0.2, 0.0])  # from what was sent, not from what was wanted
    assert filtered.violations[SPEED].tolist() == [2, 1]


def test_speeds_count_from_what_was_really_sent():
    filtered = safe([[0, 0]])
    filtered.filter(np.array([[0.1, 0.0]]), np.zeros((1, 2)))
    filtered.sent(np.array([[0.03, 0.0]]))
    np.testing.assert_allclose(filtered.filter(np.array([[0.5, 0.0]]), np.zeros((1, 2))), [[0.13, 0.0]])


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_wanted_what_is_sent_stays_inside(seed):
    rng = np.random.default_rng(seed)
    filtered = safe([[0, 0]] * 8, workspace=box(), effort=np.array([5.0, 5.0]))
    last = np.zeros((8, 2))
    for _ in range(50):
        sent = filtered.filter(rng.normal(size=(8, 2)) * 3, last, rng.normal(size=(8, 2)) * 3)
        assert (sent >= LIMITS.low).all()
        assert (sent <= LIMITS.high).all()
        assert (np.abs(sent - last) <= LIMITS.speed / 10 + 1e-12).all()
        assert (box().outside_m(("a", "b"), sent) < 1e-9).all()
        last = sent
    assert set(filtered.counts) == {RANGE, SPEED, WORKSPACE, EFFORT}


def test_a_tip_that_would_leave_its_room_stays_and_may_come_back():
    filtered = safe([[0.2, 0.0]], workspace=box())  # the tip is at z = -2 sin 0.2 = -0.4
    assert filtered.filter(np.array([[0.3, 0.0]]), np.zeros((1, 2))).tolist() == [[0.2, 0.0]]
    assert filtered.counts == {WORKSPACE: 1}
    outside = safe([[0.4, 0.0]], workspace=box())  # begins below the floor
    np.testing.assert_allclose(outside.filter(np.array([[0.3, 0.0]]), np.zeros((1, 2))), [[0.3, 0.0]])
    assert not outside.counts


def test_too_much_effort_lets_go():
    filtered = safe([[0.0, 0.0]], effort=np.array([5.0, np.inf]))
    sent = filtered.filter(np.array([[0.1, 0.1]]), np.array([[0.05, -0.2]]), np.array([[-6.0, 99.0]]))
    np.testing.assert_allclose(sent, [[0.05, -0.2]])  # where the joints are
    assert filtered.counts == {EFFORT: 1}


def test_a_torque_driven_robot_is_left_without_torque():
    filtered = safe([[1.0, 1.0]], effort=np.array([5.0, 5.0]), torque_driven=True, workspace=box())
    assert filtered.filter(np.array([[0.05, 0.5]]), np.zeros((1, 2)), np.zeros((1, 2))).tolist() == [[0.05, 0.5]]
    assert (filtered.filter(np.array([[0.1, 0.5]]), np.zeros((1, 2)), np.full((1, 2), 9.0)) == 0).all()
    assert (filtered.filter(np.array([[0.1, 0.5]]), np.array([[1.0, 0.0]]), np.zeros((1, 2))) == 0).all()
    assert filtered.counts == {EFFORT: 1, WORKSPACE: 1}


def test_a_limit_may_stop_the_trial():
    filtered = safe([[0, 0], [0, 0]], beyond="stop")
    with pytest.raises(PolicyError, match="meets the speed limit of 'b' in world 1 with 1.5"):
        filtered.filter(np.array([[0.0, 0.0], [0.0, 1.5]]), np.zeros((2, 2)))
    assert filtered.counts == {SPEED: 1}


def test_a_reset_begins_anew_in_its_worlds():
    filtered = safe([[0, 0], [0, 0]])
    filtered.filter(np.full((2, 2), 9.0), np.zeros((2, 2)))
    filtered.reset(np.array([[0.5, 0.5], [7.0, 7.0]]), np.array([True, False]))
    assert filtered.violations[RANGE].tolist() == [0, 1]
    given = filtered.filter(np.full((2, 2), 0.5), np.zeros((2, 2)))
    np.testing.assert_allclose(given, [[0.5, 0.5], [0.2, 0.5]])


def test_what_is_no_command_or_no_limit_is_refused():
    filtered = safe([[0, 0]], effort=np.array([5.0, 5.0]))
    for command, effort, match in (
        (np.array([[0.0, np.nan]]), np.zeros((1, 2)), "shape \\(1, 2\\) with 1 non-finite"),
        (np.zeros((1, 3)), np.zeros((1, 2)), "shape \\(1, 3\\) with 0 non-finite"),
        (np.zeros((1, 2)), None, "effort is limited, and none was measured"),
    ):
        with pytest.raises(PolicyError, match=match):
            filtered.filter(command, np.zeros((1, 2)), effort)
    chain = box().chains[0]
    for make, match in (
        (lambda: Safety(("a",), LIMITS, 10.0), "2 limits for 1 joints"),
        (lambda: Safety(("a", "b"), LIMITS, 10.0, effort=np.zeros(2)), "effort limits are \\[0.0, 0.0\\]"),
        (lambda: Safety(("a", "c"), LIMITS, 10.0, workspace=box()), "the workspace's tip hangs on b"),
        (lambda: Workspace((), np.zeros(3), np.ones(3)), "a workspace of 0 tips"),
        (lambda: Workspace((chain,), np.ones(3), np.zeros(3)), "has the corners \\[1.0, 1.0, 1.0\\] and"),
    ):
        with pytest.raises(PolicyError, match=match):
            make()
