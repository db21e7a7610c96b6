"""What the report tells of the folders that the evidence stands on: cameras, shapes, posterior, ranges, training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from twinproof.evidence.gather import Gathered
from twinproof.evidence.model_summary import curves_of, summary_of
from twinproof.evidence.model_traces import short
from twinproof.nouns.belief import Prior
from twinproof.nouns.hashing import Json
from twinproof.nouns.policy import Policy
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.strict import plain
from twinproof.nouns.theta import ParameterInfo
from twinproof.nouns.twin import Body, Twin

BINS = 36
DOTS = 240  # draws in the plot of pairs
MOST_PAIRED = 6  # parameters in the plot of pairs


def inputs_of(found: Gathered) -> dict[str, Json]:
    """Everything that the report shows beside the evidence itself."""
    return {
        "robot": found.recording.rig.robot,
        "twin": twin_of(found.twin),
        "posterior": posterior_of(found.posterior),
        "ranges": ranges_of(found.randomization, found.posterior),
        "coverage": None if found.coverage is None else coverage_of(found.coverage),
        "training": {name: curves for name, rows in found.curves.items() if (curves := curves_of(rows))},
        "policies": {name: policy_of(policy) for name, policy in found.policies.items()},
        "pictures": sorted(found.pictures),
        "summary": summary_of(found.trials.summary),
    }


# ---- twin


def twin_of(twin: Twin) -> dict[str, Json]:
    """Bodies, cameras with their error, how far surfaces are apart, and what to keep in mind."""
    return {
        "engine": twin.engine,
        "alignment": plain(twin.alignment),
        "bodies": [
            {
                "name": body.name,
                "layer": body.layer,
                "source": plain(body.source),
                "mass_kg": body.mass_kg,
                "lacks": _lacking(body),
                "splats": body.splats[1] if body.splats else 0,
                "parts": len(body.collision),
            }
            for body in twin.bodies
        ],
        "cameras": [
            {
                "name": name,
                "width": camera.width,
                "height": camera.height,
                "position_sd_m": camera.mount.position_sd_m,
                "rotation_sd_rad": camera.mount.rotation_sd_rad,
                "reprojection_px": camera.reprojection_px,
                "source": plain(camera.source),
                **_clock(twin, name),
            }
            for name, camera in twin.cameras.items()
        ],
        "gaps": _gaps(twin.audits.get("visual_against_collision")),
        "views": _tables(twin.audits.get("held_out_views")),
        "outlines": {name: _least(found) for name, found in _tables(twin.audits.get("silhouette_iou")).items()},
        "notes": list(twin.notes),
    }


def _gaps(told: Any) -> list[dict[str, Json]]:
    """The gap audit of each object: how far what is seen and what touches are apart."""
    names = ("mean_m", "p95_m", "worst_m", "volume_ratio")
    objects = told.items() if isinstance(told, Mapping) else ()
    return [
        {"object": name, **{key: gap.get(key) for key in names}} for name, gap in objects if isinstance(gap, Mapping)
    ]


def _lacking(body: Body) -> dict[str, Json]:
    """What a body says it lacks, and does lack."""
    has = {"splats": body.splats is not None, "mesh": bool(body.visual or body.collision)}
    return {name: why for name, why in body.lacks.items() if not has.get(name)}


def _clock(twin: Twin, camera: str) -> dict[str, Json]:
    """What calibration found of a camera's clock, and how well the robot's outlines agree in its pictures."""
    told: Any = twin.audits.get("calibration")
    found = told.get("cameras", {}).get(camera) if isinstance(told, Mapping) else None
    names = ("clock_offset_s", "clock_offset_sd_s", "agrees")
    return {name: found[name] for name in names if name in found} if isinstance(found, Mapping) else {}


def _least(views: Any) -> dict[str, Json]:
    """Median and least of what every view has."""
    values = [float(value) for value in views.values()] if isinstance(views, Mapping) else []
    return (
        {"views": len(values), "median": short(float(np.median(values))), "least": short(min(values))} if values else {}
    )


def _tables(told: Any) -> dict[str, Json]:
    return {str(name): plain(value) for name, value in told.items()} if isinstance(told, Mapping) else {}


# ---- posterior


def posterior_of(posterior: Posterior) -> dict[str, Json]:
    """Prior against posterior of each parameter, a few draws for pairs, and what the data cannot tell."""
    pairs = zip(posterior.parameters, posterior.priors, strict=True)
    diagnostics: Any = posterior.diagnostics
    return {
        "method": posterior.method,
        "draws": len(posterior.draws),
        "effective_draws": short(posterior.effective_draws),
        "parameters": [_parameter(posterior, parameter, prior) for parameter, prior in pairs],
        "paired": _paired(posterior),
        "weak_directions": list(posterior.weak_directions),
        "unidentified": list(posterior.unidentified),
        "discrepancy": [plain(each) for each in posterior.discrepancy],
        "no_discrepancy": posterior.no_discrepancy,
        "at_bounds": [str(each) for each in diagnostics.get("at_bounds", ())],
        "validation": plain(diagnostics.get("validation")),
    }


def _paired(posterior: Posterior) -> list[dict[str, Json]]:
    """A few draws, as often as they weigh, of the parameters that hang together most, on their natural scales."""
    shares = (np.arange(DOTS) + 0.5) / DOTS
    kept = np.minimum(np.searchsorted(np.cumsum(posterior.weights), shares), len(posterior.weights) - 1)
    rows = np.stack([p.to_scale(posterior.draws[kept, k]) for k, p in enumerate(posterior.parameters)])
    off = rows - rows.mean(axis=1, keepdims=True)
    size = np.sqrt(np.square(off).sum(axis=1))
    size[size == 0] = 1.0
    correlation = np.abs(off @ off.T / np.outer(size, size))
    np.fill_diagonal(correlation, 0.0)
    chosen = sorted(np.argsort(-correlation.max(axis=1), kind="stable")[:MOST_PAIRED].tolist())
    return [{"id": posterior.ids[k], "draws": [short(float(x)) for x in rows[k]]} for k in chosen]


def _parameter(posterior: Posterior, parameter: ParameterInfo, prior: Prior) -> dict[str, Json]:
    """Densities on a grid of the parameter's natural scale that holds the draws and some of the prior around them."""
    column = parameter.to_scale(posterior.column(parameter.id))
    floor, ceiling = (float(x) for x in parameter.to_scale(np.array([parameter.low, parameter.high])))
    low, high = float(column.min()), float(column.max())
    room = max(0.6 * (high - low), 1e-9 * max(abs(low), abs(high), 1e-30))
    edges = np.linspace(max(low - room, floor), min(high + room, ceiling), BINS + 1)
    after = np.histogram(column, edges, weights=posterior.weights)[0]
    below = prior.cumulative(parameter, np.clip(parameter.from_scale(edges), parameter.low, parameter.high))
    return {
        "id": parameter.id,
        "unit": parameter.unit,
        "log": parameter.log,
        "low": short(float(parameter.from_scale(edges[0]))),
        "high": short(float(parameter.from_scale(edges[-1]))),
        "posterior": [short(float(x)) for x in after],
        "prior": [short(float(x)) for x in np.diff(below)],
        "prior_source": plain(prior.source),
        "narrowed": _narrowed(posterior, parameter, prior),
    }


