"""Playing a trajectory through the robot interface, tick by tick, and what the robot reported meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import RobotError
from twinproof.nouns.robot import Limits, Observation, Robot, Start
from twinproof.nouns.trajectory import Trajectory

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, eq=False)
class Driven:
    """What was seen before the first command and after every one, and how often a limit was met."""

    stamp_s: Float[np.ndarray, "T+1"]
    position: Float[np.ndarray, "T+1 J"]
    velocity: Float[np.ndarray, "T+1 J"]
    torque: Float[np.ndarray, "T+1 J"]
    counts: dict[str, int]


def check_limits(trajectory: Trajectory, limits: Limits, rest: np.ndarray | None = None) -> None:
    """The robot would obey every command as it stands, the first one from `rest`; else an error names the first."""
    commands, step = trajectory.commands, limits.speed / trajectory.rate_hz
    before = np.concatenate([commands[:1] if rest is None else rest[None], commands[:-1]])
    slack = 1e-9 * (1 + np.abs(limits.high - limits.low))
    outside = (commands < limits.low - slack) | (commands > limits.high + slack)
    fast = np.abs(commands - before) > step * (1 + 1e-9) + 1e-12
    for wrong, what in ((outside, "range"), (fast, "speed")):
        if wrong.any():
            i, k = np.argwhere(wrong)[0]
            raise RobotError(
                f"command {i} for {trajectory.joints[k]!r}, {commands[i, k]:.4g} after {before[i, k]:.4g}, is beyond "
                f"the robot's {what}: {limits.low[k]:.4g} to {limits.high[k]:.4g}, at most {step[k]:.4g} a tick. "
                "Design the trajectory within its limits."
            )


def play(robot: Robot, trajectory: Trajectory, condition: Start | None = None) -> Driven:
    """Resets the robot and sends it every command at its tick. Nothing moves unless all of it is within the limits."""
    trajectory.for_robot(robot.joints, robot.rate_hz)
    check_limits(trajectory, robot.limits)
    seen: list[Observation] = [robot.reset(condition or Start())]
    for command in trajectory.commands:
        robot.act(command)
        seen.append(robot.observe())
        if seen[-1].stopped:
            raise RobotError(
                f"the robot stopped after {len(seen) - 1} of {len(trajectory.commands)} commands. Reset it and play "
                "again."
            )
    return Driven(
        np.array([each.stamp_s for each in seen]),
        np.stack([each.position for each in seen]),
        np.stack([each.velocity for each in seen]),
        np.stack([each.torque for each in seen]),
        dict(robot.counts),
    )
