"""Rates, differences, agreement, sequences: against references and published numbers, and by their coverage.

A coverage test draws experiments with a known truth; the bounds leave room for the binomial scatter of their number.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import binomtest

from twinproof.evaluate.statistics import (
    at_least,
    beta_posterior,
    clopper_pearson,
    mean_interval,
    trials_needed,
    wilson,
)
from twinproof.evaluate.statistics_agreement import agreement, noise_ceiling, sim_bias
from twinproof.evaluate.statistics_many import compact_letters, holm
from twinproof.evaluate.statistics_paired import mcnemar, paired_bootstrap
from twinproof.evaluate.statistics_powered import powered, saved_share
from twinproof.evaluate.statistics_sequential import confidence_sequence, sequential_comparison
from twinproof.nouns.errors import ConfigError, TraceError
from twinproof.nouns.randomness import stream

# ---- one rate


@pytest.mark.parametrize(("k", "n"), [(0, 7), (7, 7), (1, 9), (16, 20), (81, 263), (15, 148)])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_intervals_of_a_rate_are_those_of_scipy(k, n, level):
    for ours, theirs in ((clopper_pearson, "exact"), (wilson, "wilson")):
        want = binomtest(k, n).proportion_ci(level, theirs)
        found = ours(k, n, level)
        assert (found.low, found.high) == pytest.approx((want.low, want.high), abs=1e-12)
        assert found.value == k / n


def test_intervals_of_a_rate_are_those_that_newcombe_published():
    assert (wilson(81, 263).low, wilson(81, 263).high) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert (clopper_pearson(15, 148).low, clopper_pearson(15, 148).high) == pytest.approx((0.0578, 0.1617), abs=5e-5)


def test_all_successes_bound_the_rate_from_below():
    assert [at_least(n, n) for n in (20, 50, 200)] == pytest.approx([0.861, 0.942, 0.985], abs=5e-4)


def test_the_beta_posterior_is_near_wilson_and_without_trials_the_prior():
    for n in (10, 50, 200):
        found, score = beta_posterior(int(0.8 * n), n), wilson(int(0.8 * n), n)
        assert (found.low, found.high) == pytest.approx((score.low, score.high), abs=0.02)
    assert beta_posterior(0, 0).value == 0.5


@pytest.mark.parametrize("rate", [0.03, 0.3, 0.8])
@pytest.mark.parametrize("trials", [10, 40])
def test_the_exact_interval_covers_at_least_its_level_and_wilson_about_it(rate, trials):
    weight = np.array([binom(k, trials, rate) for k in range(trials + 1)])  # all outcomes: no sampling needed
    for kind, least in ((clopper_pearson, 0.95), (wilson, 0.89)):
        inside = [kind(k, trials).low <= rate <= kind(k, trials).high for k in range(trials + 1)]
        assert weight @ inside >= least


def binom(k: int, n: int, p: float) -> float:
    from math import comb

    return comb(n, k) * p**k * (1 - p) ** (n - k)


def test_the_interval_of_a_mean_covers():
    """800 means of 6 skewed values at 90 %: 680 to 800 are within reach of Student's interval for such values."""
    rng = stream(0, "means")
    covered = 0
    for _ in range(800):
        found = mean_interval(rng.gamma(4.0, 0.25, 6), 0.9)
        covered += found.low <= 1.0 <= found.high
    assert 690 <= covered <= 760


def test_trials_that_tell_two_policies_apart():
    assert [trials_needed(0.6, better) for better in (0.9, 0.8, 0.7, 0.65)] == [23, 62, 279, 1157]
    assert trials_needed(0.6, 0.8, correlation=0.5) == 31


