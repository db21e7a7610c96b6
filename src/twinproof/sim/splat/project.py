"""From volumes to ellipses: where each Gaussian falls in the picture, how wide, how opaque, and in which colour.

The picture of a Gaussian is a Gaussian (EWA: the projection is linearised at its centre), widened by 0.3 px² so that
none falls between pixels. Its exponent is written as squares of two numbers that are linear in the pixel,

    u = a dx + b dy,    v = c dy,    alpha = opacity · exp(-(u² + v²) / 2),

which in float32 keeps long needles exact where a dx² + 2 b dx dy + c dy² loses four digits.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from twinproof.sim.splat.harmonics import basis, colour
from twinproof.sim.splat.lens import EXACT, bend, is_bent, reach

FLOOR = 1.0 / 255.0  # fainter than this is not drawn
CAP = 0.999  # nothing is more opaque
WIDEST = 2.0 * math.log(CAP / FLOOR)  # u² + v² at the contour of the most opaque
BLUR = 0.3  # px², added to every picture of a volume
COLUMNS, PLACES = 16, 2  # of a row (one cache line), and of a place
READY = 14  # nine of the rotation, three scales, opacity, u² + v² at the contour
A, B, C, OPACITY, RED, GREEN, BLUE, DEPTH, NORMAL_X, NORMAL_Y, NORMAL_Z, HALF_X, HALF_Y, EDGE, LEAN = range(15)


class Cloud(NamedTuple):
    """The splats as the kernels take them: what `Splats` holds."""

    means: np.ndarray  # (N, 3) float32
    quats: np.ndarray  # (N, 4)
    log_scales: np.ndarray  # (N, 3)
    logits: np.ndarray  # (N,)
    sh: np.ndarray  # (N, K, 3)
    group: np.ndarray  # (N,) int32
    ready: np.ndarray  # (N or 0, READY) float64: what no camera changes, taken once for many of them


class Eye(NamedTuple):
    """A camera as the kernels take it. V[g] is T_camera_group of each group: a group is moved by its matrix alone."""

    V: np.ndarray  # (G, 3, 4) float64
    lens: np.ndarray  # (18,) float64, see lens.py
    near: float  # m; nothing nearer is drawn
    bands: int  # coefficients of the harmonics that count: 1, 4, 9 or 16
    by_lens: bool = False  # whether slopes by the distortion's coefficients are wanted: they cost as much again


class Drawn(NamedTuple):
    """Room for what can be seen of each splat; a block writes its n visible ones to its first n places.

    A row: a b c, opacity, red green blue, depth, normal (camera frame), half width and height of the contour where
    alpha is 1/255, u² + v² there, and dy of the contour's rightmost point.
    """

    which: np.ndarray  # (N,) int32, the splat's number
    key: np.ndarray  # (N,) uint32, sorts by depth
    xy: np.ndarray  # (N, 2) float64, px; surfels have h0 … h5 behind it
    row: np.ndarray  # (N, COLUMNS) float32


@njit(**EXACT)
def turned(q0, q1, q2, q3):
    """The rotation matrix (nine numbers, row by row) of a quaternion of any length.

    Here and below small matrices are tuples: numba keeps them in registers, while it counts references of every array.
    """
    scale = 1.0 / math.sqrt(q0 * q0 + q1 * q1 + q2 * q2 + q3 * q3)
    w, x, y, z = q0 * scale, q1 * scale, q2 * scale, q3 * scale
    return (
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    )  # fmt: skip


@njit(**EXACT)
def product(L, R):
    """L R of two 3 × 3 matrices, or of a 2 × 3 and a 3 × 3 where the last row of L is left out by the caller."""
    return (
        L[0] * R[0] + L[1] * R[3] + L[2] * R[6],
        L[0] * R[1] + L[1] * R[4] + L[2] * R[7],
        L[0] * R[2] + L[1] * R[5] + L[2] * R[8],
        L[3] * R[0] + L[4] * R[3] + L[5] * R[6],
        L[3] * R[1] + L[4] * R[4] + L[5] * R[7],
        L[3] * R[2] + L[4] * R[5] + L[5] * R[8],
        L[6] * R[0] + L[7] * R[3] + L[8] * R[6],
        L[6] * R[1] + L[7] * R[4] + L[8] * R[7],
        L[6] * R[2] + L[7] * R[5] + L[8] * R[8],
    )


@njit(**EXACT)
def turn_of(V, g):
    """The rotation of a group's matrix."""
    return (
        V[g, 0, 0], V[g, 0, 1], V[g, 0, 2], V[g, 1, 0], V[g, 1, 1], V[g, 1, 2], V[g, 2, 0], V[g, 2, 1], V[g, 2, 2]
    )  # fmt: skip


