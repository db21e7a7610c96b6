"""The way back of project.py: from slopes by ellipses to slopes by Gaussians, camera and lens."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from twinproof.sim.splat import blend as g
from twinproof.sim.splat.harmonics import colour_back
from twinproof.sim.splat.lens import EXACT, add_bend_slopes, bend, is_bent, reach
from twinproof.sim.splat.project import (
    CAP,
    COLUMNS,
    axes,
    direction,
    moved,
    opacity_of,
    shortest,
    slopes_at,
    spread,
)


class Slopes(NamedTuple):
    """Slopes of the loss by the splats' numbers (added to), and by each block's camera matrices and lens."""

    means: np.ndarray  # (N, 3) float32
    quats: np.ndarray  # (N, 4)
    log_scales: np.ndarray  # (N, 3)
    logits: np.ndarray  # (N,)
    sh: np.ndarray  # (N, K, 3)
    xy: np.ndarray  # (N, 2): by where the centre falls in the picture, px
    V: np.ndarray  # (blocks, G, 3, 4) float64
    lens: np.ndarray  # (blocks, 18) float64


@njit(**EXACT)
def turned_back(q, GR, out):
    """Adds to a quaternion's slopes those that reach it through its rotation matrix."""
    scale = 1.0 / math.sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
    w, x, y, z = q[0] * scale, q[1] * scale, q[2] * scale, q[3] * scale
    gw = 2 * (x * (GR[2, 1] - GR[1, 2]) + y * (GR[0, 2] - GR[2, 0]) + z * (GR[1, 0] - GR[0, 1]))
    gx = 2 * (y * (GR[0, 1] + GR[1, 0]) + z * (GR[0, 2] + GR[2, 0]) + w * (GR[2, 1] - GR[1, 2]))
    gx -= 4 * x * (GR[1, 1] + GR[2, 2])
    gy = 2 * (x * (GR[0, 1] + GR[1, 0]) + z * (GR[1, 2] + GR[2, 1]) + w * (GR[0, 2] - GR[2, 0]))
    gy -= 4 * y * (GR[0, 0] + GR[2, 2])
    gz = 2 * (x * (GR[0, 2] + GR[2, 0]) + y * (GR[1, 2] + GR[2, 1]) + w * (GR[1, 0] - GR[0, 1]))
    gz -= 4 * z * (GR[0, 0] + GR[1, 1])
    along = gw * w + gx * x + gy * y + gz * z  # a longer quaternion turns no farther
    out[0] += (gw - along * w) * scale
    out[1] += (gx - along * x) * scale
    out[2] += (gy - along * y) * scale
    out[3] += (gz - along * z) * scale


@njit(**EXACT)
def ellipse_back(grad, xx, xy, yy, det):
    """Slopes by the three covariances from those by a, b, c."""
    a, b, c = math.sqrt(yy / det), -xy / math.sqrt(yy * det), 1.0 / math.sqrt(yy)
    g_det = -(grad[g.G_A] * a + grad[g.G_B] * b) / (2 * det)
    g_yy = (grad[g.G_A] * a - grad[g.G_B] * b - grad[g.G_C] * c) / (2 * yy) + g_det * xx
    return g_det * yy, -grad[g.G_B] / math.sqrt(yy * det) - 2 * g_det * xy, g_yy


@njit(**EXACT)
def summed(first, slot, pairs, j, grad):
    """Adds up a splat's slopes over the tiles that see it."""
    for c in range(pairs.shape[1]):
        grad[c] = 0.0
    for k in range(first[j], first[j + 1]):
        for c in range(pairs.shape[1]):
            grad[c] += pairs[slot[k], c]


@njit(**EXACT)
def centre_back(a, b, lens, bent, into, GL):
    """Slopes by (x / z, y / z) from those by the pixel (into: 2); adds those by the lens (all but its distortion)."""
    seen_x, seen_y, xx, xy, yx, yy = a, b, 1.0, 0.0, 0.0, 1.0
    if bent:
        seen_x, seen_y, xx, xy, yx, yy = bend(a, b, lens)
    GL[0] += into[0] * seen_x
    GL[1] += into[1] * seen_y
    GL[2] += into[0]
    GL[3] += into[1]
    gx, gy = into[0] * lens[0], into[1] * lens[1]
    return gx * xx + gy * yx, gx * xy + gy * yy


@njit(**EXACT)
def colour_and_place_back(sh, mean, V, point, bands, rgb, gp, work, slopes, out_sh, out_mean, GV):
    """Adds what the colour says, then carries the slopes by the centre (gp, camera frame) to mean and matrix."""
    x, y, z, scale = direction(V, point)
    dx, dy, dz = colour_back(sh, (x, y, z, scale), bands, work, slopes, rgb, out_sh)
    for r in range(3):  # the arrow is Rᵀ p: it reaches p and R
        gp[r] += V[r, 0] * dx + V[r, 1] * dy + V[r, 2] * dz
        GV[r, 0] += point[r] * dx + gp[r] * mean[0]
        GV[r, 1] += point[r] * dy + gp[r] * mean[1]
        GV[r, 2] += point[r] * dz + gp[r] * mean[2]
        GV[r, 3] += gp[r]
    for c in range(3):
        out_mean[c] += V[0, c] * gp[0] + V[1, c] * gp[1] + V[2, c] * gp[2]


@njit(**EXACT)
def axes_back(V, GW, R, GR, q, out_q, GV):
    """Carries slopes by the axes in the camera's frame (W = V R) to the quaternion and the matrix; GR is room."""
    for r in range(3):
        for c in range(3):
            GR[r, c] = V[0, r] * GW[0, c] + V[1, r] * GW[1, c] + V[2, r] * GW[2, c]
            GV[r, c] += GW[r, 0] * R[c, 0] + GW[r, 1] * R[c, 1] + GW[r, 2] * R[c, 2]
    turned_back(q, GR, out_q)


