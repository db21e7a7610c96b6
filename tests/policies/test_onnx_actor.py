"""ONNX graphs act as their contract says, or are refused before they run."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.policies import nets
from twinproof.nouns.errors import MissingExtra, PolicyError
from twinproof.nouns.policy import Channel, Contract, Policy, Scale
from twinproof.policies.load import actor_of, read_policy
from twinproof.policies.onnx_actor import onnx_policy, opsets
from twinproof.train.onnx_export import onnx_bytes

CONTRACT = Contract((Channel("x", "m", shape=(3,)),), (Channel("a", "rad", -1, 1), Channel("b", "rad", -1, 1)), 10.0)
WEIGHT = np.array([[1, 0], [0, 2], [3, 0]], np.float32)


def graph(shape=("N", 3), out=("N", 1, 2), kind=TensorProto.FLOAT, opset=17, **changes) -> bytes:
    """(N, 1, 2) = x @ WEIGHT, in onnx's own words."""
    nodes = [helper.make_node("MatMul", ["y", "w"], ["z"]), helper.make_node("Reshape", ["z", "s"], ["actions"])]
    nodes.insert(0, helper.make_node(changes.get("first", "Identity"), ["x"], ["y"]))
    values = [numpy_helper.from_array(changes.get("weight", WEIGHT), "w"),
              numpy_helper.from_array(np.array([-1, *out[1:]], np.int64), "s")]  # fmt: skip
    inputs = [helper.make_tensor_value_info(name, kind, shape) for name in changes.get("inputs", ["x"])]
    outputs = [helper.make_tensor_value_info("actions", changes.get("out_kind", TensorProto.FLOAT), out)]
    if changes.get("twice"):
        outputs.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ("N", 2)))
    sets = [helper.make_opsetid(changes.get("domain", ""), opset)]
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, values), opset_imports=sets)
    model.ir_version = 8
    return model.SerializeToString()


def policy(data: bytes, contract: Contract = CONTRACT) -> Policy:
    return Policy("onnx", contract, {}, {}, {"graph": np.frombuffer(data, np.uint8)})


def test_a_graph_acts_for_many_worlds_at_once():
    actor = actor_of(policy(graph()))
    actor.reset(5, seed=0)
    x = np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_allclose(actor.act({"x": x})[:, 0], x @ WEIGHT, rtol=1e-6)


def test_a_graph_for_one_world_is_run_world_by_world():
    actor = actor_of(policy(graph(shape=(1, 3), out=(1, 1, 2))))
    actor.reset(4, seed=0)
    x = np.random.default_rng(0).normal(size=(4, 3))
    np.testing.assert_allclose(actor.act({"x": x})[:, 0], x @ WEIGHT, rtol=1e-6)


def test_a_graph_sees_its_history_newest_last():
    contract = replace(CONTRACT, history=2)
    nodes = [helper.make_node("Flatten", ["x"], ["f"], axis=1), helper.make_node("MatMul", ["f", "w"], ["z"]),
             helper.make_node("Reshape", ["z", "s"], ["actions"])]  # fmt: skip
    newest = np.concatenate([0 * WEIGHT, WEIGHT])
    values = [numpy_helper.from_array(newest, "w"), numpy_helper.from_array(np.array([-1, 1, 2]), "s")]
    made = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("N", 2, 3))],
        [helper.make_tensor_value_info("actions", TensorProto.FLOAT, ("N", 1, 2))],
        values,
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    actor = actor_of(policy(model.SerializeToString(), contract))
    actor.reset(1, seed=0)
    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=(1, 3))
        np.testing.assert_allclose(actor.act({"x": x})[:, 0], x @ WEIGHT, rtol=1e-5)


def test_a_file_becomes_a_policy_that_stands_on_its_own(tmp_path):
    (tmp_path / "net.onnx").write_bytes(graph())
    made = onnx_policy(tmp_path / "net.onnx", CONTRACT, {"twin": "abc"})
    made.save(tmp_path / "policy")
    (tmp_path / "net.onnx").unlink()
    actor = actor_of(Policy.load(tmp_path / "policy"))
    actor.reset(1, seed=0)
    assert actor.act({"x": np.ones((1, 3))}).tolist() == [[[4.0, 2.0]]]


def test_operator_sets_are_read_from_the_bytes():
    assert dict(opsets(graph(opset=13))) == {"": 13}
    assert dict(opsets(b"\xff" * 30)) == {}
    assert dict(opsets(b"\x42\x7f")) == {}  # states 127 bytes and has none


