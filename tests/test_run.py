"""A job runs as far as it says, is never run twice for the same question, and survives what befalls a run."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib.resources import as_file, files
from pathlib import Path

import pytest

from twinproof.cli import main
from twinproof.job import read_job
from twinproof.nouns.errors import ConfigError, StoreError
from twinproof.nouns.kept import Kept, Stage, only_one
from twinproof.run import SECTIONS

JOB = """
name = "small"
seed = {seed}
[lab]
bench = "pendulum"
episodes = 3
to = "mcap"
[ingest]
source = "{{lab}}/dataset"
rig = "{{lab}}/rig.toml"
[split]
group_by = "none"
[reconstruct]
scene = "{{lab}}/scene.xml"
[budget_s]
lab = 10
"""


def twinproof(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code


@pytest.fixture
def job(tmp_path):
    def write(seed=0, extra=""):
        path = tmp_path / "job.toml"
        path.write_text(JOB.format(seed=seed) + extra)
        return path

    return write


def states(run, capsys):
    capsys.readouterr()
    assert twinproof("status", run, "--json") == 0
    return {row["stage"]: row["state"] for row in json.loads(capsys.readouterr().out)}


def test_a_job_runs_once_and_a_changed_setting_makes_again_what_stands_on_it(job, tmp_path, capsys):
    run = tmp_path / "run"
    assert twinproof("run", job(), "--out", run) == 0
    assert "[1/4] lab, about 10 s left" in capsys.readouterr().err
    assert states(run, capsys) == dict.fromkeys(("lab", "recording", "split", "twin"), "done")
    first = (run / "twin" / "twin.json").read_bytes()
    assert twinproof("run", job(), "--out", run) == 0
    assert "4 stages, 4 of them reused" in capsys.readouterr().err
    changed = job().read_text().replace('group_by = "none"', 'group_by = "none"\nseed = 7')
    job().write_text(changed)
    assert twinproof("run", tmp_path / "job.toml", "--out", run) == 0
    assert "4 stages, 2 of them reused" in capsys.readouterr().err
    assert twinproof("run", job(), "--out", run) == 0, "back to the old setting: its results are still there"
    assert "4 stages, 4 of them reused" in capsys.readouterr().err
    assert (run / "twin" / "twin.json").read_bytes() == first


def test_a_damaged_result_is_found_and_made_again(job, tmp_path, capsys):
    run = tmp_path / "run"
    assert twinproof("run", job(), "--out", run, "--until", "ingest") == 0
    victim = next((run / "lab" / "dataset").rglob("*.mcap"))
    whole = victim.read_bytes()
    victim.write_bytes(whole[:-1])
    assert twinproof("run", job(), "--out", run, "--until", "ingest") == 0
    assert "is made again" in capsys.readouterr().err
    assert next((run / "lab" / "dataset").rglob("*.mcap")).read_bytes() == whole
    assert list((run / "aside").iterdir()), "the damaged one is kept"


def test_a_damaged_split_is_never_made_again_in_silence(job, tmp_path, capsys):
    run = tmp_path / "run"
    assert twinproof("run", job(), "--out", run) == 0
    (run / "split" / "split.json").write_text("{}")
    assert twinproof("run", job(), "--out", run) == 1
    assert "never made anew in silence" in capsys.readouterr().err


def test_a_killed_run_goes_on(job, tmp_path, capsys):
    run, path = tmp_path / "run", job()
    command = [sys.executable, "-m", "twinproof.cli", "run", str(path), "--out", str(run)]
    going = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (run / "lab").exists() and going.poll() is None:
        time.sleep(0.02)
    os.kill(going.pid, signal.SIGKILL)
    going.wait()
    assert twinproof("run", path, "--out", run) == 0
    assert "reused" in capsys.readouterr().err
    assert set(states(run, capsys).values()) == {"done"}


SECOND = """
import sys
from pathlib import Path
from twinproof.nouns.kept import only_one
with only_one(Path(sys.argv[1]), lambda text: (Path(sys.argv[1]) / "said").write_text(text)):
    pass
