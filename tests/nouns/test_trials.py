"""Trials in one folder: what belongs together, and what is refused."""

from __future__ import annotations

import json

import pytest

from tests.nouns import examples
from twinproof.nouns.errors import TraceError
from twinproof.nouns.trials import Trials


def test_traces_are_read_when_they_are_asked_for_and_the_summary_stands_beside(tmp_path):
    made = examples.all_trials()
    made.save(tmp_path / "trials")
    read = Trials.load(tmp_path / "trials")
    assert read.trace(read.trials[0]) == examples.trace()
    assert read.trace(read.trials[1]) is None
    assert json.loads((tmp_path / "trials" / "summary.json").read_bytes())["notes"] == ["two"]


def test_a_panel_without_trials_is_refused():
    with pytest.raises(TraceError, match="there are no trials"):
        examples.all_trials(trials=(), traces={})


def test_an_order_that_leaves_a_trial_out_is_refused():
    with pytest.raises(TraceError, match="names some twice or not at all"):
        examples.all_trials(order=(0, 0, *range(2, len(examples.all_trials().trials))))


def test_a_trace_that_is_missing_and_one_too_many_are_refused():
    with pytest.raises(TraceError, match="1 traces that are not there"):
        examples.all_trials(traces={})
    other = examples.trace(3)
    with pytest.raises(TraceError, match="1 traces belong to no trial"):
        examples.all_trials(traces={**examples.all_trials().traces, other.hash: other})
