"""What many worlds went through, kept on the device and drawn again at random.

row (tick, world)   seen ── action ──> reward, next        ended: nothing comes after; cut: something comes that is not
                                                           in the next row (a new episode, a restart of all worlds)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinproof.train.torch_extra import torch_module

NAMES = ("seen", "action", "reward", "next", "ended", "cut")


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows drawn at random. `reward` is the discounted sum of up to `ahead` of them; `next` is what was seen after
    those, and counts by `discount`, which is zero where the episode had ended for good."""

    seen: Any
    action: Any
    reward: Any
    next: Any
    discount: Any


class Replay:
    """A ring of the newest `ticks` control steps of every world."""

    def __init__(self, ticks: int, worlds: int, width: int, actions: int, device: str) -> None:
        torch = torch_module()
        self.ticks, self.worlds = ticks, worlds
        shapes = {"seen": (width,), "action": (actions,), "reward": (), "next": (width,), "ended": (), "cut": ()}
        kinds = {"ended": torch.bool, "cut": torch.bool}
        self._rows = {
            name: torch.zeros((ticks, worlds, *shape), dtype=kinds.get(name, torch.float32), device=device)
            for name, shape in shapes.items()
        }
        self._at, self.filled = 0, 0

    def add(self, **row: Any) -> None:
        """Writes one tick of all worlds over the oldest one."""
        for name in NAMES:
            self._rows[name][self._at] = row[name]
        self._at = (self._at + 1) % self.ticks
        self.filled = min(self.filled + 1, self.ticks)

    def cut(self) -> None:
        """All worlds begin anew: what comes next does not follow from the newest rows."""
        if self.filled:
            self._rows["cut"][self._at - 1] = True

    def draw(self, count: int, ahead: int, discount: float) -> Batch:
        """So many rows, evenly over all that are kept."""
        torch, rows = torch_module(), self._rows
        device = rows["reward"].device
        age = torch.randint(self.filled, (count,), device=device)  # from the oldest on
        world = torch.randint(self.worlds, (count,), device=device)
        at = (self._at - self.filled + age) % self.ticks
        begun, reward = at, rows["reward"][at, world]
        factor = torch.full_like(reward, discount)
        for _ in range(ahead - 1):
            age = age + 1
            on = ~rows["cut"][at, world] & (age < self.filled)
            at = torch.where(on, (at + 1) % self.ticks, at)
            reward = reward + on * factor * rows["reward"][at, world]
            factor = torch.where(on, factor * discount, factor)
        factor = factor * ~rows["ended"][at, world]
        return Batch(rows["seen"][begun, world], rows["action"][begun, world], reward, rows["next"][at, world], factor)

    def arrays(self) -> dict[str, Any]:
        """The rows that are filled, as they lie."""
        return {name: rows[: self.filled] for name, rows in self._rows.items()}

    def told(self) -> dict[str, int]:
        """Where the next row goes, and how many there are."""
        return {"at": self._at, "filled": self.filled}

    def restore(self, arrays: Mapping[str, np.ndarray], told: Mapping[str, Any]) -> None:
        """The inverse of `arrays` and `told`."""
        torch = torch_module()
        self._at, self.filled = int(told["at"]), int(told["filled"])
        for name, rows in self._rows.items():
            rows[: self.filled] = torch.as_tensor(np.array(arrays[name]), device=rows.device)
