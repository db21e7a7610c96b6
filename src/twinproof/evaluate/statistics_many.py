"""Many comparisons at once: Holm's correction, and letters that say at a glance which policies cannot be told apart."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from twinproof.nouns.errors import TraceError


def holm(p_values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Adjusted p-values: those below alpha are, all together, wrong with a probability of at most alpha."""
    p = np.asarray(p_values, dtype=float)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise TraceError("p-values lie between 0 and 1.")
    order = np.argsort(p)
    raised = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(raised, 1.0)
    return adjusted


def compact_letters(policies: Sequence[str], different: Collection[tuple[str, str]]) -> Mapping[str, str]:
    """Letters for each policy: two share a letter exactly if they were not found different.

    Insert and absorb (Piepho, J. Comp. Graph. Stat. 13, 2004). Give the policies best first: then 'a' is the best.
    """
    unknown = sorted({name for pair in different for name in pair} - set(policies))
    if unknown or len(set(policies)) != len(policies):
        raise TraceError(
            f"letters for {', '.join(policies)}: each stands once, and {', '.join(unknown) or 'none'} is new."
        )
    groups = [set(policies)]
    for one, other in different:
        split = []
        for group in groups:
            split += [group - {one}, group - {other}] if {one, other} <= group else [group]
        groups = [g for k, g in enumerate(split) if not any(g < h or (g == h and j < k) for j, h in enumerate(split))]
    place = {name: k for k, name in enumerate(policies)}
    groups.sort(key=lambda group: sorted(place[name] for name in group))
    return {name: "".join(_letter(k) for k, group in enumerate(groups) if name in group) for name in policies}


def _letter(k: int) -> str:
    return chr(ord("a") + k) if k < 26 else _letter(k // 26 - 1) + chr(ord("a") + k % 26)
