"""Numbers that are no numbers, found with their world, their step and their name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinproof.nouns.errors import TaskError
from twinproof.tasks.sensed import Array

WAIT = 64  # ticks between two looks at a device that would have to be waited for


class Finite:
    """Looks at what a task computed; at once where that is free, else every so many ticks, remembering the first."""

    def __init__(self, xp: Any, patient: bool, task: str) -> None:
        self._xp, self._patient, self._task = xp, patient, task
        self._since, self._first = 0, dict[str, Array]()

    def check(self, kind: str, values: Mapping[str, Array], step: Array) -> None:
        """`kind` is what they are: "reward term", "observation". `step` (N,) counts the ticks of each episode."""
        xp = self._xp
        for name, value in values.items():
            good = xp.isfinite(value.reshape(len(step), -1)).all(-1)
            if self._patient:
                if not good.all():
                    world = int((~good).nonzero()[0].reshape(-1)[0])
                    self._refuse(kind, name, world, int(step[world]))
                continue
            key = f"{kind}/{name}"
            known = self._first.get(key)
            found = xp.where(good, -1, step)
            self._first[key] = found if known is None else xp.where(known >= 0, known, found)
        if not self._patient:
            self._since += 1
            if self._since >= WAIT:
                self.wait()

    def wait(self) -> None:
        """Looks now at what was remembered."""
        self._since = 0
        for key, first in self._first.items():
            if bool((first >= 0).any()):
                kind, _, name = key.partition("/")
                world = int((first >= 0).nonzero()[0].reshape(-1)[0])
                self._refuse(kind, name, world, int(first[world]))

    def _refuse(self, kind: str, name: str, world: int, step: int) -> None:
        raise TaskError(
            f"the {kind} {name!r} of the task {self._task!r} is NaN or infinite in world {world} at step {step} of its "
            "episode. Mend the function that computes it; a division by a distance or a speed of zero is the usual "
            "cause."
        )
