"""Kernels that tell objects from what is behind them: colours, plates of still cameras, evidence, smooth cuts.

Colours are (L + 16, a, b) of CIE Lab: a light that is dimmed scales all three alike, so a shadow is a factor.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import math

import numpy as np
from numba import njit

FAST = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz", "arcp"}, "cache": True}
BINS = (20, 32, 32)  # of L + 16, a, b
STEP = 6.0  # Lab units of a bin
EVEN = 1.0 / 800_000.0  # density of a colour that may be any
NEW = 0.1  # a colour with less than this share of the even density was never seen on the object
STUDENT = 4.0  # degrees of freedom of what a plate's pixels do
BEFORE = 8.0  # where the robot is drawn, it is so much likelier than an object before it
CLIP = 6.0  # one pixel never says more than this (log odds)


@njit(**FAST)
def to_lab(rgb, gain, linear):
    """(N, 3) bytes, times a gain for each channel, as (N, 3) of L + 16, a, b."""
    out = np.empty((rgb.shape[0], 3), np.float32)
    for k in range(rgb.shape[0]):
        r, g, b = linear[rgb[k, 0]] * gain[0], linear[rgb[k, 1]] * gain[1], linear[rgb[k, 2]] * gain[2]
        light_to_lab(r, g, b, out[k])
    return out


@njit(inline="always", **{key: value for key, value in FAST.items() if key != "cache"})
def light_to_lab(r, g, b, out):
    """One colour in linear light."""
    x = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505
    y = 0.2126 * r + 0.7152 * g + 0.0722 * b
    z = (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089
    fx, fy, fz = _root(x), _root(y), _root(z)
    out[0] = 116.0 * fy
    out[1] = 500.0 * (fx - fy)
    out[2] = 200.0 * (fy - fz)


@njit(inline="always", **{key: value for key, value in FAST.items() if key != "cache"})
def _root(t):
    return t ** (1.0 / 3.0) if t > 0.008856 else 7.787 * t + 16.0 / 116.0


@njit(inline="always", **{key: value for key, value in FAST.items() if key != "cache"})
def colour_bin(c):
    """Which bin a colour falls into."""
    i = min(max(int(c[0] / 6.0), 0), 19)
    j = min(max(int(c[1] / 6.0 + 16.0), 0), 31)
    k = min(max(int(c[2] / 6.0 + 16.0), 0), 31)
    return (i * 32 + j) * 32 + k


@njit(**FAST)
def count_colours(lab, weight, out):
    """Adds every colour's weight to its bin."""
    for k in range(lab.shape[0]):
        out[colour_bin(lab[k])] += weight[k]


@njit(**FAST)
def colour_odds(rgb, gain, linear, object_density, other_density):
    """(H, W) log odds of object against other by colour alone."""
    h, w = rgb.shape[:2]
    out = np.empty((h, w), np.float32)
    c = np.empty(3, np.float32)
    for i in range(h):
        for j in range(w):
            p = rgb[i, j]
            light_to_lab(linear[p[0]] * gain[0], linear[p[1]] * gain[1], linear[p[2]] * gain[2], c)
            k = colour_bin(c)
            out[i, j] = math.log(object_density[k] / other_density[k])
    return out


