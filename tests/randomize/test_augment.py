"""Pictures changed in torch are those of the numpy reference, on any device and in any batch."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tests.randomize.made import posterior
from twinproof.nouns.errors import MissingExtra, RandomizationError
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.theta import Theta
from twinproof.randomize import augment_reference as reference
from twinproof.randomize.adjust import QUANTITIES, Adjustments, adjustments, bell, counted, from_thetas, uniform, white
from twinproof.randomize.extra import Extra
from twinproof.randomize.from_twin import LOOKS
from twinproof.randomize.residual import Residuals, residual

torch = pytest.importorskip("torch")
from twinproof.randomize import augment  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
DEPTH = (Extra("depth.noise", "stereo", 0.0, 0.01), Extra("depth.dropout", "glass", 0.0, 0.3))


def ranges() -> Randomization:
    """Every picture quantity with a wide range."""
    wide = (Extra("image.dropout", "bad cable", 0.0, 0.3), Extra("image.blur", "shaken", 0.0, 2.0))
    kept = tuple(each for each in LOOKS if each.id not in ("image.dropout", "image.blur"))
    return residual(posterior(), how=Residuals(extra=(*kept, *wide, *DEPTH)))


def pictures(count: int = 5, height: int = 21, width: int = 30) -> np.ndarray:
    """Smooth colours with an edge."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    base = np.stack([x, y, 0.5 + 0.3 * np.sin(9 * x)], axis=-1)
    found = np.clip(base[None] * rng.uniform(0.5, 1.0, size=(count, 1, 1, 3)), 0, 1)
    found[:, 5:9, 6:12] = 0.9
    return found.astype(np.float32)


@pytest.mark.parametrize("device", DEVICES)
def test_random_bits_are_those_of_the_reference(device: str) -> None:
    numbers = np.array([0, 1, 7, 1 << 40])
    key = (1 << 63) - 12345
    bits = augment.counted(key, numbers, 13, device).cpu().numpy().view(np.uint64)
    np.testing.assert_array_equal(bits, counted(key, numbers, 13))
    np.testing.assert_array_equal(augment.uniform(key, numbers, 13, device).cpu().numpy(), uniform(key, numbers, 13))
    np.testing.assert_array_equal(augment.bell(key, numbers, 13, device).cpu().numpy(), bell(key, numbers, 13))


def test_the_bell_has_mean_zero_and_sd_one() -> None:
    many = bell(3, np.arange(20), 5000)
    assert abs(many.mean()) < 0.01
    assert many.std() == pytest.approx(1.0, abs=0.01)
    assert np.abs(np.corrcoef(many)[0, 1:]).max() < 0.06


@pytest.mark.parametrize("device", DEVICES)
def test_pictures_are_those_of_the_reference(device: str) -> None:
    how, images = adjustments(ranges(), 5, seed=4), pictures()
    found = augment.augmented(torch.tensor(images, device=device), how).cpu().numpy()
    np.testing.assert_allclose(found, reference.augmented(images, how), atol=2e-6)
    whole = (255 * images).astype(np.uint8)
    found = augment.augmented(torch.tensor(whole, device=device), how).cpu().numpy()
    assert found.dtype == np.uint8
    apart = np.abs(found.astype(int) - reference.augmented(whole, how).astype(int))
    assert apart.max() <= 1
    assert (apart > 0).mean() < 0.01  # a rounding at one half


@pytest.mark.parametrize("device", DEVICES)
def test_depths_are_those_of_the_reference(device: str) -> None:
    how, depth = (
        adjustments(ranges(), 3, seed=4),
        np.random.default_rng(1).uniform(0.3, 3, size=(3, 20, 31)).astype("f4"),
    )
    depth[:, 0, :5], depth[:, 1, :5] = np.inf, 0.0
    found = augment.augmented_depth(torch.tensor(depth, device=device), how).cpu().numpy()
    np.testing.assert_allclose(found, reference.augmented_depth(depth, how), rtol=1e-6)
    assert np.isinf(found[:, 0, :5]).all()
    assert (found[:, 1, :5] == 0).all()


def test_an_image_is_changed_alike_in_whatever_batch_it_is() -> None:
    act, images = augment.Augment(ranges(), seed=2), torch.tensor(pictures(6))
    whole = act(images, first=10)
    np.testing.assert_array_equal(act(images[2:5], first=12).numpy(), whole[2:5].numpy())
    assert (augment.Augment(ranges(), seed=3)(images, first=10) - whole).abs().max() > 0.01
    depth = torch.full((6, 8, 8), 1.5)
    np.testing.assert_array_equal(act.depth(depth, first=10)[4:].numpy(), act.depth(depth[4:], first=14).numpy())
    assert act(images[:0]).shape == (0, 21, 30, 3)


