"""The real double pendulum: the authors' models rescored, and what twinproof finds, on the same windows.

    python -m bench.double_pendulum OUT.json

Leave one run out over the six torque-driven runs; the tracking run is never fitted, and nothing is chosen on it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bench.double_pendulum_data import (
    DRIVEN,
    FOLDER,
    STEP_S,
    TRACKING,
    XML,
    Log,
    published,
    read,
    roll_published,
    run,
    states,
)
from bench.double_pendulum_extra import gaps_with_zeros, published_with_zeros, with_residual

from twinproof.identify.actuator_fit import Free, Matched, Matching, Windowed, match
from twinproof.nouns.theta import Theta
from twinproof.sim.actuator_law import Actuator, ActuatorLaw, Friction
from twinproof.sim.driven import Driven
from twinproof.sim.law import Law
from twinproof.sim.scene import Scene

FIT = Matching(length=500, stride=250)
SCORED = Matching(length=500, stride=125)
TRACKED = Matching(length=250, stride=25)
DELAYS = range(0, 11)  # samples: the published models get the best of these, chosen on the scored windows themselves
INPUTS = ("commanded", "measured")
RULES = ("smoothed", "raw", "causal")
DRIVEN_AT, TRACKED_AT = (50, 250, 500), (50, 100, 250)  # samples: 0.1, 0.5, 1.0 s and 0.1, 0.2, 0.5 s
MOTORS = ("shoulder", "elbow")
LINKS = (
    Free("body.upper.mass", 0.8, 0.1, 3.0, 0.05),
    Free("body.lower.mass", 0.6, 0.1, 2.0, 0.05),
    Free("body.lower.com_z", -0.26, -0.5, -0.1, 0.02),
    Free("joint.shoulder.armature", 0.02, 0.0, 0.1, 0.005),
    Free("joint.elbow.armature", 0.005, 0.0, 0.1, 0.003),
    Free("law.*.delay_s", 0.008, 0.0, 0.03, 0.003),
)
# Every run zeroes its encoders wherever dry friction happens to hold the links: each has an offset of its own.
ZEROS = tuple(Free(f"joint.{m}.offset", 0.0, -0.3, 0.3, 0.02, own=True, prior_sd=0.05) for m in MOTORS)
DRY = tuple(
    free
    for m in MOTORS
    for free in (
        Free(f"joint.{m}.frictionloss", 0.2, 0.0, 1.0, 0.03),
        Free(f"joint.{m}.damping", 0.005, 0.0, 0.2, 0.01),
    )
)
BRISTLES = tuple(
    free
    for m in MOTORS
    for free in (
        Free(f"law.{m}.coulomb", 0.2, 0.0, 1.0, 0.03),
        Free(f"law.{m}.viscous", 0.005, 0.0, 0.2, 0.01),
        Free(f"law.{m}.stribeck", 0.05, 0.0, 0.6, 0.05),
        Free(f"law.{m}.presliding_rad", 0.002, 0.0005, 0.02, 0.001),
    )
)
BRISTLES += (
    Free("law.*.stribeck_speed", 0.2, 0.05, 1.0, 0.1),
    Free("law.*.bristle_s", 0.005, 0.001, 0.02, 0.003),
)
PASSING = ActuatorLaw({m: Actuator() for m in MOTORS})
BRISTLED = ActuatorLaw({m: Actuator(friction=Friction(presliding_rad=0.002)) for m in MOTORS})
CONTENDERS: dict[str, tuple[tuple[Free, ...], Law]] = {
    "MuJoCo, dry friction, one zero for all runs": ((*LINKS, *DRY), PASSING),
    "MuJoCo, dry friction": ((*LINKS, *DRY, *ZEROS), PASSING),
    "+ actuator law": ((*LINKS, *BRISTLES, *ZEROS), BRISTLED),
}


def scores(gap: np.ndarray, samples: Sequence[int]) -> list[float]:
    """Root mean square of end points in degrees, both joints pooled; what diverged counts as half a turn."""
    gap = np.nan_to_num(gap, nan=np.pi)
    return [float(np.degrees(np.sqrt(np.mean(gap[:, s - 1] ** 2)))) for s in samples]


def best_published(
    logs: Sequence[Log], name: str, rule: str, method: Matching, samples: Sequence[int]
) -> dict[str, Any]:
    """The authors' model from the same starts to the same ends, with its best input and delay."""
    starts, torques, ends = [], [], []
    for log in logs:
        first = np.arange(method.first, len(log.position) - method.length, method.stride)
        span = first[:, None] + np.arange(method.length)
        starts.append(np.stack(states(log, rule))[:, first])
        late = [np.maximum(span - delay, 0) for delay in DELAYS]
        torques.append(np.stack([[torque[k] for k in late] for torque in (log.commanded, log.measured)]))
        ends.append(log.position[span + 1])
    torque, end = np.concatenate(torques, axis=2), np.concatenate(ends)
    variants = torque.shape[0] * torque.shape[1]
    q, v = (np.tile(x, (variants, 1)) for x in np.concatenate(starts, axis=1))
    rolled = roll_published(published(name), q, v, torque.reshape(-1, *torque.shape[3:]), method.length)
    rows = rolled.reshape(variants, *end.shape) - end
    tried = [
        {"degrees": scores(row, samples), "input": INPUTS[k // len(DELAYS)], "delay_ms": 2 * DELAYS[k % len(DELAYS)]}
        for k, row in enumerate(rows)
    ]
    return min(tried, key=lambda each: sum(each["degrees"][1:]))


def gaps(driven: Driven, log: Log, rule: str, method: Matching, theta: Theta, law: Law) -> np.ndarray:
    """Of one run: ours, from the encoder zero the run has, as if it were right."""
    windows = Windowed(driven, [run(log, rule)], Matching(**{**vars(method), "every": 1}))
    return windows.gaps([[theta]], [law])[0]


def fitted(driven: Driven, logs: Sequence[Log], free: tuple[Free, ...], law: Law) -> Matched:
    """A fit on some runs."""
    return match(driven, [run(log) for log in logs], free, law, FIT)


def ours(driven: Driven, logs: Sequence[Log], tracking: Log, label: str) -> dict[str, Any]:
    """One contender: a fit without each run, and one of all for the tracking run; scores under every start rule."""
    free, law = CONTENDERS[label]
    began, cpu = time.perf_counter(), time.process_time()
    folds = [fitted(driven, [other for other in logs if other.id != log.id], free, law) for log in logs]
    whole = fitted(driven, logs, free, law)
    row: dict[str, Any] = {"fit_cpu_s": time.process_time() - cpu, "fit_wall_s": time.perf_counter() - began}
    row |= {"values": dict(whole.values), "zeros": {k: dict(v) for k, v in whole.own.items()}}
    row |= {"left_deg": float(np.degrees(whole.rms)), "folds": [dict(fold.values) for fold in folds]}
    laws = [fold.law for fold in folds]
    for rule in RULES:
        row[rule] = scored(driven, logs, tracking, rule, [f.theta() for f in folds], laws, whole.theta(), whole.law)
    if label == list(CONTENDERS)[-1]:
        row["with zeros"] = {}
        for rule in RULES:
            apart = [
                gaps_with_zeros(driven, run(log, rule), SCORED, fold.theta(), fold.law)
                for log, fold in zip(logs, folds, strict=True)
            ]
            tracked = gaps_with_zeros(driven, run(tracking, rule), TRACKED, whole.theta(), whole.law)
            row["with zeros"][rule] = {
                "driven": scores(np.concatenate(apart), DRIVEN_AT),
                "tracking": scores(tracked, TRACKED_AT),
            }
        row["with residual"] = residual(driven, logs, tracking, folds, whole)
    return row


def residual(
    driven: Driven, logs: Sequence[Log], tracking: Log, folds: Sequence[Matched], whole: Matched
) -> dict[str, Any]:
    """The residual model on top, fold by fold, where its own validation adopts it."""
    chosen = [
        with_residual(driven, [other for other in logs if other.id != log.id], fold)
        for log, fold in zip(logs, folds, strict=True)
    ]
    for_all = with_residual(driven, logs, whole)
    laws, thetas = [law for law, _ in chosen], [fold.theta() for fold in folds]
    row = scored(driven, logs, tracking, "smoothed", thetas, laws, whole.theta(), for_all[0])
    return row | {"verdicts": [verdict.reason for _, verdict in [*chosen, for_all]]}


def scored(
    driven: Driven,
    logs: Sequence[Log],
    tracking: Log,
    rule: str,
    thetas: Sequence[Theta],
    laws: Sequence[Law],
    theta: Theta,
    law: Law,
) -> dict[str, Any]:
    """Held-out runs each with the fit that never saw it, and the tracking run."""
    apart = [gaps(driven, *each[:1], rule, SCORED, *each[1:]) for each in zip(logs, thetas, laws, strict=True)]
    return {
        "driven": scores(np.concatenate(apart), DRIVEN_AT),
        "runs": {log.id: scores(gap, DRIVEN_AT) for log, gap in zip(logs, apart, strict=True)},
        "tracking": scores(gaps(driven, tracking, rule, TRACKED, theta, law), TRACKED_AT),
    }


def theirs(logs: Sequence[Log], tracking: Log, name: str, rule: str) -> dict[str, Any]:
    """A published model with its best input and delay for each kind of run, and with zeros found as ours are."""
    row: dict[str, Any] = {
        "driven": best_published(logs, name, rule, SCORED, DRIVEN_AT),
        "tracking": best_published([tracking], name, rule, TRACKED, TRACKED_AT),
    }
    late, tracked_late = (row[kind]["delay_ms"] // 2 for kind in ("driven", "tracking"))
    apart = np.concatenate([published_with_zeros(name, log, rule, SCORED, late) for log in logs])
    tracked = published_with_zeros(name, tracking, rule, TRACKED, tracked_late)
    row["with zeros"] = {"driven": scores(apart, DRIVEN_AT), "tracking": scores(tracked, TRACKED_AT)}
    return row


def main(out: str) -> None:
    """Everything, printed and written."""
    if not FOLDER.exists():
        sys.exit(f"the recordings are not in {FOLDER}: nothing to score.")
    logs, tracking = [read(id) for id in DRIVEN], read(TRACKING)
    found: dict[str, Any] = {"published": {}, "ours": {}}
    for rule in RULES:
        for name in ("1.0", "1.1", "2.0", "3.0"):
            found["published"][f"{name} {rule}"] = theirs(logs, tracking, name, rule)
            print(rule, name, json.dumps(found["published"][f"{name} {rule}"]), flush=True)
    driven = Driven(Scene(XML).leaner(), ("qpos",))
    assert abs(driven.sample_s - STEP_S) < 1e-12
    for label in CONTENDERS:
        found["ours"][label] = ours(driven, logs, tracking, label)
        print(label, json.dumps(found["ours"][label]), flush=True)
        Path(out).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(sys.argv[1])
