"""The live viewer and the one-file scene in a real browser: no errors, splats seen, the timeline moves the robot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tests.view import browsing
from tests.view.browsing import red_and_blue, scene, until
from twinproof.view.gate import gate_of, guarded, listen, stop
from twinproof.view.live import Live
from twinproof.view.opened import Opened
from twinproof.view.playing import NONE, SLIDERS, Handed

browser = pytest.fixture(scope="module")(browsing.browser)
page = pytest.fixture(browsing.pages)


@pytest.fixture(scope="module")
def viewer(handed: Handed, opened: Opened) -> Iterator[tuple[Live, str]]:
    """A viewer of the small run with few splats, and its address."""
    bound = listen()
    gate = gate_of(bound)
    server = guarded(gate, bound, "probe")
    live = Live(server, opened, replace(handed, look=handed.look.thinned(3000)))
    yield live, f"http://127.0.0.1:{bound.getsockname()[1]}/{gate.token}/"
    live.close()
    stop(server)


def test_the_viewer_shows_splats_and_its_timeline_moves_them(page, viewer):
    live, address = viewer
    tab, said = page(760, 420)
    tab.goto(address)
    tab.get_by_text("ppo · h1 · real · 0 · success").first.wait_for()
    before = until(tab, "viewer", red_and_blue)
    assert red_and_blue(before)
    box = tab.locator("input[type=text]").first  # the number beside the slider
    box.fill("1")
    box.press("Enter")
    after = until(tab, "viewer_later", lambda shown: _changed(before, shown) > 100)
    assert _changed(before, after) > 100
    assert live.timeline.time_s == 1.0
    tab.get_by_role("button", name="ppo · h1 · twin · 0 · failed: undecided").click()
    tab.get_by_text("<img src=x").first.wait_for()  # what a folder says is shown as it is
    assert said == []


def _changed(one: np.ndarray, two: np.ndarray) -> int:
    """Pixels of the scene that differ clearly."""
    return int((np.abs(scene(one).astype(int) - scene(two)).max(axis=2) > 40).sum()) if one.shape == two.shape else 0


@pytest.mark.parametrize("path", ["", "wrong/"])
def test_a_browser_without_the_token_sees_a_refusal(page, viewer, path):
    _, address = viewer
    tab, _ = page()
    answer = tab.goto(address.rsplit("/", 2)[0] + "/" + path)
    assert answer.status == 403
    assert "lacks the right token" in tab.content()


def test_a_page_of_another_origin_cannot_open_the_websocket_or_frame_the_viewer(page, viewer, tmp_path):
    _, address = viewer
    tab, _ = page()
    (tmp_path / "evil.html").write_text("<!doctype html><iframe></iframe>")
    tab.goto(f"file://{tmp_path}/evil.html")
    tried = """address => new Promise(done => {
        const line = new WebSocket(address.replace("http", "ws"), "viser-v1.1.1");
        line.onopen = () => done("open"); line.onerror = () => done("refused"); })"""
    assert tab.evaluate(tried, address) == "refused"
    own, _ = page()
    own.goto(address)
    assert own.evaluate(tried, address) == "open"  # the same from the viewer's own origin: the test tests something
    tab.evaluate("address => { document.querySelector('iframe').src = address }", address)
    tab.wait_for_timeout(1500)
    assert all(not frame.url.startswith(address) for frame in tab.frames)


def test_choosing_trials_and_ghosts_moves_what_is_shown(viewer, opened):
    live, _ = viewer
    real, twin, nominal = opened.trials
    live.choose(real)
    assert live.ghost.trace.domain == "twin"
    live.choose(twin)
    assert live.ghost is None  # it is its own ghost
    live.choose(nominal)
    assert "no trace was kept" in live.timeline.text.replace("\\", "")
    live.choose(real)
    live.haunt(NONE)
    assert live.ghost is None
    live.haunt("nominal")
    assert live.ghost is None  # no trace of it was kept


def test_sliders_simulate_the_ghost_again(viewer, opened):
    live, _ = viewer
    live.choose(opened.trials[0])
    live.simulate(live.sliders.theta | {"joint.hinge.damping": 1.9})
    assert live.ghost.trace.domain == "sliders"
    assert live.timeline.ghost == SLIDERS
    slow = live.ghost.trace.signals["state"].value
    live.sliders.take(3)
    live.simulate(live.sliders.theta)
    assert live.sliders.theta["joint.hinge.damping"] == opened.posterior.draws[3, 0]
    assert not np.array_equal(slow, live.ghost.trace.signals["state"].value)


def test_parameters_that_the_scene_does_not_have_are_told_in_the_viewer(viewer, opened):
    live, _ = viewer
    live.choose(opened.trials[0])
    live.simulate(live.sliders.theta | {"joint.nothing.damping": 1.0})
    assert "nothing" in live.timeline.text


def test_time_runs_on_and_starts_again(viewer, opened):
    live, _ = viewer
    live.choose(opened.trials[0])
    live.timeline.jump(0.9)
    live.timeline.advance(0.05)
    assert live.timeline.time_s == pytest.approx(0.95)
    live.timeline.advance(0.2)
    assert live.timeline.time_s == 0.0


def test_the_errors_plot_has_a_cursor_that_goes_with_time(viewer, opened):
    live, _ = viewer
    live.choose(opened.trials[0])
    live.haunt("twin")
    live.timeline.jump(0.5)
    live.seek(0.5)
    assert live.timeline.cursor_s == pytest.approx(0.5, abs=0.03)
    live.haunt(NONE)
    assert live.timeline.cursor_s is None


def test_a_layer_is_shown_and_hidden_by_its_box(viewer):
    live, _ = viewer
    assert set(live.layers.boxes) == {"mesh", "splats", "collision", "gap", "camera"}
    live.stage.show("gap", True)
    assert all(each.visible for each in live.stage.layers["gap"])
    live.stage.show("gap", False)
    assert not any(each.visible for each in live.stage.layers["gap"])
