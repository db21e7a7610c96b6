"""The example of a served VLA runs as its page says: recordings, twin, panel with a camera, a server over loopback."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from twinproof.cli import main
from twinproof.cli_evaluate import Evaluate
from twinproof.job import _resolved, decisive
from twinproof.lab.benches import bench
from twinproof.nouns.trials import Trials
from twinproof.policies.served import ServedActor
from twinproof.policies.server import read_served, served_policy, server_of

EXAMPLE = Path(__file__).parents[1] / "examples" / "served_vla"
JOINTS = ("waist", "shoulder", "elbow", "forearm_roll", "wrist", "wrist_rotate", "gripper")

SMALLER = {
    "episodes = 4": "episodes = 3",
    "[identify]": "[identify]\nfree_starts = false",
    '["real=2", "twin=2", "draws=4"]': '["real=1", "twin=1"]',
}


def twinproof(*arguments: object) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert ended.value.code == 0


@contextmanager
def serving(robot: Path) -> Iterator[str]:
    command = [sys.executable, str(EXAMPLE / "serve.py"), "--robot", str(robot), "--port", "0", "--joints", *JOINTS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            assert line.startswith("serving a stand-in at ws://127.0.0.1:"), line
            yield line.split()[-1]
        finally:
            process.kill()


def test_the_stand_in_answers_what_the_map_asks_and_stays_where_it_is_in_the_dark(tmp_path: Path) -> None:
    (tmp_path / "robot.xml").write_text(bench("push").robot_text())
    policy = read_served(EXAMPLE / "served.toml")
    home = np.array(list(bench("push").home.values()))[None]
    seen = {"joint_position": home, "tip_to_goal": np.array([[0.0, 0.05, -0.02]])}
    with serving(tmp_path / "robot.xml") as address:
        server = replace(server_of(policy), address=address)
        actor = ServedActor(served_policy(server, policy.contract))
        actor.reset(1, seed=0)
        dark, light = (actor.act({**seen, "image.front": np.full((1, 120, 160, 3), v, np.uint8)})[0] for v in (0, 120))
        actor.close()
    np.testing.assert_allclose(dark, np.repeat(home, 8, axis=0), atol=1e-6)
    assert (np.abs(light[-1] - home[0])[:6] > 1e-3).any()
    assert light[-1][6] == pytest.approx(home[0, 6], abs=1e-6)  # the gripper stays


def test_a_served_vla_goes_from_recordings_to_trials_with_pictures(tmp_path: Path) -> None:
    here = tmp_path / "served_vla"
    shutil.copytree(EXAMPLE, here)
    job = (here / "job.toml").read_text()
    for old, new in SMALLER.items():
        assert old in job
        job = job.replace(old, new)
    (here / "job.toml").write_text(job)
    twinproof("run", here / "job.toml", "--until", "reconstruct", "--out", tmp_path / "run")
    with serving(tmp_path / "run" / "lab" / "robot.xml") as address:
        served = here / "served.toml"
        served.write_text(served.read_text().replace("ws://127.0.0.1:8000", address))
        twinproof("run", here / "job.toml", "--out", tmp_path / "run")
    found = Trials.load(tmp_path / "run" / "trials")
    vla = [trial for trial in found.trials if trial.policy == "vla"]
    assert {trial.domain for trial in vla} == {"real", "twin"}
    assert all(trial.metrics["final_error"] < 0.05 for trial in vla)  # metres; it began farther away
    assert all(trial.metrics["latency_p95_s"] > 0 for trial in vla)
    (step,) = (step for step in found.summary["decomposition"] if step["step"] == 2)
    assert step["what"] == "actions on the robot's pictures against the twin's at the same states"
    assert step["value"] == pytest.approx(0.0, abs=1e-3)  # the stand-in only looks whether there is light
    page = (tmp_path / "run" / "evidence" / "report.html").read_text()
    assert "pictures against the twin" in page


def test_a_map_beside_a_job_is_found_there_and_decides_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "served.toml").write_text("first")
    asked = _resolved(
        Evaluate(Path("p"), Path("s"), Path("t"), ("vla=served.toml", "script=expert"), Path("o")), tmp_path
    )
    assert asked.policy == (f"vla={tmp_path / 'served.toml'}", "script=expert")
    before, _ = decisive(asked, {})
    (tmp_path / "served.toml").write_text("second")
    assert decisive(asked, {})[0] != before
