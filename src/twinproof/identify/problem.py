"""One identification problem: parameters with beliefs, experiments, and the way between natural scale and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from twinproof.identify.beliefs import Belief
from twinproof.nouns.errors import ConfigError
from twinproof.sim.experiment import Experiment
from twinproof.sim.least_squares import Linear, join
from twinproof.sim.pieces import Piece, pieces
from twinproof.sim.shooting import Shooting, Variant

if TYPE_CHECKING:
    from jaxtyping import Float

STEEPEST = 1e9
WIDE_STEP = 0.02  # of the range, where things touch
EPISODE = "episode"  # the label that every episode has: its id


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be found, and from what.

    `own` names parameters that differ between experiments, and by which label: {"body.object.mass": "object"} gives
    every object a mass of its own, {"joint.elbow.offset": "episode"} every episode an offset. The unknowns are the
    shared parameters and then the own ones, value by value of the label; all on their natural scale.
    """

    beliefs: tuple[Belief, ...]
    experiments: tuple[Experiment, ...]
    fixed: Mapping[str, float] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.experiments:
            raise ConfigError("there is nothing to fit: no episode was given.")
        unknown = sorted(set(self.own) - set(self.ids))
        if unknown:
            raise ConfigError(f"{', '.join(unknown)} is to differ between objects, but is no parameter of the fit.")
        for id, key in self.own.items():
            without = [each.id for each in self.experiments if key != EPISODE and key not in each.labels]
            if without:
                raise ConfigError(
                    f"{id} is to differ by {key!r}, and episode {without[0]} has no such label. Label it in the rig."
                )
        late = {f"signal.{reading.name}.delay" for each in self.experiments for reading in each.readings}
        sent = [id for id in self.ids if id.startswith("actuator.") and id.endswith(".delay")]
        if sent and late <= set(self.ids):
            raise ConfigError(
                f"only the sum of {sent[0]} and {min(late)} is determined: a motion that is driven late and one "
                "that is read late look alike. Leave one of them out, fix it, or keep a signal whose stamps are right."
            )
        # every experiment is a group of its own; `columns` says which of them share an unknown
        numbered = tuple(replace(each, group=e) for e, each in enumerate(self.experiments))
        object.__setattr__(self, "experiments", numbered)

    @property
    def ids(self) -> tuple[str, ...]:
        """The parameters' ids."""
        return tuple(belief.id for belief in self.beliefs)

    @staticmethod
    def value(experiment: Experiment, key: str) -> str:
        """An experiment's value of a label; of "episode" it is its id."""
        return experiment.id if key == EPISODE else experiment.labels[key]

    def instances(self, key: str) -> tuple[str, ...]:
        """The values of a label among the experiments, in order."""
        return tuple(sorted({self.value(each, key) for each in self.experiments}))

    @cached_property
    def columns(self) -> np.ndarray:
        """(experiments, P): which unknown each parameter of each experiment is."""
        found = np.empty((len(self.experiments), len(self.ids)), dtype=np.int64)
        count = 0
        for p, id in enumerate(self.ids):
            if id not in self.own:
                found[:, p] = count
                count += 1
        for p, id in enumerate(self.ids):
            if id in self.own:
                known = self.instances(self.own[id])
                found[:, p] = [count + known.index(self.value(each, self.own[id])) for each in self.experiments]
                count += len(known)
        return found

    @cached_property
    def parameter_of(self) -> np.ndarray:
        """For each unknown, the number of its parameter."""
        columns = self.columns
        found = np.empty(int(columns.max()) + 1, dtype=np.int64)
        for row in columns:
            found[row] = np.arange(len(self.ids))
        return found

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Each unknown's name: the parameter's id, with the object or episode where it has its own."""
        found = [""] * len(self.parameter_of)
        for each, row in zip(self.experiments, self.columns, strict=True):
            for id, u in zip(self.ids, row, strict=True):
                found[u] = f"{id} of {self.value(each, self.own[id])}" if id in self.own else id
        return tuple(found)

    @property
    def span(self) -> tuple[np.ndarray, np.ndarray]:
        """Limits of the unknowns."""
        spans = np.array([belief.span for belief in self.beliefs])[self.parameter_of]
        return spans[:, 0], spans[:, 1]

    @property
    def width(self) -> np.ndarray:
        """The priors' sd of the unknowns."""
        return np.asarray(np.array([belief.width for belief in self.beliefs])[self.parameter_of])

    @property
    def nominal(self) -> np.ndarray:
        """The unknowns' nominal values, inside the limits."""
        at = np.array([float(b.info.to_scale(max(b.nominal, b.info.low))) for b in self.beliefs])[self.parameter_of]
        low, high = self.span
        return np.asarray(np.clip(at, low + 1e-6 * (high - low), high - 1e-6 * (high - low)))

    def prior(self) -> tuple[np.ndarray, np.ndarray]:
        """Centre and precision of the normal priors; an even prior has precision zero."""
        centre = np.array([b.prior.mean if b.prior.shape == "normal" else 0.0 for b in self.beliefs], dtype=float)
        precision = np.array([(b.prior.sd or 1.0) ** -2 if b.prior.shape == "normal" else 0.0 for b in self.beliefs])
        return centre[self.parameter_of], precision[self.parameter_of]

    def values(self, unknowns: np.ndarray) -> Float[np.ndarray, "experiments P"]:
        """The parameters of every experiment in SI units."""
        by_group = unknowns[self.columns]
        return np.stack([b.info.from_scale(by_group[:, p]) for p, b in enumerate(self.beliefs)], axis=1)

    def shooting(self, horizon_s: float | Sequence[float], nthread: int = 0) -> Shooting:
        """The experiments cut into windows of about this length, one for all or one for each."""
        return Shooting(self.experiments, self.ids, horizon_s, self.fixed, nthread)

    def with_experiments(self, experiments: Sequence[Experiment]) -> Problem:
        """The same question asked of other experiments."""
        return Problem(self.beliefs, tuple(experiments), self.fixed, self.own)


