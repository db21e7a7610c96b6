"""A task of the user's own, a file or a motion: frozen, run and carried into evidence as ours are."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.evaluate.test_commands import twinproof
from tests.nouns import examples
from tests.policies.nets import policy
from tests.tasks.scenes import home, lab_scene
from twinproof.cli_robot import place_of
from twinproof.lab.hands import human_track
from twinproof.nouns.errors import EvidenceError, PanelError
from twinproof.nouns.panel import Panel
from twinproof.nouns.split import Split
from twinproof.nouns.strict import build, plain
from twinproof.nouns.trials import Trials
from twinproof.nouns.twin import Twin
from twinproof.tasks.machine import Machine
from twinproof.tasks.named import task_named
from twinproof.tasks.things import thing_of
from twinproof.train.retarget import Retarget, recording_of, retarget

OWN = Path(__file__).parents[2] / "examples" / "own_task" / "hover.py"
DOMAINS = ("--domains", "twin=2", "nominal=1", "--conditions", 1)


@pytest.fixture
def hoverer(pushing, tmp_path) -> Path:
    """A network of the task's contract that was never trained."""
    task = task_named(str(OWN), Twin.load(pushing.twin), home=home("push"), relative=True)
    width = sum(int(np.prod(c.shape)) for c in task.deployable.observations)
    policy([width, 8, len(task.machine.joints)], contract=task.deployable).save(tmp_path / "policy")
    return tmp_path / "policy"


def test_a_file_of_ones_own_is_frozen_and_run(pushing, hoverer, tmp_path, capsys):
    mine = tmp_path / "hover.py"
    shutil.copyfile(OWN, mine)
    where, panel = ("--split", pushing.split, "--twin", pushing.twin), tmp_path / "panel"
    asked = ("panel", pushing.split, "--twin", pushing.twin, "--task", mine, *DOMAINS)
    assert twinproof(*asked, "--out", panel) == 0
    frozen = Panel.load(panel)
    assert frozen.task.name == "hover"
    assert list(frozen.task_files) == ["hover.py"]
    mine.write_text("raise SystemExit('the panel has a copy')\n")
    run = ("evaluate", panel, *where, "--policy", f"mine={hoverer}")
    assert twinproof(*run, "--out", tmp_path / "trials") == 0
    found = Trials.load(tmp_path / "trials")
    assert [trial.success for trial in found.trials] == [False] * 3
    assert found.parents["panel"] == frozen.hash
    assert not list(panel.rglob("*.pyc"))
    assert twinproof("evaluate", panel, *where, "--policy", "a=expert", "--out", tmp_path / "other") == 1
    assert "a task of your own has no script" in capsys.readouterr().err
    (panel / "task" / "hover.py").write_text(OWN.read_text().replace("NEAR_M, STAY_S = 0.12, 0.02", "0.12, 0.5"))
    assert twinproof(*run, "--out", tmp_path / "again") == 1
    assert "hover.py was changed since it was written" in capsys.readouterr().err


def test_modules_beside_a_task_are_frozen_with_it(pushing, hoverer, tmp_path):
    mine, stated = tmp_path / "mine" / "hover.py", "ABOVE_M, NEAR_M, STAY_S = 0.12, 0.02, 0.5\n"
    (mine.parent / "a_few").mkdir(parents=True)
    mine.write_text(OWN.read_text().replace(stated, "from a_few.numbers import ABOVE_M, NEAR_M, STAY_S\n"))
    (mine.parent / "a_few" / "numbers.py").write_text(stated)
    where, panel = ("--split", pushing.split, "--twin", pushing.twin), tmp_path / "panel"
    assert twinproof("panel", pushing.split, "--twin", pushing.twin, "--task", mine, *DOMAINS, "--out", panel) == 0
    assert list(Panel.load(panel).task_files) == ["hover.py", "a_few/numbers.py"]
    shutil.rmtree(mine.parent)
    run = ("evaluate", panel, *where, "--policy", f"mine={hoverer}")
    assert twinproof(*run, "--out", tmp_path / "trials") == 0
    assert not list(panel.rglob("*.pyc"))


def test_a_motion_is_frozen_and_its_follower_succeeds_in_the_twin(pushing, tmp_path):
    machine = Machine.of(lab_scene("push"), home=home("push"))
    shown = human_track("push", thing_of(machine.scene).half_m, 0)
    recording_of(retarget(shown.track, machine, Retarget(yaws=8)), machine, "push").save(tmp_path / "motion")
    where = ("--split", pushing.split, "--twin", pushing.twin)
    asked = ("panel", pushing.split, "--twin", pushing.twin, "--task", tmp_path / "motion", *DOMAINS)
    assert twinproof(*asked, "--out", tmp_path / "panel") == 0
    shutil.rmtree(tmp_path / "motion")
    run = ("evaluate", tmp_path / "panel", *where, "--policy", "follower=expert")
    assert twinproof(*run, "--out", tmp_path / "trials") == 0
    assert all(trial.success for trial in Trials.load(tmp_path / "trials").trials)


def test_evidence_names_the_file_of_the_task_and_a_panel_without_one_is_what_it_was():
    panel = examples.panel(task_files={"hover.py": "7" * 64})
    assert panel.hash != examples.panel().hash
    assert "task_files" not in examples.panel().head()
    back = build(Panel, plain(panel), "evidence.json: panel", EvidenceError)
    assert back == panel


def test_a_panel_that_lost_its_file_is_refused(pushing, tmp_path):
    asked = ("panel", pushing.split, "--twin", pushing.twin, "--task", OWN, *DOMAINS)
    assert twinproof(*asked, "--out", tmp_path / "panel") == 0
    (tmp_path / "panel" / "task" / "hover.py").unlink()
    with pytest.raises(PanelError, match=r"hover.py is missing"):
        Panel.load(tmp_path / "panel")


def test_a_task_of_ones_own_that_is_called_push_is_not_judged_by_the_labs_referee(pushing):
    twin, split = Twin.load(pushing.twin), Split.load(pushing.split)
    ours = task_named("push", twin, home=home("push"), relative=True)
    text = "lab:push?plant=0&tracker=mocap"
    own = place_of(text, ours, "", twin, split, own_task=True)
    assert own.referee is None
    assert place_of(text, ours, "", twin, split).referee is not None
