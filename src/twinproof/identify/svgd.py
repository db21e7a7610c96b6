"""Stein variational gradient descent: particles that the likelihood pulls and that push each other apart.

each mode   particles from its Gaussian ─┬─> gaps and seams of all particles in one rollout ──> their pulls, starts
                                         │   eliminated ──> a Stein step in the mode's own metric ─┐
                                         └───── until particles rest and Stein's identity holds ───┘

Starts are profiled: a particle's windows begin where the linear problem puts them for its unknowns. That problem is the
mode's; a particle that it predicts badly is linearised anew, so lopsided posteriors are followed. Separate modes do not
feel each other. They are kept apart and weighed by their evidence. Where particles find no rest (an unidentified
direction that bends), the mode's Gaussian stands in for them, and the diagnostics say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.identify.fit import Fit
from twinproof.identify.laplace import covariance_of, normal_inside, widening
from twinproof.identify.method import Draws, Method
from twinproof.identify.modes import find_modes, linearised
from twinproof.identify.problem import Problem
from twinproof.identify.simulate import Operator, operator
from twinproof.identify.weigh import LOST
from twinproof.nouns.belief import normalised
from twinproof.nouns.hashing import Json
from twinproof.nouns.progress import Progress, quiet
from twinproof.sim.shooting import Variant

if TYPE_CHECKING:
    from jaxtyping import Float

FARTHEST = 1.0  # posterior sd that a particle moves at most in one step
STILL = 0.03  # root mean square step, in posterior sd, of particles at rest
HOLDS = 0.1  # how far Stein's identity may be off for particles to count as converged
MISSED = 1.0  # twice the log likelihood by which a linear problem may mispredict a particle before it is renewed


@dataclass(frozen=True)
class Svgd(Method):
    """Particles of every mode that scrambled starts find.

    The kernel is linear plus a bell: the linear part makes mean and covariance exact where the posterior is Gaussian,
    which a bell alone does not in many dimensions; the bell follows what is not Gaussian.
    """

    particles: int = 64  # of each mode; at least twice the unknowns
    starts: int = 4  # scrambled over the prior, to look for other modes
    steps: int = 40
    renewals: int = 2  # new linear problems a particle, at most
    widen: bool = True  # as Laplace does where the recording disagrees with itself
    draws: int = 1000
    name = "svgd"

    def infer(self, problem: Problem, fitted: Fit, rng: np.random.Generator, progress: Progress = quiet) -> Draws:
        """Particles turned into draws, mode by mode."""
        modes, spent = find_modes(problem, fitted, self.starts, rng, progress)
        chances = np.exp(normalised(np.array([mode.log_evidence for mode in modes])))
        draws, told = [], list[Json]()
        for mode, chance in zip(modes, chances, strict=True):
            swarm = _Swarm(problem, mode.fitted, self, rng)
            told.append({"chance": round(float(chance), 4), **swarm.run(self.steps, progress)})
            spent += swarm.rollouts
            factors = widening(mode.fitted, covariance_of(mode.fitted)) if self.widen else np.ones(len(swarm.centre))
            count = max(round(self.draws * float(chance)), 1)
            draws.append(spread_out(swarm.unknowns, count, factors, problem.span, rng))
        weights = np.concatenate([np.full(len(d), np.log(c / len(d))) for d, c in zip(draws, chances, strict=True)])
        diagnostics: dict[str, Json] = {
            "modes": told,
            "mode_unknowns": [[round(float(x), 6) for x in mode.unknowns] for mode in modes],
            "converged": all(bool(isinstance(each, dict) and each["converged"]) for each in told),
        }
        return Draws(np.concatenate(draws), normalised(weights), spent, diagnostics)


@dataclass(frozen=True, eq=False)
class Local:
    """A linear problem around one point: predicts gaps and seams near it, and gives their pull."""

    state: Fit
    operators: tuple[Operator, ...]

    @staticmethod
    def of(state: Fit) -> Local:
        """At a state that was linearised."""
        return Local(state, tuple(operator(stage, robust=1e9) for stage in state.stages))

    def starts(self, k: int, unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The best starts of stage k for some unknowns."""
        stage = self.state.stages[k]
        if stage.free is None or stage.reduced is None:
            return stage.starts
        step = unknowns - self.state.unknowns
        change = stage.reduced.starts_step(step, stage.shooting.windows, 2 * stage.shooting.model.nv)
        return stage.shooting.moved(*stage.starts, change)

    def missed(self, k: int, unknowns: np.ndarray, gap: np.ndarray) -> float:
        """The weighted square by which the gaps of stage k are not what this problem predicts."""
        stage = self.state.stages[k]
        linear, step = stage.linear, unknowns - self.state.unknowns
        assert linear is not None
        assert stage.reduced is not None
        columns = linear.columns[stage.shooting.group[stage.shooting.window]]
        told = linear.gap - np.einsum("mp,mp->m", linear.by_parameter, step[columns])
        if linear.by_start is not None:
            change = stage.reduced.starts_step(step, stage.shooting.windows, linear.by_start.shape[1])
            told -= np.einsum("mi,mi->m", linear.by_start, change[stage.shooting.window])
        off = np.nan_to_num((gap - told) / stage.sd[stage.shooting.entry], nan=LOST)
        return float(stage.share * np.square(off).sum())


