"""Bands of predictions: what they are made of, and how they are scored."""

from __future__ import annotations

import numpy as np

from tests.sim.motions import PENDULUM, swing
from twinproof.nouns.belief import Discrepancy
from twinproof.sim.experiment import Experiment, experiment
from twinproof.sim.predictive import bands, bins, coverage_rows, errors, interval_score, predicted
from twinproof.sim.scene import Scene
from twinproof.sim.shooting import Shooting

HORIZONS_S = (0.05, 0.2, 0.5)


def test_the_interval_score_is_the_width_and_a_fine_for_what_lies_outside() -> None:
    miss, half = np.array([0.0, 1.0, -1.0, 1.5, -3.0]), np.ones(5)
    np.testing.assert_allclose(interval_score(miss, half, level=0.9), [2, 2, 2, 2 + 20 * 0.5, 2 + 20 * 2])
    np.testing.assert_allclose(interval_score(miss[3:], half[3:], level=0.5), [2 + 4 * 0.5, 2 + 4 * 2])


def test_a_gap_belongs_to_the_first_horizon_that_is_not_before_it() -> None:
    np.testing.assert_array_equal(bins(np.array([0, 0.05, 0.051, 0.2, 0.49, 0.7]), HORIZONS_S), [0, 0, 1, 1, 2, 2])


def told_of(count: int = 2) -> tuple[Shooting, np.ndarray, np.ndarray]:
    """Windows of a pendulum, the damping at the truth, and draws around it."""
    scene = Scene(PENDULUM)
    truth = {"joint.hinge.damping": 0.08}
    made: list[Experiment] = [experiment(swing(PENDULUM, truth, seed=k), scene) for k in range(count)]
    draws = np.linspace(0.05, 0.11, 8).reshape(-1, 1, 1)
    return Shooting(made, ("joint.hinge.damping",), 0.5), np.array([[0.08]]), draws


def test_a_band_joins_the_spread_of_draws_with_model_error_and_noise() -> None:
    shooting, point, draws = told_of()
    told = predicted(shooting, point, draws)
    error = (Discrepancy("state.hinge", "rad", (0.1, 0.5), (0.0, 0.02)),)
    model, sensor = errors(shooting, error, {"state.hinge": 1e-3})
    at_half = np.abs(shooting.horizon - 0.3) < 1e-9
    np.testing.assert_allclose(model[at_half], 0.01)
    np.testing.assert_array_equal(sensor, 1e-3)
    made = bands(told, error, {"state.hinge": 1e-3})
    np.testing.assert_allclose(made.half, 1.6448536 * np.sqrt(told.spread**2 + model**2 + 1e-6), rtol=1e-6)
    np.testing.assert_allclose(made.alone, 1.6448536 * told.spread, rtol=1e-6)
    rows = coverage_rows(told, made, HORIZONS_S)
    assert [row["horizon_s"] for row in rows] == list(HORIZONS_S)
    assert sum(row["count"] for row in rows) == told.seen.sum()
    assert rows[-1]["covered"] > 0.85


def test_one_draw_has_no_spread() -> None:
    shooting, point, draws = told_of(1)
    np.testing.assert_array_equal(predicted(shooting, point, draws[:1]).spread, 0.0)
