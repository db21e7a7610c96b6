"""Trials in the twin: many at once, each in a world of its own, each by its own seed alone.

jobs ─ seeds, setups, Thetas ─> an arena's worlds ─ one call of the policy a tick for all ─> runs
        the next job takes a world as soon as a trial in it is over, so that no world runs for nothing
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

WORLDS = 256  # at most, in one arena


@dataclass(frozen=True, eq=False)
class Job:
    """One trial to run in the twin: its cell, its world's parameters, and how it begins."""

    cell: Cell
    theta: Theta
    setup: Setup


def run_jobs(
    scene: Scene | Twin, task: TaskSpec, actor: Actor, jobs: Sequence[Job], nthread: int = 0, worlds: int = WORLDS
) -> tuple[Run, ...]:
    """Runs trials of one policy side by side. What one world does never changes another: order and company are free."""
    if actor.contract.chunk != 1:
        raise PolicyError(
            f"the policy gives {actor.contract.chunk} actions at once, and a trial takes one a tick. Wrap it in "
            "policies.chunks.Chunked."
        )
    if not jobs:
        return ()
    play = Play(auto_reset=False, privileged=bool(actor.contract.privileged), bank=len(jobs), nthread=nthread)
    arena = Arena(scene, task, min(worlds, len(jobs)), draws=[job.theta for job in jobs], play=play)
    return _Side(arena, actor, jobs).run()


class _Side:
    """Worlds side by side, each with the job it runs (or none), the tick it is at, and what was seen so far."""

    def __init__(self, arena: Arena, actor: Actor, jobs: Sequence[Job]) -> None:
        self.arena, self.actor, self.jobs = arena, actor, jobs
        count, ticks, joints = arena.count, arena.task.ticks, len(arena.task.machine.joints)
        self.job = np.full(count, -1)
        self.tick = np.zeros(count, dtype=np.int64)
        self.next, self.runs = 0, dict[int, Run]()
        shape = (ticks + 1, count)
        self.position, self.velocity = np.empty((*shape, joints)), np.empty((*shape, joints))
        self.command, self.error = np.empty((*shape, joints)), np.empty(shape)
        self.objects = {name: np.empty((*shape, 7)) for name in arena.task.tracked}

    def run(self) -> tuple[Run, ...]:
        """All runs, in the order of the jobs."""
        self.actor.reset(self.arena.count, self.jobs[0].cell.seed)
        seen = self._begin(np.arange(self.arena.count))
        while (self.job >= 0).any():
            step = self.arena.step(self.actor.act(seen)[:, 0])
            seen = dict(step.observations)
            busy = np.flatnonzero(self.job >= 0)
            self.command[self.tick[busy], busy] = np.asarray(step.situation.command)[busy]
            self.tick[busy] += 1
            self._look(busy)
            over = busy[np.asarray(step.done)[busy]]
            for world in over:
                self.runs[int(self.job[world])] = self._run(int(world), step)
            if len(over):
                self.job[over] = -1
                seen = self._begin(over) or seen
        return tuple(self.runs[k] for k in range(len(self.jobs)))

    def _begin(self, free: np.ndarray) -> dict[str, np.ndarray]:
        """Gives free worlds the next jobs; what all worlds see then, or nothing where no job was left."""
        rows = free[: len(self.jobs) - self.next]
        if not len(rows):
            return {}
        mine = [self.jobs[self.next + k] for k in range(len(rows))]
        self.job[rows] = self.next + np.arange(len(rows))
        self.next += len(rows)
        seen = self.arena.reset(
            rows,
            seeds=[job.cell.seed for job in mine],
            setups=[job.setup for job in mine],
            thetas=[job.theta for job in mine],
        )
        for row, job in zip(rows, mine, strict=True):  # each world's memory and luck come from its own seed
            self.actor.reset(self.arena.count, job.cell.seed, np.arange(self.arena.count) == row)
        self.tick[rows] = 0
        self._look(rows)
        return dict(seen)

    def _look(self, rows: np.ndarray) -> None:
        sensed, now, at = self.arena.sensed, self.arena.situation, self.tick[rows]
        self.position[at, rows] = np.asarray(sensed.position)[rows]
        self.velocity[at, rows] = np.asarray(sensed.velocity)[rows]
        self.error[at, rows] = np.asarray(self.arena.task.error(now))[rows]
        for name, kept in self.objects.items():
            kept[at, rows] = np.asarray(now.objects[name])[rows]

    def _run(self, world: int, step: Step) -> Run:
        """The run of one world whose trial is over."""
        task, ticks = self.arena.task, int(self.tick[world])
        job = self.jobs[int(self.job[world])]
        course = Course(
            np.arange(ticks + 1) * task.period_s,
            self.position[: ticks + 1, world],
            self.velocity[: ticks + 1, world],
            self.command[:ticks, world],
            np.array(step.situation.goal[world]),
            self.error[: ticks + 1, world],
            {name: kept[: ticks + 1, world] for name, kept in self.objects.items()},
        )
        success, note = bool(step.succeeded[world]), ""
        if bool(step.diverged[world]):
            note = f"the world diverged: {self.arena.backing.why(world)}"
        elif bool(step.failed[world]):
            note = task.failure
        elif not success:
            note = "no time was left"
        return run_of(
            task,
            course,
            success,
            Failure.UNDECIDED,
            domain=job.cell.domain.name,
            note=note,
            engine=engine(),
            theta=job.theta,
        )
