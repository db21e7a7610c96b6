"""What a Theta does outside the physics, as rows of numbers: late, slack and noisy commands, wrong readings, a
tracker's error, late pictures, pushes. The physics' own part goes to the worlds.

joint.X.offset, actuator.X.backlash, .delay_jitter, .noise        on the way of a command
sensor.X.bias, .noise, .quantum, joint.X.position_noise, …        on the way of a reading
proprioception.latency (added to every joint sensor's own delay), proprioception.dropout
tracker.position_noise, .rotation_noise, .latency, .dropout       of every tracked object
tracker.position_bias, .rotation_bias                             of every tracked object, drawn once an episode
image.latency                                                     of all pictures (late_view.py)
body.X.push                                                       N, a tenth of a second each, as sim/disturb.py has it
joint.X.start, body.X.start_x, …                                  where an episode begins (starts.py)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinproof.nouns.errors import TaskError
from twinproof.nouns.theta import Theta
from twinproof.sim.channels import ControlChannel, SensorChannel, joint_offsets
from twinproof.sim.parameters.resolve import parameter
from twinproof.sim.parameters.surfaces import COLOURS
from twinproof.sim.passage import has_channel
from twinproof.tasks.task import TaskSpec

TRACKER = ("position_noise", "rotation_noise", "latency", "dropout", "position_bias", "rotation_bias")
SEEN_ONLY = ("camera", "light", "material")  # nothing of it is in a lean scene
SENSORS = {"position": (9, 13), "velocity": (10, 14), "torque": (16, 15)}  # mjtSensor: of a joint, or its actuator
LEAST_DELAY_S = 1e-6  # one step of history: enough to state that a delay is zero


@dataclass(frozen=True, eq=False)
class Rows:
    """One row for each Theta. Columns of readings are all positions, then all velocities, then all torques."""

    shift: np.ndarray  # (K, J) what a servo takes off its command: the encoder's offset
    slack: np.ndarray  # (K, J) half the backlash
    late: np.ndarray  # (K, J) share of ticks at which a command comes a tick too late
    command_noise: np.ndarray  # (K, J) sd
    bias: np.ndarray  # (K, 3J)
    noise: np.ndarray  # (K, 3J) sd
    quantum: np.ndarray  # (K, 3J)
    dropout: np.ndarray  # (K, 1) share of ticks
    tracker: np.ndarray  # (K, 6) columns as TRACKER
    push: np.ndarray  # (K, pushed) N
    picture_late: np.ndarray  # (K, 1) s


def physics(model: Any, joints: Sequence[str], thetas: Sequence[Theta], lean: bool) -> list[Theta]:
    """What is left for the worlds: model parameters, with the latency of readings added to the sensors' delays."""
    keep = {id for id in {id for theta in thetas for id in theta} if _is_physics(id, lean)}
    numbers = np.stack([sensors_of(model, joints, what) for what in SENSORS])
    sensors = [model.sensor(int(k)).name for k in numbers[numbers >= 0]]
    blind = [name for k, name in enumerate(joints) if (numbers[:2, k] < 0).any()]
    if blind and any(theta.get("proprioception.latency", 0.0) for theta in thetas):
        raise TaskError(
            "readings are to come late (proprioception.latency), and the scene has no sensors of position and velocity "
            f"on {', '.join(blind)}. Add <jointpos> and <jointvel> sensors to it."
        )
    found = []
    for theta in thetas:
        values = {id: value for id, value in theta.items() if id in keep}
        if late_s := theta.get("proprioception.latency", 0.0):
            delays = {f"sensor.{name}.delay": values.get(f"sensor.{name}.delay", 0.0) + late_s for name in sensors}
            values |= delays
        found.append(Theta(values))
    return found


def delays_s(thetas: Sequence[Theta]) -> tuple[float, float]:
    """The longest delay of an actuator and of a sensor; where all that are stated are zero, the least."""
    found = {"actuator": 0.0, "sensor": 0.0}
    for theta in thetas:
        for id, value in theta.items():
            kind = id.partition(".")[0]
            if kind in found and id.endswith(".delay"):
                found[kind] = max(found[kind], value, LEAST_DELAY_S)
    return found["actuator"], found["sensor"]


def _is_physics(id: str, lean: bool) -> bool:
    kind, known = id.partition(".")[0], parameter(id)
    if lean and (kind in SEEN_ONLY or (kind == "geom" and id.endswith(tuple(f".{colour}" for colour in COLOURS)))):
        return False
    return not (known.channel or kind == "signal" or (kind == "joint" and id.endswith(".offset")))


