"""Masks drawn over photographs: coloured outlines, what is not known hatched, for people to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.clip import Clip
from twinproof.nouns.errors import ConfigError

if TYPE_CHECKING:
    from jaxtyping import Int, UInt8

    from twinproof.reconstruct.masks import Masks

COLOURS = ((0, 230, 118), (255, 214, 0), (0, 176, 255), (255, 64, 129), (170, 110, 255))  # told apart by most eyes
HATCH, SHADE = 4, 0.55


def overlay(
    rgb: UInt8[np.ndarray, "H W 3"], label: Int[np.ndarray, "H W"], zoom: int = 2
) -> UInt8[np.ndarray, "h w 3"]:
    """A photograph, `zoom` times as large, with the outline of each label; -2 is hatched, -1 stays as it is."""
    if rgb.shape[:2] != label.shape or zoom < 1:
        raise ConfigError(
            f"overlay: a picture of {rgb.shape[:2]} with labels of {label.shape} at zoom {zoom}. Give one label for "
            "each pixel, and a zoom of 1 or more."
        )
    large, which = (np.repeat(np.repeat(plane, zoom, axis=0), zoom, axis=1) for plane in (rgb, label))
    large = large.copy()
    row, col = np.indices(which.shape)
    hatched = (which == -2) & ((row + col) % (HATCH * zoom) < zoom)
    large[hatched] = (SHADE * large[hatched]).astype(np.uint8)
    for index in np.unique(which[which >= 0]).tolist():
        large[outline(which == index)] = COLOURS[index % len(COLOURS)]
    return large


def outline(mask: np.ndarray) -> np.ndarray:
    """The pixels of a mask that touch what is outside it."""
    wide = np.pad(mask, 1)
    inner = wide[:-2, 1:-1] & wide[2:, 1:-1] & wide[1:-1, :-2] & wide[1:-1, 2:]
    rim: np.ndarray = mask & ~inner
    return rim


def sheet(
    clips: Mapping[str, Clip], masks: Masks, times_s: Sequence[float], zoom: int = 1
) -> UInt8[np.ndarray, "h w 3"]:
    """A row for each camera, a column for each time: photographs with outlines."""
    if not times_s:
        raise ConfigError("overlay: no times were asked for. Give at least one.")
    rows = []
    for name, clip in clips.items():
        frames = [int(np.argmin(np.abs(clip.time_s - t))) for t in times_s]
        rows.append(np.concatenate([overlay(clip.rgb[k], masks.labels[name][k], zoom) for k in frames], axis=1))
    width = max(row.shape[1] for row in rows)
    return np.concatenate([np.pad(row, ((0, 0), (0, width - row.shape[1]), (0, 0))) for row in rows])
