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
    share_interval,
    trials_needed,
    wilson,
)
from twinproof.evaluate.statistics_agreement import agreement, mmrv, noise_ceiling, pearson, sim_bias
from twinproof.evaluate.statistics_many import compact_letters, holm
from twinproof.evaluate.statistics_paired import mcnemar, paired_bootstrap
from twinproof.evaluate.statistics_powered import correlation, powered, saved_share
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


# ---- agreement of policies


def test_mmrv_follows_simpler_and_its_arguments_are_not_interchangeable():
    real, sim = np.array([0.9, 0.7, 0.4, 0.2]), np.array([0.8, 0.5, 0.6, 0.6])
    wrong = [
        [abs(a - b) * ((s > t) != (a > b)) for b, t in zip(real, sim, strict=True)]
        for a, s in zip(real, sim, strict=True)
    ]
    by_hand = np.mean([max(row) for row in wrong])
    assert mmrv(real=real, sim=sim) == pytest.approx(by_hand)
    assert mmrv(real=sim, sim=real) != pytest.approx(by_hand)
    assert mmrv(real=real, sim=real) == 0
    assert pearson(real=real, sim=sim) == pytest.approx(np.corrcoef(real, sim)[0, 1])
    assert np.isnan(pearson(real=real, sim=np.full(4, 0.5)))


def test_a_perfect_twin_shows_less_than_one_and_how_much_less_is_told():
    found = noise_ceiling([20] * 4, [20] * 4, stream(3, "ceiling"))
    assert found.pearson[0] == pytest.approx(0.22, abs=0.08)
    assert found.pearson[2] == pytest.approx(0.99, abs=0.01)
    assert found.mmrv == pytest.approx((0.038, 0.2), abs=0.02)
    many = noise_ceiling([200] * 8, [200] * 8, stream(3, "ceiling"))
    assert many.pearson[0] == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize("spread", [0.0, 0.15])
def test_intervals_of_r_and_mmrv_cover_the_true_ones(spread):
    """30 panels of 6 policies × 40 trials at 90 %; the binomial allows 23."""
    r_inside = m_inside = 0
    for k in range(30):
        rng = stream(k, "panel")
        p = rng.uniform(0.1, 0.9, 6)
        q = np.clip(p + spread * rng.normal(size=6), 0.02, 0.98)
        real, sim = ([(int(x), 40) for x in rng.binomial(40, rates)] for rates in (p, q))
        found = agreement(real, sim, rng, 0.9)
        assert found.pearson is not None
        r_inside += found.pearson.low <= pearson(real=p, sim=q) + 1e-12 <= found.pearson.high + 1e-9
        m_inside += found.mmrv.low <= mmrv(real=p, sim=q) <= found.mmrv.high
    assert min(r_inside, m_inside) >= 23


def test_without_variation_there_is_no_r():
    assert agreement([(5, 10)] * 3, [(4, 10), (5, 10), (6, 10)], stream(0)).pearson is None


def test_the_bias_of_one_policy_is_newcombes_published_interval():
    found = sim_bias([(48, 80)], [(56, 70)])
    assert (found.value, found.low, found.high) == pytest.approx((20.0, 5.24, 33.39), abs=5e-3)


def test_the_interval_of_the_bias_covers():
    """500 panels of 3 policies at 90 %."""
    rng, p, q, covered = stream(4, "bias"), np.array([0.9, 0.5, 0.2]), np.array([0.95, 0.6, 0.2]), 0
    for _ in range(500):
        real, sim = ([(int(x), 25) for x in rng.binomial(25, rates)] for rates in (p, q))
        found = sim_bias(real, sim, 0.9)
        covered += found.low <= 5.0 <= found.high
    assert 435 <= covered <= 480


# ---- sequences


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.92])
def test_a_confidence_sequence_holds_at_all_times_at_once(rate):
    """100 runs of 200 trials at 80 %: at most 20 + 12 may leave out the truth at any time."""
    left_out = 0
    for k in range(100):
        found = confidence_sequence(stream(k, "run").binomial(1, rate, 200), 0.8)
        left_out += bool(((found.low > rate) | (found.high < rate)).any())
    assert left_out <= 32


def test_a_confidence_sequence_narrows_and_never_widens():
    found = confidence_sequence(stream(0, "run").binomial(1, 0.7, 500))
    width = found.high - found.low
    assert (np.diff(width) <= 1e-12).all()
    assert width[-1] < 0.2
    assert found.low[-1] < 0.7 < found.high[-1]


