"""The way back of project.py: from slopes by ellipses to slopes by Gaussians, camera and lens."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from twinproof.sim.splat import blend as c
from twinproof.sim.splat.harmonics import colour_back
from twinproof.sim.splat.lens import EXACT, add_bend_slopes, bend, is_bent, reach
from twinproof.sim.splat.project import (
    CAP,
    COLUMNS,
    covariance,
    direction,
    moved,
    normal_of,
    opacity_of,
    own_turn,
    product,
    scaled,
    shortest,
    sizes,
    slopes_at,
    turn_of,
)


class Slopes(NamedTuple):
    """Slopes of the loss by the splats' numbers (added to), and by each block's camera matrices and lens."""

    means: np.ndarray  # (N, 3) float32
    quats: np.ndarray  # (N, 4)
    log_scales: np.ndarray  # (N, 3)
    logits: np.ndarray  # (N,)
    sh: np.ndarray  # (N, K, 3)
    V: np.ndarray  # (blocks, G, 3, 4) float64
    lens: np.ndarray  # (blocks, 18) float64


@njit(**EXACT)
def turned_back(q, G, i, out):
    """Adds to the slopes by quaternion i (q holds all) those that reach it through its rotation matrix (G: nine)."""
    q0, q1, q2, q3 = np.float64(q[i, 0]), np.float64(q[i, 1]), np.float64(q[i, 2]), np.float64(q[i, 3])
    scale = 1.0 / math.sqrt(q0 * q0 + q1 * q1 + q2 * q2 + q3 * q3)
    w, x, y, z = q0 * scale, q1 * scale, q2 * scale, q3 * scale
    gw = 2 * (x * (G[7] - G[5]) + y * (G[2] - G[6]) + z * (G[3] - G[1]))
    gx = 2 * (y * (G[1] + G[3]) + z * (G[2] + G[6]) + w * (G[7] - G[5])) - 4 * x * (G[4] + G[8])
    gy = 2 * (x * (G[1] + G[3]) + z * (G[5] + G[7]) + w * (G[2] - G[6])) - 4 * y * (G[0] + G[8])
    gz = 2 * (x * (G[2] + G[6]) + y * (G[5] + G[7]) + w * (G[3] - G[1])) - 4 * z * (G[0] + G[4])
    along = gw * w + gx * x + gy * y + gz * z  # a longer quaternion turns no farther
    out[i, 0] += (gw - along * w) * scale
    out[i, 1] += (gx - along * x) * scale
    out[i, 2] += (gy - along * y) * scale
    out[i, 3] += (gz - along * z) * scale


@njit(**EXACT)
def ellipse_back(ga, gb, gc, xx, xy, yy, det):
    """Slopes by the three covariances from those by a, b, c."""
    a, b, c = math.sqrt(yy / det), -xy / math.sqrt(yy * det), 1.0 / math.sqrt(yy)
    g_det = -(ga * a + gb * b) / (2 * det)
    g_yy = (ga * a - gb * b - gc * c) / (2 * yy) + g_det * xx
    return g_det * yy, -gb / math.sqrt(yy * det) - 2 * g_det * xy, g_yy


@njit(**EXACT)
def summed(first, slot, pairs, j, grad):
    """Adds up a splat's slopes over the tiles that see it."""
    for k in range(pairs.shape[1]):
        grad[k] = 0.0
    for s in range(first[j], first[j + 1]):
        for k in range(pairs.shape[1]):
            grad[k] += pairs[slot[s], k]


@njit(**EXACT)
def transposed(M):
    """The transpose of a 3 × 3 matrix."""
    return M[0], M[3], M[6], M[1], M[4], M[7], M[2], M[5], M[8]


@njit(**EXACT)
def matrix_back(G, block, g, into, shift):
    """Adds slopes by a group's matrix: nine by its rotation, three by its shift."""
    for r in range(3):
        G[block, g, r, 3] += shift[r]
    G[block, g, 0, 0] += into[0]
    G[block, g, 0, 1] += into[1]
    G[block, g, 0, 2] += into[2]
    G[block, g, 1, 0] += into[3]
    G[block, g, 1, 1] += into[4]
    G[block, g, 1, 2] += into[5]
    G[block, g, 2, 0] += into[6]
    G[block, g, 2, 1] += into[7]
    G[block, g, 2, 2] += into[8]


