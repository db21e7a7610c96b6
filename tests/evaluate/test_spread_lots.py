"""Trials that workers run are those that are run here."""

from __future__ import annotations

import pytest

from tests.test_run_kills import repeatable
from twinproof.cli import main
from twinproof.evaluate.spread_lots import Folders
from twinproof.nouns.trials import Trials


def twinproof(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def test_a_panel_on_a_pool_gives_the_same_trials(practice, tmp_path, capsys):
    asked = ("--twin", practice.twin, "--domains", "twin=18", "nominal=1", "--conditions", 1)
    assert twinproof("panel", practice.split, *asked, "--out", tmp_path / "panel") == 0
    run = ("evaluate", tmp_path / "panel", "--split", practice.split, "--twin", practice.twin)
    run = (*run, "--policy", "expert=expert")
    assert twinproof(*run, "--out", tmp_path / "here") == 0
    assert twinproof(*run, "--on", "pool:2", "--out", tmp_path / "pool") == 0, capsys.readouterr().err
    here, pool = (Trials.load(tmp_path / name) for name in ("here", "pool"))
    rows = [[(t.seed, t.success, repeatable(t.metrics), t.trace) for t in each.trials] for each in (here, pool)]
    assert rows[0] == rows[1]
    assert set(here.traces) == set(pool.traces)
    (tmp_path / "safety.toml").write_text('format = "twinproof/safety/1"\ncommands = "torque"\n')
    more = ("--on", "pool:2", "--safety", tmp_path / "safety.toml", "--out", tmp_path / "safe")
    assert twinproof(*run, *more) == 1
    assert "limits of a safety.toml are run here" in capsys.readouterr().err


def test_workers_are_told_whole_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy").mkdir()
    told = Folders(tmp_path / "panel", tmp_path / "split", tmp_path / "twin", ("a=policy", "b=expert")).told()
    assert told["policy"] == [f"a={tmp_path / 'policy'}", "b=expert"]
    assert told["rebuilt"] is None
