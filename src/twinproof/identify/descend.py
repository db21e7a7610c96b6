"""One stage of a fit: steps of a robust Gauss–Newton method until they no longer pay.

each step   linearise (one rollout for all columns) → noise of every signal from its residuals → eliminate starts
            → a damped step, or the best of a few more cautious ones → a second step by the same slopes
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.identify.problem import linearise
from twinproof.identify.weigh import Stage, noise_scale, process_noise, reduced_at, stage_cost
from twinproof.nouns.progress import Progress
from twinproof.sim.least_squares import Linear, box_step
from twinproof.sim.shooting import Rolled, Variant

if TYPE_CHECKING:
    from twinproof.identify.fit import Fit, GaussNewton

NOTHING = 1e-3  # a promised fall of the cost, in log likelihood, that is not worth a rollout
# Damping (times the last) and share of the step, attempt by attempt: mostly the first does what it promised; where not,
# three are tried at once. Damping holds the parameters alone: where contact makes the starts' own step go astray, only
# a share of the whole one helps.
ATTEMPTS = (
    ((0.1, 1.0),),
    ((1.0, 1.0), (30.0, 1.0), (1e3, 1.0)),
    ((1.0, 0.3), (1.0, 0.1), (1.0, 0.03)),
    ((1e3, 0.1), (1e5, 0.01), (1e7, 1.0)),
)
NEARBY = 10.0  # posterior sd within which slopes are as good as those of the point itself


def descend(
    state: Fit, method: GaussNewton, progress: Progress, what: str, final: bool
) -> tuple[Fit, int, list[float]]:
    """Steps until they no longer pay. A stage that is not the last needs only to come near."""
    spent, costs = 0, list[float]()
    damping, away = 1e-3, np.inf  # how far from here the slopes were taken, in posterior sd
    enough = method.tolerance if final else 20 * method.tolerance
    again, fresh = False, False  # whether slopes serve a second time, and whether they are of the point itself
    for step in range(2 * method.max_steps):
        if not again:
            state, rows = _linearised(state, central=False)
            spent, fresh = spent + rows, True
        state = _weighed(state, method)
        costs.append(state.cost)
        progress(step // 2 + 1, f"{what}: cost {state.cost:.6g}", method.max_steps)
        moved, damping, tried, size = _step(state, method, damping)
        spent += tried
        if moved is None and (not again or not tried):
            break
        if moved is None:  # the slopes are too old
            again = False
            continue
        gain, state, fresh = state.cost - moved.cost, moved, False
        near = not again or away < NEARBY
        if gain < enough * abs(state.cost) and (not final or (size < 0.1 and near)):
            break
        # a second step by the same slopes costs a tenth of new slopes, and does most of their work
        again, away = not again, size
    wide = all(stage.shooting.touches for stage in state.stages)  # where differences are central all the time
    if final and method.central and not (fresh and wide):
        state, rows = _linearised(state, central=True)
        spent += rows
    return (_weighed(state, method) if final else state), spent, costs


def _linearised(state: Fit, central: bool) -> tuple[Fit, int]:
    stages, rows = [], 0
    for stage in state.stages:
        linear = linearise(
            state.problem,
            stage.shooting,
            state.unknowns,
            stage.starts,
            free=stage.free,
            central=central,
            windows=stage.windows,
            known=None if stage.linear is None else (stage.linear.gap, stage.linear.seam),
        )
        width = (stage.linear is None) + len(state.problem.ids) * (2 if central or stage.shooting.touches else 1)
        rows += _rolled(stage) * (width + (0 if stage.free is None else 2 * int(stage.free.sum())))
        stages.append(replace(stage, linear=linear))
    return replace(state, stages=tuple(stages)), rows


def _rolled(stage: Stage) -> int:
    return stage.shooting.windows if stage.windows is None else len(stage.windows)


def _weighed(state: Fit, method: GaussNewton) -> Fit:
    """The same point with noise and process noise estimated from its residuals, and the starts eliminated."""
    stages = []
    for stage in state.stages:
        assert stage.linear is not None
        _, floor = stage.shooting.noise
        known = method.noise
        sd = np.array([known[name] for name in stage.shooting.entries]) if known else noise_scale(stage, floor)
        stage = replace(stage, sd=sd)
        if stage.free is not None and method.process_noise and len(stage.shooting.seams):
            stage = replace(stage, process=process_noise(stage, method.robust))
        linear = stage.linear
        assert linear is not None
        cost = stage_cost(stage, linear.gap, linear.seam, method.robust)
        stages.append(replace(stage, reduced=reduced_at(stage, method.robust), cost=cost, growth=_growth(linear)))
    return replace(state, stages=tuple(stages))


def _step(state: Fit, method: GaussNewton, damping: float) -> tuple[Fit | None, float, int, float]:
    """The best of a few damped steps, or None where none lowers the cost; its size in posterior sd."""
    problem = state.problem
    hessian, gradient = state.information + np.diag(problem.prior()[1]), state.gradient
    low, high = problem.span
    # no step moves an unknown by more than half of its range: the model is linear in less than that
    reach = 0.5 * (high - low)
    spent = 0
    room = np.maximum(low - state.unknowns, -reach), np.minimum(high - state.unknowns, reach)
    for attempt, ways in enumerate(ATTEMPTS):
        steps = [(box_step(hessian, gradient, *room, damping * factor), share) for factor, share in ways]
        promised = _promised(state, hessian, steps[0][0])
        if attempt == 0 and promised < NOTHING:
            break
        tried = _tried(state, steps, method.robust)
        spent += len(steps) * sum(map(_rolled, state.stages))
        gains = [state.cost - each.cost for each in tried]
        k = int(np.argmax(gains))
        if gains[k] > 0 and (attempt > 0 or gains[k] > 0.25 * promised):
            spread = np.sqrt(np.diag(np.linalg.pinv(hessian + np.diag(1 / problem.width**2))))
            size = float(np.max(np.abs(steps[k][0] * steps[k][1]) / spread))
            return tried[k], float(np.clip(damping * ways[k][0], 1e-7, 1e3)), spent, size
    return None, damping, spent, 0.0


def _promised(state: Fit, hessian: np.ndarray, step: np.ndarray) -> float:
    """How much the cost would fall if the problem were linear: by the step, and by what the starts do alone."""
    starts = sum(s.share * float(s.reduced.explained.sum()) for s in state.stages if s.reduced is not None)
    return float(state.gradient @ step - 0.5 * step @ hessian @ step) + 0.5 * starts


def _tried(state: Fit, steps: Sequence[tuple[np.ndarray, float]], robust: float) -> list[Fit]:
    """The fits after a share of each step, with their costs: all in one rollout a stage."""
    moved = [state.unknowns + share * step for step, share in steps]
    stages: list[list[Stage]] = [[] for _ in steps]
    for stage in state.stages:
        shooting, variants = stage.shooting, []
        assert stage.reduced is not None
        for (step, share), unknowns in zip(steps, moved, strict=True):
            starts = stage.starts
            if stage.free is not None:
                change = stage.reduced.starts_step(step, shooting.windows, 2 * shooting.model.nv)
                starts = shooting.moved(*stage.starts, share * change)
            variants.append(Variant(state.problem.values(unknowns), *starts))
        rolled: Rolled = shooting.roll(variants, stage.windows)
        for k, variant in enumerate(variants):
            cost = stage_cost(stage, rolled.gap[k], rolled.seam[k], robust)
            # the slopes are those of the point before
            linear = replace(stage.linear, gap=rolled.gap[k], seam=rolled.seam[k]) if stage.linear else None
            stages[k].append(replace(stage, starts=(variant.qpos, variant.qvel), cost=cost, linear=linear))
    return [replace(state, unknowns=unknowns, stages=tuple(s)) for unknowns, s in zip(moved, stages, strict=True)]


def _growth(linear: Linear) -> np.ndarray | None:
    if linear.seam_by_start is None or linear.shooting.touches:
        return None
    nv, blocks = linear.shooting.model.nv, np.abs(linear.seam_by_start)
    return np.asarray(np.maximum(blocks[:, :nv, :nv].max(axis=(1, 2)), blocks[:, nv:, nv:].max(axis=(1, 2))))
