"""PPO by hand is rsl_rl's PPO: the same returns and the same networks after an update."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from rsl_rl.algorithms import PPO
from rsl_rl.models import MLPModel
from rsl_rl.storage import RolloutStorage
from tensordict import TensorDict

from twinproof.train.gradients import Layers, elu, is_plain, product
from twinproof.train.networks import mlp
from twinproof.train.ppo import Ppo, actor_settings
from twinproof.train.ppo_by_hand import ByHand, can_be_by_hand
from twinproof.train.rollouts import Rollouts

WORLDS, TICKS, SEEN, HIDDEN, ACTIONS = 12, 10, 7, 3, 2


def groups() -> Any:
    found = {"policy": 3 * torch.randn(WORLDS, SEEN).double(), "privileged": torch.randn(WORLDS, HIDDEN).double()}
    return TensorDict(found, batch_size=[WORLDS])


def rsl_rl(epochs: int, minibatches: int, **more: Any) -> Any:
    """In double precision, so that what differs is no rounding."""
    torch.manual_seed(0)
    seen, kind = groups(), {"hidden_dims": (16, 16), "activation": "elu", "obs_normalization": True}
    settings = actor_settings(Ppo(hidden=(16, 16)))
    actor = MLPModel(seen, {"actor": ["policy"]}, "actor", ACTIONS, **settings)
    critic = MLPModel(seen, {"critic": ["policy", "privileged"]}, "critic", 1, **kind)
    storage = RolloutStorage("rl", WORLDS, TICKS, seen, [ACTIONS])
    storage.distribution_params = tuple(torch.zeros(TICKS, WORLDS, ACTIONS).double() for _ in range(2))
    for name in ("rewards", "actions", "values", "actions_log_prob", "returns", "advantages"):
        setattr(storage, name, getattr(storage, name).double())
    given = {"num_learning_epochs": epochs, "num_mini_batches": minibatches, "max_grad_norm": 0.5, **more}
    given |= {"use_clipped_value_loss": False, "normalize_advantage_per_mini_batch": True, "gamma": 0.98}
    found = PPO(actor.double(), critic.double(), storage, **given)
    for model in (found.actor, found.critic):
        model.update_normalization(groups())
    return found


def rolled_out(mine: Rollouts, theirs: Any) -> None:
    """The same rollout in both; rsl_rl is told the actions that were drawn."""
    seen = groups()
    for _ in range(TICKS):
        action = mine.act(seen).clone()
        theirs.act(seen)
        theirs.transition.actions = action
        theirs.transition.actions_log_prob = theirs.actor.get_output_log_prob(action).detach()
        reward, done = torch.randn(WORLDS).double(), (torch.rand(WORLDS) < 0.2).double()
        extras = {"time_outs": done * (torch.rand(WORLDS) < 0.5)}
        seen = groups()
        mine.process_env_step(seen, reward, done, extras)
        theirs.process_env_step(seen, reward, done, extras)
    mine.compute_returns(seen)
    theirs.compute_returns(seen)


@pytest.mark.parametrize(("epochs", "minibatches"), [(1, 5), (6, 1)])  # shuffled once; an order that does not matter
@pytest.mark.parametrize(
    "more",
    [
        {"schedule": "fixed", "entropy_coef": 0.0},
        {"schedule": "fixed", "entropy_coef": 0.02, "clip_param": 0.01, "learning_rate": 1e-2},
        {"schedule": "adaptive", "desired_kl": 0.002, "learning_rate": 3e-3, "max_grad_norm": 1e-3},
    ],
)
def test_an_update_by_hand_is_that_of_rsl_rl(epochs, minibatches, more):
    algorithm = rsl_rl(epochs, minibatches, **more)
    theirs = copy.deepcopy(algorithm)
    theirs.optimizer = torch.optim.Adam([*theirs.actor.parameters(), *theirs.critic.parameters()], theirs.learning_rate)
    mine = ByHand(algorithm)
    for _ in range(2):
        with torch.no_grad():
            rolled_out(mine, theirs)
        for name in ("values", "rewards", "actions_log_prob", "returns", "advantages"):
            one, other = getattr(algorithm.storage, name), getattr(theirs.storage, name)
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
        for each in (algorithm, theirs):  # else rounding says whether the first divergence is above zero
            each.actor.mlp[-1].bias.data += 0.03
        torch.manual_seed(5)
        told = mine.update()
        torch.manual_seed(5)
        assert told == pytest.approx(theirs.update(), abs=1e-6)  # three losses
        for one, other in ((algorithm.actor, theirs.actor), (algorithm.critic, theirs.critic)):
            for (name, value), (_, wanted) in zip(one.state_dict().items(), other.state_dict().items(), strict=True):
                torch.testing.assert_close(value, wanted, rtol=0, atol=1e-6, msg=name)
        assert algorithm.learning_rate == theirs.learning_rate
    moved = rsl_rl(epochs, minibatches, **more).actor.mlp[0].weight - algorithm.actor.mlp[0].weight
    assert moved.abs().max() > 1e-4


def test_a_rollout_in_few_operations_is_that_of_rsl_rl_and_lies_where_the_last_one_lay():
    algorithm = rsl_rl(1, 1)
    theirs, places = copy.deepcopy(algorithm), set()
    mine = Rollouts(algorithm, algorithm.actor.mlp, algorithm.critic.mlp)
    for _ in range(2):
        with torch.no_grad():
            rolled_out(mine, theirs)
        one, other = algorithm.storage, theirs.storage
        for name in ("actions", "values", "rewards", "dones", "actions_log_prob", "returns", "advantages"):
            torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-9, msg=name)
        for ours, wanted in zip(one.distribution_params, other.distribution_params, strict=True):
            torch.testing.assert_close(ours, wanted, rtol=1e-9, atol=1e-9)
        for name, group in other.observations.items():
            torch.testing.assert_close(one.observations[name], group)
        written = (one.actions, one.returns, one.actions_log_prob, *one.distribution_params)
        places.add(tuple(each.data_ptr() for each in written))  # what a recorded update reads
        assert one.actions.std() > 0.1
        for each in (one, other):
            each.clear()
    assert len(places) == 1


def test_gradients_are_those_of_autograd():
    torch.manual_seed(1)
    network, more = mlp([33, 64, 48, 5]), torch.nn.Parameter(torch.zeros(5))
    x, change = torch.randn(200, 33), torch.randn(200, 5)
    network(x).backward(change)
    wanted = torch.cat([each.grad.flatten() for each in network.parameters()])
    layers = Layers(network, [more])
    with torch.no_grad():
        torch.testing.assert_close(layers(x), network(x), rtol=1e-5, atol=1e-6)
        layers.backward(change)
    off = layers.gradient[:-5] - wanted
    assert off.norm() < 1e-6 * wanted.norm()
    assert more.grad.data_ptr() == layers.gradient[-5:].data_ptr()


def test_gradients_are_cut_as_torch_cuts_them():
    network = mlp([3, 4, 2])
    layers = Layers(network)
    for size, largest in ((10.0, 0.5), (0.01, 0.5)):
        layers.gradient.normal_().mul_(size)
        wanted = copy.deepcopy(network)
        for one, other in zip(wanted.parameters(), network.parameters(), strict=True):
            one.grad = other.grad.clone()
        torch.nn.utils.clip_grad_norm_(wanted.parameters(), largest)
        layers.cut(largest)
        expected = torch.cat([each.grad.flatten() for each in wanted.parameters()])
        torch.testing.assert_close(layers.gradient, expected)


def test_a_row_is_worth_the_same_whatever_stands_beside_it():
    x, weight = torch.randn(128, 33), torch.randn(16, 33)
    with torch.no_grad():
        assert torch.equal(product(x, weight)[:5], product(x.clone(), weight)[:5])
        torch.testing.assert_close(product(x, weight)[:5], product(x[:5], weight))


def test_elu_in_one_pass_is_torchs_to_two_ten_millionths():
    x = torch.cat([torch.linspace(-120, 8, 100_001), torch.linspace(-1e-3, 1e-3, 1001), torch.zeros(6)])[:, None]
    wanted = torch.nn.functional.elu(x.double())
    torch.testing.assert_close(elu(x.clone()).double(), wanted, rtol=0, atol=2e-7)
    torch.testing.assert_close(elu(x.double()), wanted)  # torch's own
    edges = torch.tensor([[float("nan"), float("inf"), -float("inf"), -0.0]])
    torch.testing.assert_close(elu(edges), torch.tensor([[float("nan"), float("inf"), -1.0, 0.0]]), equal_nan=True)


def test_only_plain_networks_are_done_by_hand():
    algorithm = rsl_rl(1, 1)
    assert can_be_by_hand(algorithm)
    algorithm.critic.mlp = torch.nn.Sequential(torch.nn.Linear(10, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    assert not can_be_by_hand(algorithm)
    assert not is_plain(mlp([3, 4, 2], norm=True))
    assert not is_plain(torch.nn.Linear(3, 2))
