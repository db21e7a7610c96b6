"""A run that is killed again and again ends with the numbers of one that was left alone."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from twinproof.nouns.evidence import Evidence
from twinproof.nouns.policy import Policy
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.randomization import Randomization

KILLS = int(os.environ.get("TWINPROOF_KILLS", "50"))
JOB = """
name = "small loop"
[lab]
bench = "pendulum"
episodes = 5
to = "mcap"
[ingest]
source = "{lab}/dataset"
rig = "{lab}/rig.toml"
[split]
group_by = "none"
[reconstruct]
scene = "{lab}/scene.xml"
[identify]
parameters = ["joint.*.damping", "actuator.*.delay"]
horizons = "0.15"
[randomize]
[train]
task = "reach"
worlds = 16
steps = 4096
hidden = [16]
[panel]
task = "reach"
domains = ["real=2", "twin=2", "draws=2"]
[evaluate]
policy = ["ppo={policy}"]
robot = "lab:pendulum?plant=0"
[evidence]
policy = ["ppo={policy}"]
"""


def started(job: Path, out: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "twinproof.cli", "run", str(job), "--out", str(out)]
    with (out.parent / f"{out.name}.log").open("ab") as log:
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)


@pytest.mark.slow
def test_numbers_survive_any_number_of_kills(tmp_path):
    job = tmp_path / "job.toml"
    job.write_text(JOB)
    assert started(job, tmp_path / "alone").wait() == 0, (tmp_path / "alone.log").read_text()
    rng, kills, rounds = random.Random(0), 0, 0
    while kills < KILLS:
        out = tmp_path / f"killed_{rounds}"
        kills, rounds = kills + killed_often(job, out, rng), rounds + 1
        same(tmp_path / "alone", out)


def killed_often(job: Path, out: Path, rng: random.Random) -> int:
    """Runs the job to its end, with a kill every few seconds; how many there were."""
    kills = 0
    while True:
        going = started(job, out)
        try:
            code = going.wait(rng.uniform(0.5, 9.0))
        except subprocess.TimeoutExpired:
            os.kill(going.pid, signal.SIGKILL)
            going.wait()
            kills += 1
            continue
        assert code == 0, (out.parent / f"{out.name}.log").read_text()[-2000:]
        return kills


def repeatable(metrics: Mapping[str, float]) -> dict[str, float]:
    """All but what a clock measured: how long a policy thought is another time in every run."""
    return {name: value for name, value in metrics.items() if not name.startswith(("latency_", "deadline_"))}


def same(alone: Path, killed: Path) -> None:
    """Every number of two runs is the same to the last bit."""
    first, second = (Posterior.load(run / "posterior") for run in (alone, killed))
    assert np.array_equal(first.draws, second.draws)
    ranges = [Randomization.load(run / "randomization") for run in (alone, killed)]
    assert np.array_equal(ranges[0].draws, ranges[1].draws)
    policies = [Policy.load(run / "policy") for run in (alone, killed)]
    for name, weights in policies[0].weights.items():
        assert np.array_equal(weights, policies[1].weights[name]), name
    evidence = [Evidence.load(run / "evidence") for run in (alone, killed)]
    rows = [[(t.policy, t.domain, t.seed, t.success, repeatable(t.metrics)) for t in each.trials] for each in evidence]
    assert rows[0] == rows[1]
    assert [claim.value for claim in evidence[0].claims] == [claim.value for claim in evidence[1].claims]
    assert [each.attempt for each in evidence] == [1, 1], "a killed examination is resumed, not sat again"