def sensors_of(model: Any, joints: Sequence[str], what: str) -> np.ndarray:
    """The number of each joint's sensor of this kind; -1 where the model has none."""
    on_joint, on_actuator = SENSORS[what]
    found = np.full(len(joints), -1, dtype=np.int64)
    for k, name in enumerate(joints):
        joint = model.joint(name).id
        for s in range(model.nsensor):
            kind, thing = int(model.sensor_type[s]), int(model.sensor_objid[s])
            drives = kind == on_actuator and int(model.actuator_trnid[thing, 0]) == joint
            if found[k] < 0 and ((kind == on_joint and thing == joint) or drives):
                found[k] = s
    return found


def sensor_columns(model: Any, joints: Sequence[str], what: str) -> np.ndarray:
    """Where each joint's reading lies in the sensor data; -1 where the model has no such sensor."""
    found = sensors_of(model, joints, what)
    return np.where(found >= 0, np.array(model.sensor_adr)[found], -1) if model.nsensor else found


def rows_of(model: Any, task: TaskSpec, pushed: Sequence[str], thetas: Sequence[Theta]) -> Rows:
    """The rows of many Thetas; all that they push is among `pushed`."""
    joints, tick_s = task.machine.joints, task.period_s
    count, width = len(thetas), len(joints)
    strange = sorted({*pushed_bodies(thetas)} - {*pushed})
    if strange:
        raise TaskError(
            f"a Theta pushes {', '.join(strange)}, which no draw of this arena did when it was made. Give the arena "
            "such a draw."
        )
    if has_channel(thetas, "control"):
        control = ControlChannel(model, thetas, tick_s, 0)
        shift, slack, jitter = control.shift, control.slack, control.jitter
    else:
        shift, slack, jitter = (np.zeros((count, width)) for _ in range(3))
    if (jitter > 2 * tick_s).any():
        raise TaskError(
            f"a command's delay jitters by {jitter.max():.3g} s, more than two ticks of {tick_s:.3g} s, where ranges "
            "that were made wider count as wide as they are. A command may stand for one tick more: state a smaller "
            "range of actuator.….delay_jitter, use a delay, or a lower rate."
        )
    bias, noise, quantum = _readings(model, joints, thetas)
    return Rows(
        shift,
        slack,
        jitter / (2 * tick_s),
        _table(thetas, [f"actuator.{name}.noise" for name in _actuators(model)]),
        bias,
        noise,
        quantum,
        _table(thetas, ["proprioception.dropout"]),
        _table(thetas, [f"tracker.{what}" for what in TRACKER]),
        _table(thetas, [f"body.{body}.push" for body in pushed]),
        _table(thetas, ["image.latency"]),
    )


def pushed_bodies(thetas: Sequence[Theta]) -> tuple[str, ...]:
    """The bodies that some Theta pushes."""
    ids = {id for theta in thetas for id in theta if id.startswith("body.") and id.endswith(".push")}
    return tuple(sorted(id.removeprefix("body.").removesuffix(".push") for id in ids))


def _actuators(model: Any) -> list[str]:
    return [model.actuator(k).name for k in range(model.nactuator)]


def _readings(model: Any, joints: Sequence[str], thetas: Sequence[Theta]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    columns = np.concatenate([sensor_columns(model, joints, what) for what in SENSORS])
    there = columns >= 0
    shape = (len(thetas), len(columns))
    bias, noise, quantum = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    if has_channel(thetas, "sensor"):
        channel = SensorChannel(model, thetas, 0)
        for mine, theirs in ((bias, channel.bias), (noise, channel.noise), (quantum, channel.quantum)):
            mine[:, there] = theirs[:, columns[there]]
        numbers = [model.joint(name).id for name in joints]
        for row, theta in zip(bias, thetas, strict=True):
            lacking = ~there[: len(joints)]
            row[: len(joints)][lacking] = joint_offsets(model, theta)[numbers][lacking]
    else:
        noise[:, there] = np.repeat(model.sensor_noise, model.sensor_dim)[columns[there]]
    more = _table(thetas, [f"joint.{name}.{what}_noise" for what in SENSORS for name in joints])
    return bias, np.hypot(noise, more), quantum


def _table(thetas: Sequence[Theta], ids: Sequence[str]) -> np.ndarray:
    found = [[theta.get(id, 0.0) for id in ids] for theta in thetas]
    return np.array(found, dtype=np.float64).reshape(len(thetas), len(ids))
