"""What each pixel's ray meets first: pixels in tiles, each with the few shapes that its cone of rays can meet."""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from twinproof.sim.ray_shapes import ENTRY, FAR, INLINE, enter, normal, sources, to_local

TILE = 8


class Eye(NamedTuple):
    """A camera: where it is, how it is turned, and the ray (x, y, 1) of every pixel, so that t is the depth."""

    pos: np.ndarray  # (3,)
    rot: np.ndarray  # (9,) row-major, camera to world
    xy: np.ndarray  # (H, W, 2)
    pixel: float  # width of a pixel at depth 1


class Hits(NamedTuple):
    """The first surface of every pixel; shape is -1 where there is none."""

    shape: np.ndarray  # (H, W) int32
    part: np.ndarray  # (H, W) int32
    depth: np.ndarray  # (H, W) float64, along the optical axis
    uv: np.ndarray  # (H, W, 2) float64
    normal: np.ndarray  # (H, W, 3) float32


@njit(**INLINE)
def ray(eye, row, col, sub_x, sub_y):
    """The world direction through a pixel, sub_x and sub_y pixels off its centre."""
    h, w, _ = eye.xy.shape
    x, y = eye.xy[row, col, 0], eye.xy[row, col, 1]
    if sub_x != 0.0 or sub_y != 0.0:
        left, right, up, down = max(col - 1, 0), min(col + 1, w - 1), max(row - 1, 0), min(row + 1, h - 1)
        a, b = sub_x / max(right - left, 1), sub_y / max(down - up, 1)
        x0, y0 = x, y
        x = x0 + a * (eye.xy[row, right, 0] - eye.xy[row, left, 0]) + b * (eye.xy[down, col, 0] - eye.xy[up, col, 0])
        y = y0 + a * (eye.xy[row, right, 1] - eye.xy[row, left, 1]) + b * (eye.xy[down, col, 1] - eye.xy[up, col, 1])
    r = eye.rot
    return r[0] * x + r[1] * y + r[2], r[3] * x + r[4] * y + r[5], r[6] * x + r[7] * y + r[8]


@njit(**INLINE)
def tile_shapes(s, eye, row0, row1, col0, col1, found, key):
    """The shapes that the rays of a tile can meet, nearest ball first: how many; `found` and `key` are filled."""
    ax, ay, az = ray(eye, (row0 + row1 - 1) // 2, (col0 + col1 - 1) // 2, 0.0, 0.0)
    scale = 1.0 / math.sqrt(ax * ax + ay * ay + az * az)
    ax, ay, az = ax * scale, ay * scale, az * scale
    cosine = 1.0
    for corner in range(4):
        row, col = (row0 if corner < 2 else row1 - 1), (col0 if corner % 2 == 0 else col1 - 1)
        x, y, z = ray(eye, row, col, -0.6 if corner % 2 == 0 else 0.6, -0.6 if corner < 2 else 0.6)
        cosine = min(cosine, (x * ax + y * ay + z * az) / math.sqrt(x * x + y * y + z * z))
    angle = math.acos(max(-1.0, min(1.0, cosine))) * 1.05 + 1e-4  # a bent lens bows the sides of a tile outwards
    cosine, sine = math.cos(angle), math.sin(angle)
    n = 0
    for k in range(s.kind.size):
        near = 0.0
        bound = s.bound[k]
        if bound >= 0.0:
            x, y, z = s.pos[k, 0] - eye.pos[0], s.pos[k, 1] - eye.pos[1], s.pos[k, 2] - eye.pos[2]
            along, square = x * ax + y * ay + z * az, x * x + y * y + z * z
            if square > bound * bound:
                aside = math.sqrt(max(square - along * along, 0.0))
                if along < -bound or aside * cosine - along * sine > bound:
                    continue
                near = math.sqrt(square) - bound
        slot = n
        while slot > 0 and key[slot - 1] > near:
            key[slot], found[slot] = key[slot - 1], found[slot - 1]
            slot -= 1
        key[slot], found[slot] = near, k
        n += 1
    return n


@njit(**INLINE)
def first(s, ox, oy, oz, dx, dy, dz, near, found, key, n):
    """The first front among the n shapes found: (shape, t, part, u, v); the shape is -1 where there is none."""
    length = math.sqrt(dx * dx + dy * dy + dz * dz)
    best, shape, part, u, v = FAR, -1, 0, 0.0, 0.0
    for i in range(n):
        if key[i] > best * length:
            break
        t, p, e, f = enter(s, found[i], ox, oy, oz, dx, dy, dz, near, best)
        if t < best:
            best, shape, part, u, v = t, found[i], p, e, f
    return shape, best, part, u, v


@njit(**INLINE)
def on_edge(hits, row, col):
    """Whether a neighbour shows another shape, another side, or a surface that is clearly nearer or farther."""
    h, w = hits.depth.shape
    k, z = hits.shape[row, col], hits.depth[row, col]
    for step in range(4):
        r = row + (1 if step == 0 else -1 if step == 1 else 0)
        c = col + (1 if step == 2 else -1 if step == 3 else 0)
        if r < 0 or c < 0 or r >= h or c >= w:
            continue
        if hits.shape[r, c] != k:
            return True
        if k < 0:
            continue
        dot = 0.0
        for i in range(3):
            dot += float(hits.normal[row, col, i]) * float(hits.normal[r, c, i])
        if dot < 0.9 or abs(hits.depth[r, c] - z) > 0.1 * z:
            return True
    return False


def _trace_rows(stamp):
    @njit(**ENTRY)
    def trace_rows(s, eye, hits, found, key, first_row, last_row):
        """Fills the hits of some rows; first_row is a multiple of TILE; found and key are working space."""
        if stamp < 0:  # never; but what is closed over is part of the cache's key
            return
        h, w = hits.depth.shape
        ox, oy, oz = eye.pos
        for row0 in range(first_row, last_row, TILE):
            row1 = min(row0 + TILE, h)
            for col0 in range(0, w, TILE):
                col1 = min(col0 + TILE, w)
                n = tile_shapes(s, eye, row0, row1, col0, col1, found, key)
                for row in range(row0, row1):
                    for col in range(col0, col1):
                        dx, dy, dz = ray(eye, row, col, 0.0, 0.0)
                        k, t, part, u, v = first(s, ox, oy, oz, dx, dy, dz, 1e-9, found, key, n)
                        hits.shape[row, col], hits.part[row, col] = k, part
                        if k < 0:
                            hits.depth[row, col] = np.inf
                            hits.normal[row, col] = 0.0
                            continue
                        hits.depth[row, col], hits.uv[row, col, 0], hits.uv[row, col, 1] = t, u, v
                        x, y, z = ox + t * dx - s.pos[k, 0], oy + t * dy - s.pos[k, 1], oz + t * dz - s.pos[k, 2]
                        x, y, z = to_local(s, k, x, y, z)
                        x, y, z = normal(s, k, part, x, y, z)
                        hits.normal[row, col, 0], hits.normal[row, col, 1], hits.normal[row, col, 2] = x, y, z

    return trace_rows


trace_rows = _trace_rows(sources())
