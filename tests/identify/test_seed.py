"""Where a fit starts: delays are scanned, torques regressed, and points scattered over the limits."""

from __future__ import annotations

import numpy as np
import pytest

from tests.identify.arms import DELAY, NOISE, TRUTH, asked, swings
from tests.sim.motions import PENDULUM
from twinproof.identify.problem import Problem
from twinproof.identify.seed import best_of, misfit, regress_torques, scan_delay, scattered, spread_windows
from twinproof.nouns.randomness import stream
from twinproof.sim.shooting import Variant

LINEAR = ("body.bob.mass", "joint.hinge.damping", "joint.hinge.frictionloss")


def measured(kinds: tuple[str, ...] = ("state", "velocity", "torque"), delay_s: float = 0.0) -> Problem:
    made = swings(PENDULUM, TRUTH, 2, noise=NOISE, kinds=kinds, delay_s=delay_s, size=0.5)
    return asked(PENDULUM, [*LINEAR, DELAY], made, fixed={"actuator.hinge.gain": 1.2})


@pytest.mark.parametrize("true_s", [0.0, 0.0137, 0.031, 0.05])
def test_the_scan_comes_near_the_delay_even_with_other_parameters_wrong(true_s: float) -> None:
    problem = measured(("state", "velocity"), true_s)
    point, scan = scan_delay(problem, problem.nominal)
    d = problem.ids.index(DELAY)
    assert point[d] == pytest.approx(true_s, abs=0.0065)  # delays were tried every 5 or 10 ms
    np.testing.assert_array_equal(np.delete(point, d), np.delete(problem.nominal, d))
    assert min(scan, key=lambda tried: tried[1]) == (pytest.approx(point[d], abs=1e-6), 0.0)
    assert all(cost >= 0 for _, cost in scan)


def test_the_scan_stays_inside_the_prior_and_is_silent_without_a_delay() -> None:
    made = swings(PENDULUM, TRUTH, 1, seconds=0.5)
    short = asked(PENDULUM, [DELAY], made, (f"{DELAY}=0.001..0.012",))
    _, scan = scan_delay(short, short.nominal)
    assert [delay for delay, _ in scan] == [0.0, 0.005, 0.01]
    without = asked(PENDULUM, ["joint.hinge.damping"], made)
    point, scan = scan_delay(without, without.nominal)
    assert scan == []
    np.testing.assert_array_equal(point, without.nominal)


def test_a_regression_on_torques_comes_near_the_truth_without_a_search() -> None:
    problem = measured()
    point, said = regress_torques(problem, problem.nominal)
    values = dict(zip(problem.ids, problem.values(point)[0], strict=True))
    before = dict(zip(problem.ids, problem.values(problem.nominal)[0], strict=True))
    assert values["body.bob.mass"] == pytest.approx(0.6, rel=0.08)
    assert values["joint.hinge.damping"] == pytest.approx(0.08, rel=0.15)
    assert values["joint.hinge.frictionloss"] == pytest.approx(0.04, rel=0.4)  # steps of the torque blur it
    assert values[DELAY] == before[DELAY]
    assert said.startswith("a regression on ")
    assert said.endswith("measured torques gave a first guess of 3 parameters")


def test_without_torques_or_linear_parameters_nothing_is_regressed() -> None:
    blind = measured(("state", "velocity"))
    assert regress_torques(blind, blind.nominal)[1] == ""
    made = swings(PENDULUM, TRUTH, 1, seconds=0.5, kinds=("state", "torque"))
    only = asked(PENDULUM, [DELAY], made)
    assert regress_torques(only, only.nominal) == (pytest.approx(only.nominal), "")


def test_scattered_points_fill_the_limits_and_begin_with_the_nominal() -> None:
    problem = measured(("state",))
    points = scattered(problem, 16, stream(0, "scatter"))
    low, high = problem.span
    assert points.shape == (16, 4)
    np.testing.assert_array_equal(points[0], problem.nominal)
    assert ((points > low) & (points < high)).all()
    share = (points[1:] - low) / (high - low)
    assert (share.max(axis=0) - share.min(axis=0) > 0.6).all()
    np.testing.assert_array_equal(points, scattered(problem, 16, stream(0, "scatter")))
    assert scattered(problem, 1, stream(0, "scatter")).shape == (1, 4)


def test_the_point_that_explains_most_comes_first() -> None:
    problem = measured(("state", "velocity"))
    truth = np.array([float(b.info.to_scale({**TRUTH, DELAY: 1e-9}[b.id])) for b in problem.beliefs])
    order = best_of(problem, [problem.nominal, truth, problem.span[1]])
    assert order[0] == 1
    assert order[-1] == 2


def test_misfit_counts_what_diverged_as_far_off_and_looks_at_some_windows_only() -> None:
    problem = measured(("state",))
    shooting = problem.shooting(0.15)
    windows = spread_windows(shooting, 5)
    assert len(windows) == 5
    assert windows[0] == 0
    assert windows[-1] == shooting.windows - 1
    gap = shooting.roll([Variant(problem.values(problem.nominal), *shooting.starts)], windows).gap
    lost = np.full_like(gap, np.nan)
    sd = shooting.noise[0]
    assert misfit(shooting, lost, sd, windows)[0] > misfit(shooting, gap, sd, windows)[0]
    assert np.isfinite(misfit(shooting, gap, sd, windows)).all()
    assert len(spread_windows(shooting, 10**6)) == shooting.windows
