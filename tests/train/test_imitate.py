"""Learning from an expert, a teacher and recordings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.identify.folders import recorded
from tests.train.folders import ranges, scene
from twinproof.guard.make import Grouping, make
from twinproof.nouns.errors import ConfigError, PolicyError, RecordingError
from twinproof.policies.load import actor_of
from twinproof.tasks import reach
from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.experts import expert_of
from twinproof.train.checkpoint import Run
from twinproof.train.imitate import Dagger, DaggerLearner, Fit, Rows, Stack, Student
from twinproof.train.judge import judge
from twinproof.train.lessons import at_ticks, lessons_of
from twinproof.train.loop import Budget, train
from twinproof.train.torch_extra import quiet_torch
from twinproof.train.vec_env import VecEnv
from twinproof.train.written import Origin, policy_of


def arena(count: int, horizon_s: float = 1.5) -> Arena:
    task = reach.of(scene(), horizon_s=horizon_s)
    return Arena(scene(), task, count, draws=ranges(), play=Play(bank=64, nthread=1))


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    return make(recorded(), tmp_path_factory.mktemp("clone") / "split", Grouping(("session",)))


def test_dagger_learns_what_the_expert_does(tmp_path):
    world = arena(16)
    how = Dagger(Fit(updates=150, hidden=(32, 32), batch=256), ticks=50)
    with quiet_torch():
        mine, run = DaggerLearner(VecEnv(world), expert_of(world.task), how, 0), Run(tmp_path / "run")
        outcome = train(mine, Budget(16 * 50 * 4, segment=1), run, run.begin(world.task.deployable, {}), 0)
    policy = policy_of(outcome.trained, world.task.deployable, Origin({}))
    judged = judge(world, actor_of(policy), 7)
    assert judged.success > 0.8
    assert len(run.lines()) == 4
    assert run.lines()[-1]["rows"] == 16 * 50 * 4


def test_a_killed_dagger_goes_on_with_all_its_rows(tmp_path):
    how = Dagger(Fit(updates=2, hidden=(8,), history=2), ticks=5)

    def learnt(folder, rounds):
        with quiet_torch():
            world = arena(4)
            mine, run = DaggerLearner(VecEnv(world), expert_of(world.task), how, 1), Run(folder)
            begun = run.begin(world.task.deployable, {})
            return train(mine, Budget(4 * 5 * rounds, segment=1), run, begun, 1)

    whole = learnt(tmp_path / "whole", 3)
    learnt(tmp_path / "parts", 1)
    parts = learnt(tmp_path / "parts", 3)
    for (w, _), (v, _) in zip(whole.trained.layers, parts.trained.layers, strict=True):
        np.testing.assert_array_equal(w, v)


def test_a_student_of_a_history_is_driven_as_it_was_trained():
    rng = np.random.default_rng(0)
    with quiet_torch():
        torch.manual_seed(0)
        student = Student(7, 1, Fit(hidden=(8,), history=3))
        student.mean, student.sd = torch.randn(7), torch.rand(7) + 0.5
        world = arena(5)
        contract = world.task.deployable
        policy = policy_of(student.trained(), replace(contract, history=3), Origin({}))
        actor = actor_of(policy)
        actor.reset(5, 0)
        first = torch.as_tensor(rng.normal(size=(5, 7)), dtype=torch.float32)
        stack = Stack(first, 3)
        for k in range(4):
            row = first if k == 0 else torch.as_tensor(rng.normal(size=(5, 7)), dtype=torch.float32)
            begun = torch.zeros(5, dtype=torch.bool)
            begun[2] = k == 2
            if k:
                stack.add(row, begun)
                actor.reset(5, 0, begun.numpy())
            seen, at = {}, 0
            for channel in contract.observations:
                size = int(np.prod(channel.shape))
                seen[channel.name] = row[:, at : at + size].numpy().reshape(5, *channel.shape)
                at += size
            y = student(stack.rows).detach().numpy()
            np.testing.assert_allclose(actor.act(seen)[:, 0], 2.0 * y, atol=1e-5)


def test_recordings_become_rows_that_lead_to_what_came_about(split):
    task = reach.of(scene(), horizon_s=0.5)
    calibration, _, _ = split.parts()
    found = lessons_of(calibration, task, history=2)
    assert found.episodes == calibration.ids
    assert found.rows.seen.shape[1:] == (2, 7)
    assert len(found.rows.seen) == len(found.rows.wanted)
    assert np.abs(found.rows.wanted).max() <= 1
    sensed, command = at_ticks(calibration.recording.episodes[0], task)
    np.testing.assert_array_equal(sensed.last[1:], command[:-1])
    np.testing.assert_allclose(np.diff(sensed.time_s), 0.01)


def test_a_clone_of_recordings_fits_them(split, tmp_path):
    world = arena(4, horizon_s=0.5)
    rows = lessons_of(split.parts()[0], world.task).rows
    with quiet_torch():
        how = Dagger(Fit(updates=200, hidden=(32,), batch=64), ticks=5)
        mine, run = DaggerLearner(VecEnv(world), None, how, 0, rows), Run(tmp_path / "run")
        train(mine, Budget(4 * 5 * 3, segment=1), run, run.begin(world.task.deployable, {}), 0)
    losses = [line["loss/imitation"] for line in run.lines()]
    assert run.lines()[0]["ended"] == 0
    assert losses[-1] < 0.5 * float((rows.wanted**2).mean())


def test_a_goal_that_no_recording_shows_is_refused(split):
    task = replace(reach.of(scene()), name="juggle")
    with pytest.raises(ConfigError, match="the goal of the task 'juggle' does not show in a recording"):
        lessons_of(split.parts()[0], task)


def test_a_recording_without_what_the_robot_reports_is_refused(split):
    task, episode = reach.of(scene()), split.parts()[0].recording.episodes[0]
    with pytest.raises(RecordingError, match="looks at 'cube', and the recording has no track of it"):
        at_ticks(episode, replace(task, tracked=("cube",)))
    kinds = {"joint_position": "joint_velocity"}
    bare = {name: replace(signal, kind=kinds.get(signal.kind, signal.kind)) for name, signal in episode.signals.items()}
    with pytest.raises(RecordingError, match="cloning needs the positions of hinge"):
        at_ticks(replace(episode, signals=bare), task)


def test_a_fit_that_diverges_says_so():
    with quiet_torch():
        student = Student(2, 1, Fit(hidden=(4,), updates=1))
        rows = torch.zeros(4, 1, 2)
        with pytest.raises(PolicyError, match="the fit to 4 rows diverged: its loss is nan"):
            student.learn(rows, torch.full((4, 1), float("nan")))
    assert Rows.empty(3, 2, 4).seen.shape == (0, 4, 3)
