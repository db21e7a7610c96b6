"""Small recordings with a planted truth: a driven pendulum, and a rotor whose mass may sit on either side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import mujoco
import numpy as np

from twinproof.identify.beliefs import Stated, beliefs
from twinproof.identify.fit import Fit, GaussNewton, fit
from twinproof.identify.problem import Problem
from twinproof.nouns.episode import Episode
from twinproof.nouns.randomness import stream
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.theta import Theta
from twinproof.sim.experiment import experiment
from twinproof.sim.instantiate import instantiate
from twinproof.sim.scene import Scene

PENDULUM = """
<mujoco>
  <option timestep="0.002"/>
  <worldbody>
    <body name="bob" pos="0 0 1">
      <joint name="hinge" axis="0 1 0" damping="0.05"/>
      <geom name="bob" type="capsule" fromto="0 0 0 0 0 -.3" size=".02" mass=".5" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
  <actuator><motor name="hinge" joint="hinge"/></actuator>
</mujoco>
"""
# Nothing pulls it down, so only the square of where its mass sits is felt.
ROTOR = """
<mujoco>
  <option timestep="0.002" gravity="0 0 0"/>
  <worldbody>
    <body name="rotor" pos="0 0 1">
      <inertial pos="0 0.1 0" mass="0.5" diaginertia="0.002 0.002 0.002"/>
      <joint name="hinge" axis="0 0 1" damping="0.02"/>
    </body>
  </worldbody>
  <actuator><motor name="hinge" joint="hinge"/></actuator>
</mujoco>
"""


def recorded(scene: Scene, truth: Mapping[str, float], seed: int, seconds: float = 1.0, noise: float = 2e-3) -> Episode:
    """One swing under a sum of sines, its angle read every 10 ms."""
    model = instantiate(scene, Theta(truth))
    data, rng = mujoco.MjData(model), stream(seed, "swings")
    time_s = np.arange(0, seconds + 1e-9, 0.01)
    phase = rng.uniform(0, 6.28, 3)
    torque = 0.25 * np.sin(np.outer(time_s, (4.0, 9.0, 17.0)) + phase).sum(axis=1)
    angle = np.zeros(len(time_s))
    for k, control in enumerate(torque):
        angle[k] = data.qpos[0]
        data.ctrl[0] = control
        mujoco.mj_step(model, data, 5)
    angle += noise * rng.normal(size=len(angle))
    signals = {
        "state": Signal("state", "joint_position", (Column("hinge", "rad"),), time_s, angle[:, None]),
        "command": Signal("command", "joint_command", (Column("hinge", "N m"),), time_s, torque[:, None]),
    }
    return Episode.of(signals, {}, source=f"swing {seed}")


def asked(text: str, truth: Mapping[str, float], stated: Sequence[str], episodes: int, seed: int = 0) -> Problem:
    """What a few swings under a truth say of its parameters."""
    scene = Scene(text)
    made = [experiment(recorded(scene, truth, 100 * seed + k), scene) for k in range(episodes)]
    given = [Stated.parse(each) for each in stated]
    return Problem(beliefs(scene.nominal(), list(truth), given), tuple(made))


PENDULUM_TRUTH = {"body.bob.mass": 0.6, "joint.hinge.damping": 0.08}
TIED_TRUTH = {**PENDULUM_TRUTH, "actuator.hinge.gain": 1.1}
ROTOR_TRUTH = {"body.rotor.com_y": 0.16, "joint.hinge.damping": 0.03}


@cache
def pendulum(seed: int = 0) -> Fit:
    """The fit of a pendulum's mass and damping."""
    return fit(asked(PENDULUM, PENDULUM_TRUTH, ("joint.hinge.damping=0.01..0.3",), 2, seed), QUICK)


@cache
def tied() -> Fit:
    """The fit of a pendulum's mass, damping and torque gain, of which only ratios are felt."""
    return fit(asked(PENDULUM, TIED_TRUTH, ("joint.hinge.damping=0.01..0.3",), 2), QUICK)


@cache
def rotor() -> Fit:
    """The fit of where a rotor's mass sits: to its left or to its right."""
    return fit(asked(ROTOR, ROTOR_TRUTH, ("body.rotor.com_y=-0.4..0.4",), 2), QUICK)


QUICK = GaussNewton(horizons_s=((0.2,), (0.5,)), free_starts=True)


def truth_of(problem: Problem, truth: Mapping[str, float]) -> np.ndarray:
    """A truth on the natural scale."""
    return np.array([float(b.info.to_scale(truth[b.id])) for b in problem.beliefs])
