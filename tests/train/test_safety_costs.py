"""Limits of a safety.toml as costs in training, and what `twinproof train` says before it begins."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.tasks.scenes import home, lab_scene
from tests.train.folders import folders
from twinproof import cli
from twinproof.nouns.errors import ConfigError, MissingExtra
from twinproof.nouns.policy import Policy
from twinproof.policies.safety_file import read_safety
from twinproof.tasks import push
from twinproof.tasks.arena import Arena, Play
from twinproof.train import command
from twinproof.train.costs import costs_of
from twinproof.train.ground import Asked
from twinproof.train.torch_extra import check_device

HEAD = 'format = "twinproof/safety/1"\n'
OWN = """
from dataclasses import replace
from twinproof.tasks import reach
def of(scene, *, home, relative):
    return replace(reach.of(scene, home=home, relative=relative), name="mine", succeeded=lambda s: s.time_s < 0)
"""


@pytest.fixture(scope="module")
def practice(tmp_path_factory):
    return folders(tmp_path_factory.mktemp("practice"))


@pytest.fixture(autouse=True)
def _few_judged(monkeypatch):
    for name in ("JUDGED", "JUDGED_OFTEN", "PROBED"):
        monkeypatch.setattr(command, name, 4)


def train(practice, out: Path, *more: object) -> int:
    words = ["train", *practice, "--out", out, "--worlds", 4, "--steps", 256, "--hidden", 8, 8, *more]
    with pytest.raises(SystemExit) as stop:
        cli.main([str(each) for each in words])
    return int(stop.value.code or 0)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_every_limit_of_the_file_costs_where_it_is_broken(tmp_path, kind):
    task = push.of(lab_scene("push"), home=home("push"))
    machine, path = task.machine, tmp_path / "safety.toml"
    arm, first = machine.arm(), machine.joints[0]
    box = f'low_m = [-1, -1, -1], high_m = [1, 1, 1], arms = [{{tip = "{arm.tip}", joints = {json.dumps(arm.joints)}}}]'
    path.write_text(
        f'{HEAD}commands = "position"\njoints.{first} = {{range = [-0.2, 0.2], speed = 0.5, effort = 1.0}}\n'
        f"workspace = {{{box}}}\n"
    )
    costs = costs_of(read_safety(path, machine.joints, machine.limits, machine.rate_hz, machine.scene), machine)
    arena = Arena(machine.scene, task, 3, play=Play(bank=3, nthread=1, auto_reset=False), arrays=kind)
    arena.reset()
    like = arena.backing.array
    step = arena.step(like(np.tile(machine.home, (3, 1))))
    still = np.tile(machine.home, (3, 1))
    still[:, 0] = 0.1
    told = np.array(still)
    told[1, 0] = 0.3  # beyond the range, and 0.2 rad in a tick is faster than 0.5 rad/s
    tips = {arm.tip: like(np.array([[0.4, 0, 0.3], [0.4, 0, 0.3], [0.4, 0, 1.2]]))}
    situation = replace(step.situation, command=like(told), before=like(still), tips=tips)
    felt = np.zeros((3, len(machine.joints)))
    felt[2, 0] = -1.5
    found = costs.terms(replace(step, situation=situation, clipped={}), like(felt))
    expected = {"joint limit": [0, -0.02, 0], "speed limit": [0, -0.02, 0], "effort limit": [0, 0, -0.02],
                "workspace": [0, 0, -0.1]}  # fmt: skip
    for name, values in expected.items():
        np.testing.assert_allclose(np.asarray(found[f"cost/{name}"]), values, atol=1e-9)


def test_a_workspace_for_other_tips_than_the_tasks_is_refused(tmp_path):
    machine, path = push.of(lab_scene("push"), home=home("push")).machine, tmp_path / "safety.toml"
    path.write_text(
        f'{HEAD}commands = "position"\nworkspace = {{low_m = [-1, -1, -1], high_m = [1, 1, 1], '
        f'arms = [{{tip = "{machine.arm().tip}", joints = {json.dumps(machine.joints[:2])}}}]}}\n'
    )
    with pytest.raises(ConfigError, match="in training every tip stays in it"):
        costs_of(read_safety(path, machine.joints, machine.limits, machine.rate_hz, machine.scene), machine)


def test_the_command_takes_the_file_and_the_policy_names_it(practice, tmp_path):
    path = tmp_path / "safety.toml"
    path.write_text(f'{HEAD}commands = "torque"\njoints.hinge = {{range = [-0.01, 0.01], effort = 0.01}}\n')
    assert train(practice, tmp_path / "policy", "--safety", path) == 0
    assert len(Policy.load(tmp_path / "policy").training["safety"]) == 64
    lines = [json.loads(line) for line in (tmp_path / "policy" / "metrics.jsonl").read_text().splitlines()]
    assert all(line["reward/cost/joint limit"] < 0 for line in lines)
    assert all(line["reward/cost/effort limit"] < 0 for line in lines)
    assert train(practice, tmp_path / "free") == 0
    assert "safety" not in Policy.load(tmp_path / "free").training
    with pytest.raises(ConfigError, match="dagger has no reward"):
        Asked(practice[0], practice[1], "reach", "dagger", tmp_path / "d", safety=path)


def test_what_chance_came_to_is_said_of_a_task_without_an_expert(practice, tmp_path, capsys):
    (tmp_path / "mine.py").write_text(OWN)
    assert train(practice, tmp_path / "policy", "--task", tmp_path / "mine.py") == 0
    said = capsys.readouterr().out
    assert "probe of 'mine': chance succeeded in 0 of 4 episodes" in said
    assert "It may be hard, or impossible" in said
    assert train(practice, tmp_path / "other") == 0
    assert "probe of" not in capsys.readouterr().out  # an expert was asked, and it can be done


def test_a_place_for_seeds_is_not_ignored_in_silence(practice, tmp_path, capsys):
    assert train(practice, tmp_path / "policy", "--on", "pool:1") == 0
    assert "one seed is learned here: --on pool:1 spreads several" in capsys.readouterr().out


def test_devices_that_are_not_there_are_refused(monkeypatch):
    with pytest.raises(MissingExtra, match="'cudaX' is not known"):
        check_device("cudaX")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert check_device("cuda:1") == "cuda:1"
    assert check_device("cuda") == "cuda"
    with pytest.raises(MissingExtra, match="'cuda:7' was asked for, and cuda:0 to cuda:1 answer"):
        check_device("cuda:7")
