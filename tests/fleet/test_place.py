"""`--on` names a place for work; wherever it is, the numbers are the same."""

from pathlib import Path

import numpy as np
import pytest

from tests.identify.folders import split_folder
from twinproof.cli import main
from twinproof.fleet.local import Here, Pool
from twinproof.fleet.place import place_of
from twinproof.fleet.slurm import Slurm
from twinproof.nouns.errors import FleetError
from twinproof.nouns.policy import Policy
from twinproof.nouns.posterior import Posterior

JOB = """
name = "small"
[lab]
bench = "pendulum"
episodes = 4
to = "mcap"
[ingest]
source = "{lab}/dataset"
rig = "{lab}/rig.toml"
[split]
group_by = "none"
[reconstruct]
scene = "{lab}/scene.xml"
[identify]
parameters = ["joint.*.damping"]
horizons = "0.15"
starts = 3
[randomize]
[train]
task = "reach"
worlds = 8
steps = 256
hidden = [8]
seeds = 2
probe = false
"""


def twinproof(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


def test_a_place_is_what_its_name_says(tmp_path):
    assert place_of("", tmp_path) == place_of("here", tmp_path) == Here()
    assert place_of("pool:3", tmp_path) == Pool(3)
    assert isinstance(place_of("pool", tmp_path), Pool)
    found = place_of("slurm:gpu", tmp_path)
    assert isinstance(found, Slurm)
    assert (found.folder, found.partition) == (tmp_path / "slurm", "gpu")


@pytest.mark.parametrize("text", ["moon", "pool:two", "here:2", "ray:4", "pool:²"])
def test_what_is_no_place_is_refused(tmp_path, text):
    with pytest.raises(FleetError, match="is no place for work. Use here, pool"):
        place_of(text, tmp_path)


def test_starts_that_are_fitted_elsewhere_give_the_same_posterior(tmp_path):
    split_folder(tmp_path, seconds=1.0)
    twin, split = tmp_path / "twin", tmp_path / "split"
    assert twinproof("reconstruct", split, "--scene", tmp_path / "scene.xml", "--out", twin) == 0
    asked = ("identify", twin, split, "--parameters", "joint.hinge.damping", "joint.hinge.frictionloss", "--starts", 2)
    known = ("--fix", "body.bob.mass=0.6", "actuator.hinge.gain=1.2")
    fixed = (*known, "--horizons", "0.15", "--free-starts", "False")  # what decides a start is told to its worker
    assert twinproof(*asked, *fixed, "--out", tmp_path / "here") == 0
    assert twinproof(*asked, *fixed, "--on", "pool:2", "--out", tmp_path / "pool") == 0
    same_posterior(tmp_path / "here", tmp_path / "pool")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")], "what workers left is cleared"


def same_posterior(one: Path, other: Path) -> None:
    first, second = Posterior.load(one), Posterior.load(other)
    assert np.array_equal(first.draws, second.draws)
    assert first.diagnostics["starts"] == second.diagnostics["starts"]


def same_policies(one: Path, other: Path) -> None:
    for name in ("seed0", "seed1"):
        weights = [Policy.load(folder / name).weights for folder in (one, other)]
        for key, value in weights[0].items():
            assert np.array_equal(value, weights[1][key]), key


@pytest.mark.slow
def test_a_whole_run_on_a_pool_gives_the_same_numbers(tmp_path, capsys):
    (tmp_path / "job.toml").write_text(JOB)
    assert twinproof("run", tmp_path / "job.toml", "--out", tmp_path / "here") == 0
    assert twinproof("run", tmp_path / "job.toml", "--out", tmp_path / "pool", "--on", "pool:2") == 0
    same_posterior(tmp_path / "here" / "posterior", tmp_path / "pool" / "posterior")
    same_policies(tmp_path / "here" / "policy", tmp_path / "pool" / "policy")
    capsys.readouterr()
    assert twinproof("run", tmp_path / "job.toml", "--out", tmp_path / "here", "--on", "pool:2") == 0
    assert "7 of them reused" in capsys.readouterr().err, "where a stage runs decides nothing"


def test_a_policy_is_never_written_over_by_spread_seeds(tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("")
    assert twinproof("train", tmp_path, "--seeds", 2, "--on", "pool:2", "--out", tmp_path / "out") == 1
    assert "Nothing is overwritten" in capsys.readouterr().err


def test_policies_that_see_pictures_are_not_spread(tmp_path, capsys):
    asked = ("train", tmp_path, "--seeds", 2, "--cameras", "front", "--on", "pool:2", "--out", tmp_path / "out")
    assert twinproof(*asked) == 1
    assert "are trained here" in capsys.readouterr().err
