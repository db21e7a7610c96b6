"""Trials that workers run are those that are run here."""

from __future__ import annotations

import pytest

from tests.test_run_kills import repeatable
from twinproof.cli import main
from twinproof.evaluate.spread_lots import Folders, _limits, elsewhere
from twinproof.fleet.local import Pool
from twinproof.nouns.errors import PanelError, PolicyError
from twinproof.nouns.store import Store
from twinproof.nouns.trials import Trials
from twinproof.nouns.twin import Twin
from twinproof.policies.safety_file import read_safety
from twinproof.sim.scene import Scene
from twinproof.tasks import reach

SAFETY = """
format = "twinproof/safety/1"
commands = "torque"
joints.shoulder = {range = [-0.5, 0.5]}
workspace = {low_m = [-0.02, -1, 0], high_m = [0.02, 1, 2], arms = [{tip = "lower_link", joints = ["shoulder"]}]}
"""


def twinproof(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def rows(trials: Trials) -> list[object]:
    return [(t.seed, t.success, repeatable(t.metrics), t.trace) for t in trials.trials]


def test_a_panel_on_a_pool_gives_the_same_trials(practice, tmp_path, capsys):
    asked = ("--twin", practice.twin, "--domains", "twin=18", "nominal=1", "--conditions", 1)
    assert twinproof("panel", practice.split, *asked, "--out", tmp_path / "panel") == 0
    run = ("evaluate", tmp_path / "panel", "--split", practice.split, "--twin", practice.twin)
    run = (*run, "--policy", "expert=expert")
    assert twinproof(*run, "--out", tmp_path / "here") == 0
    assert twinproof(*run, "--on", "pool:2", "--out", tmp_path / "pool") == 0, capsys.readouterr().err
    here, pool = (Trials.load(tmp_path / name) for name in ("here", "pool"))
    assert rows(here) == rows(pool)
    assert set(here.traces) == set(pool.traces)


def test_workers_keep_the_limits_of_a_safety_file(practice, tmp_path, capsys):
    asked = ("--twin", practice.twin, "--domains", "twin=2", "nominal=1", "--conditions", 1)
    assert twinproof("panel", practice.split, *asked, "--out", tmp_path / "panel") == 0
    run = ("evaluate", tmp_path / "panel", "--split", practice.split, "--twin", practice.twin)
    run = (*run, "--policy", "expert=expert")
    (tmp_path / "safety.toml").write_text(SAFETY)
    safe = ("--safety", tmp_path / "safety.toml")
    assert twinproof(*run, "--out", tmp_path / "free") == 0
    assert twinproof(*run, *safe, "--out", tmp_path / "here") == 0
    assert twinproof(*run, *safe, "--on", "pool:2", "--out", tmp_path / "pool") == 0, capsys.readouterr().err
    free, here, pool = (Trials.load(tmp_path / name) for name in ("free", "here", "pool"))
    assert all(t.metrics["safety_joint_limit"] > 0 and t.metrics["safety_workspace"] > 0 for t in pool.trials)
    assert rows(here) == rows(pool)
    assert not set(free.traces) & set(pool.traces)


def test_limits_that_changed_or_that_workers_cannot_read_are_refused(practice, tmp_path):
    twin = Twin.load(practice.twin)
    scene = Scene.of(twin)
    machine = reach.of(scene).machine
    file = tmp_path / "safety.toml"
    file.write_text(SAFETY)
    limits = read_safety(file, machine.joints, machine.limits, machine.rate_hz, scene)
    assert _limits(file, limits.told(), twin).told() == limits.told()
    file.write_text(SAFETY.replace("-0.5, 0.5", "-0.4, 0.4"))
    with pytest.raises(PolicyError, match="does not say what it said when the examination began"):
        _limits(file, limits.told(), twin)
    run = elsewhere(Folders(tmp_path, practice.split, practice.twin, ("a=expert",)), Store(tmp_path / "work"), Pool(1))
    with pytest.raises(PanelError, match="limits that workers cannot read"):
        run("a", [], limits, lambda count: None)


def test_workers_are_told_whole_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy").mkdir()
    told = Folders(tmp_path / "panel", tmp_path / "split", tmp_path / "twin", ("a=policy", "b=expert")).told()
    assert told["policy"] == [f"a={tmp_path / 'policy'}", "b=expert"]
    assert told["rebuilt"] is None
