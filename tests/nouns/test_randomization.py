"""The laws of Randomization."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.nouns.examples import DAMPING, FRICTION, MASS, draws, friction_range, mass_range, posterior, randomization
from twinproof.nouns.errors import RandomizationError
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.randomness import stream
from twinproof.nouns.source import Declared, Inferred
from twinproof.nouns.theta import ParameterInfo, Theta


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"high": 2.5}, "leaves the physical limits 0 to 2"),
        ({"low": 0.7}, "out of order"),
        ({"point": float("nan")}, "out of order"),
        ({"reason": " "}, "lacks 'reason'"),
        ({"check": ""}, "lacks 'check'"),
        ({"approximates": ""}, "lacks 'approximates'"),
    ],
)
def test_a_range_that_breaks_a_law_is_refused(change, words):
    with pytest.raises(RandomizationError, match=words):
        friction_range(**change)


def outside() -> np.ndarray:
    rows = draws()
    rows[3, 1] = 1.5
    return rows


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ranges": ()}, "each parameter has one range"),
        ({"ranges": (mass_range(), mass_range())}, "each parameter has one range"),
        ({"joint": (MASS.id, "x")}, "each needs a range and stands once"),
        ({"joint": (MASS.id,)}, "joint draws have shape"),
        ({"draws": np.zeros((0, 2))}, "need at least one row"),
        ({"draws": outside()}, r"joint draw 3 is 1.5, outside its range 0.3 to 0.9 \(1 of 400"),
        ({"draws": draws() * np.nan}, "joint draw 0 is nan"),
        ({"strength": -1}, "the strength is -1"),
    ],
)
def test_a_randomisation_that_breaks_a_law_is_refused(change, words):
    with pytest.raises(RandomizationError, match=words):
        randomization(**change)


def sample(thing: Randomization, count: int = 2000) -> dict[str, np.ndarray]:
    rng = stream(0, "sample")
    thetas = [thing.draw(rng) for _ in range(count)]
    return {entry.id: np.array([theta[entry.id] for theta in thetas]) for entry in thing.ranges}


def test_a_draw_is_a_theta_inside_the_ranges_with_correlation_kept():
    thing = randomization()
    found = sample(thing)
    for entry in thing.ranges:
        assert entry.low <= found[entry.id].min() <= found[entry.id].max() <= entry.high
    assert np.corrcoef(np.log(found[MASS.id]), found[FRICTION.id])[0, 1] == pytest.approx(0.6, abs=0.1)
    theta = thing.draw(stream(1, "one"))
    assert isinstance(theta, Theta)
    assert theta == thing.draw(stream(1, "one"))
    assert theta != thing.draw(stream(2, "one"))


def test_a_logarithmic_range_is_drawn_evenly_over_its_decades():
    found = sample(randomization())[DAMPING.id]
    assert np.mean(found < 1.0) == pytest.approx(0.5, abs=0.05)


def test_strength_zero_is_the_point_and_two_is_twice_as_wide():
    thing = randomization()
    point = thing.at(0)
    assert dict(point.draw(stream(0, "p"))) == pytest.approx({MASS.id: 0.2, FRICTION.id: 0.6, DAMPING.id: 1.0})
    wide = thing.at(2)
    assert wide.strength == 2
    assert (wide.range(FRICTION.id).low, wide.range(FRICTION.id).high) == pytest.approx((0.0, 1.2))
    assert wide.range(MASS.id).low == pytest.approx(0.05)  # log scale: twice the ratio
    assert sample(wide)[FRICTION.id].std() == pytest.approx(2 * sample(thing)[FRICTION.id].std(), rel=0.1)
    assert wide.at(0.5).range(FRICTION.id).high == pytest.approx(0.9)
    assert thing.at(1).hash != wide.hash
    with pytest.raises(RandomizationError, match="the strength -1 was asked for"):
        thing.at(-1)


def test_only_some_parameters_may_be_stretched():
    thing = randomization()
    part = thing.at(0, only={FRICTION.id})
    assert part.range(FRICTION.id).low == part.range(FRICTION.id).high == 0.6
    assert part.range(MASS.id) == thing.range(MASS.id)
    assert part.strength == 1
    assert set(sample(part)[FRICTION.id]) == {0.6}
    assert sample(part)[MASS.id].std() > 0


@given(st.floats(0, 50), st.floats(0.011, 9.9))
@settings(max_examples=30, deadline=None)
def test_no_strength_leaves_the_physical_limits(strength, point):
    entry = mass_range(low=0.0105, high=9.95, point=point).at(strength)
    assert MASS.low <= entry.low <= entry.point <= entry.high <= MASS.high


def test_draws_that_would_leave_the_limits_are_left_out_and_none_left_is_an_error():
    thing = randomization()
    wide = thing.at(14)
    assert 0 < len(wide.draws) < len(thing.draws)
    assert FRICTION.contains(wide.draws[:, 1]).all()
    single = Randomization((friction_range(),), {}, (FRICTION.id,), np.array([[0.8]]))
    with pytest.raises(RandomizationError, match="every joint draw leaves the physical limits"):
        single.at(20)


def test_a_range_covers_the_share_of_the_posterior_that_it_states():
    belief = posterior()
    low, high = belief.interval(FRICTION.id, 0.95)
    source = Inferred(belief.hash, share=0.95)
    honest = Randomization((friction_range(low=low, high=high, source=source),), {"posterior": belief.hash})
    assert 0.95 <= honest.covers(belief)[FRICTION.id] < 0.99
    honest.check_covers(belief)
    narrow = Randomization((friction_range(low=0.59, high=0.61, source=source),), {"posterior": belief.hash})
    with pytest.raises(
        RandomizationError, match=r"geom.cube.friction: the range 0.59 to 0.61 covers 0\.\d+ of the post"
    ):
        narrow.check_covers(belief)
    declared = Randomization((friction_range(low=0.59, high=0.61, source=Declared("measured cloth")),), {})
    declared.check_covers(belief)


def test_the_smallest_range_of_a_family_is_what_was_measured_and_a_margin():
    lengths_m = np.array([0.098, 0.101, 0.100, 0.099])
    length = ParameterInfo("geom.cube.size", "m", 0.01, 1.0)
    entry = friction_range(
        parameter=length,
        low=float(lengths_m.min() - 0.003),
        high=float(lengths_m.max() + 0.003),
        point=float(lengths_m.mean()),
        source=Declared("margin of 3 mm for a cube that was never seen"),
        gap="geometry",
    )
    assert (entry.low, entry.high) == pytest.approx((0.095, 0.104))


def test_asking_for_what_is_not_randomised_names_what_is():
    with pytest.raises(RandomizationError, match="'x' is not randomised; randomised are body.cube.mass"):
        randomization().range("x")
    assert randomization().point() == Theta({MASS.id: 0.2, FRICTION.id: 0.6, DAMPING.id: 1.0})
