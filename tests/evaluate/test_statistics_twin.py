"""Twin and reality: agreement over policies, sequences, simulated trials that help real ones; coverage."""

from __future__ import annotations

import numpy as np
import pytest

from twinproof.evaluate.statistics import share_interval
from twinproof.evaluate.statistics_agreement import agreement, mmrv, noise_ceiling, pearson, sim_bias
from twinproof.evaluate.statistics_powered import correlation, powered, saved_share
from twinproof.evaluate.statistics_sequential import confidence_sequence, sequential_comparison
from twinproof.nouns.errors import TraceError
from twinproof.nouns.randomness import stream

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
