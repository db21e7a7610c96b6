"""Coverage, interval scores and ranks: closed forms, known answers, and inferences that are too sure or not enough."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from twinproof.identify.calibration_check import (
    Coverage,
    calibrate,
    central,
    covered,
    crps,
    even,
    interval_score,
    rank,
)
from twinproof.nouns.errors import PosteriorError
from twinproof.nouns.randomness import stream


def test_the_binomial_interval_is_the_exact_one_of_the_tables():
    low, high = Coverage(180, 200).interval
    assert (low, high) == (pytest.approx(0.8498, abs=2e-4), pytest.approx(0.9378, abs=2e-4))
    assert Coverage(0, 10).interval == (0.0, pytest.approx(1 - 0.025 ** (1 / 10)))
    assert Coverage(10, 10).interval == (pytest.approx(0.025 ** (1 / 10)), 1.0)
    assert str(Coverage(180, 200)) == "90.0 % (85.0–93.8, n = 200)"


def test_more_inside_than_there_are_is_refused():
    with pytest.raises(PosteriorError, match="coverage of 3 among 2 cannot be"):
        Coverage(3, 2)
    with pytest.raises(PosteriorError, match="Count at least one"):
        Coverage(0, 0)


def test_an_interval_pays_for_its_width_and_twenty_times_for_what_it_misses():
    low, high = np.array([0.0, 0.0, 0.0]), np.array([2.0, 2.0, 2.0])
    assert interval_score(low, high, np.array([1.0, 2.5, -1.0])) == pytest.approx([2.0, 2.0 + 20 * 0.5, 2.0 + 20 * 1.0])
    assert covered(low, high, np.array([1.0, 2.0, 2.1])).tolist() == [True, True, False]


def test_the_best_interval_of_a_bell_is_the_central_one():
    truth = stream(0, "scores").normal(size=40_000)
    mean = [float(np.mean(interval_score(np.array(-h), np.array(h), truth))) for h in (1.3, 1.645, 2.1)]
    assert np.argmin(mean) == 1


def test_crps_of_many_draws_of_a_bell_is_the_closed_form():
    draws = stream(1, "crps").normal(size=(20_000, 1))
    for truth in (0.0, 1.5):
        wanted = truth * (2 * norm.cdf(truth) - 1) + 2 * norm.pdf(truth) - 1 / np.sqrt(np.pi)
        assert crps(draws, np.array([truth]))[0] == pytest.approx(wanted, abs=0.01)


def test_weights_count_as_if_draws_were_repeated():
    rng = stream(2, "weights")
    draws = rng.normal(size=(50, 2))
    times = rng.integers(1, 5, 50)
    repeated, log_weights = np.repeat(draws, times, axis=0), np.log(times.astype(float))
    truth = np.array([0.3, -0.2])
    even_weights = np.zeros(len(repeated))
    assert crps(draws, truth, log_weights) == pytest.approx(crps(repeated, truth))
    assert rank(draws, truth, log_weights) == pytest.approx(rank(repeated, truth))
    assert central(draws, log_weights) == pytest.approx(central(repeated, even_weights))


def test_even_ranks_pass_and_crowded_ones_do_not():
    rng = stream(3, "ranks")
    test, p_value = even(rng.uniform(size=200))
    assert test == "chi-square"
    assert p_value > 0.01
    assert even(np.abs(rng.uniform(size=200) - rng.uniform(size=200)))[1] < 1e-4
    assert even(rng.uniform(size=20))[0] == "Kolmogorov–Smirnov"


@pytest.mark.parametrize(("claimed", "honest"), [(1.0, True), (0.5, False), (2.0, False)])
def test_calibration_tells_an_honest_posterior_from_one_that_claims_another_spread(claimed, honest):
    rng = stream(4, "calibrate")
    truths = rng.normal(size=(200, 1))

    def infer(k: int, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        seen = truth + rng.normal(size=1)  # prior and noise alike: the posterior is N(seen/2, 1/2)
        draws = seen / 2 + claimed * np.sqrt(0.5) * rng.normal(size=(300, 1))
        return draws, np.zeros(300)

    found = calibrate(("x",), truths, infer)
    p_value = found.diagnostics()["x"]["p_value"]
    assert (p_value > 1e-3) is honest
    low, high = found.coverage("x").interval
    assert (low <= 0.9 <= high) is honest
    assert found.overall.total == 200


def test_truths_that_fit_no_unknowns_are_refused():
    with pytest.raises(PosteriorError, match=r"truths of shape \(3, 2\) were given for 1 unknowns"):
        calibrate(("x",), np.zeros((3, 2)), lambda k, truth: (np.zeros((5, 1)), np.zeros(5)))
    found = calibrate(("x",), np.zeros((3, 1)), lambda k, truth: (np.zeros((5, 1)), np.zeros(5)))
    with pytest.raises(PosteriorError, match="has no unknown 'y'; it has x"):
        found.coverage("y")


def test_data_that_nothing_can_be_inferred_from_is_counted_and_not_ranked():
    draws = np.array([[0.1], [0.4], [0.8]])

    def infer(k: int, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        return None if k == 1 else (draws, np.zeros(3))

    found = calibrate(("x",), np.array([[0.2], [0.3], [0.9]]), infer)
    assert (found.failed, found.ranks[:, 0].tolist()) == (1, [pytest.approx(1 / 3), 1.0])
    with pytest.raises(PosteriorError, match="nothing could be inferred from any of 3 simulated data sets"):
        calibrate(("x",), np.zeros((3, 1)), lambda k, truth: None)
