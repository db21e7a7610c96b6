"""Can a task be done at all? A quick probe before hours of training, with an expert or with chance alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from twinproof.nouns.actor import Actor
from twinproof.nouns.errors import TaskError
from twinproof.nouns.randomness import stream
from twinproof.tasks.arena import Arena
from twinproof.tasks.sensed import Array


@dataclass(frozen=True)
class Probe:
    """How a probe went: episodes begun and succeeded, worlds that diverged, the nearest that any came, and how far off
    they began, in the unit of the task's error."""

    by: str
    episodes: int
    succeeded: int
    diverged: int
    nearest: float
    began: float
    unit: str

    @property
    def told(self) -> str:
        """The probe in a sentence."""
        return (
            f"{self.by} succeeded in {self.succeeded} of {self.episodes} episodes ({self.diverged} diverged) and came "
            f"within {self.nearest:.3g} {self.unit} of success, from {self.began:.3g} {self.unit} on average"
        )


class Chance:
    """Actions that wander between their limits; it sees nothing."""

    def __init__(self, arena: Arena, seed: int = 0) -> None:
        self.contract = arena.task.deployable
        low = np.array([channel.low for channel in self.contract.actions], dtype=np.float64)
        high = np.array([channel.high for channel in self.contract.actions], dtype=np.float64)
        self._middle, self._half, self._seed = (low + high) / 2, (high - low) / 2, seed
        self.reset(arena.count, seed)

    def reset(self, count: int, seed: int, which: np.ndarray | None = None) -> None:
        """Wanders anew everywhere."""
        self._random, self._at = stream(seed, "chance"), np.zeros((count, len(self._half)))

    def act(self, observations: object) -> np.ndarray:
        """(N, 1, A)."""
        self._at = np.clip(0.95 * self._at + 0.3 * self._random.normal(size=self._at.shape), -1, 1)
        return (self._middle + self._half * self._at)[:, None]


def feasible(arena: Arena, expert: Actor | None = None, seconds: float | None = None) -> Probe:
    """Runs every world through an episode (or some seconds of it) with the expert, or with chance; a task that no world
    succeeds in under an expert is an error, and so is one whose episodes all begin as successes.

    Chance alone proves nothing by failing: then the probe comes back and the caller may say so.
    """
    task, by = arena.task, "chance" if expert is None else "the expert"
    actor: Actor = Chance(arena) if expert is None else expert
    seen: Mapping[str, Array] = arena.restart(0)
    actor.reset(arena.count, 0)
    began = _host(task.error(arena.situation))
    already = _host(task.succeeded(arena.situation))
    over, won, lost = np.zeros(arena.count, dtype=bool), np.zeros(arena.count, dtype=bool), 0
    nearest = began.copy()
    for _ in range(task.ticks if seconds is None else max(1, round(seconds / task.period_s))):
        step = arena.step(arena.backing.array(actor.act({k: _host(v) for k, v in seen.items()})[:, 0]))
        seen, done = step.observations, _host(step.done)
        nearest = np.where(over, nearest, np.minimum(nearest, _host(task.error(step.situation))))
        won |= _host(step.succeeded) & ~over
        lost += int((_host(step.diverged) & ~over).sum())
        over |= done
        actor.reset(arena.count, 0, done)
    probe = Probe(by, arena.count, int(won.sum()), lost, float(nearest.min()), float(began.mean()), task.error_unit)
    if already.all():
        raise TaskError(f"every episode of the task {task.name!r} begins as a success. Mend `draw` or `succeeded`.")
    if lost == arena.count:
        raise TaskError(f"no world of the task {task.name!r} survives: {arena.first_divergence}. Mend the scene.")
    if expert is not None and not won.any():
        raise TaskError(
            f"the task {task.name!r} never succeeds: {probe.told}. Look at one episode: goals out of reach, an object "
            "that nothing can hold, or a success that asks for too much."
        )
    return probe


def _host(values: Array) -> np.ndarray:
    return values if isinstance(values, np.ndarray) else values.cpu().numpy()
