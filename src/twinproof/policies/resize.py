"""Pictures at the size that a policy takes: without distortion, centred, black around, as openpi makes them."""

from __future__ import annotations

import numpy as np

from twinproof.nouns.errors import PolicyError


def resized(picture: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """An 8-bit picture (H, W, 3) at (height, width)."""
    from PIL import Image

    if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
        raise PolicyError(f"a picture of shape {picture.shape} and type {picture.dtype}; (H, W, 3) of bytes is needed.")
    height, width = size
    if picture.shape[:2] == (height, width):
        return picture
    ratio = max(picture.shape[1] / width, picture.shape[0] / height)
    inner = (int(picture.shape[1] / ratio), int(picture.shape[0] / ratio))  # width, height, as openpi rounds them
    small = np.asarray(Image.fromarray(picture).resize(inner, resample=Image.Resampling.BILINEAR))
    out = np.zeros((height, width, 3), np.uint8)
    top, left = (height - inner[1]) // 2, (width - inner[0]) // 2
    out[top : top + inner[1], left : left + inner[0]] = small
    return out