def linearise(
    problem: Problem,
    shooting: Shooting,
    unknowns: np.ndarray,
    starts: tuple[np.ndarray, np.ndarray],
    *,
    free: np.ndarray | None = None,
    central: bool = False,
    windows: np.ndarray | None = None,
    known: tuple[np.ndarray, np.ndarray] | None = None,
) -> Linear:
    """The problem around a point, by finite differences: all columns of some episodes are rows of one rollout.

    `free` (nv) says whose starts are unknown; the others stay where readings put them. Where only some `windows` are
    asked for, the gaps of the others are NaN. `known` are gaps and seams of the point itself, from when it was tried.
    """
    if shooting.whole:
        return _linearise(problem, shooting, unknowns, starts, free, central, windows, known)

    def part(piece: Piece) -> tuple[Piece, Linear]:
        begin = starts[0][piece.windows], starts[1][piece.windows]
        here = None if known is None else (known[0][piece.rows], known[1][piece.seams])
        some = piece.chosen(windows)
        return piece, _linearise(problem, piece.shooting, unknowns, begin, free, central, some, here)

    return join(shooting, map(part, pieces(shooting)))


def _linearise(
    problem: Problem,
    shooting: Shooting,
    unknowns: np.ndarray,
    starts: tuple[np.ndarray, np.ndarray],
    free: np.ndarray | None,
    central: bool,
    windows: np.ndarray | None,
    known: tuple[np.ndarray, np.ndarray] | None,
) -> Linear:
    qpos, qvel = starts
    low, high = problem.span
    # Contacts chatter: over small steps their slopes mean nothing, and only the mean over a wide one does.
    central = central or shooting.touches
    step = (WIDE_STEP if shooting.touches else 3e-6 if central else 1e-6) * (high - low)
    variants = [Variant(problem.values(unknowns), qpos, qvel)]
    pairs: list[tuple[int, int, float]] = []
    middle: list[float] = []  # where the point lies between the ends
    for p in range(len(problem.ids)):
        mine = np.unique(problem.columns[:, p])
        ends = []
        for sign in (-1, 1):
            moved = unknowns.copy()
            moved[mine] = np.clip(unknowns[mine] + sign * step[mine], low[mine], high[mine])
            ends.append(moved)
        if not central:  # forward, or backward where there is no room
            ends[0] = unknowns if (ends[1][mine] - unknowns[mine] > 0.5 * step[mine]).all() else ends[0]
            ends[1] = ends[1] if ends[0] is unknowns else unknowns
        places = []
        for end in ends:
            places.append(0 if end is unknowns else len(variants))
            if end is not unknowns:
                variants.append(Variant(problem.values(end), qpos, qvel))
        pairs.append((places[0], places[1], float(np.min(ends[1][mine] - ends[0][mine]))))
        middle.append(float((unknowns[mine[0]] - ends[0][mine[0]]) / (ends[1][mine[0]] - ends[0][mine[0]])))
    first_state = len(variants)
    nv = shooting.model.nv
    nudged = np.flatnonzero(np.zeros(2 * nv, dtype=bool) if free is None else np.r_[free, free])
    for k in nudged:
        nudge = np.zeros((shooting.windows, 2 * nv))
        nudge[:, k] = shooting.nudge[k]
        variants.append(Variant(variants[0].values, *shooting.moved(qpos, qvel, nudge)))
    rolled = shooting.roll(variants if known is None else variants[1:], windows)
    gap, seam = rolled.gap, rolled.seam
    if known is not None:
        gap, seam = np.concatenate([known[0][None], gap]), np.concatenate([known[1][None], seam])
    below, above = [p[0] for p in pairs], [p[1] for p in pairs]
    gaps_apart = np.array([p[2] for p in pairs])
    by_parameter = _slope(gap[below], gap[above], gaps_apart).T
    seam_parameter = np.moveaxis(_slope(seam[above], seam[below], gaps_apart[:, None, None]), 0, -1)
    by_start = seam_start = None
    if nudged.size:
        by_start = np.zeros((gap.shape[1], 2 * nv))
        by_start[:, nudged] = _slope(gap[:1], gap[first_state:], shooting.nudge[nudged]).T
        # the seams of a nudged variant also see the next window's start move: that part, −I, is the solver's
        own = (seam[first_state:] - seam[:1]) / shooting.nudge[nudged][:, None, None] + np.eye(2 * nv)[nudged][
            :, None, :
        ]
        seam_start = np.zeros((seam.shape[1], 2 * nv, 2 * nv))
        seam_start[:, :, nudged] = np.clip(np.nan_to_num(np.moveaxis(own, 0, -1)), -STEEPEST, STEEPEST)
    bent = _bent(gap[0], gap[below], gap[above], np.array(middle)) if shooting.touches else None
    return Linear(shooting, gap[0], by_parameter, by_start, seam[0], seam_parameter, seam_start, problem.columns, bent)


def _bent(here: np.ndarray, low: np.ndarray, high: np.ndarray, middle: np.ndarray) -> np.ndarray:
    """The variance by which gaps (M) leave the straight lines between their ends (P, M): there slopes mean little."""
    off = here - (low * (1 - middle)[:, None] + high * middle[:, None])
    return np.asarray(np.square(np.clip(np.nan_to_num(off, nan=STEEPEST), -STEEPEST, STEEPEST)).sum(axis=0))


def _slope(low: np.ndarray, high: np.ndarray, apart: np.ndarray | float) -> np.ndarray:
    """How fast the simulation moves, from gaps (measured minus simulated); zero where one of the two diverged."""
    apart = np.asarray(apart).reshape(-1, *[1] * (high.ndim - 1)) if np.ndim(apart) else apart
    with np.errstate(over="ignore", invalid="ignore"):
        found: np.ndarray = (low - high) / apart
    # a rollout about to diverge has slopes that mean nothing and overflow when squared
    return np.asarray(np.clip(np.nan_to_num(found, posinf=0.0, neginf=0.0), -STEEPEST, STEEPEST))
