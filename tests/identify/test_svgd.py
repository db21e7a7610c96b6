"""Stein particles: they become known densities, find both sides of a rotor, and say when they found no rest."""

from __future__ import annotations

import numpy as np
import pytest

from tests.identify.swings import PENDULUM_TRUTH, ROTOR_TRUTH, pendulum, rotor, tied, truth_of
from twinproof.identify.laplace import covariance_of, widening
from twinproof.identify.modes import find_modes, same, scrambled, settle
from twinproof.identify.svgd import Svgd, spread_out, stein_discrepancy, stein_gap, stein_step
from twinproof.nouns.randomness import stream

SMALL = Svgd(particles=32, starts=1)


def relaxed(slope, width: int, start: float, steps: int = 300) -> np.ndarray:
    """Particles of a density with this slope, moved from a cloud of another size."""
    u = start * stream(0, "particles").normal(size=(64, width))
    for _ in range(steps):
        u = u + 0.2 * stein_step(u, slope(u))
    return u


@pytest.mark.parametrize("start", [0.3, 2.0])
def test_particles_take_the_mean_and_spread_of_a_bell_in_ten_dimensions(start):
    u = relaxed(lambda u: -(u - 0.5), 10, start)
    assert u.mean(axis=0) == pytest.approx(np.full(10, 0.5), abs=0.02)
    assert np.cov(u.T, bias=True) == pytest.approx(np.eye(10), abs=0.05)


def test_particles_follow_a_density_that_is_no_bell():
    u = relaxed(lambda u: 1 - np.exp(u), 1, 1.0, 800)  # the logarithm of an exponential variable
    assert u.mean() == pytest.approx(-0.577, abs=0.1)
    assert u.std() == pytest.approx(1.28, abs=0.2)
    left, right = np.quantile(u, [0.1, 0.9]) - np.median(u)
    assert -left > 1.2 * right


def test_stein_s_measures_tell_a_fitting_cloud_from_one_that_is_too_narrow():
    u = relaxed(lambda u: -u, 3, 1.0)
    assert stein_gap(u, -u) < 0.02
    assert stein_gap(0.5 * u, -0.5 * u) > 0.5
    assert stein_discrepancy(0.4 * u, -0.4 * u) > stein_discrepancy(u, -u)


def test_draws_keep_the_particles_mean_and_spread():
    particles = stream(1, "particles").normal(size=(64, 3)) * [1.0, 2.0, 0.1]
    span = (np.full(3, -50.0), np.full(3, 50.0))
    draws = spread_out(particles, 20_000, np.array([1.0, 1.0, 3.0]), span, stream(2, "draws"))
    assert draws.mean(axis=0) == pytest.approx(particles.mean(axis=0), abs=0.05)
    assert draws.std(axis=0) == pytest.approx(particles.std(axis=0, ddof=1) * [1, 1, 3], rel=0.05)
    inside = spread_out(particles, 500, np.ones(3), (np.zeros(3), np.ones(3)), stream(2, "draws"))
    assert ((inside >= 0) & (inside <= 1)).all()


def test_scrambled_starts_fill_the_prior():
    problem = pendulum().problem
    low, high = problem.span
    points = scrambled(problem, 16, stream(3, "starts"))
    assert ((points > low) & (points < high)).all()
    halves = (points > (low + high) / 2).mean(axis=0)
    assert halves == pytest.approx([0.5, 0.5], abs=0.15)


def test_a_pendulum_has_one_mode_and_particles_as_wide_as_its_gaussian():
    fitted = pendulum()
    found = SMALL.infer(fitted.problem, fitted, stream(4, "svgd"))
    assert found.diagnostics["converged"]
    assert len(found.diagnostics["modes"]) == 1
    covariance = covariance_of(fitted)
    sd = np.sqrt(np.diag(covariance)) * widening(fitted, covariance)
    assert found.unknowns.std(axis=0) == pytest.approx(sd, rel=0.3)
    assert np.abs(found.unknowns.mean(axis=0) - truth_of(fitted.problem, PENDULUM_TRUTH)).max() < 4 * sd.max()
    assert found.rollouts > 0


def test_a_rotor_keeps_its_mass_on_either_side_apart():
    fitted = rotor()
    found = SMALL.infer(fitted.problem, fitted, stream(5, "svgd"))
    place = fitted.problem.ids.index("body.rotor.com_y")
    modes = found.diagnostics["modes"]
    assert [mode["chance"] for mode in modes] == pytest.approx([0.5, 0.5], abs=0.05)
    right = found.unknowns[:, place] > 0
    assert np.exp(found.log_weights)[right].sum() == pytest.approx(0.5, abs=0.05)
    assert np.abs(found.unknowns[:, place]) == pytest.approx(
        np.full(len(right), ROTOR_TRUTH["body.rotor.com_y"]), abs=2e-3
    )


def test_points_of_one_ridge_are_one_mode():
    fitted = tied()
    moved, _ = settle(fitted, fitted.unknowns + np.array([0.4, 0.4, 0.0]))
    assert not same(moved, fitted)
    assert moved.cost == pytest.approx(fitted.cost, abs=1.0)
    modes, spent = find_modes(fitted.problem, fitted, 1, stream(6, "svgd"))
    assert len(modes) == 1
    assert spent > 0


def test_particles_on_a_bent_ridge_find_no_rest_and_say_so():
    fitted = tied()
    found = Svgd(particles=16, starts=0).infer(fitted.problem, fitted, stream(7, "svgd"))
    assert not found.diagnostics["converged"]
    assert found.diagnostics["modes"][0]["gaussian_stands_in"]
    low, high = fitted.problem.span
    assert (found.unknowns.std(axis=0) > 0.05 * (high - low)).all()
    assert ((found.unknowns >= low) & (found.unknowns <= high)).all()
