"""Whole groups into three parts, as near to the sizes asked for as whole groups allow."""

from __future__ import annotations

import numpy as np

from twinproof.nouns.split import PARTS


def assign(
    groups: list[tuple[str, ...]], sizes: tuple[float, float, float], rng: np.random.Generator
) -> dict[str, tuple[str, ...]]:
    """Part -> sorted episode ids. At least three groups come in, every part gets one; ties fall by the generator."""
    order = [groups[k] for k in rng.permutation(len(groups))]
    order.sort(key=len, reverse=True)  # stable: among groups of one size, the shuffle decides
    weight = np.array([len(group) for group in order])
    target = np.array(sizes) * weight.sum()
    part = _greedy(weight, target)
    _fill_empty(part, weight, target)
    while _improve(part, weight, target):
        pass
    chosen = {name: [id for k in np.flatnonzero(part == p) for id in order[k]] for p, name in enumerate(PARTS)}
    return {name: tuple(sorted(ids)) for name, ids in chosen.items()}


def _greedy(weight: np.ndarray, target: np.ndarray) -> np.ndarray:
    got = np.zeros(3)
    part = np.zeros(len(weight), dtype=int)
    for k, size in enumerate(weight):
        part[k] = int(np.argmax(target - got))
        got[part[k]] += size
    return part


def _fill_empty(part: np.ndarray, weight: np.ndarray, target: np.ndarray) -> None:
    """An empty part takes the smallest group of a part that has two or more."""
    for empty in np.flatnonzero(np.bincount(part, minlength=3) == 0):
        spare = np.flatnonzero(np.bincount(part, minlength=3)[part] > 1)
        part[spare[int(np.argmin(weight[spare]))]] = empty


def _improve(part: np.ndarray, weight: np.ndarray, target: np.ndarray) -> bool:
    """Makes the one move or swap that brings the sizes nearest to the target; False when none helps.

    Groups of one size are alike here, so only one of each size and part is tried.
    """
    got = np.bincount(part, weights=weight, minlength=3)
    count = np.bincount(part, minlength=3)
    first = {(int(p), int(w)): k for k, (p, w) in reversed(list(enumerate(zip(part, weight, strict=True))))}
    best, change = _error(got, target) - 1e-9, None
    for (a, size_a), k in first.items():
        for b in range(3):
            if b == a:
                continue
            partners = [(0, -1)] if count[a] > 1 else []
            partners += [(size, m) for (p, size), m in first.items() if p == b and size < size_a]
            for size_b, m in partners:
                moved = got.copy()
                moved[a] -= size_a - size_b
                moved[b] += size_a - size_b
                if _error(moved, target) < best:
                    best, change = _error(moved, target), (k, m, a, b)
    if change is None:
        return False
    k, m, a, b = change
    part[k] = b
    if m >= 0:
        part[m] = a
    return True


def _error(got: np.ndarray, target: np.ndarray) -> float:
    return float(((got - target) ** 2).sum())
