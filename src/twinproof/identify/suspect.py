"""What looks wrong in recordings before and after a fit, in sentences that name the episode and a cure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from twinproof.identify.fit import Fit
from twinproof.identify.identifiability import episode_shifts
from twinproof.identify.suspect_forces import suspicious_forces
from twinproof.sim.experiment import Experiment
from twinproof.sim.parameters.base import names
from twinproof.sim.readings import Reading

DEGREES = 180 / np.pi
SATURATED = 0.2  # share of samples at the largest value
CONFLICT = 6.0  # an episode that moves a parameter by so many of its sd, and none else does
APART = 0.02  # process noise from which on an episode does not hang together
BUMPED = 12.0  # a window whose gaps are so many times the usual


def suspicious(experiments: Sequence[Experiment]) -> tuple[str, ...]:
    """What can be seen without simulating: units, clipping, rates, signals and forces that contradict one another."""
    found: list[str] = []
    for each in experiments:
        model: Any = each.scene.nominal()
        found += [f"episode {each.id}: {text}" for text in _gravity(model)]
        for reading in each.readings:
            found += [f"episode {each.id}: {text}" for text in (*_units(reading, model), *_clipped(reading))]
        others = (*_rates(each), *_clipped_commands(each, model), *_slopes(each))
        found += [f"episode {each.id}: {text}" for text in others]
        if not any(f"episode {each.id}: " in text and "Degrees?" in text for text in found):
            found += [f"episode {each.id}: {text}" for text in suspicious_forces(each)]
    return _gathered(found)


def _gravity(model: Any) -> list[str]:
    """Scenes are z up: gravity that points elsewhere is a model turned on its side, or metres mistaken."""
    x, y, z = (float(each) for each in model.opt.gravity)
    size = float(np.linalg.norm(model.opt.gravity))
    if size == 0:
        return ["the scene has no gravity. State it in its <option>, unless the robot floats"]
    if -z < 0.9 * size:
        return [f"gravity points along ({x:.3g}, {y:.3g}, {z:.3g}). Scenes are z up: turn the scene, or its gravity"]
    return [] if 9 < size < 10.5 else [f"gravity is {size:.4g} m/s². In metres and seconds it is about 9.8"]


def _units(reading: Reading, model: Any) -> list[str]:
    if reading.kind not in ("position", "pose"):
        return []
    found = []
    for k, entry in enumerate(reading.entries[:3] if reading.kind == "pose" else reading.entries):
        values = reading.value[:, k]
        size = float(np.nanmax(np.abs(values)))
        if reading.kind == "pose":
            if size > 50:
                found.append(f"{entry} reaches {size:.3g} m. Millimetres? State the unit in the rig")
            continue
        joint = int(np.flatnonzero(model.jnt_qposadr == reading.place[k])[0])
        slides = model.jnt_type[joint] == 2
        limited, (low, high) = bool(model.jnt_limited[joint]), model.jnt_range[joint]
        # a joint without limits may turn as often as it likes, but not hundreds of times
        room = max(abs(low), abs(high)) if limited else (1.0 if slides else 100 * np.pi)
        if slides and size > 100 * room:
            found.append(
                f"{entry} reaches {size:.3g} m; the joint's range is {room:.3g}. Millimetres? State the unit in the rig"
            )
        elif not slides and size > 1.5 * room and size / DEGREES < 1.5 * room:
            found.append(
                f"{entry} reaches {size:.3g} rad; the joint's range is {room:.3g}. Degrees? State the unit in the rig"
            )
        elif limited and size > 1.2 * room + 0.1:
            found.append(
                f"{entry} reaches {size:.3g}; the model's range ends at {room:.3g}. Another joint order or zero?"
            )
    return found


def _clipped(reading: Reading) -> list[str]:
    if reading.kind not in ("torque", "velocity", "sensor"):
        return []
    found = []
    for entry, column in zip(reading.entries, reading.value.T, strict=True):
        seen = column[np.isfinite(column)]
        top = np.abs(seen).max(initial=0.0)
        if (
            top > 0
            and len(seen) > 20
            and np.ptp(seen) > 0
            and np.mean(np.abs(np.abs(seen) - top) < 1e-9 * top) > SATURATED
        ):
            found.append(f"{entry} sits at its largest value {top:.3g} in over {SATURATED:.0%} of samples: clipped?")
    return found


def _clipped_commands(each: Experiment, model: Any) -> list[str]:
    found = []
    for i, name in enumerate(names(model, "actuator")):
        if model.actuator_ctrllimited[i]:
            low, high = model.actuator_ctrlrange[i]
            share = float(np.mean((each.command[:, i] <= low) | (each.command[:, i] >= high)))
            beyond = float(np.mean((each.command[:, i] < low - 1e-9) | (each.command[:, i] > high + 1e-9)))
            if beyond > 0.01:
                found.append(
                    f"commands of {name} lie outside the model's control range in {beyond:.0%} of samples: units?"
                )
            elif share > SATURATED:
                found.append(f"commands of {name} are at their limit in {share:.0%} of samples: saturated")
    return found


def _rates(each: Experiment) -> list[str]:
    found = []
    for reading in each.readings:
        step = np.diff(reading.time_s)
        if len(step) > 4 and step.max() > 5 * np.median(step):
            found.append(f"{reading.name} comes at varying rates: steps from {step.min():.4f} to {step.max():.4f} s")
    return found


def _slopes(each: Experiment) -> list[str]:
    """Velocities that are not the slopes of the positions: another unit, sign or joint order."""
    position = {r.name: r for r in each.readings if r.kind == "position"}
    found = []
    for reading in each.readings:
        if reading.kind != "velocity":
            continue
        for k, entry in enumerate(reading.entries):
            label = entry.rpartition(".")[2]
            for other in position.values():
                names_of = [name.rpartition(".")[2] for name in other.entries]
                if label not in names_of:
                    continue
                q = other.value[:, names_of.index(label)]
                slope = np.interp(reading.time_s, other.time_s, np.gradient(q, other.time_s))
                speed = reading.value[:, k]
                seen = np.isfinite(slope) & np.isfinite(speed)
                power = float(np.sum(slope[seen] ** 2))
                if power < 25 * seen.sum() * reading.sd[k] ** 2:
                    continue
                share = float(slope[seen] @ speed[seen]) / power
                if share < 0.5 or share > 2.0:
                    as_degrees = 40 < abs(share) < 80 or 40 < 1 / max(abs(share), 1e-9) < 80
                    hint = "degrees?" if as_degrees else "another sign, unit or joint order?"
                    found.append(f"{entry} is {share:.3g} times the slope of {other.name}.{label}: {hint}")
    return found


def conflicting(fitted: Fit) -> tuple[str, ...]:
    """Episodes that pull parameters elsewhere than all others do, and windows that nothing explains."""
    found = []
    shifts = np.abs(episode_shifts(fitted))
    ids = [each.id for each in fitted.problem.experiments]
    shared = np.flatnonzero(
        [id not in fitted.problem.own for id in np.array(fitted.problem.ids)[fitted.problem.parameter_of]]
    )
    for e, id in enumerate(ids):
        if len(ids) < 3 or not shared.size:
            break
        u = int(shared[np.argmax(shifts[e, shared])])
        others = np.delete(shifts[:, u], e)
        if shifts[e, u] > CONFLICT and shifts[e, u] > 3 * others.max():
            found.append(
                f"episode {id} contradicts the others: without it {fitted.problem.names[u]} would move by "
                f"{shifts[e, u]:.1f} of its sd. Look at it, or leave it out"
            )
    for e, process in enumerate(fitted.stages[-1].process):
        # windows of an episode that the others' parameters cannot follow come apart instead of bending the fit
        others = np.delete(fitted.stages[-1].process, e)
        if others.size and process > APART and process > 10 * float(np.median(others)):
            found.append(
                f"episode {ids[e]} contradicts the others: its motion does not hang together under the parameters that "
                "explain them. Look at it, or leave it out"
            )
    for stage in fitted.stages:
        assert stage.linear is not None
        scaled = np.square(stage.linear.gap / stage.sd[stage.shooting.entry])
        level = np.array([np.nanmean(scaled[a:b]) if b > a else 0.0 for a, b in _spans(stage.shooting.bounds)])
        usual = float(np.nanmedian(level))
        for w in np.flatnonzero(level > BUMPED**2 * max(usual, 1e-12)):
            e, at = int(stage.shooting.episode[w]), stage.shooting.begin_s[w]
            found.append(f"episode {ids[e]} at {at:.2f} s: nothing explains the motion there. Was the robot bumped?")
        lost = np.flatnonzero([not np.isfinite(stage.linear.gap[a:b]).all() for a, b in _spans(stage.shooting.bounds)])
        for w in lost:
            e, at = int(stage.shooting.episode[w]), stage.shooting.begin_s[w]
            found.append(
                f"episode {ids[e]} at {at:.2f} s: the rollout diverges at the best parameters; it counts as lost"
            )
    return _gathered(found)


def _spans(bounds: np.ndarray) -> list[tuple[int, int]]:
    return list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))


def _gathered(sentences: Sequence[str]) -> tuple[str, ...]:
    """One sentence for the same finding in many episodes."""
    by_text: dict[str, list[str]] = {}
    for sentence in sentences:
        episode, _, text = sentence.partition(": ")
        by_text.setdefault(text, []).append(episode.removeprefix("episode "))
    found = []
    for text, episodes in by_text.items():
        shown = ", ".join(episodes[:3]) + (f" and {len(episodes) - 3} more" if len(episodes) > 3 else "")
        found.append(f"episode{'s' if len(episodes) > 1 else ''} {shown}: {text}")
    return tuple(found)
