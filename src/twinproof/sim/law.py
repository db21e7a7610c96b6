"""Force laws: what MuJoCo's joints and motors cannot say, computed at every physics step.

state, commands so far ──law──> controls that reach the motors, extra joint torques ──one physics step──> state …

A law is frozen and holds numbers; `running` turns one law for each Theta into one thing that acts on all rows at once
and keeps what it has to remember (bristles, slack, drift). Commands come to a law as late as a Theta's delays say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from twinproof.nouns.theta import Theta
from twinproof.sim.parameters.base import names
from twinproof.sim.population import control_names

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True, eq=False)
class Plant:
    """What a law may know of the model: sizes, the time step, and the joint that each number in `ctrl` drives."""

    nq: int
    nv: int
    step_s: float
    actuators: tuple[str, ...]
    dof: Int[np.ndarray, "nu"]  # -1 where a control drives no single joint
    gear: Float[np.ndarray, "nu"]
    inertia: Float[np.ndarray, "nv"]  # of each degree of freedom at the model's zero

    @property
    def nu(self) -> int:
        """Numbers in ctrl."""
        return len(self.actuators)


@dataclass(frozen=True, eq=False)
class Moment:
    """What is so when a physics step begins. `sent` are the commands up to now, newest last, one a physics step."""

    qpos: Float[np.ndarray, "rows nq"]
    qvel: Float[np.ndarray, "rows nv"]
    sent: Float[np.ndarray, "rows memory nu"]


@dataclass(frozen=True, eq=False)
class Action:
    """What a law makes of a moment: the controls that reach the model's actuators, and torques on its joints."""

    ctrl: Float[np.ndarray, "rows nu"]
    torque: Float[np.ndarray, "rows nv"]


class Running(ABC):
    """A law at work on many rows: called once at every physics step, in order; it remembers in between."""

    @abstractmethod
    def act(self, now: Moment) -> Action:
        """Controls and extra torques of the step that begins now."""

    @abstractmethod
    def restart(self, rows: Int[np.ndarray, "some"], begin: Moment) -> None:
        """Some rows begin anew, as `begin` says, which is of all rows."""


class Law(ABC):
    """A force law, with numbers. Laws of one rollout are of one class."""

    @abstractmethod
    def memory(self, step_s: float) -> int:
        """How many commands before the present one it looks back on."""

    @staticmethod
    @abstractmethod
    def running(laws: Sequence[Any], which: Int[np.ndarray, "rows"], plant: Plant, begin: Moment) -> Running:
        """The laws at work: row r obeys law number which[r] and begins as `begin` says."""


@dataclass(frozen=True)
class Chain(Law):
    """Laws one after the other: each gets the controls that the one before lets through; torques add up."""

    laws: tuple[Law, ...]

    def memory(self, step_s: float) -> int:
        return max((law.memory(step_s) for law in self.laws), default=0)

    @staticmethod
    def running(laws: Sequence[Chain], which: np.ndarray, plant: Plant, begin: Moment) -> Running:
        parts = zip(*(chain.laws for chain in laws), strict=True)
        return _RunningChain([type(part[0]).running(part, which, plant, begin) for part in parts])


class _RunningChain(Running):
    def __init__(self, parts: list[Running]) -> None:
        self._parts = parts

    def act(self, now: Moment) -> Action:
        ctrl, torque = now.sent[:, -1], np.zeros_like(now.qvel)
        sent = now.sent
        for part in self._parts:
            action = part.act(replace(now, sent=sent))
            ctrl, torque = action.ctrl, torque + action.torque
            sent = np.concatenate([sent[:, :-1], ctrl[:, np.newaxis]], axis=1)
        return Action(ctrl, torque)

    def restart(self, rows: np.ndarray, begin: Moment) -> None:
        for part in self._parts:
            part.restart(rows, begin)


def plant(model: Any) -> Plant:
    """What laws may know of a model."""
    single = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
    dof, gear = np.full(model.nu, -1), np.ones(model.nu)
    for i in range(len(model.actuator_trntype)):
        if model.actuator_trntype[i] == int(mujoco.mjtTrn.mjTRN_JOINT) and model.actuator_ctrlnum[i] == 1:
            joint, first = int(model.actuator_trnid[i, 0]), int(model.actuator_ctrladr[i])
            if int(model.jnt_type[joint]) in single:
                dof[first], gear[first] = int(model.jnt_dofadr[joint]), float(model.actuator_gear[i, 0])
    return Plant(
        int(model.nq), int(model.nv), float(model.opt.timestep), control_names(model), dof, gear, model.dof_M0.copy()
    )


def without_delays(model: Any, thetas: Sequence[Theta]) -> tuple[list[Theta], Float[np.ndarray, "thetas nu"]]:
    """The Thetas without delays of commands, and these in s: a law is told what arrives, not what is sent."""
    late, left = np.zeros((len(thetas), model.nu)), []
    actuators = [(f"actuator.{name}.delay", i) for i, name in enumerate(names(model, "actuator"))]
    for row, theta in enumerate(thetas):
        kept = dict(theta)
        for id, i in actuators:
            if id in kept:
                first = int(model.actuator_ctrladr[i])
                late[row, first : first + int(model.actuator_ctrlnum[i])] = kept.pop(id)
                if model.actuator_delay[i] > 0:
                    kept[id] = 0.0  # else the model's own would act in its place
        left.append(Theta(kept))
    return left, late


def finite(qpos: np.ndarray, qvel: np.ndarray, gone: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities, zero for rows that diverged: a law need not bear infinities."""
    if not gone.any():
        return qpos, qvel
    keep = ~gone[:, np.newaxis]
    return np.where(keep, qpos, 0.0), np.where(keep, qvel, 0.0)
