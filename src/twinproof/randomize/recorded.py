"""Ranges measured on recordings: noise of joints and trackers, lost readings, and where episodes begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from twinproof.nouns.randomization import Range
from twinproof.nouns.rig import Rig
from twinproof.nouns.source import Measured
from twinproof.randomize.meaning import meaning, sentence
from twinproof.sim.experiment import Experiment
from twinproof.sim.parameters.base import names
from twinproof.sim.parameters.beside import free_joint
from twinproof.sim.parameters.joints import HINGE, SLIDE
from twinproof.sim.parameters.resolve import parameter
from twinproof.sim.readings import Reading
from twinproof.sim.smooth import states_at

MARGIN = 1.5  # noise of a few episodes is known to about this factor
STILL = 1e-4  # rad or m: a start that differs by less is the same start


def noises(experiments: Sequence[Experiment]) -> dict[str, list[float]]:
    """What readings show by themselves: id of a noise -> its sd in every episode."""
    found: dict[str, list[float]] = {}
    for each in experiments:
        model = each.scene.nominal()
        for reading in each.readings:
            for id, sd in _noise_of(reading, model):
                found.setdefault(id, []).append(sd)
    return found


def _noise_of(reading: Reading, model: Any) -> list[tuple[str, float]]:
    if reading.kind == "pose":
        position, rotation = float(np.mean(reading.sd[:3])), float(np.mean(reading.sd[3:]))
        return [("tracker.position_noise", position), ("tracker.rotation_noise", rotation)]
    if reading.kind == "sensor":
        return []
    address = model.jnt_qposadr if reading.kind == "position" else model.jnt_dofadr
    joints, places = names(model, "joint"), address.tolist()
    return [
        (f"joint.{joints[places.index(int(place))]}.{reading.kind}_noise", float(sd))
        for place, sd in zip(reading.place, reading.sd, strict=True)
        if int(place) in places
    ]


def lost(experiments: Sequence[Experiment]) -> list[float]:
    """The share of readings of joints that were lost, episode by episode."""
    return [
        float(np.mean([np.isnan(r.value).any(axis=1).mean() for r in each.readings if r.kind != "pose"] or [0.0]))
        for each in experiments
    ]


def starts(experiments: Sequence[Experiment], known: Mapping[str, float]) -> dict[str, list[float]]:
    """Where episodes begin: id of a start -> its value in every episode. A joint begins where it is, not where its
    encoder says: `known` are values of parameters, the encoders' offsets among them."""
    found: dict[str, list[float]] = {}
    for each in experiments:
        model: Any = each.scene.nominal()
        state = states_at(each.readings, model, np.array([each.begin_s]))
        qpos = state.qpos[0]
        for j, joint in enumerate(names(model, "joint")):
            if state.measured[int(model.jnt_dofadr[j])] and model.jnt_type[j] in (SLIDE, HINGE):
                at = float(qpos[int(model.jnt_qposadr[j])]) - known.get(f"joint.{joint}.offset", 0.0)
                found.setdefault(f"joint.{joint}.start", []).append(at)
        for b, body in enumerate(names(model, "body")):
            j = free_joint(model, b)
            if j >= 0 and state.measured[int(model.jnt_dofadr[j])]:
                first = int(model.jnt_qposadr[j])
                values = (
                    *qpos[first : first + 2],
                    _yaw(model.qpos0[first + 3 : first + 7], qpos[first + 3 : first + 7]),
                )
                for axis, value in zip(("x", "y", "yaw"), values, strict=True):
                    found.setdefault(f"body.{body}.start_{axis}", []).append(float(value))
    return found


def _yaw(before_wxyz: np.ndarray, after_wxyz: np.ndarray) -> float:
    """The turn about the world's z axis from one orientation to another."""
    w, x, y, z = after_wxyz
    a, b, c, d = before_wxyz[0], *-before_wxyz[1:]
    real = w * a - x * b - y * c - z * d
    along = w * d + x * c - y * b + z * a
    return float((2 * np.arctan2(along, real) + np.pi) % (2 * np.pi) - np.pi)


def measured_ranges(
    experiments: Sequence[Experiment], rig: Rig, known: frozenset[str], values: Mapping[str, float]
) -> tuple[Range, ...]:
    """Ranges of noise, losses, clocks and starts, but for what is known already; `values` are those of parameters."""
    count = len(experiments)
    told = Measured(f"what {count} calibration episodes show by themselves")
    found = []
    for id, sds in sorted(noises(experiments).items()):
        low, high, point = min(sds) / MARGIN, max(sds) * MARGIN, float(np.median(sds))
        if high > 0:
            why = f"noise of readings in {count} calibration episodes, a factor {MARGIN:g} wider on both sides"
            found.append(_range(id, (low, high, point), told, why))
    share = lost(experiments)
    if max(share) > 0:
        why = f"up to {max(share):.2%} of the readings of an episode are missing"
        found.append(
            _range("proprioception.dropout", (0.0, min(1.0, MARGIN * max(share)), float(np.mean(share))), told, why)
        )
    clocks = [rule.clock_offset_sd_s for rule in rig.signals.values() if rule.clock_offset_sd_s > 0]
    if clocks:
        why = f"the rig knows the clocks of its signals to {max(clocks):.4g} s"
        found.append(
            _range("proprioception.latency", (0.0, 2 * max(clocks), 0.0), Measured("the rig's clock offsets"), why)
        )
    found += _start_ranges(starts(experiments, values), count)
    return tuple(entry for entry in found if entry.id not in known)


def _start_ranges(values: Mapping[str, Sequence[float]], count: int) -> list[Range]:
    """The extremes of so many episodes, wider by the mean distance of neighbours: a new one may lie beyond."""
    found = []
    told = Measured(f"where {count} calibration episodes begin")
    for id, seen in sorted(values.items()):
        spread = max(seen) - min(seen)
        if len(seen) < 2 or spread < STILL:
            continue
        room, info = spread / (len(seen) - 1), parameter(id).info
        low, high = max(min(seen) - room, info.low), min(max(seen) + room, info.high)
        why = f"the extremes of {len(seen)} starts, wider by their mean distance on both sides"
        found.append(_range(id, (low, high, float(np.mean(seen))), told, why))
    return found


def _range(id: str, values: tuple[float, float, float], source: Measured, why: str) -> Range:
    about = meaning(id)
    return Range(parameter(id).info, *values, source, about.gap, about.approximates, about.check, sentence(why, id))
