"""The report in a real browser: no errors, no script but ours, no sideways scrolling, light, dark, paper."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.evidence.test_report import HOSTILE, PNG, SHOTS
from twinproof.evidence.assemble import assemble
from twinproof.evidence.gather import Gathered

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


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


def opened(browser: Any, path: Path, width: int, scheme: str) -> tuple[Any, list[str]]:
    page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda problem: said.append(str(problem)))
    page.on("dialog", lambda dialog: (said.append("a dialog opened"), dialog.dismiss()))
    page.goto(f"file://{path}")
    return page, said


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light")])
def test_the_report_opens_without_errors_and_fits_the_screen(browser, report, width, scheme):
    page, said = opened(browser, report, width, scheme)
    assert said == []
    assert page.title() == "swing and hold: evidence"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 21, 24)"
    assert dark == (scheme == "dark")
    assert page.evaluate("document.scripts.length") == 1


def test_the_slider_uncovers_the_photograph_and_the_scene_is_drawn(browser, report):
    page, said = opened(browser, report, 1280, "light")
    page.locator("input[type=range]").first.fill("20")
    assert page.evaluate("document.querySelector('.over').style.getPropertyValue('--cut')") == "20%"
    page.locator("iframe").scroll_into_view_if_needed()
    page.frame_locator("iframe").get_by_text("drawn").wait_for()
    assert said == []


def test_it_prints_on_paper_with_nothing_folded_away(browser, report, tmp_path):
    page, said = opened(browser, report, 1280, "dark")
    page.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True)
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    assert page.evaluate("[...document.querySelectorAll('details')].every(each => each.open)")
    assert said == []
