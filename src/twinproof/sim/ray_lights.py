"""Lights and what stands before them: soft shadows from lamps of finite size, and the share of open sky in corners."""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from twinproof.sim.ray_shapes import FAR, FAST, INLINE, MESH, PLANE, enter
from twinproof.sim.ray_trace import ray

DISTANT = 1e3  # m: where a directional light is put to cast its shadows
SKIN = 2e-4  # m: a surface does not shade itself within this


class Lights(NamedTuple):
    """Active lights in linear light. Kinds: 0 spot, 1 directional, 2 point."""

    kind: np.ndarray  # (m,) int32
    pos: np.ndarray  # (m, 3)
    dir: np.ndarray  # (m, 3) unit
    ambient: np.ndarray  # (m, 3)
    diffuse: np.ndarray  # (m, 3)
    specular: np.ndarray  # (m, 3)
    fade: np.ndarray  # (m, 3): 1 / (a + b d + c d²)
    cutoff: np.ndarray  # (m,) cosine; -1: shines all round
    exponent: np.ndarray  # (m,)
    bulb: np.ndarray  # (m,) radius of the lamp in m; of a directional light the tangent of its half-angle
    shadow: np.ndarray  # (m,) bool
    disc: np.ndarray  # (q, 2) points of the unit disc; the first four are tried first
    dome: np.ndarray  # (a, 3) directions above the xy plane, cosine-weighted; none: corners are not darkened
    reach: float  # m: how far the dome's rays look


class Near(NamedTuple):
    """Working space of a tile: the ball that holds its hits, and who may stand between that ball and each light."""

    every: np.ndarray  # (n,) all shapes
    zero: np.ndarray  # (n,) their keys: all may be first
    ball: np.ndarray  # (4,) centre and radius; below 0: nothing is hit
    found: np.ndarray  # (m + 1, n) shapes by light; the last row: those within reach of the dome
    found_count: np.ndarray  # (m + 1,)
    few: np.ndarray  # (n,) those that may stand between one point and one lamp


@njit(**INLINE)
def nearby(s, lights, eye, hits, row0, row1, col0, col1, near):
    """Fills `near` for a tile."""
    _ball(eye, hits, row0, row1, col0, col1, near.ball)
    m = lights.kind.size
    near.found_count[:] = 0
    x, y, z, radius = near.ball
    if radius < 0.0:
        return
    for i in range(m):
        if not lights.shadow[i]:
            continue
        bulb = lights.bulb[i]
        if lights.kind[i] == 1:
            lx, ly, lz = x - DISTANT * lights.dir[i, 0], y - DISTANT * lights.dir[i, 1], z - DISTANT * lights.dir[i, 2]
            bulb *= DISTANT
        else:
            lx, ly, lz = lights.pos[i, 0], lights.pos[i, 1], lights.pos[i, 2]
        for k in range(s.kind.size):
            if s.opaque[k] and _between(s, k, x, y, z, radius, lx, ly, lz, bulb):
                near.found[i, near.found_count[i]] = k
                near.found_count[i] += 1
    if lights.dome.shape[0] == 0:
        return
    for k in range(s.kind.size):
        if s.opaque[k] and _within(s, k, x, y, z, radius + lights.reach):
            near.found[m, near.found_count[m]] = k
            near.found_count[m] += 1


@njit(**FAST)
def _ball(eye, hits, row0, row1, col0, col1, ball):
    n, x, y, z = 0, 0.0, 0.0, 0.0
    for turn in range(2):
        far = 0.0
        for row in range(row0, row1):
            for col in range(col0, col1):
                if hits.shape[row, col] < 0:
                    continue
                t = hits.depth[row, col]
                dx, dy, dz = ray(eye, row, col, 0.0, 0.0)
                px, py, pz = eye.pos[0] + t * dx, eye.pos[1] + t * dy, eye.pos[2] + t * dz
                if turn == 0:
                    n, x, y, z = n + 1, x + px, y + py, z + pz
                else:
                    far = max(far, (px - x) ** 2 + (py - y) ** 2 + (pz - z) ** 2)
        if n == 0:
            ball[3] = -1.0
            return
        if turn == 0:
            x, y, z = x / n, y / n, z / n
        ball[0], ball[1], ball[2], ball[3] = x, y, z, math.sqrt(far) + 1e-6


@njit(**INLINE)
def _height(s, k, x, y, z):
    """How far a point is in front of plane k."""
    return (
        (x - s.pos[k, 0]) * s.rot[k, 2] + (y - s.pos[k, 1]) * s.rot[k, 5] + (z - s.pos[k, 2]) * s.rot[k, 8]
    )  # fmt: skip


@njit(**INLINE)
def _within(s, k, x, y, z, radius):
    if s.kind[k] == PLANE:
        return abs(_height(s, k, x, y, z)) < radius
    reach = radius + s.bound[k]
    return (s.pos[k, 0] - x) ** 2 + (s.pos[k, 1] - y) ** 2 + (s.pos[k, 2] - z) ** 2 < reach * reach


