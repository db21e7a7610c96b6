"""Ellipses over pixels: front to back forward, back to front backward, one tile of 16 × 16 at a time.

A tile's state lies in one flat float32 buffer, plane after plane, and a splat is applied to a run of whole rows in one
loop. LLVM turns that loop into vectors of 16 (the planes are a constant distance apart, so it need not ask whether they
overlap), and the sums of the backward pass stay in registers until the splat is done.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from twinproof.sim.splat import project as p
from twinproof.sim.splat.tiles import TILE

MATHS = {"contract", "reassoc", "nsz", "arcp", "nnan", "ninf"}
FAST = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": MATHS}
f32 = np.float32
ZERO, ONE, HALF = f32(0), f32(1), f32(0.5)
FLOOR, STOP = f32(p.FLOOR), f32(1e-4)  # of alpha, and of the light that is left: below it a pixel is finished
# exp(y) on [-0.75, 0] to 3e-9; the eighth power of it is the fall-off
E1, E2, E3 = f32(9.99999733e-01), f32(4.99993473e-01), f32(1.66612509e-01)
E4, E5, E6 = f32(4.14563318e-02), f32(7.91126887e-03), f32(9.55261661e-04)
FARTHEST, SIXTEENTH = f32(12.0), f32(-1.0 / 16.0)
AREA = TILE * TILE
CHECK = 32  # splats between two looks at which rows are finished

G_X, G_Y, G_A, G_B, G_C, G_OPACITY, G_RED, G_GREEN, G_BLUE, G_DEPTH, G_NORMAL = range(11)  # columns of a pair's slopes
GRADS, GRADS_MORE = 9, 13


class Picture(NamedTuple):
    """Room for a picture. From `more` on there are no rows where only colours are asked for."""

    colour: np.ndarray  # (H, W, 3) float32
    light: np.ndarray  # (H, W) float32: what passes all splats; alpha is 1 - light
    last: np.ndarray  # (H, W) int32: the last splat drawn on the pixel, counted in its tile's list; -1: none
    more: np.ndarray  # (H, W, 4) float32: sums of depth and of the normal
    median: np.ndarray  # (H, W) int32: the last splat that got more than half of the light, counted so; -1: none
    median_depth: np.ndarray  # (H, W) float32: its depth; 0: none
    group: np.ndarray  # (H, W) int32: its group; -1: none


@njit(inline="always", **FAST)
def fall_off(squares):
    """exp(-squares / 2), right to 1e-6 up to 12; from there on it stays below every alpha that is drawn."""
    y = min(squares, FARTHEST) * SIXTEENTH
    e = ONE + y * (E1 + y * (E2 + y * (E3 + y * (E4 + y * (E5 + y * E6)))))
    e *= e
    e *= e
    return e * e


@njit(**FAST)
def finished(buffer, first, last):
    """The rows, from and up to, between which some pixel still lets light pass."""
    while first < last:
        most = ZERO
        for i in range(TILE):
            most = max(most, buffer[first * TILE + i])
        if most > ZERO:
            break
        first += 1
    while first < last:
        most = ZERO
        for i in range(TILE):
            most = max(most, buffer[(last - 1) * TILE + i])
        if most > ZERO:
            break
        last -= 1
    return first, last


@njit(**FAST)
def touched(y, half, y0, first, last):
    """The rows of the tile, from and up to, that lie within `half` of y. 1e-4 px forgive rounding."""
    top, low = np.ceil(y - half - 1e-4) - y0, np.floor(y + half + 1e-4) - y0
    return max(first, int(max(top, 0.0))), min(last, int(min(low, 15.0)) + 1)


@njit(**FAST)
def coordinates(buffer, plane):
    """Writes each pixel's x and y in the tile into two planes."""
    for i in range(AREA):
        buffer[plane * AREA + i] = f32(i % TILE)
        buffer[(plane + 1) * AREA + i] = f32(i // TILE)


def forward_kernel(more: bool):
    """The forward kernel; with `more` it also sums depths and normals and finds the median splat."""
    X, Y = (10 * AREA, 11 * AREA) if more else (5 * AREA, 6 * AREA)

    @njit(**FAST)
    def forward(lists, drawn, groups, picture, lo, hi):
        """Draws tiles lo to hi. Planes: light, red, green, blue, last, (median, depth, normal x y z,) x, y."""
        height, width = picture.light.shape
        tiles_x = (width + TILE - 1) // TILE
        buffer = np.empty((12 if more else 7) * AREA, np.float32)
        coordinates(buffer, X // AREA)
        for tile in range(lo, hi):
            x0, y0, begin = (tile % tiles_x) * TILE, (tile // tiles_x) * TILE, lists.start[tile]
            buffer[:AREA] = ONE
            buffer[AREA:X] = ZERO
            buffer[4 * AREA : (6 if more else 5) * AREA] = -ONE
            first, last = 0, min(TILE, height - y0)
            for k in range(begin, lists.start[tile + 1]):
                j = lists.splat[k]
                row = drawn.row[j]
                top, low = touched(drawn.xy[j, 1], row[p.HALF_Y], y0, first, last)
                if top < low:
                    a, b, c, opacity = row[p.A], row[p.B], row[p.C], row[p.OPACITY]
                    red, green, blue, depth = row[p.RED], row[p.GREEN], row[p.BLUE], row[p.DEPTH]
                    nx, ny, nz = row[p.NORMAL_X], row[p.NORMAL_Y], row[p.NORMAL_Z]
                    dx, dy = x0 - drawn.xy[j, 0], y0 - drawn.xy[j, 1]
                    u0, v0, number = f32(a * dx + b * dy), f32(c * dy), f32(k - begin)
                    s = buffer[top * TILE :]
                    for i in range((low - top) * TILE):
                        px, py, light = s[i + X], s[i + Y], s[i]
                        u, v = u0 + a * px + b * py, v0 + c * py
                        alpha = opacity * fall_off(u * u + v * v)
                        alpha = alpha if alpha >= FLOOR else ZERO
                        left = light * (ONE - alpha)
                        open_ = left > STOP  # a finished pixel's light is kept below zero
                        weight = alpha * light if open_ else ZERO
                        s[i] = left if open_ else -abs(light)
                        s[i + AREA] += weight * red
                        s[i + 2 * AREA] += weight * green
                        s[i + 3 * AREA] += weight * blue
                        s[i + 4 * AREA] = number if open_ else s[i + 4 * AREA]
                        if more:
                            s[i + 5 * AREA] = number if weight > ZERO and light > HALF else s[i + 5 * AREA]
                            s[i + 6 * AREA] += weight * depth
                            s[i + 7 * AREA] += weight * nx
                            s[i + 8 * AREA] += weight * ny
                            s[i + 9 * AREA] += weight * nz
                if (k - begin) % CHECK == CHECK - 1:
                    first, last = finished(buffer, first, last)
                    if first >= last:
                        break
            write(buffer, lists, drawn, groups, picture, tile, more)

    return forward


@njit(**FAST)
def write(buffer, lists, drawn, groups, picture, tile, more):
    """Writes a tile's planes into the picture; `groups` holds each splat's group."""
    height, width = picture.light.shape
    tiles_x = (width + TILE - 1) // TILE
    x0, y0 = (tile % tiles_x) * TILE, (tile // tiles_x) * TILE
    for r in range(min(TILE, height - y0)):
        for q in range(min(TILE, width - x0)):
            i, y, x = r * TILE + q, y0 + r, x0 + q
            picture.light[y, x] = abs(buffer[i])
            for c in range(3):
                picture.colour[y, x, c] = buffer[i + (1 + c) * AREA]
            picture.last[y, x] = int(buffer[i + 4 * AREA])
            if more:
                number = int(buffer[i + 5 * AREA])
                picture.median[y, x], picture.median_depth[y, x], picture.group[y, x] = number, ZERO, -1
                if number >= 0:
                    j = lists.splat[lists.start[tile] + number]
                    picture.median_depth[y, x], picture.group[y, x] = drawn.row[j, p.DEPTH], groups[drawn.which[j]]
                for c in range(4):
                    picture.more[y, x, c] = buffer[i + (6 + c) * AREA]


class Flow(NamedTuple):
    """What flows back into a picture: the slopes of the loss by each number of it."""

    colour: np.ndarray  # (H, W, 3) float32
    alpha: np.ndarray  # (H, W) float32
    more: np.ndarray  # (H, W, 4) float32
    median_depth: np.ndarray  # (H, W) float32


@njit(**FAST)
def load(buffer, picture, flow, tile, more, deepest):
    """Fills a tile's planes for the way back: light, behind, last, red, green, blue, (depth, normal x y z,
    median, slope by the median's depth).

    Writes the largest `last` of each row into `deepest`, and gives the largest of all. `behind` sums what the splats
    behind add to the loss for each unit of light they get; it starts with what passes all of them.
    """
    height, width = picture.light.shape
    tiles_x = (width + TILE - 1) // TILE
    x0, y0 = (tile % tiles_x) * TILE, (tile // tiles_x) * TILE
    buffer[: (12 if more else 6) * AREA] = ZERO
    buffer[:AREA] = ONE
    buffer[2 * AREA : 3 * AREA] = -ONE
    most = -1
    for r in range(min(TILE, height - y0)):
        deepest[r] = -1
        for q in range(min(TILE, width - x0)):
            i, y, x = r * TILE + q, y0 + r, x0 + q
            buffer[i] = picture.light[y, x]
            buffer[i + AREA] = -flow.alpha[y, x] * picture.light[y, x]
            buffer[i + 2 * AREA] = f32(picture.last[y, x])
            deepest[r] = max(deepest[r], picture.last[y, x])
            for c in range(3):
                buffer[i + (3 + c) * AREA] = flow.colour[y, x, c]
            if more:
                for c in range(4):
                    buffer[i + (6 + c) * AREA] = flow.more[y, x, c]
                buffer[i + 10 * AREA] = f32(picture.median[y, x])
                buffer[i + 11 * AREA] = flow.median_depth[y, x]
        most = max(most, deepest[r])
    return most


@njit(**FAST)
def still_seen(deepest, number, top, low):
    """Of the rows, from and up to, those between which some pixel saw the splat of that number."""
    while top < low and deepest[top] < number:
        top += 1
    while top < low and deepest[low - 1] < number:
        low -= 1
    return top, low


def backward_kernel(more: bool):
    """The backward kernel: for every pair of tile and splat the slopes by what the splat's row holds."""
    X, Y = (12 * AREA, 13 * AREA) if more else (6 * AREA, 7 * AREA)

    @njit(**FAST)
    def backward(lists, drawn, picture, flow, pairs, lo, hi):
        """Writes pairs (rows as G_X … say) of tiles lo to hi; pairs that no pixel saw are zero."""
        height, width = picture.light.shape
        tiles_x = (width + TILE - 1) // TILE
        buffer = np.empty((14 if more else 8) * AREA, np.float32)
        coordinates(buffer, X // AREA)
        deepest = np.empty(TILE, np.int32)
        for tile in range(lo, hi):
            x0, y0, begin = (tile % tiles_x) * TILE, (tile // tiles_x) * TILE, lists.start[tile]
            most = load(buffer, picture, flow, tile, more, deepest)
            rows = min(TILE, height - y0)
            for k in range(lists.start[tile + 1] - 1, begin - 1, -1):
                j = lists.splat[k]
                row, out = drawn.row[j], pairs[k]
                top, low = 0, 0
                if k - begin <= most:
                    top, low = touched(drawn.xy[j, 1], row[p.HALF_Y], y0, 0, rows)
                    top, low = still_seen(deepest, k - begin, top, low)
                if top >= low:
                    out[:] = ZERO
                    continue
                a, b, c, opacity = row[p.A], row[p.B], row[p.C], row[p.OPACITY]
                red, green, blue, depth = row[p.RED], row[p.GREEN], row[p.BLUE], row[p.DEPTH]
                nx, ny, nz = row[p.NORMAL_X], row[p.NORMAL_Y], row[p.NORMAL_Z]
                dx, dy = x0 - drawn.xy[j, 0], y0 - drawn.xy[j, 1]
                u0, v0, number = f32(a * dx + b * dy), f32(c * dy), f32(k - begin)
                g_red, g_green, g_blue, g_depth, g_nx, g_ny, g_nz = ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO
                g, g_u, g_v, g_ux, g_uy, g_vy = ZERO, ZERO, ZERO, ZERO, ZERO, ZERO
                s = buffer[top * TILE :]
                for i in range((low - top) * TILE):
                    px, py = s[i + X], s[i + Y]
                    u, v = u0 + a * px + b * py, v0 + c * py
                    alpha = opacity * fall_off(u * u + v * v)
                    alpha = alpha if alpha >= FLOOR and number <= s[i + 2 * AREA] else ZERO
                    passed = ONE / (ONE - alpha)
                    light = s[i] * passed
                    weight = alpha * light
                    worth = s[i + 3 * AREA] * red + s[i + 4 * AREA] * green + s[i + 5 * AREA] * blue
                    if more:
                        worth += s[i + 6 * AREA] * depth + s[i + 7 * AREA] * nx
                        worth += s[i + 8 * AREA] * ny + s[i + 9 * AREA] * nz
                        g_depth += weight * s[i + 6 * AREA]
                        g_depth += s[i + 11 * AREA] if number == s[i + 10 * AREA] else ZERO
                        g_nx += weight * s[i + 7 * AREA]
                        g_ny += weight * s[i + 8 * AREA]
                        g_nz += weight * s[i + 9 * AREA]
                    g_red += weight * s[i + 3 * AREA]
                    g_green += weight * s[i + 4 * AREA]
                    g_blue += weight * s[i + 5 * AREA]
                    slope = alpha * (s[i + AREA] * passed - light * worth)  # by (u² + v²) / 2
                    s[i] = light
                    s[i + AREA] += weight * worth
                    slope_u, slope_v = slope * u, slope * v
                    g += slope
                    g_u += slope_u
                    g_v += slope_v
                    g_ux += slope_u * px
                    g_uy += slope_u * py
                    g_vy += slope_v * py
                out[G_X], out[G_Y] = -a * g_u, -b * g_u - c * g_v
                out[G_A], out[G_B], out[G_C] = g_ux + f32(dx) * g_u, g_uy + f32(dy) * g_u, g_vy + f32(dy) * g_v
                out[G_OPACITY] = -g / opacity
                out[G_RED], out[G_GREEN], out[G_BLUE] = g_red, g_green, g_blue
                if more:
                    out[G_DEPTH], out[G_NORMAL] = g_depth, g_nx
                    out[G_NORMAL + 1], out[G_NORMAL + 2] = g_ny, g_nz

    return backward
