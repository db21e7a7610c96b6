"""One trial on a robot, by the same task that the twin runs: the same observation, the same judge, the same trace.

robot ─ encoders ─┐                    ┌─> task.observe ─> policy ─> task.command ─> robot
      ─ pictures ─┴─ tracker ─> Sensed ┴─> Situation ─> task.notes, succeeded, failed, error
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from twinproof.evaluate.cameras import pictures_in, taken
from twinproof.evaluate.film import Filming, camera_of
from twinproof.evaluate.foresight import Guarding
from twinproof.evaluate.runs import Course, Run, run_of
from twinproof.evaluate.tally import of_driven
from twinproof.nouns.actor import Actor
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import PanelError, PolicyError
from twinproof.nouns.failure import Failure
from twinproof.nouns.hashing import Json
from twinproof.nouns.panel import Cell
from twinproof.nouns.policy import Channel
from twinproof.nouns.robot import Observation, Robot, Start
from twinproof.policies.background import Background
from twinproof.policies.chunks import asking
from twinproof.policies.drive import Driven, Manner, Observe, drive
from twinproof.policies.safety import Safety
from twinproof.policies.timing import Timing
from twinproof.tasks.episodes import drawn_setup
from twinproof.tasks.sensed import Sensed, Situation, distance
from twinproof.tasks.task import Setup, TaskSpec
from twinproof.tasks.tips import TipPosition

Hook = Callable[[Observation, np.ndarray], str]
LABELS = {"policy": Failure.POLICY, "robot": Failure.EMBODIMENT}  # what ended a trial by itself tells its cause


class Sight(Protocol):
    """Where objects are, told from what the robot's cameras show: a tracker, or a user's own."""

    def begin(self, seen: Observation, setup: Setup) -> None:
        """A new episode, which began as the setup says."""

    def look(self, seen: Observation) -> Mapping[str, np.ndarray]:
        """Poses (7,) by body, as they are known at this tick: late by what the tracker takes."""


class NoSight:
    """For tasks without objects."""

    def begin(self, seen: Observation, setup: Setup) -> None:
        """Nothing to look at."""

    def look(self, seen: Observation) -> Mapping[str, np.ndarray]:
        """Nothing seen."""
        return {}


@dataclass(frozen=True)
class Place:
    """A robot, what it is called in reports ("lab bench 'push', simulated"), and what sees objects for it."""

    robot: Robot
    reality: str
    sight: Sight = NoSight()  # it has no state
    safety: Safety | None = None
    referee: Callable[[TaskSpec, Setup], bool | None] | None = None  # whose word counts above what was measured
    patient: bool = False  # its time stands still while a policy thinks, as a simulated robot's does
    watched: Json = None  # what the watch goes by: thresholds, and the false alarms that they promise
    measure: Callable[[Sequence[Episode]], dict[str, Json]] | None = None  # how often it alarms on some episodes
    watch: Callable[[], Hook] | None = None  # gives a hook for each trial that slows or stops it (evaluate.foresight)


def begins(task: TaskSpec, cell: Cell) -> Setup:
    """How a cell's trial begins, in every domain: as its seed draws it, the driven joints where a robot's reset
    brings them."""
    drawn = drawn_setup(task, cell.seed)
    kept = {name: value for name, value in drawn.joints.items() if name not in task.machine.joints}
    return replace(drawn, joints=kept)


def start_of(cell: Cell, setup: Setup) -> Start:
    """What the robot is told of a beginning: the condition's object and session, and where the object goes."""
    labels = cell.condition.labels
    seed = cell.seed % 2**31
    return Start(labels.get("object", ""), labels.get("session", "day_0"), seed, setup.at_m, setup.yaw_rad)


def check_place(task: TaskSpec, place: Place) -> None:
    """The robot is the task's, and something sees its objects."""
    if place.robot.joints != task.machine.joints:
        raise PanelError(
            f"the robot drives {', '.join(place.robot.joints)}, the twin {', '.join(task.machine.joints)}. The twin's "
            "actuators have to stand in the robot's order."
        )
    if task.tracked and isinstance(place.sight, NoSight):
        raise PanelError(
            f"the task {task.name!r} needs to see {', '.join(task.tracked)}, and nothing tracks it on the robot. Give "
            "its cameras, or a sight of your own."
        )


