"""The scene as one file: small enough, alive from the disk, and alive inside a report."""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np
import pytest

from tests.view import browsing
from tests.view.browsing import coloured, holds, until
from twinproof.nouns.errors import TwinError
from twinproof.view.motion import motion_of
from twinproof.view.static import scene_html

browser = pytest.fixture(scope="module")(browsing.browser)
page = pytest.fixture(browsing.pages)


def red_and_blue(shown: np.ndarray) -> bool:
    """Whether the probe's red and blue arms are in the picture, above the bar."""
    return coloured(shown[30:200], 0) > 30 and coloured(shown[30:200], 2) > 30


@pytest.fixture(scope="module")
def written(handed, opened) -> str:
    """The page of the real trial with its ghost; few splats."""
    both = [motion_of(opened.trace(trial), handed.place, trial.domain) for trial in opened.trials[:2]]
    return scene_html(handed.look.thinned(1000), *both)


def test_splats_are_left_out_until_the_page_is_small_enough(handed, opened):
    motion = motion_of(opened.trace(opened.trials[0]), handed.place, "real")
    whole = scene_html(handed.look, motion)
    smaller = scene_html(handed.look, motion, most=len(whole) - 20_000)
    assert len(smaller) <= len(whole) - 20_000
    with pytest.raises(TwinError, match="simplify them"):
        scene_html(handed.look, motion, most=3_000_000)


def test_the_scene_is_one_file_that_opens_from_the_disk(page, written, tmp_path: Path):
    (tmp_path / "scene.html").write_text(written)
    tab, said = page(420, 360)
    asked = list[str]()
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(f"file://{tmp_path}/scene.html")
    assert red_and_blue(until(tab, "scene", red_and_blue))
    before = tab.evaluate("twinproof.state().links.slider")
    tab.locator("#time").fill("0.9")
    assert tab.evaluate("twinproof.state().links.slider") != pytest.approx(before, abs=1e-3)
    assert all(url.startswith(("file:", "data:", "blob:")) for url in asked)
    assert said == []


def test_the_scene_lives_in_a_sandboxed_frame_as_reports_hold_it(page, written, tmp_path: Path):
    frame = f'<iframe sandbox="allow-scripts" style="width:400px;height:340px" srcdoc="{escape(written)}"></iframe>'
    (tmp_path / "report.html").write_text(f"<!doctype html><title>report</title>{frame}")
    tab, said = page(420, 360)
    tab.goto(f"file://{tmp_path}/report.html")
    assert red_and_blue(until(tab, "scene_in_report", red_and_blue))
    inside = tab.frames[1]
    inside.locator("#play").click()
    holds(inside, "twinproof.state().time > 0.1")
    assert said == []