@njit(**EXACT)
def slopes_back(GJ, J, a, b, z, lens, bends, GL):
    """Slopes by (x / z, y / z) and z from those by J = E [[1, 0, -a], [0, 1, -b]] / z, where E = diag(fx, fy) D.

    Adds those by the focal lengths, and writes those by the four numbers of D, the lens's own slopes.
    """
    gz = 0.0
    for r in range(2):
        for k in range(3):
            gz -= GJ[r, k] * J[r, k] / z
        first, second = (GJ[r, 0] - GJ[r, 2] * a) / z, (GJ[r, 1] - GJ[r, 2] * b) / z  # by E
        GL[r] += (first * J[r, 0] + second * J[r, 1]) * z / lens[r]
        bends[2 * r], bends[2 * r + 1] = first * lens[r], second * lens[r]
    ga = -(GJ[0, 2] * J[0, 0] + GJ[1, 2] * J[1, 0])
    gb = -(GJ[0, 2] * J[0, 1] + GJ[1, 2] * J[1, 1])
    return ga, gb, gz


@njit(**EXACT)
def project_back(cloud, eye, drawn, lists, pairs, more, out, block, lo, hi):
    """Adds the slopes of the visible splats lo to hi (sorted places) to `out`."""
    lens, bands = eye.lens, eye.bands
    limits, bent = reach(lens), is_bent(lens) or eye.by_lens
    R, W, S, J, JM = np.empty((3, 3)), np.empty((3, 3)), np.empty(3), np.empty((2, 3)), np.empty((2, 3))
    work, slopes, rgb, gp, into = np.empty(16), np.empty((16, 3)), np.empty(3), np.empty(3), np.empty(2)
    grad, GW, GR, GJ, GJM = np.empty(COLUMNS), np.empty((3, 3)), np.empty((3, 3)), np.empty((2, 3)), np.empty((2, 3))
    seen, bends = np.empty(2), np.empty(4)
    first, slot, index, group = lists.first, lists.slot, drawn.which, cloud.group
    means, quats, log_scales, logits, sh = cloud.means, cloud.quats, cloud.log_scales, cloud.logits, cloud.sh
    out_means, out_quats, out_scales, out_logits = out.means, out.quats, out.log_scales, out.logits
    out_sh, out_xy = out.sh, out.xy
    Vs, GVs, GL = eye.V, out.V[block], out.lens[block]
    for j in range(lo, hi):
        summed(first, slot, pairs, j, grad)
        i = index[j]
        V, GV = Vs[group[i]], GVs[group[i]]
        x, y, z = moved(V, means[i])
        a, b = x / z, y / z
        axes(V, quats[i], log_scales[i], R, W, S)
        ac, bc = slopes_at(a, b, z, lens, limits, bent, J)
        xx, xy, yy, det = spread(J, W, S, JM)
        g_xx, g_xy, g_yy = ellipse_back(grad, xx, xy, yy, det)
        for k in range(3):
            GJM[0, k] = 2 * g_xx * JM[0, k] + g_xy * JM[1, k]
            GJM[1, k] = 2 * g_yy * JM[1, k] + g_xy * JM[0, k]
        for r in range(3):
            for k in range(3):
                GW[r, k] = (J[0, r] * GJM[0, k] + J[1, r] * GJM[1, k]) * S[k]
        for k in range(3):
            out_scales[i, k] += GW[0, k] * W[0, k] + GW[1, k] * W[1, k] + GW[2, k] * W[2, k]
            for r in range(2):
                GJ[r, k] = GJM[r, 0] * W[k, 0] * S[0] + GJM[r, 1] * W[k, 1] * S[1] + GJM[r, 2] * W[k, 2] * S[2]
        if more:
            k = shortest(S)
            sign = -1.0 if W[0, k] * x + W[1, k] * y + W[2, k] * z > 0 else 1.0
            for r in range(3):
                GW[r, k] += sign * grad[g.G_NORMAL + r]
        axes_back(V, GW, R, GR, quats[i], out_quats[i], GV)
        gac, gbc, gz = slopes_back(GJ, J, ac, bc, z, lens, bends, GL)
        into[0], into[1] = grad[g.G_X], grad[g.G_Y]
        if bent:
            seen[0], seen[1] = into[0] * lens[0], into[1] * lens[1]
            more_a, more_b = add_bend_slopes(a, b, ac, bc, seen, bends, lens, GL)
            gac, gbc = gac + more_a, gbc + more_b
        ga, gb = centre_back(a, b, lens, bent, into, GL)
        ga += gac if limits[0] <= a <= limits[1] else 0.0
        gb += gbc if limits[2] <= b <= limits[3] else 0.0
        gz -= (ga * a + gb * b) / z
        gp[0], gp[1], gp[2] = ga / z, gb / z, gz + (grad[g.G_DEPTH] if more else 0.0)
        out_xy[i, 0] += into[0]
        out_xy[i, 1] += into[1]
        opacity = opacity_of(logits[i])
        out_logits[i] += grad[g.G_OPACITY] * opacity * (1.0 - opacity) if opacity < CAP else 0.0
        rgb[0], rgb[1], rgb[2] = grad[g.G_RED], grad[g.G_GREEN], grad[g.G_BLUE]
        colour_and_place_back(sh[i], means[i], V, (x, y, z), bands, rgb, gp, work, slopes, out_sh[i], out_means[i], GV)
