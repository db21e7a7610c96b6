"""Failures get their labels by swapping: planted single faults come back, and what cannot be told is undecided."""

from __future__ import annotations

import pytest

from twinproof.evaluate.attribution import (
    FACTORS,
    Factor,
    attribute,
    confusion,
    decide,
    labelled,
    shapley,
)
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.failure import Failure
from twinproof.nouns.randomness import stream
from twinproof.nouns.trial import Trial

BY_NAME = {factor.name: factor for factor in FACTORS}


class Bench:
    """A trial fails while a planted fault is in it; luck turns a share of the outcomes round."""

    def __init__(self, faults: dict[int, set[str]], luck: float = 0.0) -> None:
        self.faults, self.luck = faults, luck

    def __call__(self, swapped: frozenset[str], seed: int, repeat: int) -> bool:
        taken = swapped | {narrow for name in swapped for narrow in BY_NAME[name].includes}
        good = not (self.faults.get(seed, set()) - taken)
        rng = stream(seed, "luck", str(repeat), *sorted(swapped))
        return good if rng.uniform() >= self.luck else not good


def test_planted_single_faults_get_their_labels():
    faults = {seed: {FACTORS[seed % len(FACTORS)].name} for seed in range(40)}
    found = attribute(Bench(faults), range(50))
    assert set(found.labels) == set(range(40))  # ten seeds succeed and have none
    planted = [FACTORS[seed % len(FACTORS)].failure for seed in range(40)]
    table = confusion(planted, [found.labels[seed] for seed in range(40)])
    assert table.right is not None
    assert (table.right.value, table.decided.value) == (1, 1)
    assert found.success.value == 0.2
    geometry = found.effects[0]
    assert geometry.change.value == pytest.approx(0.2)  # its own, and values outside their range, which it takes along


def test_with_luck_repeats_keep_labels_right_and_leave_more_undecided():
    faults = {seed: {FACTORS[seed % len(FACTORS)].name} for seed in range(32)}
    found = attribute(Bench(faults, luck=0.12), range(32), repeats=8)
    planted = [BY_NAME[next(iter(faults[seed]))].failure for seed in found.labels]
    table = confusion(planted, list(found.labels.values()))
    assert table.right is not None
    assert table.right.value > 0.85
    assert table.decided.value > 0.6


def test_two_faults_at_once_and_faults_beyond_all_factors_are_undecided():
    found = attribute(Bench({0: {"geometry", "policy"}, 1: {"weather"}}), [0, 1])
    assert set(found.labels.values()) == {Failure.UNDECIDED}
    assert found.reasons[0] == "no single swap mends it"


def test_the_narrower_of_two_that_mend_is_the_cause_and_unlike_ones_are_undecided():
    assert decide([BY_NAME["perception"], BY_NAME["appearance"]]) == (
        Failure.PERCEPTION,
        "mended by swapping appearance",
    )
    assert decide([BY_NAME["physics"], BY_NAME["contact"]])[0] is Failure.CONTACT
    assert decide([BY_NAME["policy"], BY_NAME["geometry"]]) == (
        Failure.UNDECIDED,
        "mended by any of policy, geometry",
    )


def test_effects_of_factors_cover_what_was_planted_and_spare_the_innocent():
    """20 panels of 40 seeds; geometry is at fault in 30 %: of 20 intervals at 90 %, 15 or more cover."""
    covered = blamed = 0
    for panel in range(20):
        seeds = range(1000 * panel, 1000 * panel + 40)
        rng = stream(panel, "planted")
        faults = {seed: {"geometry"} for seed in seeds if rng.uniform() < 0.3}
        found = attribute(Bench(faults), seeds, FACTORS[:3], level=0.9)
        covered += found.effects[0].change.low <= 0.3 <= found.effects[0].change.high
        blamed += any(effect.p_value < 0.05 for effect in found.effects[1:])
    assert covered >= 15
    assert blamed == 0


def test_shares_add_up_and_faults_that_work_together_share_alike():
    bench = Bench({seed: {"geometry", "policy"} if seed % 2 else {"contact"} for seed in range(20)})
    factors = [BY_NAME[name] for name in ("geometry", "policy", "contact", "appearance")]
    found = shapley(bench, range(20), factors, stream(0, "shares"))
    assert found.whole == 1
    assert {name: share.value for name, share in found.by_factor.items()} == pytest.approx(
        {"geometry": 0.25, "policy": 0.25, "contact": 0.5, "appearance": 0.0}
    )
    assert found.by_factor["contact"].low < 0.5 < found.by_factor["contact"].high


def test_labels_go_onto_the_trials():
    found = attribute(Bench({1: {"geometry"}}), [1, 2])
    trials = [
        Trial("p", "c", "real", seed, success=ok, failure=None if ok else Failure.UNDECIDED)
        for seed, ok in ((1, False), (2, True), (9, False))
    ]
    made = labelled(trials, found)
    assert [trial.failure for trial in made] == [Failure.RECONSTRUCTION, None, Failure.UNDECIDED]
    assert made[0].note == "mended by swapping geometry"


def test_nothing_decided_has_no_share_of_right_ones():
    assert confusion([Failure.POLICY], [Failure.UNDECIDED]).right is None


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: attribute(Bench({}), [1, 1]), "2 seeds with 1 repeats"),
        (lambda: attribute(Bench({}), [1], []), "factors are none"),
        (lambda: shapley(Bench({}), [1], FACTORS[:2], stream(0)), "2 factors on 1 seeds"),
        (
            lambda: shapley(Bench({}), [1, 2], [Factor(str(k), Failure.POLICY) for k in range(9)], stream(0)),
            "9 factors",
        ),
        (lambda: confusion([], []), "0 planted and 0 assigned"),
    ],
)
def test_what_cannot_be_attributed_is_refused(call, said):
    with pytest.raises(ConfigError, match=said):
        call()
