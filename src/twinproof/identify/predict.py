"""How well a posterior predicts: model error by signal and horizon, and whether stated bands cover what was measured.

Bands are those of sim/predictive.py. The model error is what the best parameters leave unexplained at a horizon,
episodes predicted by the others' fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import ndtri

from twinproof.identify.fit import Fit
from twinproof.identify.identifiability import episode_shifts, sd_of
from twinproof.identify.problem import Problem
from twinproof.nouns.belief import Discrepancy
from twinproof.nouns.hashing import Json
from twinproof.sim.pieces import pieces
from twinproof.sim.predictive import LEVEL, Prediction, bands, coverage_rows, predicted
from twinproof.sim.shelf import forget

HORIZONS_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
WIDEST = 3.0  # with one or two episodes nobody knows: bands are then at most so many times wider


def horizons_for(problem: Problem) -> tuple[float, ...]:
    """The horizons that episodes are long enough for: with few episodes, those that fit into one several times."""
    longest = float(np.median([each.end_s - each.begin_s for each in problem.experiments]))
    longest /= 1 if len(problem.experiments) >= 8 and longest < 2.0 else 3
    return tuple(h for h in HORIZONS_S if h <= max(longest, HORIZONS_S[0]) + 1e-6)


def predict(problem: Problem, horizon_s: float, point: np.ndarray, draws: np.ndarray) -> Prediction:
    """Every window from its measured start, under the point (one for each experiment, or one for all) and the draws."""
    points = np.broadcast_to(point, (len(problem.experiments), len(problem.names)))
    values = np.stack([problem.values(row)[e] for e, row in enumerate(points)])
    shown = np.stack([problem.values(draw) for draw in draws]) if len(draws) else np.empty((0, *values.shape))
    return predicted(problem.shooting(horizon_s), values, shown)


def left_out_points(fitted: Fit) -> np.ndarray:
    """For each episode the unknowns that a fit without it would give (episodes, G): one Gauss–Newton step."""
    problem = fitted.problem
    low, high = problem.span
    return np.asarray(np.clip(fitted.unknowns + episode_shifts(fitted) * sd_of(fitted), low, high))


def discrepancy(
    fitted: Fit, draws: np.ndarray, horizons_s: Sequence[float], of: Problem | None = None
) -> tuple[Discrepancy, ...]:
    """Model error of every entry by horizon: what predictions of left-out episodes miss beyond noise and draws.

    `of` is the fitted problem with other scenes, such as those that a drive moves.
    """
    told = predict(of or fitted.problem, horizons_s[-1], left_out_points(fitted), draws)
    shooting, noise = told.shooting, noise_by_entry(fitted)
    wider = few_episodes(len(fitted.problem.experiments))
    missed, count = _missed(told, horizons_s)
    found = []
    for i, entry in enumerate(shooting.entries):
        sds = list[float]()
        for h in range(len(horizons_s)):
            if not count[i, h]:
                sds.append(sds[-1] if sds else 0.0)
                continue
            left = missed[i, h] / count[i, h] - noise[entry] ** 2
            sds.append(wider * float(np.sqrt(max(left, 0.0))))
        found.append(Discrepancy(entry, shooting.units[i], tuple(horizons_s), tuple(sds)))
    return tuple(found)


def _missed(told: Prediction, horizons_s: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """For every entry and horizon the squares that the draws' spread does not explain, added up, and how many."""
    shape = len(told.shooting.entries), len(horizons_s)
    missed, count = np.zeros(shape), np.zeros(shape, dtype=np.int64)
    for piece in pieces(told.shooting):
        gap, entry, at = told.gap[piece.rows], piece.shooting.entry, piece.shooting.horizon
        square, seen = np.square(gap) - np.square(told.spread[piece.rows]), np.isfinite(gap)
        for h, horizon in enumerate(horizons_s):
            # the sd *at* a horizon, from readings around it: between horizons it is drawn straight
            near = (at > 0.7 * horizon) & (at <= 1.3 * horizon) & seen
            count[:, h] += np.bincount(entry[near], minlength=shape[0])
            missed[:, h] += np.bincount(entry[near], square[near], minlength=shape[0])
        forget(told.gap, told.spread)
    return missed, count


def few_episodes(count: int) -> float:
    """How much wider a model error must be that so few episodes told: Student's quantile for one more of them."""
    from scipy.special import stdtrit

    wider = float(stdtrit(max(count - 1, 1), 0.5 + LEVEL / 2) / ndtri(0.5 + LEVEL / 2)) * np.sqrt(1 + 1 / count)
    return float(min(wider, WIDEST))


def noise_by_entry(fitted: Fit) -> dict[str, float]:
    """The sensor noise of every entry: what its readings show by themselves, or less where the fit leaves less."""
    found: dict[str, float] = {}
    for stage in fitted.stages:
        for entry, left, own in zip(stage.shooting.entries, stage.sd, stage.shooting.noise[0], strict=True):
            found[entry] = min(float(left), float(own), found.get(entry, np.inf))
    return found


def coverage(
    problem: Problem,
    point: np.ndarray,
    draws: np.ndarray,
    model_error: Sequence[Discrepancy],
    noise: Mapping[str, float],
) -> dict[str, Json]:
    """How often 90 % bands cover what was measured, by signal and horizon, with the interval score of the bands.

    `problem` holds episodes that the posterior has not seen.
    """
    horizons_s = model_error[0].horizon_s
    told = predict(problem, horizons_s[-1], point, draws)
    made = bands(told, model_error, noise)
    gap, seen = np.abs(told.gap), told.seen
    total: dict[str, Json] = {
        "level": LEVEL,
        "covered": round(float(np.mean(gap[seen] <= made.half[seen])), 4) if seen.any() else None,
        "covered_by_parameters_alone": round(float(np.mean(gap[seen] <= made.alone[seen])), 4) if seen.any() else None,
        "episodes": [each.id for each in problem.experiments],
        "windows": told.shooting.windows,
        "by_signal": coverage_rows(told, made, horizons_s),
    }
    return total
