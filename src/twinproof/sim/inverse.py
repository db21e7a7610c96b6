"""Torques that explain a measured motion: MuJoCo's inverse dynamics along an episode, under several Thetas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from twinproof.nouns.theta import Theta
from twinproof.sim.experiment import Experiment
from twinproof.sim.instantiate import poke_model
from twinproof.sim.parameters.resolve import parameter
from twinproof.sim.smooth import states_at

EVERY_S = 0.02


def inverse_dynamics(
    experiment: Experiment, thetas: Sequence[Theta], every_s: float = EVERY_S
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Measured torques (n, D), those each Theta asks for (thetas, n, D), the sensors' noise (D); None without torques.

    Parameters that act outside the model (delays, offsets, backlash) and gains do not matter here.
    """
    torque = next((reading for reading in experiment.readings if reading.kind == "torque"), None)
    if torque is None:
        return None
    nominal: Any = experiment.scene.nominal()
    time_s = np.arange(experiment.begin_s + every_s, experiment.end_s - every_s, every_s)
    states = states_at(experiment.readings, nominal, time_s)
    if not len(time_s) or not states.measured[torque.place].all():
        return None
    measured = np.stack([np.interp(time_s, torque.time_s, column) for column in torque.value.T], axis=1)
    asked = np.empty((len(thetas), *measured.shape))
    for k, theta in enumerate(thetas):
        inside = Theta({id: v for id, v in theta.items() if parameter(id).fields and not id.endswith(".delay")})
        model = poke_model(nominal, inside)
        data = mujoco.MjData(model)
        for i in range(len(time_s)):
            data.qpos[:], data.qvel[:], data.qacc[:] = states.qpos[i], states.qvel[i], states.acceleration[i]
            mujoco.mj_inverse(model, data)
            asked[k, i] = data.qfrc_inverse[torque.place]
    kept = np.isfinite(measured).all(axis=1) & np.isfinite(asked).all(axis=(0, 2))
    return measured[kept], asked[:, kept], torque.sd
