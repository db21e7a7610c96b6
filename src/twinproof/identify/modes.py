"""Separate answers to one question: points that explain a recording about as well and lie far apart.

scrambled starts in the prior ── a short fit on short windows ──> near a known mode? forget it
                                                               └─> else settle on the fit's own windows ──> a mode

Modes are compared on the same windows with the same noise, by their evidence: how well each explains the recording, and
how much of the prior does so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.identify.fit import Fit, GaussNewton, fit, prior_cost
from twinproof.identify.laplace import covariance_of
from twinproof.identify.problem import Problem, linearise
from twinproof.identify.weigh import Stage, reduced_at, stage_cost
from twinproof.nouns.progress import Progress, quiet
from twinproof.sim.least_squares import box_step
from twinproof.sim.shooting import Variant

if TYPE_CHECKING:
    from jaxtyping import Float

APART = 6.0  # Laplace sd a dimension, in root mean square, between points that count as two modes
RIDGE = 2.0  # optima whose costs differ by less may lie on one ridge, along which the recording tells nothing
WORSE = 20.0  # a mode whose log evidence is lower by more is not worth keeping


@dataclass(frozen=True, eq=False)
class Mode:
    """An optimum with its linearised problem, and its log evidence up to a constant that all modes share."""

    fitted: Fit
    log_evidence: float

    @property
    def unknowns(self) -> Float[np.ndarray, "G"]:
        """Where it is."""
        return self.fitted.unknowns


def find_modes(
    problem: Problem, fitted: Fit, starts: int, rng: np.random.Generator, progress: Progress = quiet
) -> tuple[list[Mode], int]:
    """The modes that so many scrambled starts find, the best first, and how many windows were simulated for it."""
    modes, spent = [Mode(fitted, log_evidence(fitted))], 0
    for k, start in enumerate(scrambled(problem, starts, rng)):
        near, rolled = _approached(problem, modes, start)
        spent += rolled
        if near is not None:
            found, rolled = settle(fitted, near)
            spent += rolled
            known, rolled = _known(found, modes)
            spent += rolled
            if not known:
                modes.append(Mode(found, log_evidence(found)))
        progress(k + 1, f"starts: {len(modes)} modes", starts)
    best = max(mode.log_evidence for mode in modes)
    kept = [mode for mode in modes if mode.log_evidence > best - WORSE]
    return sorted(kept, key=lambda mode: -mode.log_evidence), spent


def scrambled(problem: Problem, count: int, rng: np.random.Generator) -> Float[np.ndarray, "count G"]:
    """Points that fill the prior's range evenly (Sobol, scrambled); around the middle where the prior is a bell."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    low, high = problem.span
    if not count:
        return np.empty((0, len(low)))
    drawn = qmc.Sobol(len(low), rng=rng).random(int(2 ** np.ceil(np.log2(count))))[:count]
    centre, precision = problem.prior()
    bell = centre + ndtri(np.clip(drawn, 1e-4, 1 - 1e-4)) * problem.width
    even = low + (0.02 + 0.96 * drawn) * (high - low)
    return np.asarray(np.clip(np.where(precision > 0, bell, even), low, high))


def same(one: Fit, other: Fit) -> bool:
    """Whether two optima are one, told by the narrower of their posteriors."""
    away = one.unknowns - other.unknowns
    far = [away @ np.linalg.solve(covariance_of(each), away) for each in (one, other)]
    return bool(max(far) < APART**2 * len(away))


def _approached(problem: Problem, modes: list[Mode], start: np.ndarray) -> tuple[np.ndarray | None, int]:
    """Where a short fit leads from a start; None where that is a mode that is known already."""
    spent, at = 0, start
    for horizon_s, steps in ((0.15, 8), (0.6, 8)):
        found = fit(problem, GaussNewton(horizons_s=((horizon_s,),), max_steps=steps), start=at)
        spent, at = spent + found.rollouts, found.unknowns
        # a short window knows less than the whole fit: its own, wider posterior says how near is near
        if any(_reached(found, mode) for mode in modes):
            return None, spent
    return at, spent


