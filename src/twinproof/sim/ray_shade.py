"""The colour of every pixel: MuJoCo's lights and materials in linear light, soft shadows, mirrors, smooth edges."""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from twinproof.sim.ray_lights import Lights, ambient_share, lit_share, nearby
from twinproof.sim.ray_shapes import ENTRY, INLINE, MESH, Shapes, normal, sources, to_local, to_world
from twinproof.sim.ray_textures import Mapping, Textures, colour, cube_face, sample
from twinproof.sim.ray_trace import TILE, first, on_edge, ray, tile_shapes

LAYERS = 6  # glass behind glass behind a mirror, at most
SHOULDER = 0.75  # linear light above this is compressed, so that highlights roll off as film does


class Looks(NamedTuple):
    """What each shape is made of, and what is seen where there is no shape."""

    rgba: np.ndarray  # (n, 4), linear light
    emission: np.ndarray  # (n,)
    specular: np.ndarray  # (n,)
    shininess: np.ndarray  # (n,) exponent
    mirror: np.ndarray  # (n,)
    normal_first: np.ndarray  # (n,) int32: first vertex normal of the mesh
    vertex_normal: np.ndarray  # (N, 3) float32
    face_normal: np.ndarray  # (F, 3) int32
    sky: np.ndarray  # (3,) linear light, where no skybox is
    sky_texture: int


class Scene(NamedTuple):
    """All that a picture is made of."""

    shapes: Shapes
    looks: Looks
    mapping: Mapping
    textures: Textures
    lights: Lights


@njit(**INLINE)
def _sky(scene, dx, dy, dz, pixel):
    texture = scene.looks.sky_texture
    if texture < 0:
        return scene.looks.sky[0], scene.looks.sky[1], scene.looks.sky[2]
    face, s, t = cube_face(dx, dz, -dy)
    return sample(scene.textures, texture, face, s, t, 0.5 * pixel * scene.textures.width[texture, 0], False)


@njit(**INLINE)
def _smooth(scene, k, part, u, v, x, y, z):
    """The normal to shade with: that of the surface, or on a mesh the one between its corners' normals."""
    s, looks = scene.shapes, scene.looks
    if s.kind[k] != MESH:
        return normal(s, k, part, x, y, z)
    f, start = s.mesh[k, 1] + part, looks.normal_first[k]
    a, b, c = start + looks.face_normal[f, 0], start + looks.face_normal[f, 1], start + looks.face_normal[f, 2]
    e, w = looks.vertex_normal, 1.0 - u - v
    nx = w * e[a, 0] + u * e[b, 0] + v * e[c, 0]
    ny = w * e[a, 1] + u * e[b, 1] + v * e[c, 1]
    nz = w * e[a, 2] + u * e[b, 2] + v * e[c, 2]
    nx, ny, nz = to_world(s, k, nx, ny, nz)
    scale = 1.0 / math.sqrt(max(nx * nx + ny * ny + nz * nz, 1e-300))
    return nx * scale, ny * scale, nz * scale


@njit(**INLINE)
def _surface(scene, near, k, part, u, v, px, py, pz, dx, dy, dz, footprint):
    """The light that leaves a point of shape k against the ray, and the normal there."""
    s, looks, lights = scene.shapes, scene.looks, scene.lights
    x, y, z = to_local(s, k, px - s.pos[k, 0], py - s.pos[k, 1], pz - s.pos[k, 2])
    nx, ny, nz = _smooth(scene, k, part, u, v, x, y, z)
    facing = abs(nx * dx + ny * dy + nz * dz)
    r, g, b = colour(s, scene.mapping, scene.textures, k, part, u, v, x, y, z, footprint / math.sqrt(max(facing, 0.05)))
    r, g, b = r * looks.rgba[k, 0], g * looks.rgba[k, 1], b * looks.rgba[k, 2]
    glow = looks.emission[k]
    sum_r, sum_g, sum_b = glow, glow, glow
    shine_r, shine_g, shine_b = 0.0, 0.0, 0.0
    open_sky = ambient_share(s, lights, near, k, px, py, pz, nx, ny, nz)
    for i in range(lights.kind.size):
        lx, ly, lz, strength = _towards(lights, i, px, py, pz)
        if strength <= 0.0:
            continue
        share = strength * open_sky
        sum_r += share * lights.ambient[i, 0]
        sum_g += share * lights.ambient[i, 1]
        sum_b += share * lights.ambient[i, 2]
        slope = nx * lx + ny * ly + nz * lz
        if slope <= 0.0:
            continue
        if lights.shadow[i]:
            strength *= lit_share(s, lights, near, i, k, px, py, pz)
            if strength <= 0.0:
                continue
        sum_r += strength * slope * lights.diffuse[i, 0]
        sum_g += strength * slope * lights.diffuse[i, 1]
        sum_b += strength * slope * lights.diffuse[i, 2]
        if looks.specular[k] > 0.0:
            hx, hy, hz = lx - dx, ly - dy, lz - dz
            half = (nx * hx + ny * hy + nz * hz) / math.sqrt(max(hx * hx + hy * hy + hz * hz, 1e-300))
            if half > 0.5:
                gloss = strength * looks.specular[k] * half ** looks.shininess[k]
                shine_r += gloss * lights.specular[i, 0]
                shine_g += gloss * lights.specular[i, 1]
                shine_b += gloss * lights.specular[i, 2]
    return r * sum_r + shine_r, g * sum_g + shine_g, b * sum_b + shine_b, nx, ny, nz