def test_trials_needed_keep_their_promise():
    rng, n = stream(1, "power"), trials_needed(0.6, 0.8)
    a, b = rng.binomial(n, 0.6, 4000) / n, rng.binomial(n, 0.8, 4000) / n
    z = (b - a) / np.sqrt((a * (1 - a) + b * (1 - b)) / n)
    assert np.mean(z > 1.645) == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: wilson(3, 2), TraceError, "3 successes of 2 trials"),
        (lambda: clopper_pearson(0, 0), TraceError, "0 successes of 0 trials"),
        (lambda: wilson(1, 2, 1.0), ConfigError, "level 1.0 is no share"),
        (lambda: at_least(1, 2, 0.4), ConfigError, "level 0.4"),
        (lambda: beta_posterior(1, 2, prior=(0, 1)), ConfigError, "Beta prior is"),
        (lambda: mean_interval([1.0]), TraceError, "two finite values"),
        (lambda: trials_needed(0.8, 0.6), ConfigError, "cannot be told apart"),
        (lambda: trials_needed(0.6, 0.8, power=1), ConfigError, "outside its range"),
        (lambda: mcnemar([True], [True, False]), TraceError, "as many of the first"),
        (lambda: paired_bootstrap([0.0, np.nan], [0.0, 1.0], stream(0)), TraceError, "not finite"),
        (lambda: paired_bootstrap([0.0], [1.0], stream(0)), TraceError, "one pair has no scatter"),
        (lambda: agreement([(1, 2)], [(1, 2)], stream(0)), TraceError, "the same two or more"),
        (lambda: agreement([(3, 2), (1, 2)], [(1, 2), (1, 2)], stream(0)), TraceError, "cannot be so"),
        (lambda: noise_ceiling([5], [5], stream(0)), TraceError, "a ceiling needs"),
        (lambda: sim_bias([(1, 2)], []), TraceError, "1 real and 0 simulated"),
        (lambda: confidence_sequence([0.5, 2.0]), TraceError, "between 0 and 1"),
        (lambda: sequential_comparison([1], [1], 0), ConfigError, "at most 0 pairs"),
        (lambda: sequential_comparison([1, 1], [1], 5), TraceError, "as many of both"),
        (lambda: powered([1] * 5, [1] * 5, [1] * 5), TraceError, "at least 10"),
        (lambda: powered([np.nan] * 10, [1] * 10, [1] * 5), TraceError, "outside 0 to 1, or is not known"),
        (lambda: saved_share(2, 1, 1), TraceError, "correlation of 2"),
        (lambda: holm([0.5, 1.5]), TraceError, "p-values lie"),
        (lambda: compact_letters(["a"], [("a", "b")]), TraceError, "b is new"),
    ],
)
def test_numbers_that_cannot_be_are_refused(call, error, said):
    with pytest.raises(error, match=said):
        call()


# ---- pairs


def test_mcnemar_is_the_exact_binomial_test_of_the_pairs_that_differ():
    first = np.repeat([True, True, False, False], [20, 3, 12, 5])
    second = np.repeat([True, False, True, False], [20, 3, 12, 5])
    found = mcnemar(first, second)
    assert (found.both, found.only_first, found.only_second, found.neither) == (20, 3, 12, 5)
    assert found.p_value == pytest.approx(binomtest(3, 15).pvalue)
    assert found.difference.value == pytest.approx(9 / 40)
    assert mcnemar(first, first).p_value == 1


def test_intervals_of_paired_differences_cover():
    """600 experiments of 30 pairs at 90 %: both intervals, and McNemar's test under no difference."""
    rng, bayes, boot, alarms = stream(2, "pairs"), 0, 0, 0
    for _ in range(600):
        scene = rng.uniform(size=30)  # a hard scene is hard for both
        first = scene + 0.15 * rng.normal(size=30) < 0.5
        second = scene + 0.15 * rng.normal(size=30) < 0.65
        truth = 0.15
        found = mcnemar(first, second, 0.9).difference
        bayes += found.low <= truth <= found.high
        drawn = paired_bootstrap(first, second, rng, 0.9, 400)
        boot += drawn.low <= truth <= drawn.high
        alarms += mcnemar(first, scene + 0.15 * rng.normal(size=30) < 0.5).p_value < 0.05
    assert 522 <= bayes <= 580
    assert 515 <= boot <= 575
    assert alarms <= 30


# ---- many


def test_holm_is_the_published_example():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_keeps_the_error_of_the_family():
    rng = stream(5, "holm")
    wrong = sum((holm(rng.uniform(size=8)) < 0.1).any() for _ in range(1000))
    assert wrong <= 130


@pytest.mark.parametrize("seed", range(8))
def test_two_policies_share_a_letter_exactly_if_they_were_not_told_apart(seed):
    names = [f"p{k}" for k in range(6)]
    pairs = list(itertools.combinations(names, 2))
    chosen = stream(seed, "letters").uniform(size=len(pairs)) < 0.5
    different = [pair for pair, keep in zip(pairs, chosen, strict=True) if keep]
    letters = compact_letters(names, different)
    for one, other in pairs:
        assert bool(set(letters[one]) & set(letters[other])) == ((one, other) not in different)


def test_letters_begin_with_the_best():
    assert compact_letters(["x", "y", "z"], [("x", "z")]) == {"x": "a", "y": "ab", "z": "b"}
    assert compact_letters(["x", "y"], []) == {"x": "a", "y": "a"}
