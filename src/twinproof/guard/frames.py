"""A second sign for near-duplicates: how far two episodes' pictures differ at the same moments of the motion.

A static camera shows nearly the same picture in every episode, so this number decides nothing; a person reads it.
"""

from __future__ import annotations

import numpy as np

from twinproof.nouns.episode import Episode


def difference_hash(picture: np.ndarray) -> np.ndarray:
    """64 bits: whether each of 8 × 8 cells is darker than its right neighbour in a 9 × 8 reduction (dHash)."""
    gray = picture.astype(np.float64)
    gray = gray.mean(axis=2) if gray.ndim == 3 else gray
    rows = np.array_split(gray, 8, axis=0) if gray.shape[0] >= 8 else [gray] * 8
    cells = np.array([[cell.mean() for cell in np.array_split(row, min(9, row.shape[1]), axis=1)] for row in rows])
    bits: np.ndarray = np.diff(cells, axis=1) > 0
    return bits


def differing_bits(first: Episode, second: Episode, lag_s: float) -> dict[str, int]:
    """Camera -> bits of 64 that differ at most, at the start, middle and end of what the two episodes share."""
    found = {}
    for camera in sorted(set(first.videos) & set(second.videos)):
        one, other = first.videos[camera], second.videos[camera]
        if one.width != other.width or one.height != other.height:
            continue
        start = max(float(one.time_s[0]), float(other.time_s[0]) - lag_s)
        end = min(float(one.time_s[-1]), float(other.time_s[-1]) - lag_s)
        times = [start, (start + end) / 2, end]
        hashes = [(difference_hash(one.at(t)[1]), difference_hash(other.at(t + lag_s)[1])) for t in times]
        found[camera] = max(int((a != b).sum()) for a, b in hashes)
    return found
