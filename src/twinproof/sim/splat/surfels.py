"""From surfels to homographies: where each disc falls in the picture, and which of its points each pixel sees.

A disc is drawn as in 2DGS: the ray of a pixel meets the disc's plane at (s, t), in units of its two scales, and alpha
falls with s² + t². Seen from the centre's pixel, at (dx, dy) pixels from it,

    s = (h0 dx + h1 dy) / D,    t = (h2 dx + h3 dy) / D,    D = 1 + h4 dx + h5 dy,    depth = z / D,

where [[h0, h1], [h2, h3]] is the inverse of the slopes G of the pixel by (s, t) at the centre, (h4, h5) = -e G⁻¹, and e
says how the depth grows with s and t, as a share of z. Discs thinner than a pixel are drawn as dots of 0.7 px.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import math

import numpy as np
from numba import njit

from twinproof.sim.splat.harmonics import basis, colour
from twinproof.sim.splat.lens import EXACT, bend, is_bent, reach
from twinproof.sim.splat.project import (
    BLUE,
    DEPTH,
    EDGE,
    FLOOR,
    GREEN,
    HALF_X,
    HALF_Y,
    NORMAL_X,
    NORMAL_Y,
    NORMAL_Z,
    OPACITY,
    RED,
    A,
    axes,
    direction,
    moved,
    opacity_of,
    slopes_at,
)

COLUMNS = 16  # a row is as a volume's, with A = 0: its bounds are a box
PLACES = 8  # x, y, h0 … h5, in float64
ON_EDGE = 1e-12  # below this share of its size squared, a disc's picture is a line: only its dot is drawn
FAR_OFF = 1e15


@njit(**EXACT)
def homography(JM, W, S, z, h, G, e):
    """Writes G, e and h0 … h5; gives whether the disc is more than a line."""
    for k in range(2):
        G[0, k], G[1, k], e[k] = JM[0, k], JM[1, k], W[2, k] * S[k] / z
    det = G[0, 0] * G[1, 1] - G[0, 1] * G[1, 0]
    size = G[0, 0] ** 2 + G[0, 1] ** 2 + G[1, 0] ** 2 + G[1, 1] ** 2
    if not abs(det) > ON_EDGE * size:
        h[0], h[1], h[2], h[3], h[4], h[5] = FAR_OFF, 0.0, 0.0, FAR_OFF, 0.0, 0.0
        return False
    h[0], h[1], h[2], h[3] = G[1, 1] / det, -G[0, 1] / det, -G[1, 0] / det, G[0, 0] / det
    h[4], h[5] = -(e[0] * h[0] + e[1] * h[2]), -(e[0] * h[1] + e[1] * h[3])
    return True


@njit(**EXACT)
def box(G, e, edge, r):
    """How far the contour s² + t² = edge reaches from the centre along axis r of the picture; at least a dot."""
    d = edge * (e[0] * e[0] + e[1] * e[1]) - 1.0
    if d > -1e-6:  # the disc reaches behind the camera
        return 1e9
    centre = edge * (G[r, 0] * e[0] + G[r, 1] * e[1]) / d
    half = math.sqrt(max(centre * centre - edge * (G[r, 0] ** 2 + G[r, 1] ** 2) / d, 0.0))
    return max(abs(centre) + half, math.sqrt(edge / 2))


@njit(**EXACT)
def flat_spread(J, W, S, JM):
    """Writes the slopes of the pixel by the disc's own two coordinates."""
    for i in range(2):
        for k in range(2):
            JM[i, k] = (J[i, 0] * W[0, k] + J[i, 1] * W[1, k] + J[i, 2] * W[2, k]) * S[k]


@njit(**EXACT)
def project(cloud, eye, drawn, lo, hi):
    """Draws surfels lo to hi; gives how many can be seen (written from place lo on)."""
    lens, bands = eye.lens, eye.bands
    limits, bent = reach(lens), is_bent(lens)
    free = (-np.inf, np.inf, -np.inf, np.inf)
    R, W, S, J, JM = np.empty((3, 3)), np.empty((3, 3)), np.empty(3), np.empty((2, 3)), np.empty((2, 2))
    G, e, h = np.empty((2, 2)), np.empty(2), np.empty(6)
    work, rgb, as_float = np.empty(16), np.empty(3), np.empty(1, np.float32)
    bits = as_float.view(np.uint32)
    n = lo
    for i in range(lo, hi):
        V = eye.V[cloud.group[i]]
        x, y, z = moved(V, cloud.means[i])
        opacity = opacity_of(cloud.logits[i])
        if not z > eye.near or not opacity > FLOOR:
            continue
        a, b = x / z, y / z
        if bent and (a < limits[0] or a > limits[1] or b < limits[2] or b > limits[3]):
            continue
        edge = 2.0 * math.log(opacity / FLOOR)
        axes(V, cloud.quats[i], cloud.log_scales[i], R, W, S)
        slopes_at(a, b, z, lens, free, bent, J)
        flat_spread(J, W, S, JM)
        seen_x, seen_y = a, b
        if bent:
            seen_x, seen_y, _, _, _, _ = bend(a, b, lens)
        px, py = lens[0] * seen_x + lens[2], lens[1] * seen_y + lens[3]
        homography(JM, W, S, z, h, G, e)
        half_x, half_y = box(G, e, edge, 0), box(G, e, edge, 1)
        if px + half_x < 0 or px - half_x > lens[16] - 1 or py + half_y < 0 or py - half_y > lens[17] - 1:
            continue
        row = drawn.row[n]
        row[A], row[OPACITY], row[DEPTH], row[EDGE] = 0.0, opacity, z, edge
        row[HALF_X], row[HALF_Y] = half_x, half_y
        for k in range(6):
            drawn.xy[n, 2 + k] = h[k]
        dx, dy, dz, _ = direction(V, (x, y, z))
        basis(dx, dy, dz, bands, work)
        colour(cloud.sh[i], bands, work, rgb)
        row[RED], row[GREEN], row[BLUE] = rgb[0], rgb[1], rgb[2]
        sign = -1.0 if W[0, 2] * x + W[1, 2] * y + W[2, 2] * z > 0 else 1.0
        row[NORMAL_X], row[NORMAL_Y], row[NORMAL_Z] = sign * W[0, 2], sign * W[1, 2], sign * W[2, 2]
        as_float[0] = z
        drawn.xy[n, 0], drawn.xy[n, 1], drawn.which[n], drawn.key[n] = px, py, i, bits[0]
        n += 1
    return n - lo
