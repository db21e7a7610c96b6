"""Pictures as a policy's network sees them: convolutions, then where in the picture each filter finds its thing.

picture (H, W, 3) bytes ─ /255 - 0.5 ─ filters, ELU between them ─> maps (h, w, F) ─ softmax over places ─> x, y of each

The middle of what a filter responds to, from -1 (left, top) to 1, is what a hand needs to know of a picture, and it is
few numbers (a spatial soft-argmax, Levine et al. 2016).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinproof.nouns.errors import PolicyError

AT_ONCE = 16  # pictures whose patches are laid out at once
COLOURS = 3


@dataclass(frozen=True)
class EyesLayout:
    """Filters of square kernels, no padding; a filter of layer k moves by strides[k] pixels."""

    filters: tuple[int, ...]
    kernels: tuple[int, ...]
    strides: tuple[int, ...]

    def __post_init__(self) -> None:
        sizes = {len(self.filters), len(self.kernels), len(self.strides)}
        if len(sizes) != 1 or not self.filters or min(*self.filters, *self.kernels, *self.strides) < 1:
            raise PolicyError(
                f"a network's eyes have the filters {list(self.filters)}, kernels {list(self.kernels)} and strides "
                f"{list(self.strides)}; give one of each for every layer, at least 1."
            )

    @property
    def features(self) -> int:
        """How many numbers a picture becomes."""
        return 2 * self.filters[-1]

    def places(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of the last maps of a picture."""
        down, across = height, width
        for kernel, stride in zip(self.kernels, self.strides, strict=True):
            down, across = (down - kernel) // stride + 1, (across - kernel) // stride + 1
            if down < 1 or across < 1:
                raise PolicyError(
                    f"a picture of {width} × {height} is too small for eyes with the kernels {list(self.kernels)} and "
                    f"strides {list(self.strides)}. Show larger ones, or train with fewer layers."
                )
        return down, across


class Eyes:
    """A layout with its weights eyes.K.weight (out, in, k, k), eyes.K.bias (out)."""

    def __init__(self, layout: EyesLayout, take: Callable[[str, tuple[int, ...]], np.ndarray]) -> None:
        self.layout = layout
        self._layers = []
        before = COLOURS
        for k, (filters, kernel) in enumerate(zip(layout.filters, layout.kernels, strict=True)):
            weight = take(f"eyes.{k}.weight", (filters, before, kernel, kernel))
            flat = np.ascontiguousarray(weight.reshape(filters, -1).T)
            self._layers.append((flat, take(f"eyes.{k}.bias", (filters,))))
            before = filters

    def __call__(self, pictures: np.ndarray) -> np.ndarray:
        """(N, 2F): first where each filter finds its thing across, then down."""
        parts = [self._some(pictures[k : k + AT_ONCE]) for k in range(0, len(pictures), AT_ONCE)]
        found: np.ndarray = np.concatenate(parts)
        return found

    def _some(self, pictures: np.ndarray) -> np.ndarray:
        from twinproof.policies import network_kernels as kernels

        x: Any = pictures.astype(np.float32) / np.float32(255) - np.float32(0.5)
        last = len(self._layers) - 1
        for k, (weight, bias) in enumerate(self._layers):
            kernel, stride = self.layout.kernels[k], self.layout.strides[k]
            windows = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(1, 2))[:, ::stride, ::stride]
            count, down, across = windows.shape[:3]
            rows = np.ascontiguousarray(windows).reshape(count * down * across, -1)
            out = np.empty((len(rows), weight.shape[1]), np.float32)
            kernels.dense(rows, weight, bias, out)
            if k < last:
                kernels.elu(out)
            x = out.reshape(count, down, across, -1)
        found = np.empty((len(x), self.layout.features), np.float32)
        kernels.soft_places(x, found)
        return found
