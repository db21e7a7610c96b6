"""How far a picture is from its reference: PSNR, SSIM, and a perceptual distance that needs no downloaded weights.

The perceptual distance is FLIP for LDR pictures (Andersson, Nilsson, Akenine-Möller, Oskarsson, Åström, Fairchild:
"FLIP: A Difference Evaluator for Alternating Images", 2020): what a person sees who flips between the two pictures on
a screen, 0 (the same) to 1. It is not LPIPS, which needs a trained network.

Pictures are (H, W, 3), uint8 or float from 0 to 1, display-referred sRGB. Pixels outside a mask do not count: they are
taken as equal in both pictures, so that what lies there does not leak in through windows and filters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import SplatError

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

WINDOW_SIGMA, WINDOW_RADIUS = 1.5, 5  # SSIM: 11 taps
K1, K2 = 0.01, 0.03
PIXELS_PER_DEGREE = 0.7 * 3840 / 0.7 * np.pi / 180  # FLIP's default: a 0.7 m wide 4K screen seen from 0.7 m


def psnr(reference: np.ndarray, picture: np.ndarray, mask: Bool[np.ndarray, "H W"] | None = None) -> float:
    """Peak signal to noise ratio in dB over all counted pixels and channels; infinite for equal pictures."""
    one, other, counts = _pair(reference, picture, mask)
    error = float(np.mean((one - other)[counts] ** 2))
    return float(-10 * np.log10(error)) if error else float("inf")


def ssim(reference: np.ndarray, picture: np.ndarray, mask: Bool[np.ndarray, "H W"] | None = None) -> float:
    """Structural similarity (Wang et al. 2004), mean over channels and counted pixels whose window is inside.

    11-tap Gaussian window, sigma 1.5, K1 0.01, K2 0.03: skimage's structural_similarity with gaussian_weights=True,
    sigma=1.5, use_sample_covariance=False, data_range=1.
    """
    one, other, counts = _pair(reference, picture, mask)
    r = WINDOW_RADIUS
    inner = counts[r:-r, r:-r]
    if not inner.size or not inner.any():
        raise SplatError(
            f"ssim: no counted pixel of a {one.shape[1]} × {one.shape[0]} picture has its whole window of {2 * r + 1} "
            "× 11 pixels inside. Use larger pictures or a larger mask."
        )
    return float(_ssim_map(one, other)[r:-r, r:-r][inner].mean())


def flip(
    reference: np.ndarray,
    picture: np.ndarray,
    mask: Bool[np.ndarray, "H W"] | None = None,
    pixels_per_degree: float = PIXELS_PER_DEGREE,
) -> float:
    """The mean of FLIP over the counted pixels: 0 to 1, lower is nearer."""
    one, other, counts = _pair(reference, picture, mask)
    return float(_flip(one, other, pixels_per_degree)[counts].mean())


def flip_map(
    reference: np.ndarray, picture: np.ndarray, pixels_per_degree: float = PIXELS_PER_DEGREE
) -> Float[np.ndarray, "H W"]:
    """FLIP of every pixel."""
    one, other, _ = _pair(reference, picture, None)
    return _flip(one, other, pixels_per_degree)


def _pair(
    reference: np.ndarray, picture: np.ndarray, mask: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both pictures in float64 from 0 to 1, equal where they do not count, and where they do."""
    one, other = (_unit(each) for each in (reference, picture))
    if one.shape != other.shape or one.ndim != 3 or one.shape[2] != 3:
        raise SplatError(
            f"pictures of the shapes {one.shape} and {other.shape} cannot be compared; needed are two of "
            "(height, width, 3)."
        )
    counts = np.ones(one.shape[:2], bool) if mask is None else np.asarray(mask, bool)
    if counts.shape != one.shape[:2]:
        raise SplatError(f"the mask has the shape {counts.shape}, the pictures {one.shape[:2]}. Resize it.")
    if not counts.any():
        raise SplatError("no pixel counts: the mask is empty. Leave the picture out of the comparison.")
    return one, np.where(counts[..., None], other, one), counts


def _unit(picture: np.ndarray) -> np.ndarray:
    picture = np.asarray(picture)
    if picture.dtype == np.uint8:
        return picture / 255.0
    if picture.dtype.kind != "f" or not np.isfinite(picture).all():
        raise SplatError(f"a picture of {picture.dtype} is given, or not finite. Give uint8, or floats from 0 to 1.")
    clipped: np.ndarray = picture.astype(np.float64).clip(0, 1)  # what a screen shows
    return clipped


