"""Pictures for policies on a CPU, in layers against all splats together: `python -m bench.eyes [RESULT.json]`.

The arm and the cube of bench.train_images: 40,000 splats on the table, 800 on each of ten bodies. By turns in one run:
render_many of everything in every world, as it was, and tasks.eyes as it is. Worlds move between pictures; only the
pictures are timed, or whole ticks of an arena of `push`. Cameras stand, or each world has its own and gets another one
every 40 ticks, or the camera is on the hand. Differences are those of bytes, in pictures that both drew of one state.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from bench.sections import run_sections
from bench.train_images import seen_twin
from bench.train_scene import HOME, RATE_HZ

from twinproof.nouns.randomness import stream
from twinproof.nouns.rig import Mount
from twinproof.nouns.twin import Twin
from twinproof.sim.render_camera import Camera
from twinproof.sim.splat.layered import Views
from twinproof.sim.splat.render import render_many
from twinproof.tasks import push
from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.eyes import Eyes, SplatEyes, with_pictures
from twinproof.tasks.viewpoints import USUAL, Viewpoints

SIZES, WORLDS = ((64, 48), (128, 128)), (16, 64)
EPISODE = 40  # ticks until a world gets another camera
OFF_M, OFF_SHARE = 0.02, 0.02  # how far cameras stand off, how much their focal lengths differ
ON_HAND = Mount("hand", (0.1, 0.0, -0.05), (1.0, 0.0, 0.0, 0.0))


class AllTogether:
    """Stands for LayeredWorlds: every world's whole scene in every picture."""

    def __init__(self, eyes: SplatEyes) -> None:
        self._splats, self._moving = eyes.splats, eyes._moving

    def over(self, views: Views) -> np.ndarray:
        """The pictures."""
        changes = [None] * len(views.T_world_group) if views.changes is None else views.changes
        lenses = [views.lens if row is None else views.lens.changed(*map(float, row)) for row in changes]
        cameras = [Camera(lens, place) for lens, place in zip(lenses, views.T_world_camera, strict=True)]
        groups = [dict(zip(self._moving, row, strict=True)) for row in views.T_world_group]
        drawn = np.stack([image.over() for image in render_many(self._splats, cameras, moved=groups)])
        pictures: np.ndarray = np.round(255 * np.clip(drawn, 0, 1)).astype(np.uint8)
        return pictures

    together = over


def twin_of(folder: Path, size: tuple[int, int], on_hand: bool = False) -> Twin:
    """The bench's twin, its camera's picture cut to a size."""
    width, height = size
    twin = seen_twin(folder, width)
    front = twin.cameras["front"]
    lens = replace(front.intrinsics, cy=(height - 1) / 2)
    mount = ON_HAND if on_hand else front.mount
    return replace(twin, cameras={"front": replace(front, height=height, intrinsics=lens, mount=mount)})


def both(twin: Twin) -> tuple[SplatEyes, SplatEyes]:
    """Eyes as they were and as they are."""
    width = twin.cameras["front"].width
    was, now = SplatEyes(twin, ("front",), width=width), SplatEyes(twin, ("front",), width=width)
    was._layers = AllTogether(was)
    return was, now


def arena_of(twin: Twin, worlds: int, eyes: Eyes) -> Arena:
    task = push.of(twin, home=HOME, tip="hand", body="cube", rate_hz=RATE_HZ, relative=True)
    return Arena(twin, with_pictures(task, eyes, tracker=False), worlds, play=Play(bank=worlds), eyes=eyes)


def cameras(worlds: int) -> Iterator[Viewpoints]:
    """Each world's own camera; at every tick the next few worlds get another one."""
    rng = stream(0, "bench", "eyes")
    T, lens = np.tile(np.eye(4), (worlds, 1, 1, 1)), np.tile(USUAL, (worlds, 1, 1))
    begun, tick = np.arange(worlds) * EPISODE // worlds, 0
    while True:
        new = (begun == tick % EPISODE) | (tick == 0)
        T[new, 0, :3, 3] = rng.normal(0, OFF_M, (new.sum(), 3))
        lens[new, 0, :2] = 1 + rng.normal(0, OFF_SHARE, (new.sum(), 1))
        yield Viewpoints(T.copy(), lens.copy())
        tick += 1


