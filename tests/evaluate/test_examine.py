"""A whole panel on the practice pendulum: opened once, paired, blind, resumable, refused where it cannot be trusted."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.evaluate.practice import TRUTH, rig, take
from tests.evaluate.swing import spring
from twinproof.evaluate.again import again
from twinproof.evaluate.beliefs import Beliefs
from twinproof.evaluate.deploy import Place
from twinproof.evaluate.examine import Contender, Examination, examine
from twinproof.evaluate.freeze import Design, domains_of, freeze
from twinproof.evaluate.tally import LATENCY
from twinproof.guard.audit import audit
from twinproof.lab.robot import LabRobot
from twinproof.nouns.drive import Drive
from twinproof.nouns.errors import PanelError, SplitError
from twinproof.nouns.randomization import Randomization, Range
from twinproof.nouns.recording import Recording
from twinproof.nouns.source import Declared
from twinproof.nouns.split import Split
from twinproof.nouns.store import Store
from twinproof.nouns.strict import plain
from twinproof.nouns.trial import Trial
from twinproof.nouns.trials import Trials
from twinproof.nouns.twin import Twin
from twinproof.policies.scripted import Scripted
from twinproof.sim.actuator_law import Actuator
from twinproof.sim.parameters.resolve import parameter
from twinproof.sim.scene import Scene, engine
from twinproof.tasks import reach

REALITY = "lab bench 'pendulum', simulated"


@pytest.fixture
def exam(practice, tmp_path) -> Examination:
    twin, split = Twin.load(practice.twin), Split.load(practice.split)
    task = reach.of(twin, horizon_s=1.0)
    design = Design(domains_of(["real=1", "twin=2", "nominal=1"], REALITY), conditions=2)
    panel = freeze(task.panel_task(), split, design)
    soft, stiff = Contender("soft", spring(task, 0.4), "soft-1"), Contender("stiff", spring(task, 1.5), "stiff-1")
    place = Place(LabRobot("pendulum", 0), REALITY)
    return Examination(panel, split, task, Beliefs(twin), (soft, stiff), Store(tmp_path / "store"), place)


def unhurried(trial: Trial) -> Trial:
    """The trial without what a clock on the wall tells of it."""
    return replace(trial, metrics={name: value for name, value in trial.metrics.items() if name not in LATENCY})


def test_every_cell_is_run_once_and_the_folder_says_everything(exam, tmp_path):
    said: list[str] = []
    shown: list[str] = []
    found = examine(exam, lambda done, name, total=None: shown.append(name), said.append)
    exam.panel.check_trials(found.trials)
    assert said == ["the holdout is open: attempt 1"]
    assert not [name for name in shown if "soft" in name or "stiff" in name]  # blind until the end
    assert found.reality == REALITY
    assert len(found.summary["order"]) == 2 * 2
    rates = found.summary["success"]
    assert rates["soft"]["real"]["successes"] > rates["stiff"]["real"]["successes"]
    twin = [t for t in found.trials if t.domain == "twin" and t.repeat == 0]
    assert all({"replay_rmse", "apart_rmse", "time_s", "final_error"} <= set(t.metrics) for t in twin)
    found.save(tmp_path / "trials")
    read = Trials.load(tmp_path / "trials")
    assert read == found
    assert read.trace(read.trials[0]).domain == "real"
    assert audit(exam.split.folder, [tmp_path / "trials"]).ok
    json.dumps(json.loads((tmp_path / "trials" / "summary.json").read_bytes()))


def test_a_killed_run_goes_on_and_gives_the_same_trials(exam, tmp_path):
    exam = replace(exam, contenders=exam.contenders[1:])
    whole = examine(replace(exam, store=Store(tmp_path / "other"))).trials

    class Killed(Exception):
        pass

    def die(done: int, name: str, total: int | None = None) -> None:
        if done >= 7:
            raise Killed

    with pytest.raises(Killed):
        examine(exam, die)
    resets: list[int] = []
    robot = LabRobot("pendulum", 0)
    reset = robot.reset
    robot.reset = lambda start: (resets.append(start.seed), reset(start))[1]  # type: ignore[method-assign]
    again = examine(replace(exam, place=Place(robot, REALITY))).trials
    assert [unhurried(trial) for trial in again] == [unhurried(trial) for trial in whole]
    assert len(resets) == 1  # what was done before the kill is not done again
    kinds = [line.kind for line in exam.split.ledger.lines()]
    assert kinds == ["created", "panel", "opened", "resumed", "resumed"]


def test_another_panel_needs_a_declared_change_and_counts_as_a_second_attempt(exam):
    design = Design(domains_of(["twin=1"]), conditions=1)
    panel, other = (freeze(exam.task.panel_task(), exam.split, replace(design, seed=s)) for s in (1, 2))
    small = replace(exam, contenders=exam.contenders[:1], panel=panel, place=None)
    examine(small)
    with pytest.raises(SplitError, match="Say what changed"):
        examine(replace(small, panel=other))
    again = examine(replace(small, panel=other, change="another seed"))
    assert again.attempt == 2
    assert again.summary["notes"] == ("the holdout was opened 2 times",)


def known(drive: Drive | None) -> Randomization:
    """Ranges around what is so, with a drive or without."""
    ranges = [
        Range(parameter(id).info, 0.9 * value, 1.1 * value, value, Declared("a test"), "dynamics", "x", "y", "z")
        for id, value in TRUTH.items()
    ]
    return Randomization(tuple(ranges), {}, drive=drive)


def test_trials_and_replays_in_the_twin_are_moved_by_what_was_identified_and_nominal_ones_are_not(exam, tmp_path):
    weak = Drive({"shoulder": plain(Actuator(gain=0.6)), "elbow": plain(Actuator(gain=0.6))})
    design = Design(domains_of(["twin=1", "nominal=1"]), conditions=1)
    panel = freeze(exam.task.panel_task(), exam.split, design)
    alone, moved = (Beliefs(exam.beliefs.twin, None, known(drive)) for drive in (None, weak))
    exam = replace(exam, panel=panel, place=None, contenders=exam.contenders[:1], beliefs=alone)
    plain_trials, trials = examine(exam), examine(replace(exam, beliefs=moved))
    same, other = ({t.domain: t for t in found.trials} for found in (plain_trials, trials))
    assert unhurried(same["nominal"]) == unhurried(other["nominal"])
    assert other["twin"].metrics["replay_rmse"] > 1.5 * same["twin"].metrics["replay_rmse"]
    assert other["twin"].trace != same["twin"].trace
    assert trials.trace(other["twin"]).engine == f"{engine()}, drive {weak.hash[:16]}"
    assert trials.summary["notes"][0].endswith("moved as identified: actuator model of shoulder, elbow")
    with exam.split.parts()[2].open(by=panel.hash, change="") as opened:
        found, without = (
            again(panel, trials.trials, trials.traces, opened.recording, beliefs) for beliefs in (moved, alone)
        )
    row = [t.domain for t in trials.trials].index("twin")
    assert found.values[row]["replay_rmse"] == pytest.approx(other["twin"].metrics["replay_rmse"])
    assert "Give the folder of the posterior" in without.left[0]


def test_recordings_are_replayed_in_the_scene_that_is_stated_for_them_and_trials_are_not(exam):
    design = Design(domains_of(["twin=1"]), conditions=2)
    panel = freeze(exam.task.panel_task(), exam.split, design)
    exam = replace(exam, panel=panel, place=None, contenders=exam.contenders[:1])
    usual = examine(exam)
    twin, recording = Scene.of(exam.beliefs.twin), Recording(rig(), tuple(take(k) for k in range(6)), {"kind": "test"})
    heavy = Scene(twin.xml.replace("<worldbody>", '<option gravity="0 0 -20"/><worldbody>', 1))
    scenes = {"behaviour": {"sines": heavy}}
    found = examine(replace(exam, recorded_in=scenes))
    one, other = ([trial.metrics["replay_rmse"] for trial in each.trials] for each in (usual, found))
    assert all(a != b for a, b in zip(one, other, strict=True))
    elsewhere = examine(replace(exam, recorded_in={"behaviour": {"still": heavy}}))  # of no episode here
    assert [trial.metrics["replay_rmse"] for trial in elsewhere.trials] == one
    assert [t.success for t in found.trials] == [t.success for t in usual.trials]
    assert [t.metrics["final_error"] for t in found.trials] == [t.metrics["final_error"] for t in usual.trials]
    assert found.summary["replay"]["recorded_in"] == {"behaviour": {"sines": heavy.hash}}
    assert "recordings are replayed in the scene that is stated for their behaviour" in found.summary["notes"][0]
    anew = again(panel, found.trials, dict(found.traces), recording, exam.beliefs, scenes)
    assert [anew.values[k]["replay_rmse"] for k in range(2)] == other


def test_a_rebuilt_twin_is_ledgered_and_decides_nothing(exam, practice):
    design = Design(domains_of(["twin=1", "rebuilt=1"]), conditions=1)
    panel = freeze(exam.task.panel_task(), exam.split, design)
    rebuilt = Beliefs(exam.beliefs.twin, rebuilt=Twin.load(practice.twin))
    other = replace(exam.contenders[0], twin="9" * 64)
    found = examine(replace(exam, panel=panel, beliefs=rebuilt, place=None, contenders=(other,)))
    assert found.summary["notes"][1] == "the policy 'soft' was made with another twin (9999999999999999)"
    assert exam.split.ledger.lines()[-1].kind == "rebuilt"
    assert "decides nothing" in found.summary["notes"][0]
    assert found.reality == ""
    assert found.summary["claims"][1]["verdict"] == "not tested"
    assert all("replay_rmse" not in t.metrics for t in found.trials if t.domain == "rebuilt")


def test_a_policy_that_is_not_steady_stops_everything_before_the_holdout_opens(exam):
    rng = np.random.default_rng()
    lucky = Scripted(exam.task.deployable, lambda seen: rng.normal(size=(len(seen["goal"]), 2)))
    with pytest.raises(PanelError, match="no function of its seed"):
        examine(replace(exam, contenders=(Contender("lucky", lucky, "x"),)))
    assert [line.kind for line in exam.split.ledger.lines()] == ["created", "panel"]


def test_a_real_domain_without_a_robot_is_refused(exam):
    with pytest.raises(PanelError, match="there is no robot and no logged trial"):
        replace(exam, place=None)


def test_another_task_another_contract_and_policies_of_one_name_are_refused(exam):
    with pytest.raises(PanelError, match="asks for the task 'reach'"):
        replace(exam, task=replace(exam.task, name="throw"))
    soft = exam.contenders[0]
    with pytest.raises(PanelError, match="each with its own name"):
        replace(exam, contenders=(soft, soft))
    wrong = replace(exam.task.deployable, actions=exam.task.deployable.actions[::-1])
    with pytest.raises(PanelError, match="does not fit the task: actions are in the order"):
        replace(exam, contenders=(replace(soft, actor=Scripted(wrong, lambda seen: np.zeros((1, 2)))),))
