"""Where a robot was and how fast it moved at given times, from noisy readings around each: local parabolas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from twinproof.sim.readings import Reading
from twinproof.sim.tangent import between_quaternions, turned

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

NEAR_S = 0.03  # readings this far to either side belong to the parabola; more where there are fewer than five


@dataclass(frozen=True, eq=False)
class States:
    """States at some times, as encoders show them; `measured` says which degrees of freedom a reading told."""

    qpos: Float[np.ndarray, "W nq"]
    qvel: Float[np.ndarray, "W nv"]
    acceleration: Float[np.ndarray, "W nv"]
    measured: Bool[np.ndarray, "nv"]


def states_at(readings: Sequence[Reading], model: Any, time_s: np.ndarray) -> States:
    """The states at `time_s`. Joints that nobody measured stay where the model has them, or follow their equality."""
    count = len(time_s)
    qpos = np.tile(_home(model), (count, 1))
    qvel, acceleration = np.zeros((count, model.nv)), np.zeros((count, model.nv))
    measured = np.zeros(model.nv, dtype=bool)
    for joint in range(model.njnt):
        q, v = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
        if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE:
            pose = _reading(readings, "pose", q)
            if pose is not None:
                place, speed, rate = _free(pose, time_s)
                qpos[:, q : q + 7], qvel[:, v : v + 6], acceleration[:, v : v + 6] = place, speed, rate
                measured[v : v + 6] = True
        elif model.jnt_type[joint] != mujoco.mjtJoint.mjJNT_BALL:
            position, velocity = _reading(readings, "position", q), _reading(readings, "velocity", v)
            if position is not None:
                qpos[:, q], qvel[:, v], acceleration[:, v] = _scalar(position, velocity, q, v, time_s)
                measured[v] = True
    _follow(model, qpos, qvel, measured)
    return States(qpos, qvel, acceleration, measured)


def _home(model: Any) -> np.ndarray:
    return np.array(model.key_qpos[0] if model.nkey else model.qpos0)


def _reading(readings: Sequence[Reading], kind: str, place: int) -> Reading | None:
    for reading in readings:
        if reading.kind == kind and place in (reading.place[:1] if kind == "pose" else reading.place):
            return reading
    return None


def _scalar(
    position: Reading, velocity: Reading | None, q: int, v: int, time_s: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Position, velocity and acceleration of a joint at each time."""
    k = list(position.place).index(q)
    parts = [(position.time_s, position.value[:, k], float(position.sd[k]), 0)]
    if velocity is not None:
        k = list(velocity.place).index(v)
        parts.append((velocity.time_s, velocity.value[:, k], float(velocity.sd[k]), 1))
    found = np.array([_parabola(parts, t) for t in time_s])
    return found[:, 0], found[:, 1], found[:, 2]


def _parabola(parts: Sequence[tuple[np.ndarray, np.ndarray, float, int]], t: float) -> np.ndarray:
    """Value, slope and curvature at t of the parabola that fits values (order 0) and slopes (order 1) around t."""
    rows, right = [], []
    for time_s, value, sd, order in parts:
        read = np.isfinite(value)
        times, seen = time_s[read], value[read]
        near = np.abs(times - t) <= NEAR_S
        if near.sum() < 5:
            near = np.zeros(len(times), dtype=bool)
            near[np.argsort(np.abs(times - t))[:5]] = True
        dt, one = times[near] - t, np.ones(int(near.sum()))
        row = np.stack([one, dt, dt**2 / 2] if order == 0 else [0 * one, one, dt], axis=1)
        rows.append(row / sd)
        right.append(seen[near] / sd)
    design, wanted = np.concatenate(rows), np.concatenate(right)
    # Nothing is known of the curvature at the edge of a few readings: a faint pull to zero keeps it finite.
    scale = np.linalg.norm(design, axis=0)
    scale[scale == 0] = 1.0
    found: np.ndarray = np.linalg.lstsq(design / scale, wanted, rcond=1e-6)[0] / scale
    return found


def _free(pose: Reading, time_s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pose, velocity (linear in the world, turning in the body, as MuJoCo has it) and acceleration of a free body."""
    place, speed, rate = np.empty((len(time_s), 7)), np.empty((len(time_s), 6)), np.empty((len(time_s), 6))
    for i, t in enumerate(time_s):
        near = int(np.argmin(np.abs(pose.time_s - t)))
        reference = pose.value[near, 3:]
        fifth = float(np.sort(np.abs(pose.time_s - t))[min(4, len(pose.time_s) - 1)])
        some = np.abs(pose.time_s - t) <= max(NEAR_S, fifth)
        turns = between_quaternions(np.broadcast_to(reference, (int(some.sum()), 4)), pose.value[some, 3:])
        for k in range(3):
            fit = _parabola([(pose.time_s, pose.value[:, k], float(pose.sd[k]), 0)], t)
            place[i, k], speed[i, k], rate[i, k] = fit
        fits = np.array([_parabola([(pose.time_s[some], column, float(pose.sd[3]), 0)], t) for column in turns.T])
        place[i, 3:] = turned(reference, fits[:, 0])
        speed[i, 3:], rate[i, 3:] = fits[:, 1], fits[:, 2]
    return place, speed, rate


def _follow(model: Any, qpos: np.ndarray, qvel: np.ndarray, measured: np.ndarray) -> None:
    """Joints tied to a measured one by an equality take its value, as a mirrored finger does."""
    for equality in range(model.neq):
        if model.eq_type[equality] != mujoco.mjtEq.mjEQ_JOINT or model.eq_obj2id[equality] < 0:
            continue
        one, other = int(model.eq_obj1id[equality]), int(model.eq_obj2id[equality])
        v, source = int(model.jnt_dofadr[one]), int(model.jnt_dofadr[other])
        if measured[v] or not measured[source]:
            continue
        powers = model.eq_data[equality, :5]
        q0 = model.qpos0[model.jnt_qposadr[[one, other]]]
        x = qpos[:, model.jnt_qposadr[other]] - q0[1]
        qpos[:, model.jnt_qposadr[one]] = q0[0] + np.polynomial.polynomial.polyval(x, powers)
        qvel[:, v] = qvel[:, source] * np.polynomial.polynomial.polyval(x, np.polynomial.polynomial.polyder(powers))
