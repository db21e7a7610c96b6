"""What the twin says the robot will report at the next tick, for the monitor: in batches of logged ticks, and live.

state and commands up to now ─> twin, one tick ─> joint positions and velocities that should be read next
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.evaluate.monitor import Reading, State, Thresholds, Watch, alarms, calibrate
from twinproof.evaluate.replay import moving
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import RecordingError, TraceError
from twinproof.nouns.hashing import Json
from twinproof.nouns.robot import Observation
from twinproof.nouns.theta import Theta
from twinproof.sim.channels import joint_offsets
from twinproof.sim.rollout import Rollouts
from twinproof.sim.scene import Scene
from twinproof.sim.windows import Start
from twinproof.tasks.machine import Machine

if TYPE_CHECKING:
    from jaxtyping import Float

PAST_S = 0.2  # commands before a tick that a delay may still carry out


class Foresight:
    """One-step predictions of the twin under one Theta, tick by tick of the robot."""

    def __init__(self, machine: Machine, theta: Theta, scene: Scene | None = None) -> None:
        scene = (scene or machine.scene).reserving(PAST_S).leaner()
        self.machine = machine
        self.theta = Theta({id: value for id, value in moving(theta).items() if not id.endswith("_jitter")})
        self._rollouts = Rollouts(scene, ("qpos", "qvel"), machine.substeps, nthread=1)
        model: Any = scene.nominal()
        self._qpos, self._qvel = np.array(model.qpos0), np.zeros(model.nv)
        self._at, self._dof = machine.qpos_at, machine.qvel_at
        numbers = [model.joint(name).id for name in machine.joints]
        self._offset = joint_offsets(model, self.theta)[numbers]  # of the encoders
        self.ticks = math.ceil(PAST_S * machine.rate_hz)  # of the past that is looked at

    def next(
        self,
        position: Float[np.ndarray, "T J"],
        velocity: Float[np.ndarray, "T J"],
        past: Float[np.ndarray, "T P J"],
        command: Float[np.ndarray, "T J"],
    ) -> Float[np.ndarray, "T 2J"]:
        """What is read a tick later, for T ticks at once; `past` are the commands before, newest last."""
        rows = len(position)
        qpos, qvel = np.tile(self._qpos, (rows, 1)), np.tile(self._qvel, (rows, 1))
        qpos[:, self._at], qvel[:, self._dof] = position, velocity
        steps = np.repeat(past, self.machine.substeps, axis=1)
        start = Start(qpos, qvel, past=steps, encoders=True)
        rolled = self._rollouts.roll([self.theta], start, command[:, None])
        there, moving = rolled["qpos"][0, :, 0][:, self._at], rolled["qvel"][0, :, 0][:, self._dof]
        found: np.ndarray = np.concatenate([there + self._offset, moving], axis=1)
        return found

    def episode(self, episode: Episode) -> tuple[Float[np.ndarray, "T 2J"], Float[np.ndarray, "T 2J"]]:
        """Predicted and measured, over an episode that was logged."""
        stamps, position, velocity, command = _logged(episode, self.machine)
        rest = np.zeros(len(self.machine.joints)) if self.machine.torque_driven else position[0]
        line = np.concatenate([np.tile(rest, (self.ticks, 1)), command])
        past = np.stack([line[k : k + self.ticks] for k in range(len(stamps) - 1)])
        predicted = self.next(position[:-1], velocity[:-1], past, command[:-1])
        return predicted, np.concatenate([position[1:], velocity[1:]], axis=1)


def _logged(episode: Episode, machine: Machine) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Joints and commands of an episode at the robot's ticks, which are those of its commands."""
    joints, where = machine.joints, episode.source or episode.id
    found = []
    for kinds in (("joint_position", "gripper"), ("joint_velocity",), ("joint_command",)):
        columns = {
            column.name: (signal.time_s, signal.value[:, k])
            for kind in kinds
            for signal in episode.of_kind(kind)
            for k, column in enumerate(signal.columns)
        }
        lacking = [name for name in joints if name not in columns]
        if lacking:
            raise RecordingError(
                f"{where}: {kinds[0]} of {', '.join(lacking)} was not recorded, and the monitor needs positions, "
                "velocities and commands of every joint. Leave the monitor out, or record them."
            )
        found.append([columns[name] for name in joints])
    first = max(float(times[0]) for part in found for times, _ in part)
    last = min(float(times[-1]) for part in found[:2] for times, _ in part)
    stamps = np.arange(first, last + 1e-9, 1 / machine.rate_hz)
    position, velocity = (np.stack([np.interp(stamps, t, v) for t, v in part], axis=1) for part in found[:2])
    at = [np.clip(np.searchsorted(t, stamps + 1e-9, side="right") - 1, 0, None) for t, _ in found[2]]
    return stamps, position, velocity, np.stack([v[k] for k, (_, v) in zip(at, found[2], strict=True)], axis=1)


