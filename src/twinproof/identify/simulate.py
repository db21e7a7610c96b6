"""Synthetic recordings of the same experiments under other unknowns, and the few numbers that sum each of them up.

unknowns ── windows from the fitted starts, jittered ──> readings + noise + quantisation ──> gaps to the fit ──> summary

The summary is the fit's own: the pull of the gaps on every unknown after the starts are eliminated, in posterior sd,
which is all that a linear problem knows; and by how much each signal's gaps grew, which shows where it is not linear. A
window's end against the next one's start is data as well: under the truth it has process noise alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from twinproof.identify.checkpoint import Checkpoint, chance, resume
from twinproof.identify.fit import Fit, GaussNewton
from twinproof.identify.laplace import covariance_of, widening
from twinproof.identify.problem import Problem
from twinproof.identify.weigh import LOST, Stage, seam_weight, weights
from twinproof.nouns.belief import normalised
from twinproof.nouns.errors import PosteriorError
from twinproof.nouns.hashing import Json
from twinproof.nouns.progress import Progress, quiet
from twinproof.sim.shooting import Shooting, Variant

if TYPE_CHECKING:
    from jaxtyping import Float

AT_ONCE = 64  # data sets in one rollout
FAR = 100.0  # a pull of so many sd says no more than that the point is far away


@dataclass(frozen=True, eq=False)
class Operator:
    """How gaps and seams pull at the unknowns of a stage, once its starts are eliminated: linear in both."""

    gap: Float[np.ndarray, "M G"]
    seam: Float[np.ndarray, "S 2nv G"]

    def score(self, gap: np.ndarray, seam: np.ndarray) -> Float[np.ndarray, "K G"]:
        """The pulls of K data sets: gaps (K, M) and seams (K, S, 2nv)."""
        found: np.ndarray = gap @ self.gap + np.einsum("ksi,sig->kg", seam, self.seam)
        return found


def operator(stage: Stage, robust: float) -> Operator:
    """The operator of a stage that was linearised and reduced."""
    linear, reduced = stage.linear, stage.reduced
    if linear is None or reduced is None:
        raise PosteriorError("the fit's stage has no linearised problem to sum a recording up with. Fit it first.")
    shooting, total = stage.shooting, linear.width
    weight = weights(stage, linear.gap, robust)
    group = shooting.group[shooting.window]
    by_unknown = np.zeros((len(linear.gap), total))
    np.put_along_axis(by_unknown, linear.columns[group], linear.by_parameter, axis=1)
    seams, width = shooting.seams, 2 * shooting.model.nv
    by_seam = np.zeros((len(seams), width, total))
    if linear.by_start is None:
        return Operator(by_unknown * weight[:, None], by_seam)
    mixed = np.zeros((shooting.windows, width, total))
    for mine, _, spread in reduced.back:
        mixed[mine] = spread.reshape(len(mine), width, total)
    by_unknown -= np.einsum("mi,mig->mg", linear.by_start, mixed[shooting.window])
    inverse = seam_weight(stage)
    if inverse is not None and linear.seam_by_start is not None and linear.seam_by_parameter is not None:
        columns = np.broadcast_to(linear.columns[shooting.group[seams]][:, None], linear.seam_by_parameter.shape)
        np.put_along_axis(by_seam, columns, linear.seam_by_parameter, axis=2)
        by_seam -= linear.seam_by_start @ mixed[seams] - mixed[seams + 1]
        by_seam = -inverse @ by_seam  # a seam is the end minus the next start: the gap that is left has the other sign
        by_seam[~np.isfinite(linear.seam).all(axis=1)] = 0.0  # a window that diverged ends nowhere
    return Operator(by_unknown * weight[:, None], by_seam)


@dataclass(eq=False)
class Simulator:
    """Recordings like the one that was fitted, under any unknowns, each summed up in a few numbers.

    `jitters` sets of starts are drawn around the fitted ones, as uncertain as the readings leave them; each data set
    takes one of these. Windows that diverge count as far away.
    """

    fitted: Fit
    rng: np.random.Generator
    jitters: int = 8
    robust: float = GaussNewton.robust
    scatter: bool = True  # whether stretches of a recording disagree as they do in the one that was fitted
    rollouts: int = field(default=0, init=False)  # windows simulated so far

    @property
    def problem(self) -> Problem:
        """The question."""
        return self.fitted.problem

    @cached_property
    def operators(self) -> tuple[Operator, ...]:
        """One for each stage."""
        return tuple(operator(stage, self.robust) for stage in self.fitted.stages)

    @cached_property
    def whitening(self) -> Float[np.ndarray, "G G"]:
        """Turns pulls into units of their own sd; what nothing tells has the prior's."""
        hessian = self.fitted.information + np.diag(1 / np.square(self.problem.width))
        values, vectors = np.linalg.eigh(hessian)
        found: np.ndarray = (vectors / np.sqrt(np.maximum(values, values[-1] * 1e-14))).T
        return found

    @cached_property
    def excess(self) -> Float[np.ndarray, "G G"]:
        """The root of how much more the whitened pulls scatter than noise alone makes them (jitter, model error).

        Late commands and what else the model misses are not simulated. How far stretches of the recording disagree says
        what they add; without it, networks would be as sure as the inverse Hessian, which is far too sure.
        """
        covariance = covariance_of(self.fitted)
        widened = widening(self.fitted, covariance)
        values, vectors = np.linalg.eigh(covariance * (np.outer(widened, widened) - 1))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        found: np.ndarray = self.whitening @ np.linalg.solve(covariance, root)
        return found

    @property
    def observed(self) -> Float[np.ndarray, "D"]:
        """The recording's own summary."""
        gaps, seams = [], []
        for stage in self.fitted.stages:
            assert stage.linear is not None
            gaps.append(stage.linear.gap[None])
            seams.append(stage.linear.seam[None])
        return np.asarray(self._summary(gaps, seams)[0])

    def summaries(self, unknowns: np.ndarray, progress: Progress = quiet) -> Float[np.ndarray, "K D"]:
        """The summaries of a synthetic recording under each row of `unknowns` (K, G)."""
        found = []
        for first in range(0, len(unknowns), AT_ONCE):
            some = unknowns[first : first + AT_ONCE]
            parts = [self._gaps(k, some) for k in range(len(self.fitted.stages))]
            told = self._summary([gap for gap, _ in parts], [seam for _, seam in parts])
            if self.scatter:
                told[:, : len(self.excess)] += self.rng.normal(size=(len(some), len(self.excess))) @ self.excess.T
            found.append(told)
            progress(min(first + AT_ONCE, len(unknowns)), "simulations", len(unknowns))
        return np.concatenate(found)

    def _gaps(self, k: int, unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Synthetic gaps (K, M) and seams (K, S, 2nv) of stage k, as the fitted unknowns would leave them."""
        stage = self.fitted.stages[k]
        shooting, (starts, base_gap, base_seam) = stage.shooting, self._bases[k]
        which = self.rng.integers(len(starts), size=len(unknowns))
        variants = [Variant(self.problem.values(row), *starts[j]) for row, j in zip(unknowns, which, strict=True)]
        rolled = shooting.roll(variants)
        self.rollouts += len(variants) * shooting.windows
        floor, measured = self._grids[k]
        sd, entry = stage.sd, shooting.entry
        gap = base_gap[which] - rolled.gap  # what these unknowns show beyond what the fitted ones do
        noise = np.sqrt(np.maximum(np.square(sd) - np.square(floor), np.square(0.1 * sd)))[entry]
        gap += noise * self.rng.normal(size=gap.shape)
        step = np.sqrt(12) * floor[entry]
        coarse = np.isfinite(measured) & (floor[entry] > 1e-8) & (step > 0.5 * noise)
        if coarse.any():  # round what the sensor would read, not its gap: at rest it reads the same again and again
            shown = measured[coarse] - base_gap[which][:, coarse]
            gap[:, coarse] = np.round((shown + gap[:, coarse]) / step[coarse]) * step[coarse] - shown
        gap = np.clip(np.where(np.isfinite(gap), gap, LOST * sd[entry]), -LOST * sd[entry], LOST * sd[entry])
        seam = np.nan_to_num(base_seam[which] - rolled.seam) + self._process(stage, len(unknowns))
        return gap, seam

    def _process(self, stage: Stage, count: int) -> np.ndarray:
        inverse = seam_weight(stage)
        shape = (count, len(stage.shooting.seams), 2 * stage.shooting.model.nv)
        drawn = np.zeros(shape)
        if inverse is not None and stage.free is not None:
            loose = np.flatnonzero(np.r_[stage.free, stage.free])
            root = np.linalg.cholesky(np.linalg.inv(inverse[:, loose[:, None], loose]))
            drawn[..., loose] = np.einsum("sij,ksj->ksi", root, self.rng.normal(size=(*shape[:2], len(loose))))
        return drawn

    @cached_property
    def _bases(self) -> list[tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray, np.ndarray]]:
        """For each stage its jittered starts, and what the fitted unknowns give from them."""
        found = []
        for stage in self.fitted.stages:
            starts = [self._jittered(stage) for _ in range(self.jitters)]
            values = self.problem.values(self.fitted.unknowns)
            rolled = stage.shooting.roll([Variant(values, *each) for each in starts])
            self.rollouts += self.jitters * stage.shooting.windows
            found.append((starts, rolled.gap, np.nan_to_num(rolled.seam)))
        return found

    def _jittered(self, stage: Stage) -> tuple[np.ndarray, np.ndarray]:
        """Starts drawn as uncertain as the readings of their own window leave them."""
        linear, shooting = stage.linear, stage.shooting
        if linear is None or linear.by_start is None or stage.free is None:
            return stage.starts
        width = linear.by_start.shape[1]
        change = np.zeros((shooting.windows, width))
        weight = weights(stage, linear.gap, self.robust)
        least = np.r_[np.full(width // 2, 1e4), np.full(width // 2, 1e2)]  # no start is off by more than 1 cm, 0.1 m/s
        for w in range(shooting.windows):
            rows = slice(int(shooting.bounds[w]), int(shooting.bounds[w + 1]))
            J = linear.by_start[rows] * np.sqrt(weight[rows])[:, None]
            change[w] = np.linalg.solve(np.linalg.cholesky(J.T @ J + np.diag(least)).T, self.rng.normal(size=width))
        return shooting.moved(*stage.starts, change * np.r_[stage.free, stage.free])

    @cached_property
    def _grids(self) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(stage.shooting.noise[1], measured(stage.shooting)) for stage in self.fitted.stages]

    def _summary(self, gaps: list[np.ndarray], seams: list[np.ndarray]) -> Float[np.ndarray, "K D"]:
        pulls, sizes = np.zeros((len(gaps[0]), len(self.fitted.unknowns))), []
        for stage, each, gap, seam in zip(self.fitted.stages, self.operators, gaps, seams, strict=True):
            gap, seam = np.nan_to_num(gap), np.nan_to_num(seam)
            pulls += stage.share * each.score(gap, seam)
            for e, sd in enumerate(stage.sd):
                mine = gap[:, stage.shooting.entry == e] / sd
                sizes.append(0.5 * np.log(np.mean(np.square(mine), axis=1) + 1e-6) if mine.size else np.zeros(len(gap)))
        return np.column_stack([np.clip(pulls @ self.whitening.T, -FAR, FAR), *sizes])


def measured(shooting: Shooting) -> Float[np.ndarray, "M"]:
    """What was read where each gap is taken; NaN for poses, whose gaps are no differences of numbers."""
    found = np.full(len(shooting.entry), np.nan)
    time_s = shooting.begin_s[shooting.window] + shooting.horizon
    episode = shooting.episode[shooting.window]
    for e, each in enumerate(shooting.experiments):
        for reading in each.readings:
            if reading.kind == "pose":
                continue
            for column, name in enumerate(reading.entries):
                mine = np.flatnonzero((episode == e) & (shooting.entry == shooting.entries.index(name)))
                near = np.clip(np.searchsorted(reading.time_s, time_s[mine] - 1e-7), 0, len(reading.time_s) - 1)
                found[mine] = reading.value[near, column]
    return found


@dataclass(frozen=True, eq=False)
class Region:
    """Where simulations are drawn: evenly in a box along the posterior's own axes, cut at the limits.

    centre + root @ z with |z| ≤ 1. An even prior is even in it too, so no draw needs a correction for the cut.
    """

    problem: Problem
    centre: Float[np.ndarray, "G"]
    root: Float[np.ndarray, "G G"]

    def draw(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Unknowns (count, G) and the same as z, each evenly inside."""
        found = np.empty((0, len(self.centre)))
        for _ in range(200):
            z = rng.uniform(-1, 1, (count, len(self.centre)))
            found = np.concatenate([found, z[self.inside(z)]])
            if len(found) >= count:
                return self.unknowns(found[:count]), found[:count]
        raise PosteriorError(
            f"only {len(found)} of {200 * count} points around the fit lie inside the limits: it sits in a corner of "
            "them. Widen the priors' limits, or use Laplace."
        )

    def unknowns(self, z: np.ndarray) -> np.ndarray:
        """Of z."""
        found: np.ndarray = self.centre + z @ self.root.T
        return found

    def inside(self, z: np.ndarray) -> np.ndarray:
        """Whether z is in the box and the unknowns are inside the limits."""
        low, high = self.problem.span
        at = self.unknowns(z)
        found: np.ndarray = (np.abs(z) <= 1).all(axis=1) & (at >= low).all(axis=1) & (at <= high).all(axis=1)
        return found


def region(fitted: Fit, covariance: np.ndarray, times: float) -> Region:
    """The box of so many sd to either side; along no axis longer than the limits allow."""
    problem = fitted.problem
    low, high = problem.span
    scale = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    root = scale[:, None] * vectors * np.sqrt(np.maximum(values, 1e-14)) * times
    # an axis that leaves the limits either way is cut to twice the range: what lies outside would be thrown away
    most = np.min(2 * (high - low)[:, None] / np.maximum(np.abs(root), 1e-300), axis=0)
    return Region(problem, fitted.unknowns, root * np.minimum(most, 1.0))


@dataclass(frozen=True, eq=False)
class Training:
    """What a network learns from: points z of a region, the summaries of data simulated there, and the recording's.

    Summaries are scaled to mean zero and sd one over the simulations.
    """

    region: Region
    z: Float[np.ndarray, "K G"]
    summary: Float[np.ndarray, "K D"]
    observed: Float[np.ndarray, "D"]
    rollouts: int

    def arrays(self) -> dict[str, np.ndarray]:
        """All but the region, to be kept."""
        told = {"z": self.z, "summary": self.summary, "observed": self.observed}
        return told | {"rollouts": np.array(self.rollouts)}

    @property
    def strangeness(self) -> float:
        """The largest number of the recording's summary, in sd of the simulations: beyond four it is unlike them."""
        return float(np.abs(self.observed).max())

    def draws(self, sample: Callable[[int], np.ndarray], count: int) -> tuple[np.ndarray, np.ndarray, dict[str, Json]]:
        """Unknowns inside region and limits out of those that `sample` gives, with log weights for the prior's shape.

        Simulations were even; the prior may not be, and its shape is made up for by weights.
        """
        kept, asked = np.empty((0, self.z.shape[1])), 0
        while len(kept) < count:
            z = sample(count)
            kept, asked = np.concatenate([kept, z[self.region.inside(z)]]), asked + count
            if asked >= 100 * count and len(kept) < count:
                raise PosteriorError(
                    f"only {len(kept)} of {asked} draws of the network lie inside the limits: it learned too little. "
                    "Give it more simulations, or a wider region."
                )
        z = kept[:count]
        unknowns = self.region.unknowns(z)
        centre, precision = self.region.problem.prior()
        log_weights = normalised(-0.5 * np.square(unknowns - centre) @ precision)
        told: dict[str, Json] = {
            "simulations": len(self.z),
            "inside": len(kept) / asked,
            "at_the_region's_edge": float(np.mean(np.abs(z).max(axis=0) > 0.97)),
            "strangeness": self.strangeness,
            "effective_draws": float(1 / np.square(np.exp(log_weights)).sum()),
        }
        return unknowns, log_weights, told


def _check_straight(simulator: Simulator, where: Region, times: float) -> None:
    """Refuses a posterior that bends out of the region: a network would see a short piece of it and be too sure."""
    problem, fitted = where.problem, simulator.fitted
    low, high = problem.span
    wide = np.flatnonzero((np.abs(where.root) / times > 0.25 * (high - low)[:, None]).any(axis=0))
    for k in wide:
        for sign in (-1.0, 1.0):
            axis = sign * where.root[:, k]
            room = np.where(axis > 0, high - where.centre, low - where.centre) / np.where(axis == 0, 1.0, axis)
            step = axis * min(1.0, 0.9 * float(np.min(np.where(axis == 0, np.inf, room))))
            told = simulator.whitening @ fitted.information @ step
            seen = simulator.summaries((where.centre + step)[None])[0, : len(step)]
            if np.abs(seen - told).max() > 3 * times:
                named = [problem.names[i] for i in np.argsort(-np.abs(axis / (high - low)))[:3]]
                raise PosteriorError(
                    f"the recording leaves a combination of {', '.join(named)} open, along a line that bends: "
                    "simulations around the fit would miss most of it. Fix one of them, state a narrower prior, or use "
                    "Laplace."
                )


def training(
    fitted: Fit,
    simulations: int,
    times: float,
    rng: np.random.Generator,
    progress: Progress = quiet,
    keep: Checkpoint | None = None,
) -> Training:
    """Simulations drawn evenly within `times` posterior sd of the fit, the posterior being Laplace's.

    `keep` remembers what was simulated, whole once it is finished.
    """
    covariance = covariance_of(fitted)
    widened = widening(fitted, covariance)
    where = region(fitted, covariance * np.outer(widened, widened), times)
    kept = keep.load("simulations") if keep else None
    if kept is not None:
        resume(rng, kept["rng"])
        return Training(where, kept["z"], kept["summary"], kept["observed"], int(kept["rollouts"]))
    simulator = Simulator(fitted, rng)
    _check_straight(simulator, where, times)
    unknowns, z = where.draw(simulations, rng)
    summary, observed = simulator.summaries(unknowns, progress), simulator.observed
    centre, spread = summary.mean(axis=0), np.maximum(summary.std(axis=0), 1e-9)
    found = Training(where, z, (summary - centre) / spread, (observed - centre) / spread, simulator.rollouts)
    if keep:
        keep.save("simulations", found.arrays() | {"rng": chance(rng)})
    return found
