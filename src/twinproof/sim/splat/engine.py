"""The CPU engine: the steps of a picture in order, on threads, for one camera or a batch.

Work is cut into blocks that do not depend on the number of threads, and every sum is taken in a fixed order: pictures
and slopes are the same to the last bit on one thread and on many.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from twinproof.sim.splat import blend, discs, project, project_back, surfels, surfels_back, tiles
from twinproof.sim.splat.blend import Flow, Picture
from twinproof.sim.splat.lens import NUMBERS
from twinproof.sim.splat.project import Cloud, Drawn, Eye
from twinproof.sim.splat.project_back import Slopes

BLOCK = 2048  # splats that one call projects
NEAR = 0.01  # m
SHARED = 3  # cameras from which on it pays to prepare every splat once, also those that some do not see


@dataclass(frozen=True)
class Kernels:
    """The steps that differ between volumes and surfels."""

    project: Callable[..., int]
    shape: tuple[int, int]  # columns of a drawn row and of a place
    forward: Callable[..., None]
    backward: Callable[..., None]
    grads: int  # columns of a pair's slopes
    back: Callable[..., None]


@cache
def kernels(flat: bool, more: bool) -> Kernels:
    """The compiled steps; the first call on a machine compiles them, later ones read them from disk."""
    if flat:
        forward, backward = discs.forward_kernel(more), discs.backward_kernel(more)
        grads = discs.GRADS_MORE if more else discs.GRADS
        return Kernels(
            surfels.project, (surfels.COLUMNS, surfels.PLACES), forward, backward, grads, surfels_back.project_back
        )
    forward, backward = blend.forward_kernel(more), blend.backward_kernel(more)
    grads = blend.GRADS_MORE if more else blend.GRADS
    return Kernels(
        project.project, (project.COLUMNS, project.PLACES), forward, backward, grads, project_back.project_back
    )


@dataclass(frozen=True)
class Kept:
    """What the way back needs of the way there."""

    eye: Eye
    drawn: Drawn
    lists: tiles.Lists
    picture: Picture


def cloud_of(*arrays: np.ndarray) -> Cloud:
    """The kernels' arrays, not copied. None is written to, but numba compiles twice what may be read-only or not."""
    m, q, s, o, c, g = (a if a.flags.writeable else np.asarray(_Writable(a)) for a in arrays)
    return Cloud(m, q, s, o, c, g, np.empty((0, project.READY)))


def readied(cloud: Cloud, threads: int) -> Cloud:
    """The same with every splat prepared: for who draws it many times."""
    ready = cloud._replace(ready=np.empty((len(cloud.means), project.READY)))
    spread(lambda span: project.prepare(ready, *span), blocks(len(cloud.means)), threads)
    return ready


class _Writable:
    """The same memory without the read-only mark."""

    def __init__(self, array: np.ndarray) -> None:
        self._keep = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="splat")


def spread(work: Callable[[Any], Any], items: Sequence[Any], threads: int) -> list[Any]:
    """work(item) for every item, results in order; threads take the next item when they are free."""
    if threads <= 1 or len(items) <= 1:
        return [work(item) for item in items]
    results: list[Any] = [None] * len(items)
    todo = iter(range(len(items)))

    def run(_: int) -> None:
        for k in todo:  # next() on a range iterator is one step of the interpreter: no two threads get the same
            results[k] = work(items[k])

    list(_pool(threads).map(run, range(threads)))
    return results


def blocks(count: int, size: int = BLOCK) -> list[tuple[int, int]]:
    """Spans of at most `size` that cover range(count)."""
    return [(lo, min(lo + size, count)) for lo in range(0, count, size)]


def forward(cloud: Cloud, eye: Eye, flat: bool, more: bool, threads: int) -> Kept:
    """One picture, and what is needed to go back."""
    steps = kernels(flat, more)
    drawn = _visible(cloud, eye, steps, threads)
    width, height = int(eye.lens[16]), int(eye.lens[17])
    lists = _lists(drawn, width, height, threads)
    rest = (height, width) if more else (0, 0)
    picture = Picture(
        np.empty((height, width, 3), np.float32),
        np.empty((height, width), np.float32),
        np.empty((height, width), np.int32),
        np.empty((*rest, 4), np.float32),
        np.empty(rest, np.int32),
        np.empty(rest, np.float32),
        np.empty(rest, np.int32),
    )
    spread(lambda s: steps.forward(lists, drawn, cloud.group, picture, *s), _tile_spans(lists, threads), threads)
    return Kept(eye, drawn, lists, picture)


def backward(cloud: Cloud, kept: Kept, flow: Flow, flat: bool, more: bool, threads: int, out: Slopes) -> None:
    """Adds one picture's slopes to `out`; its V and lens have one row for each block of BLOCK splats at least."""
    steps = kernels(flat, more)
    lists, drawn = kept.lists, kept.drawn
    pairs = np.empty((len(lists.splat), steps.grads), np.float32)
    span = _tile_spans(lists, threads)
    spread(lambda s: steps.backward(lists, drawn, kept.picture, flow, pairs, *s), span, threads)
    numbered = list(enumerate(blocks(len(drawn.which))))
    spread(lambda b: steps.back(cloud, kept.eye, drawn, lists, pairs, more, out, b[0], *b[1]), numbered, threads)


