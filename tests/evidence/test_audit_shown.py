"""A report that shows something else than the folders hold, its pages drawn and its seals made anew: found, or open."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.evidence.test_audit import forge, said
from twinproof.cli_guard import _agreed
from twinproof.evidence.audit import audit
from twinproof.evidence.findings import Audited
from twinproof.evidence.gather import Folders
from twinproof.evidence.markdown import markdown
from twinproof.evidence.page import page


def redrawn(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes report.json, draws the pages of it, and makes all hashes anew."""
    told = json.loads((folder / "report.json").read_text())
    change(told["inputs"])
    (folder / "report.json").write_text(json.dumps(told))
    (folder / "report.html").write_text(page(told, {}, None))
    (folder / "report.md").write_text(markdown(told))
    forge(folder)


def every(folders: Folders) -> list[Path]:
    names = ("recording", "split", "twin", "posterior", "randomization", "panel", "trials")
    return [*(getattr(folders, name) for name in names), *filter(None, folders.policies.values())]


def left_open(found: Audited) -> str:
    return "\n".join(finding.text for finding in found.findings if finding.verdict == "open")


def put(*path: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    """A change of what stands at a path."""

    def change(inputs: dict[str, Any]) -> None:
        place: Any = inputs
        for step in path[:-1]:
            place = place[step]
        assert place[path[-1]] != to
        place[path[-1]] = to

    return change


FORGED = {
    "robot": put("robot", to="another robot"),
    "twin": put("twin", "notes", to=["measured by laser"]),
    "posterior": put("posterior", "effective_draws", to=1e6),
    "ranges": put("ranges", 0, "covers", to=0.5),
    "coverage": put("coverage", "signals", 0, "share", "covered", to=1.0),
    "training of ppo": put("training", "ppo", 0, "points", 3, to=[12000.0, 1.0]),
    "policy ppo": put("policies", "ppo", "seed", to=8),
    "summary": put("summary", "decomposition", 0, "value", to=0.001),
}
NAMED = {"policy ppo": "policy ppo and its training", "training of ppo": "its training (policy/ppo)"}


@pytest.mark.parametrize("part", FORGED)
def test_what_was_forged_is_found_with_the_folders_and_named_as_open_without(part, copied, folders):
    redrawn(copied, FORGED[part])
    text = said(audit(copied, every(folders), agree=_agreed), "report")
    assert f"what it shows of the {part} is not what the folder holds" in text
    alone = audit(copied, agree=_agreed)
    assert alone.ok
    assert NAMED.get(part, {"summary": "decomposition, replay, notes"}.get(part, f"the {part} (")) in left_open(alone)


@pytest.mark.parametrize("part", ["replay", "notes"])
def test_the_rest_of_the_summary_is_held_against_the_trials(part, copied, folders):
    redrawn(copied, lambda inputs: inputs["summary"][part].pop())
    text = said(audit(copied, [folders.trials]), "report")
    assert "what it shows of the summary is not what the folder holds" in text


def test_a_correlation_that_does_not_follow_from_the_trials_is_found_without_any_folder(saved, copied):
    whole = audit(saved, agree=_agreed)
    assert whole.ok
    assert any("r, MMRV and their intervals, computed anew" in finding.text for finding in whole.findings)
    redrawn(copied, put("summary", "agreement", "twin", "mmrv", "value", to=0.123))
    text = said(audit(copied, agree=_agreed), "report")
    assert "how policies rank in twin and reality does not follow from trials.parquet" in text
    assert "how policies rank in twin and reality: taken as stated" in left_open(audit(copied))


def test_a_coverage_that_the_claim_does_not_stand_on_is_found_without_any_folder(copied):
    redrawn(copied, put("coverage", "covered", to=0.99))
    assert "not the one that the claim 'the ranges cover' stands on" in said(audit(copied), "report")


def test_a_coverage_that_is_left_out_is_found_without_any_folder(copied):
    redrawn(copied, put("coverage", to=None))
    assert "not the one that the claim 'the ranges cover' stands on" in said(audit(copied), "report")


def test_policies_and_parts_that_the_evidence_does_not_know_are_found(copied):
    def invent(inputs: dict[str, Any]) -> None:
        inputs["training"]["better"] = inputs["training"]["ppo"]
        inputs["policies"]["better"] = inputs["policies"]["ppo"]
        inputs["praise"] = "by all"

    redrawn(copied, invent)
    text = said(audit(copied), "report")
    assert "its training tell of 'better', which is no policy of the evidence" in text
    assert "its policies tell of 'better', which is no policy of the evidence" in text
    assert "'praise' has no place among its inputs" in text


def test_pictures_that_are_not_there_are_found(copied):
    redrawn(copied, put("pictures", to=["view.png"]))
    assert "what it shows of the pictures is not what the folder holds" in said(audit(copied), "report")


def test_nothing_of_a_whole_report_is_passed_over(saved, folders):
    found = audit(saved, every(folders), agree=_agreed)
    assert found.ok
    text = left_open(found)
    assert "without these folders" not in text
    assert "decomposition and replay: as the trials' folder has them" in text
    assert "no hash holds that file" in text
    alone = left_open(audit(saved))
    for part in ("robot (recording)", "twin (twin)", "posterior (posterior)", "coverage (randomization)", "ranges ("):
        assert part in alone
    assert "the policy ppo and its training (policy/ppo)" in alone
    assert "the policy scripted and its training (policy/scripted)" in alone
