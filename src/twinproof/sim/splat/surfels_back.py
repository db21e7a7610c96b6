"""The way back of surfels.py: from slopes by homographies to slopes by surfels, camera and lens."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import numpy as np
from numba import njit

from twinproof.sim.splat import blend as c
from twinproof.sim.splat import discs as d
from twinproof.sim.splat.harmonics import colour_back
from twinproof.sim.splat.lens import EXACT, is_bent
from twinproof.sim.splat.project import (
    CAP,
    direction,
    moved,
    normal_of,
    opacity_of,
    own_turn,
    product,
    scaled,
    sizes,
    slopes_at,
    turn_of,
)
from twinproof.sim.splat.project_back import (
    along_axis,
    camera_back,
    matrix_back,
    place_back,
    plus,
    scaled_back,
    summed,
    transposed,
    turned_back,
)
from twinproof.sim.splat.surfels import homography


@njit(**EXACT)
def homography_back(grad, h, e):
    """Slopes by G (in the places of J times the scaled axes) and by e, from those by h0 … h5."""
    g4, g5 = grad[d.G_H4], grad[d.G_H5]
    i00, i01 = grad[d.G_H0] - e[0] * g4, grad[d.G_H1] - e[0] * g5  # by the inverse of G
    i10, i11 = grad[d.G_H2] - e[1] * g4, grad[d.G_H3] - e[1] * g5
    # -(G⁻¹)ᵀ (slopes by G⁻¹) (G⁻¹)ᵀ
    m00, m01 = h[0] * i00 + h[2] * i10, h[0] * i01 + h[2] * i11
    m10, m11 = h[1] * i00 + h[3] * i10, h[1] * i01 + h[3] * i11
    by_G = (
        -(m00 * h[0] + m01 * h[1]), -(m00 * h[2] + m01 * h[3]), 0.0,
        -(m10 * h[0] + m11 * h[1]), -(m10 * h[2] + m11 * h[3]), 0.0,
    )  # fmt: skip
    return by_G, -(h[0] * g4 + h[1] * g5), -(h[2] * g4 + h[3] * g5)


@njit(**EXACT)
def project_back(cloud, eye, drawn, lists, pairs, more, out, block, lo, hi):
    """Adds the slopes of the visible surfels lo to hi (sorted places) to `out`."""
    Vs, lens, _, bands, by_lens = eye
    means, quats, log_scales, logits, sh, group, _ = cloud
    out_means, out_quats, out_scales, out_logits, out_sh, GV, GL = out
    first, slot, which = lists.first, lists.slot, drawn.which
    bent = is_bent(lens) or by_lens
    work, slopes, grad, room = np.empty(16), np.empty((16, 3)), np.empty(d.GRADS_MORE), np.empty(6)
    for j in range(lo, hi):
        summed(first, slot, pairs, j, grad)
        i = which[j]
        g = group[i]
        p, turn = moved(Vs, g, means, i), turn_of(Vs, g)
        z = p[2]
        a, b = p[0] / z, p[1] / z
        R = own_turn(quats, i)
        W = product(turn, R)
        S, J = sizes(log_scales, i), slopes_at(a, b, z, lens, bent)
        some, h, e = homography(scaled(J, W, S), W, S, z)
        GM, ge0, ge1 = homography_back(grad, h, e)
        if not some:
            GM, ge0, ge1 = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0), 0.0, 0.0
        GW, GJ = scaled_back(GM, J, W, S, i, out_scales)
        out_scales[i, 0] += ge0 * e[0]
        out_scales[i, 1] += ge1 * e[1]
        GW = plus(GW, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, ge0 * S[0] / z, ge1 * S[1] / z, 0.0))
        g_depth = -(ge0 * e[0] + ge1 * e[1]) / z
        if more:
            sign = normal_of(W, 2, p)[3]
            nx, ny, nz = grad[c.G_NORMAL] * sign, grad[c.G_NORMAL + 1] * sign, grad[c.G_NORMAL + 2] * sign
            GW, g_depth = plus(GW, along_axis(2, nx, ny, nz)), g_depth + grad[c.G_DEPTH]
        turned_back(quats, product(transposed(turn), GW), i, out_quats)
        into = grad[c.G_X], grad[c.G_Y]
        ga, gb, held_ga, held_gb, gz = camera_back(a, b, a, b, z, J, GJ, into, lens, bent, by_lens, GL, block, room)
        ga, gb = ga + held_ga, gb + held_gb
        gp = ga / z, gb / z, gz - (ga * a + gb * b) / z + g_depth
        opacity = opacity_of(np.float64(logits[i]))
        out_logits[i] += grad[c.G_OPACITY] * opacity * (1.0 - opacity) if opacity < CAP else 0.0
        rgb = grad[c.G_RED], grad[c.G_GREEN], grad[c.G_BLUE]
        arrow = colour_back(sh, i, direction(turn, p), bands, work, slopes, rgb, out_sh)
        mean = np.float64(means[i, 0]), np.float64(means[i, 1]), np.float64(means[i, 2])
        by_turn, by_shift = place_back(turn, p, gp, arrow, R, GW, mean, out_means, i)
        matrix_back(GV, block, g, by_turn, by_shift)
