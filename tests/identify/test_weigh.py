"""How much gaps and seams weigh: outliers less, noise from residuals, seams as white acceleration would have them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.identify.arms import swinging
from twinproof.identify.weigh import LOST, PROCESS, Stage, noise_scale, process_noise, seam_weight, stage_cost, weights
from twinproof.nouns.randomness import stream


def stage(gap: np.ndarray | None = None) -> Stage:
    found = swinging().stages[-1]
    assert found.linear is not None
    return found if gap is None else replace(found, linear=replace(found.linear, gap=gap))


def size() -> int:
    return len(stage().shooting.window)


def test_weights_are_inverse_variances_that_fall_beyond_a_few_sd() -> None:
    one = replace(stage(), sd=np.array([0.5]))
    gap = np.zeros(size())
    gap[:4] = [0.0, 1.9, 4.0, np.nan]
    found = weights(one, gap, robust=4.0)
    np.testing.assert_allclose(found[:4], [4.0, 4.0, 2.0, 0.0])


def test_noise_is_that_of_the_residuals_without_their_outliers() -> None:
    rng = stream(0, "weigh")
    gap = 0.01 * rng.normal(size=size())
    clean = noise_scale(stage(gap), np.zeros(1))[0]
    gap[:5] = 3.0
    assert clean == pytest.approx(0.01, rel=0.1)
    assert noise_scale(stage(gap), np.zeros(1))[0] == pytest.approx(clean, rel=0.1)
    assert noise_scale(stage(np.zeros(size())), np.array([0.002]))[0] == 0.002
    assert noise_scale(stage(np.full(size(), np.nan)), np.zeros(1))[0] == stage().sd[0]


def test_the_weight_of_a_seam_is_the_inverse_covariance_of_white_acceleration() -> None:
    one = replace(stage(), process=np.full(3, 0.2))
    found = seam_weight(one)
    assert found is not None
    T = one.shooting.length[one.shooting.seams[0]] * one.shooting.step_s
    rms = float(np.sqrt(np.mean(np.square(one.shooting.acceleration))))
    q = (0.2 * rms) ** 2 * 0.1
    covariance = q * np.array([[T**3 / 3, T**2 / 2], [T**2 / 2, T]])
    np.testing.assert_allclose(found[0], np.linalg.inv(covariance), rtol=1e-8)
    # by simulation: white noise of that strength, integrated twice over the window
    rng, steps = stream(1, "weigh"), 400
    pushes = rng.normal(size=(4000, steps)) * np.sqrt(q / (T / steps))
    speed = np.cumsum(pushes, axis=1) * T / steps
    place = np.cumsum(speed, axis=1)[:, -1] * T / steps
    np.testing.assert_allclose(np.cov(place, speed[:, -1]), covariance, rtol=0.1)


def test_given_starts_have_no_seams() -> None:
    assert seam_weight(replace(stage(), free=None)) is None
    assert seam_weight(replace(stage(), free=np.zeros(1, dtype=bool))) is None


def test_the_cost_is_hubers_on_gaps_and_squares_on_seams() -> None:
    one = replace(stage(), sd=np.array([1.0]))
    none = np.zeros_like(one.linear.seam) if one.linear else np.zeros(0)
    gap = np.zeros(size())
    gap[:3] = [2.0, 6.0, np.nan]
    huber = 0.5 * 4 + (4 * 6 - 8) + (4 * LOST - 8)
    assert stage_cost(one, gap, none, 4.0) == pytest.approx(huber)
    weight = seam_weight(one)
    assert weight is not None
    seam = none.copy()
    seam[1] = [1e-3, 2e-3]
    assert stage_cost(one, np.zeros(size()), seam, 4.0) == pytest.approx(0.5 * seam[1] @ weight[1] @ seam[1])
    assert stage_cost(replace(one, share=0.5), gap, none, 4.0) == pytest.approx(huber / 2)


def test_windows_that_are_not_rolled_cost_nothing() -> None:
    one = replace(stage(), windows=np.array([0, 1]))
    gap = np.where(one.shooting.window < 2, 0.0, np.nan)
    none = np.zeros_like(one.linear.seam) if one.linear else np.zeros(0)
    assert stage_cost(one, gap, none, 4.0) == 0.0


@pytest.mark.parametrize("true", [0.05, 0.6])
def test_process_noise_finds_how_far_windows_end_beside_the_next(true: float) -> None:
    # the motion is pushed by noise of a known strength between windows: gaps and seams are drawn from that model
    one = replace(stage(), process=np.full(3, true))
    linear, shooting = one.linear, one.shooting
    assert linear is not None
    assert linear.by_start is not None
    assert linear.seam_by_start is not None
    weight = seam_weight(one)
    assert weight is not None
    rng = stream(2, "weigh")
    starts = np.zeros((shooting.windows, 2))
    for s, w in enumerate(shooting.seams):
        push = np.linalg.cholesky(np.linalg.inv(weight[s])) @ rng.normal(size=2)
        starts[w + 1] = linear.seam_by_start[s] @ starts[w] + push
    gap = np.einsum("mk,mk->m", linear.by_start, starts[shooting.window])
    gap = gap + one.sd[shooting.entry] * rng.normal(size=len(gap))
    drawn = replace(one, linear=replace(linear, gap=gap, seam=np.zeros_like(linear.seam)))
    at = replace(drawn, process=np.full(3, 0.17))
    for _ in range(8):
        at = replace(at, process=process_noise(at, 4.0))
    assert (at.process > true / 3).all()
    assert (at.process < true * 3).all()
    # a few notches at most in one step
    once = process_noise(replace(drawn, process=np.full(3, PROCESS[13])), 4.0)
    assert all(PROCESS[9] <= each <= PROCESS[17] for each in once)
