"""Corners of a printed square tag, refined by laying its whole black and white pattern over the picture.

The four corners that a detector finds come from four edges. The pattern inside has many more: its cells are read from
the picture, drawn blurred as the picture is, and moved until the grey values agree (Gauss–Newton on the four corners,
brightness and contrast free, both with a slope across the tag). On sharp pictures the corners come out to about a
hundredth of a pixel. With a lens given, the pattern is bent as the lens bends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates

from twinproof.nouns.rig import Intrinsics
from twinproof.reconstruct.plane_pose import rays

if TYPE_CHECKING:
    from jaxtyping import Float

FINE = 16  # samples across a cell of the drawn pattern
BLURS_PX = (0.6, 0.8, 1.0, 1.3)
ROUNDS = 8
STEP_PX = 0.05
FAR_PX = 2.0  # a corner that moves farther left the tag: the pattern did not fit


@dataclass(frozen=True, eq=False)
class Aligned:
    """Refined corners with their standard deviation from the grey values' noise (px); `blur_px` fitted best."""

    corners: Float[np.ndarray, "4 2"]
    sd_px: float
    blur_px: float


def aligned(
    grey: Float[np.ndarray, "H W"], corners: Float[np.ndarray, "4 2"], cells: int = 8, lens: Intrinsics | None = None
) -> Aligned | None:
    """The corners of a tag `cells` cells wide (black border included, white around); None where it does not fit.

    `corners` in the order (-1, 1), (1, 1), (1, -1), (-1, -1) of the tag's half width.
    """
    picture, start = np.asarray(grey, float), np.asarray(corners, float)
    cell_px = float(np.linalg.norm(start - np.roll(start, 1, axis=0), axis=1).mean()) / cells
    patch = _patch(picture, start, cell_px, lens)
    if cell_px < 2 or patch is None:
        return None
    drawn = np.kron(_cells(picture, start, cells).astype(float), np.ones((FINE, FINE)))
    near = _descend(patch, gaussian_filter(drawn, BLURS_PX[1] / cell_px * FINE), start, cells)[0]
    found = [_descend(patch, gaussian_filter(drawn, blur / cell_px * FINE), near, cells) for blur in BLURS_PX]
    k = int(np.argmin([one[1] for one in found]))
    fitted, _, sd = found[k]
    if not np.isfinite(fitted).all() or np.abs(fitted - start).max() > FAR_PX:
        return None
    return Aligned(fitted, sd, BLURS_PX[k])


@dataclass(frozen=True, eq=False)
class _Patch:
    value: np.ndarray  # (P,) grey values around the tag
    place: np.ndarray  # (3, P) homogeneous: pixels, or rays where there is a lens
    lens: Intrinsics | None

    def placed(self, corners: np.ndarray) -> np.ndarray:
        """Corners in the plane where straight lines of the tag are straight."""
        return corners if self.lens is None else rays(self.lens, corners)


def _patch(picture: np.ndarray, corners: np.ndarray, cell_px: float, lens: Intrinsics | None) -> _Patch | None:
    low = np.floor(corners.min(axis=0) - cell_px).astype(int)
    high = np.ceil(corners.max(axis=0) + cell_px).astype(int) + 1
    low, high = np.maximum(low, 0), np.minimum(high, picture.shape[::-1])
    if (high - low < 8).any():
        return None
    u, v = np.meshgrid(np.arange(low[0], high[0]), np.arange(low[1], high[1]))
    pixels = np.stack([u.reshape(-1), v.reshape(-1)], axis=1).astype(float)
    place = pixels if lens is None else rays(lens, pixels)
    value = picture[low[1] : high[1], low[0] : high[0]].reshape(-1)
    return _Patch(value, np.concatenate([place.T, np.ones((1, len(pixels)))]), lens)


