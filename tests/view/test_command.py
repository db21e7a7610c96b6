"""The command: what it refuses, and what it writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinproof.cli_view import View, view
from twinproof.nouns.errors import ConfigError, TwinError
from twinproof.view.motion import motion_of
from twinproof.view.static import scene_html


def test_another_address_has_to_be_meant(run_folder):
    with pytest.raises(ConfigError, match="Add --i-know if that is meant"):
        view(View(run_folder, host="192.0.2.1"))


def test_one_page_at_a_time(run_folder):
    with pytest.raises(ConfigError, match="Write one page at a time"):
        view(View(run_folder, html=Path("a"), vr=Path("b")))


def test_a_trial_that_is_not_there_is_refused(run_folder, tmp_path):
    with pytest.raises(ConfigError, match="--trial 7 is none of the 3 trials"):
        view(View(run_folder, html=tmp_path / "a.html", trial=7))


def test_the_page_is_one_file_with_nothing_from_elsewhere(run_folder, tmp_path, capsys):
    assert view(View(run_folder, html=tmp_path / "scene.html")) == 0
    page = (tmp_path / "scene.html").read_text()
    assert "__VISER_EMBED_DATA__" in page
    assert len(page) < 8_000_000
    assert "scene.html: " in capsys.readouterr().out


def test_splats_are_left_out_until_the_page_is_small_enough(handed, opened):
    motion = motion_of(opened.trace(opened.trials[0]), handed.place, "real")
    whole = scene_html(handed.look, motion)
    smaller = scene_html(handed.look, motion, most=len(whole) - 20_000)
    assert len(smaller) <= len(whole) - 20_000
    with pytest.raises(TwinError, match="simplify them"):
        scene_html(handed.look, motion, most=500_000)
