"""Looking up a colour: textures as pyramids of ever smaller copies, in linear light, mapped as MuJoCo maps them."""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from twinproof.sim.ray_shapes import BOX, CAPSULE, CYLINDER, FAST, INLINE, PLANE, SPHERE, corners

# No texture; projected along local z; by direction; by the mesh's own coordinates; wrapped around a primitive.
PLAIN, FLAT, CUBE, UV, WRAP = 0, 1, 2, 3, 4


class Textures(NamedTuple):
    """All textures of a model, each level of each face in one long row of texels."""

    texel: np.ndarray  # (N, 3) float32, linear light
    first: np.ndarray  # (T, 6, L) int64: where a level of a face begins
    width: np.ndarray  # (T, L) int32
    height: np.ndarray  # (T, L) int32
    levels: np.ndarray  # (T,) int32


class Mapping(NamedTuple):
    """How each shape takes its colour from a texture."""

    mode: np.ndarray  # (n,) int32
    texture: np.ndarray  # (n,) int32
    scale: (
        np.ndarray
    )  # (n, 3): FLAT: turns of the texture per metre; UV, WRAP: turns per shape; CUBE: weight of x, y, z
    uv_first: np.ndarray  # (n,) int32: first texture coordinate of the mesh
    uv: np.ndarray  # (U, 2) float32
    face_uv: np.ndarray  # (F, 3) int32


@njit(**FAST)
def _bilinear(e, base, w, h, s, t, wrap):
    x, y = s * w - 0.5, t * h - 0.5
    x0, y0 = math.floor(x), math.floor(y)
    fx, fy = x - x0, y - y0
    i, j = int(x0), int(y0)
    if wrap:
        i0, i1, j0, j1 = i % w, (i + 1) % w, j % h, (j + 1) % h
    else:
        i0, i1 = min(max(i, 0), w - 1), min(max(i + 1, 0), w - 1)
        j0, j1 = min(max(j, 0), h - 1), min(max(j + 1, 0), h - 1)
    a, b, c, d = base + j0 * w + i0, base + j0 * w + i1, base + j1 * w + i0, base + j1 * w + i1
    p, q, r, u = (1 - fx) * (1 - fy), fx * (1 - fy), (1 - fx) * fy, fx * fy
    return (
        p * e[a, 0] + q * e[b, 0] + r * e[c, 0] + u * e[d, 0],
        p * e[a, 1] + q * e[b, 1] + r * e[c, 1] + u * e[d, 1],
        p * e[a, 2] + q * e[b, 2] + r * e[c, 2] + u * e[d, 2],
    )


@njit(**INLINE)
def _level(tx, texture, face, level, s, t, wrap):
    return _bilinear(
        tx.texel, tx.first[texture, face, level], tx.width[texture, level], tx.height[texture, level], s, t, wrap
    )  # fmt: skip


@njit(**INLINE)
def sample(tx, texture, face, s, t, texels, wrap):
    """The colour at (s, t), blurred over a footprint of so many texels."""
    top = tx.levels[texture] - 1
    level = math.log2(texels) if texels > 1.0 else 0.0
    if level >= top:
        return _level(tx, texture, face, top, s, t, wrap)
    low = int(level)
    r, g, b = _level(tx, texture, face, low, s, t, wrap)
    share = level - low
    if share > 0.0:
        p, q, u = _level(tx, texture, face, low + 1, s, t, wrap)
        r, g, b = r + share * (p - r), g + share * (q - g), b + share * (u - b)
    return r, g, b


@njit(**INLINE)
def cube_face(x, y, z):
    """The face of a cube map (right, left, up, down, front, back) that a direction meets, and where: OpenGL's table."""
    ax, ay, az = abs(x), abs(y), abs(z)
    if ax >= ay and ax >= az:
        face, s, t, m = (0, -z, -y, ax) if x > 0 else (1, z, -y, ax)
    elif ay >= az:
        face, s, t, m = (2, x, z, ay) if y > 0 else (3, x, -z, ay)
    else:
        face, s, t, m = (4, x, -y, az) if z > 0 else (5, -x, -y, az)
    m = max(m, 1e-300)
    return face, 0.5 * (s / m + 1.0), 0.5 * (t / m + 1.0)


