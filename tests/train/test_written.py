"""From networks to policies and back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.train.networks import ACTIONS, SEEN, contract, network, observations
from twinproof.nouns.errors import PolicyError
from twinproof.nouns.policy import Channel, Contract, Policy
from twinproof.policies.load import actor_of
from twinproof.train.groups import Groups, action_scale, checked_actions, flat
from twinproof.train.written import Origin, Trained, policy_of, residual_of, trained_of


def test_a_torch_network_and_its_policy_give_the_same_actions(tmp_path):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ELU(), torch.nn.Linear(8, 2))
    mean, sd = torch.randn(5), torch.rand(5) + 0.5
    origin = Origin({"twin": "a", "randomization": "b"}, seed=3, training={"algorithm": "ppo"})
    policy_of(Trained.of(net, mean, sd), contract(), origin).save(tmp_path / "policy")
    policy, seen = Policy.load(tmp_path / "policy"), observations(30)
    actor = actor_of(policy)
    actor.reset(30, 0)
    x = torch.as_tensor(flat(seen, SEEN))
    centre, half = action_scale(contract())
    wanted = centre + half * net((x - mean) / sd).detach().numpy()
    np.testing.assert_allclose(actor.act(seen)[:, 0], wanted, atol=1e-5)
    assert policy.deployable
    assert (policy.seed, policy.parents["twin"]) == (3, "a")


def test_a_policy_that_sees_privileged_channels_is_not_deployable():
    told = Contract((*SEEN[:2], replace(SEEN[2], privileged=True)), ACTIONS, 50.0)
    assert not policy_of(network(), told, Origin({})).deployable


def test_training_goes_on_from_a_written_policy_of_the_same_contract_only():
    written = policy_of(network(), contract(), Origin({}))
    again = trained_of(written, contract(), "policy")
    assert all((a[0] == b[0]).all() for a, b in zip(again.layers, network().layers, strict=True))
    other = Contract(SEEN, ACTIONS, 20.0)
    with pytest.raises(PolicyError, match="another contract than is needed here: rate_hz is 50.0, wanted 20.0"):
        trained_of(written, other, "policy")
    with pytest.raises(PolicyError, match="is no network that twinproof train wrote"):
        trained_of(Policy("scripted", contract(), {}), contract(), "policy")


def test_a_residual_stands_on_one_network():
    with pytest.raises(PolicyError, match="a residual stands on an mlp that twinproof train wrote"):
        residual_of(network(), Policy("scripted", contract(), {}), 0.2, Origin({}))


def test_channels_are_grouped_by_who_may_see_them():
    told = Contract(
        (*SEEN, Channel("mass", "kg", privileged=True), Channel("eye", "1", shape=(4, 4, 3))), ACTIONS, 50.0
    )
    groups = Groups.of(told)
    assert groups.policy == SEEN
    assert [channel.name for channel in groups.privileged] == ["mass"]
    assert [channel.name for channel in groups.images] == ["eye"]
    with pytest.raises(PolicyError, match="the observation lacks goal; it has position"):
        flat({"position": np.zeros((1, 2))}, SEEN[::2])


def test_actions_of_the_wrong_shape_or_not_finite_are_refused():
    with pytest.raises(PolicyError, match=r"the expert gave actions of the shape \(3, 2\); \(3, 1, 2\) is needed"):
        checked_actions(np.zeros((3, 2)), 3, contract(), "the expert")
    broken = np.zeros((3, 1, 2))
    broken[1, 0, 1] = np.nan
    with pytest.raises(PolicyError, match="the expert gave nan for 'elbow' in world 1"):
        checked_actions(broken, 3, contract(), "the expert")
