"""Adaptation by a latent: the written policy feels in its history what the teacher of it knew."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tests.train.folders import folders, ranges, scene
from twinproof.nouns.errors import ConfigError, PolicyError
from twinproof.nouns.policy import Policy
from twinproof.policies.load import actor_of
from twinproof.tasks import reach
from twinproof.tasks.arena import Arena, Play
from twinproof.train import command
from twinproof.train.checkpoint import Run
from twinproof.train.ground import Asked
from twinproof.train.latent import Latent, LatentLearner
from twinproof.train.loop import Budget, Outcome, Watch, train
from twinproof.train.ppo import Ppo
from twinproof.train.torch_extra import quiet_torch
from twinproof.train.vec_env import VecEnv
from twinproof.train.written import Origin, policy_of

SMALL = Ppo(rollout=8, epochs=2, minibatches=2, hidden=(16, 16))
TIMES = ("wall_s", "steps_per_s", "collect_s", "learn_s")


def learner(latent: Latent, total: int, count: int = 8, ppo: Ppo = SMALL) -> LatentLearner:
    arena = Arena(scene(), reach.of(scene(), horizon_s=0.5), count, draws=ranges(), play=Play(bank=32, nthread=1))
    return LatentLearner(VecEnv(arena), ppo, latent, seed=3, total_steps=total)


def trained(folder: Path, watch: Watch | None = None) -> tuple[Outcome, list[dict]]:
    budget = Budget(steps=8 * 8 * 7, segment=2)
    with quiet_torch():
        mine, run = learner(Latent(history=3, first_share=0.5), budget.steps), Run(folder)
        begun = run.begin(mine.env.arena.task.deployable, {"seed": 3})
        outcome = train(mine, budget, run, begun, 3, watch)
    return outcome, [{k: v for k, v in line.items() if k not in TIMES} for line in run.lines()]


@pytest.mark.parametrize("at", [2, 5])
def test_a_killed_run_goes_on_to_the_same_curve_in_both_phases(tmp_path, at):
    whole, curve = trained(tmp_path / "whole")
    assert [line["phase"] for line in curve] == [1, 1, 1, 1, 2, 2, 2]

    class Killed(Exception):
        pass

    def kill(line):
        if line["iteration"] == at:
            raise Killed

    with pytest.raises(Killed):
        trained(tmp_path / "killed", Watch(tell=kill))
    again, taken_up = trained(tmp_path / "killed")
    assert taken_up == curve
    for part in ("layers", "encoder"):
        pairs = zip(getattr(whole.trained, part), getattr(again.trained, part), strict=True)
        assert all(np.array_equal(w, v) and np.array_equal(b, c) for (w, b), (v, c) in pairs)


def test_the_history_tells_what_the_encoder_knew():
    """The pendulum's mass and damping show in how it moves under the commands it was given."""
    with quiet_torch():
        total = 64 * 8 * 40
        mine = learner(Latent(history=8, first_share=0.1, latent=2), total, 64)
        mine.restart(0)
        told = [mine.iterate() for _ in range(40)]
    explained = [line["latent_explained"] for line in told if line["phase"] == 2]
    assert explained[0] < 0.1
    assert np.mean(explained[-5:]) > 0.4


def test_what_acts_is_what_was_trained_in_every_runtime():
    with quiet_torch():
        mine = learner(Latent(history=3), 512)
        mine.restart(0)
        mine.iterate()
        contract = mine.env.arena.task.deployable
        policy = policy_of(mine.trained(), type(contract)(**{**vars(contract), "history": 3}), Origin({}))
        assert policy.deployable
        mine._first = 0  # on to the second phase: what drives there is the policy
        seen, asked = mine.env.seen, []
        step = mine.env.step
        mine.env.step = lambda y: asked.append(y.numpy().copy()) or step(y)  # type: ignore[method-assign]
        mine.iterate()
    actor = actor_of(policy)
    actor.reset(8, 0)
    half = np.array([(c.high - c.low) / 2 for c in contract.actions])
    np.testing.assert_allclose(actor.act(seen)[:, 0], half * asked[0], atol=1e-5)


def test_the_command_writes_a_policy_that_needs_no_parameters(tmp_path, monkeypatch):
    for name in ("JUDGED", "JUDGED_OFTEN", "PROBED"):
        monkeypatch.setattr(command, name, 4)
    twin, draws = folders(tmp_path / "practice")
    base = {"twin": twin, "task": "reach", "algo": "rma", "worlds": 4, "steps": 4 * 32 * 3, "hidden": (8, 8)}
    command.run(Asked(randomization=draws, out=tmp_path / "out", history=4, onnx=True, **base))
    policy = Policy.load(tmp_path / "out")
    assert policy.deployable
    assert policy.architecture["encoder"]["layers"][-1] == 8
    rng = np.random.default_rng(0)
    actor, rows = actor_of(policy), []
    actor.reset(2, 0)
    for _ in range(4):
        rows.append({c.name: rng.normal(size=(2, *c.shape)).astype(np.float32) for c in policy.contract.observations})
        acted = actor.act(rows[-1])
    stacked = {name: np.stack([row[name] for row in rows], axis=1) for name in rows[0]}
    session = onnxruntime.InferenceSession(str(tmp_path / "out" / "policy.onnx"))
    np.testing.assert_allclose(session.run(None, stacked)[0], acted, atol=1e-5)


def test_what_rma_cannot_do_is_said(tmp_path):
    base = {"twin": tmp_path, "randomization": None, "task": "reach", "algo": "rma", "out": tmp_path / "x"}
    for more in ({}, {"history": 8, "target": 0.9}):
        with pytest.raises(ConfigError, match="after a first phase of a fixed length. Give --history, such as 16"):
            Asked(**base, **more)
    arena = Arena(scene(), reach.of(scene()), 2, play=Play(bank=2, nthread=1))
    with pytest.raises(ConfigError, match="--algo rma adapts to parameters that differ from episode to episode"):
        LatentLearner(VecEnv(arena), SMALL, Latent(), 0, 100)
    mine = learner(Latent(history=3), 512)
    mine.history[0].weight.data[:] = np.nan
    mine._first = 0
    with pytest.raises((PolicyError, Exception), match="not finite|NaN"):
        mine.iterate()
