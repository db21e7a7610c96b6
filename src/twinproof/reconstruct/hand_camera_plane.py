"""Pictures laid on the table: texels, what each picture shows of them, and the mosaic that they make together.

A picture's shade, exposure and the insides of shadows are slow over the table, so each map has its slow part taken off:
log brightness and log red over green, blurred over a texel, less their mean over some centimetres.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.sim.grid import Plane
from twinproof.sim.render_camera import Lens

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

DARK = 0.05  # added to brightness before the logarithm: below it there is mostly noise
SLOW = 8  # texels on each side over which the slow part is the mean
LEAST_PX = 0.6  # a texel that is drawn smaller than this is not seen
LEAST_FRAMES = 3  # that see a texel of the mosaic


@dataclass(frozen=True, eq=False)
class Texels:
    """A grid on a plane: texel (i, j) is at corner + texel_m · (j · along + i · across)."""

    corner: Float[np.ndarray, "3"]
    along: Float[np.ndarray, "3"]
    across: Float[np.ndarray, "3"]
    texel_m: float
    shape: tuple[int, int]

    @classmethod
    def over(cls, plane: Plane, points: Float[np.ndarray, "N 3"], texel_m: float, offset_m: float = 0.0) -> Texels:
        """The grid on a plane, moved by an offset, that covers nearly all of some points of it."""
        along, across = axes_of(plane)
        low, high = (np.quantile(points @ np.stack([along, across], 1), q, axis=0) for q in (0.01, 0.99))
        shape = np.ceil((high - low) / texel_m).astype(int) + 1
        corner = low[0] * along + low[1] * across + (plane.offset_m + offset_m) * np.array(plane.normal)
        return cls(corner, along, across, texel_m, (int(shape[1]), int(shape[0])))


def axes_of(plane: Plane) -> tuple[np.ndarray, np.ndarray]:
    """Two directions on a plane that make a right-handed frame with its normal; of the table: the world's x and y."""
    normal = np.array(plane.normal)
    along = np.eye(3)[0] if abs(normal[0]) < 0.9 else np.eye(3)[1]
    along = along - normal * (along @ normal)
    along /= np.linalg.norm(along)
    return along, np.cross(normal, along)


@dataclass(frozen=True, eq=False)
class Sight:
    """A camera during one picture: T_camera_world at the begin and the end of the readout, and how unknowns move it.

    twists: for each unknown the turn and the shift of the camera, in its own frame, by one unit of it.
    """

    lens: Lens
    T_camera_world: Float[np.ndarray, "2 4 4"]
    twists: Float[np.ndarray, "P 6"]


@dataclass(frozen=True, eq=False)
class Laid:
    """One picture on the texels: its two channels, when and whether each texel is seen."""

    value: Float[np.ndarray, "N 2"]
    share: Float[np.ndarray, "N"]  # of the readout at which each texel was taken
    seen: Bool[np.ndarray, "N"]


def channels_of(rgb: Float[np.ndarray, "... 3"]) -> Float[np.ndarray, "... 2"]:
    """Log brightness and log red over green of a picture in 0 … 1."""
    grey = np.log(rgb.mean(axis=-1) + DARK)
    tint = np.log((rgb[..., 0] + DARK) / (rgb[..., 1] + DARK))
    return np.stack([grey, tint], axis=-1).astype(np.float32)


def lay(picture: Float[np.ndarray, "H W 2"], use: Bool[np.ndarray, "H W"], sight: Sight, texels: Texels) -> Laid:
    """A picture of channels on the texels; pixels that are not of use are left out."""
    from scipy.ndimage import gaussian_filter, uniform_filter

    from twinproof.sim.plane_kernels import sample

    block = _block(sight, texels)
    small, fine = _averaged(picture, use, block)
    rows, columns = texels.shape
    value, share = np.zeros((rows, columns, 2), np.float32), np.zeros((rows, columns), np.float32)
    seen = np.zeros((rows, columns), bool)
    first, last = (np.ascontiguousarray(T[:3]) for T in sight.T_camera_world)
    sample(
        small, fine, first, last, packed(sight.lens, block), texels.corner, texels.along, texels.across,
        texels.texel_m, LEAST_PX, value, share, seen,
    )  # fmt: skip
    weight = seen.astype(np.float32)
    near, wide = gaussian_filter(weight, 1.0), weight
    for _ in range(2):
        wide = uniform_filter(wide, SLOW + 1)
    out = np.zeros_like(value)
    for c in range(2):
        slow = value[..., c] * weight
        sharp = gaussian_filter(slow, 1.0) / np.maximum(near, 1e-3)
        for _ in range(2):
            slow = uniform_filter(slow, SLOW + 1)
        out[..., c] = sharp - slow / np.maximum(wide, 1e-3)
    seen &= (near > 0.8) & (wide > 0.25)
    return Laid(out.reshape(-1, 2), share.reshape(-1), seen.reshape(-1))


