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
A, B, C, OPACITY, RED, GREEN, BLUE, DEPTH, NORMAL_X, NORMAL_Y, NORMAL_Z, HALF_X, HALF_Y, EDGE, LEAN = range(15)


class Cloud(NamedTuple):
    """The splats as the kernels take them: what `Splats` holds."""

    means: np.ndarray  # (N, 3) float32
    quats: np.ndarray  # (N, 4)
    log_scales: np.ndarray  # (N, 3)
    logits: np.ndarray  # (N,)
    sh: np.ndarray  # (N, K, 3)
    group: np.ndarray  # (N,) int32


class Eye(NamedTuple):
    """A camera as the kernels take it. V[g] is T_camera_group of each group: a group is moved by its matrix alone."""

    V: np.ndarray  # (G, 3, 4) float64
    lens: np.ndarray  # (18,) float64, see lens.py
    near: float  # m; nothing nearer is drawn
    bands: int  # coefficients of the harmonics that count: 1, 4, 9 or 16
    by_lens: bool = False  # whether slopes by the distortion are wanted where it is zero


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
def turned(q, R):
    """Writes the rotation matrix of a quaternion of any length; gives one over its length."""
    scale = 1.0 / math.sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
    w, x, y, z = q[0] * scale, q[1] * scale, q[2] * scale, q[3] * scale
    R[0, 0], R[0, 1], R[0, 2] = 1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)
    R[1, 0], R[1, 1], R[1, 2] = 2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)
    R[2, 0], R[2, 1], R[2, 2] = 2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)
    return scale


@njit(**EXACT)
def moved(V, m):
    """A point of a group in the camera's frame."""
    return (
        V[0, 0] * m[0] + V[0, 1] * m[1] + V[0, 2] * m[2] + V[0, 3],
        V[1, 0] * m[0] + V[1, 1] * m[1] + V[1, 2] * m[2] + V[1, 3],
        V[2, 0] * m[0] + V[2, 1] * m[1] + V[2, 2] * m[2] + V[2, 3],
    )


@njit(**EXACT)
def axes(V, q, log_scales, R, W, S):
    """Writes the axes of a splat in the camera's frame (W, as columns) and its scales (S)."""
    turned(q, R)
    for i in range(3):
        S[i] = math.exp(log_scales[i])
        for j in range(3):
            W[i, j] = V[i, 0] * R[0, j] + V[i, 1] * R[1, j] + V[i, 2] * R[2, j]


@njit(**EXACT)
def direction(V, p):
    """The unit vector from the camera to p (camera frame) in the group's frame, and one over the distance."""
    x = V[0, 0] * p[0] + V[1, 0] * p[1] + V[2, 0] * p[2]
    y = V[0, 1] * p[0] + V[1, 1] * p[1] + V[2, 1] * p[2]
    z = V[0, 2] * p[0] + V[1, 2] * p[1] + V[2, 2] * p[2]
    scale = 1.0 / math.sqrt(x * x + y * y + z * z)
    return x * scale, y * scale, z * scale, scale


@njit(**EXACT)
def opacity_of(logit):
    """The opacity, capped so that light always passes."""
    return min(1.0 / (1.0 + math.exp(-logit)), CAP)


@njit(**EXACT)
def slopes_at(a, b, z, lens, limits, bent, J):
    """Writes the 2 × 3 slopes of the projection at (a z, b z, z), a and b held inside the limits."""
    ac, bc = min(max(a, limits[0]), limits[1]), min(max(b, limits[2]), limits[3])
    xx, xy, yx, yy = 1.0, 0.0, 0.0, 1.0
    if bent:
        _, _, xx, xy, yx, yy = bend(ac, bc, lens)
    J[0, 0], J[0, 1] = lens[0] * xx / z, lens[0] * xy / z
    J[1, 0], J[1, 1] = lens[1] * yx / z, lens[1] * yy / z
    J[0, 2], J[1, 2] = -(J[0, 0] * ac + J[0, 1] * bc), -(J[1, 0] * ac + J[1, 1] * bc)
    return ac, bc


