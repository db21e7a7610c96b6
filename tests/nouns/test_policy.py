"""The laws of Policy and its contract."""

from __future__ import annotations

import numpy as np
import pytest

from tests.nouns.examples import contract, policy
from twinproof.nouns.errors import PolicyError
from twinproof.nouns.policy import Channel, Policy, Scale, difference, read_weights, require_same

WAIST, ELBOW = Channel("waist", "rad", -3.1, 3.1), Channel("elbow", "rad", -1.0, 1.0)


def test_a_deployable_policy_sees_nothing_that_the_robot_cannot_measure():
    teacher = contract(observations=(WAIST, Channel("cube.friction", "1", privileged=True)))
    assert teacher.privileged == ("cube.friction",)
    with pytest.raises(PolicyError, match=r"observes cube.friction, which the real robot cannot measure"):
        policy(contract=teacher)
    assert not policy(contract=teacher, deployable=False).deployable


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"normaliser": {"knee": Scale(0, 1)}}, "the normaliser scales knee"),
        ({"weights": {"w": np.array([1.0, np.nan])}}, "the weights 'w' hold NaN or infinity"),
        ({"weights": {"w": np.array(["a"])}}, "the weights 'w' are of type <U1"),
        ({"architecture": {"layers": {1, 2}}}, "architecture.layers is a set"),
        ({"training": {"reward": float("nan")}}, "training.reward is nan"),
    ],
)
def test_a_policy_that_breaks_a_law_is_refused(change, words):
    with pytest.raises(PolicyError, match=words):
        policy(**change)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"observations": ()}, "at least one observation and one action"),
        ({"actions": (WAIST, WAIST)}, "the actions waist, waist name a channel twice"),
        ({"actions": (Channel("waist", "rad"),)}, "the action 'waist' has no limits"),
        ({"rate_hz": 0}, "rate 0 Hz"),
        ({"delay_s": -0.1}, "delay -0.1 s"),
        ({"history": 0}, "history 0"),
        ({"chunk": 0}, "chunk 0"),
    ],
)
def test_a_contract_that_breaks_a_law_is_refused(change, words):
    with pytest.raises(PolicyError, match=words):
        contract(**change)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("", "rad"), "a channel has no name"),
        (("a", "rad", 1.0), "has one limit"),
        (("a", "rad", 1.0, 1.0), "low must be below high"),
        (("a", "rad", float("nan"), 1.0), "low must be below high"),
        (("a", "1", None, None, (64, 0)), r"has the shape \(64, 0\)"),
    ],
)
def test_a_channel_that_breaks_a_law_is_refused(arguments, words):
    with pytest.raises(PolicyError, match=words):
        Channel(*arguments)


def test_a_scale_is_positive():
    with pytest.raises(PolicyError, match="sd above zero"):
        Scale(0.0, 0.0)


def test_same_contracts_do_not_differ():
    assert difference(contract(), contract()) == ()
    require_same(contract(), contract(), "the checkpoint")


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({"actions": (WAIST, ELBOW)}, "action 'elbow' is not wanted"),
        ({"observations": (WAIST,)}, "observation 'front' is missing"),
        (
            {"observations": contract().observations[::-1]},
            "observations are in the order front, waist, wanted waist, f",
        ),
        ({"actions": (Channel("waist", "deg", -3.1, 3.1),)}, "action 'waist' has unit 'deg', wanted 'rad'"),
        ({"actions": (Channel("waist", "rad", -3.1, 2.0),)}, "action 'waist' has high 2.0, wanted 3.1"),
        ({"rate_hz": 30}, "rate_hz is 30, wanted 50"),
        ({"delay_s": 0.1}, "delay_s is 0.1, wanted 0.02"),
        ({"history": 4}, "history is 4, wanted 1"),
        ({"chunk": 8}, "chunk is 8, wanted 1"),
    ],
)
def test_another_contract_is_refused_and_the_difference_shown(found, told):
    with pytest.raises(PolicyError, match="the checkpoint has another contract") as caught:
        require_same(contract(), contract(**found), "the checkpoint")
    assert told in str(caught.value)
    assert len(difference(contract(), contract(**found))) == 1


def test_weights_come_back_bit_for_bit_in_every_type(tmp_path):
    weights = {
        kind: np.arange(6).reshape(2, 3).astype(kind)
        for kind in ("float64", "float32", "float16", "int64", "uint8", "bool")
    } | {"scalar": np.array(3.0), "empty": np.zeros((0, 4), np.float32), "turned": np.arange(6.0).reshape(2, 3).T}
    policy(weights=weights).save(tmp_path / "p")
    loaded = Policy.load(tmp_path / "p").weights
    assert set(loaded) == set(weights)
    for name, array in weights.items():
        assert loaded[name].dtype == array.dtype
        np.testing.assert_array_equal(loaded[name], array)


def test_the_weights_given_are_copied_not_held():
    weight = np.ones(3)
    thing = policy(weights={"w": weight})
    weight[0] = 7
    assert thing.weights["w"][0] == 1


@pytest.mark.parametrize("data", [b"", b"\xff" * 8, b"\x10" + bytes(7) + b"{", bytes(100)], ids=range(4))
def test_a_weights_file_whose_header_lies_is_refused(tmp_path, data):
    (tmp_path / "weights.safetensors").write_bytes(data)
    with pytest.raises(PolicyError, match="no readable safetensors file"):
        read_weights(tmp_path / "weights.safetensors")
