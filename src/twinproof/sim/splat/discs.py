"""Discs over pixels: blend.py's two passes for surfels, where the fall-off is that of the point each ray meets."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import numpy as np
from numba import njit

from twinproof.sim.splat import project as p
from twinproof.sim.splat.blend import (
    AREA,
    CHECK,
    FAST,
    FLOOR,
    G_BLUE,
    G_DEPTH,
    G_GREEN,
    G_NORMAL,
    G_OPACITY,
    G_RED,
    G_X,
    G_Y,
    HALF,
    ONE,
    STOP,
    ZERO,
    coordinates,
    f32,
    fall_off,
    finished,
    load,
    still_seen,
    touched,
    write,
)
from twinproof.sim.splat.tiles import TILE

G_H0, G_H1, G_H2, G_H3, G_H4, G_H5 = 2, 3, 4, 13, 14, 15
GRADS = GRADS_MORE = 16
TWO, EDGE_ON = f32(2), f32(1e-6)
BEHIND = f32(1e20)


@njit(inline="always", **FAST)
def meets(px, py, x, y, s0, t0, d0, h0, h1, h2, h3, h4, h5):
    """Where the ray meets the disc: s, t, 1 / D, s² + t² (huge behind the camera) and the dot's own exponent.

    s0, t0, d0 are the three linear forms at the tile's corner, taken in float64: what thin discs need.
    """
    over = d0 + h4 * px + h5 * py
    ahead = over > EDGE_ON
    one_over = ONE / (over if ahead else ONE)
    s, t = (s0 + h0 * px + h1 * py) * one_over, (t0 + h2 * px + h3 * py) * one_over
    dx, dy = px + x, py + y
    return s, t, one_over, (s * s + t * t if ahead else BEHIND), TWO * (dx * dx + dy * dy)


@njit(**FAST)
def at_corner(place, x0, y0):
    """From a surfel's place: the corner's offset from its centre, the three forms there, and h0 … h5, in float32."""
    x, y = x0 - place[0], y0 - place[1]
    s, t, d = place[2] * x + place[3] * y, place[4] * x + place[5] * y, 1.0 + place[6] * x + place[7] * y
    forms = f32(x), f32(y), f32(s), f32(t), f32(d)
    return forms, (f32(place[2]), f32(place[3]), f32(place[4]), f32(place[5]), f32(place[6]), f32(place[7]))


def forward_kernel(more: bool):
    """The forward kernel; with `more` it also sums depths and normals and finds the median surfel."""
    X, Y = (11 * AREA, 12 * AREA) if more else (5 * AREA, 6 * AREA)

    @njit(**FAST)
    def forward(lists, drawn, groups, picture, lo, hi):
        """Draws tiles lo to hi. Planes: light, red, green, blue, last, (median, depth, normal, its depth,) x, y."""
        height, width = picture.light.shape
        tiles_x = (width + TILE - 1) // TILE
        buffer = np.empty((13 if more else 7) * AREA, np.float32)
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
                    (x, y, s0, t0, d0), (h0, h1, h2, h3, h4, h5) = at_corner(drawn.xy[j], x0, y0)
                    red, green, blue, depth = row[p.RED], row[p.GREEN], row[p.BLUE], row[p.DEPTH]
                    nx, ny, nz, opacity = row[p.NORMAL_X], row[p.NORMAL_Y], row[p.NORMAL_Z], row[p.OPACITY]
                    number = f32(k - begin)
                    s = buffer[top * TILE :]
                    for i in range((low - top) * TILE):
                        light, px, py = s[i], s[i + X], s[i + Y]
                        _, _, one_over, disc, dot = meets(px, py, x, y, s0, t0, d0, h0, h1, h2, h3, h4, h5)
                        alpha = opacity * fall_off(min(disc, dot))
                        alpha = alpha if alpha >= FLOOR else ZERO
                        left = light * (ONE - alpha)
                        open_ = left > STOP
                        weight = alpha * light if open_ else ZERO
                        s[i] = left if open_ else -abs(light)
                        s[i + AREA] += weight * red
                        s[i + 2 * AREA] += weight * green
                        s[i + 3 * AREA] += weight * blue
                        s[i + 4 * AREA] = number if open_ else s[i + 4 * AREA]
                        if more:
                            here = depth * one_over if disc <= dot else depth
                            middle = weight > ZERO and light > HALF
                            s[i + 5 * AREA] = number if middle else s[i + 5 * AREA]
                            s[i + 6 * AREA] += weight * here
                            s[i + 7 * AREA] += weight * nx
                            s[i + 8 * AREA] += weight * ny
                            s[i + 9 * AREA] += weight * nz
                            s[i + 10 * AREA] = here if middle else s[i + 10 * AREA]
                if (k - begin) % CHECK == CHECK - 1:
                    first, last = finished(buffer, first, last)
                    if first >= last:
                        break
            write(buffer, lists, drawn, groups, picture, tile, more)
            if more:
                median_depths(buffer, picture, x0, y0)

    return forward


@njit(**FAST)
def median_depths(buffer, picture, x0, y0):
    """Writes the depth at which each ray meets the median surfel, in place of that surfel's centre."""
    height, width = picture.light.shape
    for r in range(min(TILE, height - y0)):
        for q in range(min(TILE, width - x0)):
            picture.median_depth[y0 + r, x0 + q] = buffer[r * TILE + q + 10 * AREA]


