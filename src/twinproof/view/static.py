"""The scene with its timeline as one HTML file that opens without a server: for the report, and to send to people.

scene_html(look, motion, ghost) -> the page

viser records what is put on its stage, and the page plays it. Splats are thinned until the page is small enough.
"""

from __future__ import annotations

import numpy as np

from twinproof.nouns.errors import TwinError
from twinproof.view.gate import gate_of, guarded, listen, stop
from twinproof.view.look import Look
from twinproof.view.motion import Motion
from twinproof.view.stage import Stage

MOST_BYTES = 8_000_000
MOST_SPLATS = 150_000
FEWEST_SPLATS = 1_000
RATE_HZ = 25.0


def scene_html(look: Look, motion: Motion | None = None, ghost: Motion | None = None, most: int = MOST_BYTES) -> str:
    """A page of at most `most` bytes with the twin, and where motions are given, a timeline that moves it."""
    splats = min(look.splat_count, MOST_SPLATS)
    while True:
        page = _page(look.thinned(splats), motion, ghost)
        size = len(page.encode())
        if size <= most:
            return page
        if splats <= FEWEST_SPLATS:
            raise TwinError(
                f"{look.title}: the page has {size / 1e6:.1f} MB with {splats} splats, and may have {most / 1e6:.1f}. "
                "Its meshes or textures are too large: simplify them."
            )
        splats = max(FEWEST_SPLATS, int(splats * min(0.7, most / size)))


def _page(look: Look, motion: Motion | None, ghost: Motion | None) -> str:
    bound = listen()
    server = guarded(gate_of(bound), bound, look.title)  # it never has a guest: viser records only where it serves
    try:
        stage = Stage(server, look)
        stage.haunt(ghost is not None)
        recorder = server.get_scene_serializer()
        both = [each for each in (motion, ghost) if each is not None]
        end_s = max((each.time_s[-1] for each in both), default=0.0)
        for time_s in np.arange(0.0, end_s, 1 / RATE_HZ) if both else ():
            for each in both:
                stage.pose(each.at(time_s), ghost=each is ghost)
            recorder.insert_sleep(1 / RATE_HZ)
        page: str = recorder.as_html()
        return page
    finally:
        stop(server)
