"""Planning on batched worlds as an actor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.tasks.scenes import home, lab_scene
from twinproof.nouns.errors import PolicyError, TaskError
from twinproof.nouns.theta import Theta
from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.mppi import Mppi, Planner, Restored, quaternions
from twinproof.tasks.named import task_named
from twinproof.tasks.sensed import turn

ONE = Play(bank=2, auto_reset=False, nthread=1)


def test_a_planner_reaches_without_being_told_how():
    task = task_named("reach", lab_scene("push"), home=home("push"), relative=True)
    arena, planner = Arena(task.machine.scene, task, 2, play=ONE), Planner(task, Mppi(24, 0.4, 3, 0.3))
    planner.reset(2, 0)
    seen = arena.reset()
    for _ in range(task.ticks):
        action = planner.act(seen)
        assert action.shape == (2, 1, 7)
        step = arena.step(action[:, 0])
        seen = step.observations
        if step.succeeded.all():
            break
    assert step.succeeded.all()


@pytest.mark.parametrize("name", ["push", "lift", "drawer"])
def test_a_planner_restores_the_state_that_is_observed(name):
    where = "drawer" if name == "drawer" else "push"
    task = task_named(name, lab_scene(where), home=home(where))
    arena = Arena(task.machine.scene, task, 2, play=ONE)
    rest = arena.sensed.last
    for _ in range(3):
        seen = arena.step(rest).observations
    state = Restored(arena.task)(seen)
    np.testing.assert_allclose(state.qpos, arena.backing.worlds.qpos, atol=2e-3)
    other = Arena(task.machine.scene, task, 2, seed=5, play=ONE)
    other.place(replace(state, first=arena.situation.first))
    for body, pose in arena.situation.objects.items():
        np.testing.assert_allclose(other.situation.objects[body], pose, atol=2e-3)
    held = [arena.backing.array(rest)] * 3
    np.testing.assert_allclose(other.rollout(held), arena.rollout(held), atol=0.05)


def test_a_planner_remembers_what_the_task_notes():
    task = task_named("lift", lab_scene("push"), home=home("push"))
    arena, planner = Arena(task.machine.scene, task, 1, play=ONE), Planner(task, Mppi(2, 0.05, 1))
    planner.reset(1, 0)
    seen = dict(arena.reset())
    planner.act(seen)
    seen["object_position"] = seen["object_position"] + np.array([0.0, 0.0, 0.12])
    for _ in range(3):
        planner.act(seen)
    np.testing.assert_allclose(planner._eye.situation.notes["up_s"], 3 * task.period_s)


def test_a_planner_is_told_what_is_known_of_the_robot():
    task = task_named("reach", lab_scene("push"), home=home("push"), relative=True)
    planner = Planner(task, Mppi(2, 0.05, 1), theta=Theta({"gravity.tilt_x": 0.02}))
    planner.reset(1, 0)
    assert planner._arena.theta_ids == ("gravity.tilt_x",)


def test_turns_come_back_as_quaternions():
    rng = np.random.default_rng(0)
    quats = np.concatenate([rng.normal(size=(20, 4)), [[0, 0, 0, 1.0], [0, 0.6, 0.8, 0]]])
    quats /= np.linalg.norm(quats, axis=1, keepdims=True)
    found = quaternions(turn(quats))
    np.testing.assert_allclose(np.abs((found * quats).sum(axis=1)), 1.0, atol=1e-9)


def test_what_cannot_be_planned_is_refused():
    task = task_named("push", lab_scene("push"), home=home("push"))
    with pytest.raises(TaskError, match="planning with 1 samples"):
        Mppi(samples=1)
    with pytest.raises(TaskError, match="a spread of 0 and a temperature of 0.3: both are above zero"):
        Mppi(spread=0)
    blind = replace(task.contract, observations=task.contract.observations[:3])
    with pytest.raises(TaskError, match="planning needs to see where object is"):
        Planner(replace(task, contract=blind))
    with pytest.raises(PolicyError, match="3 worlds are to be planned for, and the planner was reset for 0"):
        Planner(task).act({"joint_position": np.zeros((3, 7))})
