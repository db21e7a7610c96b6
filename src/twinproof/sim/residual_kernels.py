"""The residual law's sums, row by row: what a world is told must not depend on how many stand beside it.

A library's matrix product may round a row otherwise in another company; then a trial alone is not the trial among many.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import numpy as np
from numba import njit

from twinproof.sim.splat.lens import EXACT


@njit(**EXACT)
def said(at, waves, phases, weights):
    """What members (waves (M, I, F), phases (M, F), weights (M, F, O)) say of scaled inputs (n, I): (M, n, O)."""
    count, inputs, features = waves.shape
    found = np.zeros((count, len(at), weights.shape[2]))
    angle = np.empty(features)
    for m in range(count):
        for row in range(len(at)):
            angle[:] = phases[m]
            for i in range(inputs):
                for f in range(features):
                    angle[f] += at[row, i] * waves[m, i, f]
            for f in range(features):
                feature = np.cos(angle[f])
                for o in range(found.shape[2]):
                    found[m, row, o] += feature * weights[m, f, o]
    return found


@njit(**EXACT)
def nearest(at, places):
    """The squared distance of each row (n, I) to the nearest place (P, I)."""
    found = np.full(len(at), np.inf)
    for row in range(len(at)):
        for p in range(len(places)):
            square = 0.0
            for i in range(at.shape[1]):
                square += (at[row, i] - places[p, i]) ** 2
            found[row] = min(found[row], square)
    return found
