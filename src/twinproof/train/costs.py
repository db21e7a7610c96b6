"""Limits as costs: what a robot may not do is paid for in training, before a filter has to stop it at deployment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinproof.tasks.arena import Step


@dataclass(frozen=True)
class Costs:
    """What each tick of breaking a limit costs, in units of reward; 0 switches one off.

    A command beyond a joint's range or speed is cut by the arena and counted there. Force is what the pairs of
    `task.touch` press with. The workspace is a box in the world frame that the tips stay in.
    """

    joint: float = 0.02  # for each joint beyond its range
    speed: float = 0.02  # for each joint beyond its speed
    force: float = 0.01  # for each N above `force_limit_n`
    force_limit_n: float = 30.0
    workspace: float = 0.1  # for each tip outside
    workspace_low_m: tuple[float, float, float] | None = None
    workspace_high_m: tuple[float, float, float] | None = None

    def terms(self, step: Step) -> Mapping[str, Any]:
        """Reward terms cost/…, zero or below, (N,) each."""
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
        return found


NO_COSTS = Costs(joint=0, speed=0, force=0, workspace=0)
