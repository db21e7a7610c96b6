"""Tasks found by name, a task of one's own, and the probe that says early when one cannot be done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.tasks.scenes import home, lab_scene
from twinproof.nouns.errors import TaskError
from twinproof.sim.scene import Scene
from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.experts import expert_of
from twinproof.tasks.feasible import feasible
from twinproof.tasks.inverse import tools
from twinproof.tasks.named import TASKS, own_task, task_named
from twinproof.tasks.script import Move, Scripted, Tool

OWN = Path(__file__).parents[2] / "examples" / "own_task" / "hover.py"
WHERE = {"drawer": "drawer", "handover": "handover"}


@pytest.mark.parametrize("name", TASKS)
def test_a_task_goes_by_its_name(name):
    where = WHERE.get(name, "push")
    task = task_named(name, lab_scene(where), home=home(where))
    stated = task.panel_task()
    assert (task.name, stated.name) == (name, name)
    assert stated.contract.privileged == ()
    setup = task.draw(np.random.default_rng(0))
    assert setup == task.draw(np.random.default_rng(0))


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_task_of_ones_own_runs_as_ours_do(kind):
    task = task_named(str(OWN), lab_scene("push"), home=home("push"))
    arena = Arena(task.machine.scene, task, 2, play=Play(bank=2, auto_reset=False, nthread=1), arrays=kind)
    seen = arena.reset()
    tip = task.machine.arm().tip

    def script(begin):
        down = np.tile([0.0, 0.0, -1.0], (len(begin["tip"]), 1))
        above = begin["object_position"] + np.array([0.0, 0.0, 0.12])
        return [Move(2.0, {tip: Tool(above, tools(down, np.tile([0.0, 1.0, 0.0], (len(down), 1))))})]

    expert = Scripted(task, script)
    expert.reset(2, 0)
    for _ in range(task.ticks):
        step = arena.step(arena.backing.array(expert.act({k: np.asarray(v) for k, v in seen.items()})[:, 0]))
        seen = step.observations
    assert bool(step.succeeded.all())


def test_names_and_files_that_are_no_tasks_are_refused(tmp_path):
    scene = lab_scene("push")
    with pytest.raises(TaskError, match="there is no task 'pus'. Did you mean 'push'"):
        task_named("pus", scene)
    with pytest.raises(TaskError, match=r"there is no file .*nothing.py' with a task"):
        task_named(str(tmp_path / "nothing.py"), scene)
    empty = tmp_path / "empty.py"
    empty.write_text("")
    with pytest.raises(TaskError, match=r"has no function of\(scene, \*, home, relative\)"):
        own_task(empty, scene)
    empty.write_text("def of(scene, *, home, relative):\n    return 3\n")
    with pytest.raises(TaskError, match=r"gave 'int'. It must give a TaskSpec"):
        own_task(empty, scene)


def swing(count=2, **changed):
    task = replace(task_named("reach", lab_scene("pendulum")), **changed)
    return Arena(task.machine.scene, task, count, play=Play(bank=count, nthread=1))


def test_a_task_that_can_be_done_is_found_to_be_so():
    arena = swing()
    probe = feasible(arena, expert_of(arena.task))
    assert (probe.succeeded, probe.diverged) == (2, 0)
    assert probe.nearest < 0.1 < probe.began
    assert "the expert succeeded in 2 of 2 episodes" in probe.told


def test_what_is_not_one_for_each_world_is_named():
    for changed, told in (
        (
            {"reward": lambda s: {"near": -s.time_s[0]}},
            r"the reward term 'near' .* is float64 of the shape \(\); a number",
        ),
        ({"reward": lambda s: {"near": s.position}}, r"'near' .* of the shape \(2, 2\); a number for each of 2 worlds"),
        ({"reward": lambda s: {"near": 1.0}}, r"'near' .* is float of the shape \(\)"),
        (
            {"succeeded": lambda s: s.time_s * 0},
            r"the verdict 'succeeded' .* is float64 .*; True or False for each of 2",
        ),
        ({"failed": lambda s: False}, r"the verdict 'failed' .* is bool of the shape \(\); True or False for each"),
    ):
        arena = swing(**changed)
        arena.reset()
        with pytest.raises(TaskError, match=told):
            arena.step(np.zeros((2, 2)))


def test_chance_alone_proves_nothing_and_says_so():
    probe = feasible(swing(), seconds=0.3)
    assert probe.by == "chance"
    assert probe.succeeded == 0


def test_a_task_that_never_succeeds_is_said_early():
    impossible = swing(succeeded=lambda situation: situation.time_s < 0)
    with pytest.raises(TaskError, match="the task 'reach' never succeeds: the expert succeeded in 0 of 2 episodes"):
        feasible(impossible, expert_of(impossible.task))
    with pytest.raises(TaskError, match="every episode of the task 'reach' begins as a success"):
        feasible(swing(succeeded=lambda situation: situation.time_s >= 0), seconds=0.05)


WILD = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.01" integrator="Euler"/>
  <worldbody>
    <body name="arm"><joint name="arm" axis="0 1 0" range="-3 3" limited="true"/><geom size=".01" mass="1e-5"/></body>
  </worldbody>
  <actuator><general name="arm" joint="arm" gainprm="1e9" ctrlrange="-1 1" ctrllimited="true"/></actuator>
</mujoco>
"""


def test_a_scene_in_which_every_world_diverges_is_said():
    task = task_named("reach", Scene(WILD))
    arena = Arena(task.machine.scene, task, 2, play=Play(bank=2, nthread=1))
    with pytest.raises(TaskError, match="no world of the task 'reach' survives: world 0 diverged at step "):
        feasible(arena, seconds=0.2)
