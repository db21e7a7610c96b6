"""Fits of a force law and of parameters beside it: from torque labels, or from trajectories alone.

labels        command, speed, torque ──law along the log──> torque                 one regression, no simulation
trajectories  windows × columns of the Jacobian ──one driven rollout──> positions  robust Gauss–Newton, own values a run
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import ConfigError, RecordingError
from twinproof.nouns.theta import Theta
from twinproof.sim.actuator_law import ActuatorLaw, torque_of
from twinproof.sim.driven import Driven
from twinproof.sim.law import Chain, Law, Plant
from twinproof.sim.parameters.base import names
from twinproof.sim.windows import Commands, Start

if TYPE_CHECKING:
    from jaxtyping import Float, Int

LAW = "law."
DAMPING = np.array([1e-4, 1e-2, 1.0, 1e2])
NUDGE = 1e-3  # of a parameter's scale, for finite differences


@dataclass(frozen=True)
class Free:
    """A number to be found: a parameter's id, or `law.ACTUATOR.FIELD`. `own` gives every run its own value.

    `scale` is a change that matters; a `prior_sd` holds the value near its start.
    """

    name: str
    start: float
    low: float
    high: float
    scale: float
    own: bool = False
    prior_sd: float | None = None

    def __post_init__(self) -> None:
        if not (self.low <= self.start <= self.high and self.low < self.high and self.scale > 0):
            raise ConfigError(
                f"{self.name} starts at {self.start} with limits {self.low} to {self.high} and scale {self.scale}. The "
                "start lies inside the limits, and the scale is above zero."
            )


@dataclass(frozen=True, eq=False)
class Run:
    """A run on the control clock: what encoders showed, the smoothed states that windows begin with, commands."""

    id: str
    seen: Float[np.ndarray, "T nq"]
    qpos: Float[np.ndarray, "T nq"]
    qvel: Float[np.ndarray, "T nv"]
    commands: Float[np.ndarray, "T nu"]

    def __post_init__(self) -> None:
        lengths = {len(self.seen), len(self.qpos), len(self.qvel), len(self.commands)}
        if len(lengths) > 1:
            raise RecordingError(f"run {self.id}: its signals have {sorted(lengths)} samples. Put them on one clock.")


@dataclass(frozen=True)
class Matching:
    """How trajectories are matched. Lengths count control samples."""

    length: int = 500
    stride: int = 125
    first: int = 50  # a run's first samples are left for commands that are still under way
    every: int = 10
    robust: float = 0.05  # rad: beyond, residuals count less and less
    max_steps: int = 15
    tolerance: float = 1e-4  # relative change of the cost


@dataclass(frozen=True, eq=False)
class Matched:
    """A fit: shared values, each run's own, the law, and the root mean square of what is left (rad)."""

    values: Mapping[str, float]
    own: Mapping[str, Mapping[str, float]]
    law: Law
    rms: float
    steps: int
    rollouts: int

    def theta(self, run: str | None = None) -> Theta:
        """The parameters; those of a run with its own, and without one the own ones are left out."""
        own = {} if run is None else self.own.get(run, {})
        return Theta({k: v for k, v in {**self.values, **own}.items() if not k.startswith(LAW)})


class Windowed:
    """Windows of some runs in one driven rollout."""

    def __init__(self, driven: Driven, runs: Sequence[Run], method: Matching) -> None:
        if driven.model.nq != driven.model.nv:
            raise ConfigError("trajectories are matched on hinges and slides; this model has a free or a ball joint.")
        firsts = [np.arange(method.first, len(run.seen) - method.length, method.stride) for run in runs]
        for run, first in zip(runs, firsts, strict=True):
            if not len(first):
                raise RecordingError(
                    f"run {run.id} has {len(run.seen)} samples; a window of {method.length} after the first "
                    f"{method.first} needs more. Shorten the windows, or leave the run out."
                )
        self.driven, self.runs, self.method = driven, tuple(runs), method
        self.run = np.repeat(np.arange(len(runs)), [len(first) for first in firsts])
        self.first = np.concatenate(firsts)
        self._joints = names(driven.model, "joint")
        span = self.first[:, None] + np.arange(method.length)
        keep = self.first[:, None] + np.arange(method.every, method.length + 1, method.every)
        self.seen = self._of("seen", keep)
        self._sent = self._of("commands", span)
        before = np.maximum(self.first[:, None] + np.arange(-method.first, 0), 0)
        self._past = np.repeat(self._of("commands", before), driven.substeps, axis=1)
        self._q, self._v = self._of("qpos", self.first), self._of("qvel", self.first)

    def _of(self, name: str, places: np.ndarray) -> np.ndarray:
        return np.stack([getattr(self.runs[int(r)], name)[k] for r, k in zip(self.run, places, strict=True)])

    def gaps(self, thetas: Sequence[Sequence[Theta]], laws: Sequence[Law]) -> Float[np.ndarray, "V W samples nq"]:
        """Simulated minus seen positions for V variants: a Theta for each run, and a law. Divergence shows as NaN."""
        variants, windows, count = len(thetas), len(self.first), len(self.runs)
        flat = [theta for variant in thetas for theta in variant]
        which = (np.arange(variants)[:, None] * count + self.run).reshape(-1)
        repeated = [law for law in laws for _ in range(count)]
        step = np.repeat(np.arange(self.method.length), self.driven.substeps)
        commands = Commands(self._sent, np.tile(np.arange(windows), variants), step)
        past = np.tile(self._past, (variants, 1, 1))
        start = Start(np.tile(self._q, (variants, 1)), np.tile(self._v, (variants, 1)), past=past, encoders=True)
        rolled = self.driven.roll_rows(flat, repeated, which, start, commands)
        every = self.method.every
        qpos = rolled["qpos"][:, every - 1 :: every].reshape(variants, windows, -1, self.driven.model.nq)
        offsets = np.array([[theta.get(f"joint.{j}.offset", 0.0) for j in self._joints] for theta in flat])
        shift = offsets[which].reshape(variants, windows, 1, -1)
        gaps: np.ndarray = qpos + shift - self.seen
        return gaps


