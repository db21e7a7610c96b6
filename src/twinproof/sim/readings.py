"""What a robot's sensors said in one episode, matched with what a simulation of it would show.

position   qpos of joints, as encoders show it        torque   what drove the joint during the step that ended there
velocity   qvel of joints                             sensor   sensors of the model, by name (IMU, force/torque)
pose       position and orientation of a free body; each sample is compared in tangent space (3 + 3 numbers)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import mujoco
import numpy as np

from twinproof.nouns.errors import RecordingError
from twinproof.sim.parameters.base import names, nearest
from twinproof.sim.tangent import between_quaternions

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from twinproof.nouns.episode import Episode
    from twinproof.nouns.signal import Signal

Kind = Literal["position", "velocity", "torque", "pose", "sensor"]
KINDS: dict[str, Kind] = {
    "joint_position": "position",
    "gripper": "position",
    "joint_velocity": "velocity",
    "joint_torque": "torque",
    "pose": "pose",
    "wrench": "sensor",
    "imu": "sensor",
}
FORCES = ("torque", "sensor")  # kinds that derive from forces
OUTPUT = {"position": "qpos", "velocity": "qvel", "torque": "qfrc_actuator", "pose": "qpos", "sensor": "sensordata"}
ENDINGS = ("", ".pos", ".vel", ".effort", "_position", "_velocity", "_torque", "_pos", "_vel", "_joint")
POSE = ("x", "y", "z", "qw", "qx", "qy", "qz")


@dataclass(frozen=True, eq=False)
class Reading:
    """One signal of an episode: times, values, and the simulation's entries they are compared with.

    A pose has seven numbers and six entries; everything else has one entry a number. `sd` is the noise of each entry.
    """

    name: str
    kind: Kind
    time_s: Float[np.ndarray, "T"]
    value: Float[np.ndarray, "T D"]  # NaN where nothing was read
    place: Int[np.ndarray, "D"]  # of qpos, qvel, qfrc_actuator or sensordata
    entries: tuple[str, ...]
    units: tuple[str, ...]
    sd: Float[np.ndarray, "E"]
    floor: Float[np.ndarray, "E"]  # no reading is surer than this: a step of its quantisation, over √12

    @property
    def output(self) -> str:
        """The field of the simulation that it is compared with."""
        return OUTPUT[self.kind]

    def gap(self, shown: np.ndarray, value: np.ndarray) -> np.ndarray:
        """Measured minus simulated, entry by entry; `shown` has the axes of `value` and more in front."""
        if self.kind != "pose":
            difference: np.ndarray = value - shown
            return difference
        turn = between_quaternions(shown[..., 3:], np.broadcast_to(value[..., 3:], shown[..., 3:].shape))
        return np.concatenate([value[..., :3] - shown[..., :3], turn], axis=-1)


def readings(episode: Episode, model: Any) -> tuple[tuple[Reading, ...], tuple[str, ...]]:
    """The episode's signals that the model can be compared with, and sentences about what was left out."""
    found: list[Reading] = []
    notes: list[str] = []
    for name in sorted(episode.signals):
        signal = episode.signals[name]
        if signal.kind not in KINDS or len(signal.time_s) < 2:
            continue
        reading = _pose(signal, model, notes) if signal.kind == "pose" else _columns(signal, model, notes)
        if reading is not None:
            found.append(reading)
    if not found:
        known = ", ".join(f"{s.name} ({', '.join(c.name for c in s.columns)})" for s in episode.signals.values())
        raise RecordingError(
            f"{episode.source or episode.id}: no signal fits the model. The recording has {known}; the model has the "
            f"joints {', '.join(filter(None, names(model, 'joint')))}. Name the columns in the rig as the model does."
        )
    return tuple(found), tuple(notes)


def _columns(signal: Signal, model: Any, notes: list[str]) -> Reading | None:
    kind = KINDS[signal.kind]
    places, kept = [], []
    for k, column in enumerate(signal.columns):
        place = _place(kind, column.name, model)
        if place is None:
            notes.append(f"{signal.name}: {column.name} fits nothing of the model and was left out")
        elif kind == "position" and column.unit == "1":
            notes.append(
                f"{signal.name}: {column.name} is a bare number, not rad or m, and was left out; in the rig, "
                "'% of range' is the unit of a place between a joint's ends"
            )
        elif np.isfinite(signal.value[:, k]).sum() < 2:
            notes.append(f"{signal.name}: {column.name} was never read and was left out")
        else:
            places.append(place)
            kept.append(k)
    if not kept:
        return None
    value = np.array(signal.value[:, kept])
    noise = [noise_of(column) for column in value.T]
    return Reading(
        signal.name,
        kind,
        signal.time_s,
        value,
        np.array(places),
        tuple(f"{signal.name}.{signal.columns[k].name}" for k in kept),
        tuple(signal.columns[k].unit for k in kept),
        np.array([each[0] for each in noise]),
        np.array([each[1] for each in noise]),
    )