@njit(**EXACT)
def moved(V, g, means, i):
    """Splat i's centre in the camera's frame, g being its group."""
    x, y, z = np.float64(means[i, 0]), np.float64(means[i, 1]), np.float64(means[i, 2])
    return (
        V[g, 0, 0] * x + V[g, 0, 1] * y + V[g, 0, 2] * z + V[g, 0, 3],
        V[g, 1, 0] * x + V[g, 1, 1] * y + V[g, 1, 2] * z + V[g, 1, 3],
        V[g, 2, 0] * x + V[g, 2, 1] * y + V[g, 2, 2] * z + V[g, 2, 3],
    )


@njit(**EXACT)
def own_turn(quats, i):
    """A splat's own rotation."""
    return turned(np.float64(quats[i, 0]), np.float64(quats[i, 1]), np.float64(quats[i, 2]), np.float64(quats[i, 3]))


@njit(**EXACT)
def sizes(log_scales, i):
    """A splat's three scales."""
    return (
        math.exp(np.float64(log_scales[i, 0])),
        math.exp(np.float64(log_scales[i, 1])),
        math.exp(np.float64(log_scales[i, 2])),
    )


@njit(**EXACT)
def direction(turn, p):
    """The unit vector from the camera to p (camera frame) in the group's frame, and one over the distance."""
    x = turn[0] * p[0] + turn[3] * p[1] + turn[6] * p[2]
    y = turn[1] * p[0] + turn[4] * p[1] + turn[7] * p[2]
    z = turn[2] * p[0] + turn[5] * p[1] + turn[8] * p[2]
    scale = 1.0 / math.sqrt(x * x + y * y + z * z)
    return x * scale, y * scale, z * scale, scale


@njit(**EXACT)
def opacity_of(logit):
    """The opacity, capped so that light always passes."""
    return min(1.0 / (1.0 + math.exp(-logit)), CAP)


@njit(**EXACT)
def contour(opacity):
    """u² + v² where alpha has fallen to the floor; below zero for what is too faint to be drawn."""
    return 2.0 * math.log(opacity / FLOOR)


@njit(**EXACT)
def prepare(cloud, lo, hi):
    """Fills `ready` of splats lo to hi."""
    quats, log_scales, logits, ready = cloud.quats, cloud.log_scales, cloud.logits, cloud.ready
    for i in range(lo, hi):
        opacity = opacity_of(np.float64(logits[i]))
        R, S = own_turn(quats, i), sizes(log_scales, i)
        for k in range(9):
            ready[i, k] = R[k]
        ready[i, 9], ready[i, 10], ready[i, 11] = S
        ready[i, 12], ready[i, 13] = opacity, contour(opacity)


@njit(**EXACT)
def prepared(ready, i):
    """Rotation, scales, opacity and contour of a splat that was prepared."""
    R = (
        ready[i, 0], ready[i, 1], ready[i, 2], ready[i, 3], ready[i, 4], ready[i, 5], ready[i, 6], ready[i, 7],
        ready[i, 8],
    )  # fmt: skip
    return R, (ready[i, 9], ready[i, 10], ready[i, 11]), ready[i, 12], ready[i, 13]


@njit(**EXACT)
def slopes_at(a, b, z, lens, bent):
    """The 2 × 3 slopes of the projection at (a z, b z, z), as two rows."""
    xx, xy, yx, yy = 1.0, 0.0, 0.0, 1.0
    if bent:
        _, _, xx, xy, yx, yy = bend(a, b, lens)
    j00, j01, j10, j11 = lens[0] * xx / z, lens[0] * xy / z, lens[1] * yx / z, lens[1] * yy / z
    return j00, j01, -(j00 * a + j01 * b), j10, j11, -(j10 * a + j11 * b)


@njit(**EXACT)
def scaled(J, W, S):
    """J (2 × 3) times the scaled axes, as two rows: how the pixel moves along each axis of the splat."""
    return (
        (J[0] * W[0] + J[1] * W[3] + J[2] * W[6]) * S[0],
        (J[0] * W[1] + J[1] * W[4] + J[2] * W[7]) * S[1],
        (J[0] * W[2] + J[1] * W[5] + J[2] * W[8]) * S[2],
        (J[3] * W[0] + J[4] * W[3] + J[5] * W[6]) * S[0],
        (J[3] * W[1] + J[4] * W[4] + J[5] * W[7]) * S[1],
        (J[3] * W[2] + J[4] * W[5] + J[5] * W[8]) * S[2],
    )