@njit(**INLINE)
def colour(s, map_, tx, k, part, u, v, x, y, z, footprint):
    """The texture's colour at the local point (x, y, z) of shape k, seen through a pixel of that size in metres."""
    mode, texture = map_.mode[k], map_.texture[k]
    if mode == PLAIN:
        return 1.0, 1.0, 1.0
    a, b = map_.scale[k, 0], map_.scale[k, 1]
    if mode == FLAT:
        texels = footprint * math.sqrt(abs(a * b) * tx.width[texture, 0] * tx.height[texture, 0])
        return sample(tx, texture, 0, a * x + 0.5, 0.5 - b * y, texels, True)
    if mode == CUBE:
        face, e, f = cube_face(a * x, b * y, map_.scale[k, 2] * z)
        reach = max(abs(x), max(abs(y), abs(z)))
        texels = footprint * tx.width[texture, 0] / max(2.0 * reach, 1e-9)
        return sample(tx, texture, face, e, f, texels, False)
    if mode == UV:
        e, f, area = _mesh_uv(s, map_, k, part, u, v)
    else:
        e, f, area = wrapped(s.kind[k], part, s.size[k, 0], s.size[k, 1], s.size[k, 2], x, y, z)
    texels = footprint * math.sqrt(abs(area * a * b) * tx.width[texture, 0] * tx.height[texture, 0])
    return sample(tx, texture, 0, a * e, b * f, texels, True)


@njit(**FAST)
def wrapped(kind, part, sx, sy, sz, x, y, z):
    """Where on the picture (0 … 1 from left, from top) a point of a primitive lies; its density per square metre.

    Found by looking at what MuJoCo 3.17 draws, and held to it by a test.
    """
    if kind == PLANE or (kind == BOX and part >= 4):
        return 0.5 + 0.5 * x / sx, 0.5 - 0.5 * y / sy, 0.25 / (sx * sy)
    if kind == BOX:
        if part < 2:
            return 0.5 + 0.5 * y / sy, 0.5 - 0.5 * z / sz, 0.25 / (sy * sz)
        return 0.5 + 0.5 * x / sx, 0.5 - 0.5 * z / sz, 0.25 / (sx * sz)
    if kind == CYLINDER and part > 0:
        return 0.5 + 0.5 * x / sx, 0.5 + 0.5 * y / sx, 0.25 / (sx * sx)
    if kind in (CYLINDER, CAPSULE):
        around = math.atan2(y, x) / (2 * math.pi)
        if abs(z) <= sy:
            return around % 1.0, 0.5 - 0.5 * z / sy, 0.25 / (math.pi * sx * sy)
        up = math.asin(min(max((abs(z) - sy) / sx, -1.0), 1.0)) / (0.5 * math.pi)
        return around % 1.0, (1.0 - up if z > 0.0 else up), 0.5 / (math.pi * sx) ** 2
    if kind == SPHERE:
        sy, sz = sx, sx
    x, y, z = x / sx, y / sy, z / sz
    return (
        (math.atan2(y, x) / (2 * math.pi)) % 1.0,
        math.acos(min(max(z, -1.0), 1.0)) / math.pi,
        0.5 / (math.pi * math.pi * sx * sz),
    )  # fmt: skip


@njit(**INLINE)
def _mesh_uv(s, map_, k, part, u, v):
    """The mesh's own texture coordinates at a hit, and how much of the texture lies on a square metre there."""
    f, first = s.mesh[k, 1] + part, map_.uv_first[k]
    a, b, c = first + map_.face_uv[f, 0], first + map_.face_uv[f, 1], first + map_.face_uv[f, 2]
    e = map_.uv
    s1, t1, s2, t2 = e[b, 0] - e[a, 0], e[b, 1] - e[a, 1], e[c, 0] - e[a, 0], e[c, 1] - e[a, 1]
    ax, ay, az, bx, by, bz, cx, cy, cz = corners(s.vert, s.face, s.mesh[k, 0], s.mesh[k, 1] + part)
    px, py, pz, qx, qy, qz = bx - ax, by - ay, bz - az, cx - ax, cy - ay, cz - az
    nx, ny, nz = py * qz - pz * qy, pz * qx - px * qz, px * qy - py * qx
    area = abs(s1 * t2 - s2 * t1) / max(math.sqrt(nx * nx + ny * ny + nz * nz), 1e-12)
    return e[a, 0] + u * s1 + v * s2, e[a, 1] + u * t1 + v * t2, area
