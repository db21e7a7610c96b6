"""A trained policy through a logged episode, seen as its task sees it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from twinproof import cli
from twinproof.nouns.policy import Policy
from twinproof.nouns.twin import Twin
from twinproof.policies.sight import width_of
from twinproof.tasks.named import task_named


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main([str(argument) for argument in arguments])
    return int(stop.value.code or 0)


@pytest.fixture(scope="module")
def bench(tmp_path_factory) -> Path:
    """A recorded pendulum, split, its declared twin, and a network that wants no torque but at one joint."""
    folder = tmp_path_factory.mktemp("bench")
    lab, split, twin = folder / "lab", folder / "split", folder / "twin"
    assert run("lab", "record", "pendulum", "--episodes", 3, "--out", lab) == 0
    assert run("ingest", lab / "dataset", "--rig", lab / "rig.toml", "--out", folder / "recording") == 0
    assert run("split", folder / "recording", "--group-by", "none", "--out", split) == 0
    assert run("reconstruct", split, "--scene", lab / "scene.xml", "--out", twin) == 0
    contract = task_named("reach", Twin.load(twin)).deployable
    width = width_of(contract.observations)
    weights = {"layers.0.weight": np.zeros((2, width)), "layers.0.bias": np.array([0.25, 0.0])}
    Policy("mlp", contract, {}, {"layers": [width, 2]}, weights).save(folder / "policy")
    return folder


def check(bench: Path, out: Path, *more: object) -> int:
    return run("policy", "check", bench / "policy", "--recording", bench / "split", "--out", out, *more)


def test_a_task_makes_the_observations_of_its_policy(bench, tmp_path):
    assert check(bench, tmp_path / "out", "--twin", bench / "twin", "--task", "reach", "--set", "goal=0.5,0.2") == 0
    table = json.loads((tmp_path / "out" / "check.json").read_text())
    assert np.ptp(np.array(table["predicted"])[:, 0, 0]) == 0
    assert table["predicted"][0][0] == pytest.approx([0.25 * 6, 0.0])  # a quarter of the way to 6 N m
    assert table["sources"][1] == "goal: 0.5, 0.2"
    assert table["failed"] == ""


def test_what_a_task_needs_is_said(bench, tmp_path, capsys):
    def refused(told: str, *more: object) -> None:
        assert check(bench, tmp_path / "out", *more) == 1
        assert told in capsys.readouterr().err

    inside = ("--twin", bench / "twin", "--task", "reach")
    refused("or, for a policy of twinproof train, --twin TWIN --task TASK.")
    refused("--task needs --twin, and leaves nothing to --map", "--task", "reach")
    refused("--task needs --twin, and leaves nothing to --map", *inside, "--map", "goal=state")
    refused("--task takes the goal alone from --set, and time was set", *inside, "--set", "time=1", "goal=1,2")
    refused("the goal of 'reach' has 2 numbers, 1 were given", *inside, "--set", "goal=1")
    policy = Policy.load(bench / "policy")
    replace(policy, contract=replace(policy.contract, rate_hz=50.0)).save(tmp_path / "slow")
    assert run("policy", "check", tmp_path / "slow", "--recording", bench / "split", "--out", tmp_path / "out",
               *inside, "--set", "goal=1,2") == 1  # fmt: skip
    assert "has another contract than is needed here: rate_hz is 50.0, wanted 100.0" in capsys.readouterr().err
