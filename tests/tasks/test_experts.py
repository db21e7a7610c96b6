"""Experts do their tasks at the nominal, and the lab's referee agrees with the tasks' own judgement."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.tasks.scenes import MAKE, made
from twinproof.lab.bench import Snap
from twinproof.lab.benches import bench
from twinproof.lab.robot import LabRobot
from twinproof.nouns.errors import PolicyError, TaskError
from twinproof.nouns.robot import Start
from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.experts import expert_of
from twinproof.tasks.sensed import Sensed

REFEREE = {"push": "push", "lift": "lift", "drawer": "pull", "handover": "handover"}


def played(task, count, seed=0):
    """Every situation of one episode in each world under the expert, and the last step."""
    arena = Arena(task.machine.scene, task, count, seed=seed, play=Play(bank=count, auto_reset=False, nthread=1))
    expert = expert_of(task)
    expert.reset(count, 0)
    seen, situations = arena.reset(), [arena.situation]
    for _ in range(task.ticks):
        step = arena.step(expert.act(seen)[:, 0])
        seen = step.observations
        situations.append(step.situation)
    return situations, step


def snaps_of(task, situations, world):
    """What the lab's referee would have written down."""
    body = task.tracked[0]
    shut = situations[0].first[body][world, :3]
    found = []
    for s in situations:
        pose = s.objects[body][world]
        pads = s.touching[world].reshape(len(task.machine.arms), -1)
        found.append(
            Snap(float(s.time_s[world]), pose[:3], pose[3:], tuple(pads.all(axis=1)), float(shut[0] - pose[0]))
        )
    return found


@pytest.mark.parametrize("name", MAKE)
def test_an_expert_does_its_task(name):
    task = made(name)
    situations, step = played(task, 3)
    assert step.succeeded.all()
    assert not step.diverged.any()
    if name in REFEREE:
        named = bench(MAKE[name][0])
        for world in range(3):
            snaps = snaps_of(task, situations, world)
            assert named.succeeded(REFEREE[name], snaps, situations[-1].goal[world])


@pytest.mark.parametrize("name", ["push", "lift"])
def test_an_episode_in_which_nothing_moves_is_no_success_to_either_judge(name):
    task = replace(made(name), horizon_s=1.0)
    arena = Arena(task.machine.scene, task, 2, play=Play(bank=2, auto_reset=False, nthread=1))
    situations, rest = [arena.situation], arena.sensed.last
    for _ in range(task.ticks):
        step = arena.step(rest)
        situations.append(step.situation)
    assert not step.succeeded.any()
    assert step.timed_out.all()
    for world in range(2):
        goal = step.situation.goal[world]
        assert not bench("push").succeeded(REFEREE[name], snaps_of(task, situations, world), goal)


def test_an_expert_pushes_with_the_lab_robot_too():
    name, task = "push", made("push")
    setup = task.draw(np.random.default_rng(3))
    robot = LabRobot(name, 0, effects="off", watchdog=10_000)
    report = robot.reset(Start(seed=4, at_m=setup.at_m, yaw_rad=setup.yaw_rad))
    twin = Arena(task.machine.scene, task, 1, play=Play(bank=1, nthread=1))
    twin.reset(setups=[setup])
    seen_by_tracker = {body: pose[0] for body, pose in twin.situation.objects.items()}  # where it begins
    expert = expert_of(task)
    expert.reset(1, 0)
    last = None
    for _ in range(task.ticks):
        sensed = Sensed.of_robot(report, np.array(setup.goal), last, seen_by_tracker)
        last = task.command(sensed, expert.act(task.observe(sensed))[:, 0])[0]
        robot.act(last)
        report = robot.observe()
    assert robot.succeeded("push", np.array(setup.goal))


def test_holding_an_object_up_is_enough_where_it_need_not_go_back():
    _, step = played(replace(made("lift", put_back=False), horizon_s=5.5), 2)
    assert step.succeeded.all()


def test_relative_actions_lead_to_the_same_end():
    task = made("reach", relative=True)
    assert max(channel.high for channel in task.contract.actions) <= 2.5 / 20
    _, step = played(task, 2)
    assert step.succeeded.all()


def test_an_expert_refuses_what_it_was_not_made_for():
    task = made("reach")
    expert = expert_of(task)
    expert.reset(2, 0)
    with pytest.raises(PolicyError, match="3 worlds are to be acted in, and the expert was reset for 2"):
        expert.act({"joint_position": np.zeros((3, 7))})
    with pytest.raises(TaskError, match="there is no scripted expert for the task 'juggle'"):
        expert_of(replace(task, name="juggle"))


def test_an_expert_waits_for_a_robot_that_was_pushed():
    task = made("reach")
    arena = Arena(task.machine.scene, task, 1, play=Play(bank=1, auto_reset=False, nthread=1))
    expert = expert_of(task)
    expert.reset(1, 0)
    seen = arena.reset()
    for _ in range(3):
        expert.act(seen)
    off = dict(seen, joint_position=seen["joint_position"] + 0.5)
    told = [expert.act(off) for _ in range(20)]
    assert abs(told[-1] - told[1]).max() < 0.05
