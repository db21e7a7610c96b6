"""Tasks in numpy and in torch, and experts on robots that are not the nominal one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tasks.scenes import MAKE, made
from twinproof.nouns.theta import Theta
from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.experts import expert_of


@pytest.mark.parametrize("name", MAKE)
def test_a_task_is_the_same_in_tensors(name):
    task = made(name)
    runs = []
    for kind in ("numpy", "torch"):
        arena = Arena(task.machine.scene, task, 2, play=Play(bank=2, auto_reset=False, nthread=1), arrays=kind)
        expert = expert_of(task)
        expert.reset(2, 0)
        seen = arena.reset()
        for _ in range(4):
            action = expert.act({key: np.asarray(rows) for key, rows in seen.items()})[:, 0]
            step = arena.step(arena.backing.array(action))
            seen = step.observations
        runs.append({**step.observations, **step.rewards, "error": task.error(step.situation)})
    for key, rows in runs[0].items():
        np.testing.assert_allclose(np.asarray(runs[1][key]), rows, rtol=1e-5, atol=1e-6, err_msg=key)


def test_an_expert_that_knows_the_encoders_offsets_and_the_gains_makes_up_for_them():
    task = made("lift")
    joints = task.machine.arm().joints
    off = Theta(
        {f"joint.{name}.offset": 0.1 for name in joints}
        | {"actuator.shoulder.gain": 240.0, "actuator.elbow.gain": 160.0, "actuator.wrist.delay": 0.02}
    )
    outcome = {}
    for known in (Theta(), off):
        arena = Arena(task.machine.scene, task, 2, draws=[off], play=Play(bank=2, auto_reset=False, nthread=1))
        expert = expert_of(task, known)
        expert.reset(2, 0)
        seen = arena.reset()
        for _ in range(task.ticks):
            step = arena.step(expert.act(seen)[:, 0])
            seen = step.observations
        outcome[known] = step.succeeded.tolist()
    assert outcome == {Theta(): [False, False], off: [True, True]}


def test_torques_make_up_for_offsets_too():
    task = made("pendulum")
    off = Theta({"joint.shoulder.offset": 0.2, "joint.elbow.offset": -0.2, "body.lower_link.mass": 0.6})
    outcome = []
    for known in (Theta(), off):
        arena = Arena(task.machine.scene, task, 2, draws=[off], play=Play(bank=2, auto_reset=False, nthread=1))
        expert, seen = expert_of(task, known), arena.reset()
        for _ in range(task.ticks):
            step = arena.step(expert.act(seen)[:, 0])
            seen = step.observations
        outcome.append(step.succeeded.tolist())
    assert outcome == [[False, False], [True, True]]
