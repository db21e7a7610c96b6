"""Small robots with a planted truth, moved by MuJoCo step by step, and the episodes a recorder would have kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import mujoco
import numpy as np

from twinproof.nouns.episode import Episode
from twinproof.nouns.randomness import stream
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.theta import Theta
from twinproof.sim.instantiate import instantiate
from twinproof.sim.scene import Scene

# Two links on hinges, a motor on each, and a gyroscope on the lower one.
DOUBLE = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.004"/>
  <worldbody>
    <light name="lamp" pos="0 0 3"/>
    <camera name="front" pos="0 -2 1"/>
    <body name="upper" pos="0 0 1">
      <joint name="shoulder" axis="0 1 0" damping="0.05"/>
      <geom name="upper" type="capsule" fromto="0 0 0 0 0 -.3" size=".02" mass=".5" contype="0" conaffinity="0"/>
      <body name="lower" pos="0 0 -.3">
        <joint name="elbow" axis="0 1 0" damping="0.03"/>
        <geom name="lower" type="capsule" fromto="0 0 0 0 0 -.25" size=".02" mass=".3" contype="0" conaffinity="0"/>
        <site name="imu" pos="0 0 -.1"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor name="shoulder" joint="shoulder"/><motor name="elbow" joint="elbow"/></actuator>
  <sensor><gyro name="gyro" site="imu"/><jointpos name="elbow_pot" joint="elbow"/></sensor>
</mujoco>
"""
# One link; `frictionloss` and `armature` are above zero, so that each has a nominal size.
PENDULUM = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.004"/>
  <worldbody>
    <body name="bob" pos="0 0 1">
      <joint name="hinge" axis="0 1 0" damping="0.05" frictionloss="0.03"/>
      <geom name="bob" type="capsule" fromto="0 0 0 0 0 -.3" size=".02" mass=".5" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
  <actuator><motor name="hinge" joint="hinge"/></actuator>
</mujoco>
"""
# The same link held by a stiff position servo: it soon forgets where it began.
SERVO = PENDULUM.replace(
    '<motor name="hinge" joint="hinge"/>', '<position name="hinge" joint="hinge" kp="20" kv="2" gear="1"/>'
)
BOX = """
<mujoco>
  <option timestep="0.002"/>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 .1" friction=".05 .005 .0001"/>
    <body name="box" pos="0 0 .05">
      <freejoint name="box"/>
      <geom name="box" type="box" size=".05 .04 .03" mass=".2" friction=".4 .005 .0001"/>
    </body>
  </worldbody>
</mujoco>
"""
# A drawer that slides along a slanted axis and a lid on a hinge; nothing drives either.
DRAWER = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.002"/>
  <worldbody>
    <body name="drawer" pos=".1 .2 .3" euler="0 0 .4">
      <joint name="rail" type="slide" axis="1 0 0" damping="2" frictionloss=".5"/>
      <geom name="drawer" type="box" size=".1 .1 .05" mass="1" contype="0" conaffinity="0"/>
    </body>
    <body name="lid" pos="0 0 1" euler=".3 0 0">
      <joint name="lid_hinge" axis="0 1 0" damping=".02"/>
      <geom name="lid" type="box" size=".1 .1 .01" pos=".1 0 0" mass=".3" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
</mujoco>
"""
UNITS = {"joint_position": "rad", "gripper": "rad", "joint_velocity": "rad/s", "joint_torque": "N m"}
UNITS |= {"joint_command": "N m"}
POSE = ("x", "y", "z", "qw", "qx", "qy", "qz")


@dataclass(frozen=True)
class Motion:
    """What a world did, physics step by physics step; row k is at k steps, its torque drove the step that ended there.

    Sensors are read with the control that follows.
    """

    model: mujoco.MjModel
    time_s: np.ndarray
    qpos: np.ndarray
    qvel: np.ndarray
    torque: np.ndarray
    sensors: np.ndarray
    xpos: np.ndarray
    xquat: np.ndarray


def moved(
    scene: Scene,
    controls: np.ndarray | None = None,
    truth: Mapping[str, float] | None = None,
    seconds: float = 1.0,
    qpos: np.ndarray | None = None,
    qvel: np.ndarray | None = None,
) -> Motion:
    """The scene under a truth, sent one row of `controls` at each physics step."""
    model = instantiate(scene, Theta(truth or {}))
    data = mujoco.MjData(model)
    steps = round(seconds / model.opt.timestep) if controls is None else len(controls)
    if qpos is not None:
        data.qpos[:] = qpos
    if qvel is not None:
        data.qvel[:] = qvel
    kept: dict[str, list[np.ndarray]] = {
        name: [] for name in ("qpos", "qvel", "qfrc_actuator", "sensordata", "xpos", "xquat")
    }
    for k in range(steps + 1):
        if k:
            mujoco.mj_step(model, data)
        torque = data.qfrc_actuator.copy()
        if controls is not None and model.nu:
            data.ctrl[:] = controls[min(k, steps - 1)]
        mujoco.mj_forward(model, data)
        for name, rows in kept.items():
            rows.append(torque if name == "qfrc_actuator" else getattr(data, name).copy())
    time_s = np.arange(steps + 1) * model.opt.timestep
    return Motion(model, time_s, *(np.array(rows) for rows in kept.values()))


