"""Recordings simulated under an answer's own draws look like the recorded ones, and ranks tell who is too sure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from tests.identify.swings import PENDULUM_TRUTH, pendulum
from tests.identify.test_cloud import found as tossed
from twinproof.identify.checkpoint import Checkpoint
from twinproof.identify.fit import Fit, GaussNewton
from twinproof.identify.laplace import Laplace
from twinproof.identify.method import Draws, Method
from twinproof.identify.predict import noise_by_entry
from twinproof.identify.recheck import diagnostics, recheck, sentence, simulated
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.randomness import stream
from twinproof.sim.shooting import Variant

FEW = 12


@dataclass(frozen=True)
class Sure(Method):
    """As Laplace, with intervals a tenth as wide."""

    name = "sure"

    def infer(self, problem, fitted, rng, progress=None):
        drawn = Laplace(draws=300).infer(problem, fitted, rng)
        centre = drawn.unknowns.mean(axis=0)
        return Draws(centre + 0.1 * (drawn.unknowns - centre), drawn.log_weights)


@cache
def answer() -> tuple[Fit, Draws]:
    fitted = pendulum()
    return fitted, Laplace(draws=300).infer(fitted.problem, fitted, stream(0, "draws"))


def test_a_recording_simulated_at_the_optimum_differs_from_the_recorded_one_by_noise():
    fitted = pendulum()
    made = simulated(fitted, fitted.unknowns, stream(0, "noise"))
    usual = noise_by_entry(fitted)
    for old, new in zip(fitted.problem.experiments, made, strict=True):
        for before, after in zip(old.readings, new.readings, strict=True):
            there = np.isin(before.time_s, after.time_s) | (np.abs(before.time_s[:, None] - after.time_s).min(1) < 1e-9)
            apart = (before.value[there] - after.value).std(axis=0)
            sd = np.array([usual[entry] for entry in before.entries])
            assert (apart < 3 * sd).all()
            assert (apart > 0.5 * sd).all()


def test_poses_are_simulated_in_their_tangent_space():
    fitted = tossed()
    made = simulated(fitted, fitted.unknowns, stream(0, "noise"))
    problem = fitted.problem.with_experiments(made)
    shooting = problem.shooting(0.1)
    gap = shooting.roll([Variant(problem.values(fitted.unknowns), *shooting.starts)]).gap[0]
    before = fitted.problem.shooting(0.1)
    recorded = before.roll([Variant(problem.values(fitted.unknowns), *before.starts)]).gap[0]
    assert np.median(np.abs(gap)) < 2 * np.median(np.abs(recorded))
    for each in made:
        assert np.linalg.norm(each.readings[0].value[:, 3:], axis=1) == pytest.approx(1.0)


def test_an_honest_method_has_even_ranks_and_one_that_is_too_sure_has_not(tmp_path):
    fitted, drawn = answer()
    seen = []
    keep = Checkpoint(tmp_path / "kept", "question")
    found = recheck(
        fitted, drawn, Laplace(draws=300), GaussNewton(), FEW, 0, lambda done, name, total=None: seen.append(done), keep
    )
    assert seen == list(range(1, FEW + 1))
    told = diagnostics(found, ())
    assert told["recordings"] == FEW
    assert set(told["judged"]) == set(PENDULUM_TRUTH)
    assert told["p_value"] > 0.01
    assert told["covered"] > 0.6
    assert "ranks are even (p = " in sentence(told)
    again = recheck(fitted, drawn, Laplace(draws=300), GaussNewton(), FEW, 0, keep=keep)  # all of it was kept
    np.testing.assert_array_equal(again.ranks, found.ranks)
    sure = diagnostics(recheck(fitted, drawn, Sure(), GaussNewton(), FEW, 0), ())
    assert sure["p_value"] < 0.01
    assert f"are not even, least of all those of {sure['worst']}" in sentence(sure)


def test_what_is_unidentified_is_ranked_and_not_judged():
    fitted, drawn = answer()
    found = recheck(fitted, drawn, Laplace(draws=100), GaussNewton(), 5, 0)
    told = diagnostics(found, {"body.bob.mass"})
    assert told["judged"] == ["joint.hinge.damping"]
    assert set(told["unknowns"]) == set(PENDULUM_TRUTH)


def test_a_handful_is_the_least():
    with pytest.raises(ConfigError, match="a calibration check of 3 recordings tells nothing. Ask for 5 or more"):
        recheck(*answer(), Laplace(), GaussNewton(), 3, 0)