def test_graphs_that_do_not_fit_are_refused():
    for data, match in (
        (b"", "needs the operator sets none; needed is ONNX's own, 7 or newer"),
        (b"not a graph at all", "needs the operator sets none"),
        (graph(opset=6), "needs the operator sets \\{'': 6\\}"),
        (graph(domain="evil.ops"), "needs the operator sets \\{'evil.ops': 17\\}"),
        (graph()[:-40], "onnxruntime cannot read the graph|needs the operator sets"),
        (graph(first="NoSuchOperator"), "onnxruntime cannot read the graph"),
        (graph(opset=99), "onnxruntime cannot read the graph"),
        (graph(inputs=["x", "extra"]), "the ONNX graph takes extra, x; the contract observes x"),
        (graph(shape=("N", 4), weight=np.zeros((4, 2), np.float32)), "its input 'x' as tensor\\(float\\) of shape"),
        (graph(shape=(7, 3), out=(7, 1, 2)), "where N is free or 1"),
        (graph(kind=TensorProto.FLOAT16, weight=WEIGHT.astype(np.float16), out_kind=TensorProto.FLOAT16),
         "tensor\\(float16\\)"),
        (graph(out=("N", 2, 1)), "its output as tensor\\(float\\) of shape \\['N', 2, 1\\]"),
        (graph(twice=True), "has 2 outputs"),
    ):  # fmt: skip
        with pytest.raises(PolicyError, match=match):
            actor_of(policy(data))


def test_weights_in_other_files_are_refused(tmp_path):
    model = onnx.load_model_from_string(graph(weight=np.zeros((3, 2), np.float32)))
    onnx.save(model, tmp_path / "g.onnx", save_as_external_data=True, size_threshold=0, location="secret")
    with pytest.raises(PolicyError, match="keeps weights in other files"):
        actor_of(policy((tmp_path / "g.onnx").read_bytes()))


def test_a_graph_that_gives_no_numbers_is_refused_as_it_runs():
    actor = actor_of(policy(graph(first="Log")))
    actor.reset(1, seed=0)
    with pytest.raises(PolicyError, match="the ONNX graph gave (nan|-inf) for"):
        actor.act({"x": -np.ones((1, 3))})
    lying = actor_of(policy(graph(shape=("N", "M"))))  # says that any width will do
    lying.reset(1, seed=0)
    assert lying.act({"x": np.ones((1, 3))}).shape == (1, 1, 2)
    wide = actor_of(policy(graph(shape=("N", "M"), weight=np.zeros((4, 2), np.float32))))
    wide.reset(1, seed=0)
    with pytest.raises(PolicyError, match="the ONNX graph failed while it ran"):
        wide.act({"x": np.ones((1, 3))})


def test_what_is_no_graph_is_refused(tmp_path, monkeypatch):
    good = policy(graph())
    for changed, match in (
        (replace(good, weights={"graph": np.zeros(4)}), "holds its graph as bytes"),
        (replace(good, weights={}), "holds its graph as bytes"),
        (replace(good, normaliser={"x": Scale(0, 1)}), "has a normaliser, and its graph scales by itself"),
    ):
        with pytest.raises(PolicyError, match=match):
            actor_of(changed)
    with pytest.raises(PolicyError, match="net.onnx does not exist"):
        onnx_policy(tmp_path / "net.onnx", CONTRACT)
    monkeypatch.setattr("twinproof.policies.onnx_actor.LARGEST_BYTES", 2**20)
    with pytest.raises(PolicyError, match="the ONNX graph has 2 MiB; 1 are the most"):
        actor_of(replace(good, weights={"graph": np.zeros(2**21, np.uint8)}))
    (tmp_path / "net.onnx").write_bytes(bytes(2**21))
    with pytest.raises(PolicyError, match="net.onnx has 2 MiB; 1 are the most"):
        onnx_policy(tmp_path / "net.onnx", CONTRACT)


def test_our_own_export_agrees_with_our_own_network():
    scales = {"input.mean": np.full(6, 0.5, np.float32), "input.sd": np.full(6, 2.0, np.float32)}
    weights = {**nets.weights_of(nets.mlp([nets.WIDTH, 16, 2])), **scales}
    ours = nets.policy([nets.WIDTH, 16, 2], weights=weights)
    actors = [actor_of(ours), actor_of(policy(onnx_bytes(ours), ours.contract))]
    for actor in actors:
        actor.reset(3, seed=0)
    a, b = (actor.act(nets.observations(3)) for actor in actors)
    np.testing.assert_allclose(a, b, atol=1e-5)


def test_a_missing_runtime_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra, match="ONNX policies need onnxruntime. Run: pip install 'twinproof\\[learn\\]'"):
        actor_of(policy(graph()))


def test_a_graph_that_states_its_contract_is_a_policy(tmp_path):
    scales = {"input.mean": np.zeros(6, np.float32), "input.sd": np.ones(6, np.float32)}
    weights = {**nets.weights_of(nets.mlp([nets.WIDTH, 16, 2])), **scales}
    ours = nets.policy([nets.WIDTH, 16, 2], weights=weights)
    (tmp_path / "ours.onnx").write_bytes(onnx_bytes(ours))
    assert read_policy(tmp_path / "ours.onnx").contract == ours.contract
    (tmp_path / "bare.onnx").write_bytes(graph())
    with pytest.raises(PolicyError, match="bare.onnx does not state its contract"):
        read_policy(tmp_path / "bare.onnx")
    for stated, match in (("{", "does not state its contract"), ("{}", "'observations' is missing")):
        model = onnx.load_model_from_string(graph())
        helper.set_model_props(model, {"contract": stated})
        (tmp_path / "odd.onnx").write_bytes(model.SerializeToString())
        with pytest.raises(PolicyError, match=match):
            read_policy(tmp_path / "odd.onnx")