@njit(**FAST)
def plate_rows(rgb, gain, linear, usable, plate, count):
    """For every pixel the median light over the pictures in which it is usable, as Lab, and how many those are."""
    pictures, h, w = usable.shape
    held = np.empty((3, pictures), np.float32)
    for i in range(h):
        for j in range(w):
            n = 0
            for t in range(pictures):
                if usable[t, i, j]:
                    for k in range(3):
                        held[k, n] = linear[rgb[t, i, j, k]] * gain[t, k]
                    n += 1
            count[i, j] = n
            if n == 0:
                plate[i, j, 0], plate[i, j, 1], plate[i, j, 2] = 0.0, 0.0, 0.0
                continue
            for k in range(3):
                held[k, :n].sort()
            light_to_lab(held[0, n // 2], held[1, n // 2], held[2, n // 2], plate[i, j])


@njit(**FAST)
def evidence(rgb, gain, linear, plate, known, robot, tables, sigma, dark):
    """(H, W) log odds that a pixel shows the object; and 1 where the plate shows through bare, 2 where a colour is new.

    `known` 0: no plate here. `robot` 0: not drawn here, 1: near its edge, 2: inside. `tables`: densities of the
    object, of all else, of the robot. `dark` is the factor of the deepest shadow.
    """
    h, w = known.shape
    out, kind = np.empty((h, w), np.float32), np.zeros((h, w), np.uint8)
    c = np.empty(3, np.float32)
    norm = 0.0746 / (sigma * sigma * sigma)  # of Student's t in three dimensions, 4 degrees of freedom
    for i in range(h):
        for j in range(w):
            p = rgb[i, j]
            light_to_lab(linear[p[0]] * gain[0], linear[p[1]] * gain[1], linear[p[2]] * gain[2], c)
            k = colour_bin(c)
            behind = tables[1, k]
            kind[i, j] = 2 if tables[0, k] < NEW * EVEN else 0
            if known[i, j]:
                q = plate[i, j]
                near = q[0] * q[0] + q[1] * q[1] + q[2] * q[2]
                shade = (c[0] * q[0] + c[1] * q[1] + c[2] * q[2]) / max(near, 1.0)
                shade = min(max(shade, dark), 1.06)
                far = 0.0
                for m in range(3):
                    far += (c[m] - shade * q[m]) ** 2
                fit = norm / (1.0 + far / (sigma * sigma * STUDENT)) ** (0.5 * (STUDENT + 3.0))
                fit *= 0.9 if shade > 0.96 else 0.5
                if robot[i, j] < 2 and fit > 0.3 * behind and fit > tables[0, k]:
                    kind[i, j] = 1
                behind = 0.1 * behind + fit
            if robot[i, j] == 2:
                behind = BEFORE * tables[2, k]
            elif robot[i, j] == 1:
                behind = max(behind, tables[2, k])
            out[i, j] = min(max(math.log(tables[0, k] / behind), -CLIP), CLIP)
    return out, kind


@njit(**FAST)
def smooth_cut(odds, across, down, rounds):
    """The u in 0 … 1 that gains most odds at the least length of outline: weighted total variation, by primal-dual.

    `across[i, j]` is the price of an outline between (i, j) and (i, j + 1), `down` between (i, j) and (i + 1, j).
    """
    h, w = odds.shape
    u, ahead = np.empty((h, w), np.float32), np.empty((h, w), np.float32)
    p, q = np.zeros((h, w), np.float32), np.zeros((h, w), np.float32)
    for i in range(h):
        for j in range(w):
            u[i, j] = 1.0 if odds[i, j] > 0 else 0.0
            ahead[i, j] = u[i, j]
    step = np.float32(0.35)
    for _ in range(rounds):
        for i in range(h):
            for j in range(w):
                if j + 1 < w:
                    v = p[i, j] + step * (ahead[i, j + 1] - ahead[i, j])
                    p[i, j] = min(max(v, -across[i, j]), across[i, j])
                if i + 1 < h:
                    v = q[i, j] + step * (ahead[i + 1, j] - ahead[i, j])
                    q[i, j] = min(max(v, -down[i, j]), down[i, j])
        for i in range(h):
            for j in range(w):
                flow = p[i, j] + q[i, j]
                if j > 0:
                    flow -= p[i, j - 1]
                if i > 0:
                    flow -= q[i - 1, j]
                new = u[i, j] + step * (flow + odds[i, j])
                new = min(max(new, np.float32(0.0)), np.float32(1.0))
                ahead[i, j] = 2 * new - u[i, j]
                u[i, j] = new
    return u


@njit(**FAST)
def gather(odds, pixel, out):
    """out[v] = odds at the pixel of voxel v; NaN where it is outside the picture."""
    h, w = odds.shape
    for v in range(pixel.shape[0]):
        x, y = pixel[v, 0], pixel[v, 1]
        if 0 <= x < w and 0 <= y < h:
            out[v] = odds[y, x]
        else:
            out[v] = np.nan


@njit(**FAST)
def support(value, pixel, out):
    """out at each pixel: the largest value among the voxels that are seen there."""
    h, w = out.shape
    for v in range(pixel.shape[0]):
        x, y = pixel[v, 0], pixel[v, 1]
        for i in range(max(y, 0), min(y + 2, h)):
            for j in range(max(x, 0), min(x + 2, w)):
                out[i, j] = max(out[i, j], value[v])


@njit(**FAST)
def differs(rgb, gain, linear, plate, known, dark):
    """(H, W) how far each pixel's colour is from its plate, shadows allowed; 0 where the plate is not known."""
    h, w = known.shape
    out = np.zeros((h, w), np.float32)
    c = np.empty(3, np.float32)
    for i in range(h):
        for j in range(w):
            if not known[i, j]:
                continue
            p, q = rgb[i, j], plate[i, j]
            light_to_lab(linear[p[0]] * gain[0], linear[p[1]] * gain[1], linear[p[2]] * gain[2], c)
            near = q[0] * q[0] + q[1] * q[1] + q[2] * q[2]
            shade = (c[0] * q[0] + c[1] * q[1] + c[2] * q[2]) / max(near, 1.0)
            shade = min(max(shade, dark), 1.0 / dark)
            far = 0.0
            for m in range(3):
                far += (c[m] - shade * q[m]) ** 2
            out[i, j] = math.sqrt(far)
    return out