def match(
    driven: Driven,
    runs: Sequence[Run],
    free: Sequence[Free],
    law: Law,
    method: Matching | None = None,
    known: Mapping[str, float] | None = None,
) -> Matched:
    """Finds the free numbers from trajectories alone; parameters that are `known` hold in all runs."""
    method = method or Matching()
    problem = _Problem(Windowed(driven, runs, method), tuple(free), law, dict(known or {}))
    z = problem.start()
    residuals, costs = problem.costs(z[None])
    residual, cost, damping, steps = residuals[0], float(costs[0]), 1e-3, 0
    low, high = problem.limits
    while steps < method.max_steps:
        steps += 1
        hessian, gradient = problem.normal(z, residual)
        scaled = np.diag(np.diag(hessian) + 1e-12)
        tries = np.stack([z - np.linalg.solve(hessian + d * scaled, gradient) for d in damping * DAMPING])
        tries = np.clip(tries, low, high)
        residuals, costs = problem.costs(tries)
        best = int(np.argmin(costs))
        if costs[best] >= cost:
            damping *= 1e3
            if damping > 1e9:
                break
            continue
        gain = cost - float(costs[best])
        z, residual, cost = tries[best], residuals[best], float(costs[best])
        damping = max(damping * DAMPING[best], 1e-9)
        if gain < method.tolerance * cost:
            break
    shared, own = problem.values(z)
    return Matched(shared, own, problem.law_of(shared), float(np.sqrt(np.mean(residual**2))), steps, problem.rollouts)


