"""The lens inside the kernels: OpenCV's distortion with its slopes, and where a splat's centre falls."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import numpy as np
from numba import njit

from twinproof.sim.render_camera import Lens

EXACT = {"cache": True, "nogil": True, "error_model": "numpy"}  # options of every kernel that works in float64
NUMBERS = 18  # fx fy cx cy, twelve coefficients of distortion, width, height
STEP = 1e-5  # of the central differences: the second slopes of the distortion, right to about 1e-9


def packed(lens: Lens) -> np.ndarray:
    """A lens as the kernels take it."""
    numbers = np.zeros(NUMBERS)
    numbers[:4] = lens.fx, lens.fy, lens.cx, lens.cy
    numbers[4 : 4 + len(lens.distortion)] = lens.distortion
    numbers[16:] = lens.width, lens.height
    return numbers


@njit(**EXACT)
def is_bent(lens):
    """Whether any coefficient of distortion is not zero."""
    bent = False
    for k in range(4, 16):
        bent |= lens[k] != 0.0
    return bent


@njit(**EXACT)
def bend(x, y, lens):
    """Where the ray (x, y, 1) is seen, in focal lengths, and the four slopes of that: x', y', xx, xy, yx, yy."""
    k1, k2, p1, p2, k3 = lens[4], lens[5], lens[6], lens[7], lens[8]
    k4, k5, k6 = lens[9], lens[10], lens[11]
    s1, s2, s3, s4 = lens[12], lens[13], lens[14], lens[15]
    r2 = x * x + y * y
    top = 1.0 + r2 * (k1 + r2 * (k2 + r2 * k3))
    low = 1.0 + r2 * (k4 + r2 * (k5 + r2 * k6))
    radial = top / low
    slope = ((k1 + r2 * (2 * k2 + 3 * k3 * r2)) - radial * (k4 + r2 * (2 * k5 + 3 * k6 * r2))) / low  # by r²
    bent_x = x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x) + r2 * (s1 + r2 * s2)
    bent_y = y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y + r2 * (s3 + r2 * s4)
    prism_x, prism_y = s1 + 2 * s2 * r2, s3 + 2 * s4 * r2
    xx = radial + 2 * x * x * slope + 2 * p1 * y + 6 * p2 * x + 2 * x * prism_x
    xy = 2 * x * y * slope + 2 * p1 * x + 2 * p2 * y + 2 * y * prism_x
    yx = 2 * x * y * slope + 2 * p1 * x + 2 * p2 * y + 2 * x * prism_y
    yy = radial + 2 * y * y * slope + 6 * p1 * y + 2 * p2 * x + 2 * y * prism_y
    return bent_x, bent_y, xx, xy, yx, yy


@njit(**EXACT)
def reach(lens):
    """How far from the axis (x / z) a splat is still linearised where it is: the picture and 15 % of it around.

    Farther out the slopes of the projection are those at the border, as in gsplat: a splat beside the camera would
    otherwise cover the whole picture. With distortion there are none farther out: the polynomial folds back there.
    """
    margin_x, margin_y = 0.15 * lens[16] / lens[0], 0.15 * lens[17] / lens[1]
    left, right = (lens[2] + 0.5) / lens[0] + margin_x, (lens[16] - lens[2] - 0.5) / lens[0] + margin_x
    top, bottom = (lens[3] + 0.5) / lens[1] + margin_y, (lens[17] - lens[3] - 0.5) / lens[1] + margin_y
    return -left, right, -top, bottom


@njit(**EXACT)
def add_bend_slopes(x, y, held_x, held_y, into, lens, wanted, grad, block):
    """Gives what flows into held_x, held_y by the slopes; where `wanted`, adds what flows into the coefficients.

    `into` is what flows into x', y' at (x, y), and into xx, xy, yx, yy at (held_x, held_y).
    """
    by_x, by_y = 0.0, 0.0
    right, left = bend(held_x + STEP, held_y, lens), bend(held_x - STEP, held_y, lens)
    low, high = bend(held_x, held_y + STEP, lens), bend(held_x, held_y - STEP, lens)
    for k in range(2, 6):
        by_x += into[k] * (right[k] - left[k])
        by_y += into[k] * (low[k] - high[k])
    if wanted:
        other = lens.copy()
        for k in range(4, 16):
            other[k] = lens[k] + STEP
            ahead, ahead_held = bend(x, y, other), bend(held_x, held_y, other)
            other[k] = lens[k] - STEP
            behind, behind_held = bend(x, y, other), bend(held_x, held_y, other)
            other[k] = lens[k]
            total = 0.0
            for i in range(2):
                total += into[i] * (ahead[i] - behind[i])
            for i in range(2, 6):
                total += into[i] * (ahead_held[i] - behind_held[i])
            grad[block, k] += total / (2 * STEP)
    return by_x / (2 * STEP), by_y / (2 * STEP)