def _known(found: Fit, modes: list[Mode]) -> tuple[bool, int]:
    """Whether an optimum is a mode that is known, or on a ridge with one: then their middle settles between them."""
    spent = 0
    for mode in modes:
        if same(found, mode.fitted):
            return True, spent
        if abs(found.cost - mode.fitted.cost) < RIDGE:
            middle, rolled = settle(mode.fitted, (found.unknowns + mode.unknowns) / 2)
            spent += rolled
            between = not (same(middle, found) or same(middle, mode.fitted))
            if between and middle.cost < max(found.cost, mode.fitted.cost) + RIDGE:
                return True, spent
    return False, spent


def _reached(found: Fit, mode: Mode) -> bool:
    away = found.unknowns - mode.unknowns
    return bool(away @ np.linalg.solve(covariance_of(found), away) < APART**2 * len(away))


def settle(fitted: Fit, start: np.ndarray, steps: int = 12) -> tuple[Fit, int]:
    """The optimum near a start on the windows, noise and process noise of a fit, and the windows simulated."""
    problem, spent, damping = fitted.problem, 0, 1e-3
    low, high = problem.span
    precision = problem.prior()[1]
    state = replace(fitted, unknowns=np.array(start))
    for _ in range(steps):
        state, rolled = linearised(state, state.unknowns, [stage.starts for stage in state.stages])
        spent += rolled
        hessian = state.information + np.diag(precision)
        best, size = None, 0.0
        for factor in (0.0, damping, 1e3 * damping):
            step = box_step(hessian, state.gradient, low - state.unknowns, high - state.unknowns, factor)
            moved = _moved(state, step)
            spent += sum(s.shooting.windows for s in fitted.stages)
            if moved.cost < (state if best is None else best).cost:
                best, size = moved, float(step @ hessian @ step)
        if best is None:
            damping *= 1e3
            if damping > 1e6:
                break
            continue
        gain, state, damping = state.cost - best.cost, best, max(damping / 10, 1e-7)
        if gain < 0.01 or size < 1e-4 * len(step):
            break
    state, rolled = linearised(state, state.unknowns, [stage.starts for stage in state.stages])
    return state, spent + rolled


def linearised(state: Fit, unknowns: np.ndarray, starts: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[Fit, int]:
    """The state at other unknowns and starts (one pair a stage), linearised there, and the windows simulated."""
    stages, spent = [], 0
    for stage, begin in zip(state.stages, starts, strict=True):
        linear = linearise(state.problem, stage.shooting, unknowns, begin, free=stage.free)
        one = replace(stage, linear=linear, starts=begin)
        cost = stage_cost(one, linear.gap, linear.seam, GaussNewton.robust)
        stages.append(replace(one, reduced=reduced_at(one, GaussNewton.robust), cost=cost))
        columns = 1 + len(state.problem.ids) + (0 if stage.free is None else 2 * int(stage.free.sum()))
        spent += stage.shooting.windows * columns
    return replace(state, unknowns=unknowns, stages=tuple(stages)), spent


def _moved(state: Fit, step: np.ndarray) -> Fit:
    """The state after a step, its starts going along."""
    stages: list[Stage] = []
    for stage in state.stages:
        shooting, starts = stage.shooting, stage.starts
        assert stage.reduced is not None
        if stage.free is not None:
            change = stage.reduced.starts_step(step, shooting.windows, 2 * shooting.model.nv)
            starts = shooting.moved(*stage.starts, change)
        rolled = shooting.roll([Variant(state.problem.values(state.unknowns + step), *starts)])
        cost = stage_cost(stage, rolled.gap[0], rolled.seam[0], GaussNewton.robust)
        stages.append(replace(stage, starts=starts, cost=cost))
    return replace(state, unknowns=state.unknowns + step, stages=tuple(stages))


def log_evidence(state: Fit) -> float:
    """The log of likelihood times prior, integrated over unknowns and starts as a Gaussian, up to a shared constant."""
    cost = prior_cost(state.problem, state.unknowns)
    starts = 0.0
    for stage in state.stages:
        assert stage.linear is not None
        assert stage.reduced is not None
        cost += stage_cost(stage, stage.linear.gap, stage.linear.seam, GaussNewton.robust)
        starts += stage.share * float(np.sum(stage.reduced.log_det_starts))
    spread = float(np.linalg.slogdet(covariance_of(state))[1])
    return -cost + 0.5 * spread - 0.5 * starts