class _Swarm:
    """The particles of one mode, in coordinates in which its Gaussian is round: unknowns = centre + root @ u."""

    def __init__(self, problem: Problem, fitted: Fit, how: Svgd, rng: np.random.Generator) -> None:
        self.problem, self.fitted, self.how = problem, fitted, how
        self.centre, covariance = fitted.unknowns, covariance_of(fitted)
        scale = np.sqrt(np.diag(covariance))
        values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
        self.root = scale[:, None] * vectors * np.sqrt(np.maximum(values, 1e-14))
        self.inverse = np.linalg.pinv(self.root)
        count = max(how.particles, 2 * len(self.centre))
        middle = self.centre + covariance @ fitted.gradient  # beyond a limit that stopped the fit
        drawn = normal_inside(middle, covariance, self.centre, *problem.span, count, rng)
        self.u: np.ndarray = (drawn - self.centre) @ self.inverse.T
        self.home = Local.of(fitted)
        self.local = [self.home] * len(self.u)
        self.renewed, self.rollouts = np.zeros(len(self.u), dtype=int), 0

    @property
    def unknowns(self) -> Float[np.ndarray, "n G"]:
        """The particles, inside the limits."""
        return np.asarray(np.clip(self.centre + self.u @ self.root.T, *self.problem.span))

    def run(self, steps: int, progress: Progress) -> dict[str, Json]:
        """Moves the particles until they rest; what is to be said about it."""
        pace, moved, best = 0.5, np.inf, (np.inf, 0, self.u)
        began = self.u
        for step in range(steps):
            slope = self.slopes()
            off = stein_gap(self.u, slope)
            best = min(best, (off, step, self.u), key=lambda met: met[0])
            if off > LOST:
                break  # a curved ridge, which no one metric suits
            push = self._tamed(stein_step(self.u, slope)) * pace
            size = np.linalg.norm(push, axis=1, keepdims=True)
            push *= np.minimum(1.0, FARTHEST * np.sqrt(push.shape[1]) / np.maximum(size, 1e-300))
            before = self.u
            self.u = self._inside(self.u + push)
            last, moved = moved, float(np.sqrt(np.mean(np.square(self.u - before))))
            pace *= 0.7 if moved > last else 1.0
            progress(step + 1, f"particles move by {moved:.3f} sd", steps)
            if moved < STILL and off < HOLDS:
                break
        converged = moved < STILL and off < HOLDS
        if not converged:
            off, self.u = best[0], best[2]
        stands_in = off > 1.0
        if stands_in:  # worse than where they began: what the mode's Gaussian says is safer
            self.u = began
        halves = [self.u[i::2].std(axis=0, ddof=1) for i in (0, 1)]
        return {
            "converged": converged,
            "gaussian_stands_in": stands_in,
            "steps": step + 1,
            "moved_sd": moved,
            "stein_gap": off,
            "discrepancy": stein_discrepancy(self.u, slope),
            "halves_differ": float(np.max(np.abs(np.log(halves[0] / np.maximum(halves[1], 1e-12))))),
            "relinearised": int(self.renewed.sum()),
            "particles": len(self.u),
        }

    def slopes(self) -> Float[np.ndarray, "n G"]:
        """The gradient of the log posterior at every particle, by u."""
        pulls, missed = self._pulls(range(len(self.u)))
        again = [int(i) for i in np.flatnonzero(missed > MISSED) if self.renewed[i] < self.how.renewals]
        for i in again:
            self._renew(i)
        if again:
            pulls[again] = self._pulls(again)[0]
        centre, precision = self.problem.prior()
        found: np.ndarray = (pulls - precision * (self.unknowns - centre)) @ self.root
        return found

    def _tamed(self, push: np.ndarray) -> np.ndarray:
        """Steps in each particle's own metric: shorter where its linear problem is stiffer than the mode's.

        Where particles rest does not depend on it.
        """
        found = push.copy()
        for i in [i for i, local in enumerate(self.local) if local is not self.home]:
            own = self.root.T @ (self.local[i].state.information + np.diag(self.problem.prior()[1])) @ self.root
            found[i] = np.linalg.solve(0.5 * (own + np.eye(len(own))), push[i])
        return found

    def _pulls(self, which: range | list[int]) -> tuple[np.ndarray, np.ndarray]:
        """What the recording pulls at some particles, and by how much their linear problems mispredict it."""
        unknowns = self.unknowns
        pulls, missed = np.zeros((len(which), len(self.centre))), np.zeros(len(which))
        for k, stage in enumerate(self.fitted.stages):
            starts = [self.local[i].starts(k, unknowns[i]) for i in which]
            values = [self.problem.values(unknowns[i]) for i in which]
            rolled = stage.shooting.roll([Variant(v, *s) for v, s in zip(values, starts, strict=True)])
            self.rollouts += len(which) * stage.shooting.windows
            for row, i in enumerate(which):
                local, sd = self.local[i], stage.sd[stage.shooting.entry]
                missed[row] += local.missed(k, unknowns[i], rolled.gap[row])
                gap = np.clip(np.where(np.isfinite(rolled.gap[row]), rolled.gap[row], LOST * sd), -LOST * sd, LOST * sd)
                seam = np.nan_to_num(rolled.seam[row])
                pulls[row] += stage.share * local.operators[k].score(gap[None], seam[None])[0]
        return pulls, missed

    def _renew(self, i: int) -> None:
        """A linear problem of the particle's own."""
        unknowns, local = self.unknowns[i], self.local[i]
        starts = [local.starts(k, unknowns) for k in range(len(local.state.stages))]
        state, rolled = linearised(local.state, unknowns, starts)
        self.local[i] = Local.of(state)
        self.renewed[i] += 1
        self.rollouts += rolled

    def _inside(self, u: np.ndarray) -> np.ndarray:
        """The same, reflected at the limits."""
        low, high = self.problem.span
        at = self.centre + u @ self.root.T
        outside = ((at < low) | (at > high)).any(axis=1)
        if not outside.any():
            return u
        at = np.where(at < low, 2 * low - at, at)
        at = np.clip(np.where(at > high, 2 * high - at, at), low, high)
        found: np.ndarray = np.where(outside[:, None], (at - self.centre) @ self.inverse.T, u)
        return found


