"""Where the gap between robot and twin comes from, in four steps on the same trials, each adding one thing.

1 replay        the robot's own commands sent to the twin                     dynamics, nothing else
2 observation   the policy shown what the robot reported, and the same states without noise: how far actions differ;
                one that sees pictures, the robot's and the twin's
3 timing        the twin's closed loop with and without what comes late, slack or noisy
4 closed loop   the twin's closed loop against the robot's                    all of it, compounded
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.evaluate.cameras import pictures_in
from twinproof.evaluate.closed_loop import Job, Stage
from twinproof.evaluate.pairs import apart_rmse
from twinproof.evaluate.replay import replay
from twinproof.evaluate.runs import Run
from twinproof.evaluate.shots import picture_gap, shots_of
from twinproof.evaluate.statistics import mean_interval
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import PolicyError, TraceError
from twinproof.nouns.hashing import Json
from twinproof.nouns.rig import Rig
from twinproof.nouns.signal import Signal
from twinproof.nouns.theta import Theta
from twinproof.nouns.trace import Trace
from twinproof.sim.experiment import experiment
from twinproof.sim.scene import Scene
from twinproof.sim.smooth import states_at
from twinproof.tasks.sensed import Sensed
from twinproof.tasks.task import TaskSpec

if TYPE_CHECKING:
    from jaxtyping import Float

LATE_OR_NOISY = ("delay", "delay_jitter", "latency", "backlash", "noise", "dropout", "bias", "offset", "quantum")
OF_STATES = "actions on reported against noise-free states"
OF_PICTURES = "actions on the robot's pictures against the twin's at the same states"
LOGGED = ("state", "velocity", "command")
BEFORE_S = 1.0
FEWEST = 8  # commands of a trial that is worth taking apart


@dataclass(frozen=True, eq=False)
class Played:
    """One trial in reality and in the twin: how it was run there, and both runs."""

    job: Job
    real: Run
    twin: Run


def decompose(stage: Stage, played: Sequence[Played], rig: Rig) -> list[Json]:
    """The four steps over trials that were long enough; joints in shares of their ranges, actions of half theirs."""
    scene, task = stage.scene, stage.task
    long = [each for each in played if whole(each.real.trace)]
    if not long:
        raise TraceError(
            f"none of {len(played)} trials has joint positions, velocities and at least {FEWEST} commands without a "
            "gap, so there is nothing to take apart. Record them."
        )
    clean = stage.run([replace(each.job, theta=without_delays(each.job.theta)) for each in long])
    logged = [_logged(task, each.real.trace) for each in long]
    replayed, broken = _replayed(scene, logged, [each.job.theta for each in long], rig)
    seen = [gap_of(stage, each) for each in long]
    timing = [apart_rmse(each.twin.trace, run.trace, rig) for each, run in zip(long, clean, strict=True)]
    closed = [apart_rmse(each.real.trace, each.twin.trace, rig) for each in long]
    points, unposed = 100.0 / len(long), sum(not posed(task, each.real.trace) for each in long)
    return [
        _step(1, "replay of the robot's commands", replayed, "share of joint ranges", {"diverged": broken}),
        _step(
            2,
            OF_PICTURES if pictures_in(task.contract) else OF_STATES,
            seen,
            "share of half an action's range",
            {"without_pose": unposed} if unposed else None,
        ),
        _step(
            3,
            "closed loop with against without delay, slack and noise",
            timing,
            "share of joint ranges",
            {"success_points": points * (sum(e.twin.success for e in long) - sum(r.success for r in clean))},
        ),
        _step(
            4,
            "closed loop in the twin against the robot",
            closed,
            "share of joint ranges",
            {"success_points": points * sum(int(e.twin.success) - int(e.real.success) for e in long)},
        ),
    ]


def whole(trace: Trace) -> bool:
    """Whether a trial can be taken apart."""
    known = [trace.signals[name] for name in LOGGED if name in trace.signals]
    return len(known) == len(LOGGED) and all(s.missing is None and len(s.time_s) >= FEWEST for s in known)


def posed(task: TaskSpec, trace: Trace) -> bool:
    """Whether a trace tells at every tick where the task's objects were."""
    known = [trace.signals.get(f"{name}_pose") for name in task.tracked]
    return all(signal is not None and signal.missing is None for signal in known)


