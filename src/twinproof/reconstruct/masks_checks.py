"""Checks of clips and tracks: pictures that are blurred, and objects that move when they were said to stand still."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.clip import Clip
from twinproof.reconstruct.masks_track import Track

if TYPE_CHECKING:
    from jaxtyping import Float

BLOCK = 4  # pixels; edges are looked for between blocks of this size
STRONGEST = 0.02  # share of the block edges that are judged
SOFT_PX = 6.0  # edges wider than this are blurred
SAMPLED = 12  # pictures of a clip


@dataclass(frozen=True)
class Movement:
    """How far an object got from where it usually is, and when it first was more than the tolerance away."""

    largest_m: float
    first_s: float | None

    @property
    def moved(self) -> bool:
        """Whether it left its place."""
        return self.first_s is not None


def moves(track: Track, tolerance_m: float = 0.008) -> Movement:
    """Whether an object moves during a capture that is said to be static.

    Single moments do not count: an object that is half hidden seems to shift.
    """
    from scipy import ndimage

    calm = np.stack([ndimage.median_filter(track.centre[:, k], 7, mode="nearest") for k in range(3)], axis=1)
    seen = track.seen if track.seen.any() else np.ones(len(calm), bool)
    start = np.median(calm[seen][: max(3, len(calm) // 10)], axis=0)
    away = np.where(seen, np.linalg.norm(calm - start, axis=1), 0)
    beyond = np.flatnonzero(away > tolerance_m)
    return Movement(float(away.max()), float(track.time_s[beyond[0]]) if len(beyond) else None)


def edge_widths(clip: Clip) -> Float[np.ndarray, "K"]:
    """How many pixels wide the strongest edges of some of a clip's pictures are; 1 to 2 in a sharp one."""
    frames = np.unique(np.linspace(0, len(clip) - 1, SAMPLED).round().astype(int))
    return np.array([edge_width(clip.rgb[frame]) for frame in frames])


def blurred(clips: Mapping[str, Clip]) -> dict[str, float]:
    """The cameras all of whose pictures are blurred, with the width of their edges in pixels."""
    widths = {name: edge_widths(clip) for name, clip in clips.items()}
    return {name: float(np.median(width)) for name, width in widths.items() if width.min() > SOFT_PX}


def edge_width(rgb: np.ndarray) -> float:
    """The step across an edge divided by the steepest slope on it, at the strongest edges; 0 where there are none."""
    grey = rgb.astype(np.float32).mean(axis=-1)
    height, width = (side // BLOCK * BLOCK for side in grey.shape)
    if min(height, width) < 4 * BLOCK:
        return 0.0
    grey = grey[:height, :width]
    found = []
    for picture in (grey, grey.T):
        rows, cols = picture.shape[0] // BLOCK, picture.shape[1] // BLOCK
        lines = picture.reshape(rows, BLOCK, -1).mean(axis=1)  # noise across the edge's own direction averages out
        blocks = lines.reshape(rows, cols, BLOCK).mean(axis=2)
        step = np.abs(blocks[:, 3:] - blocks[:, :-3])
        slope = np.abs(np.diff(lines, axis=1))
        steepest = np.stack([slope[:, k : k + BLOCK * (cols - 3) : BLOCK] for k in range(4 * BLOCK - 1)]).max(axis=0)
        found.append(np.stack([step.ravel(), steepest.ravel()]))
    step, steepest = np.concatenate(found, axis=1)
    strong = (step >= np.quantile(step, 1 - STRONGEST)) & (step > 12)
    return float(np.median(step[strong] / np.maximum(steepest[strong], 1e-3))) if strong.any() else 0.0
