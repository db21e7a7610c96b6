"""Trials in the twin: many at once, each in a world of its own, each by its own seed alone.

jobs ─ seeds, setups, Thetas ─> an arena's worlds ─ one call of the policy a tick for all ─> runs
        the next job takes a world as soon as a trial in it is over, so that no world runs for nothing
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from twinproof.evaluate.cameras import TwinEyes
from twinproof.evaluate.film import Film, Filming, camera_of
from twinproof.evaluate.runs import Course, Run, run_of
from twinproof.evaluate.tally import Tally
from twinproof.nouns.actor import Actor
from twinproof.nouns.errors import PolicyError
from twinproof.nouns.failure import Failure
from twinproof.nouns.panel import Cell
from twinproof.nouns.theta import Theta
from twinproof.nouns.twin import Twin
from twinproof.policies.chunks import Delayed, asking, rest
from twinproof.policies.safety import Safe, Safety
from twinproof.sim.scene import Scene, engine_of
from twinproof.tasks.arena import Arena, Play, Step
from twinproof.tasks.task import Setup, TaskSpec

BROKE = "the policy broke: "  # how the note of a trial begins that a policy ended
WORLDS = 128  # at most, in one arena: twice as many are a tenth faster on small scenes, and a kill loses twice as much


@dataclass(frozen=True, eq=False)
class Job:
    """One trial to run in the twin: its cell, its world's parameters, and how it begins."""

    cell: Cell
    theta: Theta
    setup: Setup


@dataclass(frozen=True, eq=False)
class Batch:
    """How trials run side by side: on how many threads, in how many worlds at most, what shows them pictures, and the
    limits that commands are kept in, as on the robot."""

    nthread: int = 0
    worlds: int = WORLDS
    eyes: TwinEyes | None = None
    safety: Safety | None = None
    as_seen: bool = False  # traces hold objects as the tracker sees them, for a simulated reality; else as they are
    filming: Filming | None = None  # films what the eyes see, at every tick


def run_jobs(
    scene: Scene | Twin,
    task: TaskSpec,
    actor: Actor,
    jobs: Sequence[Job],
    how: Batch | None = None,
    ended: Callable[[int, Run], None] = lambda place, run: None,
) -> tuple[Run, ...]:
    """Runs trials of one policy side by side. What one world does never changes another: order and company are free.
    `ended` is told the place and the run of each trial as it ends."""
    if actor.contract.chunk != 1:
        raise PolicyError(
            f"the policy gives {actor.contract.chunk} actions at once, and a trial takes one a tick. Wrap it in "
            "policies.chunks.Chunked."
        )
    if not jobs:
        return ()
    how = how or Batch()
    play = Play(auto_reset=False, privileged=bool(actor.contract.privileged), bank=len(jobs), nthread=how.nthread)
    thetas = [job.theta for job in jobs]
    arena = Arena(scene, task, min(how.worlds, len(jobs)), draws=thetas, play=play, eyes=how.eyes)
    return _Side(arena, actor, jobs, how, ended).run()


@dataclass(frozen=True, eq=False)
class Stage:
    """Where a policy plays: the scene, its task with the pictures that it sees, who acts, and how worlds run."""

    scene: Scene
    task: TaskSpec
    actor: Actor
    how: Batch = Batch()

    def run(self, jobs: Sequence[Job]) -> tuple[Run, ...]:
        """Trials of the policy there."""
        return run_jobs(self.scene, self.task, self.actor, jobs, self.how)


