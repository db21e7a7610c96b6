"""What a model's forces say of a recording: degrees for radians, torques in another unit or with another sign, gravity
that pulls elsewhere.

Each is a question to the user, and asked only where a model that is wrong by a few times could not be the reason.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from twinproof.identify.suspect_signs import turned
from twinproof.sim.along import Along, along, servoed, strongest
from twinproof.sim.experiment import Experiment
from twinproof.sim.readings import Reading

DEGREES = 180 / np.pi
FAST = 10.0  # rad/s: who moves in degrees seems to move faster than this
SERVO_FAST, TURNS = 5.0, 4 * np.pi  # a servo that goes back and forth over two turns, this fast
TOO_MUCH, ENOUGH = 10.0, 3.0  # times what acts: more cannot be; less, and the other unit explains the motion
OFF_BY = (200.0, 5000.0)  # about a thousand
AS_DEGREES = (30.0, 110.0)  # about 57
SEEN, FARTHEST = 0.05, 6.0  # rad of commands: less may be sag, and a joint that is blocked is not asked for more
QUASI_STATIC = 0.2  # of what gravity could ask for: the most that moving may take
FEWEST = 10  # moments at rest
ELSEWHERE = 0.7  # the cosine below which gravity does not point where the scene says
EXPLAINED = 0.6  # of the torques at rest, by gravity from elsewhere


def suspicious_forces(each: Experiment) -> list[str]:
    """Sentences about one episode, without its name."""
    found = _servos(each)
    forces = along(each)
    against = turned(each, forces)
    if forces is None:
        return found + against
    if not found:
        found += _degrees(each, forces)
    if not found:
        found += _torques(each, forces) + (against or _gravity(each, forces))
    return found


def _servos(each: Experiment) -> list[str]:
    """Positions against the commands of position servos, and servos that seem to turn and turn."""
    model: Any = each.scene.nominal()
    driven, hinges, found = servoed(each), set(model.jnt_qposadr[model.jnt_type == 3].tolist()), []
    for reading in (r for r in each.readings if r.kind == "position"):
        for k, place in enumerate(reading.place.tolist()):
            if place not in driven or place not in hinges:
                continue
            went = float(np.nanmax(reading.value[:, k]) - np.nanmin(reading.value[:, k]))
            sent = float(np.ptp(each.command[:, driven[place]]))
            times = went / sent if sent > SEEN else 1.0
            if AS_DEGREES[0] < times < AS_DEGREES[1]:
                text = f"moves {times:.3g} times as far as its commands ask. Degrees? State the unit in the rig"
                found.append(f"{reading.entries[k]} {text}")
            elif AS_DEGREES[0] < 1 / max(times, 1e-9) < AS_DEGREES[1] and sent > FARTHEST:
                text = f"moves 1/{1 / times:.3g} as far as its commands ask. Degrees there? State the unit in the rig"
                found.append(f"{reading.entries[k]} {text}")
            elif went > TURNS and went / DEGREES < TURNS and _fast(reading, k) > SERVO_FAST:
                text = f"turns over {went:.3g} rad at {_fast(reading, k):.3g} rad/s under a position servo"
                found.append(f"{reading.entries[k]} {text}. Degrees? State the unit in the rig")
    return found


def _fast(reading: Reading, k: int) -> float:
    """Nearly the highest speed."""
    seen = np.isfinite(reading.value[:, k])
    slope = np.gradient(reading.value[seen, k], reading.time_s[seen]) if seen.sum() > 2 else np.zeros(1)
    return float(np.quantile(np.abs(slope), 0.95))


def _degrees(each: Experiment, forces: Along) -> list[str]:
    """A motion that would take many times the forces that act, and a plausible one were its angles in degrees."""
    quick = [
        (reading.entries[k], _fast(reading, k))
        for reading in each.readings
        if reading.kind == "position"
        for k in range(len(reading.entries))
    ]
    entry, speed = max(quick, key=lambda told: told[1], default=("", 0.0))
    if speed < FAST or _excess(each, forces) < TOO_MUCH:
        return []
    slower = along(each, 1 / DEGREES)
    if slower is None or _excess(each, slower) > ENOUGH:
        return []
    text = f"reaches {speed:.3g} rad/s, which would take {_excess(each, forces):.2g} times the torques that act"
    return [f"{entry} {text}; in degrees it would not. Degrees? State the unit in the rig"]


def _excess(each: Experiment, forces: Along) -> float:
    """How many times the forces that act a motion would usually take, where it takes most."""
    model: Any = each.scene.nominal()
    weight = np.linalg.norm(forces.gravity, axis=2).max(axis=0) * float(np.linalg.norm(model.opt.gravity))
    held = np.array([np.ravel(model.dof_frictionloss[d])[0] for d in range(model.nv)])
    acts = strongest(each) + weight + held
    usual = np.median(np.abs(forces.moving), axis=0)
    told = forces.measured & np.isfinite(acts) & (acts > 1e-9)
    return float(np.max(usual[told] / acts[told], initial=0.0))


def _measured(each: Experiment, forces: Along) -> tuple[Reading, np.ndarray] | None:
    """The torque signal and what it read at the moments that were looked at; None without one."""
    reading = next((r for r in each.readings if r.kind == "torque"), None)
    if reading is None or not forces.measured[reading.place].all():
        return None
    seen = [np.isfinite(column) for column in reading.value.T]
    if not all(each.any() for each in seen):
        return None
    columns = [np.interp(forces.time_s, reading.time_s[s], c[s]) for s, c in zip(seen, reading.value.T, strict=True)]
    return reading, np.stack(columns, axis=1)


def _torques(each: Experiment, forces: Along) -> list[str]:
    """Torques a thousand times too large or too small for the motion, or beyond what the actuators can give."""
    told = _measured(each, forces)
    if told is None:
        return []
    reading, torque = told
    size, asked = (np.quantile(np.abs(x), 0.8, axis=0) for x in (torque, forces.needed[:, reading.place]))
    most = strongest(each)[reading.place]
    limited = np.isfinite(most) & (most > 0)
    possible = limited.any() and (size[limited] <= most[limited]).all()
    times = float(np.median(size / np.maximum(asked, 1e-12)))
    if OFF_BY[0] < times < OFF_BY[1] and not possible:
        return [
            f"{reading.name} is {times:.3g} times the torque that the motion takes. N mm? State the unit in the rig"
        ]
    if OFF_BY[0] < 1 / max(times, 1e-12) < OFF_BY[1]:
        return [
            f"{reading.name} is 1/{1 / times:.3g} of the torque that the motion takes. kN m? State the unit in the rig"
        ]
    return []


def _gravity(each: Experiment, forces: Along) -> list[str]:
    """Where torques at rest say that gravity points, against where the scene has it: along what they can tell."""
    told = _measured(each, forces)
    model: Any = each.scene.nominal()
    size = float(np.linalg.norm(model.opt.gravity))
    if told is None or size == 0:
        return []
    reading, torque = told
    pulls, moving = forces.gravity[:, reading.place] * size, forces.moving[:, reading.place]
    still = np.linalg.norm(moving, axis=1) < QUASI_STATIC * np.linalg.norm(pulls, axis=(1, 2))
    if still.sum() < FEWEST:
        return []
    design, wanted = pulls[still].reshape(-1, 3), torque[still].reshape(-1)
    _, values, axes = np.linalg.svd(design, full_matrices=False)
    axes = axes[values > 0.05 * values[0]]
    found = np.linalg.lstsq(design @ axes.T, wanted, rcond=None)[0]
    stated = axes @ (np.array(model.opt.gravity) / size)
    lengths = float(np.linalg.norm(found)), float(np.linalg.norm(stated))
    left = float(np.square(wanted - design @ axes.T @ found).sum() / np.square(wanted).sum())
    if min(lengths) < 0.1 or left > 1 - EXPLAINED or found @ stated > ELSEWHERE * lengths[0] * lengths[1]:
        return []
    told_along, stated_along = (
        ", ".join(f"{each:.2f}" for each in way) for way in (axes.T @ found / lengths[0], model.opt.gravity / size)
    )
    return [
        f"{reading.name} at rest says that gravity points along ({told_along}), and the scene has it along "
        f"({stated_along}). Is the robot mounted otherwise?"
    ]
