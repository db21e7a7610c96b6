"""Predictions of recorded episodes under many parameter values, their bands, and whether these cover what was measured.

A prediction starts where readings say the robot was, and runs open loop. Its band at a horizon is made of
    parameters    the spread of the draws' predictions
    model error   what the best parameters left unexplained at that horizon
    noise         of the sensor
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from twinproof.nouns.belief import Discrepancy
from twinproof.nouns.hashing import Json
from twinproof.sim.pieces import pieces
from twinproof.sim.shelf import empty, forget
from twinproof.sim.shooting import Shooting, Variant

if TYPE_CHECKING:
    from jaxtyping import Float

LEVEL = 0.9


@dataclass(frozen=True, eq=False)
class Prediction:
    """Open-loop predictions of windows: gaps of the point estimate, the draws' spread, and where each gap belongs."""

    shooting: Shooting
    gap: Float[np.ndarray, "M"]
    spread: Float[np.ndarray, "M"]

    @property
    def seen(self) -> np.ndarray:
        """Which gaps are finite: a rollout that diverged has none."""
        return np.asarray(np.isfinite(self.gap))


@dataclass(frozen=True, eq=False)
class Bands:
    """Half widths of the bands of a level around the point's prediction, whole and from the parameters alone."""

    half: Float[np.ndarray, "M"]
    alone: Float[np.ndarray, "M"]
    level: float = LEVEL


def predicted(
    shooting: Shooting, point: Float[np.ndarray, "groups P"], draws: Float[np.ndarray, "N groups P"]
) -> Prediction:
    """Every window from its measured start, under the point and the draws, in SI units."""
    qpos, qvel = shooting.starts
    variants = [Variant(point, qpos, qvel)] + [Variant(draw, qpos, qvel) for draw in draws]
    count = len(shooting.window)
    point_gap, spread = empty((count,)), empty((count,))
    for piece in pieces(shooting):
        gap = piece.shooting.roll(piece.variants(variants)).gap
        point_gap[piece.rows] = gap[0]
        with np.errstate(invalid="ignore"):
            spread[piece.rows] = np.nan_to_num(np.nanstd(gap[1:], axis=0)) if len(draws) > 1 else 0.0
        forget(point_gap, spread)
    return Prediction(shooting, point_gap, spread)


def bands(
    told: Prediction, model_error: Sequence[Discrepancy], noise: Mapping[str, float], level: float = LEVEL
) -> Bands:
    """The bands of a prediction; an entry without a stated model error or noise has none."""
    error, sensor = errors(told.shooting, model_error, noise)
    wide = float(ndtri(0.5 + level / 2))
    return Bands(wide * np.sqrt(told.spread**2 + error**2 + sensor**2), wide * told.spread, level)


def errors(
    shooting: Shooting, model_error: Sequence[Discrepancy], noise: Mapping[str, float]
) -> tuple[np.ndarray, np.ndarray]:
    """The sd of model error and of noise at every gap."""
    known = {each.signal: each for each in model_error}
    error, sensor = np.zeros(len(shooting.entry)), np.zeros(len(shooting.entry))
    for i, entry in enumerate(shooting.entries):
        mine = shooting.entry == i
        if entry in known:
            error[mine] = np.interp(shooting.horizon[mine], known[entry].horizon_s, known[entry].sd)
        sensor[mine] = noise.get(entry, 0.0)
    return error, sensor


def bins(horizon: np.ndarray, horizons_s: Sequence[float]) -> np.ndarray:
    """For each gap the first stated horizon that is not before it; the last where it lies beyond."""
    return np.minimum(np.searchsorted(np.array(horizons_s), horizon - 1e-9), len(horizons_s) - 1)


def coverage_rows(told: Prediction, made: Bands, horizons_s: Sequence[float]) -> list[Json]:
    """How often the bands cover what was measured, by signal and horizon, with their interval score."""
    shooting, where = told.shooting, bins(told.shooting.horizon, horizons_s)
    rows: list[Json] = []
    for i, entry in enumerate(shooting.entries):
        for h, horizon in enumerate(horizons_s):
            mine = (shooting.entry == i) & (where == h) & told.seen
            if mine.any():
                rows.append(_row(entry, horizon, told.gap[mine], made, mine, shooting.units[i]))
    return rows


def _row(entry: str, horizon: float, gap: np.ndarray, made: Bands, mine: np.ndarray, unit: str) -> Json:
    half, alone = made.half[mine], made.alone[mine]
    return {
        "signal": entry,
        "horizon_s": horizon,
        "unit": unit,
        "covered": round(float(np.mean(np.abs(gap) <= half)), 4),
        "by_parameters_alone": round(float(np.mean(np.abs(gap) <= alone)), 4),
        "rms": float(f"{np.sqrt(np.mean(gap**2)):.5g}"),
        "band": float(f"{np.mean(2 * half):.5g}"),
        "interval_score": float(f"{np.mean(interval_score(gap, half, made.level)):.5g}"),
        "count": len(gap),
    }


def interval_score(miss: np.ndarray, half: np.ndarray, level: float = LEVEL) -> np.ndarray:
    """The interval score of central intervals (Gneiting & Raftery 2007): width, and a fine for what lies outside."""
    found: np.ndarray = 2 * half + 2 / (1 - level) * np.maximum(np.abs(miss) - half, 0.0)
    return found