"""


def test_a_second_run_waits_for_the_first(tmp_path):
    said = []
    with only_one(tmp_path, said.append):
        second = subprocess.Popen([sys.executable, "-c", SECOND, str(tmp_path)])
        while not (tmp_path / "said").exists() and second.poll() is None:
            time.sleep(0.01)
    assert second.wait(timeout=60) == 0
    assert "waiting for it" in (tmp_path / "said").read_text()
    assert not said


def test_a_folder_that_may_not_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write to"), only_one(tmp_path / "file", print):
        pass


def test_what_is_no_link_of_the_run_is_not_replaced(tmp_path):
    (tmp_path / "twin").mkdir()
    with pytest.raises(StoreError, match="is no link of this run"):
        Kept(tmp_path, print).once(Stage("twin", "a" * 64), lambda out: out.mkdir())


def test_a_result_without_its_mark_or_with_a_wrong_one_is_made_again(tmp_path):
    said: list[str] = []
    kept, stage = Kept(tmp_path, said.append), Stage("twin", "a" * 64)

    def make(out: Path) -> None:
        out.mkdir()
        (out / "file").write_text("whole")

    folder = kept.once(stage, make).folder
    folder.with_name(f"{folder.name}.json").unlink()
    assert kept.once(stage, make).state == "done"
    other = Stage("twin", "a" * 12 + "b" * 52)
    assert kept.once(other, make).state == "done"
    (folder / "extra").write_text("new")
    assert kept.once(other, make).state == "done"
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    assert kept.once(other, make).state == "done"
    assert "without its mark" in said[0]
    assert "another stage" in said[1]
    assert "extra is new" in said[2]
    assert "is gone" in said[3]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[cook]\n", "no stage is called 'cook'"),
        ("split = 3\n", "must be a table"),
        ("seed = -1\n", "a whole number from 0"),
        ("budget_s = 3\n", "holds seconds"),
        ("= 3\n", "no readable TOML"),
    ],
)
def test_a_wrong_job_is_refused(tmp_path, text, told):
    (tmp_path / "job.toml").write_text(text)
    with pytest.raises(ConfigError, match=told):
        read_job(tmp_path / "job.toml", SECTIONS)


def test_the_thorough_run_takes_the_options_of_the_full_tables(job, tmp_path, capsys):
    path, run = job(extra="[full.lab]\nepisodes = 4\n[full.budget_s]\nlab = 20\n"), tmp_path / "run"
    assert read_job(path, SECTIONS).sections["lab"]["episodes"] == 3
    thorough = read_job(path, SECTIONS, full=True)
    assert thorough.sections["lab"] == {"bench": "pendulum", "episodes": 4, "to": "mcap"}
    assert thorough.budget_s == {"lab": 20}
    assert twinproof("run", path, "--out", run, "--until", "lab", "--full") == 0
    assert "4 episodes" in capsys.readouterr().out
    assert states(run, capsys)["lab"] == "done"
    assert twinproof("run", path, "--out", run, "--until", "lab") == 0
    assert "3 episodes" in capsys.readouterr().out


def test_a_job_without_thorough_settings_says_so(job):
    with pytest.raises(ConfigError, match="so --full would change nothing. Run it without."):
        read_job(job(), SECTIONS, full=True)


@pytest.mark.parametrize("name", ["pendulum", "push", "drawer", "handover"])
def test_the_jobs_of_the_demos_can_be_read_and_have_thorough_settings(name):
    with as_file(files("twinproof") / "jobs" / f"{name}.toml") as path:
        for full in (False, True):
            found = read_job(path, SECTIONS, full)
            assert found.name == name
            assert set(found.budget_s) == set(found.sections)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[reconstruct]\nscene = 'a.xml'\n", "nothing that makes its split"),
        ("[ingest]\nsource = '{lab}/x'\n", "which no earlier stage makes"),
        ("[ingest]\nsource = 'x'\nout = 'y'\n", "not yours to set"),
        ("[ingest]\nsource = 'x'\nrigg = 'y'\n", "Did you mean 'rig'"),
        ("[ingest]\nsource = 'no_such_folder'\n", "no_such_folder"),
    ],
)
def test_a_job_that_cannot_run_says_why(tmp_path, capsys, text, told):
    (tmp_path / "job.toml").write_text(text)
    assert twinproof("run", tmp_path / "job.toml", "--out", tmp_path / "run") == 1
    assert told in capsys.readouterr().err


def test_a_stage_that_the_job_lacks_cannot_be_the_last(job, tmp_path, capsys):
    assert twinproof("run", job(), "--until", "train", "--out", tmp_path / "run") == 1
    assert "has no stage 'train'" in capsys.readouterr().err


def test_a_folder_that_is_no_run_has_no_status(tmp_path, capsys):
    assert twinproof("status", tmp_path) == 1
    assert "it is no run" in capsys.readouterr().err
