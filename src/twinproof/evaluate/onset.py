"""When divergence starts: the first change of the error's course, as a step or as a ramp, with an interval for it.

The error before a change is level. After it the error is level again (step) or grows in a straight line (ramp); the
shape that fits better is told. Looked at is the course up to its largest value and on until half of that is left: what
comes after, when the arms have gone home, says nothing of the start. The largest change is found first. Where the error
was up by a tenth of it, and stayed up, from some earlier moment on, that moment is the onset: blips do not count.

Neighbouring errors are alike, so the fit is made on what is new in each sample (AR(1), its coefficient estimated). The
interval is the set of moments that the likelihood ratio does not refuse: χ² for the kink of a ramp, and for the place
of a step Hansen's quantile -2 ln(1 - √level) (Econometrica 68, 2000).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float

FEWEST = 12  # samples
MOST = 400  # samples that are fitted; longer courses are averaged down to so many
EDGE = 3  # samples that both sides of a change must have
ALPHA = 0.01  # a change that chance explains this often is none
RISE = 0.5  # a rise by less than this share of the level before is no divergence,
LEAST = 1e-3  # nor is one by less than this
EARLIER = 0.1  # an earlier change counts from this share of the largest on
ROUGHEST = 0.98  # the largest AR(1) coefficient that is believed


@dataclass(frozen=True)
class Onset:
    """When the error begins to grow, between when and when at the stated level, how, and from what to what."""

    time_s: float
    low_s: float
    high_s: float
    shape: Literal["step", "ramp"]
    before: float  # the median error before
    slope: float  # per second after it; 0 of a step
    after: float  # the median error after a step, or at the end of a ramp
    p_value: float


def onset(time_s: Float[np.ndarray, "T"], error: Float[np.ndarray, "T"], level: float = 0.95) -> Onset | None:
    """The onset, or None where nothing starts: the course is level, falls, or is too short to tell."""
    t, y = _averaged(time_s, error)
    found = _change(t, y, level, LEAST)
    return None if found is None else _first(t, y, found, level)


def _first(t: np.ndarray, y: np.ndarray, largest: Onset, level: float) -> Onset:
    """The change from which on the error stays up until the largest change; often that is the largest itself."""
    place = int(np.searchsorted(t, largest.time_s))
    usual = float(np.quantile(y[: max(place, 1)], 0.25))
    up = usual + max(EARLIER * (largest.after - usual), RISE * abs(usual), LEAST)
    low = np.flatnonzero(_smooth(y)[:place] <= up)
    last = int(low[-1]) if len(low) else place
    if last >= place - max(2 * EDGE, len(y) // 20):
        return largest
    blips = np.flatnonzero(_smooth(y)[:last] > up)
    start, end = int(blips[-1]) + 1 if len(blips) else 0, (last + place) // 2
    found = _change(t[start:end], y[start:end], level, LEAST)
    if found is not None:
        return found
    after = float(np.median(y[last + 1 : place]))
    at, before = float(t[last + 1]), float(np.median(y[start : last + 1]))
    return Onset(
        at, float(t[max(last - EDGE, 0)]), float(t[last + 1 + EDGE]), "step", before, 0.0, after, largest.p_value
    )


def _change(t: np.ndarray, y: np.ndarray, level: float, least: float) -> Onset | None:
    """The one change that explains most, if it is beyond chance and rises by `least` or more."""
    from scipy.special import chdtri, fdtrc

    if len(y) < FEWEST:
        return None
    end = _end(y)
    t, y = t[:end], y[:end]
    if len(y) < FEWEST or np.ptp(y) == 0.0:
        return None
    places = np.arange(EDGE, len(y) - EDGE + 1)
    rho, left = 0.0, np.zeros(1)
    for _ in range(3):
        rho = _roughness(left)
        fits = {shape: _profile(t, y, places, rho, shape) for shape in ("step", "ramp")}
        shape: Literal["step", "ramp"] = "step" if fits["step"][0].min() <= fits["ramp"][0].min() else "ramp"
        costs, levels, growths = fits[shape]
        k = int(np.argmin(costs))
        left = y - levels[k] - growths[k] * _basis(t, places[k], shape)
    freedom = len(y) - 4
    flat = _flat(y, rho)
    best = max(float(costs[k]), 1e-300)
    # the place was chosen as the best of many: Bonferroni over changes that differ by more than the noise's memory
    looks = max(1.0, len(places) * (1 - rho) / (1 + rho))
    p_value = min(1.0, looks * float(fdtrc(2, freedom, max((flat - best) / 2 / (best / freedom), 0.0))))
    # plain medians: the fitted level of a course that wanders is no level that anyone sees
    before = float(np.median(y[: places[k]]))
    after = float(np.median(y[places[k] :] if shape == "step" else y[-2 * EDGE :]))
    if p_value > ALPHA or after - before <= max(RISE * abs(before), least):
        return None
    allowed = -2 * np.log(1 - np.sqrt(level)) if shape == "step" else float(chdtri(1, 1 - level))
    inside = places[costs <= best * (1 + allowed / freedom)]
    # a change in front of a sample lies behind the one before it
    low, high = float(_moment(t, inside.min() - 1)), float(_moment(t, inside.max()))
    slope = float(growths[k]) if shape == "ramp" else 0.0
    at = float(_moment(t, places[k]))
    return Onset(at, min(low, at), max(high, at), shape, before, slope, after, p_value)


def _averaged(time_s: np.ndarray, error: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    whole = -(-len(error) // MOST)
    kept = len(error) // whole * whole
    if whole == 1:
        return time_s, error
    return time_s[:kept].reshape(-1, whole).mean(axis=1), error[:kept].reshape(-1, whole).mean(axis=1)


def _end(y: np.ndarray) -> int:
    """Behind the largest value, where half of its height is left for the first time; and soon behind the first moment
    that comes near the largest value: a long plateau is no part of a start."""
    smooth = _smooth(y)
    top = int(np.argmax(smooth))
    fallen = np.flatnonzero(smooth[top:] < (smooth.min() + smooth[top]) / 2)
    high = smooth.min() + 0.9 * (smooth[top] - smooth.min())
    near = int(np.argmax(smooth >= high)) + max(2 * EDGE, len(y) // 10)
    return min(near, top + int(fallen[0]) if len(fallen) else len(y))


def _smooth(y: np.ndarray) -> np.ndarray:
    mean: np.ndarray = np.convolve(np.pad(y, 2, mode="edge"), np.full(5, 0.2), mode="valid")
    return mean


def _moment(t: np.ndarray, place: int) -> np.ndarray:
    """The moment of a change in front of this sample."""
    moment: np.ndarray = t[min(int(place), len(t) - 1)]
    return moment


def _basis(t: np.ndarray, place: int, shape: str) -> np.ndarray:
    after = np.arange(len(t)) >= place
    found: np.ndarray = after.astype(float) if shape == "step" else np.where(after, t - t[min(place, len(t) - 1)], 0.0)
    return found


def _profile(
    t: np.ndarray, y: np.ndarray, places: np.ndarray, rho: float, shape: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For a change at every place: what the best fit leaves over, its level and its growth."""
    c, tk = 1 - rho, (t - t[0])[places]
    one, z = _new(np.ones((1, len(t))), rho)[0], _new(y[None], rho)[0]
    left = len(t) - 1 - places  # samples behind the first one after the change
    if shape == "step":
        hh, ah, hy = 1 + c**2 * left, one[places] + c * _behind(one, places), z[places] + c * _behind(z, places)
    else:
        u = _new((t - t[0])[None], rho)[0]
        hh = _behind(u**2, places) - 2 * c * tk * _behind(u, places) + c**2 * tk**2 * left
        ah = _behind(u * one, places) - c * tk * _behind(one, places)
        hy = _behind(u * z, places) - c * tk * _behind(z, places)
    aa, ay = one @ one, one @ z
    det = np.maximum(aa * hh - ah**2, 1e-300)
    levels, growths = (hh * ay - ah * hy) / det, (aa * hy - ah * ay) / det
    costs = np.maximum(z @ z - levels * ay - growths * hy, 0.0)
    return costs, levels, growths


