"""The loss between a drawn picture and its photograph: (1 - s) (L1 + L2) + s (1 - SSIM), with its slopes.

On the CPU both come out of one pass of numba: what depends on the photograph alone is filtered once and kept, so a step
filters three maps forward and three back. On a GPU the same is written in torch. Zeros surround the picture, as in
3DGS.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import njit

from twinproof.sim.picture_distance import K1, K2, WINDOW_RADIUS, WINDOW_SIGMA

TAPS, C1, C2 = 2 * WINDOW_RADIUS + 1, K1**2, K2**2
FAST = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract", "reassoc", "nsz", "arcp"}}
WINDOW = np.exp(-0.5 * ((np.arange(TAPS) - TAPS // 2) / WINDOW_SIGMA) ** 2)
WINDOW = (WINDOW / WINDOW.sum()).astype(np.float32)
f32 = np.float32


class Photograph(NamedTuple):
    """A picture to be matched, channel by channel, and what SSIM needs of it; `weight` (H, W) says what counts."""

    rgb: np.ndarray  # (3, H, W) float32, 0 to 1
    mean: np.ndarray  # (3, H, W) filtered
    spread: np.ndarray  # (3, H, W) filtered squares, less the mean squared
    weight: np.ndarray  # (H, W) float32; their mean is 1


def photograph(rgb: np.ndarray, weight: np.ndarray | None = None) -> Photograph:
    """From (H, W, 3), uint8 or float 0 to 1. Where the weight is 0 the picture does not count."""
    planes = np.ascontiguousarray(np.moveaxis(rgb, -1, 0), np.float32) / (f32(255) if rgb.dtype == np.uint8 else f32(1))
    mean, spread, work = np.empty_like(planes), np.empty_like(planes), np.empty(planes.shape[1:], np.float32)
    for c in range(3):
        blur(planes[c], work, mean[c])
        blur(planes[c] ** 2, work, spread[c])
    counted = np.ones(planes.shape[1:], np.float32) if weight is None else np.asarray(weight, np.float32)
    counted = counted / max(float(counted.mean()), 1e-12)
    return Photograph(planes, mean, spread - mean**2, counted)


@njit(**FAST)
def blur(plane, work, out):
    """Filters a plane with the window, rows then columns; zeros lie around it."""
    height, width = plane.shape
    half = TAPS // 2
    line = np.zeros(width + 2 * half, np.float32)
    for y in range(height):
        line[half : half + width] = plane[y]
        row = work[y]
        for x in range(width):
            row[x] = WINDOW[0] * line[x]
        for k in range(1, TAPS):
            weight, shifted = WINDOW[k], line[k : k + width]
            for x in range(width):
                row[x] += weight * shifted[x]
    for y in range(height):
        row = out[y]
        row[:] = f32(0)
        for k in range(max(0, y - half), min(height, y + half + 1)):
            weight, source = WINDOW[k - y + half], work[k]
            for x in range(width):
                row[x] += weight * source[x]


@njit(**FAST)
def plane_loss(x, y, mean_y, spread_y, weight, share, squares, slope):
    """The loss of one channel (its sum over pixels), and its slope by every pixel."""
    height, width = x.shape
    work, mean, square, cross = (np.empty_like(x), np.empty_like(x), np.empty_like(x), np.empty_like(x))
    blur(x, work, mean)
    blur(x * x, work, square)
    blur(x * y, work, cross)
    total = 0.0
    for i in range(height):
        for j in range(width):
            mx, my = mean[i, j], mean_y[i, j]
            sx, sy, sxy = square[i, j] - mx * mx, spread_y[i, j], cross[i, j] - mx * my
            a, b = f32(2) * mx * my + f32(C1), f32(2) * sxy + f32(C2)
            c, d = mx * mx + my * my + f32(C1), sx + sy + f32(C2)
            one_over = f32(1) / (c * d)
            ssim = a * b * one_over
            total += share * (f32(1) - ssim) * weight[i, j]
            pull = -share * weight[i, j]
            by_sxy, by_sx = f32(2) * a * one_over, -ssim / d
            by_mean = f32(2) * (my * b * one_over - mx * ssim / c)
            mean[i, j] = pull * (by_mean - f32(2) * mx * by_sx - my * by_sxy)
            square[i, j], cross[i, j] = pull * by_sx, pull * by_sxy
    blur(mean, work, slope)
    blur(square, work, mean)
    blur(cross, work, square)
    for i in range(height):
        for j in range(width):
            miss = x[i, j] - y[i, j]
            level = (f32(1) - share) * weight[i, j]
            total += level * (abs(miss) + squares * miss * miss)
            sign = f32(1) if miss > 0 else (f32(-1) if miss < 0 else f32(0))
            pull = level * (sign + f32(2) * squares * miss)
            slope[i, j] += f32(2) * x[i, j] * mean[i, j] + y[i, j] * square[i, j] + pull
    return total


class _Loss(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, picture, target: Photograph, share: float, squares: float):
        planes = np.ascontiguousarray(np.moveaxis(picture.detach().numpy(), -1, 0))
        slope, total = np.empty_like(planes), 0.0
        for c in range(3):
            total += plane_loss(
                planes[c],
                target.rgb[c],
                target.mean[c],
                target.spread[c],
                target.weight,
                f32(share),
                f32(squares),
                slope[c],
            )
        count = planes.size
        ctx.slope = torch.from_numpy(np.ascontiguousarray(np.moveaxis(slope, 0, -1)) / f32(count))
        return picture.new_tensor(total / count)

    @staticmethod
    def backward(ctx: Any, upstream):
        return upstream * ctx.slope, None, None, None


def picture_loss(picture, target: Photograph, share: float = 0.2, squares: float = 0.0):
    """The mean over pixels and channels of (1 - share) (|d| + squares d²) + share (1 - SSIM), d the difference."""
    if picture.device.type == "cpu":
        return _Loss.apply(picture, target, share, squares)
    return torch_loss(picture, target, share, squares)


def torch_loss(picture, target: Photograph, share: float = 0.2, squares: float = 0.0):
    """The same in plain torch, on any device; the reference of the kernel."""
    x = picture.permute(2, 0, 1)
    y, mean_y, spread_y, weight = (torch.as_tensor(each, device=x.device, dtype=x.dtype) for each in target)
    down, across = (_band(n, str(x.device), x.dtype) for n in x.shape[1:])
    mean, square, cross = (down @ torch.cat([x, x * x, x * y]) @ across).chunk(3)
    top = (2 * mean * mean_y + C1) * (2 * (cross - mean * mean_y) + C2)
    low = (mean**2 + mean_y**2 + C1) * (square - mean**2 + spread_y + C2)
    miss = x - y
    return (weight * ((1 - share) * (miss.abs() + squares * miss * miss) + share * (1 - top / low))).mean()


@lru_cache(maxsize=8)
def _band(size: int, device: str, dtype):
    """The window as a symmetric matrix: on a GPU two products filter faster than a convolution."""
    band = torch.zeros(size, size, dtype=dtype)
    for k, weight in enumerate(WINDOW.tolist()):
        band += torch.diag(torch.full((size - abs(k - TAPS // 2),), weight, dtype=dtype), k - TAPS // 2)
    return band.to(device)
