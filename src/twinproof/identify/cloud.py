"""The point estimate for contact: Gauss–Newton whose slopes are regressed over a cloud of unknowns that shrinks.

A tossed cube lands on another face for a hair's breadth of a difference. Slopes by finite differences then belong to
single impacts and say nothing of where the optimum lies, and a fit that trusts them stops at once.

each step   a cloud of points around the best one, all windows of all horizons rolled under each of them
            → slopes of every gap by regression; what they leave over (chaos) counts as noise of that gap
            → a few damped steps tried; the best of them and of the cloud is the next centre, and the cloud shrinks

Take `GaussNewton` where motion is smooth (arms, pendulums, free motion): it needs fewer rollouts and refines starts.
Take this where things hit, tumble or slide, and short and long horizons are to be explained at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.identify.checkpoint import Checkpoint, chance, resume
from twinproof.identify.fit import Fit, prior_cost
from twinproof.identify.problem import Problem
from twinproof.identify.weigh import LOST, Stage
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.progress import Progress, quiet
from twinproof.sim.least_squares import Linear, box_step, reduce
from twinproof.sim.shooting import Shooting, Variant

if TYPE_CHECKING:
    from jaxtyping import Float, Int

States = Callable[[Shooting], tuple[np.ndarray, np.ndarray]]  # qpos (W, nq) and qvel (W, nv) of its windows' starts
Cut = tuple[Shooting, tuple[np.ndarray, np.ndarray]]  # windows of one horizon and their starts
DAMPING = (1e-3, 1e-2, 0.1, 1.0)
REACH = 4.0  # how far a step may go, in spreads of the cloud
FINEST = 0.01  # the cloud shrinks no further than this share of the range
SETTLED = 4  # steps after which the scales of gaps stay as they are
BINS, FEWEST = 16, 40  # horizons that gaps have scales of their own at, and the gaps that one needs
MEMORY = 0.5  # weight of the points of the cloud before
ODD = (0.25, 3.0)  # how much narrower or wider than usual a cloud may be along one unknown
SUREST = 0.1  # a scale is at least this share of its entry's usual one: the first samples are right by themselves


@dataclass(frozen=True)
class CloudNewton:
    """Several horizons at once from measured starts, a robust loss, slopes over a cloud.

    Each gap is scaled by what is usual for its entry at its horizon; a large one counts by its size, not its square.
    """

    horizons_s: tuple[float, ...] = (0.11, math.inf)  # infinite: whole episodes
    points: int | None = None  # of a cloud; None: four more than two for each parameter
    spread: float = 0.06  # sd of the first cloud, as a share of each unknown's range
    shrink: float = 0.8
    steps: int = 5  # on all horizons at once
    alone: int = 4  # steps before, on the shortest horizon alone: there slopes are clearest, and rollouts cheap

    def __post_init__(self) -> None:
        if not self.horizons_s or min(self.horizons_s) <= 0:
            raise ConfigError(f"horizons of {self.horizons_s} s were asked for. Give one or more, each above zero.")
        if not (0 < self.spread <= 0.5 and 0 < self.shrink <= 1 and self.steps >= 1 and self.alone >= 0):
            raise ConfigError(
                f"a cloud with spread {self.spread}, shrink {self.shrink} and {self.alone} + {self.steps} steps was "
                "asked for. The spread and the shrink lie above zero, up to 0.5 and 1, and the steps on all horizons "
                "are one or more."
            )

    def size(self, parameters: int) -> int:
        """Points of a cloud, an even number, enough to regress on."""
        asked = 2 * parameters + 4 if self.points is None else self.points
        if asked < parameters + 2:
            raise ConfigError(
                f"a cloud of {asked} points cannot show the slopes by {parameters} parameters. Give at least "
                f"{parameters + 2} points."
            )
        return asked + asked % 2


def fit_cloud(
    problem: Problem,
    method: CloudNewton,
    rng: np.random.Generator,
    start: np.ndarray | None = None,
    progress: Progress = quiet,
    states: States | None = None,
    keep: Checkpoint | None = None,
) -> Fit:
    """The best unknowns from one start (the nominal ones where None), with slopes as the last cloud shows them.

    `states` gives windows their starts where the recording knows more than its readings say, such as velocities:
    without it they are smoothed readings, which are a little wrong beside an impact. `keep` remembers finished steps.
    """
    shootings = [problem.shooting(horizon_s) for horizon_s in sorted(method.horizons_s)]
    cuts = [(each, each.starts if states is None else states(each)) for each in shootings]
    low, high = problem.span
    count, alone = method.size(len(problem.ids)), method.alone if len(cuts) > 1 else 0
    kept = keep.load("cloud") if keep else None
    if kept is None:
        at = problem.nominal if start is None else np.array(start)
        path = _Path(at, method.spread, np.ones(len(at)))
    else:
        path = _Path.of_arrays(kept, cuts)
        resume(rng, kept["rng"])
    for step in range(len(path.history), alone + method.steps + 1):
        seen, done = (cuts[:1], step) if step < alone else (cuts, step - alone)
        points = _around(path.at, path.spread * path.shape * (high - low), (low, high), count, rng)
        cloud = _Cloud(points, _roll(problem, seen, points), path.before if done else None)
        sets = path.sets
        if done < SETTLED:
            sets = tuple(_Set.around(*cut, gap[0]) for cut, gap in zip(seen, cloud.gaps, strict=True))
        stages = [_stage(problem, each, cloud, k) for k, each in enumerate(sets)]
        here = Fit(problem, path.at, tuple(replace(each, share=1 / len(sets)) for each in stages))
        progress(step + 1, f"cost {here.cost:.6g}, cloud {path.spread:.1%} of the ranges", alone + method.steps + 1)
        last = step == alone + method.steps
        tried = points[:0] if last else _steps(here, REACH * path.spread * (high - low))
        rolled = path.rolled + (len(points) + len(tried)) * sum(cut[0].windows for cut in seen)
        path = replace(path, sets=sets, history=(*path.history, here.cost), rolled=rolled)
        if not last:
            before = cloud.with_points(tried, _roll(problem, seen, tried))
            at = before.points[int(np.argmin(_costs(problem, sets, before)))]
            spread = max(path.spread * method.shrink, min(FINEST, path.spread))
            path = replace(path, at=at, spread=spread, shape=_shape(here, high - low), before=before)
            if keep:
                keep.save("cloud", path.arrays() | {"rng": chance(rng)})
    return replace(here, history=path.history, rollouts=path.rolled)


@dataclass(frozen=True, eq=False)
class _Path:
    """How far the search has come: the next centre, its cloud's width, and what the step before left."""

    at: Float[np.ndarray, "G"]
    spread: float
    shape: Float[np.ndarray, "G"]
    sets: tuple[_Set, ...] = ()
    before: _Cloud | None = None
    history: tuple[float, ...] = ()
    rolled: int = 0

    def arrays(self) -> dict[str, np.ndarray]:
        """The same after a step, to be kept."""
        assert self.before is not None
        found = {"at": self.at, "shape": self.shape, "points": self.before.points, "history": np.array(self.history)}
        found |= {"spread": np.array(self.spread), "rolled": np.array(self.rolled)}
        for k, (each, gap) in enumerate(zip(self.sets, self.before.gaps, strict=True)):
            found |= {f"scale{k}": each.scale, f"gap{k}": gap}
        return found

    @staticmethod
    def of_arrays(kept: Mapping[str, np.ndarray], cuts: Sequence[Cut]) -> _Path:
        """What was kept, on the same windows."""
        known = [k for k in range(len(cuts)) if f"gap{k}" in kept]
        sets = tuple(_Set(*cuts[k], kept[f"scale{k}"]) for k in known)
        before = _Cloud(kept["points"], [kept[f"gap{k}"] for k in known])
        history = tuple(kept["history"].tolist())
        return _Path(kept["at"], float(kept["spread"]), kept["shape"], sets, before, history, int(kept["rolled"]))


