"""A job runs as far as it says, is never run twice for the same question, and survives what befalls a run."""

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib.resources import as_file, files
from pathlib import Path

import pytest

from twinproof.cli import main
from twinproof.cli_evaluate import Evaluate
from twinproof.cli_identify import Identify
from twinproof.cli_train import Train
from twinproof.job import decisive, read_job
from twinproof.nouns.errors import ConfigError, StoreError
from twinproof.nouns.files import file_hashes
from twinproof.nouns.hashing import content_key
from twinproof.nouns.kept import Kept, Outcome, Stage, only_one
from twinproof.nouns.split import Split
from twinproof.run import SECTIONS
from twinproof.run_ahead import HALF_S, expected_s, left

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
    assert "[1/4] lab, at least 10 s left" in capsys.readouterr().err, "no budget is stated for the others"
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


def test_a_split_that_lost_its_mark_keeps_its_ledger(job, tmp_path, capsys):
    run = tmp_path / "run"
    assert twinproof("run", job(), "--out", run) == 0
    split = Split.load(run / "split")
    now = datetime.now(UTC)
    split.log_fit("mine", "a" * 64, split.calibration[:1], now, now)
    ledger = (run / "split" / "openings.jsonl").read_bytes()
    mark = next((run / "stages").glob("split-*.json"))
    mark.unlink()
    assert states(run, capsys)["split"] == "to do"
    assert twinproof("run", job(), "--out", run) == 0
    told = capsys.readouterr().err
    assert "was left without its mark: every file in it holds" in told
    assert "4 stages, 4 of them reused" in told
    assert (run / "split" / "openings.jsonl").read_bytes() == ledger
    assert mark.is_file()
    assert not (run / "aside").exists()


@pytest.mark.parametrize(
    ("victim", "told"),
    [
        ("openings.jsonl", "line 1"),
        ("split.json", "not readable JSON"),
        ("calibration/recording.json", "calibration: "),
    ],
)
def test_a_split_that_lost_its_mark_and_more_is_refused_and_left_alone(job, tmp_path, capsys, victim, told):
    run = tmp_path / "run"
    assert twinproof("run", job(), "--out", run, "--until", "split") == 0
    next((run / "stages").glob("split-*.json")).unlink()
    path = run / "split" / victim
    path.write_bytes(path.read_bytes()[1:])
    before = file_hashes(run / "split")
    assert twinproof("run", job(), "--out", run, "--until", "split") == 1
    said = capsys.readouterr().err
    assert "it has lost its mark, and" in said
    assert told in said
    assert "move it away yourself" in said
    assert file_hashes(run / "split") == before


def test_a_split_of_another_recording_is_not_adopted(job, tmp_path, capsys):
    run = tmp_path / "run"
    assert twinproof("run", job(), "--out", run, "--until", "split") == 0
    old = next(path for path in (run / "stages").glob("split-*") if path.is_dir())
    assert twinproof("run", job(seed=1), "--out", run, "--until", "ingest") == 0
    capsys.readouterr()
    assert twinproof("status", run, "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    new = old.with_name(f"split-{next(row for row in rows if row['stage'] == 'split')['key'][:12]}")
    old.rename(new)
    assert twinproof("run", job(seed=1), "--out", run, "--until", "split") == 1
    assert "it splits the recording" in capsys.readouterr().err


def test_what_grows_and_cannot_be_verified_is_refused(tmp_path):
    kept, stage = Kept(tmp_path, print), Stage("split", "a" * 64, growing=("ledger",))
    folder = tmp_path / "stages" / stage.label
    folder.mkdir(parents=True)
    assert kept.once(stage, lambda out: out.mkdir()).state == "done", "no ledger yet: nothing can be lost"
    folder.with_name(f"{folder.name}.json").unlink()
    (folder / "ledger").write_text("opened")
    with pytest.raises(StoreError, match="nothing can tell whether it is whole"):
        kept.once(stage, lambda out: out.mkdir())
    assert (folder / "ledger").read_text() == "opened"


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
        ("[ingest]\nsource = 'x'\n[split]\nsizes = ['{ingst}']\n", "sizes names {ingst}, which no earlier stage makes"),
        ("[ingest]\nsource = 'x'\nepisode = 'a={polcy}'\n", "episode names {polcy}, which no earlier stage makes"),
        ("[ingest]\nsource = 'x'\nout = 'y'\n", "not yours to set"),
        ("[ingest]\nsource = 'x'\nrigg = 'y'\n", "Did you mean 'rig'"),
        ("[ingest]\nsource = 'no_such_folder'\n", "no_such_folder"),
    ],
)
def test_a_job_that_cannot_run_says_why(tmp_path, capsys, text, told):
    (tmp_path / "job.toml").write_text(text)
    assert twinproof("run", tmp_path / "job.toml", "--out", tmp_path / "run") == 1
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("section", "kind", "table", "file"),
    [
        ("evaluate", Evaluate, 'policy = ["a=expert"]\nrobot = "driver.py"', "driver.py"),
        ("train", Train, 'task = "hover.py"', "hover.py"),
        ("identify", Identify, 'parameters = ["joint.*.damping"]\nscenes = "scene_{object}.xml"', "scene_can_1.xml"),
        ("identify", Identify, 'parameters = ["joint.*.damping"]\nscenes = "./{object}/scene.xml"', "can_1/scene.xml"),
        ("evaluate", Evaluate, 'policy = ["a=expert"]\nscenes = "scene_{object}.xml"', "scene_can_1.xml"),
        ("evaluate", Evaluate, 'policy = ["mine=other"]', "other/weights.safetensors"),
        ("evaluate", Evaluate, 'policy = ["mine=served.toml"]', "served.toml"),
    ],
)
def test_files_that_texts_name_lie_beside_the_job_and_decide_by_their_content(tmp_path, section, kind, table, file):
    (tmp_path / "job.toml").write_text(f"[{section}]\n{table}\n")
    job = read_job(tmp_path / "job.toml", SECTIONS)
    given = {name: tmp_path / name for name in ("out", "panel", "split", "twin") if name in kind.__dataclass_fields__}
    (tmp_path / file).parent.mkdir(exist_ok=True)
    keys = []
    for content in ("one", "other", "one"):
        (tmp_path / file).write_text(content)
        config = job.config(section, kind, {}, given)
        keys.append(content_key(decisive(config, {})[0]))
    assert keys[0] == keys[2] != keys[1]


