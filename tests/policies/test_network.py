"""The forward pass without torch agrees with torch, world by world, to the bit among themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.policies import nets
from twinproof.nouns.errors import PolicyError
from twinproof.nouns.policy import Channel, Contract, Policy, Scale
from twinproof.policies.load import actor_of
from twinproof.policies.network import Layout, forward

LOW, HIGH = np.array([-1.0, -0.5]), np.array([3.0, 0.5])


def limits(y: torch.Tensor) -> np.ndarray:
    return (LOW + HIGH) / 2 + (HIGH - LOW) / 2 * y.detach().double().numpy()


@pytest.mark.parametrize("activation", ["elu", "relu", "tanh"])
@pytest.mark.parametrize("norm", [False, True])
def test_a_network_gives_what_torch_gives(activation, norm):
    network = nets.mlp([6, 33, 17, 4], activation, norm)
    x = torch.randn(131, 6) * 3
    architecture = {"layers": [6, 33, 17, 4], "activation": activation, "norm": "layer" if norm else "none"}
    y = forward(architecture, nets.weights_of(network), x.numpy())
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, network(x).detach().numpy(), rtol=2e-5, atol=2e-6)


def test_extreme_inputs_do_not_break_the_activations():
    for activation in ("elu", "tanh"):
        network = torch.nn.Sequential(torch.nn.Linear(1, 1), *nets.mlp([1, 1, 1], activation)[1:])
        with torch.no_grad():
            network[0].weight[:], network[0].bias[:] = 1.0, 0.0
        x = np.array([[-1e30], [-200.0], [-1e-7], [0.0], [1e-7], [200.0]], np.float32)
        y = forward({"layers": [1, 1, 1], "activation": activation}, nets.weights_of(network), x)
        np.testing.assert_allclose(y, network(torch.tensor(x)).detach().numpy(), rtol=1e-6)


def test_actions_are_scaled_to_the_limits_of_the_contract():
    policy = nets.policy([nets.WIDTH, 16, 2])
    actor, seen = actor_of(policy), nets.observations(7)
    actor.reset(7, seed=0)
    action = actor.act(seen)
    assert action.shape == (7, 1, 2)
    np.testing.assert_allclose(action[:, 0], limits(nets.mlp([nets.WIDTH, 16, 2])(nets.joined(seen))), atol=1e-5)


def test_a_squashed_output_stays_inside_the_limits():
    wild = {name: array * 50 for name, array in nets.policy([nets.WIDTH, 16, 2]).weights.items()}
    policy = nets.policy([nets.WIDTH, 16, 2], weights=wild, architecture={"output": "tanh"})
    actor = actor_of(policy)
    actor.reset(64, seed=0)
    action = actor.act(nets.observations(64))
    assert (action >= LOW - 1e-6).all()
    assert (action <= HIGH + 1e-6).all()
    assert np.abs(action[..., 1]).max() > 0.49  # and uses them


def test_an_action_with_a_scale_of_its_own_uses_it():
    policy = nets.policy([nets.WIDTH, 16, 2], normaliser={"wrist": Scale(0.1, 0.01)})
    actor, seen = actor_of(policy), nets.observations(3)
    actor.reset(3, seed=0)
    y = nets.mlp([nets.WIDTH, 16, 2])(nets.joined(seen)).detach().numpy()
    np.testing.assert_allclose(actor.act(seen)[:, 0, 1], 0.1 + 0.01 * y[:, 1], atol=1e-7)


def test_channels_and_single_numbers_can_be_normalised():
    scales = {"joints": Scale(1.0, 2.0), "time": Scale(-3.0, 0.5)}
    by_channel = actor_of(nets.policy([nets.WIDTH, 16, 2], normaliser=scales))
    mean, sd = np.array([1, 1, 1, 0, 0, -3], np.float32), np.array([2, 2, 2, 1, 1, 0.5], np.float32)
    weights = nets.weights_of(nets.mlp([nets.WIDTH, 16, 2]))
    each = actor_of(nets.policy([nets.WIDTH, 16, 2], weights={**weights, "input.mean": mean, "input.sd": sd}))
    seen = nets.observations(5)
    for actor in (by_channel, each):
        actor.reset(5, seed=0)
    given = each.act(seen)
    assert (by_channel.act(seen) == given).all()
    x = (nets.joined(seen) - torch.tensor(mean)) / torch.tensor(sd)
    np.testing.assert_allclose(given[:, 0], limits(nets.mlp([nets.WIDTH, 16, 2])(x)), atol=1e-5)


def test_history_is_stacked_newest_last_and_begins_with_the_first_observation():
    contract, widths = nets.contract(history=3), [3 * nets.WIDTH, 16, 2]
    actor = actor_of(nets.policy(widths, contract=contract))
    actor.reset(4, seed=0)
    rows = [nets.observations(4, seed) for seed in range(4)]
    given = [actor.act(row) for row in rows]
    network, x = nets.mlp(widths), [nets.joined(row) for row in rows]
    for k, stack in enumerate(([0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3])):
        wanted = limits(network(torch.cat([x[i] for i in stack], dim=1)))
        np.testing.assert_allclose(given[k][:, 0], wanted, atol=1e-5)


def test_a_chunk_comes_out_first_action_first():
    widths = [nets.WIDTH, 16, 6]
    actor, seen = actor_of(nets.policy(widths, contract=nets.contract(chunk=3))), nets.observations(2)
    actor.reset(2, seed=0)
    wanted = limits(nets.mlp(widths)(nets.joined(seen)).reshape(2, 3, 2))
    np.testing.assert_allclose(actor.act(seen), wanted, atol=1e-5)


def test_a_recurrent_network_gives_what_torch_gives_step_by_step():
    policy, gru, head = nets.gru_policy()
    actor = actor_of(policy)
    actor.reset(3, seed=0)
    rows = [nets.observations(3, seed) for seed in range(6)]
    out, _ = gru(torch.stack([nets.joined(row) for row in rows]))
    for row, features in zip(rows, out, strict=True):
        np.testing.assert_allclose(actor.act(row)[:, 0], limits(head(features)), atol=1e-5)


def test_a_latent_of_the_history_joins_the_newest_observation():
    history, encoder, head = 4, nets.mlp([4 * nets.WIDTH, 9, 3], seed=1), nets.mlp([nets.WIDTH + 3, 16, 2], seed=2)
    weights = {**nets.weights_of(head), **nets.weights_of(encoder, "encoder.")}
    layout = {"layers": [nets.WIDTH + 3, 16, 2], "encoder": {"layers": [4 * nets.WIDTH, 9, 3]}}
    actor = actor_of(Policy("mlp", nets.contract(history=history), {}, layout, weights))
    actor.reset(2, seed=0)
    first, second = nets.observations(2, 0), nets.observations(2, 1)
    actor.act(first)
    a, b = nets.joined(first), nets.joined(second)
    x = torch.cat([b, encoder(torch.cat([a, a, a, b], dim=1))], dim=1)
    np.testing.assert_allclose(actor.act(second)[:, 0], limits(head(x)), atol=1e-5)


def test_a_residual_policy_adds_its_share_to_its_base():
    widths, base_widths = [nets.WIDTH, 16, 2], [nets.WIDTH, 8, 2]
    top, base = nets.mlp(widths, seed=3), nets.mlp(base_widths, seed=4)
    scale = {"base.input.mean": np.ones(6, np.float32), "base.input.sd": np.full(6, 2, np.float32)}
    weights = {**nets.weights_of(top), **nets.weights_of(base, "base."), **scale}
    layout = {"base": "abc", "base_architecture": {"layers": base_widths}, "residual_share": 0.2}
    actor, seen = actor_of(nets.policy(widths, weights=weights, architecture=layout)), nets.observations(3)
    actor.reset(3, seed=0)
    x = nets.joined(seen)
    wanted = limits(base((x - 1) / 2)) + 0.2 * (HIGH - LOW) / 2 * top(x).detach().numpy()
    np.testing.assert_allclose(actor.act(seen)[:, 0], wanted, atol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 5, 64])
def test_a_world_gets_the_same_bits_alone_and_in_any_company(count):
    policy, _, _ = nets.gru_policy()
    for one in (nets.policy([nets.WIDTH, 64, 32, 2]), policy):
        together, alone = actor_of(one), actor_of(one)
        together.reset(count, seed=0)
        alone.reset(1, seed=0)
        for step in range(3):
            seen = nets.observations(count, step)
            last = {name: array[-1:] for name, array in seen.items()}
            assert (together.act(seen)[-1] == alone.act(last)[0]).all()


BITS = """
import sys
from pathlib import Path
import numpy as np
from twinproof.nouns.policy import Policy
from twinproof.policies.load import actor_of

