"""`twinproof panel` and `twinproof evaluate` as a user types them, on the practice pendulum."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.evaluate.motions import on_disk, pair_of_recordings
from tests.evaluate.motions import rig as motions_rig
from tests.nouns import examples
from twinproof.cli import main
from twinproof.cli_robot import robot_hash
from twinproof.evaluate.command import contenders_of, home_of, only_of, task_of_panel
from twinproof.nouns.errors import ConfigError, PanelError, TaskError
from twinproof.nouns.hashing import hash_file
from twinproof.nouns.panel import Panel
from twinproof.nouns.split import Split
from twinproof.nouns.trials import Trials
from twinproof.nouns.twin import Twin
from twinproof.tasks.experts import expert_of
from twinproof.tasks.named import task_named

DRIVER = """
from twinproof.evaluate.deploy import NoSight
from twinproof.lab.robot import LabRobot
def robot():
    return LabRobot("pendulum", 0)
def sight():
    return NoSight()
"""


NO_TORCH = """
import sys
class Gone:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ImportError(name)
sys.meta_path.insert(0, Gone())
from twinproof.cli import main
main(sys.argv[1:])
"""


def without_torch(*words: object) -> None:
    """A command in a process that cannot import torch."""
    subprocess.run([sys.executable, "-c", NO_TORCH, *map(str, words)], check=True)


def twinproof(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def test_a_panel_is_frozen_and_run_on_the_lab_and_on_a_drivers_file(practice, tmp_path, capsys):
    where = ("--split", practice.split, "--twin", practice.twin)
    asked = ("--twin", practice.twin, "--domains", "real=1", "twin=1", "--conditions", 1)
    assert twinproof("panel", practice.split, *asked, "--out", tmp_path / "panel") == 0
    assert "the policy transfers: success in real, lower bound ≥ 0.5" in capsys.readouterr().out
    run = ("evaluate", tmp_path / "panel", *where, "--policy", "expert=expert")
    more = ("--robot", "lab:pendulum?plant=0&effects=off", "--lerobot", tmp_path / "dataset")
    more = (*more, "--plots", tmp_path / "plots")
    assert twinproof(*run, *more, "--out", tmp_path / "trials") == 0
    said = capsys.readouterr().out
    assert "the holdout is open: attempt 1" in said
    assert "reality: lab bench 'pendulum', simulated" in said
    found = Trials.load(tmp_path / "trials")
    assert len(found.trials) == 2
    assert (tmp_path / "dataset" / "meta" / "info.json").is_file()
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == ["gap.png", "replay.png", "success.png"]
    assert not (tmp_path / ".trials.work").exists()
    (tmp_path / "driver.py").write_text(DRIVER)
    (tmp_path / "safety.toml").write_text('format = "twinproof/safety/1"\ncommands = "torque"\n')
    more = ("--monitor", "--safety", tmp_path / "safety.toml")
    driver = (*run, "--robot", tmp_path / "driver.py", *more, "--out", tmp_path / "again")
    assert twinproof(*driver) == 1  # another robot is no resumption
    assert "its driver, or the logged trials, changed. Restore it, or say what changed" in capsys.readouterr().err
    assert twinproof(*driver, "--change", "a driver of our own") == 0
    said = capsys.readouterr().out
    assert "the holdout is open: attempt 2" in said
    assert "monitor: slow at" in said
    assert Trials.load(tmp_path / "again").reality == "the robot of driver.py"
    (tmp_path / "driver.py").write_text(f"{DRIVER}\n# mended\n")
    third = (*run, "--robot", tmp_path / "driver.py", "--out", tmp_path / "third")
    assert twinproof(*third) == 1  # nor is the same file with other content
    assert "attempt 2 was begun on the robot" in capsys.readouterr().err
    assert json.loads((tmp_path / "again" / "config.json").read_bytes())["settings"]["robot"].endswith("driver.py")


def test_a_robot_is_named_by_its_drivers_file_and_by_what_that_imports_from_beside_it(tmp_path):
    driver, bus, other = (tmp_path / f"{name}.py" for name in ("driver", "bus", "other"))
    driver.write_text(DRIVER)
    bus.write_text("PORT = 1\n")
    other.write_text("PORT = 1\n")
    alone = robot_hash(str(driver))
    assert alone == hash_file(driver)
    driver.write_text(f"import bus\n{DRIVER}")
    found = [robot_hash(str(driver))]
    bus.write_text("PORT = 2\n")
    found.append(robot_hash(str(driver)))
    other.write_text("PORT = 2\n")
    assert found[1] == robot_hash(str(driver))  # nobody imports it
    assert len({alone, *found}) == 3


def test_what_is_there_is_not_overwritten_and_robots_that_cannot_be_are_refused(practice, tmp_path, capsys):
    (tmp_path / "there").mkdir()
    assert twinproof("panel", practice.split, "--twin", practice.twin, "--out", tmp_path / "there") == 1
    assert "exists. Nothing is overwritten" in capsys.readouterr().err
    asked = ("--twin", practice.twin, "--domains", "real=1", "--conditions", 1)
    assert twinproof("panel", practice.split, *asked, "--out", tmp_path / "panel") == 0
    run = ("evaluate", tmp_path / "panel", "--split", practice.split, "--twin", practice.twin, "--policy", "a=expert")
    assert twinproof(*run, "--out", tmp_path / "there") == 1
    assert "exists. Nothing is overwritten" in capsys.readouterr().err
    (tmp_path / "empty.py").write_text("")
    for robot, told in (
        ("lab:pendulum?moon=1", "cannot be read. Write 'lab:push?plant=0"),
        (tmp_path / "none.py", "is no file"),
        (tmp_path / "empty.py", "has no function robot()"),
    ):
        assert twinproof(*run, "--robot", robot, "--out", tmp_path / "trials") == 1
        assert told in capsys.readouterr().err


def test_a_home_is_stated_or_found_in_the_twin_or_in_calibration(practice):
    twin, split = Twin.load(practice.twin), Split.load(practice.split)
    assert home_of(("elbow=0.5", "shoulder=-1"), "reach", twin, split) == {"elbow": 0.5, "shoulder": -1.0}
    assert home_of((), "reach", twin, split) is None  # torque-driven: where it hangs
    with pytest.raises(TaskError, match="is no position"):
        home_of(("elbow=high",), "reach", twin, split)


def test_policies_and_labels_are_read_from_texts(practice):
    task = task_named("reach", Twin.load(practice.twin))
    (one,) = contenders_of(["best=expert"], task, expert_of(task))
    assert one.name == "best"
    for text in ("best", "=expert", "best="):
        with pytest.raises(ConfigError, match="Write NAME=FOLDER"):
            contenders_of([text], task, None)
    assert only_of(["object=can_03"]) == {"object": "can_03"}
    with pytest.raises(ConfigError, match="Write KEY=VALUE"):
        only_of(["object"])


def test_a_panel_that_was_frozen_for_another_robot_is_refused(practice):
    twin = Twin.load(practice.twin)
    other: Panel = examples.panel(task=task_named("reach", twin).panel_task())
    assert task_of_panel(other, "reach", twin, None).name == "reach"
    strange = examples.panel(task=examples.panel().task.__class__("reach", examples.contract(), "there", "not", 3.0))
    with pytest.raises(PanelError, match="does not fit this twin"):
        task_of_panel(strange, "reach", twin, None)


def test_two_recordings_are_compared_where_torch_cannot_be_imported(tmp_path):
    for name, one in zip(("real", "sim"), pair_of_recordings(1), strict=True):
        one.save(tmp_path / name)
    path = on_disk(tmp_path / "rig", motions_rig(model=True))
    without_torch("compare", tmp_path / "real", tmp_path / "sim", "--rig", path, "--out", tmp_path / "out")
    assert (tmp_path / "out" / "report.html").is_file()


def test_a_panel_is_frozen_and_run_where_torch_cannot_be_imported(practice, tmp_path):
    asked = ("--twin", practice.twin, "--domains", "real=1", "twin=1", "--conditions", 1, "--out", tmp_path / "panel")
    where = ("--split", practice.split, "--twin", practice.twin, "--policy", "expert=expert")
    robot = ("--robot", "lab:pendulum?plant=0&effects=off", "--out", tmp_path / "trials")
    without_torch("panel", practice.split, *asked)
    without_torch("evaluate", tmp_path / "panel", *where, *robot)
    assert len(Trials.load(tmp_path / "trials").trials) == 2