def test_words_of_ours_are_no_files(tmp_path):
    (tmp_path / "job.toml").write_text(
        '[train]\ntask = "reach"\n[evaluate]\npolicy = ["a=expert"]\nrobot = "lab:push"\n'
    )
    for name in ("reach", "expert", "lab:push"):
        (tmp_path / name).mkdir()
    job = read_job(tmp_path / "job.toml", SECTIONS)
    assert job.config("train", Train, {}, {"twin": tmp_path}).task == "reach"
    found = job.config("evaluate", Evaluate, {}, dict.fromkeys(("panel", "split", "twin", "out"), tmp_path))
    assert (found.policy, found.robot) == (("a=expert",), "lab:push")


def test_what_a_command_writes_does_not_decide_by_its_content(tmp_path):
    (tmp_path / "job.toml").write_text('[identify]\nparameters = ["joint.*.damping"]\nplots = "plots"\n')
    job = read_job(tmp_path / "job.toml", SECTIONS)
    config = job.config("identify", Identify, {}, {name: tmp_path / name for name in ("twin", "split", "out")})
    before = decisive(config, {})
    (tmp_path / "plots").mkdir()
    (tmp_path / "plots" / "fit.png").write_text("made")
    assert decisive(config, {}) == before


def test_time_left_counts_neither_what_is_reused_nor_what_is_not_known():
    stage = Stage("any", "a" * 64)
    ahead = [
        Outcome(stage, Path(), *each) for each in (("reused", 30.0), ("to do", 0.0), ("to do", 7.0), ("to do", 0.0))
    ]
    names = ["lab", "ingest", "split", "reconstruct"]
    expected = expected_s(names, ahead, {"lab": 100.0, "ingest": 5.0})
    assert expected == {"lab": 0.0, "ingest": 5.0, "split": 7.0}
    assert left(names, expected) == "at least 12 s left"
    assert left(names[1:3], expected) == "about 12 s left"
    assert left(names[:1], expected) == ""


def test_a_stage_that_is_made_again_takes_what_it_took_last_time(job, tmp_path, capsys):
    run = tmp_path / "run"
    assert twinproof("run", job(), "--out", run, "--until", "ingest") == 0
    took = json.loads(next((run / "stages").glob("recording-*.json")).read_text())["seconds"]
    capsys.readouterr()
    changed = job().read_text().replace('rig = "', 'nan_is_missing = true\nrig = "')
    job().write_text(changed)
    assert twinproof("run", tmp_path / "job.toml", "--out", run, "--until", "ingest") == 0
    told = capsys.readouterr().err
    assert f"[1/2] lab{f', about {took:.0f} s left' if took >= HALF_S else ''}\n" in told, (
        "its budget of 10 s is not counted"
    )


def test_a_stage_that_the_job_lacks_cannot_be_the_last(job, tmp_path, capsys):
    assert twinproof("run", job(), "--until", "train", "--out", tmp_path / "run") == 1
    assert "has no stage 'train'" in capsys.readouterr().err


def test_a_folder_that_is_no_run_has_no_status(tmp_path, capsys):
    assert twinproof("status", tmp_path) == 1
    assert "it is no run" in capsys.readouterr().err
