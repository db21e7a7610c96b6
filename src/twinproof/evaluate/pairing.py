"""Which simulated episode belongs to which real one: the same task, begun in the same place. Outcomes do not count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.evaluate.motion import Motion, Scale
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import ConfigError, RecordingError

if TYPE_CHECKING:
    from jaxtyping import Float

FAR = 1e5  # the cost of a pair that may not be; larger, and the order below would be lost in rounding


@dataclass(frozen=True)
class Pairing:
    """The rules. Two episodes may be a pair if every label of `labels` that both carry is equal, and both begin within
    `start_share` of the joints' ranges (root mean square) and `object_m` of every pose track that both carry.

    With `by`, the label of that name alone decides; "order" takes the n-th with the n-th. Starts closer than a fifth of
    the tolerance count as the same; among those, the order in the recordings decides, and the report says so.
    """

    by: str | None = None
    labels: tuple[str, ...] = ("task", "behaviour", "object")
    start_share: float = 0.1
    object_m: float = 0.03

    def __post_init__(self) -> None:
        for name in ("start_share", "object_m"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"the pairing's {name} is {getattr(self, name)}. It is above zero.")


@dataclass(frozen=True)
class Paired:
    """A real and a simulated episode by their places, how far apart they begin, and whether another would do too."""

    real: int
    sim: int
    start_share: float
    object_m: float | None
    ambiguous: bool


@dataclass(frozen=True)
class Pairs:
    """All pairs, in the order of the real episodes, and the places of those left over."""

    pairs: tuple[Paired, ...]
    only_real: tuple[int, ...]
    only_sim: tuple[int, ...]


def pair(
    real: Sequence[Episode],
    sim: Sequence[Episode],
    motions: tuple[Sequence[Motion], Sequence[Motion]],
    scale: Scale,
    rules: Pairing,
) -> Pairs:
    """The best one-to-one pairing under the rules."""
    from scipy.optimize import linear_sum_assignment

    share = _start_distance(*motions, scale)
    object_m = _object_distance(real, sim)
    cost, allowed = _costs(real, sim, share, object_m, rules)
    rows, columns = linear_sum_assignment(np.where(allowed, cost + _order(cost.shape), FAR))
    made = []
    for i, j in zip(rows.tolist(), columns.tolist(), strict=True):
        if allowed[i, j]:
            alike = allowed & (np.abs(cost - cost[i, j]) < 1e-12)
            ambiguous = bool(alike[i].sum() > 1 or alike[:, j].sum() > 1)
            apart = None if np.isnan(object_m[i, j]) else float(object_m[i, j])
            made.append(Paired(i, j, float(share[i, j]), apart, ambiguous))
    if not made:
        raise RecordingError(_why_none(real, sim, share, object_m, rules))
    taken_real, taken_sim = {p.real for p in made}, {p.sim for p in made}
    return Pairs(
        tuple(made),
        tuple(i for i in range(len(real)) if i not in taken_real),
        tuple(j for j in range(len(sim)) if j not in taken_sim),
    )


def _costs(
    real: Sequence[Episode], sim: Sequence[Episode], share: np.ndarray, object_m: np.ndarray, rules: Pairing
) -> tuple[np.ndarray, np.ndarray]:
    if rules.by == "order":
        allowed = np.eye(len(real), len(sim), dtype=bool)
        return np.zeros(share.shape), allowed
    if rules.by is not None:
        named = np.array([[_same(a, b, rules.by) for b in sim] for a in real])
        return np.zeros(share.shape), named
    same = np.array([[all(_agree(a, b, label) for label in rules.labels) for b in sim] for a in real])
    there = np.nan_to_num(object_m, nan=0.0)  # no track in both: says nothing
    allowed = same & (share <= rules.start_share) & (there <= rules.object_m)
    parts = share / rules.start_share, there / rules.object_m
    return sum((np.maximum(part - 0.2, 0.0) for part in parts), np.zeros(share.shape)), allowed


def _same(a: Episode, b: Episode, label: str) -> bool:
    return label in a.labels and a.labels[label] == b.labels.get(label)


def _agree(a: Episode, b: Episode, label: str) -> bool:
    return label not in a.labels or label not in b.labels or a.labels[label] == b.labels[label]


def _order(shape: tuple[int, ...]) -> np.ndarray:
    """A cost so small that it decides among equals only: how far apart two episodes stand in their recordings."""
    apart: np.ndarray = 1e-6 * np.abs(np.arange(shape[0])[:, None] - np.arange(shape[1])[None])
    return apart


def _start_distance(real: Sequence[Motion], sim: Sequence[Motion], scale: Scale) -> Float[np.ndarray, "R S"]:
    """Root mean square, over joints, of the difference at the beginning in shares of the joints' ranges."""
    one, other = (np.array([[v[0] for v in motion.value] for motion in side]) / scale.range for side in (real, sim))
    distance: np.ndarray = np.sqrt(((one[:, None] - other[None]) ** 2).mean(axis=2))
    return distance


def _object_distance(real: Sequence[Episode], sim: Sequence[Episode]) -> Float[np.ndarray, "R S"]:
    """How far apart the objects begin, the farthest of all pose tracks that both carry; NaN without one."""
    one, other = [_first_positions(e) for e in real], [_first_positions(e) for e in sim]
    found = np.full((len(real), len(sim)), np.nan)
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            shared = [float(np.linalg.norm(a[name] - b[name])) for name in a if name in b]
            if shared:
                found[i, j] = max(shared)
    return found


def _first_positions(episode: Episode) -> dict[str, np.ndarray]:
    """The first known position of every pose track."""
    found = {}
    for signal in episode.of_kind("pose"):
        names = [column.name for column in signal.columns]
        if {"x", "y", "z"} <= set(names):
            rows = signal.value[:, [names.index(axis) for axis in "xyz"]]
            whole = np.flatnonzero(np.isfinite(rows).all(axis=1))
            if len(whole):
                found[signal.name] = rows[whole[0]]
    return found


def _why_none(
    real: Sequence[Episode], sim: Sequence[Episode], share: np.ndarray, object_m: np.ndarray, rules: Pairing
) -> str:
    if rules.by is not None:
        return (
            f"no real and simulated episode share a value of the label {rules.by!r}. Label them, or pair by task and "
            "start (leave --pair-by out)."
        )
    for label in rules.labels:
        values = [sorted({e.labels[label] for e in side if label in e.labels}) for side in (real, sim)]
        if values[0] and values[1] and not set(values[0]) & set(values[1]):
            return (
                f"no pairs: the label {label!r} is {', '.join(values[0][:3])} in the real and "
                f"{', '.join(values[1][:3])} in the simulated recording. Mend the labels, or name "
                "others with --pair-labels."
            )
    return (
        f"no pairs: the nearest starts are {share.min():.3f} of the joints' ranges apart, {rules.start_share} allowed"
        + ("" if np.isnan(object_m).all() else f"; objects {np.nanmin(object_m):.3f} m, {rules.object_m} allowed")
        + ". Compare episodes that begin alike, or pair by a label with --pair-by."
    )
