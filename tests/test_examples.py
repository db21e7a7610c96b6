"""Every example runs, in its small form, as its page says."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.reconstruct.solids import solid
from twinproof.cli import main
from twinproof.nouns.mesh_files import read_mesh
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.split import Split
from twinproof.reconstruct.gap import chamfer_m, volume_error

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


def test_pictures_of_one_object_become_a_closed_mesh_near_the_true_one(tmp_path, capsys):
    scan, out = tmp_path / "turntable", tmp_path / "object"
    twinproof("lab", "scan", "push", "--object", "tee_01", "--pictures", 16, "--size", 128, 96, "--out", scan)
    small = ("--across", 48, "--faces", 2000, "--texture-px", 128)
    twinproof("splat", "mesh", scan, "--backdrop", "black", *small, "--out", out)
    assert "outlines in 2 held-out pictures agree to" in capsys.readouterr().out
    told, found = json.loads((out / "mesh.json").read_bytes()), read_mesh(out / "object.ply")
    assert told["views"] == 14
    assert min(told["outlines_iou"].values()) > 0.8
    assert found.closed
    assert read_mesh(out / "object.glb").closed
    assert (out / "mesh.png").stat().st_size > 1000
    x, y, z = json.loads((scan / "truth.json").read_bytes())["half_m"]
    true = solid(lambda p: np.minimum(boxed(p, (x, y, z), 0), boxed(p, (y, x - y, z), -x)), half=0.1, voxel=0.002)
    mean_m, _ = chamfer_m(found, true, 2000)
    assert mean_m < 0.003, "a hull of fourteen outlines stands out at edges"
    assert 0 < volume_error(found, true) < 0.4, "it is never inside the object"


def boxed(points, half_m, y_m):
    """Signed distance to a box, up to its sign far away."""
    return (np.abs(points - np.array([0.0, y_m, 0.0])) - half_m).max(axis=-1)
