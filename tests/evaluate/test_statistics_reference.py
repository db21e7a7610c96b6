"""Our statistics against statsmodels, an implementation that is not ours, over many counts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from twinproof.evaluate.statistics import clopper_pearson, mean_interval, trials_needed, wilson
from twinproof.evaluate.statistics_agreement import sim_bias
from twinproof.evaluate.statistics_many import compact_letters, holm
from twinproof.evaluate.statistics_paired import mcnemar
from twinproof.nouns.randomness import stream

WHY = "statsmodels is the reference of these tests: install the extra `dev`"
proportion = pytest.importorskip("statsmodels.stats.proportion", reason=WHY)
contingency = pytest.importorskip("statsmodels.stats.contingency_tables", reason=WHY)
multitest = pytest.importorskip("statsmodels.stats.multitest", reason=WHY)
power = pytest.importorskip("statsmodels.stats.power", reason=WHY)
weightstats = pytest.importorskip("statsmodels.stats.weightstats", reason=WHY)


@pytest.mark.parametrize(("ours", "method"), [(wilson, "wilson"), (clopper_pearson, "beta")])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_intervals_of_a_success_rate(ours, method, level):
    for n in (1, 2, 7, 20, 133):
        for k in sorted({0, 1, n // 3, n - 1, n}):
            found = ours(k, n, level)
            low, high = proportion.proportion_confint(k, n, 1 - level, method)
            assert (found.low, found.high) == pytest.approx((low, high), abs=1e-9), (k, n)


def test_mcnemars_exact_test():
    for both, one, two, neither in itertools.product((0, 5), (0, 1, 4, 13), (0, 2, 9), (0, 8)):
        table = [[both, one], [two, neither]]
        if np.sum(table) == 0:
            continue
        first = np.repeat([True, True, False, False], [both, one, two, neither])
        second = np.repeat([True, False, True, False], [both, one, two, neither])
        expected = contingency.mcnemar(table, exact=True).pvalue if one + two else 1.0
        assert mcnemar(first, second).p_value == pytest.approx(expected, abs=1e-12), table


def test_holms_correction():
    rng = stream(0, "holm")
    for count in (1, 2, 6, 40):
        p = rng.uniform(size=count) ** 3
        np.testing.assert_allclose(holm(p), multitest.multipletests(p, method="holm")[1], rtol=1e-12)


def test_newcombes_interval_of_a_difference():
    for (k, n), (j, m) in itertools.product([(48, 80), (0, 10), (9, 10), (29, 29)], [(56, 70), (10, 10), (1, 12)]):
        low, high = proportion.confint_proportions_2indep(j, m, k, n, method="newcomb", compare="diff", alpha=0.05)
        found = sim_bias([(k, n)], [(j, m)])
        assert (found.low, found.high) == pytest.approx((100 * low, 100 * high), abs=1e-6), (k, n, j, m)


def test_students_interval_of_a_mean():
    values = stream(1, "means").gamma(2.0, size=9)
    low, high = weightstats.DescrStatsW(values).tconfint_mean(0.1)
    found = mean_interval(values, 0.9)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-12)


@pytest.mark.parametrize(("worse", "better"), [(0.6, 0.9), (0.6, 0.8), (0.6, 0.7), (0.05, 0.2)])
def test_trials_that_tell_two_rates_apart(worse, better):
    """So many trials reach the power, by statsmodels' unpooled test, and one fewer do not."""
    rate = worse * (1 - worse) + better * (1 - better)
    effect = (better - worse) / np.sqrt(rate / 2)
    needed = power.NormalIndPower().solve_power(effect, alpha=0.05, power=0.8, alternative="larger")
    assert trials_needed(worse, better) == np.ceil(needed - 1e-6)
    for count, reached in ((trials_needed(worse, better), True), (trials_needed(worse, better) - 1, False)):
        got = power.NormalIndPower().power(effect, count, 0.05, alternative="larger")
        assert (got >= 0.8 - 1e-9) == reached


def test_letters_are_those_of_the_pairs_that_a_family_of_tests_tells_apart():
    """Groups of policies whose differences statsmodels refuses with Holm's correction share no letter; others do."""
    names, counts = ["a", "b", "c", "d", "e"], np.array([39, 37, 30, 18, 17])
    pairs = list(itertools.combinations(range(5), 2))
    p = [proportion.proportions_ztest(counts[list(pair)], [40, 40])[1] for pair in pairs]
    refused = multitest.multipletests(p, 0.05, "holm")[0]
    np.testing.assert_array_equal(holm(p) <= 0.05, refused)
    apart = [(names[i], names[j]) for (i, j), no in zip(pairs, refused, strict=True) if no]
    letters = compact_letters(names, apart)
    for (i, j), no in zip(pairs, refused, strict=True):
        assert bool(set(letters[names[i]]) & set(letters[names[j]])) != no
