"""Families of objects: the range of a few measured ones, and a hierarchical posterior that covers a new one."""

from __future__ import annotations

import numpy as np
import pytest

from twinproof.identify.population import Family, family, measured_range
from twinproof.nouns.errors import PosteriorError
from twinproof.nouns.randomness import stream

LENGTHS = {"bar_1": 9.8, "bar_2": 10.1, "bar_3": 10.0, "bar_4": 9.9}


def test_four_lengths_and_a_margin_give_the_range_of_a_new_one() -> None:
    assert measured_range(LENGTHS, 0.3, holdout=("bar_5",)) == (pytest.approx(9.5), pytest.approx(10.4))


def test_an_object_of_the_holdout_is_refused_not_skipped() -> None:
    with pytest.raises(PosteriorError, match="bar_5 is an object of the holdout: its value may not shape a range"):
        measured_range({**LENGTHS, "bar_5": 10.9}, 0.3, holdout=("bar_5", "bar_6"))


@pytest.mark.parametrize(
    ("values", "margin"), [({}, 0.3), ({"a": np.nan}, 0.3), ({"a": 1.0}, -0.1), ({"a": 1.0}, np.inf)]
)
def test_a_range_of_nothing_is_an_error(values: dict[str, float], margin: float) -> None:
    with pytest.raises(PosteriorError, match="a range needs finite values and a margin of zero or more"):
        measured_range(values, margin)


def made(
    members: int, tau: float, noise: float, seed: int, count: int = 400, width: float = 1.0
) -> tuple[Family, np.ndarray, float]:
    """The posterior of a family whose truth is drawn, its members' true values, and a new member's."""
    rng = stream(seed, "family")
    centre = rng.uniform(-0.5, 0.5)
    true = centre + tau * rng.normal(size=members)
    estimate = (true + noise * rng.normal(size=members))[:, None]
    covariance = np.full((members, 1, 1), noise**2)
    span = np.array([-2.0]) * width, np.array([2.0]) * width
    found = family(estimate, covariance, np.array([width]), span, count, stream(seed, "draws"))
    return found, true, float(centre + tau * rng.normal())


def test_centre_spread_and_members_of_a_large_family_are_found() -> None:
    found, true, _ = made(40, 0.2, 0.02, seed=1)
    assert found.centre.mean() == pytest.approx(true.mean(), abs=0.03)
    assert found.spread.mean() == pytest.approx(true.std(), rel=0.2)
    np.testing.assert_allclose(found.members.mean(axis=0)[:, 0], true, atol=0.06)
    assert found.new.std() == pytest.approx(np.hypot(found.spread.mean(), found.centre.std()), rel=0.15)


def test_members_that_were_measured_badly_are_drawn_to_the_others() -> None:
    estimate = np.array([0.0, 0.02, -0.02, 0.01, 0.8])[:, None]
    covariance = np.array([0.01, 0.01, 0.01, 0.01, 1.0])[:, None, None] ** 2
    span = np.array([-3.0]), np.array([3.0])
    found = family(estimate, covariance, np.array([1.0]), span, 600, stream(0, "draws"))
    assert abs(found.members[:, 4].mean()) < 0.3
    np.testing.assert_allclose(found.members[:, :4].mean(axis=0), estimate[:4], atol=0.01)
    assert found.members[:, 4].std() < 0.5


def test_two_parameters_that_hang_together_in_the_data_stay_so_for_each_member() -> None:
    rng = stream(5, "family")
    true = rng.normal(size=(6, 2)) * 0.3
    covariance = np.tile(np.array([[0.04, 0.0399], [0.0399, 0.04]]), (6, 1, 1))
    found = family(true, covariance, np.ones(2), (np.full(2, -3.0), np.full(2, 3.0)), 500, stream(0, "draws"))
    correlation = np.corrcoef(found.members[:, 0].T)[0, 1]
    assert correlation > 0.8
    assert found.new.shape == (500, 2)


def test_a_new_member_lies_in_the_predictive_interval_about_nine_times_in_ten() -> None:
    inside, own = [], []
    for seed in range(60):
        found, true, new = made(4, 0.25, 0.05, seed=1000 + seed, count=120)
        low, high = np.quantile(found.new, [0.05, 0.95])
        inside.append(low <= new <= high)
        low, high = np.quantile(found.members[:, 0, 0], [0.05, 0.95])
        own.append(low <= true[0] <= high)
    assert 0.8 <= np.mean(inside) <= 0.98  # 60 families: the sd of a rate of 0.9 is 0.04
    assert 0.8 <= np.mean(own) <= 0.98


def test_one_member_alone_gives_a_new_one_that_is_wide() -> None:
    found, true, _ = made(1, 0.2, 0.01, seed=3)
    assert found.members.shape == (400, 1, 1)
    assert found.members.mean() == pytest.approx(true[0], abs=0.02)
    assert found.members.std() < 0.03
    assert found.new.std() > 0.2  # as wide as families are thought to be
    assert np.isfinite(found.spread).all()


def test_equal_members_leave_a_narrow_new_one() -> None:
    estimate = np.full((10, 1), 0.3)
    covariance = np.full((10, 1, 1), 0.01**2)
    found = family(estimate, covariance, np.ones(1), (np.array([-2.0]), np.array([2.0])), 500, stream(0, "draws"))
    assert found.new.std() < 0.03
    assert found.centre.mean() == pytest.approx(0.3, abs=0.01)


def test_all_draws_stay_inside_the_limits() -> None:
    estimate = np.array([[0.02], [0.05], [0.01]])
    covariance = np.full((3, 1, 1), 0.1**2)
    found = family(estimate, covariance, np.ones(1), (np.array([0.0]), np.array([1.0])), 500, stream(0, "draws"))
    for draws in (found.centre, found.members, found.new):
        assert draws.min() >= 0.0
        assert draws.max() <= 1.0
    assert len(np.unique(found.members)) > 0.9 * found.members.size  # cut off, not piled up at the limit
