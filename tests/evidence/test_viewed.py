"""Evidence can be looked at: its trials play in the twin that it is about, beside those of another world."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from twinproof.cli_view import View, handed_for, view
from twinproof.nouns.errors import StoreError
from twinproof.nouns.twin import Twin
from twinproof.view.opened import open_folder


def told(page: Path) -> dict[str, Any]:
    """What a page shows."""
    (found,) = re.findall(r"window\.TWINPROOF_DATA = (\{.*?\});\n", page.read_text())
    return dict(json.loads(found.replace("<\\/", "</")))


def test_an_evidence_folder_is_opened_with_the_twin_that_is_named(saved, folders):
    opened = open_folder(saved, folders.twin, folders.posterior)
    assert opened.domains == ("lab", "twin", "draws", "nominal")
    assert opened.posterior is not None
    first = opened.trials[0]
    partner = opened.partner(first, "twin")
    assert partner is not None
    assert opened.trace(partner).domain == "twin"
    assert handed_for(opened).look.title == "twin"  # its scene has no name, so the folder gives it


def test_a_page_of_evidence_shows_a_trial_its_ghost_and_the_error_between_them(saved, folders, tmp_path):
    assert view(View(saved, twin=folders.twin, html=tmp_path / "scene.html")) == 0
    shown = told(tmp_path / "scene.html")
    assert "lab" in shown["motion"]["label"]
    assert "twin" in shown["ghost"]["label"]
    assert {event["name"] for event in shown["motion"]["events"]} == {"start", "turn", "end"}
    error = shown["apart"]
    assert len(error["time_s"]) == len(error["rmse"]) == len(error["farthest_m"]) > 10
    assert error["unit"] == "rad"
    assert max(error["rmse"]) > 0


def test_a_trial_without_a_trace_and_a_wrong_twin_are_told(saved, folders, tmp_path):
    bare = next(k for k, trial in enumerate(open_folder(saved, folders.twin).trials) if trial.trace is None)
    with pytest.raises(StoreError, match="no trace was kept of trial 0 of policy 'scripted'"):
        view(View(saved, twin=folders.twin, html=tmp_path / "scene.html", trial=bare))
    with pytest.raises(StoreError, match="does not hold the twin it is about"):
        open_folder(saved)
    twin = Twin.load(folders.twin)
    replace(twin, notes=(*twin.notes, "another one")).save(tmp_path / "other")
    with pytest.raises(StoreError, match="is about the twin"):
        open_folder(saved, tmp_path / "other")
