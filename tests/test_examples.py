"""Every example runs, in its small form, as its page says."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from twinproof.cli import main
from twinproof.nouns.posterior import Posterior

EXAMPLES = Path(__file__).parents[1] / "examples"


def twinproof(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert ended.value.code == 0


def test_trajectories_of_a_pendulum_that_mujoco_never_saw_give_its_values(tmp_path):
    here = tmp_path / "trajectories"
    shutil.copytree(EXAMPLES / "trajectories", here)
    subprocess.run([sys.executable, "make_recordings.py", "recordings", "4", "2.5"], cwd=here, check=True)
    twinproof("run", here / "job.toml", "--out", tmp_path / "run")
    posterior = Posterior.load(tmp_path / "run" / "posterior")
    assert posterior.mean("body.bob.mass") == pytest.approx(0.8, rel=0.03)
    assert posterior.mean("joint.hinge.damping") == pytest.approx(0.03, rel=0.3)
    assert posterior.mean("joint.hinge.frictionloss") == pytest.approx(0.04, rel=0.3)


@pytest.mark.parametrize("name", ["ros2_bag", "lerobot"])
def test_a_job_runs_as_far_as_a_twin_and_its_last_stage_is_known(tmp_path, capsys, name):
    twinproof("run", EXAMPLES / name / "job.toml", "--until", "reconstruct", "--out", tmp_path / "run")
    capsys.readouterr()
    twinproof("status", tmp_path / "run", "--json")
    states = {row["stage"]: row["state"] for row in json.loads(capsys.readouterr().out)}
    assert states == {"lab": "done", "recording": "done", "split": "done", "twin": "done", "posterior": "to do"}


def test_pictures_alone_become_splats(tmp_path):
    twinproof("lab", "scan", "push", "--pictures", 9, "--size", 48, 36, "--out", tmp_path / "scan")
    twinproof("splat", "fit", tmp_path / "scan", "--iterations", 12, "--out", tmp_path / "scene")
    ply = next((tmp_path / "scene").glob("*.ply"))
    twinproof("splat", "convert", ply, "--out", tmp_path / "scene.spz")
    assert (tmp_path / "scene.spz").stat().st_size > 0