def _logged(task: TaskSpec, trace: Trace) -> Episode:
    """A trial as an episode. Before its first command the robot was told to rest, which a delay carries on."""
    state, velocity, command = (trace.signals[name] for name in LOGGED)
    rest = np.zeros(command.value.shape[1]) if task.machine.torque_driven else state.value[0]
    sent = Signal(
        command.name,
        command.kind,
        command.columns,
        np.concatenate([[command.time_s[0] - BEFORE_S], command.time_s]),
        np.concatenate([rest[None], command.value]),
    )
    return Episode.of({"state": state, "velocity": velocity, "command": sent}, {})


def _step(
    number: int, what: str, values: Sequence[float | None], unit: str, more: dict[str, Json] | None = None
) -> Json:
    known = [value for value in values if value is not None]
    told: dict[str, Json] = {"step": number, "what": what, "unit": unit, "trials": len(known), **(more or {})}
    if not known:
        return {**told, "value": None, "interval": None}
    interval = mean_interval(known) if len(known) > 1 else None
    ends = None if interval is None else [interval.low, interval.high]
    return {**told, "value": float(np.mean(known)), "interval": ends}


def without_delays(theta: Theta) -> Theta:
    """The same world with nothing late, slack, shifted or noisy."""
    return Theta({id: value for id, value in theta.items() if id.rpartition(".")[2] not in LATE_OR_NOISY})


def _replayed(
    scene: Scene, logged: Sequence[Episode], thetas: Sequence[Theta], rig: Rig
) -> tuple[list[float | None], int]:
    found: list[float | None] = []
    for episode, theta in zip(logged, thetas, strict=True):
        try:
            found.append(replay(scene, episode, theta, rig, smooth=False).total_rmse)
        except TraceError:  # the twin diverged: counted, and no number
            found.append(None)
    return found, sum(each is None for each in found)


def gap_of(stage: Stage, played: Played) -> float | None:
    """The root mean square difference of what a policy does on reported and on noise-free states, along one trial.
    Of a policy that sees pictures: on the robot's and on the twin's, all else the same (evaluate.shots). None where
    nobody knows what it was shown, or it broke when it was asked."""
    task = stage.task
    if not posed(task, played.real.trace):
        return None
    try:
        return _gap(stage, played)
    except PolicyError:  # a server that does not answer now has answered in the trials
        return None


def _gap(stage: Stage, played: Played) -> float | None:
    scene, task, actor = stage.scene, stage.task, stage.actor
    if pictures_in(task.contract):
        kept = shots_of(task, played.real)
        return None if kept is None else picture_gap(stage, played.job, played.real.trace, kept)
    trace = played.real.trace
    episode = _logged(task, trace)
    state, velocity, command = (trace.signals[name] for name in LOGGED)
    ticks = len(command.time_s)
    smooth = states_at(experiment(episode, scene).readings, scene.nominal(), state.time_s[:ticks])
    machine = task.machine
    reported = (state.value[:ticks], velocity.value[:ticks])
    clean = (smooth.qpos[:, machine.qpos_at], smooth.qvel[:, machine.qvel_at])
    rest = np.zeros(len(machine.joints)) if machine.torque_driven else state.value[0]
    last = np.concatenate([rest[None], command.value[: ticks - 1]])
    poses = {name: trace.signals[f"{name}_pose"].value[:ticks] for name in task.tracked}
    goal = np.array(played.job.setup.goal)
    half = np.array([((c.high or 0.0) - (c.low or 0.0)) / 2 for c in task.contract.actions])
    actor.reset(2, played.job.cell.seed)
    off = np.empty((ticks, len(half)))
    for t in range(ticks):
        both = [_sensed(state.time_s[t], side[0][t], side[1][t], goal, last[t], poses, t) for side in (reported, clean)]
        seen = [task.observe(each) for each in both]
        actions = actor.act({name: np.concatenate([each[name] for each in seen]) for name in seen[0]})[:, 0]
        off[t] = np.clip(actions, *_limits(task))[0] - np.clip(actions, *_limits(task))[1]
    return float(np.sqrt(np.mean(np.square(off / half))))


def _limits(task: TaskSpec) -> tuple[np.ndarray, np.ndarray]:
    channels = task.contract.actions
    return np.array([c.low for c in channels], dtype=float), np.array([c.high for c in channels], dtype=float)


def _sensed(
    time_s: float,
    position: Float[np.ndarray, "J"],
    velocity: Float[np.ndarray, "J"],
    goal: np.ndarray,
    last: np.ndarray,
    poses: dict[str, np.ndarray],
    tick: int,
) -> Sensed:
    objects = {name: pose[tick][None] for name, pose in poses.items()}
    return Sensed(np, np.array([time_s]), position[None], velocity[None], goal[None], last[None], None, objects)
