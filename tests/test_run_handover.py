"""The cube is passed through the whole loop in its smallest form: minutes long, so marked slow."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from twinproof.cli import main

SMALLER = {
    "episodes = 10": "episodes = 6",
    "pictures = 12": "pictures = 6",
    "updates = 1_500": "updates = 50",
    "worlds = 24": "worlds = 4",
    "steps = 20_160": "steps = 1_120",
    "judged = 24": "judged = 4",
    '["real=2", "twin=2", "draws=4", "nominal=2"]': '["real=1", "twin=1", "draws=1", "nominal=1"]',
    "sizes = [0.3, 0.2, 0.5]": "sizes = [0.5, 0.25, 0.25]",
}


def twinproof(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


@pytest.mark.slow
def test_the_handover_runs_to_its_claims_on_cubes_never_seen(tmp_path, capsys) -> None:
    jobs = files("twinproof") / "jobs"
    text = (jobs / "handover.toml").read_text(encoding="utf-8")
    (tmp_path / "handover_ranges.toml").write_bytes((jobs / "handover_ranges.toml").read_bytes())
    for old, new in SMALLER.items():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "job.toml").write_text(text)
    run = tmp_path / "run"
    assert twinproof("run", tmp_path / "job.toml", "--out", run) == 0
    assert twinproof("audit", run / "evidence") == 0
    told = capsys.readouterr()
    assert "the twin fits" in told.err + told.out
    split = json.loads((run / "split" / "split.json").read_text())
    assert split["format"].startswith("twinproof/split")
    summary = json.loads((run / "trials" / "summary.json").read_text())
    assert summary["reality"] == "lab bench 'handover', simulated"
    assert twinproof("run", tmp_path / "job.toml", "--out", run) == 0
    assert "11 of them reused" in capsys.readouterr().err
