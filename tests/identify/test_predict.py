"""Model error is near zero where the model is right and shows where it is not; bands cover what was not seen."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.identify.arms import TRUTH, asked, swings
from tests.sim.motions import PENDULUM
from twinproof.identify.fit import Fit, GaussNewton, fit
from twinproof.identify.laplace import Laplace
from twinproof.identify.predict import (
    coverage,
    discrepancy,
    horizons_for,
    left_out_points,
    noise_by_entry,
    predict,
)
from twinproof.nouns.belief import Discrepancy
from twinproof.nouns.randomness import stream

HORIZONS_S = (0.05, 0.2, 0.5)
GAIN = {"actuator.hinge.gain": 1.2}


@cache
def fitted(friction: float = 0.04) -> Fit:
    """Mass and damping of a pendulum whose dry friction is held at a value: right, or absent."""
    made = swings(PENDULUM, TRUTH, 6, seed=3, seconds=1.6)
    held = {**GAIN, "joint.hinge.frictionloss": friction}
    return fit(asked(PENDULUM, ["body.bob.mass", "joint.hinge.damping"], made, fixed=held), GaussNewton())


def drawn(found: Fit, count: int = 24) -> np.ndarray:
    return Laplace(draws=count).infer(found.problem, found, stream(0, "draws")).unknowns


# ---- by hand


def test_horizons_fit_into_episodes_several_times() -> None:
    long, short = (
        asked(PENDULUM, ["joint.hinge.damping"], swings(PENDULUM, {}, count, seconds=seconds))
        for count, seconds in ((2, 1.6), (8, 0.6))
    )
    assert horizons_for(long) == (0.02, 0.05, 0.1, 0.2, 0.5)
    assert horizons_for(short) == (0.02, 0.05, 0.1, 0.2, 0.5)  # many short ones: each is predicted whole
    one = asked(PENDULUM, ["joint.hinge.damping"], swings(PENDULUM, {}, 1, seconds=0.05))
    assert horizons_for(one) == (0.02,)


# ---- predictions


def test_a_prediction_begins_at_the_readings_and_spreads_with_the_draws() -> None:
    found = fitted()
    told = predict(found.problem, 0.4, found.unknowns, drawn(found))
    loose = found.unknowns + np.array([0.3, 0.02]) * stream(0, "wild").uniform(-1, 1, size=(24, 2))
    wild = predict(found.problem, 0.4, found.unknowns, loose)
    late = told.shooting.horizon > 0.3
    assert wild.spread[late].mean() > 10 * told.spread[late].mean()
    assert np.abs(told.gap).mean() < 0.01
    np.testing.assert_array_equal(predict(found.problem, 0.4, found.unknowns, found.unknowns[None]).spread, 0.0)


def test_every_episode_may_be_predicted_under_a_point_of_its_own() -> None:
    found = fitted()
    points = np.tile(found.unknowns, (6, 1))
    points[2, 0] += 0.3
    told = predict(found.problem, 0.4, points, drawn(found, 2))
    same = predict(found.problem, 0.4, found.unknowns, drawn(found, 2))
    other = told.shooting.episode[told.shooting.window] == 2
    np.testing.assert_array_equal(told.gap[~other], same.gap[~other])
    assert np.abs(told.gap[other] - same.gap[other]).max() > 0.01


def test_left_out_points_are_near_what_a_fit_without_the_episode_gives() -> None:
    found = fitted()
    points = left_out_points(found)
    some = [each for e, each in enumerate(found.problem.experiments) if e != 1]
    without = fit(found.problem.with_experiments(some), GaussNewton())
    sd = np.sqrt(np.diag(np.linalg.inv(found.information)))
    assert points.shape == (6, 2)
    assert np.abs((points[1] - without.unknowns) / sd).max() < 1.0


# ---- model error


def test_a_right_model_has_little_model_error_and_a_lacking_one_has_more_the_longer_it_predicts() -> None:
    (right,), (lacking,) = (discrepancy(each, drawn(each), HORIZONS_S) for each in (fitted(), fitted(friction=0.0)))
    assert (right.signal, right.unit, right.horizon_s) == ("state.hinge", "rad", HORIZONS_S)
    assert right.sd[-1] < 4e-3  # readings around a start tell its velocity to 0.03 rad/s
    assert lacking.sd[-1] > 3 * right.sd[-1]
    assert lacking.sd[0] < lacking.sd[1] < lacking.sd[2]


def test_noise_is_the_sensors_and_no_model_error() -> None:
    found = noise_by_entry(fitted())
    assert found == {"state.hinge": pytest.approx(1e-3, rel=0.15)}
    lacking = noise_by_entry(fitted(friction=0.0))
    assert lacking["state.hinge"] < 1.6e-3


# ---- bands on episodes that nothing was fitted to


@cache
def unseen_coverage(friction: float) -> dict[str, Any]:
    """What bands cover of six other episodes."""
    found = fitted(friction)
    draws = drawn(found)
    unseen = found.problem.with_experiments(swings(PENDULUM, TRUTH, 6, seed=7, seconds=1.6))
    return coverage(unseen, found.unknowns, draws, discrepancy(found, draws, HORIZONS_S), noise_by_entry(found))


@pytest.mark.parametrize("friction", [0.04, 0.0])
def test_bands_cover_about_nine_tenths_of_unseen_episodes_even_where_the_model_lacks_something(friction: float) -> None:
    told = unseen_coverage(friction)
    assert 0.8 <= told["covered"] <= 0.98
    assert told["covered_by_parameters_alone"] < 0.5
    assert len(told["episodes"]) == 6
    assert [row["horizon_s"] for row in told["by_signal"]] == list(HORIZONS_S)
    for row in told["by_signal"]:
        assert row["signal"] == "state.hinge"
        assert row["count"] > 50
        assert row["interval_score"] >= 0.999 * row["band"]


def test_bands_cover_at_every_horizon_not_only_on_the_whole() -> None:
    assert all(row["covered"] >= 0.8 for row in unseen_coverage(0.04)["by_signal"])


def test_bands_that_are_too_narrow_do_not_cover_and_score_worse() -> None:
    found = fitted(0.0)
    draws = drawn(found)
    unseen = found.problem.with_experiments(swings(PENDULUM, TRUTH, 2, seed=8, seconds=1.2))
    error = discrepancy(found, draws, HORIZONS_S)
    none = (Discrepancy("state.hinge", "rad", HORIZONS_S, (0.0, 0.0, 0.0)),)
    honest, proud = (coverage(unseen, found.unknowns, draws, each, {"state.hinge": 1e-3}) for each in (error, none))
    assert proud["covered"] < honest["covered"] - 0.2
    assert proud["by_signal"][-1]["interval_score"] > honest["by_signal"][-1]["interval_score"]