def _block(sight: Sight, texels: Texels) -> int:
    """How many pixels across are averaged so that they are about as wide as a texel in the middle of the grid."""
    middle = texels.corner + texels.texel_m * (texels.shape[1] / 2 * texels.along + texels.shape[0] / 2 * texels.across)
    T = sight.T_camera_world[0]
    away = max(0.1, float(np.linalg.norm(T[:3, :3] @ middle + T[:3, 3])))
    return int(np.clip(texels.texel_m * sight.lens.fx / away * 0.7, 1, 4))


def _averaged(picture: np.ndarray, use: np.ndarray, block: int) -> tuple[np.ndarray, np.ndarray]:
    if block == 1:
        return picture, use
    height, width = picture.shape[0] // block, picture.shape[1] // block
    cut = picture[: height * block, : width * block].reshape(height, block, width, block, 2)
    kept = use[: height * block, : width * block].reshape(height, block, width, block)
    return np.ascontiguousarray(cut.mean(axis=(1, 3))), np.asarray(kept.all(axis=(1, 3)))


def packed(lens: Lens, block: int = 1) -> Float[np.ndarray, "16"]:
    """fx, fy, cx, cy and twelve coefficients, of pictures averaged over blocks."""
    out = np.zeros(16)
    out[:4] = lens.fx / block, lens.fy / block, (lens.cx + 0.5) / block - 0.5, (lens.cy + 0.5) / block - 0.5
    out[4 : 4 + len(lens.distortion)] = lens.distortion
    return out


@dataclass(frozen=True, eq=False)
class Mosaic:
    """What the pictures of one scene agree on: each texel's channels, and how many pictures see it (0: too few)."""

    value: Float[np.ndarray, "N 2"]
    slope: Float[np.ndarray, "N 2 2"]  # along the grid's columns and rows: only what the pictures agree on has one
    count: Float[np.ndarray, "N"]
    scale: float  # a picture's texel that differs by more counts little


def mosaic_of(laid: Sequence[Laid], texels: Texels, scale: float) -> Mosaic:
    """The median of the pictures, then their mean with those far from it left out."""
    from scipy.ndimage import binary_erosion

    from twinproof.sim.plane_kernels import robust_mean

    values, seen = np.stack([each.value for each in laid]), np.stack([each.seen for each in laid])
    mean, count = np.zeros(values.shape[1:], np.float32), np.zeros(values.shape[1], np.int64)
    robust_mean(values, seen, scale, LEAST_FRAMES, mean, count)
    slope = np.stack(np.gradient(mean.reshape(*texels.shape, 2), axis=(1, 0)), axis=-1).reshape(-1, 2, 2)
    known = (count > 0).reshape(texels.shape)
    count[~binary_erosion(known, np.ones((3, 3))).reshape(-1)] = 0  # at the rim there is no slope
    return Mosaic(mean, slope, count, scale)


def folded(
    laid: Sequence[Laid], sights: Sequence[Sight], mosaic: Mosaic, texels: Texels, readout: int, focal: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Every picture's curvature (F, P, P) and pull (F, P) of its misfit to a mosaic that moves along; the cost."""
    from twinproof.sim.plane_kernels import fold

    P = len(sights[0].twists)
    shared = np.zeros((len(mosaic.value), 2, P), np.float32)
    weights = np.zeros((len(mosaic.value), 2), np.float32)
    hessians, pulls, cost = np.zeros((len(laid), P, P)), np.zeros((len(laid), P)), 0.0
    for minus in (False, True):
        hessians[:], pulls[:], cost = 0, 0, 0.0
        for k, (each, sight) in enumerate(zip(laid, sights, strict=True)):
            camera = np.ascontiguousarray(sight.T_camera_world[:, :3])
            part, _ = fold(
                each.value, mosaic.value, mosaic.slope, each.seen, mosaic.count, mosaic.scale, camera, each.share,
                sight.twists, readout, focal, texels.shape[1], texels.corner, texels.along, texels.across,
                texels.texel_m, hessians[k], pulls[k], shared, weights, minus,
            )  # fmt: skip
            cost += part
    return hessians + np.tril(hessians, -1).transpose(0, 2, 1), pulls, cost