@njit(**EXACT)
def spread(J, W, S, JM):
    """Writes J times the scaled axes; gives the ellipse's three covariances with the blur, and their determinant."""
    for i in range(2):
        for k in range(3):
            JM[i, k] = (J[i, 0] * W[0, k] + J[i, 1] * W[1, k] + J[i, 2] * W[2, k]) * S[k]
    xx = JM[0, 0] * JM[0, 0] + JM[0, 1] * JM[0, 1] + JM[0, 2] * JM[0, 2] + BLUR
    xy = JM[0, 0] * JM[1, 0] + JM[0, 1] * JM[1, 1] + JM[0, 2] * JM[1, 2]
    yy = JM[1, 0] * JM[1, 0] + JM[1, 1] * JM[1, 1] + JM[1, 2] * JM[1, 2] + BLUR
    area = 0.0  # xx yy - xy² by squares: nothing cancels, however long the needle
    for k in range(3):
        j = (k + 1) % 3
        area += (JM[0, k] * JM[1, j] - JM[0, j] * JM[1, k]) ** 2
    return xx, xy, yy, area + BLUR * (xx + yy) - BLUR * BLUR


@njit(**EXACT)
def shortest(S):
    """The axis that stands for the normal of a volume."""
    k = 0
    for i in range(1, 3):
        if S[i] < S[k]:
            k = i
    return k


@njit(**EXACT)
def far_off(px, py, J, log_scales, lens):
    """Whether even a ball of the longest scale, wholly opaque, would miss the picture: a cheap first look."""
    size = math.exp(2 * max(log_scales[0], log_scales[1], log_scales[2]))
    half_x = math.sqrt(WIDEST * ((J[0, 0] ** 2 + J[0, 1] ** 2 + J[0, 2] ** 2) * size + BLUR))
    half_y = math.sqrt(WIDEST * ((J[1, 0] ** 2 + J[1, 1] ** 2 + J[1, 2] ** 2) * size + BLUR))
    return px + half_x < 0 or px - half_x > lens[16] - 1 or py + half_y < 0 or py - half_y > lens[17] - 1


@njit(**EXACT)
def project(cloud, eye, drawn, lo, hi):
    """Draws splats lo to hi; gives how many can be seen (written from place lo on)."""
    lens, bands = eye.lens, eye.bands
    limits, bent = reach(lens), is_bent(lens)
    R, W, S, J, JM = np.empty((3, 3)), np.empty((3, 3)), np.empty(3), np.empty((2, 3)), np.empty((2, 3))
    work, rgb, as_float = np.empty(16), np.empty(3), np.empty(1, np.float32)
    bits = as_float.view(np.uint32)
    n = lo
    for i in range(lo, hi):
        V = eye.V[cloud.group[i]]
        x, y, z = moved(V, cloud.means[i])
        if not z > eye.near:
            continue
        a, b = x / z, y / z
        if bent and (a < limits[0] or a > limits[1] or b < limits[2] or b > limits[3]):
            continue
        slopes_at(a, b, z, lens, limits, bent, J)
        seen_x, seen_y = a, b
        if bent:
            seen_x, seen_y, _, _, _, _ = bend(a, b, lens)
        px, py = lens[0] * seen_x + lens[2], lens[1] * seen_y + lens[3]
        if far_off(px, py, J, cloud.log_scales[i], lens):
            continue
        opacity = opacity_of(cloud.logits[i])
        if not opacity > FLOOR:
            continue
        edge = 2.0 * math.log(opacity / FLOOR)
        axes(V, cloud.quats[i], cloud.log_scales[i], R, W, S)
        xx, xy, yy, det = spread(J, W, S, JM)
        half_x, half_y = math.sqrt(edge * xx), math.sqrt(edge * yy)
        outside = px + half_x < 0 or px - half_x > lens[16] - 1 or py + half_y < 0 or py - half_y > lens[17] - 1
        if outside or not 0.0 < det < np.inf:
            continue
        row = drawn.row[n]
        row[A], row[B], row[C] = math.sqrt(yy / det), -xy / math.sqrt(yy * det), 1.0 / math.sqrt(yy)
        row[OPACITY], row[DEPTH], row[EDGE], row[LEAN] = opacity, z, edge, xy / xx * half_x
        row[HALF_X], row[HALF_Y] = half_x, half_y
        dx, dy, dz, _ = direction(V, (x, y, z))
        basis(dx, dy, dz, bands, work)
        colour(cloud.sh[i], bands, work, rgb)
        row[RED], row[GREEN], row[BLUE] = rgb[0], rgb[1], rgb[2]
        k = shortest(S)
        sign = -1.0 if W[0, k] * x + W[1, k] * y + W[2, k] * z > 0 else 1.0
        row[NORMAL_X], row[NORMAL_Y], row[NORMAL_Z] = sign * W[0, k], sign * W[1, k], sign * W[2, k]
        as_float[0] = z
        drawn.xy[n, 0], drawn.xy[n, 1], drawn.which[n], drawn.key[n] = px, py, i, bits[0]
        n += 1
    return n - lo
