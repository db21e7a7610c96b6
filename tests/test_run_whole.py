"""The whole loop in its smallest form: how it ends, what makes it again, and what changes none of its numbers."""

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.evaluate.test_commands import DRIVER
from tests.test_run import twinproof
from tests.test_run_faults import PATIENCE_S, started
from tests.test_run_kills import same
from twinproof.job import read_job
from twinproof.nouns.kept import Kept
from twinproof.run import SECTIONS, Doing, run

JOB = """
name = "smallest loop"
[lab]
bench = "pendulum"
episodes = 3
to = "mcap"
[ingest]
source = "{lab}/dataset"
rig = "{lab}/rig.toml"
[split]
group_by = "none"
[reconstruct]
scene = "{lab}/scene.xml"
[identify]
parameters = ["joint.elbow.damping"]
horizons = "0.15"
free_starts = false
[randomize]
[train]
task = "reach"
worlds = 4
steps = 256
hidden = [8]
probe = false
judged = 4
[panel]
task = "reach"
domains = ["real=1", "twin=1", "draws=1"]
[evaluate]
policy = ["ppo={policy}"]
robot = "driver.py"
[evidence]
policy = ["ppo={policy}"]
"""
STAGES = ("lab", "recording", "split", "twin", "posterior", "randomization", "policy", "panel", "trials", "evidence")
BEFORE = {"identify": "randomize", "train": "panel"}  # stages so small that they need no more than what is spared
SPARE = 24 * 1024


def written(folder: Path) -> Path:
    """The job, with the driver beside it."""
    (folder / "job.toml").write_text(JOB)
    (folder / "driver.py").write_text(DRIVER)
    return folder / "job.toml"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The smallest loop, run once and left alone."""
    folder = tmp_path_factory.mktemp("whole")
    assert twinproof("run", written(folder), "--out", folder / "run") == 0
    return folder


@pytest.fixture
def again(whole, tmp_path):
    """A copy of it, to change."""
    shutil.copytree(whole, tmp_path / "again", symlinks=True)
    return tmp_path / "again"


def to_do(folder: Path) -> list[str]:
    """The stages that a run of the job would make."""
    job = read_job(folder / "job.toml", SECTIONS)
    outcomes = run(Doing(job, Kept(folder / "run", print, dry=True), print))
    assert tuple(outcome.stage.name for outcome in outcomes) == STAGES
    return [outcome.stage.name for outcome in outcomes if outcome.state == "to do"]


def test_a_run_ends_with_its_claims_also_when_everything_is_reused(whole, capsys):
    assert twinproof("run", whole / "job.toml", "--out", whole / "run") == 0
    told = capsys.readouterr()
    assert "10 stages, 10 of them reused" in told.err
    *_, fits, cover, transfers, report = told.out.splitlines()
    assert fits.split()[:3] == ["the", "twin", "fits"]
    assert "replay_rmse in twin, upper bound" in fits
    assert "coverage on validation" in cover
    assert "success in real, lower bound (0 of 1 trials)" in transfers
    assert report == f"report: {whole / 'run' / 'evidence' / 'report.html'}"
    assert (whole / "run" / "evidence" / "report.html").is_file()


def test_a_changed_driver_makes_the_trials_again_and_nothing_before_them(again):
    assert to_do(again) == []
    (again / "driver.py").write_text(DRIVER + "# another bus\n")
    assert to_do(again) == ["trials", "evidence"]
    (again / "driver.py").write_text(DRIVER)
    assert to_do(again) == []


def test_damaged_entries_are_made_again_to_the_same_evidence(whole, again, capsys):
    for name in ("policy/weights.safetensors", "trials/trials.parquet", "evidence/report.md"):
        victim = again / "run" / name
        victim.write_bytes(victim.read_bytes()[:-1])
    assert twinproof("run", again / "job.toml", "--out", again / "run") == 0
    assert "10 stages, 7 of them reused" in capsys.readouterr().err
    same(whole / "run", again / "run")


def test_a_policy_made_again_still_fits_the_trials_that_were_kept(whole, again):
    for name in ("policy/weights.safetensors", "evidence/report.md"):
        victim = again / "run" / name
        victim.write_bytes(victim.read_bytes()[:-1])
    assert twinproof("run", again / "job.toml", "--out", again / "run") == 0
    same(whole / "run", again / "run")


def test_a_disk_that_is_full_in_stage_after_stage_leaves_the_evidence_as_it_is(whole, small_disk, capsys):
    out, filler = small_disk / "run", small_disk / "filler"
    command = ("run", whole / "job.toml", "--out", out)
    for stage in ("lab", "ingest", "split", "reconstruct", "identify", "train", "evaluate", "evidence"):
        filler.write_bytes(b"\0" * (free_bytes(small_disk) - SPARE))
        assert twinproof(*command) == 1
        told = capsys.readouterr().err
        assert "the disk is full" in told, told
        assert "Traceback" not in told
        assert re.findall(r"^\[\d+/10\] (\w+)", told, re.MULTILINE)[-1] == stage
        filler.unlink()
        assert twinproof(*command, "--until", BEFORE.get(stage, stage)) == 0
        capsys.readouterr()
    same(whole / "run", out)


def free_bytes(folder: Path) -> int:
    told = os.statvfs(folder)
    return told.f_bavail * told.f_frsize


def test_two_runs_at_once_come_to_one_evidence(whole, tmp_path):
    both = [started(whole / "job.toml", tmp_path / "run") for _ in range(2)]
    try:
        told = [each.communicate(timeout=PATIENCE_S)[1] for each in both]
    finally:
        for each in both:
            each.kill()
    assert [each.returncode for each in both] == [0, 0], told
    assert sum("10 of them reused" in text for text in told) == 1, "the second found what the first had made"
    same(whole / "run", tmp_path / "run")