def backward_kernel(more: bool):
    """The backward kernel: for every pair of tile and surfel the slopes by what the surfel's row holds."""
    X, Y = (12 * AREA, 13 * AREA) if more else (6 * AREA, 7 * AREA)

    @njit(**FAST)
    def backward(lists, drawn, picture, flow, pairs, lo, hi):
        """Writes pairs (rows as G_X … and G_H0 … say) of tiles lo to hi; pairs that no pixel saw are zero."""
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
                out[:] = ZERO
                top, low = 0, 0
                if k - begin <= most:
                    top, low = touched(drawn.xy[j, 1], row[p.HALF_Y], y0, 0, rows)
                    top, low = still_seen(deepest, k - begin, top, low)
                if top >= low:
                    continue
                (x, y, s0, t0, d0), (h0, h1, h2, h3, h4, h5) = at_corner(drawn.xy[j], x0, y0)
                red, green, blue, depth = row[p.RED], row[p.GREEN], row[p.BLUE], row[p.DEPTH]
                nx, ny, nz, opacity = row[p.NORMAL_X], row[p.NORMAL_Y], row[p.NORMAL_Z], row[p.OPACITY]
                number = f32(k - begin)
                g_red, g_green, g_blue, g_depth, g_nx, g_ny, g_nz = ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO
                g, g_s, g_t, g_d, g_sx, g_sy, g_tx, g_ty = ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO
                g_dx, g_dy, g_dot_x, g_dot_y = ZERO, ZERO, ZERO, ZERO
                q = buffer[top * TILE :]
                for i in range((low - top) * TILE):
                    px, py = q[i + X], q[i + Y]
                    s, t, one_over, disc, dot = meets(px, py, x, y, s0, t0, d0, h0, h1, h2, h3, h4, h5)
                    dx, dy = px + x, py + y
                    alpha = opacity * fall_off(min(disc, dot))
                    alpha = alpha if alpha >= FLOOR and number <= q[i + 2 * AREA] else ZERO
                    passed = ONE / (ONE - alpha)
                    light = q[i] * passed
                    weight = alpha * light
                    on_disc = disc <= dot
                    worth = q[i + 3 * AREA] * red + q[i + 4 * AREA] * green + q[i + 5 * AREA] * blue
                    by_over = ZERO
                    if more:
                        share = one_over if on_disc else ONE
                        worth += q[i + 6 * AREA] * depth * share + q[i + 7 * AREA] * nx
                        worth += q[i + 8 * AREA] * ny + q[i + 9 * AREA] * nz
                        by_depth = weight * q[i + 6 * AREA]
                        by_depth += q[i + 11 * AREA] if number == q[i + 10 * AREA] else ZERO
                        g_depth += by_depth * share
                        by_over = -by_depth * depth * one_over * one_over
                        g_nx += weight * q[i + 7 * AREA]
                        g_ny += weight * q[i + 8 * AREA]
                        g_nz += weight * q[i + 9 * AREA]
                    g_red += weight * q[i + 3 * AREA]
                    g_green += weight * q[i + 4 * AREA]
                    g_blue += weight * q[i + 5 * AREA]
                    slope = alpha * (q[i + AREA] * passed - light * worth)  # by half the exponent
                    q[i] = light
                    q[i + AREA] += weight * worth
                    g += slope
                    on = slope * one_over if on_disc else ZERO
                    slope_s, slope_t = on * s, on * t
                    slope_d = -(slope_s * s + slope_t * t) + (by_over if on_disc else ZERO)
                    dotted = ZERO if on_disc else TWO * slope
                    g_s += slope_s
                    g_t += slope_t
                    g_d += slope_d
                    g_sx += slope_s * dx
                    g_sy += slope_s * dy
                    g_tx += slope_t * dx
                    g_ty += slope_t * dy
                    g_dx += slope_d * dx
                    g_dy += slope_d * dy
                    g_dot_x += dotted * dx
                    g_dot_y += dotted * dy
                out[G_X] = -(h0 * g_s + h2 * g_t + h4 * g_d + g_dot_x)
                out[G_Y] = -(h1 * g_s + h3 * g_t + h5 * g_d + g_dot_y)
                out[G_H0], out[G_H1], out[G_H2], out[G_H3], out[G_H4], out[G_H5] = g_sx, g_sy, g_tx, g_ty, g_dx, g_dy
                out[G_OPACITY] = -g / opacity
                out[G_RED], out[G_GREEN], out[G_BLUE] = g_red, g_green, g_blue
                if more:
                    out[G_DEPTH], out[G_NORMAL] = g_depth, g_nx
                    out[G_NORMAL + 1], out[G_NORMAL + 2] = g_ny, g_nz

    return backward
