"""FastTD3 and FastSAC on a pendulum: they learn, go on to the same curve, and what they write acts without torch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
import torch

from tests.train.folders import ranges, scene
from tests.train.test_loop import TIMES
from twinproof.nouns.errors import PolicyError
from twinproof.policies.load import actor_of
from twinproof.tasks import reach
from twinproof.tasks.arena import Arena, Play
from twinproof.train.actors import FastSac, FastTd3
from twinproof.train.checkpoint import Run
from twinproof.train.critic import Critic
from twinproof.train.loop import Budget, Watch, train
from twinproof.train.networks import Scale
from twinproof.train.offpolicy import OffPolicy, OffPolicyLearner
from twinproof.train.onnx_export import onnx_bytes
from twinproof.train.replay import Replay
from twinproof.train.torch_extra import quiet_torch
from twinproof.train.vec_env import VecEnv
from twinproof.train.written import Origin, policy_of, residual_of, trained_of

SMALL = OffPolicy(rollout=8, updates=2, share=4, hidden=(16, 16), atoms=21, first=4)
QUICK = OffPolicy(rollout=24, updates=1, share=8, hidden=(32, 32), atoms=51, learning_rate=3e-3, follow=0.1)
WAYS = {"fasttd3": FastTd3(), "fastsac": FastSac()}
CAUTIOUS = FastTd3(cautious=True)


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


def learner(way, how: OffPolicy = SMALL, count: int = 8) -> OffPolicyLearner:
    task = reach.of(scene(), horizon_s=0.5)
    return OffPolicyLearner(
        VecEnv(Arena(scene(), task, count, draws=ranges(), play=Play(bank=32, nthread=1))), way, how, 3
    )


def test_a_killed_run_goes_on_to_the_same_curve_and_the_same_policy(tmp_path, way):
    budget = Budget(steps=8 * 8 * 7, segment=2)

    class Killed(Exception):
        pass

    def kill(line):
        if line["iteration"] == 4:
            raise Killed

    def trained(folder, watch=None):
        mine, run = learner(way), Run(folder)
        begun = run.begin(mine.env.arena.task.deployable, {"seed": 3})
        outcome = train(mine, budget, run, begun, 3, watch)
        return outcome.trained, [{k: v for k, v in line.items() if k not in TIMES} for line in run.lines()]

    with quiet_torch():
        whole, curve = trained(tmp_path / "whole")
        with pytest.raises(Killed):
            trained(tmp_path / "killed", Watch(tell=kill))
        again, taken_up = trained(tmp_path / "killed")
    assert taken_up == curve
    assert {"loss/critic", "loss/actor", "value", "outside"} <= set(curve[-1])
    for (w, b), (v, c) in zip(whole.layers, again.layers, strict=True):
        np.testing.assert_array_equal(w, v)
        np.testing.assert_array_equal(b, c)
    np.testing.assert_array_equal(whole.sd, again.sd)


def test_a_pendulum_is_brought_to_its_goal(way):
    with quiet_torch():
        mine = learner(way, QUICK, 32)
        mine.restart(0)
        near = []
        for _ in range(12):
            mine.iterate()
            near.append(mine.env.counted()["reward/near"])
    assert np.mean(near[-2:]) > np.mean(near[:2]) + 0.08


def test_the_written_policy_acts_as_the_network_does_and_so_does_its_graph(way):
    with quiet_torch():
        mine = learner(way)
        mine.restart(0)
        mine.iterate()
        mine.iterate()
        policy = policy_of(mine.trained(), mine.env.arena.task.deployable, Origin({}))
        seen = {name: np.asarray(mine.env.seen[name]) for name in (c.name for c in policy.contract.observations)}
        rows = mine.scale(mine._row(mine.env.get_observations()["policy"], mine.env.get_observations()["privileged"]))
        with torch.no_grad():
            y = mine.actor.net(rows[:, : mine._narrow])[:, : mine.env.num_actions].tanh().numpy()
    actor = actor_of(policy)
    actor.reset(8, 0)
    told = actor.act(seen)
    assert policy.architecture["output"] == "tanh"
    np.testing.assert_allclose(told[:, 0], 2.0 * y, atol=1e-5)  # limits of -2 and 2 N·m
    fed = {name: value.astype(np.float32) for name, value in seen.items()}
    np.testing.assert_allclose(onnxruntime.InferenceSession(onnx_bytes(policy)).run(None, fed)[0], told, atol=1e-5)
    again = trained_of(policy, policy.contract, "policy")
    assert again.output == "tanh"
    better = residual_of(replace(again, output="limits"), policy, 0.2, Origin({}))  # on a squashed base
    corrected = actor_of(better)
    corrected.reset(8, 0)
    np.testing.assert_allclose(
        onnxruntime.InferenceSession(onnx_bytes(better)).run(None, fed)[0], corrected.act(seen), atol=1e-5
    )


def test_learning_that_diverges_says_so(way):
    with quiet_torch():
        mine = learner(way)
        with torch.no_grad():
            for parameter in mine.critic.nets.parameters():
                parameter.fill_(float("nan"))
        mine.restart(0)
        with pytest.raises(PolicyError, match="off-policy learning diverged: loss/critic, .* is not finite"):
            mine.iterate()


def test_a_cautious_actor_listens_to_the_lower_of_two_critics():
    rows, values = torch.randn(4, 3), (torch.tensor([1.0, 2, 3, 4]), torch.tensor([4.0, 3, 2, 1]))
    losses = {
        way.cautious: float(way.actor([3, 8, 1], 4, "cpu").loss(rows, lambda action: values))
        for way in (FastTd3(), CAUTIOUS)
    }
    assert losses == {False: -2.5, True: -1.5}


def test_the_critic_sees_privileged_state_or_not(way):
    with quiet_torch():
        seeing, blind = learner(way), learner(way, replace(SMALL, asymmetric=False))
    more = seeing.env.get_observations()["privileged"].shape[1]
    assert seeing.critic.nets[0][0].in_features == blind.critic.nets[0][0].in_features + more
    assert seeing.actor.net[0].in_features == blind.actor.net[0].in_features


def test_rewards_are_summed_up_to_the_end_of_an_episode():
    replay = Replay(5, 1, 1, 1, "cpu")
    for k in range(7):  # ticks 2 to 6 are kept; the episode of tick 4 ended for good
        row = {name: torch.full((1, 1), float(k)) for name in ("seen", "action")}
        flags = {name: torch.tensor([k == 4]) for name in ("ended", "cut")}
        replay.add(**row, reward=torch.tensor([float(k)]), next=torch.full((1, 1), k + 0.5), **flags)
    torch.manual_seed(0)
    batch = replay.draw(200, 3, 0.5)
    found = {
        int(seen): (float(reward), float(after), float(factor))
        for seen, reward, after, factor in zip(batch.seen, batch.reward, batch.next, batch.discount, strict=True)
    }
    assert found == {
        2: (2 + 0.5 * 3 + 0.25 * 4, 4.5, 0.0),
        3: (3 + 0.5 * 4, 4.5, 0.0),
        4: (4.0, 4.5, 0.0),
        5: (5 + 0.5 * 6, 6.5, 0.25),  # nothing newer is known
        6: (6.0, 6.5, 0.5),
    }
    replay.cut()
    assert {float(d) for d in replay.draw(100, 3, 0.5).discount} == {0.0, 0.25, 0.5}


def test_the_target_of_the_critic_has_the_mean_that_rewards_say():
    with quiet_torch():
        torch.manual_seed(1)
        critic = Critic(3, (8,), 41, 10.0, "cpu")
        seen, action = torch.randn(6, 2), torch.randn(6, 1)
        reward, discount = torch.linspace(-1, 1, 6), torch.full((6,), 0.5)
        with torch.no_grad():
            now = critic.value(seen, action)
            (first, second), outside = critic.target(seen, action, reward, discount, cautious=False)
            (lower, _), _ = critic.target(seen, action, reward, discount, cautious=True)
            beyond = critic.target(seen, action, reward + 100, discount, cautious=True)
    for target, value in ((first, now[0]), (second, now[1]), (lower, torch.minimum(*now))):
        torch.testing.assert_close(target.sum(dim=1), torch.ones(6))
        torch.testing.assert_close((target * critic.atoms).sum(dim=1), reward + 0.5 * value, atol=1e-4, rtol=0)
    assert float(outside) == 0.0
    assert float(beyond[1]) == pytest.approx(1.0)
    torch.testing.assert_close(beyond[0][0][:, -1], torch.ones(6))


def test_a_running_scale_is_that_of_all_rows():
    rows = torch.as_tensor(np.random.default_rng(0).normal(3, 2, (60, 4)), dtype=torch.float32)
    scale = Scale(4, "cpu")
    for part in rows.split(17):
        scale.take_in(part)
    torch.testing.assert_close(scale.mean, rows.mean(dim=0))
    torch.testing.assert_close(scale.sd, rows.std(dim=0, unbiased=False) + Scale.SMALLEST)


def test_what_a_step_led_to_is_known_where_a_world_began_anew():
    task = reach.of(scene(), horizon_s=0.1)
    env = VecEnv(Arena(scene(), task, 3, draws=ranges(), play=Play(bank=8, nthread=1)))
    for _ in range(task.ticks - 1):
        env.step(torch.zeros(3, 1))
        before = env.after()
        assert torch.equal(before[0], env.get_observations()["policy"])
    parameters = env.get_observations()["privileged"][:, -2:]
    _, _, done, _ = env.step(torch.zeros(3, 1))
    policy, privileged = env.after()
    assert done.all()
    assert not torch.equal(policy, env.get_observations()["policy"])
    assert torch.equal(privileged[:, -2:], parameters)
    assert (policy - before[0]).abs().max() < (env.get_observations()["policy"] - before[0]).abs().max()