@njit(**EXACT)
def covariance(M):
    """The ellipse's three covariances with the blur, and their determinant."""
    xx = M[0] * M[0] + M[1] * M[1] + M[2] * M[2] + BLUR
    xy = M[0] * M[3] + M[1] * M[4] + M[2] * M[5]
    yy = M[3] * M[3] + M[4] * M[4] + M[5] * M[5] + BLUR
    # xx yy - xy² by squares: nothing cancels, however long the needle
    c0, c1, c2 = M[1] * M[5] - M[2] * M[4], M[2] * M[3] - M[0] * M[5], M[0] * M[4] - M[1] * M[3]
    return xx, xy, yy, c0 * c0 + c1 * c1 + c2 * c2 + BLUR * (xx + yy) - BLUR * BLUR


@njit(**EXACT)
def normal_of(W, k, p):
    """Axis k towards the camera, and whether it had to be turned round (-1) for that."""
    x, y, z = (W[0], W[3], W[6]) if k == 0 else ((W[1], W[4], W[7]) if k == 1 else (W[2], W[5], W[8]))
    sign = -1.0 if x * p[0] + y * p[1] + z * p[2] > 0 else 1.0
    return sign * x, sign * y, sign * z, sign


@njit(**EXACT)
def shortest(S):
    """The axis that stands for the normal of a volume."""
    return 0 if S[0] <= S[1] and S[0] <= S[2] else (1 if S[1] <= S[2] else 2)


@njit(**EXACT)
def misses(px, py, half_x, half_y, lens):
    """Whether a contour of that size lies outside the picture."""
    return px + half_x < 0 or px - half_x > lens[16] - 1 or py + half_y < 0 or py - half_y > lens[17] - 1


@njit(**EXACT)
def far_off(px, py, J, size, lens):
    """Whether even a ball of the longest scale, wholly opaque, would miss the picture: a cheap first look."""
    half_x = math.sqrt(WIDEST * ((J[0] * J[0] + J[1] * J[1] + J[2] * J[2]) * size * size + BLUR))
    half_y = math.sqrt(WIDEST * ((J[3] * J[3] + J[4] * J[4] + J[5] * J[5]) * size * size + BLUR))
    return misses(px, py, half_x, half_y, lens)


@njit(**EXACT)
def seen_at(a, b, lens, bent):
    """The pixel of the ray (a, b, 1)."""
    if bent:
        a, b, _, _, _, _ = bend(a, b, lens)
    return lens[0] * a + lens[2], lens[1] * b + lens[3]


@njit(**EXACT)
def show(row, n, depth, opacity, edge, half, normal):
    """Writes what volumes and surfels have in common into row n."""
    row[n, DEPTH], row[n, OPACITY], row[n, EDGE] = depth, opacity, edge
    row[n, HALF_X], row[n, HALF_Y] = half
    row[n, NORMAL_X], row[n, NORMAL_Y], row[n, NORMAL_Z] = normal[0], normal[1], normal[2]


@njit(**EXACT)
def paint(row, n, sh, i, bands, arrow, work):
    """Writes the colour of splat i, seen along the arrow, into row n."""
    basis(arrow[0], arrow[1], arrow[2], bands, work)
    for c in range(3):
        row[n, RED + c] = max(colour(sh, i, c, bands, work), 0.0)


@njit(**EXACT)
def project(cloud, eye, drawn, lo, hi):
    """Draws splats lo to hi; gives how many can be seen (written from place lo on)."""
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
        held_a, held_b = min(max(a, low_x), high_x), min(max(b, low_y), high_y)
        if bent and (a != held_a or b != held_b):
            continue
        J = slopes_at(held_a, held_b, p[2], lens, bent)
        px, py = seen_at(a, b, lens, bent)
        longest = max(log_scales[i, 0], log_scales[i, 1], log_scales[i, 2])
        size = max(ready[i, 9], ready[i, 10], ready[i, 11]) if is_ready else math.exp(np.float64(longest))
        if far_off(px, py, J, size, lens):
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
        xx, xy, yy, det = covariance(scaled(J, W, S))
        half_x, half_y = math.sqrt(edge * xx), math.sqrt(edge * yy)
        if misses(px, py, half_x, half_y, lens) or not 0.0 < det < np.inf:
            continue
        row[n, A], row[n, B], row[n, C] = math.sqrt(yy / det), -xy / math.sqrt(yy * det), 1.0 / math.sqrt(yy)
        row[n, LEAN] = xy / xx * half_x
        show(row, n, p[2], opacity, edge, (half_x, half_y), normal_of(W, shortest(S), p))
        paint(row, n, sh, i, bands, direction(turn, p), work)
        as_float[0] = p[2]
        xys[n, 0], xys[n, 1], which[n], key[n] = px, py, i, bits[0]
        n += 1
    return n - lo
