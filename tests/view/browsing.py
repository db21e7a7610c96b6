"""A real Chromium with software GL, which draws a few frames a second: small windows, few splats."""

from __future__ import annotations

import base64
import functools
import io
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
GL = ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]
KEPT = os.environ.get("TWINPROOF_SCREENSHOTS")  # a folder for the pictures that tests take
# viser 1.1 says this of any splats: it draws copies of one square whose corners have no z, and three.js misses it.
# With a z the square would have a bounding sphere of its own size, and splats far from the origin would be left out.
KNOWN = 'THREE.BufferGeometry.computeBoundingSphere(): Computed radius is NaN. The "position" attribute'
PATIENCE_MS = 90_000
STUCK = "the browser did not answer and was ended: nothing was seen"
HUNG_S = 240.0  # a test that takes longer has a browser that no longer answers


@dataclass
class Browser:
    """A Chromium that is ended from outside when it no longer answers: most calls to a page would wait for ever."""

    seen: Any
    process: subprocess.Popen[bytes]
    stuck: bool = False

    def end(self) -> None:
        self.stuck = True
        self.process.kill()


def browser() -> Iterator[Browser]:
    """Chromium, or a skip that says what is missing."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, playwright.sync_playwright() as driver:
        process = _started(profile)
        try:
            found = driver.chromium.connect_over_cdp(_address(Path(profile) / "DevToolsActivePort"))
            yield Browser(found, process)
        finally:
            process.kill()
            process.wait()


def _started(profile: str) -> subprocess.Popen[bytes]:
    command = [str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--no-first-run", *GL]
    where = ["--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
    return subprocess.Popen([*command, *where], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _address(told: Path) -> str:
    """Where a browser that was just started listens; it writes port and path into a file."""
    for _ in range(600):
        lines = told.read_text().splitlines() if told.exists() else []
        if len(lines) == 2:
            return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        time.sleep(0.1)
    pytest.skip("Chromium did not start within a minute")


def pages(browser: Browser) -> Iterator[Callable[..., tuple[Any, list[str]]]]:
    """Opens pages, and closes them after the test: what is no longer looked at would still be drawn."""
    if browser.stuck:
        pytest.skip(STUCK)
    watch = threading.Timer(HUNG_S, browser.end)
    watch.start()
    try:
        yield functools.partial(page, browser.seen)
        for context in browser.seen.contexts[1:]:  # the first is the browser's own
            context.close()
    finally:
        watch.cancel()


def page(browser: Any, width: int = 420, height: int = 360, **how: Any) -> tuple[Any, list[str]]:
    """A new page, and the errors that it says from now on. `how` are further options of Playwright's new_context."""
    opened = browser.new_context(viewport={"width": width, "height": height}, **how).new_page()
    opened.set_default_timeout(PATIENCE_MS)
    said: list[str] = []
    opened.on("console", lambda m: said.append(m.text) if m.type == "error" and not m.text.startswith(KNOWN) else None)
    opened.on("pageerror", lambda problem: said.append(str(problem)))
    opened.on("dialog", lambda dialog: (said.append("a dialog opened"), dialog.dismiss()))
    return opened, said


def picture(page: Any, name: str) -> np.ndarray:
    """What the page shows, H × W × 3; kept as NAME.png where TWINPROOF_SCREENSHOTS names a folder."""
    from PIL import Image

    # Playwright's own way waits until nothing is drawn any more, which a page that plays never grants.
    line = page.context.new_cdp_session(page)
    shot = line.send("Page.captureScreenshot", {"format": "png"})
    line.detach()
    data = base64.b64decode(shot["data"])
    if KEPT:
        Path(KEPT).mkdir(parents=True, exist_ok=True)
        (Path(KEPT) / f"{name}.png").write_bytes(data)
    with Image.open(io.BytesIO(data)) as opened:
        return np.asarray(opened.convert("RGB"))


def until(page: Any, name: str, good: Callable[[np.ndarray], bool], tries: int = 40) -> np.ndarray:
    """The first picture that is as wanted; the last one where none is."""
    from playwright.sync_api import Error

    shown = np.zeros((1, 1, 3), np.uint8)
    for _ in range(tries):
        try:
            shown = picture(page, name)
        except Error as problem:  # nothing was drawn yet
            if "Unable to capture screenshot" not in str(problem):
                raise
        if good(shown):
            break
        page.wait_for_timeout(500)
    return shown


def holds(page: Any, condition: str, tries: int = 400) -> None:
    """Waits until a condition in the page holds. Playwright's own way evaluates strings, which the page forbids."""
    for _ in range(tries):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(200)
    raise AssertionError(f"the page never came to {condition}")


def coloured(shown: np.ndarray, channel: int, by: int = 60) -> int:
    """How many pixels have much more of one colour than of the others."""
    others = np.delete(shown.astype(int), channel, axis=2).max(axis=2)
    return int((shown[..., channel].astype(int) - others > by).sum())


def scene(shown: np.ndarray) -> np.ndarray:
    """The part of a picture with nothing but the scene: below viser's note about software GL, above its player."""
    return shown[140:-45, : shown.shape[1] // 2]


def red_and_blue(shown: np.ndarray) -> bool:
    """Whether the probe's red and blue arms are in the picture."""
    return coloured(scene(shown), 0) > 30 and coloured(scene(shown), 2) > 30
