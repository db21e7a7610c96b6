"""Ranges against validation: right ones cover, wrong ones are named, widened on one half and judged on the other."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.randomize.made import INFO, TRUTH, made, posterior
from twinproof.nouns.belief import Discrepancy
from twinproof.nouns.errors import RandomizationError
from twinproof.nouns.files import read_json
from twinproof.randomize.against import matched
from twinproof.randomize.coverage import FORMAT
from twinproof.randomize.extra import Extra
from twinproof.randomize.residual import Residual, Residuals, residuals
from twinproof.sim.predictive import interval_score

MASS, DAMPING = INFO


@cache
def held(mass: float = 0.0, damping: float = 0.0, widen: bool = False) -> Residual:
    """A posterior wrong by so many sd, held against validation."""
    shift = {MASS: mass, DAMPING: damping}
    signal = Discrepancy("state.hinge", "rad", (0.1, 0.4), (0.003, 0.012))
    known = posterior(shift, discrepancy=(signal,))
    return residuals(known, made().validation, Residuals(widen=widen), twin=made().twin, calibration=made().calibration)


def test_right_ranges_cover_and_nothing_is_missed() -> None:
    told = held().coverage
    assert told is not None
    assert told.judged.misses == ()
    assert 0.8 < told.judged.whole.covered <= 1.0
    assert told.judged.whole.low < told.judged.whole.covered < told.judged.whole.high
    assert told.judged.episodes == made().validation.ids
    assert told.half == "all validation episodes (8)"
    assert {each.id for each in told.judged.parameters} >= {MASS, DAMPING, "joint.hinge.position_noise"}


@pytest.mark.parametrize(("id", "shift"), [(MASS, 15.0), (DAMPING, -12.0)])
def test_a_range_that_misses_the_truth_is_named_with_the_value_that_validation_points_to(id: str, shift: float) -> None:
    told = held(**{id.rpartition(".")[2]: shift}).coverage  # type: ignore[arg-type]
    assert told is not None
    (missed,) = [each for each in told.judged.parameters if each.missed]
    assert missed.id == id
    assert missed.told is not None
    assert missed.told.value == pytest.approx(TRUTH[id], rel=0.15)
    assert f"{id}: validation points to" in missed.sentence
    assert "outside the range" in missed.sentence


def test_a_missed_range_is_widened_on_one_half_and_judged_on_the_other() -> None:
    before, found = held(damping=-12.0), held(damping=-12.0, widen=True)
    told, made_wider = found.coverage, found.randomization
    assert told is not None
    assert told.before is not None
    assert set(told.widened_on).isdisjoint(told.judged.episodes)
    assert sorted({*told.widened_on, *told.judged.episodes}) == sorted(made().validation.ids)
    assert made_wider.episodes == told.widened_on
    assert before.randomization.range(DAMPING).high < TRUTH[DAMPING] < made_wider.range(DAMPING).high
    assert made_wider.range(DAMPING).low == before.randomization.range(DAMPING).low
    assert "widened from" in made_wider.range(DAMPING).reason
    assert told.judged.whole.covered > told.before.whole.covered + 0.05
    assert not [each.id for each in told.judged.parameters if each.missed]
    assert made_wider.draws[:, 1].max() > TRUTH[DAMPING]
    assert np.corrcoef(made_wider.draws.T)[0, 1] > 0.3  # still hanging together
    assert told.half == "the validation episodes that widened nothing (4)"


def test_where_nothing_is_missed_nothing_is_widened() -> None:
    found = held(widen=True)
    assert found.coverage is not None
    assert found.coverage.widened == ()
    assert found.randomization.episodes == ()
    assert found.randomization == held().randomization


def test_the_point_alone_is_tested_too_and_covers_less_by_itself() -> None:
    how = Residuals(strength=0.0)
    told = residuals(posterior(), made().validation, how, twin=made().twin).coverage
    assert told is not None
    assert told.judged.alone == 0.0
    assert not any(each.missed for each in told.judged.parameters)
    assert all("says nothing" in each.sentence for each in told.judged.parameters if each.told is not None)


def test_a_signal_that_no_parameter_explains_gets_a_larger_model_error() -> None:
    known = posterior(discrepancy=(Discrepancy("state.hinge", "rad", (0.1, 0.4), (0.0, 0.0)),), settings={"fixed": {}})
    frictionless = replace(known, settings={"fixed": {"joint.hinge.frictionloss": 0.0}})
    found = residuals(frictionless, made().validation, Residuals(widen=True), twin=made().twin)
    told = found.coverage
    assert told is not None
    if told.before is not None:
        assert told.judged.whole.covered > told.before.whole.covered
    (error,) = found.randomization.discrepancy
    assert error.sd[-1] > 1e-3
    assert any(text.startswith("state.hinge: model error at 0.4 s widened from 0 to") for text in told.widened)


def test_a_range_is_widened_no_further_than_physics_allows() -> None:
    from twinproof.nouns.randomization import Range
    from twinproof.randomize.against import Told
    from twinproof.randomize.widen import _ends

    entry: Range = held().randomization.range(DAMPING)
    ends, why = _ends(entry, Told(DAMPING, -9.0, 0.9, -0.02, -0.03, -0.01))
    assert ends == (0.0, entry.high)
    assert "further than the physical limits 0 … 1e+04 allow: the model lacks something" in why


def test_a_stated_range_is_tested_like_an_inferred_one_and_widened() -> None:
    wrong = Extra(DAMPING, "guessed", 0.02, 0.03, replace=True)
    how = Residuals(extra=(wrong,), widen=True)
    found = residuals(posterior(), made().validation, how, twin=made().twin)
    entry = found.randomization.range(DAMPING)
    assert found.randomization.joint == (MASS,)
    assert entry.high > 0.06
    assert entry.source.kind == "declared"


def test_starts_that_lie_elsewhere_are_named_but_not_widened() -> None:
    narrow = Extra("joint.hinge.start", "always starts hanging", -0.001, 0.001, point=0.0)
    how = Residuals(extra=(narrow,), widen=True)
    found = residuals(posterior(), made().validation, how, twin=made().twin)
    assert found.coverage is not None
    assert any(
        text.startswith("joint.hinge.start: 0 of 4 validation episodes lie in") for text in found.coverage.judged.misses
    )
    assert found.randomization.range("joint.hinge.start").high == 0.001


def test_the_result_is_saved_so_that_evidence_can_show_it(tmp_path: Path) -> None:
    found = held(damping=-12.0, widen=True)
    assert found.coverage is not None
    found.coverage.save(tmp_path)
    told = read_json(tmp_path / "coverage.json", FORMAT, RandomizationError)
    assert told["randomization"] == found.randomization.hash
    assert told["split"] == made().split.hash
    assert 0 <= told["interval"][0] <= told["covered"] <= told["interval"][1] <= 1
    assert told["episodes"] == list(found.coverage.judged.episodes)
    assert told["widened_on"] == list(found.coverage.widened_on)
    assert told["before"]["covered"] < told["covered"]
    assert {row["signal"] for row in told["by_signal"]} == {"state.hinge"}
    assert all(row["interval_score"] >= 0 for row in told["by_signal"])
    json.dumps(told, allow_nan=False)


def test_interval_scores_reward_ranges_that_are_right() -> None:
    right, wrong = held().coverage, held(damping=-12.0).coverage
    assert right is not None
    assert wrong is not None
    assert right.judged.signals[0].interval_score < wrong.judged.signals[0].interval_score
    assert interval_score(np.array([0.0]), np.array([1.0]))[0] == 2.0


def test_episodes_that_fit_no_scene_are_refused_with_the_reason() -> None:
    from tests.randomize.made import twin_of

    twin = twin_of(made().root / "other", made().twin.path().read_text().replace("hinge", "axle"))
    with pytest.raises(
        RandomizationError, match="none of 8 episodes can be simulated in the twin's scene: .*no signal"
    ):
        matched(twin, made().validation.recording.episodes)
