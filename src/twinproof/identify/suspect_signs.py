"""Whether a measured torque is counted the other way round: against what its motor was told, and against the motion.

A motor's torque goes with what its model makes of its command and of where the joint is; that of a joint which nothing
is known to drive goes with what its motion takes. Delays of commands are allowed for; a reference that fits either
sign, as a lone sine does, says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from twinproof.sim.along import Along
from twinproof.sim.experiment import Experiment
from twinproof.sim.readings import Reading

LATEST_S, APART_S = 0.1, 0.005  # delays that are tried
SMOOTH_S = 0.1
SURE, CLEAR = 0.4, 0.1  # a correlation that means something, and by how much it beats the other sign
FEWEST = 20
TOLD, MOTION = "what its motor was told", "what the motion takes"
Reference = Callable[[np.ndarray, float], np.ndarray]  # at some times, commands so many s late


def turned(each: Experiment, forces: Along | None) -> list[str]:
    """Sentences about one episode, without its name: measured torques that go against what drives their joint.

    What the motion takes is known without contact and only as well as the model is: it may acquit any joint, and accuse
    only one that has no motor.
    """
    found = []
    for reading in (reading for reading in each.readings if reading.kind == "torque"):
        for k, dof in enumerate(reading.place.tolist()):
            told = dict(_correlations(each, forces, reading, k))
            name = TOLD if _motors(each, dof) else MOTION
            if told.get(name, 0.0) < -SURE and max(told.values()) < SURE:
                text = f"goes against {name} (correlation {told[name]:.2f})"
                found.append(f"{reading.entries[k]} {text}. Is its sign turned? State it in the rig")
    return found


def _motors(each: Experiment, dof: int) -> list[int]:
    """The actuators that drive a degree of freedom by its joint."""
    model: Any = each.scene.nominal()
    joint, kinds = int(model.dof_jntid[dof]), model.actuator_trntype
    return [a for a in range(len(kinds)) if kinds[a] == 0 and int(model.actuator_trnid[a, 0]) == joint]


def _correlations(each: Experiment, forces: Along | None, reading: Reading, k: int) -> Iterator[tuple[str, float]]:
    """How a measured torque goes with each reference; only where one sign clearly fits better."""
    seen = np.isfinite(reading.value[:, k]) & (reading.time_s >= each.begin_s) & (reading.time_s <= each.end_s)
    time_s, torque = reading.time_s[seen], reading.value[seen, k]
    if len(time_s) < FEWEST:
        return
    measured = _smooth(torque, time_s)
    for name, shown in _references(each, forces, int(reading.place[k])):
        late = np.arange(0.0, LATEST_S + 1e-9, APART_S) if name == TOLD else np.zeros(1)
        tried = [_correlation(measured, _smooth(shown(time_s, float(lag)), time_s)) for lag in late]
        best, worst = max(tried), min(tried)
        if len(tried) == 1 or abs(best + worst) > CLEAR:
            yield name, best if best > -worst else worst


def _references(each: Experiment, forces: Along | None, dof: int) -> Iterator[tuple[str, Reference]]:
    """Words for what a joint's torque should go with, and its values."""
    model: Any = each.scene.nominal()
    place = int(model.jnt_qposadr[int(model.dof_jntid[dof])])
    position = next((r for r in each.readings if r.kind == "position" and place in r.place), None)
    motors = _motors(each, dof)
    if motors and (position is not None or not any(model.actuator_biastype[a] for a in motors)):
        yield (
            TOLD,
            lambda time_s, late_s: np.sum([_force(each, a, place, position, time_s, late_s) for a in motors], axis=0),
        )
    if forces is not None and forces.measured[dof]:
        yield MOTION, lambda time_s, late_s: np.interp(time_s, forces.time_s, forces.needed[:, dof])


def _force(
    each: Experiment, a: int, place: int, position: Reading | None, time_s: np.ndarray, late_s: float
) -> np.ndarray:
    """What the model's motor makes of its command, and a servo of where its joint is and how fast."""
    model: Any = each.scene.nominal()
    gear, gain, bias = float(model.actuator_gear[a, 0]), model.actuator_gainprm[a], model.actuator_biasprm[a]
    held = np.searchsorted(each.command_time_s, time_s - late_s, side="right") - 1
    force: np.ndarray = float(gain[0]) * each.command[np.maximum(held, 0), int(model.actuator_ctrladr[a])]
    if position is not None and model.actuator_biastype[a]:
        column = position.value[:, position.place.tolist().index(place)]
        seen = np.isfinite(column)
        there = gear * np.interp(time_s, position.time_s[seen], column[seen])
        force = force + float(bias[0]) + float(bias[1]) * there + float(bias[2]) * np.gradient(there, time_s)
    return gear * force


def _smooth(values: np.ndarray, time_s: np.ndarray) -> np.ndarray:
    """The running mean over SMOOTH_S: sensors of torque are noisy, and what they follow is not."""
    width = max(1, min(round(SMOOTH_S / float(np.median(np.diff(time_s)))), len(values) // 4))
    return np.convolve(values, np.full(width, 1 / width), mode="valid")


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    a, b = one - one.mean(), other - other.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size > 0 else 0.0