def _ssim_map(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    taps = np.exp(-0.5 * (np.arange(-WINDOW_RADIUS, WINDOW_RADIUS + 1) / WINDOW_SIGMA) ** 2)
    taps /= taps.sum()
    mean_a, mean_b, aa, bb, ab = (
        _filtered(plane, taps, taps) for plane in (one, other, one * one, other * other, one * other)
    )
    c1, c2 = K1**2, K2**2
    variance_a, variance_b, covariance = aa - mean_a**2, bb - mean_b**2, ab - mean_a * mean_b
    luminance = (2 * mean_a * mean_b + c1) / (mean_a**2 + mean_b**2 + c1)
    structure = (2 * covariance + c2) / (variance_a + variance_b + c2)
    similarity: np.ndarray = luminance * structure
    return similarity


def _filtered(plane: np.ndarray, across: np.ndarray, down: np.ndarray) -> np.ndarray:
    """Correlates along x with one row of taps and along y with another; borders are repeated."""
    from scipy.ndimage import correlate1d

    rows: np.ndarray = correlate1d(plane, across, axis=1, mode="nearest")
    both: np.ndarray = correlate1d(rows, down, axis=0, mode="nearest")
    return both


# ---- FLIP: symbols and constants of the paper

TO_XYZ = np.array(
    [
        [10135552 / 24577794, 8788810 / 24577794, 4435075 / 24577794],
        [2613072 / 12288897, 8788810 / 12288897, 887015 / 12288897],
        [1425312 / 73733382, 8788810 / 73733382, 70074185 / 73733382],
    ]
)  # of linear sRGB
WHITE = TO_XYZ.sum(axis=1)
CONTRAST = (
    ((1.0, 0.0047),),  # achromatic
    ((1.0, 0.0053),),  # red-green
    ((34.1, 0.04), (13.5, 0.025)),  # blue-yellow
)  # contrast sensitivity of each channel: sums of Gaussians (a, b)
QC, QF, PC, PT, EDGE_DEG = 0.7, 0.5, 0.4, 0.95, 0.082


def _flip(one: np.ndarray, other: np.ndarray, ppd: float) -> np.ndarray:
    """Colour difference after what the eye blurs, raised where edges or points differ."""
    opponent = [_opponent(each) for each in (one, other)]
    seen = [_hunt(_lab(_blurred(each, ppd))) for each in opponent]
    green, blue = (_hunt(_lab(np.array(colour, float))) for colour in ((0, 1, 0), (0, 0, 1)))
    most = _hyab(green, blue) ** QC
    error = _hyab(*seen) ** QC
    colour = np.where(
        error < PC * most, PT / (PC * most) * error, PT + (error - PC * most) / (most - PC * most) * (1 - PT)
    )
    bright = [(each[..., 0] + 16) / 116 for each in opponent]
    edges, points = ([_strength(each, ppd, of_points) for each in bright] for of_points in (False, True))
    feature = np.maximum(np.abs(edges[0] - edges[1]), np.abs(points[0] - points[1]))
    flipped: np.ndarray = colour ** (1 - (feature / np.sqrt(2)) ** QF)
    return flipped


def _opponent(srgb: np.ndarray) -> np.ndarray:
    """YCxCz of sRGB."""
    linear = np.where(srgb > 0.04045, ((srgb + 0.055) / 1.055) ** 2.4, srgb / 12.92)
    x, y, z = np.moveaxis(linear @ TO_XYZ.T / WHITE, -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


def _blurred(opponent: np.ndarray, ppd: float) -> np.ndarray:
    """Linear RGB of what is left after the eye's contrast sensitivity, at this resolution."""
    radius = int(np.ceil(3 * np.sqrt(max(b for parts in CONTRAST for _, b in parts) / (2 * np.pi**2)) * ppd))
    at = np.arange(-radius, radius + 1) / ppd
    planes = []
    for k, parts in enumerate(CONTRAST):
        taps = [(a * np.sqrt(np.pi / b), np.exp(-(np.pi**2) * at**2 / b)) for a, b in parts]
        total = sum(weight * row.sum() ** 2 for weight, row in taps)
        planes.append(sum(weight / total * _filtered(opponent[..., k], row, row) for weight, row in taps))
    y = (planes[0] + 16) / 116
    xyz = np.stack([planes[1] / 500 + y, y, y - planes[2] / 200], axis=-1) * WHITE
    linear: np.ndarray = (xyz @ np.linalg.inv(TO_XYZ).T).clip(0, 1)
    return linear


def _lab(linear: np.ndarray) -> np.ndarray:
    """L*a*b* of linear RGB."""
    delta = 6 / 29
    t = linear @ TO_XYZ.T / WHITE
    x, y, z = np.moveaxis(np.where(t > delta**3, np.cbrt(t), t / (3 * delta**2) + 4 / 29), -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


def _hunt(lab: np.ndarray) -> np.ndarray:
    """Darker colours look less colourful."""
    return np.concatenate([lab[..., :1], 0.01 * lab[..., :1] * lab[..., 1:]], axis=-1)


def _hyab(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    gap = one - other
    distance: np.ndarray = np.abs(gap[..., 0]) + np.hypot(gap[..., 1], gap[..., 2])
    return distance


def _strength(bright: np.ndarray, ppd: float, of_points: bool) -> np.ndarray:
    """How strong an edge (first derivative) or a point (second derivative) is at every pixel."""
    sd = 0.5 * EDGE_DEG * ppd
    at = np.arange(-int(np.ceil(3 * sd)), int(np.ceil(3 * sd)) + 1)
    bell = np.exp(-(at**2) / (2 * sd * sd))
    slope = (at**2 / (sd * sd) - 1) * bell if of_points else -at * bell
    # Positive weights sum to 1 and negative ones to -1, over the whole filter.
    slope = np.where(slope < 0, slope / -slope[slope < 0].sum(), slope / slope[slope > 0].sum())
    bell = bell / bell.sum()
    strength: np.ndarray = np.hypot(_filtered(bright, slope, bell), _filtered(bright, bell, slope))
    return strength