def thresholds_of(foresight: Foresight, episodes: Sequence[Episode]) -> Thresholds:
    """Thresholds from validation, with as few false alarms as so many episodes can promise."""
    alpha = max(0.05, 1 / (len(episodes) + 1))
    return calibrate([foresight.episode(each) for each in episodes], slow_alpha=max(0.2, alpha), stop_alpha=alpha)


def measured_alarms(foresight: Foresight, thresholds: Thresholds, episodes: Sequence[Episode]) -> dict[str, Json]:
    """How often episodes that set no threshold would be slowed and stopped: counts with exact intervals, or why not."""
    try:
        found = alarms(thresholds, [foresight.episode(each) for each in episodes])
    except (RecordingError, TraceError) as problem:
        return {"why_not": str(problem)}
    told: dict[str, Json] = {"episodes": len(episodes), "level": found["stop"].level}
    for name, rate in found.items():
        told[name] = {
            "alarms": round(rate.value * len(episodes)),
            **{n: getattr(rate, n) for n in ("value", "low", "high")},
        }
    return told


@dataclass
class Guarding:
    """A hook for one trial on a robot: compares each report with what the twin foresaw, then foresees the next."""

    foresight: Foresight
    watch: Watch
    fidelity: float = 1.0  # the lowest so far, a conformal p-value
    slowed: int = 0  # ticks
    stopped: int = 0
    _sent: list[np.ndarray] | None = None
    _foreseen: np.ndarray | None = None

    def __call__(self, seen: Observation, command: np.ndarray) -> State:
        """Whether to go on, slow down or stop, before the command is sent."""
        told = np.concatenate([seen.position, seen.velocity])
        if self._foreseen is not None:
            self.fidelity = min(self.fidelity, self.watch.update(self._foreseen, told).fidelity)
        self.slowed += self.watch.state == "slow"
        self.stopped += self.watch.state == "stop"
        if self._sent is None:
            rest = np.zeros(len(command)) if self.foresight.machine.torque_driven else np.array(seen.position)
            self._sent = [rest] * self.foresight.ticks
        past = np.stack(self._sent[-self.foresight.ticks :])[None]
        self._foreseen = self.foresight.next(seen.position[None], seen.velocity[None], past, command[None])[0]
        self._sent = [*self._sent[-self.foresight.ticks :], np.array(command)]
        return self.watch.state

    def metrics(self) -> dict[str, float]:
        """What was watched, for the trial (evaluate.tally names them)."""
        return {"fidelity": self.fidelity, "slowed_ticks": float(self.slowed), "stopped_ticks": float(self.stopped)}


def guard(
    foresight: Foresight, thresholds: Thresholds, tell: Callable[[Reading], None] | None = None
) -> Callable[[], Guarding]:
    """A new hook for every trial; `tell` hears of every change of state."""
    return lambda: Guarding(foresight, Watch(thresholds, tell))
