"""Limits as costs: what a robot may not do is paid for in training, before a filter has to stop it at deployment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.errors import ConfigError
from twinproof.policies.safety import Safety
from twinproof.tasks.machine import Machine
from twinproof.tasks.sensed import Array, Fixed

if TYPE_CHECKING:
    from twinproof.tasks.arena import Step

SLACK = 1e-6  # rounding is no violation, in single precision too


@dataclass(frozen=True, eq=False)
class Narrower:
    """Limits of each joint inside the robot's own: what it is told, how far that moves in a tick, what it feels."""

    low: Fixed
    high: Fixed
    step: Fixed | None = None  # None: it is told torques
    effort: Fixed | None = None


@dataclass(frozen=True)
class Costs:
    """What each tick of breaking a limit costs, in units of reward; 0 switches one off.

    A command beyond a joint's range or speed is cut by the arena and counted there. Force is what the pairs of
    `task.touch` press with. The workspace is a box in the world frame that the tips stay in. `within` are limits inside
    the robot's own, which nothing cuts: they cost the same.
    """

    joint: float = 0.02  # for each joint beyond its range
    speed: float = 0.02  # for each joint beyond its speed
    force: float = 0.01  # for each N above `force_limit_n`
    force_limit_n: float = 30.0
    workspace: float = 0.1  # for each tip outside
    workspace_low_m: tuple[float, float, float] | None = None
    workspace_high_m: tuple[float, float, float] | None = None
    effort: float = 0.02  # for each joint that feels more than its limit
    within: Narrower | None = None

    def terms(self, step: Step, torque: Array | None = None) -> Mapping[str, Any]:
        """Reward terms cost/…, zero or below, (N,) each. `torque` (N, J) is what the joints report."""
        found: dict[str, Any] = {}
        for name, weight in (("joint limit", self.joint), ("speed limit", self.speed)):
            if weight and name in step.clipped:
                found[f"cost/{name}"] = -weight * step.clipped[name]
        situation = step.situation
        if self.force and situation.force_n is not None:
            over = situation.force_n - self.force_limit_n
            found["cost/force"] = -self.force * (over * (over > 0)).sum(-1)
        if self.workspace and self.workspace_low_m is not None and self.workspace_high_m is not None:
            outside: Any = 0
            for tip in situation.tips.values():
                for axis, (low, high) in enumerate(zip(self.workspace_low_m, self.workspace_high_m, strict=True)):
                    outside = outside + ((tip[:, axis] < low) | (tip[:, axis] > high))
            found["cost/workspace"] = -self.workspace * (outside > 0)
        if self.within is not None:
            self._beyond(self.within, step, torque, found)
        return found

    def _beyond(self, within: Narrower, step: Step, torque: Array | None, found: dict[str, Any]) -> None:
        """Adds what the narrower limits cost."""

        def add(name: str, weight: float, broken: Array) -> None:
            found[name] = found.get(name, 0) - weight * broken.sum(-1)

        told, before = step.situation.command, step.situation.before
        if self.joint:
            add("cost/joint limit", self.joint, (told < within.low.like(told)) | (told > within.high.like(told)))
        if self.speed and within.step is not None:
            add("cost/speed limit", self.speed, abs(told - before) > within.step.like(told))
        if self.effort and within.effort is not None and torque is not None:
            add("cost/effort limit", self.effort, abs(torque) > within.effort.like(torque))


def costs_of(safety: Safety, machine: Machine) -> Costs:
    """What it costs to break the limits that will be kept at deployment."""
    room = safety.workspace
    arms = {arm.joints: arm.tip for arm in machine.arms}
    strange = [chain.joints for chain in (room.chains if room else ()) if chain.joints not in arms]
    if strange or (room is not None and len(room.chains) != len(arms)):
        raise ConfigError(
            f"the workspace of --safety is for {len(room.chains) if room else 0} tips, and in training every tip stays "
            f"in it: {'; '.join(f'{tip} on {list(joints)}' for joints, tip in arms.items())}. State those arms."
        )
    step = None if safety.torque_driven else Fixed(safety.limits.speed / safety.rate_hz + SLACK)
    within = Narrower(
        Fixed(safety.limits.low - SLACK),
        Fixed(safety.limits.high + SLACK),
        step,
        None if safety.effort is None else Fixed(safety.effort),
    )
    if room is None:
        return Costs(within=within)
    low, high = ((float(c[0]), float(c[1]), float(c[2])) for c in (np.asarray(room.low_m), np.asarray(room.high_m)))
    return Costs(workspace_low_m=low, workspace_high_m=high, within=within)


NO_COSTS = Costs(joint=0, speed=0, force=0, workspace=0)
