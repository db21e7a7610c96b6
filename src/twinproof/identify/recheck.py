"""The calibration check of an answer: recordings simulated under its own draws, fitted again, and where truths rank.

a draw ── every episode from its fitted start under the recorded commands ──> readings + noise + rounding ──> fitted
from the answer's optimum on the last stage alone, drawn by the same method ──> the draw's rank among the new draws

It says whether the method is honest about recordings like this one when the model is right. What the model misses is
not simulated: bands on validation tell that. Truths come from the posterior and not from the prior, so ranks of what
the recording hardly tells show the prior's pull; such unknowns are left out of the verdict.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from twinproof.identify.calibration_check import Calibration, calibrate
from twinproof.identify.cloud import CloudNewton
from twinproof.identify.fit import Fit, check_started, stages_of
from twinproof.identify.method import Draws, Method
from twinproof.identify.point import Point, pointed
from twinproof.nouns.errors import ConfigError, PosteriorError
from twinproof.nouns.hashing import Json
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.randomness import stream
from twinproof.sim.shooting import Variant
from twinproof.sim.tables import Table
from twinproof.sim.tangent import turned

if TYPE_CHECKING:
    from twinproof.identify.checkpoint import Checkpoint
    from twinproof.sim.experiment import Experiment

FEWEST = 5
UNEVEN = 0.01  # a p-value below this says that ranks are not even


def recheck(
    fitted: Fit,
    drawn: Draws,
    method: Method,
    point: Point,
    count: int,
    seed: int,
    progress: Progress = quiet,
    keep: Checkpoint | None = None,
) -> Calibration:
    """Ranks of `count` draws among those inferred anew from recordings simulated under them. `keep` remembers each."""
    enough(count)
    weights = np.exp(drawn.log_weights)
    chosen = stream(seed, "identify", "recheck").choice(len(weights), count, p=weights / weights.sum())

    def infer(k: int, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        kept = keep.load(f"check{k}") if keep else None
        if kept is None:
            kept = _again(fitted, truth, method, point, stream(seed, "identify", "recheck", str(k)))
            if keep:
                keep.save(f"check{k}", kept)
        return (kept["unknowns"], kept["log_weights"]) if kept else None

    with threadpool_limits(1, user_api="blas"):
        return calibrate(fitted.problem.names, drawn.unknowns[chosen], infer, progress=progress)


def enough(count: int) -> None:
    """Refuses a check of too few recordings, so that it can be refused before the fit."""
    if count < FEWEST:
        raise ConfigError(f"a calibration check of {count} recordings tells nothing. Ask for {FEWEST} or more.")


def _again(
    fitted: Fit, truth: np.ndarray, method: Method, point: Point, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Draws from a recording simulated under a truth; nothing where it diverges, or cannot be inferred from."""
    try:
        problem = fitted.problem.with_experiments(simulated(fitted, truth, rng))
        found = pointed(problem, _cheap(fitted, point), fitted.unknowns, rng)
        check_started(found)
        return method.infer(problem, found, rng).arrays()
    except PosteriorError:
        return {}


def _cheap(fitted: Fit, point: Point) -> Point:
    """The last stage alone: the answer's optimum is where fits of such recordings would have come to anyway."""
    if isinstance(point, CloudNewton):
        return replace(point, alone=0)
    return replace(point, horizons_s=stages_of(fitted.problem, point)[-1:])


def simulated(fitted: Fit, truth: np.ndarray, rng: np.random.Generator) -> tuple[Experiment, ...]:
    """The experiments with readings as they would be under `truth`, as noisy and as coarse as the recorded ones."""
    problem, last = fitted.problem, fitted.stages[-1]
    shooting = problem.shooting(np.inf)
    passed = Variant(problem.values(fitted.unknowns), *last.starts)
    starts = last.shooting.states(passed, shooting.episode, shooting.begin_s)
    rolled = shooting.roll([Variant(problem.values(truth), *starts)])
    if rolled.diverged.any() or not np.isfinite(rolled.gap).all():
        raise PosteriorError("a recording simulated under a draw diverges. Narrow the priors that allow such values.")
    noise = dict(zip(last.shooting.entries, last.sd.tolist(), strict=True))
    found = [list(each.readings) for each in problem.experiments]
    for table in shooting.tables:
        gap = np.full((len(table.value), len(table.reading.entries)), np.nan)
        gap.reshape(-1)[table.rows] = rolled.gap[0, table.order]
        value = _read(table, gap, np.array([noise[entry] for entry in table.reading.entries]), rng)
        episode = shooting.episode[table.window]
        for e, readings in enumerate(found):
            mine = np.flatnonzero(episode == e)
            for i, reading in enumerate(readings):
                if (reading.name, reading.entries) == (table.reading.name, table.reading.entries):
                    time_s = problem.experiments[e].begin_s + table.time_s[mine]
                    readings[i] = replace(reading, time_s=time_s, value=value[mine])
    return tuple(replace(each, readings=tuple(r)) for each, r in zip(problem.experiments, found, strict=True))


def _read(table: Table, gap: np.ndarray, sd: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """What sensors would have shown: what was read less its gap to the simulation, with noise, rounded as they do."""
    floor = table.reading.floor
    white = np.sqrt(np.maximum(np.square(sd) - np.square(floor), np.square(0.1 * sd)))
    noise = white * rng.normal(size=gap.shape)
    if table.reading.kind == "pose":
        turn = turned(turned(table.value[:, 3:], -gap[:, 3:]), noise[:, 3:])
        return np.concatenate([table.value[:, :3] - gap[:, :3] + noise[:, :3], turn], axis=1)
    shown: np.ndarray = table.value - gap + noise
    step = np.sqrt(12) * floor
    coarse = (floor > 1e-8) & (step > 0.5 * white)
    shown[:, coarse] = np.round(shown[:, coarse] / step[coarse]) * step[coarse]
    return shown


def diagnostics(found: Calibration, unidentified: Collection[str]) -> dict[str, Json]:
    """Ranks and coverage by unknown, and one verdict: the smallest p-value times how many were looked at."""
    told = found.diagnostics()
    judged = [name for name in found.names if name.split(" of ")[0] not in unidentified] or list(found.names)
    worst = min(judged, key=lambda name: float(told[name]["p_value"]))
    inside = found.only(judged).overall
    return {
        "recordings": len(found.ranks),
        "failed": found.failed,
        "judged": judged,
        "covered": inside.rate,
        "covered_interval": list(inside.interval),
        "p_value": min(1.0, len(judged) * float(told[worst]["p_value"])),
        "worst": worst,
        "unknowns": told,
    }


def sentence(told: Json) -> str:
    """The check for a person."""
    verdict = "are even" if told["p_value"] >= UNEVEN else f"are not even, least of all those of {told['worst']}"
    failed = f", {told['failed']} more failed" if told["failed"] else ""
    return (
        f"calibration check: {told['recordings']} recordings simulated under draws of this posterior and fitted again"
        f"{failed}: 90 % intervals cover {told['covered']:.1%} of {told['recordings'] * len(told['judged'])} truths, "
        f"ranks {verdict} (p = {told['p_value']:.2g}, n = {told['recordings']})"
    )