class _Side:
    """Worlds side by side, each with the job it runs (or none), the tick it is at, and what was seen so far."""

    def __init__(
        self, arena: Arena, actor: Actor, jobs: Sequence[Job], how: Batch, ended: Callable[[int, Run], None]
    ) -> None:
        self.arena, self.actor, self.jobs, self.eyes, self.ended = arena, actor, jobs, how.eyes, ended
        self.filming, self.films = how.filming if how.eyes is not None else None, dict[int, Film]()
        count, ticks, joints = arena.count, arena.task.ticks, len(arena.task.machine.joints)
        self.job = np.full(count, -1)
        self.tick = np.zeros(count, dtype=np.int64)
        self.next, self.runs = 0, dict[int, Run]()
        shape = (ticks + 1, count)
        self.position, self.velocity = np.empty((*shape, joints)), np.empty((*shape, joints))
        self.command, self.error = np.empty((*shape, joints)), np.empty(shape)
        self.objects = {name: np.empty((*shape, 7)) for name in arena.task.tracked}
        self.as_seen = how.as_seen
        self.tally = Tally(count, arena.task.period_s)
        self.stops = how.safety is not None and how.safety.beyond == "stop"
        self.safe = None if how.safety is None else Safe(replace(how.safety, beyond="clip"))
        self.broken = dict[int, str]()  # worlds in which the policy gave nothing to act on at this tick, and why

    def run(self) -> tuple[Run, ...]:
        """All runs, in the order of the jobs."""
        self.actor.reset(self.arena.count, self.jobs[0].cell.seed)
        seen = self._begin(np.arange(self.arena.count))
        while (self.job >= 0).any():
            step = self.arena.step(self._acted(seen))
            seen = dict(step.observations)
            busy = np.flatnonzero(self.job >= 0)
            moved = busy[~np.isin(busy, list(self.broken))]  # a trial whose policy broke ended before this tick
            self.command[self.tick[moved], moved] = np.asarray(step.situation.command)[moved]
            self.tick[moved] += 1
            self._look(moved)
            if self.safe is None:
                self.tally.clipped(step.clipped)
            stopped = self._stopped()
            broken = np.isin(np.arange(self.arena.count), list(self.broken))
            over = busy[(np.asarray(step.done) | stopped | broken)[busy]]
            for world in over:
                place = int(self.job[world])
                self.runs[place] = self._run(int(world), step, bool(stopped[world]))
                self.ended(place, self.runs[place])
            if len(over):
                self.job[over] = -1
                seen = self._begin(over) or seen
                self._rest()
        return tuple(self.runs[k] for k in range(len(self.jobs)))

    def _acted(self, seen: dict[str, np.ndarray]) -> np.ndarray:
        """What the worlds are told: the policy's actions, within the limits that are kept."""
        asked = asking(self.actor, self.arena.count)
        began = time.perf_counter()
        actions = self._answered(seen, asked)
        self.tally.asked(asked, time.perf_counter() - began)
        if self.eyes is not None:  # pictures of the coming tick, for who will be asked then
            wanted = asking(self.actor, self.arena.count) | (self.filming is not None)
            self.eyes.look_at(wanted & (self.job >= 0))
        if self.safe is None:
            return actions
        sensed, task = self.arena.sensed, self.arena.task
        told = np.asarray(task.command(sensed, actions))
        effort = None if sensed.torque is None else np.asarray(sensed.torque)
        sent = self.safe.filter(told, np.asarray(sensed.position), effort)
        found: np.ndarray = np.asarray(task.action(sensed, sent))
        return found

    def _answered(self, seen: dict[str, np.ndarray], asked: np.ndarray) -> np.ndarray:
        """The policy's actions (N, A). Worlds in which it gave none are `broken`, and told to stay; what the policy is
        asked is never asked again."""
        sensed, task = self.arena.sensed, self.arena.task
        stay: np.ndarray = np.array(task.action(sensed, np.asarray(sensed.last)), dtype=np.float64)
        self.broken = {}
        try:
            actions = np.array(self.actor.act(seen), dtype=np.float64)
        except PolicyError as problem:
            given = problem.given
            self.broken = problem.failed or dict.fromkeys(map(int, np.flatnonzero(asked)), str(problem))
            actions = stay[:, None] if given is None else np.array(given, dtype=np.float64)
        if actions.shape != (self.arena.count, 1, stay.shape[1]):
            told = f"the policy gave actions of shape {actions.shape}; {(self.arena.count, 1, stay.shape[1])} is needed"
            self.broken, actions = dict.fromkeys(range(self.arena.count), told), stay[:, None]
        for world in np.flatnonzero(~np.isfinite(actions).all(axis=(1, 2))):
            self.broken.setdefault(int(world), "the policy gave a number that is none")
        actions = actions[:, 0]
        actions[list(self.broken)] = stay[list(self.broken)]
        return actions

    def _rest(self) -> None:
        """Worlds that have nothing left to do cost nothing more: no physics, no picture, no question."""
        idle = self.job < 0
        if idle.any():
            self.arena.rest(idle)
            rest(self.actor, idle)

    def _stopped(self) -> np.ndarray:
        """The worlds in which a limit was met that is to stop the trial."""
        none = np.zeros(self.arena.count, dtype=bool)
        if self.safe is None or not self.stops:
            return none
        met: np.ndarray = np.sum(list(self.safe.violations.values()), axis=0) > 0
        return met

    def _begin(self, free: np.ndarray) -> dict[str, np.ndarray]:
        """Gives free worlds the next jobs; what all worlds see then, or nothing where no job was left."""
        rows = free[: len(self.jobs) - self.next]
        if not len(rows):
            return {}
        mine = [self.jobs[self.next + k] for k in range(len(rows))]
        self.job[rows] = self.next + np.arange(len(rows))
        self.next += len(rows)
        if self.eyes is not None:
            self.eyes.look_at(np.isin(np.arange(self.arena.count), rows))
        seen = self.arena.reset(
            rows,
            seeds=[job.cell.seed for job in mine],
            setups=[job.setup for job in mine],
            thetas=[job.theta for job in mine],
        )
        for row, job in zip(rows, mine, strict=True):  # each world's memory and luck come from its own seed
            self.actor.reset(self.arena.count, job.cell.seed, np.arange(self.arena.count) == row)
        self.tick[rows] = 0
        begun = np.isin(np.arange(self.arena.count), rows)
        self.tally.begin(begun)
        if self.safe is not None:
            self.safe.reset(np.asarray(self.arena.sensed.position), begun)
        if self.filming is not None:
            self.films |= {int(row): self.filming.film() for row in rows}
        self._look(rows)
        return dict(seen)

    def _look(self, rows: np.ndarray) -> None:
        sensed, now, at = self.arena.sensed, self.arena.situation, self.tick[rows]
        self.position[at, rows] = np.asarray(sensed.position)[rows]
        self.velocity[at, rows] = np.asarray(sensed.velocity)[rows]
        self.error[at, rows] = np.asarray(self.arena.task.error(now))[rows]
        for name, kept in self.objects.items():
            kept[at, rows] = np.asarray((sensed if self.as_seen else now).objects[name])[rows]
        for row in rows if self.filming is not None else ():
            for name, shown in sensed.images.items():
                self.films[row].add(camera_of(name), self.tick[row] * self.arena.task.period_s, np.asarray(shown[row]))

    def _run(self, world: int, step: Step, stopped: bool) -> Run:
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
        broke = self.broken.get(world, "")
        success, note, failure = bool(step.succeeded[world]) and not (stopped or broke), "", Failure.UNDECIDED
        if broke:
            failure, note = Failure.POLICY, f"{BROKE}{broke}"
        elif stopped:
            failure, note = Failure.POLICY, "the policy meets a limit that is to stop it"
        elif bool(step.diverged[world]):
            note = f"the world diverged: {self.arena.backing.why(world)}"
        elif bool(step.failed[world]):
            note = task.failure
        elif not success:
            note = "no time was left"
        met = None if self.safe is None else {name: int(n[world]) for name, n in self.safe.violations.items()}
        measured = self.tally.metrics(world, met)
        if isinstance(self.actor, Delayed):  # nobody waits for its answers: what counts is where they are missed
            measured["deadline_misses"] = float(self.actor.starved[world])
        run = run_of(
            task,
            course,
            success,
            failure,
            domain=job.cell.domain.name,
            note=note,
            engine=engine_of(self.arena.scene),
            theta=job.theta,
            measured=measured,
        )
        return run if self.filming is None else replace(run, film=self.films.pop(world).end())
