"""What near-duplicates are judged by: an episode's joint path, and how finely its sensors could tell two paths apart.

The floor of a column is the largest of three errors that two recordings of one motion may have:
  noise           from third divided differences, which are nil on a smooth path (median: jumps do not count)
  quantisation    step / sqrt(12)
  interpolation   dt² / 8 · acceleration, because two clocks never sample at the same instants
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.episode import Episode
from twinproof.nouns.hashing import content_hash, hash_array

if TYPE_CHECKING:
    from jaxtyping import Float

KIND_ORDER = ("joint_position", "joint_command")  # then anything
FEWEST = 8  # samples; a shorter track says nothing
TRIM = 0.05  # share of the largest deviations that is left out: a step seen one sample late is no other motion


@dataclass(frozen=True, eq=False)
class Track:
    """The measured samples of one column, and its floor in the column's unit."""

    time_s: Float[np.ndarray, "T"]
    value: Float[np.ndarray, "T"]
    floor: float
    step_s: float  # median time between samples


@dataclass(frozen=True, eq=False)
class Signature:
    """An episode's tracks on one even grid from `start_s`, with what the first sieve needs."""

    id: str
    columns: tuple[str, ...]
    start_s: float
    step_s: float
    grid: Float[np.ndarray, "L D"]
    floor: Float[np.ndarray, "D"]
    acceleration: Float[np.ndarray, "D"]  # root mean square on the grid, per step²
    content: str  # of the values alone, '' where nothing varies

    def middle(self, edge: float) -> slice:
        """The grid without this share at either end; an overlap of at least 80 % contains the middle without 0.2."""
        first = int(np.ceil(edge * len(self.grid)))
        return slice(first, max(first + 1, int((1 - edge) * len(self.grid))))


def tracks_of(episode: Episode) -> dict[str, Track]:
    """'signal/column' -> track, of joint positions; without those of commands; without those of every signal."""
    kinds = [kind for kind in KIND_ORDER if episode.of_kind(kind)]
    chosen = episode.of_kind(kinds[0]) if kinds else tuple(episode.signals[name] for name in sorted(episode.signals))
    tracks = {}
    for signal in chosen:
        for j, column in enumerate(signal.columns):
            keep = slice(None) if signal.missing is None else ~signal.missing[:, j]
            time_s, value = signal.time_s[keep], signal.value[keep, j]
            if len(time_s) >= FEWEST:
                step = float(np.median(np.diff(time_s)))
                tracks[f"{signal.name}/{column.name}"] = Track(time_s, value, floor_of(time_s, value), step)
    return tracks


def floor_of(time_s: Float[np.ndarray, "T"], value: Float[np.ndarray, "T"]) -> float:
    """How far two recordings of one motion may differ in this column, in its unit."""
    step = float(np.median(np.diff(time_s)))
    interpolation = step**2 / 8 * trimmed_rms(_acceleration(time_s, value))
    representable = 1e-6 * float(np.abs(value).max()) + 1e-12  # a column without noise still has digits
    return max(noise_of(time_s, value), _quantum(value) / 12**0.5, interpolation, representable)


def noise_of(time_s: Float[np.ndarray, "T"], value: Float[np.ndarray, "T"]) -> float:
    """Standard deviation of white noise on a smooth path, whatever the spacing of the samples."""
    t = np.lib.stride_tricks.sliding_window_view(time_s, 4)
    x = np.lib.stride_tricks.sliding_window_view(value, 4)
    gaps = t[:, :, None] - t[:, None, :] + np.eye(4)
    weight = 1 / gaps.prod(axis=2)  # third divided difference = sum of weight · x; zero on every parabola
    return float(1.4826 * np.median(np.abs((weight * x).sum(axis=1)) / np.sqrt((weight**2).sum(axis=1))))


def _quantum(value: Float[np.ndarray, "T"]) -> float:
    """The step between neighbouring readings of a sensor that repeats its values, else 0."""
    distinct = np.unique(value)
    gaps = np.diff(distinct)
    gaps = gaps[gaps > 1e-9 * (distinct[-1] - distinct[0])]
    return float(np.percentile(gaps, 10)) if len(gaps) and len(distinct) < len(value) else 0.0


def _acceleration(time_s: Float[np.ndarray, "T"], value: Float[np.ndarray, "T"]) -> Float[np.ndarray, "A"]:
    slope = np.diff(value) / np.diff(time_s)
    result: np.ndarray = np.diff(slope) / ((time_s[2:] - time_s[:-2]) / 2)
    return result


def trimmed_rms(values: Float[np.ndarray, "N"]) -> float:
    """Root mean square of all but the largest 5 %."""
    squares = np.sort(values**2)
    return float(np.sqrt(squares[: len(squares) - int(TRIM * len(squares))].mean()))


def duration_of(tracks: dict[str, Track]) -> tuple[float, float]:
    """The time that all tracks share: start and end, or an empty span."""
    if not tracks:
        return 0.0, 0.0
    return max(float(t.time_s[0]) for t in tracks.values()), min(float(t.time_s[-1]) for t in tracks.values())


def signature_of(id: str, tracks: dict[str, Track], step_s: float) -> Signature | None:
    """The signature of an episode on a grid of the given step; None for one too short to judge."""
    start, end = duration_of(tracks)
    times = np.arange(start, end, step_s)
    if len(times) < FEWEST:
        return None
    grid = np.stack([np.interp(times, t.time_s, t.value) for t in tracks.values()], axis=1)
    bend = np.diff(grid, n=2, axis=0)
    varies = any(np.ptp(t.value) > 0 for t in tracks.values())
    content = content_hash([[name, hash_array(t.value)] for name, t in tracks.items()]) if varies else ""
    return Signature(
        id=id,
        columns=tuple(tracks),
        start_s=start,
        step_s=step_s,
        grid=grid.astype(np.float32),
        floor=np.array([t.floor for t in tracks.values()]),
        acceleration=np.array([trimmed_rms(bend[:, j]) for j in range(bend.shape[1])]),
        content=content,
    )
