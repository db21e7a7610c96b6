"""Scenes for the tests of tasks: the lab's nominal ones, as a user has them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from twinproof.lab.benches import bench
from twinproof.lab.models import textures
from twinproof.sim.scene import Scene


@cache
def lab_scene(name: str) -> Scene:
    """A bench's nominal scene."""
    folder, named = Path(mkdtemp(prefix="tasks")), bench(name)
    for file, data in textures.assets().items():
        (folder / file).write_bytes(data)
    return Scene(named.nominal_scene(None, named.plant(0)), folder)


def home(name: str) -> dict[str, float]:
    """Where a bench's robot begins."""
    return dict(bench(name).home)