def moved(arena: Arena, rng: np.random.Generator) -> Arena:
    """A tick later: the hand anywhere."""
    arena.step(rng.uniform(-1, 1, (arena.count, len(arena.task.contract.actions))))
    return arena


class Blind:
    """Eyes that cost nothing, so that an arena moves on between pictures."""

    def __init__(self, eyes: SplatEyes) -> None:
        self.names, self.cameras, self.shape = eyes.names, eyes.cameras, eyes.shape

    def see(self, backing: Any, drawn: Any = None) -> dict[str, Any]:
        """Black."""
        return {name: np.zeros((len(backing.view("qpos")), *self.shape), np.uint8) for name in self.names}


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def pictures(size: tuple[int, int], worlds: int, how: str, repeats: int) -> dict[str, Any]:
    """Seconds a picture, medians over repeats that go by turns, and how far the pictures are from another."""
    rng = stream(0, "bench", "actions")
    with TemporaryDirectory() as folder:
        twin = twin_of(Path(folder), size, how == "on the hand")
        was, now = both(twin)
        arena = arena_of(twin, worlds, Blind(was))
        drawn = cameras(worlds)
        off = next(drawn) if how == "own" else None
        was.see(arena.backing, off), now.see(arena.backing, off)
        before, after, apart = [], [], []
        for _ in range(repeats):
            spent = []
            for tick in range(EPISODE):
                moved(arena, rng)
                off = next(drawn) if how == "own" else None
                spent.append(timed(lambda off=off: now.see(arena.backing, off)))
                if tick % 10 == 0:
                    before.append(timed(lambda off=off: was.see(arena.backing, off)))
                    one, other = (eyes.see(arena.backing, off)["front"].astype(int) for eyes in (was, now))
                    apart.append(np.abs(one - other).ravel())
            after.append(float(np.mean(spent)))
    gaps = np.concatenate(apart)
    old, new = float(np.median(before)) / worlds, float(np.median(after)) / worlds
    return {
        "all together, ms a picture": 1e3 * old,
        "layers, ms a picture": 1e3 * new,
        "ratio": old / new,
        "bytes apart: median, 99.9 %, worst": [int(v) for v in (*np.percentile(gaps, (50, 99.9)), gaps.max())],
    }


def steps(size: tuple[int, int], worlds: int, repeats: int) -> dict[str, Any]:
    """Steps a second of an arena that sees, pictures and all, by turns."""
    rng = stream(0, "bench", "actions")
    with TemporaryDirectory() as folder:
        twin = twin_of(Path(folder), size)
        arenas = [arena_of(twin, worlds, eyes) for eyes in both(twin)]
        spent: list[list[float]] = [[], []]
        for _ in range(repeats):
            for arena, each in zip(arenas, spent, strict=True):
                each.append(timed(lambda arena=arena: [moved(arena, rng) for _ in range(8)]) / (8 * worlds))
    old, new = (float(np.median(each)) for each in spent)
    return {"all together, steps a second": 1 / old, "layers, steps a second": 1 / new, "ratio": old / new}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("result", nargs="?", type=Path)
    asked.add_argument("--repeats", type=int, default=5)
    chosen = asked.parse_args()
    sections: dict[str, Callable[[], dict[str, Any]]] = {}
    for size in SIZES:
        for worlds in WORLDS:
            where = f"{size[0]} × {size[1]}, {worlds} worlds"
            for how in ("fixed", "own", "on the hand"):
                sections[f"{where}, {how}"] = lambda a=size, b=worlds, c=how: pictures(a, b, c, chosen.repeats)
            sections[f"{where}, steps"] = lambda a=size, b=worlds: steps(a, b, chosen.repeats)
    run_sections({}, sections, chosen.result)


if __name__ == "__main__":
    main()
