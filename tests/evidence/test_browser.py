"""The report in a real browser: no errors, no script but ours, no sideways scrolling, light, dark, paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.evidence.test_report import HOSTILE, PNG, SHOTS
from tests.view import browsing
from twinproof.evidence.assemble import assemble
from twinproof.evidence.gather import Gathered

browser = pytest.fixture(scope="module")(browsing.browser)
pages = pytest.fixture(browsing.pages)
Pages = Callable[..., tuple[Any, list[str]]]


@pytest.fixture(scope="module")
def report(gathered: Gathered, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With pictures, a scene, and a hostile note."""
    trials = gathered.trials
    noted = tuple(t if t.success else replace(t, note=HOSTILE) for t in trials.trials)
    inserted = "document.body.textContent = new Function('return \\'drawn\\'')()"  # as viewers unpack themselves
    scene = (
        "<!doctype html><title>scene</title><body><script>const code = document.createElement('script');"
        f"code.type = 'module'; code.textContent = {inserted!r}; document.head.append(code)</script>"
    )
    more = replace(gathered, pictures=dict.fromkeys(SHOTS, PNG), trials=replace(trials, trials=noted))
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(assemble(more, scene).report or "")
    return path


def opened(pages: Pages, path: Path, width: int, scheme: str) -> tuple[Any, list[str]]:
    page, said = pages(width, 900, color_scheme=scheme)
    page.goto(f"file://{path}")
    return page, said


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light")])
def test_the_report_opens_without_errors_and_fits_the_screen(pages, report, width, scheme):
    page, said = opened(pages, report, width, scheme)
    assert said == []
    assert page.title() == "swing and hold: evidence"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 21, 24)"
    assert dark == (scheme == "dark")
    shown = browsing.picture(page, f"report_{width}_{scheme}")
    assert (shown.mean() < 60) == dark
    assert shown.std() > 5  # there is something on it
    assert page.evaluate("document.scripts.length") == 1


def test_the_slider_uncovers_the_photograph_and_the_scene_is_drawn(pages, report):
    page, said = opened(pages, report, 1280, "light")
    page.locator("input[type=range]").first.fill("20")
    assert page.evaluate("document.querySelector('.over').style.getPropertyValue('--cut')") == "20%"
    page.locator("iframe").scroll_into_view_if_needed()
    page.frame_locator("iframe").get_by_text("drawn").wait_for()
    assert said == []


def test_it_prints_on_paper_with_nothing_folded_away_or_cut_off(pages, report, tmp_path):
    page, said = opened(pages, report, 1280, "dark")
    page.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True)
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    assert page.evaluate("[...document.querySelectorAll('details')].every(each => each.open)")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 688, "height": 900})  # what A4 leaves between its margins
    beyond = "[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1)"
    assert page.evaluate(f"{beyond}.map(e => e.tagName + ' ' + (e.textContent || '').slice(0, 60))") == []
    assert said == []
