"""The point estimate: robust Gauss–Newton on multiple-shooting windows, short ones first, then longer ones.

each step   linearise (one rollout for all columns) → noise of every signal from its residuals → eliminate starts
            → a damped step, or the best of a few more cautious ones → a second step by the same slopes
process noise   how far a window may end beside where the next begins, by the evidence; zero where the model holds
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from twinproof.identify.checkpoint import Checkpoint
from twinproof.identify.problem import Problem, linearise
from twinproof.identify.weigh import (
    MAGNIFIED,
    Stage,
    faint,
    noise_scale,
    process_noise,
    seam_weight,
    stage_cost,
    weights,
)
from twinproof.nouns.errors import PosteriorError
from twinproof.nouns.progress import Progress, quiet
from twinproof.sim.least_squares import Linear, box_step, reduce
from twinproof.sim.shooting import Rolled, Shooting, Variant

if TYPE_CHECKING:
    from jaxtyping import Float

FREE = 0  # mjtJoint
BEGIN = 0.3  # process noise of a first stage
MAGNIFIES_NOTHING = 2.0
NOTHING = 1e-3  # a promised fall of the cost, in log likelihood, that is not worth a rollout
NEARBY = 10.0  # posterior sd within which slopes are as good as those of the point itself


@dataclass(frozen=True)
class GaussNewton:
    """Nonlinear least squares with windows of growing length.

    `horizons_s` are stages: each begins where the one before ended. A stage of several lengths fits them at once. The
    last stage decides. Short windows there cost nothing, as seams tie them together as tightly as the model deserves.
    A motion that magnifies nothing within `calm_s` needs no other stage before than one of that length.
    """

    horizons_s: tuple[tuple[float, ...], ...] = ((0.15,), (0.6,), (0.15,))
    calm_s: float = 2.0
    max_steps: int = 25  # of each stage
    tolerance: float = 1e-3  # relative change of the cost, and step in posterior sd, that ends a stage
    robust: float = 4.0  # residuals beyond so many sd count less and less
    free_starts: bool | None = None  # whether windows' starts are unknowns; None: unless free bodies touch things
    process_noise: bool = True
    noise: Mapping[str, float] | None = None  # sd of all entries, where it is known; else estimated from residuals
    central: bool = True  # differences at the end, which the posterior is made of
    few: int = 60  # windows that stages before the last look at


@dataclass(frozen=True, eq=False)
class Fit:
    """A point on the natural scale with the stages it was found on, and the cost of every step."""

    problem: Problem
    unknowns: Float[np.ndarray, "G"]
    stages: tuple[Stage, ...]
    history: tuple[float, ...] = ()
    rollouts: int = 0  # windows that were simulated, all columns counted
    notes: tuple[str, ...] = field(default=())

    @property
    def cost(self) -> float:
        """The robust cost, priors included."""
        return sum(stage.cost for stage in self.stages) + prior_cost(self.problem, self.unknowns)

    @property
    def information(self) -> Float[np.ndarray, "G G"]:
        """What the recording says of the unknowns: the inverse covariance without any prior."""
        return np.asarray(np.sum([s.share * s.reduced.hessian for s in self.stages if s.reduced is not None], axis=0))

    @property
    def by_episode(self) -> Float[np.ndarray, "episodes G G"]:
        """The share of each episode in the information."""
        parts = [s.share * s.reduced.by_episode for s in self.stages if s.reduced is not None]
        return np.asarray(np.sum(parts, axis=0))

    @property
    def gradient(self) -> Float[np.ndarray, "G"]:
        """Where the recording and the priors still pull: zero at an optimum inside the limits."""
        centre, precision = self.problem.prior()
        pull = np.sum([s.share * s.reduced.gradient for s in self.stages if s.reduced is not None], axis=0)
        return np.asarray(pull - precision * (self.unknowns - centre))

    @property
    def scores(self) -> Float[np.ndarray, "blocks G"]:
        """The pull of every block of readings on the unknowns."""
        return np.concatenate([s.share * s.reduced.score for s in self.stages if s.reduced is not None])

    @property
    def score_episode(self) -> np.ndarray:
        """The episode of each row of `scores`."""
        return np.concatenate([s.shooting.block_episode for s in self.stages if s.reduced is not None])


def prior_cost(problem: Problem, unknowns: np.ndarray) -> float:
    """Half the squared distance to the normal priors, in sd."""
    centre, precision = problem.prior()
    return 0.5 * float(precision @ np.square(unknowns - centre))


def fit(
    problem: Problem,
    method: GaussNewton,
    start: np.ndarray | None = None,
    progress: Progress = quiet,
    keep: Checkpoint | None = None,
) -> Fit:
    """The best unknowns from one start (the nominal ones where None). `keep` remembers finished stages."""
    # The matrices are small: several BLAS threads would burn three times the CPU without being faster.
    with threadpool_limits(1, user_api="blas"):
        return _fit(problem, method, problem.nominal if start is None else np.array(start), progress, keep)


def _fit(
    problem: Problem, method: GaussNewton, unknowns: np.ndarray, progress: Progress, keep: Checkpoint | None
) -> Fit:
    model = problem.experiments[0].scene.nominal()
    # A body that lies or slides moves with its start in jumps: there the readings' starts serve better than free ones,
    # and without seams short windows would say less than the longer ones before them.
    touches = bool((model.jnt_type == FREE).any())
    loosened = method.free_starts if method.free_starts is not None else not touches
    free = np.ones(model.nv, dtype=bool) if loosened else None
    lengths_s = method.horizons_s[:-1] if touches and not loosened and len(method.horizons_s) > 2 else method.horizons_s
    # A motion that magnifies nothing is first followed over long stretches: short windows say little of a servo.
    calm = loosened and len(lengths_s) > 1 and _calm_motion(problem, unknowns, method.calm_s)
    if calm:
        lengths_s = ((method.calm_s,), lengths_s[-1])
    found: Fit | None = None
    history: list[float] = []
    rollouts = 0
    for k, lengths in enumerate(lengths_s):
        final = k == len(lengths_s) - 1
        loose = None if calm and not final else free
        stages = tuple(_begin(problem, length, found, 1 / len(lengths), loose) for length in lengths)
        if not final:
            stages = tuple(replace(stage, windows=_some(stage.shooting, method.few)) for stage in stages)
        kept = keep.load(k) if keep and not final else None
        if kept is not None:
            found = _restored(problem, stages, kept)
            unknowns = found.unknowns
            continue
        found, spent, costs = _descend(
            Fit(problem, unknowns, stages), method, progress, f"stage {k + 1} of {len(lengths_s)}", final
        )
        rollouts += spent
        history += costs
        unknowns = found.unknowns
        if keep and not final:
            keep.save(k, _remembered(found))
    assert found is not None
    return replace(found, history=tuple(history), rollouts=rollouts)


def _calm_motion(problem: Problem, unknowns: np.ndarray, horizon_s: float) -> bool:
    """Whether nearly all windows this long magnify nothing, and so forget or keep where they began (a servo arm)."""
    shooting = problem.shooting(horizon_s)
    windows = np.unique(np.linspace(0, shooting.windows - 1, min(12, shooting.windows)).astype(np.int64))
    moved = np.abs(shooting.memory(Variant(problem.values(unknowns), *shooting.starts), windows))
    nv = shooting.model.nv
    grown = np.maximum(moved[:, :nv, :nv].max(axis=(1, 2)), moved[:, nv:, nv:].max(axis=(1, 2)))
    return float(np.quantile(np.nan_to_num(grown, nan=np.inf), 0.8, method="lower")) < MAGNIFIES_NOTHING


def _remembered(found: Fit) -> dict[str, np.ndarray]:
    arrays = {"unknowns": found.unknowns}
    for i, stage in enumerate(found.stages):
        qpos, qvel = stage.starts
        arrays |= {f"qpos{i}": qpos, f"qvel{i}": qvel, f"sd{i}": stage.sd, f"process{i}": stage.process}
        if stage.growth is not None:
            arrays[f"growth{i}"] = stage.growth
    return arrays


def _restored(problem: Problem, stages: Sequence[Stage], kept: dict[str, np.ndarray]) -> Fit:
    restored = [
        replace(
            stage,
            starts=(kept[f"qpos{i}"], kept[f"qvel{i}"]),
            sd=kept[f"sd{i}"],
            process=kept[f"process{i}"],
            growth=kept.get(f"growth{i}"),
        )
        for i, stage in enumerate(stages)
    ]
    return Fit(problem, kept["unknowns"], tuple(restored))


def _begin(problem: Problem, horizon_s: float, before: Fit | None, share: float, free: np.ndarray | None) -> Stage:
    """A stage on windows of one length. It goes on where the windows of the stage before passed."""
    shooting = problem.shooting(horizon_s if before is None or free is None else _calm(before, horizon_s))
    sd, _ = shooting.noise()
    if before is None:
        return Stage(shooting, shooting.starts, sd, np.full(len(problem.experiments), BEGIN), share, free=free)
    known = {name: value for s in before.stages for name, value in zip(s.shooting.entries, s.sd, strict=True)}
    sd = np.array([known.get(name, value) for name, value in zip(shooting.entries, sd, strict=True)])
    starts, last = shooting.starts, before.stages[-1]
    if last.free is not None or free is not None:
        passed = Variant(problem.values(before.unknowns), *last.starts)
        found = last.shooting.states(passed, shooting.episode, shooting.begin_s)
        kept = np.isfinite(found[0]).all(axis=1) & np.isfinite(found[1]).all(axis=1)
        if last.windows is not None:  # windows that were not fitted know no more than the readings
            within = last.shooting.window_at(shooting.episode, shooting.begin_s)
            kept &= np.isin(within, last.windows)
        starts = (np.where(kept[:, None], found[0], starts[0]), np.where(kept[:, None], found[1], starts[1]))
    return Stage(shooting, starts, sd, last.process, share, free=free)


def _some(shooting: Shooting, few: int) -> np.ndarray | None:
    """Windows for a first stage: runs of two, so that there are seams, spread over all episodes."""
    if shooting.windows <= few:
        return None
    pairs = np.unique(np.linspace(0, shooting.windows // 2 - 1, few // 2).astype(np.int64))
    return np.sort(np.concatenate([2 * pairs, 2 * pairs + 1]))


def _calm(before: Fit, horizon_s: float) -> list[float]:
    """The horizon, cut for episodes in which a window that long would magnify its start too much to be linear."""
    stage = before.stages[-1]
    shooting, found = stage.shooting, []
    for e, each in enumerate(shooting.experiments):
        mine = np.flatnonzero(shooting.episode[shooting.seams] == e)
        most = min(horizon_s, each.end_s - each.begin_s)
        if stage.growth is not None and mine.size:
            grown = float(stage.growth[mine].max())
            length = float(shooting.length[shooting.seams[mine]].max() * shooting.step_s)
            rate = np.log(max(grown, 1.0 + 1e-9)) / length
            most = min(most, max(length if grown < MAGNIFIED else length / 2, np.log(MAGNIFIED) / rate))
        found.append(most)
    return found


def _growth(linear: Linear) -> np.ndarray | None:
    if linear.seam_by_start is None:
        return None
    nv, blocks = linear.shooting.model.nv, np.abs(linear.seam_by_start)
    return np.asarray(np.maximum(blocks[:, :nv, :nv].max(axis=(1, 2)), blocks[:, nv:, nv:].max(axis=(1, 2))))


def _descend(
    state: Fit, method: GaussNewton, progress: Progress, what: str, final: bool
) -> tuple[Fit, int, list[float]]:
    """Steps until they no longer pay. A stage that is not the last needs only to come near."""
    spent, costs = 0, list[float]()
    damping, away = 1e-3, np.inf  # how far from here the slopes were taken, in posterior sd
    enough = method.tolerance if final else 20 * method.tolerance
    again = False  # whether slopes serve a second time
    for step in range(2 * method.max_steps):
        if not again:
            state, rows = _linearised(state, central=False)
            spent += rows
        state = _weighed(state, method)
        costs.append(state.cost)
        progress(step // 2 + 1, f"{what}: cost {state.cost:.6g}", method.max_steps)
        moved, damping, tried, size = _step(state, method, damping)
        spent += tried
        if moved is None and not again:
            break
        gain, state = (0.0, state) if moved is None else (state.cost - moved.cost, moved)
        near = not again or away < NEARBY
        if gain < enough * abs(state.cost) and (not final or (size < 0.1 and near)):
            break
        # a second step by the same slopes costs a tenth of new slopes, and does most of their work
        again, away = not again, size
    if final and method.central:
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
        _, floor = stage.shooting.noise()
        known = method.noise
        sd = np.array([known[name] for name in stage.shooting.entries]) if known else noise_scale(stage, floor)
        stage = replace(stage, sd=sd)
        if stage.free is not None and method.process_noise and len(stage.shooting.seams):
            stage = replace(stage, process=process_noise(stage, method.robust))
        linear = stage.linear
        assert linear is not None
        reduced = reduce(linear, weights(stage, linear.gap, method.robust), seam_weight(stage), faint(stage))
        cost = stage_cost(stage, linear.gap, linear.seam, method.robust)
        stages.append(replace(stage, reduced=reduced, cost=cost, growth=_growth(linear)))
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
    for attempt in range(5):
        # mostly the first does what it promised; where not, three are tried at once
        factors = [damping * f for f in ((0.1,) if attempt == 0 else (1.0, 30.0, 1000.0))]
        steps = [box_step(hessian, gradient, *room, factor) for factor in factors]
        if attempt == 0 and _promised(state, hessian, steps[0]) < NOTHING:
            break
        tried = _tried(state, steps, method.robust)
        spent += len(steps) * sum(map(_rolled, state.stages))
        gains = [state.cost - each.cost for each in tried]
        k = int(np.argmax(gains))
        if gains[k] > 0 and (attempt > 0 or gains[k] > 0.25 * _promised(state, hessian, steps[k])):
            spread = np.sqrt(np.diag(np.linalg.pinv(hessian + np.diag(1 / problem.width**2))))
            return tried[k], max(factors[k], 1e-7), spent, float(np.max(np.abs(steps[k]) / spread))
        damping = factors[-1] * 10 if attempt == 0 else factors[-1] * 30
    return None, damping, spent, 0.0


def _promised(state: Fit, hessian: np.ndarray, step: np.ndarray) -> float:
    """How much the cost would fall if the problem were linear: by the step, and by what the starts do alone."""
    starts = sum(s.share * float(s.reduced.explained.sum()) for s in state.stages if s.reduced is not None)
    return float(state.gradient @ step - 0.5 * step @ hessian @ step) + 0.5 * starts


def _tried(state: Fit, steps: Sequence[np.ndarray], robust: float) -> list[Fit]:
    """The fits after each step, with their costs: all in one rollout a stage."""
    moved = [state.unknowns + step for step in steps]
    stages: list[list[Stage]] = [[] for _ in steps]
    for stage in state.stages:
        shooting, variants = stage.shooting, []
        assert stage.reduced is not None
        for step, unknowns in zip(steps, moved, strict=True):
            starts = stage.starts
            if stage.free is not None:
                change = stage.reduced.starts_step(step, shooting.windows, 2 * shooting.model.nv)
                starts = shooting.moved(*stage.starts, change)
            variants.append(Variant(state.problem.values(unknowns), *starts))
        rolled: Rolled = shooting.roll(variants, stage.windows)
        for k, variant in enumerate(variants):
            cost = stage_cost(stage, rolled.gap[k], rolled.seam[k], robust)
            # the slopes are those of the point before
            linear = replace(stage.linear, gap=rolled.gap[k], seam=rolled.seam[k]) if stage.linear else None
            stages[k].append(replace(stage, starts=(variant.qpos, variant.qvel), cost=cost, linear=linear))
    return [replace(state, unknowns=unknowns, stages=tuple(s)) for unknowns, s in zip(moved, stages, strict=True)]


def check_started(found: Fit) -> None:
    """A fit that no window survived says so."""
    for stage in found.stages:
        bounds, gap = stage.shooting.bounds, None if stage.linear is None else stage.linear.gap
        whole = [gap is None or np.isfinite(gap[a:b]).all() for a, b in pairwise(bounds)]
        if not any(whole):
            raise PosteriorError(
                "every rollout diverged at the best parameters that were found. Check the scene's masses, time step "
                "and contacts with a short simulation, or start from other values."
            )