def _place(kind: Kind, column: str, model: Any) -> int | None:
    if kind == "sensor":
        return _sensor_place(column, model)
    joint = joint_of(column, model)
    if joint is None:
        return None
    return int((model.jnt_qposadr if kind == "position" else model.jnt_dofadr)[joint])


def _sensor_place(column: str, model: Any) -> int | None:
    """Where a sensor's number stands: that of a single one under its name, one of three as NAME_x, NAME_y, NAME_z."""
    known = names(model, "sensor")
    if column in known and model.sensor_dim[known.index(column)] == 1:
        return int(model.sensor_adr[known.index(column)])
    stem, axis = column[:-2], "xyz".find(column[-1:])
    if column[-2:-1] in ("_", ".") and axis >= 0 and stem in known and model.sensor_dim[known.index(stem)] == 3:
        return int(model.sensor_adr[known.index(stem)]) + axis
    return None


def joint_of(column: str, model: Any) -> int | None:
    """The hinge or slide joint that a column is called after: its own name, or with an ending such as `.pos`."""
    known = names(model, "joint")
    for ending in ENDINGS:
        stem = column.removesuffix(ending) if ending and column.endswith(ending) else column
        for name in (stem, f"{stem}_joint"):
            if name in known and model.jnt_type[known.index(name)] in (2, 3):
                return known.index(name)
    return None


def _pose(signal: Signal, model: Any, notes: list[str]) -> Reading | None:
    order = [column.name for column in signal.columns]
    if not set(POSE) <= set(order):
        notes.append(f"{signal.name}: a pose has the columns {', '.join(POSE)}; it has {', '.join(order)}; left out")
        return None
    body = _body_of(signal.name, model)
    if body is None:
        notes.append(f"{signal.name}: no body of the model is called so, and not just one moves freely; left out")
        return None
    value = np.array(signal.value[:, [order.index(name) for name in POSE]])
    # A grid that has a row at every tick repeats a pose that was not seen; a sensor never reads the same twice.
    fresh = np.r_[True, np.any(np.diff(value, axis=0) != 0, axis=1)] & np.isfinite(value).all(axis=1)
    if fresh.sum() < 2:
        notes.append(f"{signal.name}: the pose never changes: the tracker did not see it; left out")
        return None
    time_s, value = signal.time_s[fresh], value[fresh]
    value[:, 3:] = _continuous(value[:, 3:] / np.linalg.norm(value[:, 3:], axis=1, keepdims=True))
    joint = int(model.body_jntadr[body])
    if model.jnt_type[joint] != mujoco.mjtJoint.mjJNT_FREE:
        if model.body_weldid[model.body_parentid[body]] != 0:
            notes.append(f"{signal.name}: its body hangs on one that moves; only poses of bodies on the world are read")
            return None
        return _along_joint(signal.name, time_s, value, body, model)
    entries = tuple(f"{signal.name}.{name}" for name in ("x", "y", "z", "turn_x", "turn_y", "turn_z"))
    turns = between_quaternions(np.broadcast_to(value[:1, 3:], value[:, 3:].shape), value[:, 3:])
    sd = np.array([noise_of(column)[0] for column in (*value[:, :3].T, *turns.T)])
    # position noise is alike along the axes, and so is that of turns
    sd = np.repeat([np.median(sd[:3]), np.median(sd[3:])], 3)
    place = int(model.jnt_qposadr[joint]) + np.arange(7)
    return Reading(signal.name, "pose", time_s, value, place, entries, ("m",) * 3 + ("rad",) * 3, sd, np.full(6, 1e-9))


def _body_of(signal: str, model: Any) -> int | None:
    known = names(model, "body")
    for name in (signal, signal.removesuffix("_pose"), signal.removesuffix(".pose"), signal.removesuffix("_track")):
        if name in known and model.body_jntnum[known.index(name)] == 1:
            return known.index(name)
    free = [b for b in range(1, model.nbody) if model.body_jntnum[b] == 1 and model.jnt_type[model.body_jntadr[b]] == 0]
    if len(free) == 1:
        return free[0]
    slides = [b for b in range(1, model.nbody) if _passive(b, model)]
    return slides[0] if not free and len(slides) == 1 else None


def _passive(body: int, model: Any) -> bool:
    """Whether the body moves on one joint that hangs on nothing that moves and that no actuator drives."""
    if model.body_jntnum[body] != 1 or model.body_weldid[model.body_parentid[body]] != 0:
        return False
    return int(model.body_jntadr[body]) not in model.actuator_trnid[:, 0]


