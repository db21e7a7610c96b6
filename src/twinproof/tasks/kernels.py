"""Kernels of what every world needs at every tick, on a CPU: with 128 worlds numpy spends its time between the sums.

tests/tasks/test_senses.py holds them to the same sums in numpy: `TipPosition.by_parts`, which torch runs, and the
formula of counted numbers.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import numpy as np
from numba import njit

EXACT = {"nogil": True, "error_model": "numpy", "fastmath": False, "cache": True}


@njit(**EXACT)
def tips(position, zero, slides, turn, shift, slide, tip):
    """Where a tip is (N, 3) for the joints of its chain (N, K), as TipPosition has it; `turn` (K, 3, 9), of a slide its
    first three columns."""
    found = np.empty((position.shape[0], 3))
    for n in range(position.shape[0]):
        x, y, z = tip[0], tip[1], tip[2]
        for k in range(position.shape[1] - 1, -1, -1):
            angle, m = position[n, k] - zero[k], turn[k]
            a = x * m[0, 0] + y * m[1, 0] + z * m[2, 0] + shift[k, 0]
            b = x * m[0, 1] + y * m[1, 1] + z * m[2, 1] + shift[k, 1]
            c = x * m[0, 2] + y * m[1, 2] + z * m[2, 2] + shift[k, 2]
            if slides[k]:
                x, y, z = a + angle * slide[k, 0], b + angle * slide[k, 1], c + angle * slide[k, 2]
                continue
            cosine, sine = np.cos(angle), np.sin(angle)
            a += cosine * (x * m[0, 3] + y * m[1, 3] + z * m[2, 3])
            b += cosine * (x * m[0, 4] + y * m[1, 4] + z * m[2, 4])
            c += cosine * (x * m[0, 5] + y * m[1, 5] + z * m[2, 5])
            a += sine * (x * m[0, 6] + y * m[1, 6] + z * m[2, 6])
            b += sine * (x * m[0, 7] + y * m[1, 7] + z * m[2, 7])
            c += sine * (x * m[0, 8] + y * m[1, 8] + z * m[2, 8])
            x, y, z = a, b, c
        found[n, 0], found[n, 1], found[n, 2] = x, y, z
    return found


@njit(inline="always", **EXACT)
def mixed(bits):
    """The finaliser of splitmix64, as sim/channels.py has it."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@njit(**EXACT)
def uniform(key, tick, purpose, odd, columns):
    """Numbers in (0, 1) (N, columns), each of its world's key, its tick, its purpose and its column alone."""
    found = np.empty((len(key), columns))
    for n in range(len(key)):
        state = mixed(key[n] + tick[n] * odd[0] + purpose * odd[1])
        for k in range(columns):
            bits = mixed(state + np.uint64(k) * odd[2])
            found[n, k] = (np.float64(bits >> np.uint64(11)) + 0.5) * 2.0**-53
    return found
