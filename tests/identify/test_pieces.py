"""A long recording gone through a few episodes at a time tells what it tells as a whole, and takes no more memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from tests.identify.arms import DELAY, NOISE, TRUTH, asked, swings
from tests.sim.motions import PENDULUM
from twinproof.identify.fit import GaussNewton, _begin, fit
from twinproof.identify.infer import Found, solve
from twinproof.identify.laplace import Laplace
from twinproof.identify.predict import discrepancy
from twinproof.identify.problem import Problem, linearise
from twinproof.identify.weigh import Stage, noise_scale, process_noise, reduced_at, stage_cost
from twinproof.nouns.randomness import stream
from twinproof.sim import shelf, tables
from twinproof.sim.experiment import Experiment
from twinproof.sim.shooting import Variant

KINDS = ("state", "velocity", "torque")
METHOD = GaussNewton(((0.15,),), free_starts=True)


@contextmanager
def at_once(gaps: int, memory: int = 0) -> Iterator[None]:
    """So many gaps are held at once, and arrays above so many bytes lie on a shelf."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "PIECE", gaps)
        patch.setattr(shelf, "SMALL", memory)
        yield


def episodes(count: int) -> list[Experiment]:
    return swings(PENDULUM, TRUTH, count, noise=NOISE, kinds=KINDS, delay_s=0.0137, size=0.5, seconds=1.0)


def uneven() -> Problem:
    """Six episodes; one never read velocities, one lost some samples, and each has an offset of its own."""
    made = episodes(6)
    made[0] = replace(made[0], readings=tuple(r for r in made[0].readings if r.name != "velocity"))
    value = made[3].readings[0].value.copy()
    value[20:40] = np.nan
    made[3] = replace(made[3], readings=(replace(made[3].readings[0], value=value), *made[3].readings[1:]))
    own = {"joint.hinge.offset": "episode"}
    return asked(PENDULUM, [*TRUTH, DELAY, "joint.hinge.offset", "signal.velocity.delay"], made, own=own)


def linearised(problem: Problem, windows: Sequence[int] | None = None) -> Stage:
    stage = _begin(problem, 0.15, None, 1.0, np.ones(1, dtype=bool))
    some = None if windows is None else np.array(windows)
    linear = linearise(
        problem, stage.shooting, problem.nominal, stage.starts, free=stage.free, central=True, windows=some
    )
    return replace(stage, linear=linear, windows=some)


@pytest.mark.parametrize("windows", [None, (0, 1, 17, 18, 30, 31)])
def test_gaps_and_slopes_of_pieces_are_those_of_the_whole(windows: Sequence[int] | None) -> None:
    problem = uneven()
    whole = linearised(problem, windows)
    with at_once(400):
        pieces = linearised(problem, windows)
    assert whole.shooting.whole
    assert len(pieces.shooting.spans) > 2
    assert pieces.shooting.entries == whole.shooting.entries
    for name in ("window", "entry", "horizon", "block", "bounds"):
        np.testing.assert_array_equal(getattr(pieces.shooting, name), getattr(whole.shooting, name), err_msg=name)
    assert whole.linear is not None
    assert pieces.linear is not None
    for name in ("gap", "by_parameter", "by_start", "seam", "seam_by_parameter", "seam_by_start"):
        np.testing.assert_array_equal(getattr(pieces.linear, name), getattr(whole.linear, name), err_msg=name)


def test_normal_equations_noise_and_cost_add_up_to_those_of_the_whole() -> None:
    problem = uneven()
    whole = linearised(problem)
    with at_once(400):
        pieces = linearised(problem)
        sides = [(each, noise_scale(each, each.shooting.noise[1])) for each in (whole, pieces)]
        np.testing.assert_array_equal(sides[0][1], sides[1][1])
        stages = [replace(each, sd=sd) for each, sd in sides]
        stages = [replace(each, process=process_noise(each, 4.0)) for each in stages]
        np.testing.assert_array_equal(stages[0].process, stages[1].process)
        one, many = (reduced_at(each, 4.0) for each in stages)
        for name in ("hessian", "by_episode", "gradient", "score", "log_det_starts", "explained"):
            told, size = getattr(one, name), np.abs(getattr(one, name)).max()
            np.testing.assert_allclose(getattr(many, name), told, rtol=1e-9, atol=1e-9 * size, err_msg=name)
        step = 0.01 * np.arange(len(one.gradient))
        args = (step, whole.shooting.windows, 2)
        np.testing.assert_allclose(many.starts_step(*args), one.starts_step(*args), rtol=1e-9, atol=1e-12)
        costs = [stage_cost(s, s.linear.gap, s.linear.seam, 4.0) for s in stages if s.linear is not None]
        assert costs[1] == pytest.approx(costs[0], rel=1e-12)


def test_a_rollout_of_pieces_is_that_of_the_whole() -> None:
    problem = uneven()
    whole = problem.shooting(0.15)
    with at_once(400):
        pieces = problem.shooting(0.15)
        variants = [Variant(problem.values(problem.nominal), *whole.starts)] * 2
        one, many = whole.roll(variants), pieces.roll(variants)
    for name in ("gap", "seam", "diverged", "end_qpos", "end_qvel"):
        np.testing.assert_array_equal(getattr(many, name), getattr(one, name), err_msg=name)


def solved(problem: Problem) -> Found:
    return solve(problem, Laplace(200), stream(0, "pieces"), point=METHOD)


def test_an_answer_from_pieces_is_that_from_the_whole() -> None:
    problem = asked(PENDULUM, [*TRUTH, DELAY], episodes(4))
    one = solved(problem)
    with at_once(400):
        many = solved(problem)
    assert len(many.fitted.stages[0].shooting.spans) == 4 > len(one.fitted.stages[0].shooting.spans)
    sd = one.drawn.unknowns.std(axis=0)
    np.testing.assert_allclose(many.fitted.unknowns / sd, one.fitted.unknowns / sd, atol=1e-4)
    np.testing.assert_allclose(many.drawn.unknowns / sd, one.drawn.unknowns / sd, atol=1e-2)
    for a, b in zip(many.model_error, one.model_error, strict=True):
        np.testing.assert_allclose(a.sd, b.sd, rtol=1e-3, atol=1e-7)
    assert set(many.diagnostics["whiteness"]) == set(one.diagnostics["whiteness"])


def peak(problem: Problem) -> int:
    """What a step of a fit and predictions under a few draws take, in bytes."""
    tracemalloc.start()
    found = fit(problem, replace(METHOD, max_steps=1))
    discrepancy(found, np.tile(found.unknowns, (8, 1)), (0.15, 0.3))
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return taken


def test_ten_times_the_episodes_take_hardly_more_memory() -> None:
    made = episodes(20)
    short, long = (asked(PENDULUM, [*TRUTH, DELAY], made[:count]) for count in (2, 20))
    with at_once(len(short.shooting(0.15).window)):
        peak(short)  # what is loaded the first time is no part of it
        little, much = peak(short), peak(long)
    assert much - little < 0.2 * (peak(long) - little)  # against all at once
