"""Trials in the twin: all cells of a domain at once, each in a world of its own, each by its own seed alone.

cells ─ seeds, setups, Thetas ─> Arena of N worlds ─ one call of the policy a tick for all ─> N runs
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twinproof.evaluate.runs import Course, Run, run_of
from twinproof.nouns.actor import Actor
from twinproof.nouns.errors import PolicyError
from twinproof.nouns.failure import Failure
from twinproof.nouns.panel import Cell
from twinproof.nouns.theta import Theta
from twinproof.nouns.twin import Twin
from twinproof.sim.scene import Scene, engine
from twinproof.tasks.arena import Arena, Play, Step
from twinproof.tasks.task import Setup, TaskSpec

AT_ONCE = 512  # worlds in one arena: what is kept of each tick has to fit into memory


@dataclass(frozen=True, eq=False)
class Job:
    """One trial to run in the twin: its cell, its world's parameters, and how it begins."""

    cell: Cell
    theta: Theta
    setup: Setup


def run_jobs(
    scene: Scene | Twin, task: TaskSpec, actor: Actor, jobs: Sequence[Job], nthread: int = 0
) -> tuple[Run, ...]:
    """Runs trials of one policy side by side. What one world does never changes another: order and company are free."""
    found: list[Run] = []
    for begin in range(0, len(jobs), AT_ONCE):
        found += _batch(scene, task, actor, jobs[begin : begin + AT_ONCE], nthread)
    return tuple(found)


def _batch(scene: Scene | Twin, task: TaskSpec, actor: Actor, jobs: Sequence[Job], nthread: int) -> list[Run]:
    if actor.contract.chunk != 1:
        raise PolicyError(
            f"the policy gives {actor.contract.chunk} actions at once, and a trial takes one a tick. Wrap it in "
            "policies.chunks.Chunked."
        )
    thetas = [job.theta for job in jobs]
    needs_more = bool(actor.contract.privileged)
    play = Play(auto_reset=False, privileged=needs_more, bank=len(jobs), nthread=nthread)
    arena = Arena(scene, task, len(jobs), draws=thetas, play=play)
    seen = arena.reset(seeds=[job.cell.seed for job in jobs], setups=[job.setup for job in jobs], thetas=thetas)
    actor.reset(len(jobs), jobs[0].cell.seed)
    for k, job in enumerate(jobs[1:], 1):  # each world's memory and luck come from its own seed
        actor.reset(len(jobs), job.cell.seed, np.arange(len(jobs)) == k)
    kept = _Kept(arena)
    while True:
        step = arena.step(actor.act(seen)[:, 0])
        seen = dict(step.observations)
        if kept.add(step):
            return [kept.run(k, job) for k, job in enumerate(jobs)]


class _Kept:
    """What is kept of every tick of all worlds."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._rows: list[tuple[np.ndarray, ...]] = []
        self._objects: list[dict[str, np.ndarray]] = []
        self._commands: list[np.ndarray] = []
        self._ended = np.full(arena.count, -1)  # the tick after which a world was done
        self._look()

    def _look(self) -> None:
        arena, now = self._arena, self._arena.situation
        rows = (arena.sensed.position, arena.sensed.velocity, arena.task.error(now))
        self._rows.append(tuple(np.array(row, dtype=np.float64) for row in rows))
        self._objects.append({name: np.array(pose) for name, pose in now.objects.items()})

    def add(self, step: Step) -> bool:
        """Keeps a tick; whether all worlds are done."""
        self._look()
        self._commands.append(np.array(step.situation.command))
        done = np.asarray(step.done)
        self._ended[(self._ended < 0) & done] = len(self._commands)
        self._last = step
        return bool(done.all())

    def run(self, world: int, job: Job) -> Run:
        """The run of one world, up to where it was done."""
        arena, ticks = self._arena, int(self._ended[world])
        position, velocity, error = (np.stack([row[k][world] for row in self._rows[: ticks + 1]]) for k in range(3))
        course = Course(
            np.arange(ticks + 1) * arena.task.period_s,
            position,
            velocity,
            np.stack([each[world] for each in self._commands[:ticks]]),
            np.array(self._last.situation.goal[world]),
            error,
            {name: np.stack([o[name][world] for o in self._objects[: ticks + 1]]) for name in arena.task.tracked},
        )
        success, note = bool(self._last.succeeded[world]), ""
        if bool(self._last.diverged[world]):
            note = f"the world diverged: {arena.backing.why(world)}"
        elif bool(self._last.failed[world]):
            note = arena.task.failure
        elif not success:
            note = "no time was left"
        return run_of(
            arena.task,
            course,
            success,
            Failure.UNDECIDED,
            domain=job.cell.domain.name,
            note=note,
            engine=engine(),
            theta=job.theta,
        )
