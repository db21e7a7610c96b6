"""Real trials with an object that were run elsewhere, from the panel's trial sheet, through the command."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest

from tests.evaluate.shoving import rig
from tests.evaluate.test_commands import twinproof
from tests.tasks.scenes import home, lab_scene
from twinproof.evaluate.closed_loop import Job, run_jobs
from twinproof.evaluate.deploy import begins
from twinproof.evaluate.logged import logged_trials
from twinproof.nouns.episode import Episode
from twinproof.nouns.failure import Failure
from twinproof.nouns.panel import Panel
from twinproof.nouns.recording import Recording
from twinproof.nouns.signal import Signal
from twinproof.nouns.theta import Theta
from twinproof.nouns.trials import Trials
from twinproof.tasks import push
from twinproof.tasks.experts import expert_of

HEAVY = Theta({"body.object.mass": 40.0})  # what the twin does not know: the arm cannot push it


@pytest.fixture
def panel(pushing, tmp_path):
    """A frozen panel of one real trial and its twin."""
    asked = ("--twin", pushing.twin, "--task", "push", "--domains", "real=1", "twin=1", "--conditions", 1)
    assert twinproof("panel", pushing.split, *asked, "--out", tmp_path / "panel") == 0
    return Panel.load(tmp_path / "panel")


def ran(panel: Panel, theta: Theta = HEAVY) -> Recording:
    task = push.of(lab_scene("push"), home=home("push"), relative=True)
    cells = [cell for cell in panel.cells(["expert"]) if cell.domain.kind == "real"]
    runs = run_jobs(task.machine.scene, task, expert_of(task), [Job(c, theta, begins(task, c)) for c in cells])
    episodes = []
    for cell, run in zip(cells, runs, strict=True):
        labels = {"policy": "expert", "condition": cell.condition.name, "repeat": str(cell.repeat)}
        signals = {name: s for name, s in run.trace.signals.items() if name in rig().signals}
        outcome = "success" if run.success else "failure"
        episodes.append(Episode.of(signals, {}, labels=labels, outcome=outcome, source=cell.condition.name))
    return Recording(rig(), tuple(episodes), {"kind": "test", "name": "elsewhere"})


def without_pose(recording: Recording) -> Recording:
    kept = [{n: s for n, s in e.signals.items() if n != "object_pose"} for e in recording.episodes]
    pairs = zip(recording.episodes, kept, strict=True)
    return replace(recording, episodes=tuple(
        Episode.of(signals, {}, labels=dict(e.labels), outcome=e.outcome, source=e.source) for e, signals in pairs
    ))  # fmt: skip


def test_the_sheet_says_how_each_trial_begins_and_may_be_written_on(panel, tmp_path):
    path = tmp_path / "panel" / "trial_sheet.csv"
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [(row["condition"], row["repeat"]) for row in rows] == [("h01", "0")]
    task = push.of(lab_scene("push"), home=home("push"), relative=True)
    cells = [cell for cell in panel.cells(["any"]) if cell.domain.kind == "real"]
    for row, cell in zip(rows, cells, strict=True):
        setup = begins(task, cell)
        assert (float(row["goal_0 (m)"]), float(row["goal_1 (m)"])) == setup.goal
        assert (float(row["object_x (m)"]), float(row["object_y (m)"])) == setup.at_m
        assert float(row["object_yaw (rad)"]) == setup.yaw_rad
        assert float(row["shoulder (rad)"]) == home("push")["shoulder"]
    path.write_text(path.read_text() + "notes of the operator\n")
    assert Panel.load(tmp_path / "panel") == panel


def test_logged_trials_with_poses_are_taken_apart_and_labelled(panel, pushing, tmp_path):
    ran(panel).save(tmp_path / "real")
    run = (
        "evaluate",
        tmp_path / "panel",
        "--split",
        pushing.split,
        "--twin",
        pushing.twin,
        "--policy",
        "expert=expert",
    )
    assert twinproof(*run, "--logged", tmp_path / "real", "--out", tmp_path / "trials") == 0
    found = Trials.load(tmp_path / "trials")
    real = [trial for trial in found.trials if trial.domain == "real"]
    assert [trial.success for trial in real] == [False]
    assert "object_pose" in found.trace(real[0]).signals
    seen = found.summary["decomposition"][1]
    assert seen["trials"] == 1
    assert "without_pose" not in seen
    assert all("a replay is" in trial.note or "make the same motion" in trial.note for trial in real)


def test_without_poses_what_needs_them_is_left_out_and_said(panel, pushing, tmp_path):
    without_pose(ran(panel)).save(tmp_path / "real")
    run = (
        "evaluate",
        tmp_path / "panel",
        "--split",
        pushing.split,
        "--twin",
        pushing.twin,
        "--policy",
        "expert=expert",
    )
    assert twinproof(*run, "--logged", tmp_path / "real", "--out", tmp_path / "trials") == 0
    found = Trials.load(tmp_path / "trials")
    real = [trial for trial in found.trials if trial.domain == "real"]
    assert [trial.failure for trial in real] == [Failure.UNDECIDED]
    assert all("a record of where object was at every tick might tell" in trial.note for trial in real)
    seen = found.summary["decomposition"][1]
    assert (seen["value"], seen["without_pose"]) == (None, 1)
    assert found.summary["decomposition"][0]["value"] is not None


def test_a_pose_that_was_lost_for_long_is_missing_and_a_short_gap_is_bridged(panel):
    made, task = ran(panel), push.of(lab_scene("push"), home=home("push"), relative=True)
    cell = next(cell for cell in panel.cells(["expert"]) if cell.domain.kind == "real")
    pose = made.episodes[0].signals["object_pose"]

    def seen(lost: slice) -> Signal:
        missing = np.zeros(pose.value.shape, dtype=bool)
        missing[lost] = True
        signal = replace(pose, missing=missing)
        episode = Episode.of({**made.episodes[0].signals, "object_pose": signal}, {},
                             labels=dict(made.episodes[0].labels), outcome="failure")  # fmt: skip
        return logged_trials(replace(made, episodes=(episode,)), task, panel)(cell).trace.signals["object_pose"]

    assert seen(slice(10, 15)).missing is None
    np.testing.assert_array_equal(seen(slice(10, 15)).value[12], pose.value[9])
    assert seen(slice(10, 60)).missing[40].all()
