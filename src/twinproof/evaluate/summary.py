"""A comparison as plain data: what the JSON holds and what the page shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from twinproof.evaluate.compare import ArmResult, Comparison, PairResult
from twinproof.evaluate.statistics import Interval, clopper_pearson, mean_interval, wilson
from twinproof.evaluate.statistics_paired import mcnemar
from twinproof.nouns.episode import Episode
from twinproof.nouns.hashing import Json
from twinproof.nouns.recording import Recording
from twinproof.nouns.strict import plain

FORMAT = "twinproof/compare/1"
POINTS = 200  # of a pair's course in the JSON; the Python call has all of them


def summary(found: Comparison) -> dict[str, Json]:
    """Everything but the pictures. Numbers that are not known are null."""
    names = [result.name for result in found.pairs[0].every]
    return {
        "format": FORMAT,
        "real": _recording(found.real),
        "sim": _recording(found.sim),
        "protocol": plain(found.protocol),
        "clocks_aligned": found.protocol.alignment is not None,
        "joints": [
            {"name": name, "weight": float(w), "range": float(r)}
            for name, w, r in zip(found.scale.joints, found.scale.weight, found.scale.range, strict=True)
        ],
        "arms": {name: _arm([_named(pair, name) for pair in found.pairs], found.protocol.level) for name in names},
        "clocks": _clocks(found),
        "events": _events(found.pairs),
        "outcomes": _outcomes(found),
        "pairs": [_pair(pair) for pair in found.pairs],
        "only_real": [_episode(episode) for episode in found.only_real],
        "only_sim": [_episode(episode) for episode in found.only_sim],
        "notes": list(found.notes),
    }


def _named(pair: PairResult, name: str) -> ArmResult:
    return next(result for result in pair.every if result.name == name)


def _recording(recording: Recording) -> Json:
    return {
        "hash": recording.hash,
        "robot": recording.rig.robot,
        "name": str(recording.source.get("name", "")),
        "episodes": len(recording.episodes),
    }


def _episode(episode: Episode) -> dict[str, Json]:
    return {
        "id": episode.id,
        "source": episode.source,
        "outcome": episode.outcome,
        "labels": {name: str(value) for name, value in episode.labels.items()},
    }


def interval(values: Sequence[float] | np.ndarray, level: float) -> Json:
    """A mean over pairs with Student's interval; of a single pair the interval is not known."""
    array = np.asarray(values, dtype=float)
    if len(array) < 2:
        return {"value": float(array[0]), "low": None, "high": None, "level": level}
    return _told(mean_interval(array, level))


def _told(found: Interval) -> Json:
    return {"value": found.value, "low": found.low, "high": found.high, "level": found.level}


def _spread(values: np.ndarray) -> Json:
    shares = {"p05": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95}
    found = {name: float(v) for name, v in zip(shares, np.quantile(values, list(shares.values())), strict=True)}
    return {**found, "mean": float(values.mean()), "max": float(values.max())}


def _arm(results: Sequence[ArmResult], level: float) -> dict[str, Json]:
    """One arm over all pairs. Quantiles are over moments of all pairs, intervals over pairs: moments hang together."""
    mse = np.array([float(r.gap.mse.mean()) for r in results])
    stamped = [r.as_stamped_rmse for r in results if r.as_stamped_rmse is not None]
    starts = [r.onset.time_s for r in results if r.onset is not None]
    totals: dict[str, float] = {}
    for r, own in zip(results, mse / max(float(mse.sum()), 1e-300), strict=True):
        for joint, share in r.gap.by_joint.items():
            totals[joint] = totals.get(joint, 0.0) + share * float(own)
    warped = [r.warped for r in results if r.warped is not None]
    tips = [r.tip for r in results if r.tip is not None]
    tenths = np.array([r.tenths for r in results])
    return {
        "rmse": interval(np.sqrt(mse), level),
        "rmse_of_mean_mse": float(np.sqrt(mse.mean())),
        "rmse_as_stamped": interval(stamped, level) if stamped else None,
        "rmse_over_moments": _spread(np.concatenate([r.gap.rmse for r in results])),
        "tenths": [_mean(column[np.isfinite(column)]) for column in tenths.T],
        "slope_per_s": interval([r.slope_per_s for r in results], level),
        "by_joint": dict(sorted(totals.items(), key=lambda item: -item[1])),
        "known_share": float(np.mean([r.gap.known_share for r in results])),
        "onset": {
            "pairs": len(starts),
            "of": len(results),
            "median_s": float(np.median(starts)) if starts else None,
            "quartiles_s": [float(q) for q in np.quantile(starts, [0.25, 0.75])] if starts else None,
        },
        "warped": None
        if not warped
        else {
            "path_rmse": interval([w.path_rmse for w in warped], level),
            "timing_share": float(max(0.0, 1 - sum(w.path_rmse**2 for w in warped) / max(float(mse.sum()), 1e-300))),
            "lag_s": interval([w.lag_s for w in warped], level),
            "lag_abs_s": interval([w.lag_abs_s for w in warped], level),
        },
        "position_m": None
        if not tips
        else {
            "mean_over_pairs": interval([float(t.position_m.mean()) for t in tips], level),
            **_spread(np.concatenate([t.position_m for t in tips])),
        },
        "orientation_rad": None
        if not tips
        else {
            "mean_over_pairs": interval([float(t.orientation_rad.mean()) for t in tips], level),
            **_spread(np.concatenate([t.orientation_rad for t in tips])),
        },
    }


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def _clocks(found: Comparison) -> Json:
    told = [pair.offset for pair in found.pairs if pair.offset.found]
    return {
        "found": len(told),
        "of": len(found.pairs),
        "median_s": float(np.median([offset.offset_s for offset in told])) if told else None,
        "left_alone": dict(Counter(pair.offset.why for pair in found.pairs if not pair.offset.found)),
    }


