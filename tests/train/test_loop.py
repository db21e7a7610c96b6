"""Training on a pendulum: it learns, and a run that was stopped goes on to the same curve."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.train.folders import ranges, scene
from twinproof.nouns.errors import PolicyError
from twinproof.tasks import reach
from twinproof.tasks.arena import Arena, Play
from twinproof.train.checkpoint import Run
from twinproof.train.loop import Budget, Outcome, Watch, train
from twinproof.train.ppo import Ppo, PpoLearner
from twinproof.train.torch_extra import quiet_torch
from twinproof.train.vec_env import VecEnv

SMALL = Ppo(rollout=8, epochs=2, minibatches=2, hidden=(16, 16))
TIMES = ("wall_s", "steps_per_s", "collect_s", "learn_s")  # what no two runs have in common


def learner(count: int = 8, ppo: Ppo = SMALL) -> PpoLearner:
    arena = Arena(scene(), reach.of(scene(), horizon_s=0.5), count, draws=ranges(), play=Play(bank=32, nthread=1))
    return PpoLearner(VecEnv(arena), ppo, seed=3)


def trained(folder: Path, budget: Budget, watch: Watch | None = None) -> tuple[Outcome, list[dict]]:
    with quiet_torch():
        mine, run = learner(), Run(folder)
        begun = run.begin(mine.env.arena.task.deployable, {"seed": 3})
        outcome = train(mine, budget, run, begun, 3, watch)
    return outcome, [{k: v for k, v in line.items() if k not in TIMES} for line in run.lines()]


def test_a_killed_run_goes_on_to_the_same_curve_and_the_same_policy(tmp_path):
    budget = Budget(steps=8 * 8 * 7, segment=2)
    whole, curve = trained(tmp_path / "whole", budget)

    class Killed(Exception):
        pass

    def kill(line):
        if line["iteration"] == 4:  # in the middle of the third segment
            raise Killed

    with pytest.raises(Killed):
        trained(tmp_path / "killed", budget, Watch(tell=kill))
    assert len(Run(tmp_path / "killed").lines()) == 5
    again, taken_up = trained(tmp_path / "killed", budget)
    assert taken_up == curve
    assert [line["iteration"] for line in curve] == list(range(7))
    for (w, b), (v, c) in zip(whole.trained.layers, again.trained.layers, strict=True):
        np.testing.assert_array_equal(w, v)
        np.testing.assert_array_equal(b, c)
    np.testing.assert_array_equal(whole.trained.mean, again.trained.mean)
    assert again.steps == whole.steps == 448


def test_a_finished_run_is_not_trained_again(tmp_path):
    budget = Budget(steps=8 * 8 * 4, target=0.5, segment=2)
    outcome, _ = trained(tmp_path / "run", budget, Watch(judge=lambda network: 0.6))
    assert outcome.reached_target
    assert outcome.iterations == 2
    told: list[int] = []
    again, _ = trained(tmp_path / "run", budget, Watch(progress=lambda done, name, total=None: told.append(done)))
    assert (again.iterations, again.reached_target, told) == (2, True, [])


def test_training_draws_none_of_the_callers_random_numbers(tmp_path):
    before = torch.random.get_rng_state()
    trained(tmp_path / "run", Budget(steps=64))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_ppo_brings_a_pendulum_to_its_goal():
    with quiet_torch():
        mine = learner(32, Ppo(rollout=24, hidden=(32, 32), minibatches=2))
        mine.restart(0)
        near = []
        for _ in range(24):
            mine.iterate()
            near.append(mine.env.counted()["reward/near"])
    assert np.mean(near[-3:]) > np.mean(near[:3]) + 0.2


def test_the_first_rollout_only_shows_how_large_observations_are():
    with quiet_torch():
        mine = learner()
        mine.restart(0)
        before = mine.trained()
        mine.iterate()
        first = mine.trained()
        mine.iterate()
        second = mine.trained()
    np.testing.assert_array_equal(before.layers[0][0], first.layers[0][0])
    assert not np.array_equal(before.sd, first.sd)
    assert not np.array_equal(first.layers[0][0], second.layers[0][0])


def test_a_run_that_diverges_says_so():
    with quiet_torch():
        mine = learner()
        with torch.no_grad():
            for parameter in mine.algorithm.critic.parameters():
                parameter.fill_(float("nan"))
        mine.restart(0)
        with pytest.raises(PolicyError, match="PPO diverged: the critic's values are not finite"):
            mine.iterate()


def test_networks_of_other_widths_are_no_start():
    with quiet_torch():
        one, other = learner(), learner(ppo=Ppo(rollout=8, hidden=(24, 16)))
        again = learner()
        again.start_from(one.trained())
        np.testing.assert_array_equal(again.trained().layers[0][0], one.trained().layers[0][0])
        with pytest.raises(PolicyError, match="Give the same hidden widths"):
            other.start_from(one.trained())
