"""Kernels of small networks, written so that a world's numbers never depend on its neighbours or on the machine.

Sums run in one fixed order, without fused or reordered arithmetic, and the exponential is a polynomial of our own: the
same weights and observation give the same bits alone, among 4,096 worlds, and on another processor.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import numpy as np
from numba import njit

EXACT = {"nogil": True, "error_model": "numpy", "fastmath": False, "cache": True}
EPSILON = 1e-5  # of layer normalisation, as torch has it


@njit(**EXACT)
def dense(x, weight, bias, out):
    """out = x @ weight + bias, each row summed over the inputs in their order; four rows share a pass over weight."""
    count, inputs, outputs = x.shape[0], weight.shape[0], weight.shape[1]
    fours = count - count % 4
    for i in range(0, fours, 4):
        o0, o1, o2, o3 = out[i], out[i + 1], out[i + 2], out[i + 3]
        for j in range(outputs):
            o0[j] = bias[j]
            o1[j] = bias[j]
            o2[j] = bias[j]
            o3[j] = bias[j]
        for k in range(inputs):
            x0, x1, x2, x3 = x[i, k], x[i + 1, k], x[i + 2, k], x[i + 3, k]
            row = weight[k]
            for j in range(outputs):
                o0[j] += x0 * row[j]
                o1[j] += x1 * row[j]
                o2[j] += x2 * row[j]
                o3[j] += x3 * row[j]
    for i in range(fours, count):
        one = out[i]
        for j in range(outputs):
            one[j] = bias[j]
        for k in range(inputs):
            x0 = x[i, k]
            row = weight[k]
            for j in range(outputs):
                one[j] += x0 * row[j]


@njit(inline="always", **EXACT)
def decay(x):
    """exp(x) of a number not above zero, to 1e-10: a polynomial at x / 1024, squared ten times."""
    r = max(x, -87.0) * (1.0 / 1024.0)
    e = 1 + r * (1 + r * (1 / 2 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r * (1 / 720 + r * (1 / 5040)))))))
    for _ in range(10):
        e *= e
    return e


@njit(inline="always", **EXACT)
def tanh_of(x):
    """tanh of a number, in double precision."""
    e = decay(-2.0 * abs(x))
    t = (1.0 - e) / (1.0 + e)
    return t if x >= 0 else -t


@njit(inline="always", **EXACT)
def sigmoid_of(x):
    """The logistic function of a number, in double precision."""
    e = decay(-abs(x))
    return 1.0 / (1.0 + e) if x >= 0 else e / (1.0 + e)


@njit(**EXACT)
def elu(x):
    """x where it is above zero, exp(x) - 1 elsewhere; in place."""
    flat = x.ravel()
    for i in range(flat.size):
        v = np.float64(flat[i])
        low = decay(min(v, 0.0)) - 1.0
        flat[i] = np.float32(v if v > 0 else low)


@njit(**EXACT)
def relu(x):
    """x where it is above zero, zero elsewhere; in place."""
    flat = x.ravel()
    for i in range(flat.size):
        flat[i] = max(flat[i], np.float32(0.0))


@njit(**EXACT)
def tanh(x):
    """tanh(x), in place."""
    flat = x.ravel()
    for i in range(flat.size):
        flat[i] = np.float32(tanh_of(np.float64(flat[i])))


@njit(**EXACT)
def layer_norm(x, scale, shift):
    """Each row to mean 0 and variance 1, times scale, plus shift; in place."""
    count, width = x.shape
    for i in range(count):
        mean = 0.0
        for j in range(width):
            mean += x[i, j]
        mean /= width
        spread = 0.0
        for j in range(width):
            d = x[i, j] - mean
            spread += d * d
        factor = 1.0 / np.sqrt(spread / width + EPSILON)
        for j in range(width):
            x[i, j] = np.float32((x[i, j] - mean) * factor * scale[j] + shift[j])


@njit(**EXACT)
def gru_step(seen, kept, memory):
    """The next memory (N, H), in place, of W_i x + b_i and W_h h + b_h (N, 3H): reset, update, new, as in torch."""
    count, width = memory.shape
    for i in range(count):
        for j in range(width):
            reset = sigmoid_of(np.float64(seen[i, j]) + kept[i, j])
            update = sigmoid_of(np.float64(seen[i, width + j]) + kept[i, width + j])
            new = tanh_of(np.float64(seen[i, 2 * width + j]) + reset * kept[i, 2 * width + j])
            memory[i, j] = np.float32((1.0 - update) * new + update * memory[i, j])


@njit(**EXACT)
def soft_places(maps, out):
    """Where each map (N, h, w, F) is largest, softly: x of all maps, then y, from -1 to 1, into out (N, 2F)."""
    count, down, across, filters = maps.shape
    for i in range(count):
        for f in range(filters):
            top = maps[i, 0, 0, f]
            for r in range(down):
                for c in range(across):
                    top = max(top, maps[i, r, c, f])
            total, x, y = 0.0, 0.0, 0.0
            for r in range(down):
                for c in range(across):
                    share = decay(np.float64(maps[i, r, c, f]) - top)
                    total += share
                    x += share * c
                    y += share * r
            out[i, f] = np.float32(2.0 * x / (total * max(across - 1, 1)) - 1.0)
            out[i, filters + f] = np.float32(2.0 * y / (total * max(down - 1, 1)) - 1.0)
