"""The real double pendulum: its runs, the authors' models with their own equations, and windows to score them on."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.signal import savgol_filter

from twinproof.identify.actuator_fit import Run

FOLDER = Path(__file__).parents[1].parent / "shared/data/double_pendulum"
DRIVEN = tuple(f"20230629-{clock}" for clock in ("143339", "143524", "143601", "143704", "143747", "143906"))
TRACKING = "20230629-154220"
STEP_S = 0.002
SMOOTH = 21  # samples of the cubic (Savitzky–Golay) that gives the start states
XML = """
<mujoco model="double pendulum">
  <compiler angle="radian"/>
  <option timestep="0.002" integrator="Euler"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <body name="upper">
      <joint name="shoulder" axis="0 1 0" armature=".02"/>
      <inertial pos="0 0 -.1" mass=".8" diaginertia="1e-3 1e-3 1e-3"/>
      <body name="lower" pos="0 0 -.2">
        <joint name="elbow" axis="0 1 0" armature=".005"/>
        <inertial pos="0 0 -.26" mass=".6" diaginertia="6.5e-3 6.5e-3 1e-3"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor name="shoulder" joint="shoulder"/><motor name="elbow" joint="elbow"/></actuator>
</mujoco>"""


@dataclass(frozen=True, eq=False)
class Log:
    """One CSV: positions and velocities as measured, commanded and measured torques, sample by sample."""

    id: str
    position: np.ndarray
    velocity: np.ndarray
    commanded: np.ndarray
    measured: np.ndarray


def read(id: str) -> Log:
    """One run. The few samples that came late, by a millisecond at most and at a run's start, count as on time."""
    with (FOLDER / f"{id}.csv").open() as file:
        rows = list(csv.DictReader(file))

    def both(name: str) -> np.ndarray:
        return np.array([[float(row[f"{name}{j}"]) for j in (1, 2)] for row in rows])

    return Log(id, both("pos_meas"), both("vel_meas"), both("tau_con"), both("tau_meas"))


def states(log: Log, rule: str) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities that windows begin with, the same for every contender.

    `smoothed` is the measured state after a cubic over 42 ms; `raw` is as logged (velocities in steps of 0.19 rad/s);
    `causal` is a parabola over the 42 ms before.
    """
    q = log.position
    match rule:
        case "raw":
            return q, log.velocity
        case "causal":
            times = np.arange(-SMOOTH + 1, 1) * STEP_S
            weights = np.linalg.pinv(np.vander(times, 3, increasing=True))[:2]
            before = np.lib.stride_tricks.sliding_window_view(q, SMOOTH, axis=0)
            ends = np.einsum("pn,tjn->ptj", weights, before)
            return np.concatenate([q[: SMOOTH - 1], ends[0]]), np.concatenate([log.velocity[: SMOOTH - 1], ends[1]])
        case _:
            speed = savgol_filter(q, SMOOTH, 3, deriv=1, delta=STEP_S, axis=0)
            return savgol_filter(q, SMOOTH, 3, axis=0), speed


def run(log: Log, rule: str = "smoothed") -> Run:
    """The run with its commanded torques."""
    return Run(log.id, log.position, *states(log, rule), log.commanded)


def published(name: str) -> dict[str, float]:
    """The authors' identified parameters."""
    lines = (FOLDER / "published_parameters" / f"model_{name}.yml").read_text().splitlines()
    return {key.strip(): float(value) for key, value in (line.split(":") for line in lines if ":" in line)}


def acceleration(p: dict[str, float], q: np.ndarray, v: np.ndarray, u: np.ndarray) -> np.ndarray:
    """The authors' equations of motion (DFKI double_pendulum, plant.py): rotor coupling −gr·Ir, arctan friction."""
    sine, cosine = np.sin(q[:, 1]), np.cos(q[:, 1])
    h, rotor = p["m2"] * p["l1"] * p["r2"], p["Ir"]
    m00 = p["I1"] + p["I2"] + p["m2"] * p["l1"] ** 2 + 2 * h * cosine + p["gr"] ** 2 * rotor + rotor
    m01 = p["I2"] + h * cosine - p["gr"] * rotor
    m11 = p["I2"] + p["gr"] ** 2 * rotor
    lower = p["m2"] * p["g"] * p["r2"] * np.sin(q[:, 0] + q[:, 1])
    upper = p["g"] * (p["m1"] * p["r1"] + p["m2"] * p["l1"]) * np.sin(q[:, 0]) + lower
    brake = [p[f"b{j}"] * v[:, j - 1] + p[f"cf{j}"] * np.arctan(100 * v[:, j - 1]) for j in (1, 2)]
    f0 = u[:, 0] + h * sine * (2 * v[:, 0] * v[:, 1] + v[:, 1] ** 2) - upper - brake[0]
    f1 = u[:, 1] - h * sine * v[:, 0] ** 2 - lower - brake[1]
    det = m00 * m11 - m01**2
    return np.stack([(m11 * f0 - m01 * f1) / det, (m00 * f1 - m01 * f0) / det], axis=1)


def roll_published(p: dict[str, float], q: np.ndarray, v: np.ndarray, torque: np.ndarray, samples: int) -> np.ndarray:
    """Positions (windows, samples, 2) by Runge–Kutta in steps of 1 ms; `torque` (windows, samples, 2) is held."""
    q, v, h, found = q.copy(), v.copy(), STEP_S / 2, np.empty((len(q), samples, 2))
    for k in range(samples):
        u = torque[:, k]
        for _ in range(2):
            a1 = acceleration(p, q, v, u)
            v2, a2 = v + h / 2 * a1, acceleration(p, q + h / 2 * v, v + h / 2 * a1, u)
            v3, a3 = v + h / 2 * a2, acceleration(p, q + h / 2 * v2, v + h / 2 * a2, u)
            v4, a4 = v + h * a3, acceleration(p, q + h * v3, v + h * a3, u)
            q, v = q + h / 6 * (v + 2 * v2 + 2 * v3 + v4), v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        found[:, k] = q
    return found