@njit(**INLINE)
def _between(s, k, x, y, z, radius, lx, ly, lz, bulb):
    """Whether shape k may stand between the ball (x, y, z, radius) and a lamp; yes where in doubt."""
    if s.kind[k] == PLANE:
        return _height(s, k, lx, ly, lz) > -bulb and _height(s, k, x, y, z) < radius
    dx, dy, dz = lx - x, ly - y, lz - z
    cx, cy, cz = s.pos[k, 0] - x, s.pos[k, 1] - y, s.pos[k, 2] - z
    square = max(dx * dx + dy * dy + dz * dz, 1e-12)
    share = min(max((cx * dx + cy * dy + cz * dz) / square, 0.0), 1.0)
    reach = s.bound[k] * (1.0 + bulb / math.sqrt(square)) + radius + share * max(bulb - radius, 0.0)
    gx, gy, gz = cx - share * dx, cy - share * dy, cz - share * dz
    return gx * gx + gy * gy + gz * gz < reach * reach


@njit(**INLINE)
def _inside(near, px, py, pz):
    b = near.ball
    return (px - b[0]) ** 2 + (py - b[1]) ** 2 + (pz - b[2]) ** 2 <= b[3] * b[3] and b[3] >= 0.0


@njit(**INLINE)
def lit_share(s, lights, near, i, own, px, py, pz):
    """The share of lamp i that point p of shape `own` sees: 0 in full shadow, 1 in full light.

    A convex shape cannot shade its own lit side, so only a mesh is asked about itself.
    """
    shapes, n = near.every, s.kind.size
    if _inside(near, px, py, pz):
        shapes, n = near.found[i], near.found_count[i]
    if n == 0:
        return 1.0
    if lights.kind[i] == 1:
        lx, ly, lz = px - DISTANT * lights.dir[i, 0], py - DISTANT * lights.dir[i, 1], pz - DISTANT * lights.dir[i, 2]
        bulb = lights.bulb[i] * DISTANT
    else:
        lx, ly, lz, bulb = lights.pos[i, 0], lights.pos[i, 1], lights.pos[i, 2], lights.bulb[i]
    few = 0
    for j in range(n):
        k = shapes[j]
        if s.opaque[k] and (k != own or s.kind[k] == MESH) and _between(s, k, px, py, pz, 0.0, lx, ly, lz, bulb):
            near.few[few] = k
            few += 1
    if few == 0:
        return 1.0
    total = lights.disc.shape[0] if bulb > 0.0 else 1
    ux, uy, uz, vx, vy, vz = _across(px - lx, py - ly, pz - lz)
    lit = 0
    for q in range(total):
        if q == 4 and (lit == 0 or lit == 4):
            return 1.0 if lit else 0.0
        a, b = bulb * lights.disc[q, 0], bulb * lights.disc[q, 1]
        qx, qy, qz = lx + a * ux + b * vx, ly + a * uy + b * vy, lz + a * uz + b * vz
        lit += 0 if _blocked(s, near.few, few, qx, qy, qz, px - qx, py - qy, pz - qz) else 1
    return lit / total


@njit(**INLINE)
def _across(x, y, z):
    """Two unit vectors across a direction."""
    scale = 1.0 / math.sqrt(max(x * x + y * y + z * z, 1e-300))
    x, y, z = x * scale, y * scale, z * scale
    if abs(z) < 0.9:
        ux, uy, uz = y, -x, 0.0
    else:
        ux, uy, uz = 0.0, z, -y
    scale = 1.0 / math.sqrt(ux * ux + uy * uy + uz * uz)
    ux, uy, uz = ux * scale, uy * scale, uz * scale
    return ux, uy, uz, y * uz - z * uy, z * ux - x * uz, x * uy - y * ux


@njit(**INLINE)
def _blocked(s, shapes, n, ox, oy, oz, dx, dy, dz):
    """Whether one of n fronts lies on the way from the lamp to the point."""
    end = 1.0 - SKIN / math.sqrt(max(dx * dx + dy * dy + dz * dz, SKIN * SKIN))
    for j in range(n):
        t, _, _, _ = enter(s, shapes[j], ox, oy, oz, dx, dy, dz, 0.0, end)
        if t < FAR:
            return True
    return False


@njit(**INLINE)
def ambient_share(s, lights, near, own, px, py, pz, nx, ny, nz):
    """The share of the ambient light that reaches p: less in corners and under things."""
    rays, m = lights.dome.shape[0], lights.kind.size
    if rays == 0 or not _inside(near, px, py, pz) or near.found_count[m] == 0:
        return 1.0
    ux, uy, uz, vx, vy, vz = _across(nx, ny, nz)
    ox, oy, oz = px + SKIN * nx, py + SKIN * ny, pz + SKIN * nz
    total = 0.0
    for q in range(rays):
        a, b, c = lights.dome[q, 0], lights.dome[q, 1], lights.dome[q, 2]
        dx, dy, dz = a * ux + b * vx + c * nx, a * uy + b * vy + c * ny, a * uz + b * vz + c * nz
        best = lights.reach
        for j in range(near.found_count[m]):
            k = near.found[m, j]
            if k == own and s.kind[k] != MESH:
                continue
            t, _, _, _ = enter(s, k, ox, oy, oz, dx, dy, dz, 0.0, best)
            best = min(best, t)
        total += best / lights.reach
    return total / rays
