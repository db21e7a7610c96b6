"""How fast pictures are made: `python -m bench.render [--png FOLDER]`.

The scene is a lab with two arms on a wooden table, two lamps with soft shadows. Ways to do the same work take turns, so
that a busy machine slows both, and the best of each counts. Colours have no rival without OpenGL: their figure is
beside the rays of mj_multiRay for the same pixels, which give depth and ids alone.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bench.ingest import best_of
from bench.lab_scene import lab_model, lab_state, png

from twinproof.sim.render import best
from twinproof.sim.render_camera import Named, pixel_rays
from twinproof.sim.render_gl import GL, gl_device, gl_problem
from twinproof.sim.render_rays import Rays

SIZES = ((320, 240), (640, 480))
STATES = 8


def mujoco_rays(model: Any, data: Any, view: Named) -> Callable[[], Any]:
    """Depth and ids of one picture by mj_multiRay, the rays made beforehand."""
    import mujoco

    camera = view.at(model, data)
    xy = pixel_rays(camera.lens)
    rays = np.concatenate([xy, np.ones((*xy.shape[:2], 1))], axis=-1) @ camera.T_world_camera[:3, :3].T
    n, start, flat = xy.shape[0] * xy.shape[1], np.array(camera.T_world_camera[:3, 3]), rays.reshape(-1).copy()
    geom, dist = np.empty(n, np.int32), np.empty(n)
    groups = np.array([1, 1, 1, 0, 0, 0], np.uint8)
    return lambda: mujoco.mj_multiRay(model, data, start, flat, groups, True, -1, geom, dist, None, n, 1e10)


def compare(model: Any, data: Any, size: tuple[int, int]) -> None:
    """Prints the frames in a second of every way, and the ratios."""
    view, many = Named("front", *size), [lab_state(model, 0.1 * k) for k in range(STATES)]
    exact, colour = ("depth", "segmentation"), ("rgb",)
    with Rays().on(model) as all_threads, Rays(threads=1).on(model) as one_thread:
        ways: dict[str, tuple[Callable[[], Any], int]] = {
            "mj_multiRay: depth, ids (1 thread)": (mujoco_rays(model, data, view), 1),
            "Rays: depth, ids (1 thread)": (lambda: one_thread.render(data, view, exact), 1),
            "Rays: depth, ids": (lambda: all_threads.render(data, view, exact), 1),
            "Rays: colour (1 thread)": (lambda: one_thread.render(data, view, colour), 1),
            "Rays: colour": (lambda: all_threads.render(data, view, colour), 1),
            "Rays: colour, many at once": (lambda: all_threads.render_many(many, [view], colour), STATES),
        }
        if gl_problem() is None:
            name = gl_device().name.split(" (")[0]
            with GL().on(model) as studio:
                ways[f"GL on {name}: depth, ids"] = (lambda: studio.render(data, view, exact), 1)
                ways[f"GL on {name}: colour"] = (lambda: studio.render(data, view, colour), 1)
                seconds = best_of([way for way, _ in ways.values()])
        else:
            seconds = best_of([way for way, _ in ways.values()])
    rates = {name: frames / s for (name, (_, frames)), s in zip(ways.items(), seconds, strict=True)}
    base = rates["mj_multiRay: depth, ids (1 thread)"]
    print(f"\n{size[0]} × {size[1]}, {model.ngeom} geoms")
    for name, rate in rates.items():
        print(f"  {name:<38} {rate:>8.1f} frames/s   × mj_multiRay {rate / base:6.2f}")


def main() -> None:
    """All sizes; with --png the pictures too, to be looked at."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--png", type=Path)
    where = parser.parse_args().png
    model = lab_model()
    data = lab_state(model)
    print(f"threads: {len(os.sched_getaffinity(0))}; OpenGL: {gl_problem() or gl_device().name}; best(): {best().why}")
    for size in SIZES:
        compare(model, data, size)
    if where is not None:
        where.mkdir(parents=True, exist_ok=True)
        for name in ("front", "side", "top"):
            image = Rays(corner_rays=12, edge_samples=3).render(model, data, Named(name, 640, 480), ("rgb",))
            (where / f"{name}.png").write_bytes(png(image.rgb))


if __name__ == "__main__":
    main()
