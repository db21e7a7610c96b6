"""Where a fit starts: a scan over delays, a linear regression on torques, and scrambled points for a global start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from twinproof.identify.problem import Problem
from twinproof.nouns.theta import Theta
from twinproof.sim.inverse import inverse_dynamics
from twinproof.sim.shelf import forget
from twinproof.sim.shooting import Shooting, Variant

SCAN_S = (0.0, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.08)
SCAN_HORIZON_S = 0.15
SCAN_WINDOWS = 60
LINEAR = (".mass", ".damping", ".frictionloss", ".armature", ".bias")  # torques are linear in these


def scattered(problem: Problem, count: int, rng: np.random.Generator) -> np.ndarray:
    """Points that fill the limits evenly (scrambled Sobol), the nominal one first (count, G)."""
    from scipy.stats import qmc

    low, high = problem.span
    sobol = qmc.Sobol(len(low), scramble=True, rng=rng)
    points = sobol.random_base2(int(np.ceil(np.log2(max(count, 2)))))[: max(count - 1, 0)]
    return np.vstack([problem.nominal, low + (0.05 + 0.9 * points) * (high - low)])


def spread_windows(shooting: Shooting, most: int) -> np.ndarray:
    """Some windows, evenly over all episodes."""
    return np.unique(np.linspace(0, shooting.windows - 1, min(most, shooting.windows)).astype(np.int64))


def misfit(shooting: Shooting, gap: np.ndarray, sd: np.ndarray, windows: np.ndarray) -> np.ndarray:
    """For each variant the log of how far it is off, signal by signal, with the noise each would need for it."""
    rows = np.concatenate([np.arange(*shooting.bounds[w : w + 2]) for w in windows])
    entry, rolled = shooting.entry[rows], np.empty((len(gap), len(rows)))
    for k, each in enumerate(gap):
        rolled[k] = each[rows]
        forget(gap)
    total, reach = np.zeros(len(gap)), reach_of(shooting)
    for i in range(len(shooting.entries)):
        mine = rolled[:, entry == i]
        if mine.shape[1]:
            seen = np.abs(mine[np.isfinite(mine)])
            farthest = max(50 * sd[i], reach[i], 3 * float(seen.max(initial=0.0)))
            square = np.square(np.where(np.isfinite(mine), mine, farthest))
            total += 0.5 * mine.shape[1] * np.log(square.mean(axis=1) + sd[i] ** 2)
    return total


def reach_of(shooting: Shooting) -> np.ndarray:
    """For every entry how far its readings lie apart at most; of turns it is half a turn."""
    found = np.full(len(shooting.entries), np.pi)
    for i, entry in enumerate(shooting.entries):
        columns = [
            each.value[:, each.entries.index(entry)]
            for one in shooting.experiments
            for each in one.readings
            if entry in each.entries and not (each.kind == "pose" and each.entries.index(entry) > 2)
        ]
        if columns:
            found[i] = max(float(np.nanmax(column) - np.nanmin(column)) for column in columns)
    return found


def scan_delay(problem: Problem, at: np.ndarray) -> tuple[np.ndarray, list[tuple[float, float]]]:
    """The point with the common command delay that explains short windows best, and the misfit of each delay tried."""
    delays = [p for p, id in enumerate(problem.ids) if id.startswith("actuator.") and id.endswith(".delay")]
    if not delays:
        return at, []
    shooting = problem.shooting(SCAN_HORIZON_S)
    windows = spread_windows(shooting, SCAN_WINDOWS)
    low, high = problem.span
    unknowns = np.unique(problem.columns[:, delays])
    tried = [d for d in SCAN_S if d <= float(high[unknowns].min())] or [float(at[unknowns].mean())]
    points = []
    for delay in tried:
        point = at.copy()
        point[unknowns] = np.clip(delay, low[unknowns] + 1e-9, high[unknowns] - 1e-9)
        points.append(point)
    variants = [Variant(problem.values(point), *shooting.starts) for point in points]
    cost = misfit(shooting, shooting.roll(variants, windows).gap, shooting.noise[0], windows)
    best = int(np.argmin(cost))
    return points[best], [(delay, float(c - cost[best])) for delay, c in zip(tried, cost, strict=True)]


def regress_torques(problem: Problem, at: np.ndarray) -> tuple[np.ndarray, str]:
    """The point moved by one linear least-squares step on measured torques, and a sentence about it.

    Torques are linear in masses, damping, friction loss and armature: where they were measured, no search is needed to
    come near. Episodes in which something touches are left out by a robust weight.
    """
    moving = [p for p, id in enumerate(problem.ids) if id.endswith(LINEAR) and id not in problem.own]
    if not moving:
        return at, ""
    rows: list[np.ndarray] = []
    right: list[np.ndarray] = []
    low, high = problem.span
    unknowns = problem.columns[0, moving]
    steps = 1e-3 * (high - low)[unknowns]
    for e, each in enumerate(problem.experiments):
        points = [at, *(_moved(at, u, s) for u, s in zip(unknowns, steps, strict=True))]
        thetas = [_theta(problem, point, e) for point in points]
        found = inverse_dynamics(each, thetas)
        if found is None:
            continue
        measured, predicted, sd = found  # (n, D), (variants, n, D), (D,)
        rows.append(np.moveaxis((predicted[1:] - predicted[0]) / steps[:, None, None], 0, -1).reshape(-1, len(moving)))
        rows[-1] /= np.tile(sd, len(measured))[:, None]
        right.append(((measured - predicted[0]) / sd).reshape(-1))
    if not rows:
        return at, ""
    design, wanted = np.concatenate(rows), np.concatenate(right)
    step = _robust(design, wanted, (low - at)[unknowns], (high - at)[unknowns])
    point = at.copy()
    point[unknowns] = np.clip(point[unknowns] + step, low[unknowns], high[unknowns])
    return point, f"a regression on {len(wanted)} measured torques gave a first guess of {len(moving)} parameters"


def _moved(at: np.ndarray, unknown: int, step: float) -> np.ndarray:
    point = at.copy()
    point[unknown] += step
    return point


def _theta(problem: Problem, point: np.ndarray, e: int) -> Theta:
    values = dict(zip(problem.ids, problem.values(point)[e].tolist(), strict=True))
    return Theta({**problem.fixed, **values})


def _robust(design: np.ndarray, wanted: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    from scipy.optimize import lsq_linear

    weight = np.ones(len(wanted))
    step = np.zeros(design.shape[1])
    scale = np.linalg.norm(design, axis=0) + 1e-12
    for _ in range(5):
        whole = np.vstack([design / scale * weight[:, None], 1e-3 * np.eye(len(step))])
        found = lsq_linear(
            whole, np.r_[wanted * weight, np.zeros(len(step))], (low * scale - 1e-12, high * scale + 1e-12)
        )
        step = found.x / scale
        left = np.abs(wanted - design @ step)
        usual = 1.4826 * float(np.median(left)) + 1e-12
        weight = np.sqrt(np.minimum(1.0, 2 * usual / np.maximum(left, 1e-12)))
    return np.asarray(step)


def best_of(problem: Problem, points: Sequence[np.ndarray]) -> list[int]:
    """The points in the order of how well they explain short windows from measured starts."""
    shooting = problem.shooting(SCAN_HORIZON_S)
    windows = spread_windows(shooting, SCAN_WINDOWS)
    variants = [Variant(problem.values(point), *shooting.starts) for point in points]
    cost: Any = misfit(shooting, shooting.roll(variants, windows).gap, shooting.noise[0], windows)
    return [int(k) for k in np.argsort(cost)]