def stein_step(u: np.ndarray, slope: np.ndarray) -> Float[np.ndarray, "n G"]:
    """The direction in which particles (n, G) with log-density slopes come nearer to the density fastest."""
    count, width = u.shape
    linear = (1 + u @ u.T) / count
    found = linear @ slope + u
    squares = np.square(u[:, None] - u[None]).sum(axis=-1)
    length = max(float(np.median(squares)) / (2 * np.log(count + 1)), 1e-12)
    bell = np.exp(-squares / (2 * length)) / count
    found += bell @ slope + (u * bell.sum(axis=1, keepdims=True) - bell @ u) / length
    step: np.ndarray = found / (2.0 if width > 1 else 1.0)
    return step


def stein_gap(u: np.ndarray, slope: np.ndarray) -> float:
    """How far particles are from Stein's identities E[slope] = 0 and E[u slope] = −1, the worst of all coordinates."""
    at_rest = np.abs(slope.mean(axis=0))
    spread = np.abs(np.mean(u * slope, axis=0) + 1)
    return float(max(at_rest.max(), spread.max()))


def stein_discrepancy(u: np.ndarray, slope: np.ndarray) -> float:
    """The kernelised Stein discrepancy with the inverse multiquadric kernel: zero where particles are the density."""
    count, width = u.shape
    apart = u[:, None] - u[None]
    base = 1 + np.square(apart).sum(axis=-1) / width
    kernel = base**-0.5
    slope_of = -(base**-1.5)[..., None] * apart / width  # by the first argument
    terms = kernel * (slope @ slope.T)
    terms += np.einsum("ijk,jk->ij", slope_of, slope) - np.einsum("ijk,ik->ij", slope_of, slope)
    terms += base**-1.5 - 3 * base**-2.5 * (base - 1) / width
    np.fill_diagonal(terms, 0.0)
    return float(terms.sum() / (count * (count - 1)))


def spread_out(
    particles: np.ndarray,
    count: int,
    factors: np.ndarray,
    span: tuple[np.ndarray, np.ndarray],
    rng: np.random.Generator,
) -> Float[np.ndarray, "count G"]:
    """So many draws with the particles' mean and covariance: each a particle, shrunk a little and jittered by as much.

    `factors` widen every unknown about the mean. Draws are reflected at the limits.
    """
    number, width = particles.shape
    mean = particles.mean(axis=0)
    around = (particles - mean) * np.sqrt(number / max(number - 1, 1))
    share = min((4 / ((width + 2) * number)) ** (1 / (width + 4)), 0.9)  # Silverman's
    chosen = around[rng.integers(number, size=count)] * np.sqrt(1 - share**2)
    chosen += share * rng.normal(size=(count, number)) @ around / np.sqrt(number)
    low, high = span
    at = mean + factors * chosen
    at = np.where(at < low, 2 * low - at, at)
    return np.asarray(np.clip(np.where(at > high, 2 * high - at, at), low, high))
