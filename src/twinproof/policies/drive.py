"""One closed-loop trial of an actor on a robot, tick by tick, with a safe stop whatever goes wrong.

robot.observe ─> observe ─> actor.act ─> command ─> safety ─> hook ─> robot.act
                                 any PolicyError: the rest command once, then silence until the watchdog has stopped it
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from twinproof.nouns.actor import Actor
from twinproof.nouns.errors import PolicyError, RobotError
from twinproof.nouns.policy import Contract
from twinproof.nouns.robot import Observation, Robot, Start
from twinproof.policies.chunks import asking
from twinproof.policies.safety import Safe, Safety

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

Ended = Literal["horizon", "done", "policy", "robot", "hook"]
State = Literal["ok", "slow", "stop"]
Observe = Callable[[Observation, np.ndarray], Mapping[str, np.ndarray]]  # what is seen, the last command sent
POSITIONS, EFFORTS = {"rad", "m"}, {"N·m", "N m", "Nm", "N"}
SLOWED = 0.3  # share of a command's step that is sent while the hook says "slow"


def as_command(seen: Observation, last: np.ndarray, action: np.ndarray) -> np.ndarray:
    """The action is the command: a target for every joint."""
    return action


def go(seen: Observation, command: np.ndarray) -> State:
    """Nobody watches."""
    return "ok"


def never(seen: Observation) -> str:
    """Only time ends the trial."""
    return ""


@dataclass(frozen=True)
class Manner:
    """How a trial is driven, beside the actor: what an action means, what is safe, who watches, when it is over."""

    command: Callable[[Observation, np.ndarray, np.ndarray], np.ndarray] = as_command
    safety: Safety | None = None  # the robot's own limits hold in any case
    hook: Callable[[Observation, np.ndarray], State] = go  # before a command is sent: go on, slow down, stop
    done: Callable[[Observation], str] = never  # why the trial is over, or ""
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Driven:
    """What was seen at every tick, what the policy wanted, what was sent, and why it ended.

    The ticks after the last command are those of the stop. `counts` are limits met: of the safety filter, and of the
    robot ("robot: …"). `latency_s` is how long the policy thought, tick by tick; where it was not `asked`, it played on
    what it had said before. `filtered`: a safety filter stood between.
    """

    joints: tuple[str, ...]
    stamp_s: Float[np.ndarray, "T+1"]
    position: Float[np.ndarray, "T+1 J"]
    velocity: Float[np.ndarray, "T+1 J"]
    torque: Float[np.ndarray, "T+1 J"]
    actions: Float[np.ndarray, "C A"]
    commands: Float[np.ndarray, "C J"]
    latency_s: Float[np.ndarray, "C"]
    ended: Ended
    because: str  # a sentence
    counts: Mapping[str, int]
    slowed: int  # ticks that the hook slowed
    asked: Bool[np.ndarray, "C"]
    filtered: bool


def drive(
    actor: Actor, robot: Robot, observe: Observe, start: Start, horizon_s: float, manner: Manner | None = None
) -> Driven:
    """Runs one trial. A policy that fails, a robot that stops and a hook that says stop are results, not exceptions.

    What is wrong before anything moves (another rate, chunks, a server that does not answer) is raised. Anything
    unforeseen, Ctrl-C included, stops the robot first and is raised then.
    """
    trial = _Trial(actor, robot, observe, manner or Manner())
    ticks = max(1, math.ceil(horizon_s * robot.rate_hz - 1e-9))
    actor.reset(1, trial.manner.seed)  # a server that is gone says so before the robot moves
    trial.begin(robot.reset(start))
    try:
        for _ in range(ticks):
            ended = trial.tick()
            if ended:
                return trial.end(*ended)
        return trial.end("horizon", f"the horizon of {horizon_s:g} s is over.")
    except BaseException:
        trial.stop()
        raise


def check_drivable(contract: Contract, robot: Robot, manner: Manner) -> None:
    """The actor's contract fits the robot; else an error that says what to do."""
    if contract.chunk != 1:
        raise PolicyError(
            f"the policy gives {contract.chunk} actions at once, and a robot takes one a tick. Wrap it: "
            "policies.chunks.Chunked, or Background where the robot must not wait."
        )
    if abs(contract.rate_hz - robot.rate_hz) > 1e-6:
        raise PolicyError(
            f"the policy acts at {contract.rate_hz:g} Hz and the robot at {robot.rate_hz:g} Hz. Make them the same."
        )
    names = tuple(action.name for action in contract.actions)
    if manner.command is as_command and names != robot.joints:
        raise PolicyError(
            f"the policy's actions are {', '.join(names)}; the robot's joints are {', '.join(robot.joints)}. Give "
            "Manner(command=…), which makes a command of an action."
        )
    units = {action.unit for action in contract.actions}
    if manner.safety is None and not (units <= POSITIONS or units <= EFFORTS):
        raise PolicyError(
            f"the actions are in {', '.join(sorted(units))}, which does not tell how the robot is told to stay. Give "
            "Manner(safety=…), which does."
        )
    if manner.safety is not None and units <= (POSITIONS if manner.safety.torque_driven else EFFORTS):
        kind, told = "torques" if manner.safety.torque_driven else "positions", ", ".join(sorted(units))
        raise PolicyError(
            f"the safety limits are for a robot that is told {kind}, and the actions are in {told}. To stop it would "
            "move it: correct one of the two."
        )