@njit(**EXACT)
def place_back(turn, p, gp, arrow, R, GW, cloud_row, out_means, i):
    """Carries slopes to the mean; gives those by the rotation of the group's matrix, and by its shift.

    They come from the centre (gp, in the camera's frame), the arrow of the colour (turnᵀ p) and the axes (GW).
    """
    x = gp[0] + turn[0] * arrow[0] + turn[1] * arrow[1] + turn[2] * arrow[2]
    y = gp[1] + turn[3] * arrow[0] + turn[4] * arrow[1] + turn[5] * arrow[2]
    z = gp[2] + turn[6] * arrow[0] + turn[7] * arrow[1] + turn[8] * arrow[2]
    out_means[i, 0] += turn[0] * x + turn[3] * y + turn[6] * z
    out_means[i, 1] += turn[1] * x + turn[4] * y + turn[7] * z
    out_means[i, 2] += turn[2] * x + turn[5] * y + turn[8] * z
    m0, m1, m2 = cloud_row
    T = product(GW, transposed(R))
    into = (
        T[0] + p[0] * arrow[0] + x * m0, T[1] + p[0] * arrow[1] + x * m1, T[2] + p[0] * arrow[2] + x * m2,
        T[3] + p[1] * arrow[0] + y * m0, T[4] + p[1] * arrow[1] + y * m1, T[5] + p[1] * arrow[2] + y * m2,
        T[6] + p[2] * arrow[0] + z * m0, T[7] + p[2] * arrow[1] + z * m1, T[8] + p[2] * arrow[2] + z * m2,
    )  # fmt: skip
    return into, (x, y, z)


@njit(**EXACT)
def camera_back(a, b, held_a, held_b, z, J, GJ, into, lens, bent, by_lens, GL, block, room):
    """Slopes by x / z and y / z (two that reach all, two only where they were not held) and z; adds the lens's.

    `into` flows into the centre's pixel, GJ into J = diag(fx, fy) D [[1, 0, -a], [0, 1, -b]] / z, D the lens's own
    slopes. `room` is a work array of 6 numbers.
    """
    gz = -(GJ[0] * J[0] + GJ[1] * J[1] + GJ[2] * J[2] + GJ[3] * J[3] + GJ[4] * J[4] + GJ[5] * J[5]) / z
    e00, e01 = (GJ[0] - GJ[2] * held_a) / z, (GJ[1] - GJ[2] * held_b) / z  # by diag(fx, fy) D
    e10, e11 = (GJ[3] - GJ[5] * held_a) / z, (GJ[4] - GJ[5] * held_b) / z
    held_ga, held_gb = -(GJ[2] * J[0] + GJ[5] * J[3]), -(GJ[2] * J[1] + GJ[5] * J[4])
    seen_x, seen_y, xx, xy, yx, yy = a, b, 1.0, 0.0, 0.0, 1.0
    gx, gy = into[0] * lens[0], into[1] * lens[1]
    if bent:
        seen_x, seen_y, xx, xy, yx, yy = bend(a, b, lens)
        room[0], room[1] = gx, gy
        room[2], room[3], room[4], room[5] = e00 * lens[0], e01 * lens[0], e10 * lens[1], e11 * lens[1]
        more_a, more_b = add_bend_slopes(a, b, held_a, held_b, room, lens, by_lens, GL, block)
        held_ga, held_gb = held_ga + more_a, held_gb + more_b
    GL[block, 0] += into[0] * seen_x + (e00 * J[0] + e01 * J[1]) * z / lens[0]
    GL[block, 1] += into[1] * seen_y + (e10 * J[3] + e11 * J[4]) * z / lens[1]
    GL[block, 2] += into[0]
    GL[block, 3] += into[1]
    return gx * xx + gy * yx, gx * xy + gy * yy, held_ga, held_gb, gz


@njit(**EXACT)
def scaled_back(G, J, W, S, i, out_scales):
    """From slopes by J times the scaled axes (G: two rows): those by the axes (nine) and by J; adds the scales'."""
    u0, u1, u2, v0, v1, v2 = G[0] * S[0], G[1] * S[1], G[2] * S[2], G[3] * S[0], G[4] * S[1], G[5] * S[2]
    GW = (
        J[0] * u0 + J[3] * v0, J[0] * u1 + J[3] * v1, J[0] * u2 + J[3] * v2,
        J[1] * u0 + J[4] * v0, J[1] * u1 + J[4] * v1, J[1] * u2 + J[4] * v2,
        J[2] * u0 + J[5] * v0, J[2] * u1 + J[5] * v1, J[2] * u2 + J[5] * v2,
    )  # fmt: skip
    GJ = (
        u0 * W[0] + u1 * W[1] + u2 * W[2], u0 * W[3] + u1 * W[4] + u2 * W[5], u0 * W[6] + u1 * W[7] + u2 * W[8],
        v0 * W[0] + v1 * W[1] + v2 * W[2], v0 * W[3] + v1 * W[4] + v2 * W[5], v0 * W[6] + v1 * W[7] + v2 * W[8],
    )  # fmt: skip
    out_scales[i, 0] += GW[0] * W[0] + GW[3] * W[3] + GW[6] * W[6]
    out_scales[i, 1] += GW[1] * W[1] + GW[4] * W[4] + GW[7] * W[7]
    out_scales[i, 2] += GW[2] * W[2] + GW[5] * W[5] + GW[8] * W[8]
    return GW, GJ


