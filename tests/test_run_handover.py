"""The cube is passed through the whole loop in its smallest form: minutes long, so marked slow."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from twinproof.cli import main
from twinproof.nouns.source import Inferred
from twinproof.nouns.twin import Twin

SMALLER = {
    "pictures = 12": "pictures = 6",
    "updates = 3_000": "updates = 50",
    "worlds = 48": "worlds = 4",
    "steps = 40_320": "steps = 1_120",
    "judged = 24": "judged = 4",
    '["real=8", "twin=4", "draws=4", "nominal=2"]': '["real=1", "twin=1", "draws=1", "nominal=1"]',
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
    objects = {part: {split["labels"][id]["object"] for id in split[part]} for part in ("calibration", "holdout")}
    summary = json.loads((run / "trials" / "summary.json").read_text())
    assert summary["reality"] == "lab bench 'handover', simulated"
    assert set(summary["replay"]["recorded_in"]["object"]) <= objects["holdout"]
    twin = Twin.load(run / "twin")
    cube = twin.body("object")  # from pictures of one that may be fitted, with looks bound to its shape
    assert isinstance(cube.source, Inferred)
    assert cube.splats is not None
    assert twin.audits["against_stated"]["object"]["chamfer_m"] < 0.003
    assert "cube_04" in objects["calibration"]
    assert twinproof("run", tmp_path / "job.toml", "--out", run) == 0
    assert "11 of them reused" in capsys.readouterr().err
