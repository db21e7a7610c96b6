"""Near-duplicates: episodes whose joint paths agree to within the sensors' noise, at some shift in time.

The shorter path slides over the longer one; at least 80 % of it must lie on the other. The distance is the root mean
square of the difference, in noise floors, over the columns that move. A copy that was cropped, stored at another rate
or dusted with noise measures about 1. Demonstrations of one script differ by millimetres, which is many floors.

  boxes:   the middle of the shorter must lie inside the range of the longer       all pairs, vectorised
  probes:  24 points of the middle, at every shift on a coarse grid                 most pairs end here
  full:    every sample, shift refined below a sample                               what is left

Mirrored, scaled or time-warped copies are other trajectories here and are not found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from twinproof.guard.frames import differing_bits
from twinproof.guard.group import Unions
from twinproof.guard.signature import FEWEST, Signature, Track, duration_of, signature_of, tracks_of, trimmed_rms
from twinproof.nouns.recording import Recording
from twinproof.nouns.split import Alike

if TYPE_CHECKING:
    from jaxtyping import Float

OVERLAP = 0.8  # of the shorter episode
MOVES = 10.0  # floors that a column must span to count
PROBES = 24
GRID_HZ = 25.0


@dataclass(frozen=True)
class Likeness:
    """The pairs found, enough of them to bind each group of copies, and the usual floor of each column (SI)."""

    pairs: tuple[Alike, ...]
    floor: dict[str, float]


def near_duplicates(recording: Recording, threshold: float) -> Likeness:
    """The pairs of episodes closer than the threshold. Which come out depends on content alone, not on the order."""
    episodes = {episode.id: episode for episode in sorted(recording.episodes, key=lambda episode: episode.id)}
    read = lru_cache(maxsize=32)(lambda id: tracks_of(episodes[id].fresh()))
    signatures = _signatures(list(episodes), read)
    unions, pairs = Unions(episodes), []
    for one, other in _candidates(signatures, threshold):
        if unions.root(one.id) == unions.root(other.id):
            continue  # bound already, through others
        found = _compare(one, other, read, threshold)
        if found is not None:
            unions.merge(one.id, other.id)
            frames = differing_bits(episodes[found.first].fresh(), episodes[found.second].fresh(), found.lag_s)
            pairs.append(Alike(found.first, found.second, found.distance, found.lag_s, found.floor, frames))
    floors: dict[str, list[float]] = {}
    for signature in signatures:
        for name, floor in zip(signature.columns, signature.floor, strict=True):
            floors.setdefault(name, []).append(float(floor))
    usual = {name: float(np.median(values)) for name, values in sorted(floors.items())}
    return Likeness(tuple(sorted(pairs, key=lambda pair: (pair.first, pair.second))), usual)


def _signatures(ids: list[str], read: Callable[[str], dict[str, Track]]) -> list[Signature]:
    """Signatures on one grid, fine enough for the shortest episode; shortest first."""
    spans = {id: duration_of(read(id)) for id in ids}
    shortest = min((end - start for start, end in spans.values() if end > start), default=1.0)
    step = 1 / min(200.0, max(GRID_HZ, 40 / shortest))
    made = [signature_of(id, read(id), step) for id in ids]
    return sorted((one for one in made if one is not None), key=lambda one: (len(one.grid), one.id))


def _candidates(signatures: list[Signature], threshold: float) -> list[tuple[Signature, Signature]]:
    """(shorter, longer) pairs whose boxes allow a match: what must overlap of one lies in the range of the other."""
    names = sorted({name for one in signatures for name in one.columns})
    low, high, floor, core_low, core_high, inner_low, inner_high = np.full((7, len(signatures), len(names)), np.nan)
    length = np.array([len(one.grid) for one in signatures])
    for i, one in enumerate(signatures):
        at = [names.index(name) for name in one.columns]
        low[i, at], high[i, at], floor[i, at] = one.grid.min(axis=0), one.grid.max(axis=0), one.floor
        core_low[i, at], core_high[i, at] = np.percentile(one.grid[one.middle(0.2)], [5, 95], axis=0)
        inner_low[i, at], inner_high[i, at] = np.percentile(one.grid[one.middle(0.36)], [5, 95], axis=0)
    found = []
    for i, one in enumerate(signatures):
        rest = slice(i + 1, None)  # sorted by length: what follows is at least as long
        pair_floor = np.maximum(floor[i], floor[rest])
        moves = np.maximum(high[i], high[rest]) - np.minimum(low[i], low[rest]) > MOVES * pair_floor
        slack = 3 * threshold * pair_floor
        outside = (core_low[i] < low[rest] - slack) | (core_high[i] > high[rest] + slack)
        # 80 % of something at least 80 % as long always covers the longer one's share from 0.36 to 0.64
        near_length = (length[i] >= OVERLAP * length[rest])[:, None]
        outside |= near_length & ((inner_low[rest] < low[i] - slack) | (inner_high[rest] > high[i] + slack))
        same = np.array([bool(one.content) and one.content == other.content for other in signatures[rest]], dtype=bool)
        possible = (moves.any(axis=1) & ~(moves & outside).any(axis=1)) | same
        found += [(one, signatures[i + 1 + int(k)]) for k in np.flatnonzero(possible)]
    return found


def _compare(
    one: Signature, other: Signature, read: Callable[[str], dict[str, Track]], threshold: float
) -> Alike | None:
    if one.content and one.content == other.content:
        return _alike(one.id, other.id, 0.0, other.start_s - one.start_s, {})
    shared = [name for name in one.columns if name in other.columns]
    moves = [name for name in shared if _pooled_range(one, other, name) > MOVES * _pair_floor(one, other, name)]
    if not moves:
        return None
    shift, likely = _best_shift(one, other, moves, threshold)
    if not likely:
        return None
    tracks = [(read(one.id)[name], read(other.id)[name]) for name in moves]
    distance, lag = _refined(tracks, other.start_s - one.start_s + shift * one.step_s, one.step_s)
    if distance > threshold:
        return None
    return _alike(one.id, other.id, distance, lag, {name: _pair_floor(one, other, name) for name in moves})


def _pooled_range(one: Signature, other: Signature, column: str) -> float:
    """Of both episodes together: a joint that stands still in each, but not at the same angle, counts as well."""
    a, b = one.grid[:, one.columns.index(column)], other.grid[:, other.columns.index(column)]
    return float(max(a.max(), b.max()) - min(a.min(), b.min()))


def _pair_floor(one: Signature, other: Signature, column: str) -> float:
    return float(max(one.floor[one.columns.index(column)], other.floor[other.columns.index(column)]))


def _alike(one: str, other: str, distance: float, lag_s: float, floor: dict[str, float]) -> Alike:
    first, second, lag_s = (one, other, lag_s) if one < other else (other, one, -lag_s)
    return Alike(first, second, round(distance, 3), round(lag_s, 6), floor)


def _best_shift(one: Signature, other: Signature, columns: list[str], threshold: float) -> tuple[float, bool]:
    """The shift in grid steps at which the probes of the shorter lie nearest to the longer, and whether near enough.

    Between two grid shifts the path is followed along its velocity, so the grid may be coarse.
    """
    a, b = [one.columns.index(name) for name in columns], [other.columns.index(name) for name in columns]
    floor = np.maximum(one.floor[a], other.floor[b])
    curve = np.maximum(one.acceleration[a], other.acceleration[b]) / 8
    scale = np.sqrt(floor**2 + curve**2)
    short, long = one.grid[:, a] / scale, other.grid[:, b] / scale
    velocity = np.gradient(long, axis=0)
    probes = _probes(short, one.middle(1 - OVERLAP))
    spare = int((1 - OVERLAP) * len(short))
    shifts = np.arange(-min(spare, int(probes[0])), len(long) - int(probes[-1]))
    shifts = shifts[shifts <= len(long) - len(short) + spare]
    best, best_shift = np.inf, 0.0
    for block in np.array_split(shifts, max(1, len(shifts) // 4096)):
        at = block[:, None] + probes
        gap, slope = short[probes] - long[at], velocity[at]
        part = (gap * slope).sum(axis=(1, 2)) / np.maximum((slope**2).sum(axis=(1, 2)), 1e-12)
        part = part.clip(-1, 1)
        left = gap - part[:, None, None] * slope
        cost = np.minimum(left**2, (4 * threshold) ** 2).mean(axis=(1, 2))
        k = int(np.argmin(cost))
        if cost[k] < best:
            best, best_shift = float(cost[k]), float(block[k] + part[k])
    return best_shift, best <= (2 * threshold) ** 2


def _probes(path: Float[np.ndarray, "L D"], core: slice) -> np.ndarray:
    """Indices in the core at equal lengths of path, so that a long wait does not take them all."""
    travelled = np.concatenate([[0.0], np.abs(np.diff(path[core], axis=0)).sum(axis=1).cumsum()])
    wanted = np.linspace(0, travelled[-1], PROBES)
    return np.unique(core.start + np.searchsorted(travelled, wanted).clip(0, len(travelled) - 1))


def _refined(tracks: list[tuple[Track, Track]], lag_s: float, step_s: float) -> tuple[float, float]:
    """The smallest distance within a grid step of a lag, over every sample of the overlap, and the lag it has."""
    from scipy.optimize import minimize_scalar

    bounds = (lag_s - step_s, lag_s + step_s)
    found = minimize_scalar(lambda lag: _distance(tracks, lag), bounds=bounds, options={"xatol": step_s / 1000})
    return float(found.fun), float(found.x)


def _distance(tracks: list[tuple[Track, Track]], lag_s: float) -> float:
    """Root mean square over columns of (difference / floor), where `other` at t + lag is compared with `one` at t.

    The sparser of the two is taken as sampled; only the denser is interpolated.
    """
    total = 0.0
    for one, other in tracks:
        sparse, dense, lag = (one, other, lag_s) if one.step_s >= other.step_s else (other, one, -lag_s)
        at = sparse.time_s + lag
        inside = (at >= dense.time_s[0]) & (at <= dense.time_s[-1])
        if inside.sum() < FEWEST:
            return np.inf
        gap = sparse.value[inside] - np.interp(at[inside], dense.time_s, dense.value)
        total += (trimmed_rms(gap) / max(one.floor, other.floor)) ** 2
    return float(np.sqrt(total / len(tracks)))