def _events(pairs: Sequence[PairResult]) -> Json:
    """How often each event was the same, late, early, missing or extra, and at which divergence starts."""
    verdicts: dict[str, Counter[str]] = {}
    late: dict[str, list[float]] = {}
    for event in (event for pair in pairs for event in pair.events):
        verdicts.setdefault(event.title, Counter())[event.verdict] += 1
        if event.late_s is not None:
            late.setdefault(event.title, []).append(event.late_s)
    return {
        "verdicts": {title: dict(counts) for title, counts in verdicts.items()},
        "late_median_s": {title: float(np.median(values)) for title, values in late.items()},
        "divergence_starts_at": dict(Counter(pair.starts_at for pair in pairs if pair.starts_at).most_common()),
    }


def _outcomes(found: Comparison) -> Json:
    """Successes on both sides, where both are known."""
    known = [pair for pair in found.pairs if "unknown" not in (pair.real.outcome, pair.sim.outcome)]
    if not known:
        return None
    real, sim = [p.real.outcome == "success" for p in known], [p.sim.outcome == "success" for p in known]
    level, n = found.protocol.level, len(known)
    both = mcnemar(real, sim, level)
    return {
        "pairs": n,
        "real": _rate(real, level),
        "sim": _rate(sim, level),
        "only_real": both.only_first,
        "only_sim": both.only_second,
        "bias_points": {name: 100 * float(getattr(both.difference, name)) for name in ("value", "low", "high")},
        "p_value": both.p_value,
    }


def _rate(successes: Sequence[bool], level: float) -> Json:
    k, n = sum(successes), len(successes)
    return {"successes": k, **_told(wilson(k, n, level)), "exact": _told(clopper_pearson(k, n, level))}


def _pair(pair: PairResult) -> dict[str, Json]:
    return {
        "real": _episode(pair.real),
        "sim": _episode(pair.sim),
        "start_share": pair.paired.start_share,
        "object_m": pair.paired.object_m,
        "ambiguous": pair.paired.ambiguous,
        "offset": {**plain(pair.offset)},
        "marked_missing": list(pair.lost),
        "lengths_s": dict(zip(("real", "sim", "compared"), pair.lengths_s, strict=True)),
        "arms": {result.name: _result(result) for result in pair.every},
        "events": [{**plain(event), "late_s": event.late_s, "title": event.title} for event in pair.events],
        "divergence_starts_at": pair.starts_at,
    }


def _result(result: ArmResult) -> dict[str, Json]:
    kept = np.unique(np.linspace(0, len(result.gap.mse) - 1, POINTS).astype(int))
    tip = result.tip
    return {
        "rmse": result.gap.total_rmse,
        "rmse_max": float(result.gap.rmse.max()),
        "rmse_as_stamped": result.as_stamped_rmse,
        "known_share": result.gap.known_share,
        "by_joint": result.gap.by_joint,
        "onset": None if result.onset is None else plain(result.onset),
        "slope_per_s": result.slope_per_s,
        "warped": None if result.warped is None else plain(result.warped),
        "position_m": None if tip is None else _spread(tip.position_m),
        "orientation_rad": None if tip is None else _spread(tip.orientation_rad),
        "course": {
            "time_s": [round(float(t), 4) for t in result.gap.time_s[kept]],
            "rmse": [float(f"{v:.5g}") for v in result.gap.rmse[kept]],
        },
    }
