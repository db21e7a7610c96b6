"""Rollouts with a force law in the loop: what MuJoCo's joints and motors cannot say, computed at every physics step.

state, commands so far ──law──> controls that reach the motors, extra joint torques ──one physics step──> state …

A law is frozen and holds numbers; `running` turns one law for each Theta into one thing that acts on all rows at once
and keeps what it has to remember (bristles, slack, drift). Nothing here runs row by row in Python.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from twinproof.nouns.errors import SimError
from twinproof.sim.divergence import Divergence, Limits, quiet
from twinproof.sim.passage import as_measured, from_encoders, through_control
from twinproof.sim.population import Population, control_names
from twinproof.sim.recorder import Recorder
from twinproof.sim.rollout import MEASURED, Rolled, Rollouts, begin
from twinproof.sim.windows import Commands, Held, Start

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from twinproof.nouns.theta import Theta
    from twinproof.sim.scene import Scene


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


class Driven:
    """Rolls out commands of one scene under force laws; otherwise as `Rollouts`, whose arguments these are."""

    def __init__(
        self,
        scene: Scene,
        outputs: Sequence[str] = ("qpos", "qvel"),
        substeps: int = 1,
        limits: Limits | None = None,
        nthread: int = 0,
        seed: int = 0,
    ) -> None:
        self._plain = Rollouts(scene, outputs, substeps, limits, nthread, seed)
        self._seed = seed
        self.scene, self.outputs, self.substeps = scene, self._plain.outputs, substeps
        self.model: Any = self._plain.model
        self.limits = self._plain.limits
        self.plant = plant(self.model)

    @property
    def sample_s(self) -> float:
        """Seconds between control samples."""
        return self._plain.sample_s

    def roll(
        self, thetas: Sequence[Theta], laws: Sequence[Law], start: Start, controls: np.ndarray | Held, samples: int = 0
    ) -> Rolled:
        """Every window under every Theta and its law; one law alone serves all Thetas."""
        count = len(thetas)
        if not count:
            raise SimError("no Thetas were given to roll out. Give one or more; Theta() is the nominal.")
        commands = self._plain.commands(controls, samples, count)
        windows = len(commands.row) // count
        which = np.repeat(np.arange(count), windows)
        rolled = self.roll_rows(thetas, laws, which, start.rows(count, windows), commands)
        outputs = {name: value.reshape(count, windows, *value.shape[1:]) for name, value in rolled.outputs.items()}
        return Rolled(
            MappingProxyType(outputs),
            rolled.diverged_at.reshape(count, windows),
            lambda p, w: rolled.explain(0, p * windows + w),
        )

    def roll_rows(
        self, thetas: Sequence[Theta], laws: Sequence[Law], which: np.ndarray, start: Start, commands: Commands
    ) -> Rolled:
        """Rows, each with Theta and law number `which` (R,), a start and commands; the outputs are (R, samples, …)."""
        _check(thetas, laws)
        start.check(self.model)
        commands.check(control_names(self.model))
        start = from_encoders(self.model, thetas, which, start)
        start, commands = through_control(self.model, thetas, which, start, commands, self.sample_s, self._seed)
        population = self._plain.population(thetas, which)
        begin(population, start, commands)
        outputs, diverged_at = self._run(population, laws, which if len(laws) > 1 else 0 * which, start, commands)
        if MEASURED in self.outputs:
            outputs[MEASURED] = as_measured(self.model, thetas, which, outputs["sensordata"])
            outputs = {name: outputs[name] for name in self.outputs}

        def why(_: int, row: int) -> Divergence:
            step = int(diverged_at[row]) * self.substeps
            return Divergence(step, step * self.plant.step_s, "it left its limits with a force law in the loop")

        return Rolled(MappingProxyType(outputs), diverged_at, why)

    def _run(
        self, population: Population, laws: Sequence[Law], which: np.ndarray, start: Start, commands: Commands
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        batch = population.batch
        rows = np.arange(batch.nsim)
        samples = commands.step.shape[-1] // self.substeps
        recorded = tuple(dict.fromkeys("sensordata" if name == MEASURED else name for name in self.outputs))
        recorder = Recorder(population, recorded, samples, self.substeps, self.limits)
        qpos, qvel, force = (batch.bind(name) for name in ("qpos", "qvel", "qfrc_applied"))
        memory = max(law.memory(self.plant.step_s) for law in laws)
        past = _past(start, commands, memory)
        first = np.concatenate([past, commands.between(rows, 0, 1)], axis=1)
        begin_with = Moment(qpos.copy(), qvel.copy(), first)
        running = type(laws[0]).running(laws, which, self.plant, begin_with)
        with quiet():
            for begin, end in recorder.chunks():
                line = np.concatenate([past, commands.between(rows, begin, end)], axis=1)
                for step in range(begin, end):
                    live = np.flatnonzero(recorder.diverged_at < 0)
                    if not live.size:
                        break
                    here = step - begin
                    sent = line[:, here : here + memory + 1]
                    action = running.act(Moment(*_finite(qpos, qvel, recorder.diverged_at >= 0), sent))
                    force[live] = action.torque[live]
                    recorder.advance(live, np.ascontiguousarray(action.ctrl[live][:, np.newaxis]), step)
                past = line[:, line.shape[1] - memory :]
        force[...] = 0.0  # the simulations are kept, and others may roll them without a law
        return recorder.finish(), recorder.diverged_at


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


def mass_matrices(scene: Scene, thetas: Sequence[Theta], which: np.ndarray, qpos: np.ndarray) -> np.ndarray:
    """The joint-space inertia (rows, nv, nv) of each row's Theta at its position."""
    from twinproof.sim.instantiate import instantiate

    models = [instantiate(scene, theta) for theta in thetas]
    data = [mujoco.MjData(model) for model in models]
    found = np.empty((len(which), models[0].nv, models[0].nv))
    for row, number in enumerate(which):
        model, now = models[number], data[number]
        now.qpos[:] = qpos[row]
        mujoco.mj_forward(model, now)
        mujoco.mj_fullM(model, now, found[row])
    return found


def _check(thetas: Sequence[Theta], laws: Sequence[Law]) -> None:
    if len(laws) not in (1, len(thetas)):
        raise SimError(
            f"{len(laws)} force laws were given for {len(thetas)} Thetas. Give one for all, or one for each."
        )
    kinds = sorted({type(law).__name__ for law in laws})
    if len(kinds) > 1:
        raise SimError(f"the force laws of one rollout are of one kind, found {' and '.join(kinds)}. Roll them apart.")


def _past(start: Start, commands: Commands, memory: int) -> np.ndarray:
    """The last `memory` commands before the start; where there are too few, the oldest counts as having held before."""
    rows = np.arange(len(commands.row))
    if start.past is not None and start.past.shape[1]:
        have = start.past.shape[1]
        return np.asarray(start.past[:, np.maximum(np.arange(have - memory, have), 0)])
    first = commands.between(rows, 0, 1)
    before = first if commands.before is None else first[commands.before]
    return np.repeat(before, memory, axis=1)


def _finite(qpos: np.ndarray, qvel: np.ndarray, gone: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities, zero for rows that diverged: a law need not bear infinities."""
    if not gone.any():
        return qpos, qvel
    keep = ~gone[:, np.newaxis]
    return np.where(keep, qpos, 0.0), np.where(keep, qvel, 0.0)
