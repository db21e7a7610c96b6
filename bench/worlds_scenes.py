"""Scenes on which the GPU's worlds are held against the CPU's, and how close they must be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from bench.arm_and_cube import scene as arm_and_cube
from bench.arm_and_cube import thetas as arm_thetas

from twinproof.nouns.randomness import stream
from twinproof.nouns.theta import Theta
from twinproof.sim.scene import Scene
from twinproof.sim.worlds import Worlds

PENDULUM = """
<mujoco>
  <option timestep="0.002"/>
  <worldbody><body name="upper"><joint name="shoulder" axis="0 1 0" damping=".05" frictionloss=".02"/>
    <geom name="upper" type="capsule" fromto="0 0 0 .3 0 0" size=".02"/>
    <body name="lower" pos=".3 0 0"><joint name="elbow" axis="0 1 0" damping=".05"/>
      <geom name="lower" type="capsule" fromto="0 0 0 .3 0 0" size=".02"/></body></body></worldbody>
  <actuator><position name="shoulder" joint="shoulder" kp="20" kv="1"/><motor name="elbow" joint="elbow"/></actuator>
  <sensor><jointpos name="elbow" joint="elbow"/></sensor>
</mujoco>"""
DROP = """
<mujoco>
  <option timestep="0.002" integrator="implicitfast" cone="elliptic"/>
  <worldbody><geom name="floor" type="plane" size="2 2 .1"/>
    <body name="ball" pos="0 0 .06"><freejoint name="ball"/><geom name="ball" size=".05" mass=".2"/></body></worldbody>
</mujoco>"""


@dataclass(frozen=True)
class Parity:
    """A scene, its Thetas, how long it runs, and the largest difference that float32 is allowed (m, rad)."""

    scene: Scene
    thetas: tuple[Theta, ...]
    steps: int
    tolerance: float
    low: float = -1.0  # of the controls
    push: tuple[float, ...] = ()  # velocities to begin with


def _swings() -> tuple[Theta, ...]:
    ids = {"body.lower.mass": (0.2, 1.0), "joint.elbow.damping": (0.01, 0.2), "actuator.shoulder.delay": (0.0, 0.02)}
    rng = stream(1, "parity")
    return tuple(Theta({id: float(rng.uniform(*ends)) for id, ends in ids.items()}) for _ in range(4))


def _drops() -> tuple[Theta, ...]:
    return tuple(Theta({"body.ball.mass": 0.1 * k, "geom.floor.friction_slide": 0.2 * k}) for k in range(1, 5))


PARITY = {
    "two servo joints with delay": Parity(Scene(PENDULUM, control_delay_s=0.02), _swings(), 200, 1e-4),
    "a ball that falls and rolls": Parity(Scene(DROP), _drops(), 200, 1e-4, push=(0.5, 0.2, 0, 1, 2, 3)),
    "an arm that moves over a cube on a table": Parity(arm_and_cube(), tuple(arm_thetas(4)), 200, 1e-4, low=0.0),
}


def parity(name: str, device: str) -> dict[str, Any]:
    """The largest difference of positions and velocities between both kinds of worlds after the scene's steps."""
    import torch

    from twinproof.sim.worlds_gpu import GpuWorlds

    case = PARITY[name]
    cpu, gpu = Worlds(case.scene, case.thetas), GpuWorlds(case.scene, case.thetas, device=device)
    if case.push:
        cpu.reset(qvel=np.array(case.push))
        gpu.reset(qvel=torch.tensor(case.push))
    rng = stream(2, "parity", name)
    control = np.zeros((len(case.thetas), cpu.model.nu))
    for _ in range(case.steps // 10):
        control = np.clip(control + rng.normal(0, 0.05, control.shape), case.low, 1)
        cpu.step(control, 10)
        gpu.step(torch.as_tensor(control), 10)
    qpos = float(np.abs(gpu.qpos.cpu().numpy() - cpu.qpos).max())
    qvel = float(np.abs(gpu.qvel.cpu().numpy() - cpu.qvel).max())
    sensors = float(np.abs(gpu.sensordata.cpu().numpy() - cpu.sensordata).max(initial=0.0))
    differences = {"qpos": qpos, "qvel": qvel, "sensordata": sensors}
    return {"physics steps": case.steps, **differences, "tolerance": case.tolerance, "held": qpos <= case.tolerance}