def _along_joint(name: str, time_s: np.ndarray, pose: np.ndarray, body: int, model: Any) -> Reading:
    """The joint's position that brings the body nearest to each pose, where it hangs on a slide or hinge."""
    joint, data = int(model.body_jntadr[body]), mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    axis, home = data.xaxis[joint].copy(), data.xpos[body].copy()
    if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE:
        value = (pose[:, :3] - home) @ axis
    else:
        turns = between_quaternions(np.broadcast_to(data.xquat[body], pose[:, 3:].shape), pose[:, 3:])
        value = np.unwrap(turns @ (data.xmat[body].reshape(3, 3).T @ axis))
    value = value + model.qpos0[model.jnt_qposadr[joint]]
    sd, floor = noise_of(value)
    label = names(model, "joint")[joint]
    unit = "m" if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE else "rad"
    place = np.array([int(model.jnt_qposadr[joint])])
    return Reading(
        name,
        "position",
        time_s,
        value[:, None],
        place,
        (f"{name}.{label}",),
        (unit,),
        np.array([sd]),
        np.array([floor]),
    )


def _continuous(quat: np.ndarray) -> np.ndarray:
    """The same orientations, each on the side of the one before."""
    flips = np.sign(np.einsum("ij,ij->i", quat[1:], quat[:-1]))
    flips[flips == 0] = 1.0
    whole: np.ndarray = quat * np.r_[1.0, np.cumprod(flips)][:, None]
    return whole


def noise_of(column: np.ndarray) -> tuple[float, float]:
    """The sd of a column's noise, from its third differences (a smooth motion has next to none), and its floor."""
    read = column[np.isfinite(column)]
    steps = np.abs(np.diff(read))
    steps = steps[steps > 1e-12 * max(1.0, float(np.abs(read).max(initial=0.0)))]
    # a quantised column moves by whole steps: the smallest is met again and again
    quantum = 0.0
    if steps.size:
        smallest = float(steps.min())
        quantum = smallest if np.mean(np.abs(steps / smallest - np.round(steps / smallest)) < 0.01) > 0.9 else 0.0
    floor = max(quantum / np.sqrt(12), 1e-9)
    if len(read) < 8:
        return max(floor, float(np.std(read)) * 0.01, 1e-6), floor
    third = np.diff(column, 3)
    third = third[np.isfinite(third)]
    if third.size < 4:
        third = np.diff(read, 3)
    spread = float(np.median(np.abs(third - np.median(third)))) * 1.4826 / np.sqrt(20)
    return max(spread, floor, 1e-6 * float(np.ptp(read)), 1e-9), floor


def commands(episode: Episode, model: Any) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """When commands were sent, what (T, nu), and sentences about actuators that were sent nothing."""
    if not model.nu:
        return np.zeros(1), np.zeros((1, 0)), ()
    signals = episode.of_kind("joint_command")
    if not signals:
        raise RecordingError(
            f"{episode.source or episode.id}: the model has {model.nu} actuators and the recording no joint_command. "
            "Give the rig one, or take the actuators out of the scene."
        )
    places: dict[int, tuple[Signal, int]] = {}
    for signal in signals:
        for k, column in enumerate(signal.columns):
            actuator = _actuator_of(column.name, model)
            if actuator is not None and np.isfinite(signal.value[:, k]).any():
                places[actuator] = (signal, k)
    if not places:
        told = [column.name for signal in signals for column in signal.columns]
        raise RecordingError(
            f"{episode.source or episode.id}: no command fits an actuator: the recording has {', '.join(told)}. "
            f"{nearest(told[0], names(model, 'actuator'))} Name the columns in the rig as the model does."
        )
    time_s = np.unique(np.concatenate([signal.time_s for signal, _ in places.values()]))
    value = np.zeros((len(time_s), model.nu))
    notes = []
    for actuator, name in enumerate(names(model, "actuator")):
        if actuator not in places:
            notes.append(f"actuator {name!r} was sent nothing in {episode.source or episode.id}: zero is assumed")
            continue
        signal, k = places[actuator]
        read = np.isfinite(signal.value[:, k])
        held = np.searchsorted(signal.time_s[read], time_s + 1e-9, side="right") - 1
        value[:, actuator] = signal.value[read, k][np.maximum(held, 0)]
    return time_s, value, tuple(notes)


def _actuator_of(column: str, model: Any) -> int | None:
    known = names(model, "actuator")
    if column in known:
        return known.index(column)
    joint = joint_of(column, model)
    if joint is None:
        return None
    drives = [a for a in range(model.nu) if model.actuator_trntype[a] == 0 and model.actuator_trnid[a, 0] == joint]
    return drives[0] if len(drives) == 1 else None