def sines(steps: int, width: int, step_s: float, seed: int, size: float = 0.2, held_s: float = 0.02) -> np.ndarray:
    """Commands that change every `held_s`: a few sines for each actuator."""
    rng = stream(seed, "sines")
    t = np.floor(np.arange(steps) * step_s / held_s + 1e-9) * held_s
    phase = rng.uniform(0, 6.28, (3, width))
    pace = np.array([4.0, 9.0, 17.0])[:, None]
    return np.asarray(size * np.sin(t[:, None, None] * pace + phase).sum(axis=1))


def signal(name: str, kind: str, columns: Mapping[str, np.ndarray], time_s: np.ndarray, unit: str = "") -> Signal:
    """A signal of some columns; NaN marks what is missing."""
    value = np.stack(list(columns.values()), axis=1)
    gone = ~np.isfinite(value)
    told = tuple(Column(column, unit or UNITS.get(kind, "1")) for column in columns)
    return Signal(name, kind, told, time_s, np.where(gone, 0.0, value), gone if gone.any() else None)


def joint_signals(
    motion: Motion,
    controls: np.ndarray | None,
    every: int = 1,
    noise: Callable[[str, tuple[int, ...]], np.ndarray] | None = None,
    kinds: tuple[str, ...] = ("state", "velocity", "torque"),
) -> dict[str, Signal]:
    """State, velocity, torque and command of every hinge and slide, every so many steps."""
    model = motion.model
    joints = {mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_JOINT, j): j for j in range(model.njnt)}
    joints = {name: j for name, j in joints.items() if model.jnt_type[j] in (2, 3)}
    told = {
        "state": ("joint_position", motion.qpos, model.jnt_qposadr),
        "velocity": ("joint_velocity", motion.qvel, model.jnt_dofadr),
        "torque": ("joint_torque", motion.torque, model.jnt_dofadr),
    }
    found = {}
    for name in kinds:
        kind, rows, place = told[name]
        first = 1 if name == "torque" else 0
        time_s = motion.time_s[first::every]
        value = {joint: rows[first::every, place[j]].copy() for joint, j in joints.items()}
        if noise is not None:
            value = {joint: column + noise(name, column.shape) for joint, column in value.items()}
        found[name] = signal(name, kind, value, time_s)
    if controls is not None and model.nu:
        actuators = [mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_ACTUATOR, i) for i in range(model.nu)]
        sent = {name: controls[:, i] for i, name in enumerate(actuators)}
        found["command"] = signal("command", "joint_command", sent, motion.time_s[: len(controls)])
    return found


def pose_signal(motion: Motion, body: str, name: str, every: int = 1) -> Signal:
    """Where a body was, every so many steps."""
    b = mujoco.mj_name2id(motion.model, mujoco.mjtObj.mjOBJ_BODY, body)
    rows = np.concatenate([motion.xpos[::every, b], motion.xquat[::every, b]], axis=1)
    return signal(name, "pose", dict(zip(POSE, rows.T, strict=True)), motion.time_s[::every], "m")


def gaussian(seed: int, **sd: float) -> Callable[[str, tuple[int, ...]], np.ndarray]:
    """Noise of so many sd for each signal."""
    rng = stream(seed, "noise")
    return lambda name, shape: sd.get(name, 0.0) * rng.normal(size=shape)


def swing(
    text: str,
    truth: Mapping[str, float] | None = None,
    seed: int = 0,
    seconds: float = 2.0,
    noise: Mapping[str, float] | None = None,
    kinds: tuple[str, ...] = ("state",),
    delay_s: float = 0.0,
    labels: Mapping[str, str] | None = None,
    size: float = 0.2,
    every: int = 2,
) -> Episode:
    """An episode of a driven robot under a truth: its commands arrive `delay_s` late, blended over a physics step."""
    scene = Scene(text)
    model = scene.nominal()
    steps = round(seconds / model.opt.timestep)
    sent = sines(steps, model.nu, model.opt.timestep, seed, size)
    motion = moved(scene, late(sent, delay_s, model.opt.timestep), truth, qpos=0.3 * np.cos(np.arange(model.nq) + seed))
    signals = joint_signals(motion, sent, every, gaussian(seed, **(noise or {"state": 1e-3})), kinds)
    return Episode.of(signals, {}, labels=labels, source=f"swing {seed}")


def late(sent: np.ndarray, delay_s: float, step_s: float) -> np.ndarray:
    """What arrives of held commands in each step, by brute force: the mean over many moments in it."""
    if delay_s == 0:
        return sent
    fine = 400
    moments = (np.arange(len(sent) * fine) + 0.5) / fine * step_s - delay_s
    held = np.clip(np.floor(moments / step_s), 0, len(sent) - 1).astype(int)
    return np.asarray(sent[held].reshape(len(sent), fine, -1).mean(axis=1))