actor = actor_of(Policy.load(Path(sys.argv[1])))
actor.reset(5, seed=0)
rng = np.random.default_rng(0)
for _ in range(3):
    seen = {c.name: rng.normal(size=(5, *c.shape)) * 3 for c in actor.contract.observations}
    sys.stdout.write(actor.act(seen).tobytes().hex())
"""


@pytest.mark.slow
def test_a_plainer_processor_gives_the_same_bits(tmp_path):
    """Compiled for the oldest 64-bit processor, without wide or fused instructions, in a process of its own."""
    policy, _, _ = nets.gru_policy(16)
    policy.save(tmp_path / "policy")
    given = []
    for more in ({}, {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}):
        done = subprocess.run(
            [sys.executable, "-c", BITS, str(tmp_path / "policy")], env={**os.environ, **more}, capture_output=True
        )
        assert done.returncode == 0, done.stderr.decode()
        given.append(done.stdout)
    assert given[0] == given[1]
    assert len(given[0]) == 3 * 5 * 2 * 8 * 2


def test_a_saved_policy_acts_the_same_after_loading(tmp_path):
    policy, _, _ = nets.gru_policy()
    policy.save(tmp_path / "policy")
    actors = [actor_of(policy), actor_of(Policy.load(tmp_path / "policy"))]
    for actor in actors:
        actor.reset(2, seed=0)
    a, b = (actor.act(nets.observations(2)) for actor in actors)
    assert (a == b).all()


def test_what_does_not_fit_its_architecture_is_refused():
    good = nets.policy([nets.WIDTH, 16, 2])

    def refused(match: str, **changes) -> None:
        with pytest.raises(PolicyError, match=match):
            actor_of(replace(good, **changes))

    weights = dict(good.weights)
    layers = {"layers": [nets.WIDTH, 16, 2]}
    refused("unknown key 'activations'. Did you mean 'activation'", architecture={**layers, "activations": "elu"})
    refused("'elu', 'relu', 'tanh' is needed, found 'gelu'", architecture={**layers, "activation": "gelu"})
    refused("has the layers \\[6\\]; give the widths", architecture={"layers": [6]})
    refused("a GRU has the widths \\[0\\]", architecture={**layers, "gru": [0]})
    refused("kind 'mlp' has the GRU widths \\[16\\]", architecture={"layers": [16, 2], "gru": [16]})
    refused("kind 'recurrent' has the GRU widths \\[\\]", kind="recurrent")
    refused("lacks the weights 'layers.1.bias'", weights={n: w for n, w in weights.items() if n != "layers.1.bias"})
    refused("'layers.0.bias' have the shape \\(3,\\); the architecture states \\(16,\\)",
            weights={**weights, "layers.0.bias": np.zeros(3)})  # fmt: skip
    refused("holds the weights log_std, which its architecture lacks", weights={**weights, "log_std": np.zeros(2)})
    refused("the network takes 6 numbers; the contract's observations have 12", contract=nets.contract(history=2))
    refused("the network gives 2 numbers; the contract's chunk of actions has 8", contract=nets.contract(chunk=4))
    refused("kind 'scripted' holds no network", kind="scripted", architecture={}, weights={})
    mean, sd = np.zeros(6), np.ones(6)
    refused("input scales are input.mean \\(6,\\); input.mean and input.sd", weights={**weights, "input.mean": mean})
    twice = {**weights, "input.mean": mean, "input.sd": sd}
    refused("scales its observations twice", weights=twice, normaliser={"time": Scale(0, 1)})
    refused("input.sd holds 0.0; every sd is above zero", weights={**twice, "input.sd": np.zeros(6)})
    inner = {"layers": [6, 2], "base_architecture": {"layers": [6, 2]}}
    refused("has a base of its own", architecture={**layers, "base_architecture": inner})
    encoder = {"layers": [7, 3]}
    arrays = {**weights, "encoder.layers.0.weight": np.zeros((3, 7)), "encoder.layers.0.bias": np.zeros(3)}
    refused("the encoder takes 7 numbers", architecture={**layers, "encoder": encoder}, weights=arrays)
    with pytest.raises(PolicyError, match="begin with 5 numbers, and the GRU before them gives 6"):
        actor_of(Policy("recurrent", nets.contract(), {}, {"layers": [5, 2], "gru": [6]}, weights))
    with pytest.raises(PolicyError, match="with an encoder or eyes sees more than one row"):
        forward({**layers, "encoder": encoder}, arrays, np.zeros((1, 6)))


def test_what_an_actor_cannot_act_on_is_refused():
    actor, seen = actor_of(nets.policy([nets.WIDTH, 16, 2])), nets.observations(3)

    def refused(match: str, **changes: np.ndarray) -> None:
        with pytest.raises(PolicyError, match=match):
            actor.act({**seen, **changes})

    refused("before it was reset")
    for count, which, match in (
        (0, None, "reset for 0 worlds"),
        (3, np.array([1, 0, 1]), "mask of type int64 and shape \\(3,\\)"),
        (3, np.array([True]), "mask of type bool and shape \\(1,\\)"),
    ):
        with pytest.raises(PolicyError, match=match):
            actor.reset(count, 0, which)
    actor.reset(3, seed=0)
    with pytest.raises(PolicyError, match="'goal' is missing; given are joints, time"):
        actor.act({name: array for name, array in seen.items() if name != "goal"})
    refused("'time' has the shape \\(2,\\); for 3 worlds the contract states \\(3,\\)", time=np.zeros(2))
    refused("'time' is of type <U1; numbers are needed", time=np.array(["a", "b", "c"]))
    refused(
        "'goal' of world 2 holds nan. A policy is asked about finite numbers",
        goal=np.array([[0, 0], [0, 0], [0, np.nan]]),
    )
    refused("'time' of world 1 holds 1e\\+200", time=np.array([0, 1e200, 0]))
    actor = actor_of(
        nets.policy([nets.WIDTH, 2], weights={"layers.0.weight": np.full((2, 6), 9), "layers.0.bias": LOW})
    )
    actor.reset(3, seed=0)
    refused("overflows in world 1", goal=np.array([[0, 0], [3e38, 3e38], [0, 0]]))


def test_a_layout_survives_json():
    layout = Layout.of({"layers": [6, 4, 2], "encoder": {"layers": [6, 3]}, "base_architecture": {"layers": [6, 2]}})
    assert layout.encoder is not None
    assert layout.encoder.layers == (6, 3)


def test_pictures_may_be_observed_as_numbers():
    contract = Contract((Channel("eye", "", shape=(2, 2, 3)),), nets.ACTIONS, 10.0)
    actor = actor_of(nets.policy([12, 4, 2], contract=contract, normaliser={"eye": Scale(127.5, 127.5)}))
    actor.reset(1, seed=0)
    assert actor.act({"eye": np.full((1, 2, 2, 3), 255, np.uint8)}).shape == (1, 1, 2)
