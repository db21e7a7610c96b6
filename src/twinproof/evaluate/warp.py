"""The same path at another pace? Dynamic time warping takes timing out of the error; what is left is the path's.

Each real moment is matched with simulated ones, in order, at most `max_warp_s` away, so that the matched error is
least. The pace may at most double or halve (Sakoe and Chiba's slope condition P = 1), so that no moment stands still;
both ends are pinned. What remains is a lower bound of the path's error: a warp also finds its way through noise, and
along the path it cannot tell late from short.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.errors import ConfigError

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True)
class Warped:
    """What warping tells of one arm. `lag_s` is positive where the simulated motion comes late."""

    path_rmse: float  # √ mean MSE along the warp
    timing_share: float  # the share of the MSE that goes when the timing may bend
    lag_s: float  # mean of simulated minus matched real time, weighted by the real speed
    lag_abs_s: float


def warp(
    time_s: Float[np.ndarray, "T"], real: Float[np.ndarray, "T J"], sim: Float[np.ndarray, "T J"], max_warp_s: float
) -> Warped:
    """Warps a simulated motion onto a real one. Both are scaled: differences count as Σ (Δ)²."""
    if not max_warp_s > 0:
        raise ConfigError(f"the longest warp is {max_warp_s} s. It is above zero.")
    step = float(np.median(np.diff(time_s))) if len(time_s) > 1 else 1.0
    band = max(1, int(np.ceil(max_warp_s / step)))
    plain = float(((real - sim) ** 2).sum(axis=1).mean())
    path = _kernel()(np.ascontiguousarray(real), np.ascontiguousarray(sim), band)
    i, j = path[:, 0], path[:, 1]
    per_real = np.bincount(i, ((real[i] - sim[j]) ** 2).sum(axis=1), len(real)) / np.bincount(i, minlength=len(real))
    matched = float(per_real.mean())
    speed = np.linalg.norm(np.gradient(real, axis=0), axis=1) if len(real) > 1 else np.zeros(1)
    weight = speed[i] / max(float(speed[i].sum()), 1e-300)  # at rest every moment is like the next: no timing there
    late = time_s[j] - time_s[i]
    share = 1 - matched / plain if plain > 0 else 0.0
    return Warped(float(np.sqrt(matched)), float(max(share, 0.0)), float(weight @ late), float(weight @ np.abs(late)))


@functools.cache
def _kernel() -> Any:
    """Compiled when first asked for: importing this module compiles nothing."""
    import numba

    @numba.njit(cache=True)
    def path(real, sim, band):  # type: ignore[no-untyped-def]
        """The cheapest way through the matrix of squared distances, inside a band around its diagonal."""
        count, width = real.shape[0], 2 * band + 1
        apart = np.full((count, width), np.inf)
        for i in range(count):
            for b in range(max(0, band - i), min(width, count - i + band)):
                d = 0.0
                for k in range(real.shape[1]):
                    d += (real[i, k] - sim[i + b - band, k]) ** 2
                apart[i, b] = d
        cost = np.full((count, width), np.inf)
        came = np.zeros((count, width), dtype=np.int8)
        cost[0, band] = apart[0, band]
        for i in range(1, count):
            for b in range(max(0, band - i + 1), min(width, count - i + band)):
                d = apart[i, b]
                best, way = cost[i - 1, b] + 2 * d, 1  # one step of both
                if i > 1 and b + 1 < width:  # two real, one simulated
                    slow = cost[i - 2, b + 1] + 2 * apart[i - 1, b + 1] + d
                    if slow < best:
                        best, way = slow, 2
                if b > 0:  # one real, two simulated
                    fast = cost[i - 1, b - 1] + 2 * apart[i, b - 1] + d
                    if fast < best:
                        best, way = fast, 3
                cost[i, b], came[i, b] = best, way
        found = np.empty((3 * count, 2), dtype=np.int64)
        i, b, n = count - 1, band, 0
        while True:
            found[n, 0], found[n, 1] = i, i + b - band
            n += 1
            if came[i, b] == 1:
                i -= 1
            elif came[i, b] == 2:
                found[n, 0], found[n, 1] = i - 1, i + b - band
                n += 1
                i, b = i - 2, b + 1
            elif came[i, b] == 3:
                found[n, 0], found[n, 1] = i, i + b - band - 1
                n += 1
                i, b = i - 1, b - 1
            else:
                break
        return found[:n][::-1].copy()

    return path