class _Problem:
    """The unknowns, in units of their scales: shared ones, then the own ones run by run."""

    def __init__(self, windows: Windowed, free: tuple[Free, ...], law: Law, known: Mapping[str, float]) -> None:
        self.windows, self.law, self.known, self.rollouts = windows, law, known, 0
        self.shared = [each for each in free if not each.own]
        self.own = [each for each in free if each.own]
        wrong = [each.name for each in self.own if each.name.startswith(LAW)]
        if wrong:
            raise ConfigError(
                f"{wrong[0]} cannot differ between runs: a law is shared. Make it shared, or leave it out."
            )
        self.all = self.shared + self.own * len(windows.runs)

    @property
    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        scale = np.array([each.scale for each in self.all])
        return np.array([each.low for each in self.all]) / scale, np.array([each.high for each in self.all]) / scale

    def start(self) -> np.ndarray:
        return np.array([each.start / each.scale for each in self.all])

    def values(self, z: np.ndarray) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
        x = z * [each.scale for each in self.all]
        shared = {each.name: float(x[i]) for i, each in enumerate(self.shared)}
        own = {}
        for r, run in enumerate(self.windows.runs):
            first = len(self.shared) + r * len(self.own)
            own[run.id] = {each.name: float(x[first + k]) for k, each in enumerate(self.own)}
        return shared, own

    def law_of(self, shared: Mapping[str, float]) -> Law:
        changes = {name[len(LAW) :]: value for name, value in shared.items() if name.startswith(LAW)}
        return changed(self.law, changes)

    def residuals(self, zs: np.ndarray) -> np.ndarray:
        thetas, laws = [], []
        for z in zs:
            shared, own = self.values(z)
            mine = {k: v for k, v in shared.items() if not k.startswith(LAW)}
            thetas.append([Theta({**self.known, **mine, **own[run.id]}) for run in self.windows.runs])
            laws.append(self.law_of(shared))
        self.rollouts += len(zs) * len(self.windows.first)
        gaps = self.windows.gaps(thetas, laws)
        # a diverged window counts as half a turn off: far, and finite
        return np.asarray(np.clip(np.nan_to_num(gaps, nan=np.pi), -np.pi, np.pi))

    def costs(self, zs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        residuals, soft = self.residuals(zs), self.windows.method.robust
        cost = (2 * (np.sqrt(1 + (residuals / soft) ** 2) - 1)).sum(axis=(1, 2, 3))
        return residuals, cost + np.array([(self._precision() * (z - self.start()) ** 2).sum() for z in zs])

    def _precision(self) -> np.ndarray:
        return np.array([0.0 if e.prior_sd is None else (e.scale / e.prior_sd) ** 2 for e in self.all])

    def normal(self, z: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Hessian and gradient. An own number of all runs is nudged at once: each moves its own windows alone."""
        soft, count, runs = self.windows.method.robust, len(self.shared), len(self.windows.runs)
        high = self.limits[1]
        groups = [[i] for i in range(count)]
        groups += [[count + r * len(self.own) + k for r in range(runs)] for k in range(len(self.own))]
        sign = np.array([-1.0 if (z[g] + NUDGE > high[g]).any() else 1.0 for g in groups])
        nudged = np.repeat(z[None], len(groups), axis=0)
        for n, group in enumerate(groups):
            nudged[n, group] += sign[n] * NUDGE
        slopes = (self.residuals(nudged) - residual) / (sign * NUDGE)[:, None, None, None]
        weight = 1 / np.sqrt(1 + (residual / soft) ** 2) / soft**2
        hessian, gradient = np.diag(self._precision()), self._precision() * (z - self.start())
        for r in range(runs):
            mine = self.windows.run == r
            J, w, e = slopes[:, mine].reshape(len(groups), -1), weight[mine].ravel(), residual[mine].ravel()
            place = [group[0] if n < count else group[r] for n, group in enumerate(groups)]
            hessian[np.ix_(place, place)] += (J * w) @ J.T
            np.add.at(gradient, place, J @ (w * e))
        return hessian, gradient


def changed(law: Law, values: Mapping[str, float]) -> Law:
    """The law with other numbers; those of a chain belong to its actuators."""
    if not values:
        return law
    if isinstance(law, ActuatorLaw):
        return law.having(values)
    if isinstance(law, Chain):
        return Chain(tuple(each.having(values) if isinstance(each, ActuatorLaw) else each for each in law.laws))
    raise ConfigError(f"a {type(law).__name__} has no numbers that can be fitted here; give an ActuatorLaw.")


@dataclass(frozen=True, eq=False)
class Labels:
    """A log with the net torque on the joints, one sample a physics step; with `at`, measured at these steps alone."""

    command: Float[np.ndarray, "T nu"]
    qvel: Float[np.ndarray, "T nv"]
    torque: Float[np.ndarray, "T nv"]
    at: Int[np.ndarray, "labels"] | None = None

    @property
    def rows(self) -> Int[np.ndarray, "labels"]:
        """The steps whose torque was measured."""
        return np.arange(len(self.command)) if self.at is None else self.at

    @property
    def apart(self) -> int:
        """Physics steps from one label to the next, as a rule."""
        return max(1, int(np.median(np.diff(self.rows)))) if len(self.rows) > 1 else 1


@dataclass(frozen=True, eq=False)
class Regressed:
    """A law fitted to torque labels, and what is left of them, log by log: one column for each actuator of the law."""

    law: ActuatorLaw
    left: tuple[Float[np.ndarray, "labels actuators"], ...]

    @property
    def rms(self) -> float:
        """Root mean square of what is left, N m."""
        return float(np.sqrt(np.mean(np.concatenate(self.left) ** 2)))


def regress(
    law: ActuatorLaw, plant: Plant, logs: Sequence[Labels], free: Sequence[Free], robust: float = 3.0
) -> Regressed:
    """Finds the free numbers of a law from torque labels. `robust` is in units of the labels' typical misfit."""
    from scipy.optimize import least_squares

    fields = [each.name[len(LAW) :] if each.name.startswith(LAW) else each.name for each in free]
    scale = np.array([each.scale for each in free])
    low, high = (np.array([getattr(each, end) for each in free]) / scale for end in ("low", "high"))
    driven: Int[np.ndarray, "joints"] = np.array([plant.dof[plant.actuators.index(name)] for name in law.actuators])

    def left(z: np.ndarray) -> list[np.ndarray]:
        now = law.having(dict(zip(fields, z * scale, strict=True)))
        said = [torque_of(now, plant, log.command, log.qvel) - log.torque for log in logs]
        return [each[np.ix_(log.rows, driven)] for each, log in zip(said, logs, strict=True)]

    def flat(z: np.ndarray) -> np.ndarray:
        parts = np.concatenate([part.ravel() for part in left(z)])
        prior = [(z[i] - e.start / e.scale) * e.scale / e.prior_sd for i, e in enumerate(free) if e.prior_sd]
        return np.concatenate([parts, prior])

    z = np.clip(np.array([each.start for each in free]) / scale, low, high)
    for _ in range(2):  # the second round knows how large a misfit is usual
        usual = 1.4826 * float(np.median(np.abs(flat(z)))) + 1e-12
        z = least_squares(
            flat, z, bounds=(low, high), loss="soft_l1", f_scale=robust * usual, diff_step=1e-4, max_nfev=60
        ).x
    found = law.having(dict(zip(fields, z * scale, strict=True)))
    return Regressed(found, tuple(-part for part in left(z)))