def test_a_sequential_comparison_stops_early_where_it_can_and_rarely_errs_where_there_is_nothing():
    verdicts, used = [], []
    for k in range(60):
        rng = stream(k, "compare")
        found = sequential_comparison(rng.binomial(1, 0.3, 200), rng.binomial(1, 0.8, 200), 200)
        verdicts.append(found.verdict)
        used.append(found.pairs)
    assert verdicts.count("second") >= 58
    assert np.median(used) < 60
    wrong = 0
    for k in range(100):
        rng = stream(k, "equal")
        same = sequential_comparison(rng.binomial(1, 0.6, 100), rng.binomial(1, 0.6, 100), 100)
        wrong += same.verdict != "no difference found"
    assert wrong <= 10
    assert sequential_comparison([1, 0], [1, 1], 50).verdict == "continue"


# ---- simulated trials help real ones


def scenes(rng: np.random.Generator, count: int, rho: float) -> tuple[np.ndarray, np.ndarray]:
    """Outcomes in reality (70 %) and in the twin (80 %) of scenes; `rho` is the correlation of what decides them."""
    hard = rng.normal(size=count)
    one, other = (rho**0.5 * hard + (1 - rho) ** 0.5 * rng.normal(size=count) for _ in range(2))
    return (one < 0.5244).astype(float), (other < 0.8416).astype(float)


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_a_prediction_powered_estimate_covers_and_a_good_twin_narrows_it(rho):
    """300 experiments with 50 real and 500 simulated trials at 90 %."""
    covered = correlated = 0
    width, alone = [], []
    truth = np.corrcoef(*scenes(stream(9, "large"), 400_000, rho))[0, 1]
    for k in range(300):
        rng = stream(k, "powered")
        real, same = scenes(rng, 50, rho)
        _, other = scenes(rng, 500, rho)
        found = powered(real, same, other, 0.9)
        covered += found.estimate.low <= 0.7 <= found.estimate.high
        correlated += found.correlation.low <= truth <= found.correlation.high
        width.append(found.estimate.high - found.estimate.low)
        alone.append(found.real_alone.high - found.real_alone.low)
    assert 255 <= covered <= 285
    assert 250 <= correlated <= 290
    saved = 1 - (np.mean(width) / np.mean(alone)) ** 2
    assert saved == pytest.approx(saved_share(truth, 50, 500), abs=0.07)


@pytest.mark.parametrize(("trials", "rate"), [(12, 0.7), (20, 0.93)])
def test_a_prediction_powered_estimate_covers_with_few_real_trials_too(trials, rate):
    """400 experiments at 90 %; the binomial allows 345."""
    covered = 0
    truth = np.mean(stream(0, "truth").uniform(size=200_000) + 0.1 * stream(1, "truth").normal(size=200_000) < rate)
    for k in range(400):
        rng = stream(k, "few")
        hard, other = rng.uniform(size=trials), rng.uniform(size=300)
        real = (hard + 0.1 * rng.normal(size=trials) < rate).astype(float)
        found = powered(real, (hard < 0.8).astype(float), (other < 0.8).astype(float), 0.9)
        covered += found.estimate.low <= truth <= found.estimate.high
    assert covered >= 345


def test_when_all_real_trials_agree_the_estimate_is_still_not_certain():
    found = powered(np.ones(12), np.ones(12), np.array([1.0, 0.0] * 50))
    assert found.estimate.low < 0.8
    assert found.real_alone.low < 0.8
    with pytest.raises(TraceError, match="share of 2 with"):
        share_interval(2, 0.1, 5)


def test_a_twin_that_never_varies_gives_no_weight():
    real = np.array([0.0, 1.0] * 6)
    found = powered(real, np.ones(12), np.ones(20))
    assert found.weight == 0
    assert found.estimate.value == 0.5
    assert (found.correlation.low, found.correlation.high) == (-1, 1)
    assert correlation(np.ones(3), np.ones(3)).value == 0


def test_the_share_of_trials_saved_is_that_of_the_formula():
    assert [saved_share(r, 50, 1000) for r in (0.4, 0.5, 0.9)] == pytest.approx([0.15, 0.24, 0.77], abs=5e-3)


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
