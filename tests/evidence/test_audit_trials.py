"""Single trials are held against their traces: outcome, world and metrics, each computed anew from what was kept."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.evaluate.practice import pendulum, rig, take
from tests.evaluate.swing import spring
from twinproof.cli_guard import Audit, _measured
from twinproof.evaluate.beliefs import Beliefs
from twinproof.evaluate.deploy import Place
from twinproof.evaluate.examine import Contender, Examination, examine
from twinproof.evaluate.freeze import Design, domains_of, freeze
from twinproof.evidence.audit_trials import Rows, trial_findings
from twinproof.lab.robot import LabRobot
from twinproof.nouns.recording import Recording
from twinproof.nouns.split import Split
from twinproof.nouns.store import Store
from twinproof.nouns.twin import Twin
from twinproof.tasks import reach

REALITY = "lab bench 'pendulum', simulated"
RECORDED = Recording(rig(), tuple(take(number) for number in range(6)), {"kind": "test", "name": "pendulum"})


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Twin:
    return Twin.load(pendulum(tmp_path_factory.mktemp("practice") / "here").twin)


@pytest.fixture(scope="module")
def rows(twin: Twin, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """A panel that was really sat: two conditions, one policy, in the lab, in the twin and in the nominal twin."""
    split = Split.load(Path(twin.root).parent / "split")
    task = reach.of(twin, horizon_s=0.6)
    panel = freeze(
        task.panel_task(), split, Design(domains_of(["real=1", "twin=1", "nominal=1"], REALITY), conditions=2)
    )
    who = (Contender("soft", spring(task, 0.4), "soft-1"),)
    place = Place(LabRobot("pendulum", 0), REALITY)
    store = Store(tmp_path_factory.mktemp("store"))
    found = examine(Examination(panel, split, task, Beliefs(twin), who, store, place))
    return Rows(panel, found.trials, dict(found.traces))


def texts(rows: Rows, verdict: str, nouns: dict[str, Any] | None = None, measure: Any = _measured) -> str:
    found = trial_findings(rows, nouns or {}, measure)
    return "\n".join(finding.text for finding in found if finding.verdict == verdict)


def changed(rows: Rows, row: int, **fields: Any) -> Rows:
    return replace(rows, trials=[replace(t, **fields) if k == row else t for k, t in enumerate(rows.trials)])


def test_every_number_of_a_trial_is_computed_anew_where_recording_and_twin_are_given(rows, twin):
    nouns = {"recording": RECORDED, "twin": twin}
    assert texts(rows, "broken", nouns) == ""
    holds = texts(rows, "confirmed", nouns)
    assert "6 trials ended as their traces say" in holds
    assert "12 numbers of single trials (time_s, final_error), computed anew" in holds
    assert "(apart_rmse, replay_rmse, replay_tip_m), computed anew" in holds
    assert "replay_rmse" not in texts(rows, "open", nouns)


def test_without_those_folders_the_audit_says_what_it_took_as_stated(rows):
    assert "apart_rmse, replay_rmse, replay_tip_m of single trials: give the folders" in texts(rows, "open")
    (alone,) = texts(rows, "open", measure=None).splitlines()
    assert all(name in alone for name in ("apart_rmse", "replay_rmse", "replay_tip_m"))
    assert alone.endswith("of single trials: taken as stated; nothing here measures them.")


@pytest.mark.parametrize("name", ["final_error", "time_s", "apart_rmse", "replay_rmse"])
def test_a_metric_of_one_trial_that_was_changed_or_left_out_is_found(rows, twin, name):
    row = next(k for k, trial in enumerate(rows.trials) if trial.domain == "twin")
    metrics = dict(rows.trials[row].metrics)
    nouns = {"recording": RECORDED, "twin": twin}
    better = changed(rows, row, metrics={**metrics, name: 0.5 * metrics[name]})
    said = texts(better, "broken", nouns)
    assert f"{rows.trials[row].where}: {name} is stated as" in said
    assert f"computed anew it is {metrics[name]:.6g}" in said
    gone = changed(rows, row, metrics={other: value for other, value in metrics.items() if other != name})
    assert f"{name} is stated as nothing" in texts(gone, "broken", nouns)


def test_an_outcome_that_was_turned_is_found(rows):
    row, trial = next((k, t) for k, t in enumerate(rows.trials) if not t.success)
    said = texts(changed(rows, row, success=True, failure=None), "broken")
    assert said == f"{trial.where}: stated as a success, its trace says failure."


def test_a_trace_of_another_world_is_found(rows):
    row = next(k for k, trial in enumerate(rows.trials) if trial.domain == "real")
    other = next(trial for trial in rows.trials if trial.domain == "twin")
    said = texts(changed(rows, row, trace=other.trace), "broken")
    assert f"{rows.trials[row].where}: its trace is from the domain 'twin'" in said


def test_of_many_breaks_the_first_are_told_and_the_rest_are_counted(rows):
    wrong = [replace(t, metrics={**t.metrics, "time_s": 9.0}) for t in rows.trials]
    said = texts(replace(rows, trials=wrong), "broken").splitlines()
    assert len(said) == 4
    assert said[-1] == "and 3 more like these."


def test_replays_in_scenes_of_their_own_are_left_open_where_these_are_not_named(rows, twin, tmp_path):
    told = {"inputs": {"summary": {"recorded_in": {"session": {"day_0": "5" * 64}}}}}
    (tmp_path / "report.json").write_text(json.dumps(told))
    measure = partial(_measured, config=Audit(tmp_path))
    nouns = {"recording": RECORDED, "twin": twin}
    assert "replayed in scenes of their own. Name these with --scenes" in texts(rows, "open", nouns, measure)
    assert texts(rows, "broken", nouns, measure) == ""
    assert "(apart_rmse), computed anew" in texts(rows, "confirmed", nouns, measure)
    (tmp_path / "report.json").write_text(json.dumps({"inputs": {"summary": {}}}))
    assert "replay_rmse, replay_tip_m), computed anew" in texts(rows, "confirmed", nouns, measure)


def test_replays_of_another_engine_are_left_open(rows, twin):
    traces = {hash: replace(t, engine="mujoco 2.0") if t.engine else t for hash, t in rows.traces.items()}
    said = texts(replace(rows, traces=traces), "open", {"recording": RECORDED, "twin": twin})
    assert "they were simulated with mujoco 2.0, and here is mujoco" in said
    assert "replay_rmse" in said.splitlines()[-1]


def test_trials_without_traces_or_words_are_taken_as_stated(rows):
    none = [replace(trial, trace=None) for trial in rows.trials]
    assert "none has a trace that could be read" in texts(replace(rows, trials=none), "open")
    silent = {hash: replace(trace, notes=()) for hash, trace in rows.traces.items()}
    assert "how 6 trials ended: their traces do not say it" in texts(replace(rows, traces=silent), "open")


def test_a_recording_that_does_not_fit_is_told(rows, twin):
    other = replace(RECORDED, rig=replace(RECORDED.rig, joints=(), arms=()))
    assert "metrics that need more than a trace: the rig lists no" in texts(
        rows, "open", {"recording": other, "twin": twin}
    )
