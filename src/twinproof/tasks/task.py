"""What a policy is asked: a contract and plain functions over N worlds, the same for twins and for a robot.

setup = task.draw(rng)                one episode's beginning: goal, where the object lies, where the joints are
seen = task.observe(sensed)           {channel: (N, *shape)}, from what a robot can know alone
told = task.command(sensed, action)   (N, J) what the robot is sent for an action of the contract
notes = task.notes(situation)         {name: (N,)} what the task remembers from tick to tick; zero at the beginning
task.reward(s), task.succeeded(s), task.failed(s), task.error(s), task.privileged(s)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from twinproof.nouns.errors import TaskError
from twinproof.nouns.panel import Task
from twinproof.nouns.policy import Channel, Contract
from twinproof.tasks.machine import Machine
from twinproof.tasks.sensed import Array, Sensed, Situation

Channels = Mapping[str, Array]


@dataclass(frozen=True)
class Setup:
    """How one episode begins. `at_m` and `yaw_rad` are the object's, as nouns.robot.Start has them; `joints` are values
    of joints by name that are not at home: driven ones, or a drawer's."""

    goal: tuple[float, ...] = ()
    at_m: tuple[float, float] | None = None
    yaw_rad: float = 0.0
    joints: Mapping[str, float] = field(default_factory=dict)


def no_notes(situation: Situation) -> Channels:
    """A task that remembers nothing."""
    return {}


def nothing(situation: Situation) -> Channels:
    """A task without privileged state."""
    return {}


def never(situation: Situation) -> Array:
    """Nothing counts as a failure but time."""
    return situation.time_s < 0


@dataclass(frozen=True, eq=False)
class TaskSpec:
    """A task on a machine. All functions take N worlds at once, in numpy or torch arrays, and change nothing.

    `contract` names every observation, privileged ones flagged; `deployable` is the part that a robot can measure.
    `rewards` are terms that add up, each with its weight inside. `succeeded` says what the referee would say if the
    episode ended now; `failed` ends it. `error` is how far from success it is, in `error_unit`.
    """

    name: str
    machine: Machine
    contract: Contract
    horizon_s: float
    success: str  # in words and numbers
    failure: str
    draw: Callable[[np.random.Generator], Setup]
    observe: Callable[[Sensed], Channels]
    reward: Callable[[Situation], Channels]
    succeeded: Callable[[Situation], Array]
    error: Callable[[Situation], Array]
    error_unit: str = "m"
    failed: Callable[[Situation], Array] = never
    remembers: tuple[str, ...] = ()  # names of the notes
    notes: Callable[[Situation], Channels] = no_notes  # all of them, anew at every tick
    privileged: Callable[[Situation], Channels] = nothing
    touch: tuple[tuple[str, str], ...] = ()  # pairs of bodies or geoms whose contact the task looks at
    tracked: tuple[str, ...] = ()  # bodies whose poses a tracker gives
    place: str = ""  # the free body that a setup's at_m and yaw_rad put somewhere
    relative: bool = False  # actions move the last command instead of naming the next one

    def __post_init__(self) -> None:
        wanted, have = len(self.machine.joints), len(self.contract.actions)
        if wanted != have:
            raise TaskError(
                f"the task {self.name!r} has {have} actions, and the robot takes {wanted}: "
                f"{', '.join(self.machine.joints)}. Give one for each."
            )
        if not 0 < self.horizon_s < np.inf:
            raise TaskError(f"the task {self.name!r} has a horizon of {self.horizon_s} s. Give one above zero.")

    @property
    def period_s(self) -> float:
        """From one action to the next."""
        return 1.0 / self.contract.rate_hz

    @property
    def ticks(self) -> int:
        """Actions in an episode that runs to its horizon."""
        return max(1, round(self.horizon_s * self.contract.rate_hz))

    @property
    def deployable(self) -> Contract:
        """The contract without what a robot cannot measure."""
        seen = tuple(channel for channel in self.contract.observations if not channel.privileged)
        return replace(self.contract, observations=seen)

    def command(self, sensed: Sensed, action: Array) -> Array:
        """What the robot is sent for an action (N, A): the action itself, or the last command moved by it. Limits and
        delays belong to who drives."""
        return sensed.last + action if self.relative else action

    def action(self, sensed: Sensed, command: Array) -> Array:
        """The action that leads to a command: the inverse of `command`."""
        return command - sensed.last if self.relative else command

    def panel_task(self) -> Task:
        """The task as a panel states it, with the deployable contract."""
        return Task(self.name, self.deployable, self.success, self.failure, self.horizon_s)


def action_channels(machine: Machine, relative: bool) -> tuple[Channel, ...]:
    """One action for each joint, between the machine's limits; relative ones as far as its speed allows in a tick."""
    low, high = machine.limits.low, machine.limits.high
    if relative:
        high = np.minimum(machine.limits.speed / machine.rate_hz, high - low)
        low = -high
    return tuple(
        Channel(name, unit, float(a), float(b))
        for name, unit, a, b in zip(machine.joints, machine.command_units, low, high, strict=True)
    )


def robot_channels(machine: Machine) -> tuple[Channel, ...]:
    """What every task lets a policy see of the robot: `robot_seen` fills it."""
    count = (len(machine.joints),)
    return (
        Channel("joint_position", "rad or m", shape=count),
        Channel("joint_velocity", "rad/s or m/s", shape=count),
        Channel("last_command", "as the actions", shape=count),
    )


def time_channel() -> Channel:
    """For tasks of several steps, where a policy may want to know how far along it should be: `time_left` fills it."""
    return Channel("time_left", "1", shape=(1,))


def time_left(sensed: Sensed, horizon_s: float) -> dict[str, Array]:
    """The share of the horizon that is left, from 1 to 0."""
    return {"time_left": 1.0 - sensed.time_s[:, None] / horizon_s}


def robot_seen(sensed: Sensed) -> dict[str, Array]:
    """The channels of `robot_channels`."""
    return {"joint_position": sensed.position, "joint_velocity": sensed.velocity, "last_command": sensed.last}