@njit(**EXACT)
def along_axis(k, x, y, z):
    """A 3 × 3 matrix whose column k is (x, y, z) and whose others are zero."""
    zero = 0.0
    if k == 0:
        return x, zero, zero, y, zero, zero, z, zero, zero
    if k == 1:
        return zero, x, zero, zero, y, zero, zero, z, zero
    return zero, zero, x, zero, zero, y, zero, zero, z


@njit(**EXACT)
def plus(L, R):
    """The sum of two 3 × 3 matrices."""
    return (
        L[0] + R[0], L[1] + R[1], L[2] + R[2], L[3] + R[3], L[4] + R[4], L[5] + R[5], L[6] + R[6], L[7] + R[7],
        L[8] + R[8],
    )  # fmt: skip


@njit(**EXACT)
def project_back(cloud, eye, drawn, lists, pairs, more, out, block, lo, hi):
    """Adds the slopes of the visible splats lo to hi (sorted places) to `out`."""
    Vs, lens, _, bands, by_lens = eye
    means, quats, log_scales, logits, sh, group, _ = cloud
    out_means, out_quats, out_scales, out_logits, out_sh, GV, GL = out
    first, slot, which = lists.first, lists.slot, drawn.which
    (low_x, high_x, low_y, high_y), bent = reach(lens), is_bent(lens) or by_lens
    work, slopes, grad, room = np.empty(16), np.empty((16, 3)), np.empty(COLUMNS), np.empty(6)
    for j in range(lo, hi):
        summed(first, slot, pairs, j, grad)
        i = which[j]
        g = group[i]
        p, turn = moved(Vs, g, means, i), turn_of(Vs, g)
        z = p[2]
        a, b = p[0] / z, p[1] / z
        held_a, held_b = min(max(a, low_x), high_x), min(max(b, low_y), high_y)
        R = own_turn(quats, i)
        W = product(turn, R)
        S, J = sizes(log_scales, i), slopes_at(held_a, held_b, z, lens, bent)
        M = scaled(J, W, S)
        xx, xy, yy, det = covariance(M)
        g_xx, g_xy, g_yy = ellipse_back(grad[c.G_A], grad[c.G_B], grad[c.G_C], xx, xy, yy, det)
        GM = (
            2 * g_xx * M[0] + g_xy * M[3], 2 * g_xx * M[1] + g_xy * M[4], 2 * g_xx * M[2] + g_xy * M[5],
            2 * g_yy * M[3] + g_xy * M[0], 2 * g_yy * M[4] + g_xy * M[1], 2 * g_yy * M[5] + g_xy * M[2],
        )  # fmt: skip
        GW, GJ = scaled_back(GM, J, W, S, i, out_scales)
        g_depth = 0.0
        if more:
            k = shortest(S)
            sign = normal_of(W, k, p)[3]
            nx, ny, nz = grad[c.G_NORMAL] * sign, grad[c.G_NORMAL + 1] * sign, grad[c.G_NORMAL + 2] * sign
            GW, g_depth = plus(GW, along_axis(k, nx, ny, nz)), grad[c.G_DEPTH]
        turned_back(quats, product(transposed(turn), GW), i, out_quats)
        into = grad[c.G_X], grad[c.G_Y]
        ga, gb, held_ga, held_gb, gz = camera_back(
            a, b, held_a, held_b, z, J, GJ, into, lens, bent, by_lens, GL, block, room
        )
        ga += held_ga if a == held_a else 0.0
        gb += held_gb if b == held_b else 0.0
        gp = ga / z, gb / z, gz - (ga * a + gb * b) / z + g_depth
        opacity = opacity_of(np.float64(logits[i]))
        out_logits[i] += grad[c.G_OPACITY] * opacity * (1.0 - opacity) if opacity < CAP else 0.0
        rgb = grad[c.G_RED], grad[c.G_GREEN], grad[c.G_BLUE]
        arrow = colour_back(sh, i, direction(turn, p), bands, work, slopes, rgb, out_sh)
        mean = np.float64(means[i, 0]), np.float64(means[i, 1]), np.float64(means[i, 2])
        by_turn, by_shift = place_back(turn, p, gp, arrow, R, GW, mean, out_means, i)
        matrix_back(GV, block, g, by_turn, by_shift)
