"""The point estimate of a problem, from one start or the best of several.

delay scan, torque regression, scattered points ─ the most promising of them ─ each fitted ─ the least profiled cost
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from twinproof.identify import seed
from twinproof.identify.checkpoint import Checkpoint
from twinproof.identify.cloud import CloudNewton, fit_cloud
from twinproof.identify.fit import Fit, GaussNewton, fit
from twinproof.identify.problem import Problem
from twinproof.nouns.hashing import Json
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.strict import plain

Point = GaussNewton | CloudNewton  # ways to the point estimate
Profiles = Callable[[int], list[float]]  # the profiled costs of so many starts, as somebody else fitted them


def best_start(
    problem: Problem,
    point: Point,
    tries: Sequence[np.ndarray],
    rngs: Sequence[np.random.Generator],
    progress: Progress,
    keep: Checkpoint | None,
    profiles: Profiles | None,
) -> tuple[Fit, list[float]]:
    """The best start's fit, and the profiled costs of all. Of a start that was finished before, its cost is known."""
    parts = [keep.within(f"start{k}") if keep else None for k in range(len(tries))]
    fits: dict[int, Fit] = {}
    costs = profiles(len(tries)) if profiles is not None and len(tries) > 1 else []
    for k in range(len(costs), len(tries)):
        part = parts[k]
        done = part.load("cost") if part and len(tries) > 1 else None
        if done is None:
            fits[k] = pointed(problem, point, tries[k], rngs[k], progress, part)
            done = {"cost": np.array(profile(fits[k]))}
            if part:
                part.save("cost", done)
        costs.append(float(done["cost"]))
    best = int(np.argmin(costs))
    if best not in fits:
        fits[best] = pointed(problem, point, tries[best], rngs[best], progress, parts[best])
    return fits[best], costs


def candidates(
    problem: Problem, starts: int, rng: np.random.Generator
) -> tuple[list[np.ndarray], list[np.random.Generator], list[tuple[float, float]], str]:
    """The most promising starts, the random numbers of each, the scan of delays, and what torques told.

    Each of several starts has a generator of its own, so that it does not matter where they are fitted.
    """
    begin, scan = seed.scan_delay(problem, problem.nominal)
    guess, told = seed.regress_torques(problem, begin)
    points = [begin, *([guess] if told else []), *seed.scattered(problem, starts, rng)[1:]]
    order = seed.best_of(problem, points) if len(points) > 1 else [0]
    tries = [points[k] for k in order[: max(1, min(starts, 4))]]
    return tries, rng.spawn(len(tries)) if len(tries) > 1 else [rng], scan, told


def pointed(
    problem: Problem,
    point: Point,
    start: np.ndarray,
    rng: np.random.Generator,
    progress: Progress = quiet,
    keep: Checkpoint | None = None,
) -> Fit:
    """The point estimate from one start."""
    match point:
        case CloudNewton():
            return fit_cloud(problem, point, rng, start=start, progress=progress, keep=keep)
        case _:
            return fit(problem, point, start=start, progress=progress, keep=keep)


def written(point: Point) -> Json:
    """A point's settings as JSON, which has no infinity: a horizon of a whole episode is "inf"."""

    def told(value: Json) -> Json:
        if isinstance(value, list):
            return [told(each) for each in value]
        return "inf" if value == np.inf else value

    settings = plain(point)
    assert isinstance(settings, dict)
    return {name: told(value) for name, value in settings.items()}


def profile(fitted: Fit) -> float:
    """A cost that fits with other noise estimates can be compared by."""
    granted = sum(
        stage.share * float(np.bincount(stage.shooting.entry, minlength=len(stage.sd)) @ np.log(stage.sd))
        for stage in fitted.stages
        if stage.linear is not None
    )
    return float(fitted.cost + granted)