class _Trial:
    """The state of one trial while it runs."""

    def __init__(self, actor: Actor, robot: Robot, observe: Observe, manner: Manner) -> None:
        check_drivable(actor.contract, robot, manner)
        self.actor, self.robot, self.observe, self.manner = actor, robot, observe, manner
        self.safe = Safe(manner.safety) if manner.safety else None
        self.seen: list[Observation] = []
        self.sent: list[tuple[np.ndarray, np.ndarray, float, bool]] = []  # action, command, latency, whether asked
        self.slowed, self.stopped = 0, False

    def begin(self, first: Observation) -> None:
        self.seen.append(first)
        self.last = self._rest(first)
        if self.safe:
            self.safe.reset(first.position[None])

    def tick(self) -> tuple[Ended, str] | None:
        """Asks, sends, waits for the next observation; tells why it is over, if it is."""
        seen = self.seen[-1]
        try:
            asked = bool(asking(self.actor, 1)[0])
            action, command, took_s = self._decide(seen)
            state = self.manner.hook(seen, command)
            if state == "stop":
                return "hook", "who watched said stop."
            if state == "slow":
                self.slowed += 1
                command = self.last + SLOWED * (command - self.last)
                if self.safe:
                    self.safe.sent(command[None])
            self.robot.act(command)
            self.last = command
            self.sent.append((action, command, took_s, asked))
            self.seen.append(self.robot.observe())
        except PolicyError as problem:
            return "policy", str(problem)
        except RobotError as problem:
            return "robot", str(problem)
        if self.seen[-1].stopped:
            return "robot", "the robot reports that it stopped."
        why = self.manner.done(self.seen[-1])
        return ("done", why) if why else None

    def _decide(self, seen: Observation) -> tuple[np.ndarray, np.ndarray, float]:
        observations = self.observe(seen, self.last.copy())
        began = time.perf_counter()
        action = np.asarray(self.actor.act(observations), dtype=np.float64)
        took_s = time.perf_counter() - began
        wanted = (1, 1, len(self.actor.contract.actions))
        if action.shape != wanted or not np.isfinite(action).all():
            raise PolicyError(
                f"the policy gave an action of shape {action.shape} with {int((~np.isfinite(action)).sum())} "
                f"non-finite values; needed are finite numbers of shape {wanted}. The robot was stopped."
            )
        command = np.asarray(self.manner.command(seen, self.last.copy(), action[0, 0]), dtype=np.float64)
        if self.safe:
            command = self.safe.filter(command[None], seen.position[None], seen.torque[None])[0]
        return action[0, 0], command, took_s

    def _rest(self, seen: Observation) -> np.ndarray:
        if self.manner.safety:
            return self.manner.safety.rest(seen.position)
        efforts = {action.unit for action in self.actor.contract.actions} <= EFFORTS
        return np.zeros(len(seen.position)) if efforts else np.array(seen.position, dtype=np.float64)

    def stop(self) -> str:
        """Tells the robot to stay, then nothing more until it reports that it stopped. What went wrong, in words."""
        if self.stopped:
            return ""
        self.stopped = True
        try:
            if not self.seen[-1].stopped:
                self.robot.act(self._rest(self.seen[-1]))
            for _ in range(self.robot.watchdog + 2):
                if self.seen[-1].stopped:
                    return ""
                self.seen.append(self.robot.observe())
        except RobotError as problem:
            return f" While it was being stopped: {problem}"
        return "" if self.seen[-1].stopped else " Its watchdog did not report a stop."

    def end(self, ended: Ended, because: str) -> Driven:
        because += self.stop()
        counts = Counter({f"robot: {name}": count for name, count in self.robot.counts.items()})
        counts.update(self.safe.counts if self.safe else {})
        actions, commands = (np.array([row[k] for row in self.sent], dtype=np.float64) for k in (0, 1))
        wide, joints = len(self.actor.contract.actions), len(self.robot.joints)
        position, velocity, torque = (
            np.stack([np.asarray(getattr(each, name)) for each in self.seen])
            for name in ("position", "velocity", "torque")
        )
        return Driven(
            tuple(self.robot.joints),
            np.array([each.stamp_s for each in self.seen]),
            position,
            velocity,
            torque,
            actions.reshape(-1, wide),
            commands.reshape(-1, joints),
            np.array([row[2] for row in self.sent]),
            ended,
            because,
            dict(counts),
            self.slowed,
            np.array([row[3] for row in self.sent], dtype=bool),
            self.safe is not None,
        )