def _behind(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Sums of all values behind each place."""
    total: np.ndarray = np.cumsum(values[::-1])[::-1][places] - values[places]
    return total


def _new(rows: np.ndarray, rho: float) -> np.ndarray:
    """What is new in each sample, given the one before; the first is scaled to the same spread."""
    found = rows.copy()
    found[:, 1:] -= rho * rows[:, :-1]
    found[:, 0] *= np.sqrt(1 - rho**2)
    return found


def _flat(y: np.ndarray, rho: float) -> float:
    one, z = _new(np.ones((1, len(y))), rho)[0], _new(y[None], rho)[0]
    return float(z @ z - (one @ z) ** 2 / (one @ one))


def _roughness(left: np.ndarray) -> float:
    power = float(left[:-1] @ left[:-1])
    return float(np.clip(left[1:] @ left[:-1] / power, 0.0, ROUGHEST)) if power > 0 else 0.0


def growth(time_s: Float[np.ndarray, "T"], error: Float[np.ndarray, "T"], parts: int = 10) -> tuple[list[float], float]:
    """The mean error in each tenth of the time, and the slope of a straight line through all of it, per second."""
    place = np.minimum(((time_s - time_s[0]) / max(np.ptp(time_s), 1e-12) * parts).astype(int), parts - 1)
    count = np.bincount(place, minlength=parts)
    means = np.bincount(place, error, parts) / np.maximum(count, 1)
    centred = time_s - time_s.mean()
    slope = float(centred @ error / max(float(centred @ centred), 1e-300))
    return [float(mean) if n else float("nan") for mean, n in zip(means, count, strict=True)], slope
