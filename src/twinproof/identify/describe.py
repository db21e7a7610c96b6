"""What a fit has to say about itself, as plain data for the Posterior's diagnostics and for people."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinproof.identify.fit import Fit
from twinproof.identify.identifiability import at_bounds, episode_shifts
from twinproof.identify.method import Draws
from twinproof.identify.recognise import recognise
from twinproof.identify.suspect import conflicting
from twinproof.identify.whiteness import LEAST, whiteness
from twinproof.nouns.hashing import Json

LAGS = 12  # that whiteness is tested over; shorter windows are left out of the test


def diagnostics_of(
    fitted: Fit,
    drawn: Draws,
    warnings: Sequence[str],
    scan: Sequence[tuple[float, float]],
    seeded: str,
    profiles: Sequence[float],
) -> dict[str, Json]:
    """Noise, process noise, residual whiteness, bounds, episodes and what each tells, warnings, cost by step."""
    problem = fitted.problem
    shifts = episode_shifts(fitted)
    share = np.stack([np.diag(each) for each in fitted.by_episode])
    share = share / np.maximum(share.sum(axis=0), 1e-300)
    notes = sorted({note for each in problem.experiments for note in each.notes})
    episodes = [
        {
            "id": each.id,
            "kind": recognise(each).name.lower(),
            "good_for": recognise(each).value,
            "seconds": round(each.end_s - each.begin_s, 3),
            "tells_most_of": [problem.names[u] for u in np.argsort(-share[e])[:3] if share[e, u] > 0.3],
            "largest_shift_if_left_out": round(float(np.abs(shifts[e]).max(initial=0.0)), 2),
        }
        for e, each in enumerate(problem.experiments)
    ]
    found: dict[str, Json] = {
        "noise": {entry: _short(sd) for s in fitted.stages for entry, sd in zip(s.shooting.entries, s.sd, strict=True)},
        "process_noise": [[_short(x) for x in stage.process] for stage in fitted.stages],
        "windows": [stage.shooting.windows for stage in fitted.stages],
        "cost_by_step": [_short(cost) for cost in fitted.history],
        "at_bounds": list(at_bounds(problem, fitted)),
        "episodes": episodes,
        "whiteness": _whiteness(fitted),
        "warnings": [*warnings, *conflicting(fitted), *notes],
        "unknowns": {name: _short(x) for name, x in zip(problem.names, fitted.unknowns, strict=True)},
        "effective_draws": _short(1 / np.square(np.exp(drawn.log_weights)).sum()),
        **drawn.diagnostics,
    }
    if scan:
        found["delay_scan"] = [[delay, _short(cost)] for delay, cost in scan]
    if seeded:
        found["seed"] = seeded
    if len(profiles) > 1:
        found["starts"] = [_short(cost) for cost in profiles]
    return found


def _whiteness(fitted: Fit) -> dict[str, Json]:
    """For each signal whether what the fit leaves over looks like noise, and around which frequency it does not."""
    found: dict[str, Json] = {}
    stage = fitted.stages[-1]
    assert stage.linear is not None
    shooting = stage.shooting
    for i, entry in enumerate(shooting.entries):
        mine = np.flatnonzero((shooting.entry == i) & np.isfinite(stage.linear.gap))
        windows = np.split(mine, np.searchsorted(mine, shooting.bounds[1:-1]))
        windows = [rows[np.argsort(shooting.horizon[rows])] for rows in windows if len(rows) > LAGS + 4]
        if sum(map(len, windows)) < LEAST:
            continue
        step_s = float(np.median(np.concatenate([np.diff(shooting.horizon[rows]) for rows in windows])))
        told = whiteness([stage.linear.gap[rows] / stage.sd[i] for rows in windows], step_s, entry, LAGS)
        found[entry] = {
            "white": bool(told.white()),
            "explained": _short(told.explained),
            "peak_hz": _short(told.peak_hz),
            "p_value": _short(told.p_value),
        }
    return found


def _short(value: float | np.floating) -> float:
    return float(f"{float(value):.6g}")
