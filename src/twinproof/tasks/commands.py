"""From what a policy wants to what the actuators get: noise, limits, lateness and slack, in every world its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from twinproof.sim.disturb import EVERY_S, PUSH_S
from twinproof.tasks.backing import Backing
from twinproof.tasks.sensed import Array, Fixed
from twinproof.tasks.task import TaskSpec

ROUNDING = 1e-6  # of float32, about a radian
COMMAND, LATE, PUSH_WHEN, PUSH_WHERE = 5, 6, 7, 8  # purposes of random numbers


class Commands:
    """Remembers what was told and what arrived. Bodies of `pushed` are pushed as sim/disturb.py has it."""

    def __init__(self, backing: Backing, task: TaskSpec, pushed: Sequence[int]) -> None:
        limits = task.machine.limits
        self._backing, self._pushed = backing, tuple(pushed)
        self._slot = max(1, round(PUSH_S / task.period_s))  # ticks of one push
        self._low, self._high = Fixed(np.array(limits.low)), Fixed(np.array(limits.high))
        self._most = Fixed(np.array(limits.speed) / task.contract.rate_hz)
        self._last: Array = None  # told at the last tick
        self._came: Array = None  # what arrives of it, before slack
        self._held: Array = None  # what the actuators were sent

    def restart(self, mask: Array, rest: Array, ctrl: Array) -> None:
        """In the worlds of the mask nothing was told but to rest."""
        where, shaped = self._backing.xp.where, mask[:, None]
        self._last = rest if self._last is None else where(shaped, rest, self._last)
        self._came = ctrl if self._came is None else where(shaped, ctrl, self._came)
        self._held = ctrl if self._held is None else where(shaped, ctrl, self._held)

    def told(
        self, wanted: Array, rows: Mapping[str, Array], flags: Mapping[str, int]
    ) -> tuple[Array, dict[str, Array]]:
        """The command within limits, and how many joints were beyond each of them."""
        xp = self._backing.xp
        if flags["shaky"]:
            wanted = wanted + rows["command_noise"] * self._backing.noise.normal(wanted.shape[1], COMMAND)
        most = self._most.like(wanted)
        target = xp.clip(wanted, self._low.like(wanted), self._high.like(wanted))
        told = xp.clip(target, self._last - most, self._last + most)
        clipped = {
            "joint limit": (abs(target - wanted) > ROUNDING).sum(-1),
            "speed limit": (abs(told - target) > ROUNDING).sum(-1),
        }
        self._last = told
        return told, clipped

    def arrived(self, told: Array, rows: Mapping[str, Array], flags: Mapping[str, int]) -> Array:
        """What the actuators get: the encoder's offset taken off, now and then a tick late, with the gears' slack."""
        xp, wanted = self._backing.xp, told - rows["shift"]
        if not flags["slack_or_late"]:
            return wanted
        late = self._backing.noise.uniform(wanted.shape[1], LATE) < rows["late"]
        arrived, self._came = xp.where(late, self._came, wanted), wanted
        # the play operator: what follows the slack moves only when pushed against one of its ends
        self._held = xp.clip(self._held, arrived - rows["slack"], arrived + rows["slack"])
        return self._held

    def push(self, rows: Mapping[str, Array], flags: Mapping[str, int], tick: Array) -> None:
        """Sets the outside forces of the coming tick, the `tick`-th of each episode."""
        if not flags["pushing"]:
            return
        xp, noise, force = self._backing.xp, self._backing.noise, self._backing.view("xfrc_applied")
        for k, body in enumerate(self._pushed):
            pushing = noise.uniform(1, PUSH_WHEN + 10 * k) < PUSH_S / EVERY_S
            way = noise.normal(3, PUSH_WHERE + 10 * k)
            way = way / ((way * way).sum(-1)[:, None] ** 0.5)
            new = xp.where(pushing, rows["push"][:, k, None] * way, 0.0)
            force[:, body, :3] = xp.where(tick[:, None] % self._slot == 0, new, force[:, body, :3])
