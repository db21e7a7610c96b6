"""Scenes for the tests of tasks: the lab's nominal ones, as a user has them."""

from __future__ import annotations

import atexit
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from twinproof.lab.benches import bench
from twinproof.lab.models import textures
from twinproof.sim.scene import Scene
from twinproof.tasks import drawer, handover, lift, push, reach
from twinproof.tasks.task import TaskSpec


@cache
def lab_scene(name: str) -> Scene:
    """A bench's nominal scene."""
    folder, named = Path(mkdtemp(prefix="tasks")), bench(name)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for file, data in textures.assets().items():
        (folder / file).write_bytes(data)
    return Scene(named.nominal_scene(None, named.plant(0)), folder)


def home(name: str) -> dict[str, float]:
    """Where a bench's robot begins."""
    return dict(bench(name).home)


MAKE = {
    "pendulum": ("pendulum", reach.of),
    "reach": ("push", reach.of),
    "push": ("push", push.of),
    "lift": ("push", lift.of),
    "drawer": ("drawer", drawer.of),
    "handover": ("handover", handover.of),
}


def made(name: str, **more: object) -> TaskSpec:
    """One of the tasks on its bench."""
    where, of = MAKE[name]
    return of(lab_scene(where), home=home(where), **more)
