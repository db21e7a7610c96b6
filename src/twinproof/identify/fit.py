"""The point estimate: robust Gauss–Newton on multiple-shooting windows, short ones first, then longer ones.

stages          windows of one length or several, each begun where the one before ended; `descend.py` does the steps
process noise   how far a window may end beside where the next begins, by the evidence; zero where the model holds
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from twinproof.identify.checkpoint import Checkpoint
from twinproof.identify.descend import descend
from twinproof.identify.problem import Problem
from twinproof.identify.weigh import MAGNIFIED, Stage
from twinproof.nouns.errors import PosteriorError
from twinproof.nouns.progress import Progress, quiet
from twinproof.sim.shooting import Shooting, Variant

if TYPE_CHECKING:
    from jaxtyping import Float

FREE = 0  # mjtJoint
BEGIN = 0.3  # process noise of a first stage
MAGNIFIES_NOTHING = 2.0


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
    free_starts: bool | None = None  # whether windows' starts are unknowns; None: those of joints, not of free bodies
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
    # and without seams short windows would say less than the longer ones before them. Joints' starts stay free.
    bodies = _of_free_bodies(model)
    asked = ~bodies if method.free_starts is None else np.full(model.nv, method.free_starts)
    free = asked if asked.any() else None
    lengths_s = stages_of(problem, method)
    # A motion that magnifies nothing is first followed over long stretches: short windows say little of a servo.
    calm = free is not None and free.all() and len(lengths_s) > 1 and _calm_motion(problem, unknowns, method.calm_s)
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
        kept = keep.load(f"stage{k}") if keep and not final else None
        if kept is not None:
            found = _restored(problem, stages, kept)
            unknowns = found.unknowns
            rollouts, history = int(kept["rollouts"][0]), kept["history"].tolist()
            continue
        found, spent, costs = descend(
            Fit(problem, unknowns, stages), method, progress, f"stage {k + 1} of {len(lengths_s)}", final
        )
        rollouts += spent
        history += costs
        unknowns = found.unknowns
        if keep and not final:
            spent_so_far = {"rollouts": np.array([rollouts]), "history": np.array(history)}
            keep.save(f"stage{k}", _remembered(found) | spent_so_far)
    assert found is not None
    return replace(found, history=tuple(history), rollouts=rollouts)


def stages_of(problem: Problem, method: GaussNewton) -> tuple[tuple[float, ...], ...]:
    """The window lengths of each stage: bodies whose starts are held need no short windows at the end."""
    held = _of_free_bodies(problem.experiments[0].scene.nominal()).any() and method.free_starts is not True
    return method.horizons_s[:-1] if held and len(method.horizons_s) > 2 else method.horizons_s


def _of_free_bodies(model: Any) -> np.ndarray:
    """Whether each degree of freedom (nv) is of a free body."""
    return np.asarray(np.asarray(model.jnt_type)[np.asarray(model.dof_jntid)] == FREE)


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
    sd, _ = shooting.noise
    if before is None:
        return Stage(shooting, shooting.starts, sd, np.full(len(problem.experiments), BEGIN), share, free=free)
    known = {name: value for s in before.stages for name, value in zip(s.shooting.entries, s.sd, strict=True)}
    sd = np.array([known.get(name, value) for name, value in zip(shooting.entries, sd, strict=True)])
    starts, last = (shooting.starts[0].copy(), shooting.starts[1].copy()), before.stages[-1]
    if last.free is not None or free is not None:
        passed = Variant(problem.values(before.unknowns), *last.starts)
        found = last.shooting.states(passed, shooting.episode, shooting.begin_s)
        kept = np.isfinite(found[0]).all(axis=1) & np.isfinite(found[1]).all(axis=1)
        if last.windows is not None:  # windows that were not fitted know no more than the readings
            within = last.shooting.window_at(shooting.episode, shooting.begin_s)
            kept &= np.isin(within, last.windows)
        for now, passing, each in zip(starts, found, _moves(shooting.model, free), strict=True):
            now[np.ix_(kept, each)] = passing[np.ix_(kept, each)]
    return Stage(shooting, starts, sd, last.process, share, free=free)


def _moves(model: Any, free: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Which numbers of qpos and qvel go on where a stage passed: all but those of bodies whose starts are given."""
    held = _of_free_bodies(model) & ~(np.ones(model.nv, dtype=bool) if free is None else free)
    joints = np.unique(model.dof_jntid[held])
    places = np.ones(model.nq, dtype=bool)
    for joint in joints:
        places[int(model.jnt_qposadr[joint]) : int(model.jnt_qposadr[joint]) + 7] = False
    return np.flatnonzero(places), np.flatnonzero(~held)


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