def _cells(picture: np.ndarray, corners: np.ndarray, cells: int) -> np.ndarray:
    """Whether each cell is white, with one white cell around the tag."""
    middle = np.arange(cells + 2) - (cells + 1) / 2
    x, y = np.meshgrid(middle, middle)
    at = _to_picture(corners, cells) @ np.stack([x.reshape(-1), y.reshape(-1), np.ones(x.size)])
    smooth = gaussian_filter(picture, 1.0)
    value = map_coordinates(smooth, [at[1] / at[2], at[0] / at[2]], order=1, mode="nearest").reshape(x.shape)
    inner = value[1:-1, 1:-1]
    white = np.ones(x.shape, bool)
    white[1:-1, 1:-1] = inner > (inner.min() + inner.max()) / 2
    return white


def _to_picture(corners: np.ndarray, cells: int) -> np.ndarray:
    """The homography from the tag's plane (in cells, from its middle) to where the corners are."""
    half = cells / 2
    rows = []
    for (x, y), (u, v) in zip(((-half, half), (half, half), (half, -half), (-half, -half)), corners, strict=True):
        rows.append([x, y, 1, 0, 0, 0, -u * x, -u * y, -u])
        rows.append([0, 0, 0, x, y, 1, -v * x, -v * y, -v])
    H: np.ndarray = np.linalg.svd(np.array(rows))[2][-1].reshape(3, 3)
    return H


def _descend(patch: _Patch, drawn: np.ndarray, corners: np.ndarray, cells: int) -> tuple[np.ndarray, float, float]:
    """Corners, root mean square of grey values, standard deviation of a corner in px."""
    off, sd = np.inf, np.inf
    steepness = np.gradient(drawn)
    for _ in range(ROUNDS):
        x, y = _on_tag(patch, corners, cells)
        seen = map_coordinates(drawn, _at(x, y, cells), order=1, mode="nearest")
        inside = (np.abs(x) < cells / 2 + 0.45) & (np.abs(y) < cells / 2 + 0.45)
        light = np.stack([np.ones_like(x), x, y, seen, seen * x, seen * y], axis=1)[inside]
        basis, _ = np.linalg.qr(light)
        value = patch.value[inside]
        gap = value - basis @ (basis.T @ value)
        contrast = np.linalg.lstsq(light, value, rcond=None)[0][3:] @ np.stack([np.ones_like(x), x, y])
        by_row, by_column = (map_coordinates(d, _at(x, y, cells), order=1, mode="nearest") * FINE for d in steepness)
        slope = np.empty((len(value), 8))
        for k in range(8):
            h = STEP_PX * np.eye(8)[k].reshape(4, 2)
            (right, below), (left, above) = (_on_tag(patch, corners + side * h, cells) for side in (1, -1))
            moved = by_column * (right - left) + by_row * (below - above)
            slope[:, k] = (moved / (2 * STEP_PX) * contrast)[inside]
        slope -= basis @ (basis.T @ slope)
        usual = 1.4826 * float(np.median(np.abs(gap))) + 1e-9
        weight = 1 / np.maximum(1, np.abs(gap) / (2.5 * usual))  # a glare or a finger on the tag must not pull
        H = (slope * weight[:, None]).T @ slope
        step = np.linalg.lstsq(H, slope.T @ (weight * gap), rcond=None)[0].reshape(4, 2)
        corners = corners + step
        off = float(np.sqrt((gap**2).mean()))
        sd = float(off * np.sqrt(np.diag(np.linalg.pinv(H)).mean()))
        if np.abs(step).max() < 1e-3 or np.abs(step).max() > 10:
            break
    return corners, off, sd


def _on_tag(patch: _Patch, corners: np.ndarray, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Where every pixel of the patch lies on the tag, in cells from its middle."""
    x, y, w = np.linalg.inv(_to_picture(patch.placed(corners), cells)) @ patch.place
    return x / w, y / w


def _at(x: np.ndarray, y: np.ndarray, cells: int) -> list[np.ndarray]:
    """Row and column in the drawn pattern."""
    middle = (cells + 2) / 2
    return [(y + middle) * FINE - 0.5, (x + middle) * FINE - 0.5]
