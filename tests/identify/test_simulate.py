"""Synthetic recordings: their summaries are what linear theory says near the fit, and quantised where the sensor is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.identify.swings import pendulum, tied
from twinproof.identify.laplace import covariance_of, widening
from twinproof.identify.simulate import Region, Simulator, Training, measured, operator, region, training
from twinproof.nouns.errors import PosteriorError
from twinproof.nouns.randomness import stream


def test_the_operator_gives_the_fit_s_own_gradient():
    stage = pendulum().stages[-1]
    assert stage.linear is not None
    assert stage.reduced is not None
    found = operator(stage, 4.0).score(stage.linear.gap[None], stage.linear.seam[None])[0]
    scale = np.sqrt(np.diag(stage.reduced.hessian))
    assert found / scale == pytest.approx(stage.reduced.gradient / scale, abs=1e-6)


def test_a_stage_that_was_not_linearised_has_no_operator():
    with pytest.raises(PosteriorError, match="no linearised problem to sum a recording up with"):
        operator(replace(pendulum().stages[-1], linear=None), 4.0)


def test_summaries_at_the_fit_are_white_and_follow_the_unknowns():
    fitted = pendulum()
    simulator = Simulator(fitted, stream(0, "simulate"), scatter=False)
    there = simulator.summaries(np.tile(fitted.unknowns, (400, 1)))[:, :2]
    assert there.mean(axis=0) == pytest.approx(np.zeros(2), abs=0.25)
    assert np.cov(there.T) == pytest.approx(np.eye(2), abs=0.3)
    step = 3 * np.sqrt(np.diag(covariance_of(fitted)))
    moved = simulator.summaries(np.tile(fitted.unknowns + step, (200, 1)))[:, :2].mean(axis=0)
    assert moved == pytest.approx(simulator.whitening @ fitted.information @ step, abs=0.3)
    assert simulator.rollouts >= 600 * fitted.stages[-1].shooting.windows


def test_steps_scatter_as_widely_as_stretches_of_the_recording_disagree():
    fitted = pendulum()
    simulator, covariance = Simulator(fitted, stream(3, "simulate")), covariance_of(fitted)
    there = simulator.summaries(np.tile(fitted.unknowns, (600, 1)))[:, :2]
    steps = np.linalg.solve(simulator.whitening, there.T).T @ covariance
    wanted = np.sqrt(np.diag(covariance)) * widening(fitted, covariance)
    assert steps.std(axis=0) == pytest.approx(wanted, rel=0.2)


def test_the_recording_s_own_summary_is_like_those_of_the_fit():
    fitted = pendulum()
    simulator = Simulator(fitted, stream(1, "simulate"))
    assert np.abs(simulator.observed[:2]).max() < 1.0  # an optimum has no pull
    made = simulator.summaries(np.tile(fitted.unknowns, (100, 1)))[:, 2:]
    assert np.abs(simulator.observed[2:] - made.mean(axis=0)).max() < 5 * made.std(axis=0).max()


def test_measured_values_are_those_of_the_readings():
    shooting = pendulum().stages[-1].shooting
    reading = shooting.experiments[0].readings[0]
    found = measured(shooting)[: shooting.bounds[1]]
    assert found == pytest.approx(reading.value[: len(found), 0])


def test_a_coarse_sensor_is_simulated_on_its_grid():
    fitted = pendulum()
    simulator = Simulator(fitted, stream(2, "simulate"), jitters=1)
    shooting = fitted.stages[0].shooting
    step = 0.02
    grid = np.round(measured(shooting) / step) * step
    simulator.__dict__["_grids"] = [(np.full(1, step / np.sqrt(12)), grid)]
    gap, _ = simulator._gaps(0, fitted.unknowns[None])
    _, base, _ = simulator._bases[0]
    shown = grid - base[0]  # what the fitted unknowns show: a reading on the grid minus it is the gap
    off = (shown + gap[0]) / step
    assert off == pytest.approx(np.round(off), abs=1e-6)


def test_draws_of_a_region_lie_in_it_and_in_the_limits():
    fitted = pendulum()
    where = region(fitted, covariance_of(fitted), 5.0)
    unknowns, z = where.draw(500, stream(3, "region"))
    low, high = fitted.problem.span
    assert ((unknowns >= low) & (unknowns <= high)).all()
    assert np.abs(z).max() <= 1
    assert where.inside(z).all()
    assert unknowns.std(axis=0) == pytest.approx(5 / np.sqrt(3) * np.sqrt(np.diag(covariance_of(fitted))), rel=0.15)


def test_a_region_outside_the_limits_is_refused():
    fitted = pendulum()
    where = Region(fitted.problem, fitted.problem.span[1] + 1.0, 0.01 * np.eye(2))
    with pytest.raises(PosteriorError, match="it sits in a corner of them. Widen the priors"):
        where.draw(10, stream(4, "region"))


def test_a_ridge_that_bends_is_refused_before_anything_is_simulated():
    with pytest.raises(PosteriorError, match="leaves a combination of .* open, along a line that bends"):
        training(tied(), 100, 5.0, stream(5, "training"))


def test_draws_outside_the_region_are_thrown_away_and_too_many_are_an_error():
    fitted = pendulum()
    where = region(fitted, covariance_of(fitted), 5.0)
    learnt = Training(where, np.zeros((10, 2)), np.zeros((10, 2)), np.zeros(2), 0)
    rng = stream(6, "draws")
    unknowns, log_weights, told = learnt.draws(lambda count: rng.normal(size=(count, 2)), 200)
    assert where.inside((unknowns - where.centre) @ np.linalg.inv(where.root).T).all()
    assert np.exp(log_weights).sum() == pytest.approx(1.0)
    assert 0.3 < told["inside"] < 0.6
    with pytest.raises(PosteriorError, match="draws of the network lie inside the limits: it learned too little"):
        learnt.draws(lambda count: np.full((count, 2), 3.0), 20)