def of(**values: float) -> Adjustments:
    """One image with these values."""
    return from_thetas([Theta({id.replace("__", "."): value for id, value in values.items()})], [0])


def test_what_is_neutral_changes_nothing() -> None:
    images = pictures(1)
    np.testing.assert_allclose(reference.augmented(images, from_thetas([Theta()], [0])), images, atol=1e-6)
    depth = np.full((1, 4, 4), 2.0, np.float32)
    np.testing.assert_array_equal(reference.augmented_depth(depth, from_thetas([Theta()], [0])), depth)


def test_each_quantity_does_what_it_says() -> None:
    images = 0.2 + 0.3 * pictures(1)  # away from black and white, where colours are cut
    assert reference.augmented(images, of(image__brightness=1.5)).mean() == pytest.approx(1.5 * images.mean(), rel=1e-3)
    flat = reference.augmented(images, of(image__contrast=0.5))
    assert flat.std() < 0.75 * images.std()
    grey = reference.augmented(images, of(image__saturation=0.0))
    assert np.abs(grey - grey.mean(axis=-1, keepdims=True)).max() < 1e-4
    turned = reference.augmented(images, of(image__hue=0.3))
    assert np.abs(turned - images).max() > 0.03
    np.testing.assert_allclose(turned @ [0.299, 0.587, 0.114], images @ [0.299, 0.587, 0.114], atol=1e-3)
    noisy = reference.augmented(np.full_like(images, 0.5), of(image__noise=0.05))
    assert noisy.std() == pytest.approx(0.05, rel=0.1)
    soft = reference.augmented(images, of(image__blur=2.0))
    assert np.abs(np.diff(soft, axis=2)).max() < 0.5 * np.abs(np.diff(images, axis=2)).max()
    lost = reference.augmented(np.ones_like(images), of(image__dropout=0.5))
    assert 0.2 < (lost == 0).mean() < 0.8


def test_light_of_a_low_temperature_is_warm() -> None:
    warm, usual, cold = white(np.array([3000.0, 6500.0, 12000.0]))
    np.testing.assert_allclose(usual, 1.0, atol=1e-9)
    assert warm[0] > 1.1 > 0.9 > warm[2]
    assert cold[2] > 1.05 > cold[0]


def test_draws_fill_their_ranges_and_joint_ones_stay_together() -> None:
    found = adjustments(ranges(), 2000)
    for id in QUANTITIES:
        entry = ranges().range(id)
        values = found.of(id)
        assert entry.low <= values.min() < values.max() <= entry.high
    apart = np.corrcoef(found.of("image.noise"), found.of("image.blur"))[0, 1]
    assert abs(apart) < 0.08
    brightness = np.linspace(0.5, 2.0, len(ranges().draws))
    together = Randomization(
        ranges().ranges,
        {},
        ("image.brightness", "image.contrast"),
        np.clip(np.stack([brightness, brightness], axis=1), 0.8, 1.25),
    )
    joint = adjustments(together, 50)
    np.testing.assert_array_equal(joint.of("image.brightness"), joint.of("image.contrast"))


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"needs torch: pip install 'twinproof\[learn\]'"):
        augment.augmented(pictures(1), from_thetas([Theta()], [0]))


def test_pictures_of_another_shape_or_kind_are_refused() -> None:
    how = from_thetas([Theta()] * 2, [0, 1])
    with pytest.raises(RandomizationError, match=r"shape \(1, 21, 30, 3\); needed is \(2, height, width, 3\)"):
        augment.augmented(torch.tensor(pictures(1)), how)
    with pytest.raises(RandomizationError, match="pictures are torch.float64. Give uint8, or float32 from 0 to 1"):
        augment.augmented(torch.tensor(pictures(2)).double(), how)
    with pytest.raises(RandomizationError, match=r"depths have the shape \(2, 3\)"):
        augment.augmented_depth(torch.zeros(2, 3), how)
    with pytest.raises(RandomizationError, match=r"image.noise: \(3,\) values for 2 pictures"):
        Adjustments(np.arange(2), {"image.noise": np.zeros(3)})
