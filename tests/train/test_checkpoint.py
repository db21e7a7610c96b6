"""Checkpoints: whole or not at all, refused where they belong to something else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.train.networks import contract
from twinproof.nouns.errors import PolicyError
from twinproof.train.checkpoint import Run, State


def state(iteration: int) -> State:
    return State({"net.0.weight": np.full((2, 3), iteration, np.float32)}, iteration, {"rate": 0.5})


def test_the_newest_checkpoint_comes_back_and_old_ones_go(tmp_path):
    run = Run(tmp_path / "run")
    assert run.begin(contract(), {"seed": 1}) is None
    assert run.begin(contract(), {"seed": 1}) is None
    for iteration in (10, 20, 30):
        run.save(state(iteration))
    found = run.begin(contract(), {"seed": 1})
    assert found is not None
    assert (found.iteration, found.told) == (30, {"rate": 0.5})
    assert (found.arrays["net.0.weight"] == 30).all()
    assert sorted(path.name for path in run.folder.glob("checkpoint_*")) == ["checkpoint_000020", "checkpoint_000030"]
    run.clear()
    assert not run.folder.exists()


def test_metrics_that_no_checkpoint_holds_are_made_again(tmp_path):
    run = Run(tmp_path / "run")
    run.begin(contract(), {})
    for iteration in range(4):
        run.tell({"iteration": iteration, "success": None})
    with (run.folder / "metrics.jsonl").open("a") as handle:
        handle.write('{"iteration": 4, "succ')  # killed while writing
    run.rewind(2)
    assert [line["iteration"] for line in run.lines()] == [0, 1]


def test_a_run_of_another_contract_is_refused_with_the_difference(tmp_path):
    run = Run(tmp_path / "run")
    run.begin(contract(), {})
    with pytest.raises(PolicyError, match="another contract than is needed here: rate_hz is 50.0, wanted 20.0"):
        run.begin(replace(contract(), rate_hz=20.0), {})


def test_a_run_of_other_settings_is_refused_with_the_difference(tmp_path):
    run = Run(tmp_path / "run")
    run.begin(contract(), {"worlds": 64, "algo": "ppo"})
    with pytest.raises(PolicyError, match="other settings: worlds was 64, now 128. Start it with those to go on"):
        run.begin(contract(), {"worlds": 128, "algo": "ppo"})
