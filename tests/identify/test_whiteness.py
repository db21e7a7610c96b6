"""Noise passes, what is not noise is found and named, and too little is said to be too little."""

from __future__ import annotations

import numpy as np
import pytest

from twinproof.identify.whiteness import spectrum, whiteness
from twinproof.nouns.errors import PosteriorError
from twinproof.nouns.randomness import stream


def test_noise_is_white_about_as_often_as_the_level_says() -> None:
    rng = stream(0, "white")
    values = [whiteness([rng.standard_normal(200), rng.standard_normal(300)], 0.01).p_value for _ in range(300)]
    assert 0.02 < np.mean(np.array(values) < 0.05) < 0.10
    assert whiteness([rng.standard_normal(500)], 0.01, "speed").white()


def test_a_slow_drift_and_a_ripple_are_found_with_their_pace() -> None:
    rng, t = stream(1, "white"), np.arange(2000) * 0.01
    ripple = whiteness([np.sin(2 * np.pi * 7 * t) + 0.5 * rng.standard_normal(2000)], 0.01, "torque")
    assert not ripple.white()
    assert ripple.peak_hz == pytest.approx(7, abs=0.5)
    assert ripple.peak_share > 0.5
    assert 0.3 < ripple.explained < 0.9
    assert str(ripple).startswith("torque: not white; ")
    drift = whiteness([np.cumsum(rng.standard_normal(2000))], 0.01)
    assert drift.explained > 0.9


def test_a_trace_of_colour_in_a_long_log_may_be_left() -> None:
    rng = stream(2, "white")
    noise = rng.standard_normal(100_001)
    slight = whiteness([noise[1:] + 0.05 * noise[:-1]], 0.01)
    assert slight.p_value < 1e-6
    assert slight.white(tolerated=0.05)
    assert not slight.white(tolerated=0.0)
    assert "white (p" in str(slight)


def test_residuals_of_zero_are_white() -> None:
    assert whiteness([np.zeros(100)], 0.01).white()


def test_the_spectrum_of_noise_is_flat_and_holds_its_power() -> None:
    frequency, density = spectrum([stream(3, "white").standard_normal(50_000)], 0.01)
    assert density[5:-5].std() < 0.3 * density[5:-5].mean()
    assert np.trapezoid(density, frequency) == pytest.approx(1.0, rel=0.05)


def test_too_few_or_broken_residuals_are_refused() -> None:
    with pytest.raises(PosteriorError, match="too few to test 20 lags"):
        whiteness([np.zeros(25)], 0.01, "speed")
    with pytest.raises(PosteriorError, match="speed: a residual is not finite"):
        whiteness([np.full(100, np.nan)], 0.01, "speed")