def _narrowed(posterior: Posterior, parameter: ParameterInfo, prior: Prior) -> float | None:
    """How many times narrower the 90 % interval is than the prior's, on the natural scale."""
    floor, ceiling = (float(x) for x in parameter.to_scale(np.array([parameter.low, parameter.high])))
    grid = np.linspace(floor, ceiling, 4001)
    share = prior.cumulative(parameter, np.clip(parameter.from_scale(grid), parameter.low, parameter.high))
    before = np.interp([0.05, 0.95], share, grid)
    after = parameter.to_scale(np.array(posterior.interval(parameter.id, 0.9)))
    wide = float(after[1] - after[0])
    return short(float(before[1] - before[0]) / wide) if wide > 0 else None


# ---- ranges, training


def ranges_of(randomization: Randomization, posterior: Posterior) -> list[dict[str, Json]]:
    """Each range with its source and reason, and the share of the posterior that it covers."""
    shares = randomization.covers(posterior)
    rows = []
    for entry in randomization.ranges:
        known = entry.id in posterior.ids
        belief = [short(x) for x in posterior.interval(entry.id, 0.9)] if known else None
        rows.append({**plain(entry), "covers": shares.get(entry.id), "posterior": belief})
    return rows


def policy_of(policy: Policy) -> dict[str, Json]:
    """What kind of policy it is."""
    return {"kind": policy.kind, "seed": policy.seed, "deployable": policy.deployable}


def coverage_of(told: Mapping[str, Any]) -> dict[str, Json]:
    """What the report shows of the range-miss test."""
    names = ("level", "covered", "interval", "covered_by_parameters_alone", "episodes", "judged_on", "widened")
    return {name: plain(told[name]) for name in (*names, "misses", "signals", "notes") if told.get(name) is not None}