def forward_batch(cloud: Cloud, eyes: Sequence[Eye], flat: bool, more: bool, threads: int) -> list[Kept]:
    """One picture for each camera. Many cameras go to the threads whole, a few are each cut up."""
    if len(eyes) >= SHARED and not len(cloud.ready):
        cloud = readied(cloud, threads)
    if len(eyes) >= 2 * threads:
        return spread(lambda eye: forward(cloud, eye, flat, more, 1), eyes, threads)
    return [forward(cloud, eye, flat, more, threads) for eye in eyes]


def backward_batch(
    cloud: Cloud, kept: Sequence[Kept], flows: Sequence[Flow], flat: bool, more: bool, threads: int, groups: int
) -> tuple[tuple[np.ndarray, ...], np.ndarray, np.ndarray]:
    """The slopes by the splats, summed over the cameras in their order, and by each camera's matrices and lens."""
    out = room(cloud, groups)
    V, lens = np.empty((len(kept), groups, 3, 4)), np.empty((len(kept), NUMBERS))
    for k, (each, flow) in enumerate(zip(kept, flows, strict=True)):
        out.V[:], out.lens[:] = 0.0, 0.0
        backward(cloud, each, flow, flat, more, threads, out)
        V[k], lens[k] = out.V.sum(axis=0), out.lens.sum(axis=0)
    return out[:5], V, lens


def room(cloud: Cloud, groups: int) -> Slopes:
    """Slopes of zero."""
    count = max(len(blocks(len(cloud.means))), 1)
    n = len(cloud.means)
    means, quats, scales = (np.zeros((n, width), np.float32) for width in (3, 4, 3))
    sh = np.zeros(cloud.sh.shape, np.float32)
    V, lens = np.zeros((count, groups, 3, 4)), np.zeros((count, NUMBERS))
    return Slopes(means, quats, scales, np.zeros(n, np.float32), sh, V, lens)


def warm() -> None:
    """Compiles every kernel by drawing one splat there and back; once compiled, they are read from disk."""
    means, ones = np.array([[0.0, 0.0, 1.0]], np.float32), np.ones((1, 4), np.float32)
    group, sh = np.zeros(1, np.int32), np.zeros((1, 4, 3), np.float32)
    cloud = cloud_of(means, ones, np.full((1, 3), -3, np.float32), np.zeros(1, np.float32), sh, group)
    numbers = np.zeros(NUMBERS)
    numbers[:4], numbers[16:] = (8.0, 8.0, 7.5, 7.5), 16
    eye = Eye(np.eye(4)[None, :3].copy(), numbers, NEAR, 4)
    for flat in (False, True):
        for more in (False, True):
            kept = forward_batch(cloud, [eye] * SHARED, flat, more, 1)
            flow = Flow(*(np.zeros_like(kept[0].picture[k]) for k in (0, 1, 3, 5)))
            backward_batch(cloud, kept[:1], [flow], flat, more, 1, 1)


def _visible(cloud: Cloud, eye: Eye, steps: Kernels, threads: int) -> Drawn:
    """The splats that can be seen, nearest first."""
    count = len(cloud.means)
    loose = _room(count, steps.shape)
    spans = blocks(count)
    found = spread(lambda s: steps.project(cloud, eye, loose, *s), spans, threads)
    places = [np.arange(lo, lo + n, dtype=np.int32) for (lo, _), n in zip(spans, found, strict=True)]
    where = np.concatenate(places) if places else np.zeros(0, np.int32)
    order = np.empty(len(where), np.int32)
    tiles.depth_order(loose.key[where], order)
    order = where[order]
    drawn = _room(len(order), steps.shape)
    tiles.gather(order, loose, drawn)
    return drawn


def _room(count: int, shape: tuple[int, int]) -> Drawn:
    rows, places = np.empty((count, shape[0]), np.float32), np.empty((count, shape[1]))
    return Drawn(np.empty(count, np.int32), np.empty(count, np.uint32), places, rows)


def _lists(drawn: Drawn, width: int, height: int, threads: int) -> tiles.Lists:
    tiles_x, tiles_y = -(-width // tiles.TILE), -(-height // tiles.TILE)
    count, total = tiles_x * tiles_y, len(drawn.which)
    spans = blocks(total, max(BLOCK, -(-total // 4))) or [(0, 0)]
    counts, first = np.zeros((len(spans), count), np.int64), np.zeros(total + 1, np.int64)
    numbered = list(enumerate(spans))
    kept = np.empty((total, 2 * tiles.KEPT_ROWS), np.int16)
    spread(lambda b: tiles.count(drawn, *b[1], tiles_x, tiles_y, counts, b[0], first, kept), numbered, threads)
    np.cumsum(first, out=first)
    start = np.empty(count + 1, np.int64)
    tiles.places(counts, start)
    lists = tiles.Lists(start, np.empty(first[-1], np.int32), first, np.empty(first[-1], np.int32))
    spread(lambda b: tiles.fill(drawn, *b[1], tiles_x, tiles_y, counts, b[0], lists, kept), numbered, threads)
    return lists


def _tile_spans(lists: tiles.Lists, threads: int) -> list[tuple[int, int]]:
    """Runs of tiles of about equal work: all on one thread, else eight for each."""
    count = len(lists.start) - 1
    if threads <= 1:
        return [(0, count)]
    work = lists.start + 4 * np.arange(count + 1)
    cuts = np.searchsorted(work, np.linspace(0, work[-1], 8 * threads + 1))
    cuts[0], cuts[-1] = 0, count
    return [(int(lo), int(hi)) for lo, hi in pairwise(cuts) if hi > lo]
