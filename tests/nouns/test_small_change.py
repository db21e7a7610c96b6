"""Theta, sources, failures, traces, trials: the small change between the nouns."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.nouns.examples import MASS, panel, trace, trials
from twinproof.nouns.errors import ConfigError, ParameterError, TraceError
from twinproof.nouns.failure import LABELS, Failure
from twinproof.nouns.frozen import Frozen, frozen_json
from twinproof.nouns.source import Declared, Inferred, Measured, Source, source_from
from twinproof.nouns.strict import build, plain
from twinproof.nouns.theta import ParameterInfo, Theta
from twinproof.nouns.trace import Event
from twinproof.nouns.trial import Trial, read_trials, trials_hash, write_trials

VALUES = st.dictionaries(st.sampled_from(["a.x", "a.y", "b.x", "b.y"]), st.floats(-1e9, 1e9))


@given(VALUES)
@settings(max_examples=30, deadline=None)
def test_a_theta_is_its_values_whatever_their_order(values):
    theta = Theta(values)
    turned = Theta(dict(reversed(values.items())))
    assert theta == turned
    assert hash(theta) == hash(turned)
    assert theta.hash == turned.hash
    assert dict(theta) == values
    assert Theta(plain(theta)) == theta


def test_a_theta_cannot_change_and_joins_into_a_new_one():
    values = {"a": 1}
    theta = Theta(values)
    values["a"] = 2
    assert theta["a"] == 1.0
    with pytest.raises(TypeError):
        theta["a"] = 3  # type: ignore[index]
    assert theta | {"b": 2} == Theta({"a": 1, "b": 2})
    assert theta == Theta({"a": np.float32(1)})
    assert theta != {"a": 1.0}
    assert repr(theta) == "Theta({'a': 1.0})"


@pytest.mark.parametrize("value", [math.nan, math.inf, "1", True, None])
def test_a_theta_holds_finite_numbers_only(value):
    with pytest.raises(ParameterError, match="a parameter's value is a finite number"):
        Theta({"a": value})


@pytest.mark.parametrize("id", ["", " a", "a\n", "x" * 201])
def test_what_is_no_id_is_refused(id):
    with pytest.raises(ParameterError, match="is no parameter id"):
        Theta({id: 1.0})


def test_limits_are_in_order_and_a_logarithm_needs_them_above_zero():
    with pytest.raises(ParameterError, match="give two numbers, low first"):
        ParameterInfo("a", "m", 1.0, 1.0)
    with pytest.raises(ParameterError, match="give two numbers, low first"):
        ParameterInfo("a", "m", 0.0, math.inf)
    with pytest.raises(ParameterError, match="a logarithmic scale needs limits above zero"):
        ParameterInfo("a", "m", 0.0, 1.0, log=True)
    assert MASS.from_scale(MASS.to_scale(0.2)) == pytest.approx(0.2)
    assert MASS.contains(np.array([0.2, 11, np.nan])).tolist() == [True, False, False]


@pytest.mark.parametrize(
    "source", [Measured("scale, 1 g"), Inferred("3" * 64, 0.95), Inferred("3" * 64), Declared("by eye")]
)
def test_a_source_comes_back_from_its_json_as_its_kind(source):
    assert source_from(plain(source), "here") == source
    assert plain(source)["kind"] == source.kind
    assert source.kind in ("measured", "inferred", "declared")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            {"kind": "guessed", "reason": "x"},
            "a table with kind measured or inferred or declared is needed, found 'guessed'",
        ),
        ({"reason": "x"}, "found None"),
        ("measured", "a table is needed, found 'measured'"),
        ({"kind": ["measured"]}, "a table with kind"),
        ({"kind": "declared"}, "'reason' is missing"),
        ({"kind": "declared", "reason": "x", "share": 1}, "unknown key 'share'"),
        ({"kind": "declared", "reason": " "}, "a declared source lacks the reason"),
        ({"kind": "measured", "what": ""}, "a measured source lacks what was measured with"),
        ({"kind": "inferred", "hash": ""}, "lacks the hash of what it was inferred from"),
        ({"kind": "inferred", "hash": "3", "share": 1.5}, "the share 1.5; a share lies between 0 and 1"),
    ],
)
def test_a_source_that_says_too_little_is_refused(data, words):
    with pytest.raises(ParameterError, match=words):
        source_from(data, "here")


@dataclass(frozen=True)
class _Table:
    anything: dict[str, object] | None = None
    source: Source | None = None


def test_strict_tables_take_a_source_or_none():
    assert build(_Table, {"source": None}, "t", ConfigError).source is None
    assert build(_Table, {"source": {"kind": "declared", "reason": "x"}}, "t", ConfigError).source == Declared("x")
    with pytest.raises(ConfigError, match=r"t.source: a table with kind"):
        build(_Table, {"source": 3}, "t", ConfigError)


def test_every_failure_has_a_label_that_leads_back_to_it():
    assert LABELS == (
        "reconstruction", "contact", "residual_range", "physics", "perception", "policy", "embodiment", "undecided",
    )  # fmt: skip
    for label in LABELS:
        assert Failure.of(label).label == label
    assert Failure.UNDECIDED == "the trace does not tell"
    with pytest.raises(TraceError, match="'bad luck' is no failure label. Use one of reconstruction"):
        Failure.of("bad luck")


def test_events_of_a_trace_are_in_order_of_time():
    assert [event.name for event in trace().events] == ["grasp", "lift"]
    assert trace().span_s == (0.0, 1.0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"domain": ""}, "lacks its domain"),
        ({"signals": {}}, "it does not say what happened"),
        ({"signals": {"other": trace().signals["state"]}}, "the signal 'state' under 'other'"),
        ({"events": (Event("grasp", math.nan),)}, "the event 'grasp' is at nan s"),
        ({"events": (Event("", 1.0),)}, "the event '' is at 1.0 s"),
    ],
)
def test_a_trace_that_breaks_a_law_is_refused(change, words):
    with pytest.raises(TraceError, match=words):
        trace(**change)


def trial(**changes) -> Trial:
    return Trial(**{"policy": "ppo", "condition": "red", "domain": "lab", "seed": 1, "success": True, **changes})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"policy": ""}, "names its policy, its condition and its domain"),
        ({"seed": -1}, "seed -1 or repeat 0 is out of range"),
        ({"seed": 2**63}, "is out of range"),
        ({"repeat": -1}, "repeat -1 is out of range"),
        ({"failure": Failure.POLICY}, "a success carries the failure label 'policy'"),
        ({"success": False}, "a failure without a label. Where the trace does not tell, say 'undecided'"),
        ({"metrics": {"rmse": math.nan}}, "the metric 'rmse' is nan"),
    ],
)
def test_a_trial_that_breaks_a_law_is_refused(change, words):
    with pytest.raises(TraceError, match=words):
        trial(**change)


METRICS = st.dictionaries(
    st.sampled_from(["rmse", "reward", "a/b", "ü"]), st.floats(allow_nan=False, allow_infinity=False)
)
TRIALS = st.builds(
    lambda metrics, seed, repeat, failure, note, trace: trial(
        metrics=metrics, seed=seed, repeat=repeat, failure=failure, success=failure is None, note=note, trace=trace
    ),
    METRICS,
    st.integers(0, 2**63 - 1),
    st.integers(0, 9),
    st.none() | st.sampled_from(list(Failure)),
    st.text(st.characters(codec="utf-8"), max_size=9),
    st.none() | st.just("7" * 64),
)


@given(st.lists(TRIALS, max_size=6))
@settings(max_examples=30, deadline=None)
def test_a_table_of_trials_comes_back_exactly_and_in_order(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("trials") / "trials.parquet"
    write_trials(path, rows)
    assert list(read_trials(path)) == rows
    assert trials_hash(read_trials(path)) == trials_hash(rows)


def test_the_hash_of_trials_sees_order_and_every_field():
    rows = trials(panel())
    assert trials_hash(rows) != trials_hash(rows[::-1])
    assert trials_hash([trial()]) != trials_hash([trial(note="slipped")])
    assert trials_hash([trial(metrics={"rmse": 1})]) == trials_hash([trial(metrics={"rmse": 1.0})])


def test_frozen_data_is_a_copy_all_the_way_down():
    data = {"a": [1, {"b": np.float64(2)}], "c": np.arange(3)}
    frozen = frozen_json(data, "data", ConfigError)
    data["a"][1]["b"] = 9
    data["a"].append(3)
    assert plain(frozen) == {"a": [1, {"b": 2.0}], "c": [0, 1, 2]}
    assert hash(frozen) == hash(frozen_json({"c": (0, 1, 2), "a": (1, {"b": 2.0})}, "data", ConfigError))
    assert repr(Frozen({"a": 1})) == "{'a': 1}"
    with pytest.raises(ConfigError, match=r"data\[0\].x is a object"):
        frozen_json([{"x": object()}], "data", ConfigError)
