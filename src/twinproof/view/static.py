"""The scene with its timeline as one HTML file that opens without a server: for the report, and to send to people.

scene_html(look, motion, ghost) -> the page

It is the page of `vr` with its scripts inside. Splats are thinned until it is small enough.
"""

from __future__ import annotations

from twinproof.nouns.errors import TwinError
from twinproof.view.look import Look
from twinproof.view.motion import Apart, Motion
from twinproof.view.vr import built, data_script

MOST_BYTES = 8_000_000
REPORTED_BYTES = 10_000_000  # inside a report, which has room for that
MOST_SPLATS = 150_000
FEWEST_SPLATS = 1_000


def scene_html(
    look: Look,
    motion: Motion | None = None,
    ghost: Motion | None = None,
    error: Apart | None = None,
    most: int = MOST_BYTES,
) -> str:
    """A page of at most `most` bytes with the twin, and where motions are given, a timeline that moves it.

    `error`, of the ghost against the motion, stands below the timeline.
    """
    splats = min(look.splat_count, MOST_SPLATS)
    while True:
        page = _page(look.thinned(splats), motion, ghost, error)
        size = len(page.encode())
        if size <= most:
            return page
        if splats <= FEWEST_SPLATS:
            raise TwinError(
                f"{look.title}: the page has {size / 1e6:.1f} MB with {splats} splats, and may have {most / 1e6:.1f}. "
                "Its meshes or textures are too large: simplify them."
            )
        splats = max(FEWEST_SPLATS, int(splats * min(0.7, most / size)))


def _page(look: Look, motion: Motion | None, ghost: Motion | None, error: Apart | None) -> str:
    code = built("app.js").replace("</script", "<\\/script")
    scripts = {"data.js": data_script(look, motion, ghost, error), "app.js": code}
    page = built("index.html")
    for name, text in scripts.items():
        page = _replaced(page, f'<script src="{name}"></script>', f"<script>{text}</script>")
    return _replaced(page, "script-src 'self' file:", "script-src 'unsafe-inline'")


def _replaced(page: str, old: str, new: str) -> str:
    assert page.count(old) == 1, f"the built index.html has {page.count(old)} of {old!r}"
    return page.replace(old, new)
