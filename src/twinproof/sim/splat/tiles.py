"""Which splats each tile of 16 × 16 pixels sees, nearest first."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from twinproof.sim.splat.lens import EXACT
from twinproof.sim.splat.project import EDGE, HALF_X, HALF_Y, LEAN, A, B, C

TILE = 16
DIGIT = 11  # bits of a radix pass: three passes sort 32 bits
MASK = (1 << DIGIT) - 1
KEPT_ROWS = 4  # of tiles, for each splat


class Lists(NamedTuple):
    """Tile t sees the splats splat[start[t] : start[t + 1]], nearest first (places in the sorted order)."""

    start: np.ndarray  # (tiles + 1,) int64
    splat: np.ndarray  # (pairs,) int32
    first: np.ndarray  # (M + 1,) int64: the pairs of splat j are slot[first[j] : first[j + 1]]
    slot: np.ndarray  # (pairs,) int32, where each pair of a splat stands in `splat`


@njit(**EXACT)
def depth_order(key, order):
    """Writes the places of the keys from small to large, equal ones as they came: a radix sort."""
    n = len(key)
    other = np.empty(n, np.int32)
    counts = np.zeros((3, 1 << DIGIT), np.int64)
    for i in range(n):
        k = np.int64(key[i])
        counts[0, k & MASK] += 1
        counts[1, (k >> DIGIT) & MASK] += 1
        counts[2, k >> (2 * DIGIT)] += 1
        order[i] = i
    source, target = order, other
    for digit in range(3):
        total = np.int64(0)
        for b in range(1 << DIGIT):
            here = counts[digit, b]
            counts[digit, b] = total
            total += here
        for i in range(n):
            j = source[i]
            bucket = (np.int64(key[j]) >> (DIGIT * digit)) & MASK
            target[counts[digit, bucket]] = j
            counts[digit, bucket] += 1
        source, target = target, source
    order[:] = source


@njit(**EXACT)
def gather(order, source, target):
    """Copies the visible splats in their order."""
    for i in range(len(order)):
        j = order[i]
        target.which[i] = source.which[j]
        for k in range(source.xy.shape[1]):
            target.xy[i, k] = source.xy[j, k]
        for k in range(source.row.shape[1]):
            target.row[i, k] = source.row[j, k]


@njit(**EXACT)
def band(row, j, x, y, top, low):
    """From which to which x splat j's contour reaches between the lines y = top and y = low (which it meets)."""
    half, lean = row[j, HALF_Y], row[j, LEAN]
    near, far = max(top - y, -half), min(low - y, half)
    right, left = min(max(lean, near), far), min(max(-lean, near), far)
    a, b, c, edge = row[j, A], row[j, B], row[j, C], row[j, EDGE]
    reach_right = (math.sqrt(max(edge - (c * right) ** 2, 0.0)) - b * right) / a
    reach_left = (-math.sqrt(max(edge - (c * left) ** 2, 0.0)) - b * left) / a
    return x + reach_left, x + reach_right


@njit(**EXACT)
def rows_of(row, j, y, tiles_y):
    """The rows of tiles, from and up to, that splat j's contour touches."""
    top = max(np.ceil(y - row[j, HALF_Y] - 1e-4), 0.0)
    low = min(np.floor(y + row[j, HALF_Y] + 1e-4), tiles_y * 16.0 - 1.0)
    return (int(top) >> 4, (int(low) >> 4) + 1) if top <= low else (0, 0)


@njit(**EXACT)
def columns_of(row, j, x, y, tile_y, tiles_x):
    """The tiles of a row of tiles, from and up to, that splat j's contour touches. 1e-4 px forgive rounding."""
    left, right = x - row[j, HALF_X], x + row[j, HALF_X]
    if row[j, A] > 0.0:
        left, right = band(row, j, x, y, tile_y * 16.0, tile_y * 16.0 + 15.0)
    left, right = max(np.ceil(left - 1e-4), 0.0), min(np.floor(right + 1e-4), tiles_x * 16.0 - 1.0)
    return (int(left) >> 4, (int(right) >> 4) + 1) if left <= right else (0, 0)


@njit(**EXACT)
def count(drawn, lo, hi, tiles_x, tiles_y, counts, block, pairs, spans):
    """Adds up how many of the splats lo to hi each tile sees, and writes how many tiles see each splat.

    The first rows of tiles of each splat are kept in `spans`, so that `fill` need not find them again.
    """
    row = drawn.row
    for j in range(lo, hi):
        x, y = drawn.xy[j, 0], drawn.xy[j, 1]
        total = 0
        first, last = rows_of(row, j, y, tiles_y)
        for ty in range(first, last):
            left, right = columns_of(row, j, x, y, ty, tiles_x)
            if ty - first < KEPT_ROWS:
                spans[j, 2 * (ty - first)], spans[j, 2 * (ty - first) + 1] = left, right
            for tile in range(ty * tiles_x + left, ty * tiles_x + right):
                counts[block, tile] += 1
            total += max(right - left, 0)
        pairs[j + 1] = total


@njit(**EXACT)
def fill(drawn, lo, hi, tiles_x, tiles_y, place, block, lists, spans):
    """Writes the splats lo to hi into the lists; `place` says where this block's next goes in each tile."""
    row, splat, slot = drawn.row, lists.splat, lists.slot
    for j in range(lo, hi):
        x, y = drawn.xy[j, 0], drawn.xy[j, 1]
        mine = lists.first[j]
        first, last = rows_of(row, j, y, tiles_y)
        for ty in range(first, last):
            if ty - first < KEPT_ROWS:
                left, right = int(spans[j, 2 * (ty - first)]), int(spans[j, 2 * (ty - first) + 1])
            else:
                left, right = columns_of(row, j, x, y, ty, tiles_x)
            for tile in range(ty * tiles_x + left, ty * tiles_x + right):
                here = place[block, tile]
                splat[here] = j
                slot[mine] = here
                mine += 1
                place[block, tile] = here + 1


@njit(**EXACT)
def places(counts, start):
    """Turns counts by block and tile into first places, and writes where each tile begins."""
    total = np.int64(0)
    for tile in range(counts.shape[1]):
        start[tile] = total
        for block in range(counts.shape[0]):
            here = counts[block, tile]
            counts[block, tile] = total
            total += here
    start[counts.shape[1]] = total
