"""The robot's pictures against the twin's at the same state: what a policy makes of one and of the other.

A real trial keeps the pictures that the policy was asked about. Afterwards the twin is put where the robot reported to
be, its object where the tracker saw it, and drawn through the same cameras; the policy is asked about both, and all
else that it sees is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from twinproof.evaluate.cameras import TwinEyes, pictures_in
from twinproof.evaluate.closed_loop import Job, Stage
from twinproof.evaluate.film import camera_of, shown_at
from twinproof.evaluate.runs import Run
from twinproof.nouns.theta import Theta
from twinproof.nouns.trace import Trace
from twinproof.sim.parameters.base import index
from twinproof.sim.worlds import Worlds
from twinproof.tasks.sensed import Sensed
from twinproof.tasks.task import TaskSpec

TOGETHER = 16  # states that are drawn at once
COUPLED = 2  # MuJoCo's kind of an equality between two joints


@dataclass(frozen=True, eq=False)
class Shots:
    """The pictures that a policy was asked about: at which ticks, and by channel one (H, W, 3) of bytes each."""

    tick: np.ndarray
    pictures: Mapping[str, Iterable[np.ndarray]]


def shots_of(task: TaskSpec, run: Run) -> Shots | None:
    """What a policy was shown when it was asked, decoded as it is looked at; None where no film of it was kept."""
    names = {channel.name: camera_of(channel.name) for channel in pictures_in(task.contract)}
    if run.film is None or run.asked is None or set(names.values()) - set(run.film.videos):
        return None
    stamps = run.trace.signals["state"].time_s
    asked = run.asked[run.asked < len(stamps)]
    return Shots(asked, {name: shown_at(run.film.videos[camera], stamps[asked]) for name, camera in names.items()})


def picture_gap(stage: Stage, job: Job, trace: Trace, shots: Shots) -> float | None:
    """The root mean square difference of the first action of each answer, in shares of half its range; None where the
    policy was never asked. What a policy remembers of earlier pictures is left out."""
    known = len(trace.signals["command"].time_s) if "command" in trace.signals else 0
    ticks = shots.tick[shots.tick < known]
    if stage.how.eyes is None or not len(ticks):
        return None
    task = stage.task
    half = np.array([((c.high or 0.0) - (c.low or 0.0)) / 2 for c in task.contract.actions])
    low, high = (np.array([getattr(c, side) for c in task.contract.actions], float) for side in ("low", "high"))
    off = []
    taken = (dict(zip(shots.pictures, each, strict=True)) for each in zip(*shots.pictures.values(), strict=True))
    for tick, *both in zip(ticks, taken, _drawn(stage, states_of(task, trace, ticks, job.theta)), strict=False):
        told = []
        for pictures in both:
            sensed = replace(_sensed(task, job, trace, int(tick)), images={n: p[None] for n, p in pictures.items()})
            stage.actor.reset(1, job.cell.seed)
            told.append(np.clip(stage.actor.act(task.observe(sensed))[0, 0], low, high))
        off.append((told[0] - told[1]) / half)
    return float(np.sqrt(np.mean(np.square(off))))


def _drawn(stage: Stage, qpos: np.ndarray) -> Iterator[dict[str, np.ndarray]]:
    """What the twin's cameras see in each state, a few states at a time."""
    for first in range(0, len(qpos), TOGETHER):
        some = seen_at(stage, qpos[first : first + TOGETHER])
        yield from (dict(zip(some, each, strict=True)) for each in zip(*some.values(), strict=True))


def states_of(task: TaskSpec, trace: Trace, ticks: np.ndarray, theta: Theta) -> np.ndarray:
    """qpos (A, nq) of the twin where the robot reported to be, less the encoders' offsets as the twin believes them."""
    model: Any = task.machine.scene.nominal()
    joints = task.machine.joints
    shift = np.array([theta.get(f"joint.{name}.offset", 0.0) for name in joints])
    qpos = np.tile(np.array(model.qpos0), (len(ticks), 1))
    qpos[:, task.machine.qpos_at] = trace.signals["state"].value[ticks] - shift
    for name in task.tracked:
        joint = int(model.body_jntadr[index(model, "body", name)])
        if joint >= 0 and int(model.jnt_type[joint]) == 0 and f"{name}_pose" in trace.signals:  # a free body
            at = int(model.jnt_qposadr[joint])
            qpos[:, at : at + 7] = trace.signals[f"{name}_pose"].value[ticks]
    return _coupled(model, qpos)


def _coupled(model: Any, qpos: np.ndarray) -> np.ndarray:
    """The states with joints that follow another one, such as a gripper's second finger, where it takes them."""
    for k in range(model.neq):
        if int(model.eq_type[k]) == COUPLED and int(model.eq_obj2id[k]) >= 0:
            mine, other = (int(model.jnt_qposadr[int(ids[k])]) for ids in (model.eq_obj1id, model.eq_obj2id))
            moved = qpos[:, other] - model.qpos0[other]
            qpos[:, mine] = model.qpos0[mine] + sum(c * moved**n for n, c in enumerate(model.eq_data[k][:5]))
    return qpos


def seen_at(stage: Stage, qpos: np.ndarray) -> dict[str, np.ndarray]:
    """What the twin's cameras see in these states, by channel."""
    eyes = stage.how.eyes
    assert eyes is not None, "only a policy that sees pictures is asked about them"
    worlds = Worlds(stage.scene, len(qpos), nthread=1)
    worlds.reset(qpos=qpos)
    return TwinEyes(eyes.twin, eyes.channels).see(_Posed(worlds))


class _Posed:
    """Worlds that stand still, for who draws."""

    xp, patient = np, True

    def __init__(self, worlds: Worlds) -> None:
        self.model, self._worlds = worlds.model, worlds

    def view(self, name: str) -> np.ndarray:
        """A field of all worlds."""
        return self._worlds.view(name)


def _sensed(task: TaskSpec, job: Job, trace: Trace, tick: int) -> Sensed:
    state, velocity, command = (trace.signals[name].value for name in ("state", "velocity", "command"))
    rest = np.zeros_like(state[0]) if task.machine.torque_driven else state[0]
    last = rest if tick == 0 else command[tick - 1]
    objects = {name: trace.signals[f"{name}_pose"].value[tick][None] for name in task.tracked}
    time_s, goal = trace.signals["state"].time_s[tick], np.array(job.setup.goal)
    return Sensed(
        np, np.array([time_s]), state[tick][None], velocity[tick][None], goal[None], last[None], None, objects
    )
