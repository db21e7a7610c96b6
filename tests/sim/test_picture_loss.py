"""The loss between pictures: the kernel against plain torch, value and slope."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from twinproof.sim.picture_distance import ssim
from twinproof.sim.picture_loss import photograph, picture_loss, torch_loss


def pair(height: int = 23, width: int = 37) -> tuple[np.ndarray, torch.Tensor]:
    rng = np.random.default_rng(0)
    target = rng.uniform(0, 1, (height, width, 3)).astype(np.float32)
    shown = np.clip(target + rng.normal(0, 0.1, target.shape), 0, 1).astype(np.float32)
    return target, torch.from_numpy(shown).requires_grad_()


@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("masked", [False, True])
def test_the_kernel_gives_what_torch_gives(share: float, masked: bool) -> None:
    target, shown = pair()
    weight = (np.random.default_rng(1).uniform(size=target.shape[:2]) > 0.3) if masked else None
    known = photograph(target, weight)
    ours = picture_loss(shown, known, share, 3.0)
    (slope,) = torch.autograd.grad(ours, shown)
    exact = shown.detach().double().requires_grad_()
    theirs = torch_loss(exact, known, share, 3.0)
    (wanted,) = torch.autograd.grad(theirs, exact)
    assert float(ours.detach()) == pytest.approx(float(theirs.detach()), rel=1e-5)
    assert float((slope - wanted).norm() / wanted.norm()) < 1e-5


def test_equal_pictures_have_no_loss() -> None:
    target, _ = pair()
    assert float(picture_loss(torch.from_numpy(target), photograph(target))) == pytest.approx(0, abs=1e-6)


def test_its_ssim_is_that_of_the_figures() -> None:
    target, shown = pair(60, 70)
    inner = np.zeros(target.shape[:2], bool)
    inner[5:-5, 5:-5] = True
    loss = float(picture_loss(shown, photograph(target, inner), 1.0).detach())
    assert 1 - loss == pytest.approx(ssim(target, shown.detach().numpy()), abs=1e-4)


def test_pictures_of_bytes_count_from_0_to_1() -> None:
    target = np.full((16, 16, 3), 255, np.uint8)
    assert np.allclose(photograph(target).rgb, 1)
