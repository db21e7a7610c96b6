"""Pictures changed image by image in numpy: what `augment` does on batches in torch is held equal to it by a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import RandomizationError
from twinproof.randomize.adjust import BLOCK, GREY, Adjustments, bell, uniform

if TYPE_CHECKING:
    from jaxtyping import Float


def augmented(images: np.ndarray, how: Adjustments) -> np.ndarray:
    """Pictures (N, H, W, 3), uint8 or float in 0 … 1, changed; the same kind comes back."""
    check(images.shape, str(images.dtype), how)
    found = [_one(image, how, n) for n, image in enumerate(images)]
    return np.stack(found) if found else np.array(images)


def check(shape: tuple[int, ...], dtype: str, how: Adjustments) -> None:
    """Pictures that can be changed."""
    if len(shape) != 4 or shape[-1] != 3 or shape[0] != len(how):
        raise RandomizationError(
            f"pictures have the shape {tuple(shape)}; needed is ({len(how)}, height, width, 3), one for each draw."
        )
    if not dtype.endswith(("uint8", "float32")):
        raise RandomizationError(f"pictures are {dtype}. Give uint8, or float32 from 0 to 1.")


def _one(image: np.ndarray, how: Adjustments, n: int) -> np.ndarray:
    whole = image.dtype == np.uint8
    colour = image.astype(np.float32) / np.float32(255) if whole else image
    height, width = colour.shape[:2]
    colour = colour @ how.matrix[n].T.astype(np.float32)
    grey = np.float32((colour @ GREY.astype(np.float32)).mean(dtype=np.float64))
    colour = grey + np.float32(how.of("image.contrast")[n]) * (colour - grey)
    if how.kernel.shape[1] > 1:
        colour = _blurred(_blurred(colour, how.kernel[n], 0), how.kernel[n], 1)
    number = how.numbers[n : n + 1]
    if how.of("image.noise").any():
        noise = bell(how.key("noise"), number, height * width * 3).reshape(height, width, 3)
        colour = colour + np.float32(how.of("image.noise")[n]) * noise
    if how.of("image.dropout").any():
        across, down = -(-width // BLOCK), -(-height // BLOCK)
        lost = uniform(how.key("dropout"), number, across * down)[0] < how.of("image.dropout")[n]
        lost = np.repeat(np.repeat(lost.reshape(down, across), BLOCK, 0), BLOCK, 1)[:height, :width]
        colour = np.where(lost[..., None], np.float32(0), colour)
    colour = np.clip(colour, 0, 1)
    return np.round(colour * np.float32(255)).astype(np.uint8) if whole else colour.astype(np.float32)


def _blurred(colour: np.ndarray, kernel: np.ndarray, axis: int) -> np.ndarray:
    reach = len(kernel) // 2
    pad = [(reach, reach) if k == axis else (0, 0) for k in range(3)]
    wide, size = np.pad(colour, pad, mode="edge"), colour.shape[axis]
    parts = [np.float32(w) * np.take(wide, np.arange(k, k + size), axis) for k, w in enumerate(kernel)]
    return np.asarray(sum(parts), dtype=np.float32)


def augmented_depth(depth_m: Float[np.ndarray, "N H W"], how: Adjustments) -> Float[np.ndarray, "N H W"]:
    """Depths with noise that grows with their square, and holes (0); what had no reading (0 or inf) has none."""
    check_depth(depth_m.shape, str(depth_m.dtype), how)
    found = np.array(depth_m, dtype=np.float32)
    count, height, width = found.shape
    seen = np.isfinite(found) & (found > 0)
    for n in range(count):
        number = how.numbers[n : n + 1]
        noise = bell(how.key("depth noise"), number, height * width).reshape(height, width)
        lost = uniform(how.key("depth dropout"), number, height * width)[0].reshape(height, width)
        clean = np.where(seen[n], found[n], np.float32(0))
        noisy = np.maximum(clean + np.float32(how.of("depth.noise")[n]) * clean * clean * noise, np.float32(0))
        hole = lost < how.of("depth.dropout")[n]
        found[n] = np.where(seen[n], np.where(hole, np.float32(0), noisy), found[n])
    return found


def check_depth(shape: tuple[int, ...], dtype: str, how: Adjustments) -> None:
    """Depths that can be changed."""
    if len(shape) != 3 or shape[0] != len(how) or not dtype.endswith("float32"):
        raise RandomizationError(
            f"depths have the shape {tuple(shape)} and are {dtype}; needed is ({len(how)}, height, width), float32, m."
        )