@dataclass(frozen=True, eq=False)
class _Cloud:
    """Points and their gaps (points, M), horizon by horizon; the centre is the first. It remembers the one before."""

    points: Float[np.ndarray, "points G"]
    gaps: list[np.ndarray]
    before: _Cloud | None = None

    def with_points(self, points: np.ndarray, gaps: Sequence[np.ndarray]) -> _Cloud:
        """The same with more points, without a memory."""
        return _Cloud(np.vstack([self.points, points]), [np.vstack(both) for both in zip(self.gaps, gaps, strict=True)])

    def known(self, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Points, gaps at horizon k and weights, of this cloud and of the one before."""
        if self.before is None:
            return self.points, self.gaps[k], np.ones(len(self.points))
        points = np.vstack([self.points, self.before.points])
        weight = np.r_[np.ones(len(self.points)), np.full(len(self.before.points), MEMORY)]
        return points, np.vstack([self.gaps[k], self.before.gaps[k]]), weight


@dataclass(frozen=True, eq=False)
class _Set:
    """The windows of one horizon with their starts and the scale of every gap."""

    shooting: Shooting
    starts: tuple[np.ndarray, np.ndarray]
    scale: Float[np.ndarray, "M"]

    @staticmethod
    def around(shooting: Shooting, starts: tuple[np.ndarray, np.ndarray], gap: np.ndarray) -> _Set:
        """Scales from the gaps of one point: the robust sd of each entry at each horizon."""
        bins, noise = _bins(shooting), shooting.noise[0]
        scale = np.empty(len(gap))
        for i in range(len(shooting.entries)):
            mine = shooting.entry == i
            usual = _robust(gap[mine])
            for b in np.unique(bins[mine]):
                rows = mine & (bins == b)
                scale[rows] = max(_robust(gap[rows]), SUREST * usual, noise[i], 1e-9)
        return _Set(shooting, starts, scale)

    def cost(self, gap: np.ndarray) -> float:
        """Pseudo-Huber: squares of small gaps, sizes of large ones; what diverged counts as far off."""
        scaled = np.where(np.isfinite(gap), gap / self.scale, LOST)
        return float(np.sum(np.sqrt(1 + scaled**2) - 1))


def _robust(gap: np.ndarray) -> float:
    seen = gap[np.isfinite(gap)]
    return 1.4826 * float(np.median(np.abs(seen))) if seen.size else 0.0


def _bins(shooting: Shooting) -> Int[np.ndarray, "M"]:
    """For each gap one of at most BINS horizons, with about as many gaps in each."""
    count = max(1, min(BINS, len(shooting.horizon) // (FEWEST * len(shooting.entries))))
    edges = np.quantile(shooting.horizon, np.arange(1, count) / count)
    return np.searchsorted(edges, shooting.horizon, side="right")


def _around(
    at: np.ndarray, sd: np.ndarray, span: tuple[np.ndarray, np.ndarray], count: int, rng: np.random.Generator
) -> Float[np.ndarray, "points G"]:
    """The point itself, and pairs on opposite sides of it, all equally far off; cut at the limits."""
    away = rng.normal(size=(count // 2, len(at)))
    away *= np.sqrt(len(at)) / np.linalg.norm(away, axis=1, keepdims=True)
    return np.vstack([at, np.clip(at + sd * np.vstack([away, -away]), *span)])


def _roll(problem: Problem, cuts: Sequence[Cut], points: np.ndarray) -> list[np.ndarray]:
    """Gaps (points, M) of every horizon."""
    values = [problem.values(point) for point in points]
    return [shooting.roll([Variant(value, *starts) for value in values]).gap for shooting, starts in cuts]


def _stage(problem: Problem, of: _Set, cloud: _Cloud, k: int) -> Stage:
    """The cloud's linear problem: slopes by regression, and weights in which what they leave over counts as noise."""
    shooting, columns = of.shooting, problem.columns
    points, gap, share = cloud.known(k)
    rows, root = shooting.episode[shooting.window], np.sqrt(share)[:, None]
    fitted, left = np.empty(gap.shape[1]), np.empty(gap.shape[1])
    slopes = np.empty((gap.shape[1], columns.shape[1]))
    seen = np.isfinite(gap).all(axis=0)
    solid = np.where(seen, gap, 0.0)
    for own in np.unique(columns, axis=0):
        mine = np.flatnonzero((columns[rows] == own).all(axis=1))
        design = np.column_stack([np.ones(len(points)), points[:, own] - points[0, own]])
        found = np.linalg.pinv(design * root) @ (solid[:, mine] * root)
        off = np.square((solid[:, mine] - design @ found) * root)
        left[mine] = off.sum(axis=0) / max(1.0, share.sum() - len(own) - 1)
        # Slopes that explain no more than chance would are noise, and noise in slopes would shorten every step.
        shown = np.square(design[:, 1:] @ found[1:] * root).sum(axis=0)
        told = np.maximum(0.0, 1 - len(own) * left[mine] / np.maximum(shown, 1e-300))
        fitted[mine], slopes[mine] = found[0], -(told * found[1:]).T
    variance = of.scale**2 + left
    weight = np.where(seen, 1 / (variance * np.sqrt(1 + fitted**2 / variance)), 0.0)
    nothing = np.zeros((len(shooting.seams), 2 * shooting.model.nv))
    linear = Linear(shooting, np.where(seen, fitted, np.nan), slopes, None, nothing, None, None, columns)
    reduced = reduce(linear, weight, None)
    noise, still = shooting.noise[0], np.zeros(len(problem.experiments))
    return Stage(shooting, of.starts, noise, still, linear=linear, reduced=reduced, cost=of.cost(cloud.gaps[k][0]))


def _shape(here: Fit, width: np.ndarray) -> Float[np.ndarray, "G"]:
    """How wide the cloud is along each unknown, around one: less where gaps move much with it."""
    moved = np.sqrt(np.maximum(np.diag(here.information), 1e-30)) * width
    shape: np.ndarray = np.clip(np.exp(np.mean(np.log(moved))) / moved, *ODD)
    return shape


def _steps(here: Fit, reach: np.ndarray) -> Float[np.ndarray, "steps G"]:
    """Where a few damped steps lead, and half of one of them."""
    problem = here.problem
    low, high = problem.span
    room = np.maximum(low - here.unknowns, -reach), np.minimum(high - here.unknowns, reach)
    hessian = here.information + np.diag(problem.prior()[1])
    found = [box_step(hessian, here.gradient, *room, damping) for damping in DAMPING]
    steps: np.ndarray = np.clip(here.unknowns + np.stack([*found, found[1] / 2]), low, high)
    return steps


def _costs(problem: Problem, sets: Sequence[_Set], cloud: _Cloud) -> list[float]:
    """The cost of every point."""
    return [
        sum(each.cost(gap[k]) for each, gap in zip(sets, cloud.gaps, strict=True)) / len(sets)
        + prior_cost(problem, point)
        for k, point in enumerate(cloud.points)
    ]
