"""Worlds as they were a while ago: what a picture shows that comes late (image.latency)."""

from __future__ import annotations

from typing import Any

from twinproof.tasks.backing import Backing
from twinproof.tasks.sensed import Array

SHOWN = ("qpos", "xpos", "xquat")


class LateView:
    """A backing for who draws: each world whole ticks behind by its own delay, at least at its episode's begin."""

    def __init__(self, backing: Backing, tick_s: float) -> None:
        self._backing, self._tick_s = backing, tick_s
        self.xp, self.model, self.patient = backing.xp, backing.model, backing.patient
        self._past: dict[str, list[Array]] = {}  # the newest first
        self._ticks: Array = None  # (N,) behind

    def keep(self, late_s: Array, lag: int, fresh: Array | None) -> None:
        """Takes in how the worlds stand, with `lag` the longest delay in ticks. Where `fresh` is given, no time has
        passed but for the worlds of that mask, which forget what was before."""
        self._ticks = self.xp.round(late_s[:, 0] / self._tick_s)
        for name in SHOWN:
            now = self._backing.view(name) + 0  # a copy: the view is live
            old = self._past.get(name) or [now]
            old = old + [old[-1]] * (lag + 1 - len(old))
            self._past[name] = [now, *old[:-1]] if fresh is None else [self._where(fresh, now, each) for each in old]

    def view(self, name: str) -> Any:
        """A field, each world as long ago as its pictures are late."""
        found, *older = self._past[name]
        for age, each in enumerate(older, start=1):
            found = self._where(self._ticks >= age, each, found)
        return found

    def _where(self, mask: Array, one: Array, other: Array) -> Array:
        return self.xp.where(mask.reshape(-1, *[1] * (one.ndim - 1)), one, other)
