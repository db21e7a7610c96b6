"""Trials that come from elsewhere and trials that travel on: logged real ones, and a LeRobot dataset of failures."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.evaluate.swing import spring
from twinproof.evaluate.closed_loop import Job, run_jobs
from twinproof.evaluate.deploy import begins
from twinproof.evaluate.logged import logged_trials
from twinproof.evaluate.outgoing import trials_recording
from twinproof.ingest.lerobot_write import write_lerobot
from twinproof.ingest.read import ingest, own_rig
from twinproof.lab.benches import bench
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import PanelError, TraceError
from twinproof.nouns.failure import Failure
from twinproof.nouns.panel import Condition, Domain, Metric, Panel
from twinproof.nouns.recording import Recording
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.theta import Theta
from twinproof.nouns.trials import Trials
from twinproof.sim.scene import Scene
from twinproof.tasks import reach

SCENE = Scene(bench("pendulum").robot_text())
TASK = reach.of(SCENE, horizon_s=1.0)
PANEL = Panel(
    TASK.panel_task(),
    (Condition("h01", "e1", 1), Condition("h02", "e2", 2)),
    (Domain("real", "real", 2),),
    (Metric("time_s", "s", "lower"), Metric("final_error", "1", "lower")),
    {},
)
CELLS = list(PANEL.cells(["spring"]))


@pytest.fixture(scope="module")
def trials() -> Trials:
    late = Theta({"actuator.shoulder.delay": 0.04, "actuator.elbow.delay": 0.04})
    jobs = [Job(cell, late if cell.repeat else Theta(), begins(TASK, cell)) for cell in CELLS]
    runs = run_jobs(SCENE, TASK, spring(TASK, 1.5), jobs)
    rows = tuple(run.trial(cell, {}) for run, cell in zip(runs, CELLS, strict=True))
    return Trials(rows, {"panel": PANEL.hash}, {run.trace.hash: run.trace for run in runs})


def test_trials_go_out_as_a_dataset_and_come_back_with_labels_and_outcomes(trials, tmp_path):
    made = trials_recording(trials, TASK, "real")
    assert [e.outcome for e in made.episodes] == ["success", "failure"] * 2
    assert made.episodes[1].labels["failure"] == "undecided"
    write_lerobot(made, tmp_path / "dataset", fps=100)
    back = ingest(tmp_path / "dataset", own_rig(tmp_path / "dataset"), tmp_path / "back")
    assert [e.labels["policy"] for e in back.episodes] == ["spring"] * 4
    first = made.episodes[0].signals["state"].value
    np.testing.assert_allclose(back.episodes[0].signals["state"].value, first, atol=1e-6)


def test_what_went_out_can_be_logged_trials_of_a_panel(trials):
    run_of = logged_trials(trials_recording(trials, TASK, "real"), TASK, PANEL)
    found = [run_of(cell) for cell in CELLS]
    assert [run.success for run in found] == [trial.success for trial in trials.trials]
    assert found[1].failure is Failure.UNDECIDED
    assert found[0].final_error is None  # nobody measured it
    assert found[0].time_s == pytest.approx(trials.trials[0].metrics["time_s"])
    kept = trials.trace(trials.trials[0]).signals["state"].value
    np.testing.assert_array_equal(found[0].trace.signals["state"].value, kept)


def test_a_domain_without_traces_and_trials_without_a_command_are_refused(trials):
    with pytest.raises(TraceError, match="no trial of the domain 'moon'"):
        trials_recording(trials, TASK, "moon")
    trace = trials.trace(trials.trials[0])
    bare = replace(trace, signals={"state": trace.signals["state"]})
    one = replace(trials.trials[0], trace=bare.hash)
    with pytest.raises(TraceError, match="ended before a command"):
        trials_recording(Trials((one,), {}, {bare.hash: bare}), TASK, "real")


def relabelled(trials: Trials, **labels: str) -> Recording:
    made = trials_recording(trials, TASK, "real")
    first = replace(made.episodes[0], labels={**made.episodes[0].labels, **labels})
    return Recording(made.rig, (first, *made.episodes[1:]), {})


def test_logged_trials_that_cannot_be_placed_are_refused(trials):
    for labels in ({"condition": "h99"}, {"repeat": "x"}, {"policy": ""}):
        with pytest.raises(PanelError, match="Label each with a policy"):
            logged_trials(relabelled(trials, **labels), TASK, PANEL)
    with pytest.raises(PanelError, match="stands twice"):
        logged_trials(relabelled(trials, repeat="1"), TASK, PANEL)
    with pytest.raises(PanelError, match="no logged trial is labelled policy 'spring', condition 'h01', repeat 0"):
        logged_trials(relabelled(trials, policy="other"), TASK, PANEL)(CELLS[0])


def test_a_logged_trial_without_outcome_or_joints_is_refused(trials):
    made = trials_recording(trials, TASK, "real")
    unknown = replace(made.episodes[0], outcome="unknown")
    with pytest.raises(PanelError, match="does not say whether it succeeded"):
        logged_trials(Recording(made.rig, (unknown,), {}), TASK, PANEL)
    labels, time_s = dict(made.episodes[0].labels), np.arange(3.0)
    other = Signal("state", "joint_position", (Column("wrist", "rad"),), time_s, np.zeros((3, 1)))
    torque = Signal("torque", "joint_torque", (Column("wrist", "N m"),), time_s, np.zeros((3, 1)))
    for signals, told in (
        ({"state": other}, "no position of shoulder, elbow"),
        ({"torque": torque}, "no joint positions"),
    ):
        episode = Episode.of(signals, {}, labels=labels, outcome="success")
        run_of = logged_trials(Recording(made.rig, (episode,), {}), TASK, PANEL)
        with pytest.raises(PanelError, match=re.escape(told)):
            run_of(CELLS[0])
