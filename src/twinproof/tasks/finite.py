"""What a task's functions give, looked at: numbers that are no numbers, found with their world, their step and their
name; and values that are not one for each world."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from twinproof.nouns.errors import TaskError
from twinproof.tasks.sensed import Array

WAIT = 64  # ticks between two looks at a device that would have to be waited for


class Finite:
    """Looks at what a task computed; at once where that is free, else every so many ticks, remembering the first.

    Where a look costs, `check` only computes, all values of a kind side by side, and `passed` counts ticks and looks.
    """

    def __init__(self, xp: Any, patient: bool, task: str) -> None:
        self._xp, self._patient, self._task = xp, patient, task
        self._since, self._first = 0, dict[str, Array]()  # by kind: the step (N, columns) of the first, or -1
        self._widths: dict[str, dict[str, int]] = {}

    def check(self, kind: str, values: Mapping[str, Array], step: Array) -> None:
        """`kind` is what they are: "reward term", "observation". `step` (N,) counts the ticks of each episode."""
        xp, flat = self._xp, {name: value.reshape(len(step), -1) for name, value in values.items()}
        if not self._patient:
            self._widths[kind] = {name: int(rows.shape[1]) for name, rows in flat.items()}
            found = xp.where(xp.isfinite(xp.concatenate([*flat.values()], -1)), -1, step[:, None])
            known = self._first.get(kind)
            self._first[kind] = found if known is None else xp.where(known >= 0, known, found)
            return
        with np.errstate(invalid="ignore", over="ignore"):
            if all(math.isfinite(rows.sum()) for rows in flat.values()):  # one pass; what it doubts is looked at
                return
        for name, rows in flat.items():
            good = xp.isfinite(rows).all(-1)
            if not good.all():
                world = int((~good).nonzero()[0].reshape(-1)[0])
                self._refuse(kind, name, world, int(step[world]))

    def passed(self) -> None:
        """A tick has passed; after so many it is looked."""
        self._since += 1
        if not self._patient and self._since >= WAIT:
            self.wait()

    def wait(self) -> None:
        """Looks now at what was remembered."""
        self._since = 0
        for kind, first in self._first.items():
            if not bool((first >= 0).any()):
                continue
            at = 0
            for name, width in self._widths[kind].items():
                steps = first[:, at : at + width]
                at += width
                if bool((steps >= 0).any()):
                    world = int((steps >= 0).any(-1).nonzero()[0].reshape(-1)[0])
                    self._refuse(kind, name, world, int(steps[world][steps[world] >= 0].min()))

    def _refuse(self, kind: str, name: str, world: int, step: int) -> None:
        raise TaskError(
            f"the {kind} {name!r} of the task {self._task!r} is NaN or infinite in world {world} at step {step} of its "
            "episode. Mend the function that computes it; a division by a distance or a speed of zero is the usual "
            "cause."
        )


def check_each(kind: str, values: Mapping[str, Array], task: str, count: int, *, yes_or_no: bool = False) -> None:
    """Each of these is one number for each world, or one bool."""
    for name, value in values.items():
        shape, dtype = tuple(getattr(value, "shape", ())), str(getattr(value, "dtype", type(value).__name__))
        if shape != (count,) or (yes_or_no and not dtype.endswith("bool")):
            what = "True or False" if yes_or_no else "a number"
            raise TaskError(
                f"the {kind} {name!r} of the task {task!r} is {dtype} of the shape {shape}; {what} for each of "
                f"{count} worlds is wanted. Mend the function that computes it."
            )
