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

from twinproof.sim.splat.lens import EXACT, is_bent, reach
from twinproof.sim.splat.project import (
    A,
    contour,
    direction,
    misses,
    moved,
    normal_of,
    opacity_of,
    own_turn,
    paint,
    prepared,
    product,
    scaled,
    seen_at,
    show,
    sizes,
    slopes_at,
    turn_of,
)

COLUMNS = 16  # a row is as a volume's, with A = 0: its bounds are a box
PLACES = 8  # x, y, h0 … h5, in float64
ON_EDGE = 1e-12  # below this share of its size squared, a disc's picture is a line: only its dot is drawn
FAR_OFF = 1e15


@njit(**EXACT)
def homography(M, W, S, z):
    """Whether the disc is more than a line, h0 … h5, and e; M holds G in its first two columns."""
    e0, e1 = W[6] * S[0] / z, W[7] * S[1] / z
    det = M[0] * M[4] - M[1] * M[3]
    size = M[0] * M[0] + M[1] * M[1] + M[3] * M[3] + M[4] * M[4]
    if not abs(det) > ON_EDGE * size:
        return False, (FAR_OFF, 0.0, 0.0, FAR_OFF, 0.0, 0.0), (e0, e1)
    h0, h1, h2, h3 = M[4] / det, -M[1] / det, -M[3] / det, M[0] / det
    return True, (h0, h1, h2, h3, -(e0 * h0 + e1 * h2), -(e0 * h1 + e1 * h3)), (e0, e1)


@njit(**EXACT)
def box(along_s, along_t, e, edge):
    """How far the contour s² + t² = edge reaches from the centre along an axis of the picture; at least a dot.

    along_s and along_t are the slopes of that axis's pixel by s and t.
    """
    d = edge * (e[0] * e[0] + e[1] * e[1]) - 1.0
    if d > -1e-6:  # the disc reaches behind the camera
        return 1e9
    centre = edge * (along_s * e[0] + along_t * e[1]) / d
    half = math.sqrt(max(centre * centre - edge * (along_s * along_s + along_t * along_t) / d, 0.0))
    return max(abs(centre) + half, math.sqrt(edge / 2))


@njit(**EXACT)
def project(cloud, eye, drawn, lo, hi):
    """Draws surfels lo to hi; gives how many can be seen (written from place lo on)."""
    Vs, lens, near, bands, _ = eye
    means, quats, log_scales, logits, sh, group, ready = cloud
    which, key, xys, row = drawn
    is_ready = len(ready) > 0
    (low_x, high_x, low_y, high_y), bent = reach(lens), is_bent(lens)
    work, as_float = np.empty(16), np.empty(1, np.float32)
    bits = as_float.view(np.uint32)
    n = lo
    for i in range(lo, hi):
        g = group[i]
        p = moved(Vs, g, means, i)
        if not p[2] > near:
            continue
        a, b = p[0] / p[2], p[1] / p[2]
        if bent and (a < low_x or a > high_x or b < low_y or b > high_y):
            continue
        if is_ready:
            R, S, opacity, edge = prepared(ready, i)
        else:
            opacity = opacity_of(np.float64(logits[i]))
            R, S, edge = own_turn(quats, i), sizes(log_scales, i), contour(opacity)
        if not edge > 0.0:
            continue
        turn = turn_of(Vs, g)
        W = product(turn, R)
        M = scaled(slopes_at(a, b, p[2], lens, bent), W, S)
        px, py = seen_at(a, b, lens, bent)
        _, h, e = homography(M, W, S, p[2])
        half_x, half_y = box(M[0], M[1], e, edge), box(M[3], M[4], e, edge)
        if misses(px, py, half_x, half_y, lens):
            continue
        row[n, A] = 0.0
        show(row, n, p[2], opacity, edge, (half_x, half_y), normal_of(W, 2, p))
        paint(row, n, sh, i, bands, direction(turn, p), work)
        as_float[0] = p[2]
        xys[n, 0], xys[n, 1], which[n], key[n] = px, py, i, bits[0]
        xys[n, 2], xys[n, 3], xys[n, 4], xys[n, 5], xys[n, 6], xys[n, 7] = h
        n += 1
    return n - lo
