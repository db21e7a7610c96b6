"""Distances between pictures: against direct sums, against the reference implementation, and what masks leave out."""

from __future__ import annotations

import numpy as np
import pytest

from twinproof.nouns.errors import SplatError
from twinproof.nouns.randomness import stream
from twinproof.sim.picture_distance import flip, flip_map, psnr, ssim


def pictures(height: int = 40, width: int = 56, noise: float = 20, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A soft coloured picture with an edge, and a noisy copy."""
    rng = stream(seed, "pictures")
    y, x = np.mgrid[:height, :width]
    planes = [128 + 90 * np.sin(x / 7 + k) * np.cos(y / 9 - k) for k in range(3)]
    soft = np.stack(planes, axis=-1)
    soft[:, width // 2 :] *= 0.5
    return soft.astype(np.uint8), (soft + rng.normal(0, noise, soft.shape)).clip(0, 255).astype(np.uint8)


def test_psnr_of_a_known_difference():
    grey = np.full((4, 5, 3), 100, np.uint8)
    assert psnr(grey, grey + np.uint8(10)) == pytest.approx(20 * np.log10(255 / 10))
    assert psnr(grey, grey) == np.inf


def test_bytes_and_fractions_give_the_same():
    one, other = pictures()
    for measure in (psnr, ssim, flip):
        assert measure(one / 255, (other / 255).astype(np.float32)) == pytest.approx(measure(one, other), rel=1e-5)


def test_ssim_is_the_mean_of_windows_summed_directly():
    one, other = (each[:20, :24] / 255 for each in pictures())
    taps = np.exp(-0.5 * (np.arange(-5, 6) / 1.5) ** 2)
    window = np.outer(taps, taps) / taps.sum() ** 2
    found = []
    for row in range(5, 15):
        for column in range(5, 19):
            for k in range(3):
                a = one[row - 5 : row + 6, column - 5 : column + 6, k]
                b = other[row - 5 : row + 6, column - 5 : column + 6, k]
                ma, mb = (window * a).sum(), (window * b).sum()
                va, vb = (window * (a - ma) ** 2).sum(), (window * (b - mb) ** 2).sum()
                cov = (window * (a - ma) * (b - mb)).sum()
                found.append((2 * ma * mb + 1e-4) * (2 * cov + 9e-4) / ((ma**2 + mb**2 + 1e-4) * (va + vb + 9e-4)))
    assert ssim(one, other) == pytest.approx(np.mean(found), abs=1e-12)


def test_ssim_is_that_of_skimage():
    metrics = pytest.importorskip("skimage.metrics", reason="scikit-image is not installed")
    one, other = pictures()
    how = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False, "channel_axis": 2}
    expected = metrics.structural_similarity(one / 255, other / 255, data_range=1, **how)
    assert ssim(one, other) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ppd", [67.0206, 30.0])
def test_flip_is_that_of_its_authors(seed, ppd):
    evaluator = pytest.importorskip("flip_evaluator", reason="flip-evaluator is not installed")
    one, other = ((each / 255).astype(np.float32) for each in pictures(60, 80, 5 + 15 * seed, seed))
    expected, mean, _ = evaluator.evaluate(one, other, "LDR", True, False, True, {"ppd": ppd})
    seen = flip_map(one, other, ppd)
    assert seen == pytest.approx(expected[..., 0], abs=2e-5)
    assert flip(one, other, pixels_per_degree=ppd) == pytest.approx(mean, abs=5e-6)


def test_flip_of_extremes():
    black, white = np.zeros((24, 24, 3)), np.ones((24, 24, 3))
    green, blue = np.zeros((24, 24, 3)), np.zeros((24, 24, 3))
    green[..., 1], blue[..., 2] = 1, 1
    assert flip(white, white) == 0
    assert flip(green, blue) == pytest.approx(1, abs=1e-6)  # the largest difference there is
    assert 0.9 < flip(black, white) < 1


@pytest.mark.parametrize(("measure", "better"), [(psnr, max), (ssim, max), (flip, min)])
def test_more_noise_is_farther(measure, better):
    values = [measure(*pictures(noise=noise)) for noise in (2, 10, 40)]
    assert better(values) == values[0]
    assert sorted(values, reverse=better is max) == values


@pytest.mark.parametrize("measure", [psnr, ssim, flip])
def test_what_lies_outside_the_mask_does_not_count(measure):
    one, other = pictures()
    mask = np.zeros(one.shape[:2], bool)
    mask[8:30, 8:40] = True
    spoilt = np.where(mask[..., None], other, np.uint8(255))
    assert measure(one, spoilt, mask) == pytest.approx(measure(one, other, mask), abs=1e-12)
    assert measure(one, spoilt) != pytest.approx(measure(one, other))
    whole = np.ones(one.shape[:2], bool)
    assert measure(one, other, whole) == measure(one, other)


@pytest.mark.parametrize("measure", [psnr, ssim, flip])
def test_pictures_that_cannot_be_compared_are_refused(measure):
    one, other = pictures()
    with pytest.raises(SplatError, match="cannot be compared"):
        measure(one, other[:-1])
    with pytest.raises(SplatError, match="the mask has the shape"):
        measure(one, other, np.ones((3, 3), bool))
    with pytest.raises(SplatError, match="no pixel counts"):
        measure(one, other, np.zeros(one.shape[:2], bool))
    with pytest.raises(SplatError, match="Give uint8, or floats from 0 to 1"):
        measure(one, other.astype(int))
    with pytest.raises(SplatError, match="not finite"):
        measure(one, np.full(one.shape, np.nan))


def test_ssim_needs_a_whole_window():
    one, other = pictures()
    with pytest.raises(SplatError, match="has its whole window"):
        ssim(one[:8], other[:8])
    mask = np.zeros(one.shape[:2], bool)
    mask[0, 0] = True
    with pytest.raises(SplatError, match="has its whole window"):
        ssim(one, other, mask)
