"""Kernels that lay pictures of a plane over each other: what a moving camera with a rolling shutter sees of each texel.

texel -> world -> camera at the time of the row that sees it -> pixel; and how the texel that a pixel sees moves when
the camera's pose, focal length or clock, or the plane, is a little different.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import numpy as np
from numba import njit

FAST = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz", "arcp"}, "cache": True}
INLINE = {"inline": "always", "nogil": True, "error_model": "numpy"}
NEAREST_M = 0.02  # a plane that is nearer to the camera is not looked at


@njit(**INLINE)
def _bent(x, y, k):
    r2 = x * x + y * y
    radial = (1 + r2 * (k[0] + r2 * (k[1] + r2 * k[4]))) / (1 + r2 * (k[5] + r2 * (k[6] + r2 * k[7])))
    u = x * radial + 2 * k[2] * x * y + k[3] * (r2 + 2 * x * x) + r2 * (k[8] + r2 * k[9])
    v = y * radial + k[2] * (r2 + 2 * y * y) + 2 * k[3] * x * y + r2 * (k[10] + r2 * k[11])
    return u, v


@njit(**FAST)
def sample(picture, use, first, last, lens, corner, along, across, texel_m, least_px, value, share, seen):
    """What a picture shows of every texel, bilinearly; and at which share of the readout.

    first, last: T_camera_world (3 × 4) at the begin and the end of the readout. lens: fx, fy, cx, cy, 12 of distortion.
    seen is False where the texel is outside of the picture, on a pixel that is not of use, or where it is drawn smaller
    than least_px pixels.
    """
    height, width, channels = picture.shape
    rows, columns = seen.shape
    change = last - first
    normal = np.array([
        along[1] * across[2] - along[2] * across[1],
        along[2] * across[0] - along[0] * across[2],
        along[0] * across[1] - along[1] * across[0],
    ])  # fmt: skip
    for i in range(rows):
        for j in range(columns):
            seen[i, j] = False
            p = corner + texel_m * (j * along + i * across)
            f, u, v, ok = 0.5, 0.0, 0.0, True
            x, y, z = 0.0, 0.0, 0.0
            for _ in range(3):
                x, y, z = first[0, 3] + f * change[0, 3], first[1, 3] + f * change[1, 3], first[2, 3] + f * change[2, 3]
                for c in range(3):
                    x += (first[0, c] + f * change[0, c]) * p[c]
                    y += (first[1, c] + f * change[1, c]) * p[c]
                    z += (first[2, c] + f * change[2, c]) * p[c]
                if z < NEAREST_M or abs(x) > 3 * z or abs(y) > 3 * z:
                    ok = False
                    break
                u, v = _bent(x / z, y / z, lens[4:])
                u, v = lens[0] * u + lens[2], lens[1] * v + lens[3]
                f = min(max((v + 0.5) / height, 0.0), 1.0)
            if not (ok and 0 <= u < width - 1 and 0 <= v < height - 1):
                continue
            a, b = int(v), int(u)
            if not (use[a, b] and use[a + 1, b] and use[a, b + 1] and use[a + 1, b + 1]):
                continue
            across_ray = 0.0  # the plane's normal along the ray
            for c in range(3):
                n = first[c, 0] * normal[0] + first[c, 1] * normal[1] + first[c, 2] * normal[2]
                across_ray += n * (x if c == 0 else y if c == 1 else z)
            slant = abs(across_ray) / np.sqrt(x * x + y * y + z * z)
            if lens[0] / z * slant * texel_m < least_px:
                continue
            dv, du = v - a, u - b
            for c in range(channels):
                top = picture[a, b, c] * (1 - du) + picture[a, b + 1, c] * du
                low = picture[a + 1, b, c] * (1 - du) + picture[a + 1, b + 1, c] * du
                value[i, j, c] = top * (1 - dv) + low * dv
            share[i, j] = f
            seen[i, j] = True


@njit(**FAST)
def robust_mean(values, seen, scale, least, mean, count):
    """Over the frames that see a texel: the median, then twice the mean weighted by how close a value is to it.

    A texel that fewer than `least` frames see has the count 0 and no mean.
    """
    frames, texels, channels = values.shape
    kept = np.empty(frames, np.float64)
    for t in range(texels):
        n = 0
        for k in range(frames):
            n += seen[k, t]
        count[t] = n if n >= least else 0
        if n < least:
            continue
        for c in range(channels):
            m = 0
            for k in range(frames):
                if seen[k, t]:
                    kept[m] = values[k, t, c]
                    m += 1
            middle = np.median(kept[:n])
            for _ in range(2):
                total, weight = 0.0, 0.0
                for k in range(n):
                    w = 1 / (1 + ((kept[k] - middle) / scale) ** 2) ** 2
                    total += w * kept[k]
                    weight += w
                middle = total / weight
            mean[t, c] = middle


@njit(**INLINE)
def _slopes(t, columns, camera, share, twists, readout, focal, corner, along, across, normal, texel_m, du):
    """How the place on the plane that a fixed pixel sees changes with each unknown: du (P, 2), in texels."""
    i, j = t // columns, t % columns
    f = share[t]
    q = np.empty(3)
    for r in range(3):
        q[r] = camera[0, r, 3] + f * (camera[1, r, 3] - camera[0, r, 3])
        for c in range(3):
            m = camera[0, r, c] + f * (camera[1, r, c] - camera[0, r, c])
            q[r] += m * (corner[c] + texel_m * (j * along[c] + i * across[c]))
    eq = along_q = across_q = 0.0
    e1, e2, n = np.empty(3), np.empty(3), np.empty(3)
    for r in range(3):
        e1[r] = e2[r] = n[r] = 0.0
        for c in range(3):
            m = camera[0, r, c] + f * (camera[1, r, c] - camera[0, r, c])
            e1[r] += m * along[c]
            e2[r] += m * across[c]
            n[r] += m * normal[c]
        eq += n[r] * q[r]
        along_q += e1[r] * q[r]
        across_q += e2[r] * q[r]
    for k in range(len(twists)):
        w, s = twists[k], f if k == readout else 1.0
        dx = s * (w[3] + w[1] * q[2] - w[2] * q[1])
        dy = s * (w[4] + w[2] * q[0] - w[0] * q[2])
        dz = s * (w[5] + w[0] * q[1] - w[1] * q[0])
        if k == focal:
            dx, dy, dz = -q[0] * w[0], -q[1] * w[0], 0.0
        out = (n[0] * dx + n[1] * dy + n[2] * dz) / eq
        du[k, 0] = (e1[0] * dx + e1[1] * dy + e1[2] * dz - along_q * out) / texel_m
        du[k, 1] = (e2[0] * dx + e2[1] * dy + e2[2] * dz - across_q * out) / texel_m


@njit(**FAST)
def fold(
    value, mean, slope, seen, count, scale, camera, share, twists, readout, focal, columns,
    corner, along, across, texel_m, hessian, pull, shared, weights, minus,
):  # fmt: skip
    """A frame's share of the normal equations, over all unknowns, of value − mean.

    The mean moves with the frames: shared (texels, channels, P) and weights (texels, channels) gather what it moves by.
    With `minus`, the gathered mean slope (shared / weights) is taken off first: the pull that is the frame's own.
    Returns the weighted square of the misfit and the sum of the weights.
    """
    channels, P = value.shape[1], len(twists)
    normal = np.array([
        along[1] * across[2] - along[2] * across[1],
        along[2] * across[0] - along[0] * across[2],
        along[0] * across[1] - along[1] * across[0],
    ])  # fmt: skip
    du, d = np.empty((P, 2)), np.empty(P)
    cost, total = 0.0, 0.0
    for t in range(len(value)):
        if not (seen[t] and count[t] > 0):
            continue
        _slopes(t, columns, camera, share, twists, readout, focal, corner, along, across, normal, texel_m, du)
        for c in range(channels):
            r = (value[t, c] - mean[t, c]) / scale
            w = 1 / (1 + r * r) ** 2
            cost += w * r * r
            total += w
            for k in range(P):
                d[k] = -(slope[t, c, 0] * du[k, 0] + slope[t, c, 1] * du[k, 1]) / scale
                if minus:
                    d[k] -= shared[t, c, k] / weights[t, c]
            if not minus:
                weights[t, c] += w
                for k in range(P):
                    shared[t, c, k] += w * d[k]
            for k in range(P):
                pull[k] -= w * d[k] * r
                for m in range(k + 1):
                    hessian[k, m] += w * d[k] * d[m]
    return cost, total