def real_run(
    place: Place,
    task: TaskSpec,
    actor: Actor,
    cell: Cell,
    setup: Setup,
    hook: Hook | None = None,
    filmed: Filmed | None = None,
) -> tuple[Run, Driven]:
    """Drives one trial and judges it by what was measured. `hook` may slow or stop the policy (evaluate.monitor);
    `filmed` keeps what the cameras show."""
    check_place(task, place)
    hook = place.watch() if hook is None and place.watch is not None else hook
    referee = Referee(task, setup, place.sight)

    def watched(seen: Observation, command: np.ndarray) -> str:
        referee.told = np.array(command)
        return "ok" if hook is None else hook(seen, command)

    manner = Manner(
        command=lambda seen, last, action: task.command(referee.sensed(seen, last), action[None])[0],
        safety=place.safety,
        hook=watched,  # type: ignore[arg-type]
        done=referee.done,
        seed=cell.seed,
    )
    seen = Seen(actor, filmed, referee.observe)
    answers = len(actor.latency_s) if isinstance(actor, Background) else 0
    driven = drive(actor, place.robot, seen.observe, start_of(cell, setup), task.horizon_s, manner)
    success, failure, note = _verdict(place, task, setup, referee, driven)
    measured = of_driven(driven, place.robot.rate_hz)
    if isinstance(actor, Background):
        measured |= _of_background(actor, answers)
    if isinstance(hook, Guarding):
        measured |= hook.metrics()
    run = run_of(task, referee.course(driven), success, failure, domain=cell.domain.name, note=note, measured=measured)
    return replace(run, film=seen.film(), asked=np.array(seen.asked, dtype=np.int64)), driven


def _of_background(actor: Background, before: int) -> dict[str, float]:
    """How long the answers of one trial took while the robot moved, and at how many ticks one was missed."""
    with suppress(PolicyError):  # of an answer that nobody waits for any more
        actor.wait()
    if len(actor.latency_s) == before:
        return {}
    timing = Timing.of(actor.latency_s[before:])
    return {"latency_p50_s": timing.p50_s, "latency_p95_s": timing.p95_s, "deadline_misses": float(actor.starved)}


@dataclass(frozen=True, eq=False)
class Filmed:
    """What is filmed of a trial: pictures that the policy is shown, and else a camera's own where the robot has it."""

    filming: Filming
    channels: tuple[Channel, ...]


class Seen:
    """Shows a policy what it sees; knows at which ticks it was asked, and films what the cameras show."""

    def __init__(self, actor: Actor, filmed: Filmed | None, observe: Observe) -> None:
        self._actor, self._observe = actor, observe
        self._channels = () if filmed is None else filmed.channels
        self._film = None if filmed is None else filmed.filming.film()
        self._tick, self._begun_s = -1, 0.0
        self._stamps: dict[str, float] = {}
        self.asked: list[int] = []

    def observe(self, seen: Observation, last: np.ndarray) -> Mapping[str, np.ndarray]:
        """What the policy is shown."""
        shown = self._observe(seen, last)
        self._tick += 1
        self._begun_s = seen.stamp_s if self._tick == 0 else self._begun_s
        if asking(self._actor, 1)[0]:
            self.asked.append(self._tick)
        for channel in self._channels:
            self._add(channel, seen, shown)
        return shown

    def _add(self, channel: Channel, seen: Observation, shown: Mapping[str, np.ndarray]) -> None:
        """Films a picture that is new; what a policy does not look at may be lacking."""
        taken = seen.images.get(channel.frame)
        if self._film is None or taken is None or self._stamps.get(channel.name) == taken.stamp_s:
            return
        self._stamps[channel.name] = taken.stamp_s
        picture = shown[channel.name][0] if channel.name in shown else taken.rgb
        self._film.add(camera_of(channel.name), seen.stamp_s - self._begun_s, picture)

    def film(self) -> Episode | None:
        """What was filmed, now that the trial is over."""
        return None if self._film is None else self._film.end()


def _verdict(
    place: Place, task: TaskSpec, setup: Setup, referee: Referee, driven: Driven
) -> tuple[bool, Failure | None, str]:
    """What was measured decides, unless somebody who saw it says otherwise."""
    word = None if place.referee is None else place.referee(task, setup)
    if word is not None and word != referee.success:
        if word:
            return True, None, "a success by the referee's word; what was measured does not show it"
        return False, Failure.PERCEPTION, "what was measured shows a success, and the referee says that it is none"
    if referee.success:
        return True, None, ""
    failure = Failure.PERCEPTION if referee.lost else LABELS.get(driven.ended, Failure.UNDECIDED)
    return False, failure, referee.why or driven.because