@njit(**INLINE)
def _towards(lights, i, px, py, pz):
    """The unit vector to light i and how much of it arrives when nothing is between."""
    if lights.kind[i] == 1:  # directional
        return -lights.dir[i, 0], -lights.dir[i, 1], -lights.dir[i, 2], 1.0
    x, y, z = lights.pos[i, 0] - px, lights.pos[i, 1] - py, lights.pos[i, 2] - pz
    d = math.sqrt(max(x * x + y * y + z * z, 1e-18))
    x, y, z = x / d, y / d, z / d
    strength = 1.0 / max(lights.fade[i, 0] + d * (lights.fade[i, 1] + d * lights.fade[i, 2]), 1e-9)
    if lights.kind[i] == 0 and lights.cutoff[i] > -1.0:  # spot
        along = -(x * lights.dir[i, 0] + y * lights.dir[i, 1] + z * lights.dir[i, 2])
        if along < lights.cutoff[i]:
            return x, y, z, 0.0
        # The rim of the cone is softened over a few degrees: a real lamp has no knife edge.
        rim = min(1.0, (along - lights.cutoff[i]) / 0.05)
        strength *= rim * max(along, 0.0) ** lights.exponent[i]
    return x, y, z, strength


@njit(**INLINE)
def _light_along(scene, near, ox, oy, oz, dx, dy, dz, pixel, k, t, part, u, v):
    """The light that comes back along a ray whose first hit is known: through glass, off one mirror, from the sky."""
    s, looks = scene.shapes, scene.looks
    red, green, blue, left, before, mirrored = 0.0, 0.0, 0.0, 1.0, 0.0, False
    for _ in range(LAYERS):
        scale = 1.0 / math.sqrt(dx * dx + dy * dy + dz * dz)
        ux, uy, uz = dx * scale, dy * scale, dz * scale
        if k < 0:
            r, g, b = _sky(scene, ux, uy, uz, pixel)
            return red + left * r, green + left * g, blue + left * b
        px, py, pz = ox + t * dx, oy + t * dy, oz + t * dz
        r, g, b, nx, ny, nz = _surface(scene, near, k, part, u, v, px, py, pz, ux, uy, uz, pixel * (before + t))
        alpha, mirror = looks.rgba[k, 3], looks.mirror[k]
        if mirror > 0.0 and s.opaque[k] and not mirrored:
            share, left_after, mirrored, start = left * (1.0 - mirror), left * mirror, True, 1e-5
            twice = 2.0 * (ux * nx + uy * ny + uz * nz)
            ox, oy, oz, before = px + 1e-6 * nx, py + 1e-6 * ny, pz + 1e-6 * nz, before + t
            dx, dy, dz = ux - twice * nx, uy - twice * ny, uz - twice * nz
        else:
            share, left_after, start = left * alpha, left * (1.0 - alpha), t * (1 + 1e-9) + 1e-9
        red, green, blue, left = red + share * r, green + share * g, blue + share * b, left_after
        if left < 0.004:
            break
        k, t, part, u, v = first(s, ox, oy, oz, dx, dy, dz, start, near.every, near.zero, s.kind.size)
    return red, green, blue


@njit(**INLINE)
def _byte(value, curve):
    if value > SHOULDER:
        room = 1.0 - SHOULDER
        value = SHOULDER + room * (1.0 - math.exp(-(value - SHOULDER) / room))
    return curve[int(min(max(value, 0.0), 1.0) * (curve.size - 1) + 0.5)]


@njit(**INLINE)
def _pixel(scene, eye, hits, near, found, key, n, row, col, samples):
    """Linear light of one pixel: one ray inside a surface, samples × samples where an edge crosses it."""
    s = scene.shapes
    ox, oy, oz = eye.pos
    one = samples <= 1 or not on_edge(hits, row, col)
    if one:
        samples = 1
    red, green, blue = 0.0, 0.0, 0.0
    for i in range(samples * samples):
        sub_x, sub_y = (i % samples + 0.5) / samples - 0.5, (i // samples + 0.5) / samples - 0.5
        dx, dy, dz = ray(eye, row, col, sub_x, sub_y)
        k, t, part = hits.shape[row, col], hits.depth[row, col], hits.part[row, col]
        u, v = hits.uv[row, col, 0], hits.uv[row, col, 1]
        if not one:
            k, t, part, u, v = first(s, ox, oy, oz, dx, dy, dz, 1e-9, found, key, n)
        r, g, b = _light_along(scene, near, ox, oy, oz, dx, dy, dz, eye.pixel, k, t, part, u, v)
        # A lamp must not eat the pixel that it only touches.
        red, green, blue = red + min(r, 1.5), green + min(g, 1.5), blue + min(b, 1.5)
    share = 1.0 / (samples * samples)
    return red * share, green * share, blue * share


def _shade_rows(stamp):
    @njit(**ENTRY)
    def shade_rows(scene, eye, hits, samples, curve, rgb, near, found, key, first_row, last_row):
        """Fills the colours of some rows from the hits of all; near, found and key are working space."""
        if stamp < 0:  # never; but what is closed over is part of the cache's key
            return
        s = scene.shapes
        h, w = hits.depth.shape
        for row0 in range(first_row, last_row, TILE):
            row1 = min(row0 + TILE, h)
            for col0 in range(0, w, TILE):
                col1 = min(col0 + TILE, w)
                n = tile_shapes(s, eye, row0, row1, col0, col1, found, key)
                nearby(s, scene.lights, eye, hits, row0, row1, col0, col1, near)
                for row in range(row0, row1):
                    for col in range(col0, col1):
                        r, g, b = _pixel(scene, eye, hits, near, found, key, n, row, col, samples)
                        rgb[row, col, 0], rgb[row, col, 1], rgb[row, col, 2] = (
                            _byte(r, curve), _byte(g, curve), _byte(b, curve)
                        )  # fmt: skip

    return shade_rows


shade_rows = _shade_rows(sources())
