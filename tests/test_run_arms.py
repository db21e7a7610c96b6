"""Boxes are pushed and drawers pulled through the whole loop in its smallest form: minutes long, so marked slow."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from twinproof.cli import main

SMALLER = {
    "episodes = 12\nto": "episodes = 8\nto",
    "pictures = 12": "pictures = 6",
    "worlds = 64\nsteps = 23_040  #": "worlds = 4\nsteps = 480  #",
    "updates = 1_500": "updates = 50",
    "judged = 24": "judged = 4",
    "worlds = 64\nsteps = 40_960": "worlds = 4\nsteps = 256",
    "judged = 48": "judged = 4",
    '["real=4", "twin=4", "draws=8", "nominal=4"]': '["real=1", "twin=1", "draws=1", "nominal=1"]',
}


def twinproof(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["push", "drawer"])
def test_an_arm_comes_to_its_claims_on_objects_never_seen(name, tmp_path) -> None:
    jobs = files("twinproof") / "jobs"
    text = (jobs / f"{name}.toml").read_text(encoding="utf-8")
    (tmp_path / f"{name}_ranges.toml").write_bytes((jobs / f"{name}_ranges.toml").read_bytes())
    for old, new in SMALLER.items():
        assert old in text, old
        text = text.replace(old, new)
    (tmp_path / "job.toml").write_text(text)
    run = tmp_path / "run"
    assert twinproof("run", tmp_path / "job.toml", "--out", run) == 0
    assert twinproof("audit", run / "evidence") == 0
    claims = json.loads((run / "evidence" / "report.json").read_text())["evidence"]["claims"]
    assert len(claims) == 3
    split = json.loads((run / "split" / "split.json").read_text())
    objects = {part: {split["labels"][id]["object"] for id in split[part]} for part in ("calibration", "holdout")}
    assert objects["holdout"]
    assert not objects["holdout"] & objects["calibration"]
    assert json.loads((run / "policy" / "policy.json").read_text())["training"]["algorithm"] == "residual"
