"""Every example runs, in its small form, as its page says."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from twinproof.cli import main
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.split import Split

EXAMPLES = Path(__file__).parents[1] / "examples"
PENDULUM = (("joint", "damping"), ("joint", "frictionloss"), ("actuator", "delay"))


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


@pytest.mark.parametrize(
    ("name", "small", "identified"),
    [
        ("ros2_bag", {}, {f"{part}.{joint}.{what}" for joint in ("shoulder", "elbow") for part, what in PENDULUM}),
        ("lerobot", {"episodes = 4": "episodes = 3"}, {"joint.waist.damping", "joint.waist.frictionloss"}),
    ],
)
def test_a_job_runs_to_parameters_that_tell_episodes_it_was_not_fitted_to(tmp_path, name, small, identified):
    job = (EXAMPLES / name / "job.toml").read_text()
    for old, new in {**small, "[identify]": "[identify]\nfree_starts = false"}.items():
        assert old in job
        job = job.replace(old, new)
    (tmp_path / "job.toml").write_text(job)
    twinproof("run", tmp_path / "job.toml", "--out", tmp_path / "run")
    posterior, split = Posterior.load(tmp_path / "run" / "posterior"), Split.load(tmp_path / "run" / "split")
    assert set(posterior.ids) == identified
    assert set(posterior.episodes) == set(split.calibration)
    assert set(posterior.diagnostics["validation"]["episodes"]) == set(split.validation)
    assert posterior.diagnostics["validation"]["covered"] > 0.8


def test_pictures_alone_become_splats(tmp_path):
    twinproof("lab", "scan", "push", "--pictures", 9, "--size", 48, 36, "--out", tmp_path / "scan")
    twinproof("splat", "fit", tmp_path / "scan", "--iterations", 12, "--out", tmp_path / "scene")
    ply = next((tmp_path / "scene").glob("*.ply"))
    twinproof("splat", "convert", ply, "--out", tmp_path / "scene.spz")
    assert (tmp_path / "scene.spz").stat().st_size > 0