class Referee:
    """Follows one trial of one robot: what the policy is shown, and whether it has succeeded or failed."""

    def __init__(self, task: TaskSpec, setup: Setup, sight: Sight) -> None:
        self.task, self._setup, self._sight = task, setup, sight
        self._goal = np.array(setup.goal, dtype=np.float64)
        joints = task.machine.joints
        self._tips = {
            arm.tip: TipPosition(task.machine.chain(arm), [joints.index(name) for name in arm.joints])
            for arm in task.machine.arms
        }
        for tip in self._tips.values():
            tip(np.array([task.machine.home]), np)  # compiled now, and not in a robot's first tick
        self._pictures = pictures_in(task.contract)
        self.success, self.why, self.lost = False, "", False
        self.told: np.ndarray | None = None  # the command of this tick
        self._now: Situation | None = None
        self._seen: tuple[Observation, dict[str, np.ndarray]] | None = None
        self._errors: list[float] = []
        self._objects: list[dict[str, np.ndarray]] = []

    def observe(self, seen: Observation, last: np.ndarray) -> Mapping[str, np.ndarray]:
        """What the policy is shown."""
        if self._now is None:
            self._sight.begin(seen, self._setup)
            self._begun_s = seen.stamp_s
            self._look(seen, last)
        return dict(self.task.observe(self.sensed(seen, last)))

    def sensed(self, seen: Observation, last: np.ndarray) -> Sensed:
        """What the robot knows at this tick."""
        sensed = Sensed.of_robot(seen, self._goal, last, self._where(seen), self._begun_s)
        return replace(sensed, images=taken(seen.images, self._pictures)) if self._pictures else sensed

    def done(self, seen: Observation) -> str:
        """Why the trial is over, or nothing."""
        assert self.told is not None, "a command was sent before anything is judged"
        try:
            now = self._look(seen, self.told)
        except PolicyError as problem:  # what is asked for again at the next tick would only fail again
            self.why = str(problem)
            return self.why
        self.success = bool(self.task.succeeded(now)[0])
        if self.success:
            return "succeeded"
        if bool(self.task.failed(now)[0]):
            self.why = self.task.failure
            return f"failed: {self.task.failure}"
        return ""

    def _where(self, seen: Observation) -> dict[str, np.ndarray]:
        """Poses of objects, looked for once a tick: a tracker has a memory."""
        if self._seen is None or self._seen[0] is not seen:
            found = {name: np.asarray(pose, dtype=np.float64) for name, pose in self._sight.look(seen).items()}
            lost = sorted(set(self.task.tracked) - set(found))
            if lost:
                self.lost = True
                raise PolicyError(f"the tracker does not see {', '.join(lost)}. Nothing can be decided without it.")
            self._seen = (seen, found)
        return self._seen[1]

    def _look(self, seen: Observation, told: np.ndarray) -> Situation:
        before, task = self._now, self.task
        objects = {name: pose[None] for name, pose in self._where(seen).items() if name in task.tracked}
        old = objects if before is None else before.objects
        position, still = seen.position[None], np.zeros(1)
        now = Situation(
            np,
            task.period_s,
            np.array([seen.stamp_s - self._begun_s]),
            position,
            seen.velocity[None],
            self._goal[None],
            told[None],
            told[None] if before is None else before.command,
            {name: tip(position, np) for name, tip in self._tips.items()},
            objects,
            objects if before is None else before.first,
            {name: distance(pose[:, :3], old[name][:, :3]) / task.period_s for name, pose in objects.items()},
            dict.fromkeys(task.remembers, still) if before is None else before.notes,
        )
        if before is not None:
            now = replace(now, notes=task.notes(now))
        self._now = now
        self._errors.append(float(task.error(now)[0]))
        self._objects.append({name: pose[0] for name, pose in objects.items()})
        return now

    def course(self, driven: Driven) -> Course:
        """What happened until the last command was carried out; the stop after it is not part of the trial."""
        ticks = max(0, min(len(driven.commands), len(self._errors) - 1))
        return Course(
            driven.stamp_s[: ticks + 1] - driven.stamp_s[0],
            driven.position[: ticks + 1],
            driven.velocity[: ticks + 1],
            driven.commands[:ticks],
            self._goal,
            np.array(self._errors[: ticks + 1] or [np.nan]),
            {
                name: np.stack([o[name] for o in self._objects[: ticks + 1]])
                for name in self.task.tracked
                if self._objects
            },
        )
