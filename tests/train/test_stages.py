"""Progressive transfer: stages are left when their success is sure, and a killed run goes on to the same curve."""

from __future__ import annotations

import numpy as np
import pytest

from tests.train.folders import ranges, scene
from tests.train.test_command import asked, practice
from tests.train.test_loop import SMALL, TIMES
from twinproof.nouns.errors import ConfigError
from twinproof.tasks import reach
from twinproof.tasks.arena import Arena, Play
from twinproof.train import command, stages
from twinproof.train.checkpoint import Run
from twinproof.train.loop import Budget, Watch, train
from twinproof.train.stages import StagedLearner, Stages, stage_thetas
from twinproof.train.torch_extra import quiet_torch
from twinproof.train.vec_env import VecEnv

__all__ = ["practice"]
TASK = reach.of(scene(), horizon_s=0.5)
FEW = Stages(bound=0.0, judged=4, thetas=40)


def learner(wanted: Stages = FEW) -> StagedLearner:
    def arena(thetas, count, seed):
        return Arena(scene(), TASK, count, draws=thetas, seed=seed, play=Play(bank=32, nthread=1))

    thetas = stage_thetas(ranges(), TASK, wanted, 0)
    envs = [VecEnv(arena(each, 8, 0)) for each in thetas]
    return StagedLearner(envs, [arena(each, 4, 1) for each in thetas], TASK.deployable, wanted, SMALL, 3)


def test_the_stages_go_from_the_nominal_model_to_the_ranges():
    nominal, wide, mixed, told = stage_thetas(ranges(), TASK, Stages(thetas=400), 0)

    def outside(thetas):
        return np.mean([not 0.4 <= theta["body.bob.mass"] <= 0.6 for theta in thetas])

    assert {theta["body.bob.mass"] for theta in nominal} == {0.5}
    assert outside(wide) > outside(mixed) > outside(told) > 0
    assert outside(mixed) == pytest.approx(0.5 * outside(wide), abs=0.1)
    assert outside(told) == pytest.approx(0.1 * outside(wide), abs=0.05)
    assert {tuple(theta) for thetas in (nominal, wide, mixed, told) for theta in thetas} == {tuple(nominal[0])}


def test_a_stage_is_left_when_its_bound_is_reached_and_not_before():
    with quiet_torch():
        free, held = learner(), learner(Stages(bound=0.99, judged=4, thetas=40))
        for mine in (free, held):
            for segment in range(6):
                mine.restart(segment)
                told = mine.iterate()
    assert (free.stage, held.stage) == ("real-weighted", "sim only")
    assert told["stage"] == 0.0
    assert 0.0 <= told["stage_bound"] < 0.99
    assert free.env is free._envs[-1]


def test_the_bound_is_that_of_one_side(monkeypatch):
    class All:
        succeeded, episodes = 50, 50

    monkeypatch.setattr(stages, "judge", lambda *_: All)
    with quiet_torch():
        mine = learner(Stages(bound=0.95, thetas=40))
        mine.restart(0)
        mine.iterate()
        mine.restart(1)
    assert mine.told()["low"] == pytest.approx(0.05 ** (1 / 50))  # 0.942: all of fifty are not enough for 0.95
    assert mine.stage == "sim only"


def test_a_killed_run_goes_on_to_the_same_curve_through_its_stages(tmp_path):
    class Killed(Exception):
        pass

    def kill(line):
        if line["iteration"] == 3:
            raise Killed

    def trained(folder, watch=None):
        mine, run = learner(), Run(folder)
        train(mine, Budget(steps=8 * 8 * 6, segment=2), run, run.begin(TASK.deployable, {"seed": 3}), 3, watch)
        return [{k: v for k, v in line.items() if k not in TIMES} for line in run.lines()]

    with quiet_torch():
        curve = trained(tmp_path / "whole")
        with pytest.raises(Killed):
            trained(tmp_path / "killed", Watch(tell=kill))
        assert trained(tmp_path / "killed") == curve
    assert [line["stage"] for line in curve] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("algo", ["fasttd3", "fastsac", "progressive"])
def test_the_command_writes_a_policy_of_it(practice, tmp_path, monkeypatch, algo):
    monkeypatch.setattr(command, "JUDGED_OFTEN", 4)
    (made,) = command.run(asked(practice, tmp_path / algo, algo=algo, probe=False))
    assert made.policy.deployable
    assert made.policy.training["algorithm"] == algo
    assert made.policy.training.get("stage") == ("sim only" if algo == "progressive" else None)


def test_stages_without_ranges_or_with_a_target_are_refused(practice, tmp_path):
    for changes in ({"randomization": None}, {"target": 0.9}):
        with pytest.raises(ConfigError, match="--algo progressive goes from the nominal model to the ranges"):
            asked(practice, tmp_path, algo="progressive", **changes)
