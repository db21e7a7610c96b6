"""The WebXR page in a real browser: with mouse and keys from the disk, and in an emulated headset on localhost."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.view import browsing
from tests.view.browsing import coloured, holds, until
from twinproof.cli_view import View, view
from twinproof.nouns.errors import StoreError
from twinproof.view.motion import apart, motion_of
from twinproof.view.vr import write_page

EMULATOR = Path(__file__).parents[2] / "web" / "node_modules" / "iwer" / "build" / "iwer.min.js"
WEAR = """
const device = new IWER.XRDevice(IWER.metaQuest3);
device.installRuntime({forceInstall: true});  // Chromium has a navigator.xr of its own, without a headset
device.stereoEnabled = true;
window.worn = device;
"""
browser = pytest.fixture(scope="module")(browsing.browser)
page = pytest.fixture(browsing.pages)


@pytest.fixture(scope="module")
def written(handed, opened, tmp_path_factory) -> Path:
    """The page of the real trial with its ghost; few splats."""
    out = tmp_path_factory.mktemp("vr") / "page"
    both = [
        (opened.trace(trial), motion_of(opened.trace(trial), handed.place, trial.domain)) for trial in opened.trials[:2]
    ]
    write_page(handed.look.thinned(3000), both[0][1], both[1][1], out, apart(both[0], both[1], handed.look))
    return out


@pytest.fixture(scope="module")
def served(written: Path) -> Iterator[str]:
    """The folder on localhost, where a browser grants a headset."""
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(quiet, directory=str(written)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    thread.join()
    server.server_close()


def state(tab: Any) -> dict[str, Any]:
    return dict(tab.evaluate("twinproof.state()"))


def ready(tab: Any, address: str) -> None:
    tab.goto(address)
    holds(tab, "window.twinproof && twinproof.state().frames > 1")


def test_the_page_opens_from_the_disk_with_splats_timeline_events_and_a_mouse(page, written):
    tab, said = page(480, 480)
    ready(tab, f"file://{written}/index.html")
    shown = until(tab, "vr_disk", lambda shown: coloured(shown, 0) > 50 and coloured(shown, 2) > 50)
    assert coloured(shown, 0) > 50  # the red arm of the probe
    assert coloured(shown, 2) > 50  # its blue one, and the ghost
    start = state(tab)
    tab.locator("#time").fill("1")
    assert state(tab)["time"] == pytest.approx(1.0, abs=0.01)
    assert state(tab)["links"]["slider"] != pytest.approx(start["links"]["slider"], abs=1e-3)
    tab.locator("#before").click()
    assert state(tab)["time"] == pytest.approx(0.4)
    assert tab.locator("#event").text_content() == "contact"
    tab.locator("#after").click()
    assert tab.locator("#event").text_content() == "end"
    assert tab.locator("#layer-gap").is_visible()
    assert tab.locator("#marks option").count() == 3
    assert tab.locator("#vr").is_hidden()
    assert said == []


def test_the_error_and_the_events_stand_under_the_timeline_with_a_cursor(page, written):
    tab, said = page(480, 480)
    ready(tab, f"file://{written}/index.html")
    cursor = "Number(document.querySelector('#plot .cursor').getAttribute('x1'))"
    assert tab.evaluate(cursor) == 0
    assert tab.locator("#plot .event").count() == 3
    assert tab.locator("#plot polyline").count() == 2
    box = tab.locator("#plot").bounding_box()
    tab.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert state(tab)["time"] == pytest.approx(0.5, abs=0.02)
    assert tab.evaluate(cursor) == pytest.approx(500, abs=20)
    assert tab.locator("#rmse").text_content().startswith("RMSE 0.")
    assert tab.locator("#farthest").text_content().endswith(" mm")
    assert "contact at 0.40 s" in tab.locator("#plot").get_attribute("aria-label")
    assert said == []


def test_a_mouse_takes_a_free_body_and_puts_it_back(page, written):
    tab, said = page(480, 480)
    ready(tab, f"file://{written}/index.html")
    place = tab.evaluate("twinproof.on_screen('probe')")
    before = state(tab)["links"]["probe"]
    tab.mouse.move(*place)
    tab.mouse.down()
    tab.mouse.move(place[0] + 40, place[1] - 10)
    tab.mouse.up()
    assert state(tab)["moved"] == ["probe"]
    assert state(tab)["links"]["probe"] != pytest.approx(before, abs=1e-3)
    tab.locator("#back").click()
    assert state(tab)["moved"] == []
    assert state(tab)["links"]["probe"] == pytest.approx(before, abs=1e-6)
    assert said == []


def test_in_a_headset_it_stands_at_real_size_steps_through_events_and_lets_a_hand_take_a_thing(page, served):
    if not EMULATOR.is_file():
        pytest.skip("the headset emulator is not installed: run `npm ci` in web/")
    tab, said = page(420, 360)
    tab.add_init_script(path=EMULATOR)
    tab.add_init_script(WEAR)
    ready(tab, served)
    flat = state(tab)["links"]
    holds(tab, "!document.getElementById('vr').disabled")
    tab.locator("#vr").click()
    holds(tab, "twinproof.state().presenting")
    now = state(tab)["frames"]
    holds(tab, f"twinproof.state().frames > {now} + 1")
    worn = state(tab)["links"]
    one, two = (
        [sum((a - b) ** 2 for a, b in zip(seen["probe"], seen["wedge"], strict=True)) ** 0.5 for seen in (flat, worn)]
    )  # fmt: skip
    assert two == pytest.approx(one)  # a metre is a metre
    shown = until(tab, "vr_headset", lambda shown: coloured(shown, 0) > 30)
    assert coloured(shown, 0) > 30
    push = "worn.controllers.right.updateAxes('thumbstick', {}, 0)"
    tab.evaluate(push.format(1))
    holds(tab, "Math.abs(twinproof.state().time - 0.4) < 1e-3")
    tab.evaluate(push.format(0))
    at = state(tab)["links"]["probe"]
    tab.evaluate("([x, y, z]) => worn.controllers.right.position.set(x, y, z)", at)
    now = state(tab)["frames"]
    holds(tab, f"twinproof.state().frames > {now} + 1")
    tab.evaluate("worn.controllers.right.updateButtonValue('squeeze', 1)")
    holds(tab, "twinproof.state().moved.includes('probe')")
    tab.evaluate("([x, y, z]) => worn.controllers.right.position.set(x, y + 0.2, z)", at)
    holds(tab, f"twinproof.state().links.probe[1] > {at[1]} + 0.15")
    until(tab, "vr_taken", lambda _: True)
    assert said == []


def test_the_command_writes_a_page_into_a_new_folder_only(run_folder, tmp_path, capsys):
    assert view(View(run_folder, vr=tmp_path / "page")) == 0
    assert sorted(path.name for path in (tmp_path / "page").iterdir()) == [
        "LICENSES.txt",
        "app.js",
        "data.js",
        "index.html",
    ]
    assert "for a headset serve the folder on localhost or over HTTPS" in capsys.readouterr().out
    with pytest.raises(StoreError):
        view(View(run_folder, vr=tmp_path / "page"))
