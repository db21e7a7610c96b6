"""Generalised forces along a recorded motion, as a model sees them: what it takes to move so, and gravity's part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from twinproof.nouns.theta import Theta
from twinproof.sim.experiment import Experiment
from twinproof.sim.instantiate import poke_model
from twinproof.sim.parameters.actuators import is_servo
from twinproof.sim.smooth import states_at

if TYPE_CHECKING:
    from jaxtyping import Float

MOST = 80  # looks at an episode
EDGE_S = 0.02
HINGE = 3  # mjtJoint


@dataclass(frozen=True, eq=False)
class Along:
    """A model's forces at some moments of an episode, as if nothing touched anything."""

    time_s: Float[np.ndarray, "n"]
    qvel: Float[np.ndarray, "n nv"]
    needed: Float[np.ndarray, "n nv"]  # all that has to act
    moving: Float[np.ndarray, "n nv"]  # the same without gravity
    gravity: Float[np.ndarray, "n nv 3"]  # what one m/s² of gravity along each axis asks for
    measured: np.ndarray  # nv: whether anything says how it moved; what nobody measured stays where the model has it


def along(experiment: Experiment, hinges_by: float = 1.0) -> Along | None:
    """The forces, hinges taken to have moved `hinges_by` times as far; None for an episode of no length."""
    model: Any = poke_model(experiment.scene.nominal(), Theta({}))
    time_s = np.linspace(experiment.begin_s + EDGE_S, experiment.end_s - EDGE_S, MOST)
    if experiment.end_s - experiment.begin_s < 4 * EDGE_S:
        return None
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    states = states_at(experiment.readings, model, time_s)
    qpos, qvel, rate = np.array(states.qpos), np.array(states.qvel), np.array(states.acceleration)
    for joint in np.flatnonzero(model.jnt_type == HINGE):
        qpos[:, model.jnt_qposadr[joint]] *= hinges_by
        qvel[:, model.jnt_dofadr[joint]] *= hinges_by
        rate[:, model.jnt_dofadr[joint]] *= hinges_by
    usual = np.array(model.opt.gravity)
    needed = _inverse(model, qpos, qvel, rate)
    model.opt.gravity[:] = 0
    moving = _inverse(model, qpos, qvel, rate)
    still = np.zeros_like(qvel)
    rest, parts = _inverse(model, qpos, still, still), []
    for axis in np.eye(3):
        model.opt.gravity[:] = axis
        parts.append(_inverse(model, qpos, still, still) - rest)
    model.opt.gravity[:] = usual
    return Along(time_s, qvel, needed, moving, np.stack(parts, axis=-1), states.measured)


def _inverse(model: Any, qpos: np.ndarray, qvel: np.ndarray, rate: np.ndarray) -> np.ndarray:
    data = mujoco.MjData(model)
    found = np.empty(qvel.shape)
    for i in range(len(qpos)):
        data.qpos[:], data.qvel[:], data.qacc[:] = qpos[i], qvel[i], rate[i]
        mujoco.mj_inverse(model, data)
        found[i] = data.qfrc_inverse
    return found


def strongest(experiment: Experiment) -> Float[np.ndarray, "nv"]:
    """The most that actuators gave each degree of freedom under the recorded commands.

    Infinite where no limit is known, zero where nothing drives it.
    """
    model: Any = experiment.scene.nominal()
    found = np.zeros(model.nv)
    for a in range(model.nu):
        if model.actuator_trntype[a] != 0:
            return np.full(model.nv, np.inf)  # tendons and the like may pull at anything
        dof = int(model.jnt_dofadr[int(model.actuator_trnid[a, 0])])
        most = float(np.abs(model.actuator_forcerange[a]).max()) if model.actuator_forcelimited[a] else np.inf
        if model.actuator_gaintype[a] == 0 and model.actuator_biastype[a] == 0:
            sent = np.abs(experiment.command[:, int(model.actuator_ctrladr[a])])
            most = min(most, abs(float(model.actuator_gainprm[a, 0])) * float(sent.max(initial=0.0)))
        found[dof] += most * abs(float(model.actuator_gear[a, 0]))
    return found


def servoed(experiment: Experiment) -> dict[int, int]:
    """For each place in qpos that a position servo drives, where its command stands."""
    model: Any = experiment.scene.nominal()
    return {
        int(model.jnt_qposadr[int(model.actuator_trnid[a, 0])]): int(model.actuator_ctrladr[a])
        for a in range(model.nu)
        if model.actuator_trntype[a] == 0 and is_servo(model, a)
    }
