"""Policies as ONNX graphs: the same numbers, with onnxruntime alone."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest

from tests.train.networks import contract, network, observations
from twinproof.nouns.errors import MissingExtra, PolicyError
from twinproof.nouns.policy import Contract, Policy
from twinproof.nouns.strict import build
from twinproof.policies.load import actor_of
from twinproof.train.onnx_export import export_onnx, onnx_bytes
from twinproof.train.torch_extra import torch_module
from twinproof.train.written import Origin, policy_of, residual_of


def ours(policy: Policy, seen: dict[str, np.ndarray]) -> np.ndarray:
    actor = actor_of(policy)
    actor.reset(len(seen["goal"]), 0)
    return actor.act(seen)


def theirs(policy: Policy, fed: dict[str, np.ndarray]) -> np.ndarray:
    session = onnxruntime.InferenceSession(onnx_bytes(policy))
    return session.run(["actions"], {name: value.astype(np.float32) for name, value in fed.items()})[0]


@pytest.mark.parametrize("seed", range(3))
def test_the_graph_gives_the_actions_of_the_policy(seed):
    policy, seen = policy_of(network(seed), contract(), Origin({})), observations(50, seed)
    np.testing.assert_allclose(theirs(policy, seen), ours(policy, seen), atol=1e-5)


def test_a_history_is_given_oldest_first():
    policy = policy_of(network(1, history=3), contract(history=3), Origin({}))
    actor, ticks = actor_of(policy), [observations(4, seed) for seed in range(3)]
    actor.reset(4, 0)
    told = [actor.act(seen) for seen in ticks]
    stacked = {name: np.stack([seen[name] for seen in ticks], axis=1) for name in ticks[0]}
    np.testing.assert_allclose(theirs(policy, stacked), told[-1], atol=1e-5)


def test_a_residual_policy_has_its_base_in_the_graph():
    base = policy_of(network(2), contract(), Origin({}))
    policy, seen = residual_of(network(3), base, 0.3, Origin({"twin": "t"})), observations(20)
    np.testing.assert_allclose(theirs(policy, seen), ours(policy, seen), atol=1e-5)
    assert policy.parents == {"twin": "t", "base": base.hash}
    assert np.abs(ours(policy, seen) - ours(base, seen)).max() > 0.01


def test_the_file_runs_without_our_package_and_carries_its_contract(tmp_path):
    policy = policy_of(network(), contract(), Origin({}))
    export_onnx(policy, tmp_path / "policy.onnx")
    code = (
        "import sys, json, onnxruntime, numpy as np\n"
        "session = onnxruntime.InferenceSession(sys.argv[1])\n"
        "fed = {i.name: np.zeros([1 if s == 'N' else s for s in i.shape], np.float32) for i in session.get_inputs()}\n"
        "out = session.run(None, fed)[0]\n"
        "assert 'twinproof' not in sys.modules and 'torch' not in sys.modules\n"
        "print(json.dumps([out.tolist(), session.get_modelmeta().custom_metadata_map['contract']]))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "policy.onnx")], check=True, capture_output=True, text=True
    )
    actions, stated = json.loads(found.stdout)
    zero = {name: np.zeros_like(value) for name, value in observations(1).items()}
    np.testing.assert_allclose(actions, ours(policy, zero), atol=1e-5)
    assert build(Contract, json.loads(stated), "metadata", PolicyError) == contract()


def test_what_has_no_graph_is_refused():
    policy = policy_of(network(), contract(), Origin({}))
    with pytest.raises(PolicyError, match="of kind 'scripted' has no ONNX graph of ours"):
        onnx_bytes(Policy("scripted", contract(), {}))
    with pytest.raises(PolicyError, match="is not one that twinproof train writes"):
        onnx_bytes(replace(policy, architecture={**policy.architecture, "activation": "relu"}))


def test_a_package_that_is_not_there_is_named_with_the_cure(monkeypatch):
    policy = policy_of(network(), contract(), Origin({}))
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtra, match="ONNX export needs the package onnx"):
        onnx_bytes(policy)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match="training needs torch, which is not installed"):
        torch_module()
