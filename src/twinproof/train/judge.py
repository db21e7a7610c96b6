"""How often an actor succeeds in an arena: one episode for each world, so that short episodes do not count more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.actor import Actor
from twinproof.train.groups import checked_actions

if TYPE_CHECKING:
    from twinproof.tasks.arena import Arena


@dataclass(frozen=True)
class Judged:
    """Episodes by how they ended."""

    episodes: int
    succeeded: int
    failed: int
    diverged: int

    @property
    def success(self) -> float:
        """The share that succeeded."""
        return self.succeeded / self.episodes


def judge(arena: Arena, actor: Actor, seed: int) -> Judged:
    """Plays one episode in every world of an arena, from this seed."""
    seen: Mapping[str, Any] = arena.restart(seed)
    actor.reset(arena.count, seed)
    ended = {name: np.zeros(arena.count, dtype=bool) for name in ("done", "succeeded", "failed", "diverged")}
    for _ in range(arena.task.ticks + 1):
        told = arena.step(checked_actions(actor.act(seen), arena.count, actor.contract, type(actor).__name__))
        fresh = ~ended["done"]
        for name in ("succeeded", "failed", "diverged", "done"):
            ended[name] |= np.asarray(getattr(told, name)) & fresh
        if ended["done"].all():
            break
        seen = told.observations
        actor.reset(arena.count, seed, np.asarray(told.done))
    return Judged(arena.count, *(int(ended[name].sum()) for name in ("succeeded", "failed", "diverged")))
