"""The way back of surfels.py: from slopes by homographies to slopes by surfels, camera and lens."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import numpy as np
from numba import njit

from twinproof.sim.splat import blend as g
from twinproof.sim.splat import discs as d
from twinproof.sim.splat.lens import EXACT, add_bend_slopes, is_bent
from twinproof.sim.splat.project import CAP, axes, moved, opacity_of, slopes_at
from twinproof.sim.splat.project_back import axes_back, centre_back, colour_and_place_back, slopes_back, summed
from twinproof.sim.splat.surfels import flat_spread, homography


@njit(**EXACT)
def homography_back(grad, h, e, GG, ge):
    """Writes slopes by G (2 × 2) and e (2) from those by h0 … h5, through the inverse of G."""
    i00, i01 = grad[d.G_H0] - e[0] * grad[d.G_H4], grad[d.G_H1] - e[0] * grad[d.G_H5]  # by the inverse
    i10, i11 = grad[d.G_H2] - e[1] * grad[d.G_H4], grad[d.G_H3] - e[1] * grad[d.G_H5]
    ge[0] = -(h[0] * grad[d.G_H4] + h[1] * grad[d.G_H5])
    ge[1] = -(h[2] * grad[d.G_H4] + h[3] * grad[d.G_H5])
    # -(G⁻¹)ᵀ (slopes by G⁻¹) (G⁻¹)ᵀ
    m00, m01 = h[0] * i00 + h[2] * i10, h[0] * i01 + h[2] * i11
    m10, m11 = h[1] * i00 + h[3] * i10, h[1] * i01 + h[3] * i11
    GG[0, 0], GG[0, 1] = -(m00 * h[0] + m01 * h[1]), -(m00 * h[2] + m01 * h[3])
    GG[1, 0], GG[1, 1] = -(m10 * h[0] + m11 * h[1]), -(m10 * h[2] + m11 * h[3])


@njit(**EXACT)
def project_back(cloud, eye, drawn, lists, pairs, more, out, block, lo, hi):
    """Adds the slopes of the visible surfels lo to hi (sorted places) to `out`."""
    lens, bands = eye.lens, eye.bands
    bent, free = is_bent(lens) or eye.by_lens, (-np.inf, np.inf, -np.inf, np.inf)
    R, W, S, J, JM = np.empty((3, 3)), np.empty((3, 3)), np.empty(3), np.empty((2, 3)), np.empty((2, 2))
    work, slopes, rgb, gp, into = np.empty(16), np.empty((16, 3)), np.empty(3), np.empty(3), np.empty(2)
    GR, grad, GW, GJ, GG = (
        np.empty((3, 3)),
        np.empty(d.GRADS_MORE),
        np.empty((3, 3)),
        np.empty((2, 3)),
        np.empty((2, 2)),
    )
    G, e, h, ge = np.empty((2, 2)), np.empty(2), np.empty(6), np.empty(2)
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
        slopes_at(a, b, z, lens, free, bent, J)
        flat_spread(J, W, S, JM)
        GW[:], GJ[:], GG[:], ge[:] = 0.0, 0.0, 0.0, 0.0
        if homography(JM, W, S, z, h, G, e):
            homography_back(grad, h, e, GG, ge)
        gz = 0.0
        for k in range(2):
            for r in range(3):
                GW[r, k] = (J[0, r] * GG[0, k] + J[1, r] * GG[1, k]) * S[k]
                GJ[0, r] += GG[0, k] * W[r, k] * S[k]
                GJ[1, r] += GG[1, k] * W[r, k] * S[k]
            GW[2, k] += ge[k] * S[k] / z
            gz -= ge[k] * e[k] / z
            out_scales[i, k] += GW[0, k] * W[0, k] + GW[1, k] * W[1, k] + GW[2, k] * W[2, k]
        if more:
            sign = -1.0 if W[0, 2] * x + W[1, 2] * y + W[2, 2] * z > 0 else 1.0
            for r in range(3):
                GW[r, 2] = sign * grad[g.G_NORMAL + r]
        axes_back(V, GW, R, GR, quats[i], out_quats[i], GV)
        ga, gb, more_z = slopes_back(GJ, J, a, b, z, lens, bends, GL)
        into[0], into[1] = grad[g.G_X], grad[g.G_Y]
        if bent:
            seen[0], seen[1] = into[0] * lens[0], into[1] * lens[1]
            more_a, more_b = add_bend_slopes(a, b, a, b, seen, bends, lens, GL)
            ga, gb = ga + more_a, gb + more_b
        from_a, from_b = centre_back(a, b, lens, bent, into, GL)
        ga, gb = ga + from_a, gb + from_b
        gz += more_z - (ga * a + gb * b) / z
        gp[0], gp[1], gp[2] = ga / z, gb / z, gz + (grad[g.G_DEPTH] if more else 0.0)
        out_xy[i, 0] += into[0]
        out_xy[i, 1] += into[1]
        opacity = opacity_of(logits[i])
        out_logits[i] += grad[g.G_OPACITY] * opacity * (1.0 - opacity) if opacity < CAP else 0.0
        rgb[0], rgb[1], rgb[2] = grad[g.G_RED], grad[g.G_GREEN], grad[g.G_BLUE]
        colour_and_place_back(sh[i], means[i], V, (x, y, z), bands, rgb, gp, work, slopes, out_sh[i], out_means[i], GV)
