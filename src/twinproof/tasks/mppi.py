"""Sampling MPC as an actor: at every tick many futures are tried on the twin, and the better ones weigh more.

    observations ─> state of the twin ─> S futures of H ticks for each world (MPPI, on batched worlds) ─> first action

The future is a few knots of actions, drawn about the last tick's best; the best of all is among the next tick's draws.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from twinproof.nouns.errors import PolicyError, TaskError
from twinproof.nouns.randomness import stream
from twinproof.nouns.theta import Theta
from twinproof.sim.scene import Scene
from twinproof.tasks.arena import Arena
from twinproof.tasks.machine import follow
from twinproof.tasks.play import Play, State
from twinproof.tasks.sensed import distance
from twinproof.tasks.starts import free_place
from twinproof.tasks.task import TaskSpec

Seen = Mapping[str, np.ndarray]
NOMINAL = Theta()
QUIET = Play(auto_reset=False, privileged=False, bank=1)


@dataclass(frozen=True)
class Mppi:
    """How futures are drawn and weighed (Williams et al. 2017; with one sample kept it is predictive sampling)."""

    samples: int = 64  # futures of each world
    horizon_s: float = 0.4
    knots: int = 4
    spread: float = 0.15  # sd of a knot, of half an action's range
    temperature: float = 0.3  # of rewards, over their spread among the samples: less listens to the best alone
    repeats: int = 1  # improvements in a tick

    def __post_init__(self) -> None:
        if self.samples < 2 or self.knots < 1 or self.repeats < 1 or not 0 < self.horizon_s < np.inf:
            raise TaskError(
                f"planning with {self.samples} samples of {self.horizon_s} s by {self.knots} knots, {self.repeats} "
                "times a tick, cannot be. Use 2 samples or more, a knot or more, a horizon above zero."
            )
        if not (0 < self.spread < np.inf and 0 < self.temperature < np.inf):
            raise TaskError(f"a spread of {self.spread} and a temperature of {self.temperature}: both are above zero.")


class Planner:
    """An actor for a task on its nominal scene, or another one, or with parameters such as a posterior's point. It sees
    what a policy sees."""

    def __init__(
        self,
        task: TaskSpec,
        how: Mppi | None = None,
        scene: Scene | None = None,
        device: str = "cpu",
        theta: Theta = NOMINAL,
    ) -> None:
        self.contract, self._task, self._how = task.deployable, task, how or Mppi()
        self._scene, self._device, self._theta = scene or task.machine.scene, device, theta
        self._low = np.array([channel.low for channel in task.contract.actions], dtype=np.float64)
        self._high = np.array([channel.high for channel in task.contract.actions], dtype=np.float64)
        self._ticks = max(1, round(self._how.horizon_s * task.contract.rate_hz))
        self._mix = _mixing(self._ticks, self._how.knots)
        self._restored = Restored(task)
        self._count = 0

    def reset(self, count: int, seed: int, which: np.ndarray | None = None) -> None:
        """Forgets the plans of the worlds of the mask; with another count all. Draws come from a world's seed."""
        if self._count != count:
            futures = count * self._how.samples
            play, device, draws = QUIET, self._device, [self._theta]
            self._arena = Arena(self._scene, self._task, futures, draws=draws, seed=seed, play=play, device=device)
            self._eye = Arena(self._scene, self._task, count, seed=seed, play=QUIET)
            self._best = np.zeros((count, self._how.knots, len(self._low)))
            self._new, self._count = np.ones(count, dtype=bool), count
            self._random = [stream(seed, "mppi", str(world)) for world in range(count)]
        if which is None:
            self._random = [stream(seed, "mppi", str(world)) for world in range(count)]
        for world in () if which is None else np.flatnonzero(which):
            self._random[world] = stream(seed, "mppi")
        self._new |= True if which is None else which

    def act(self, observations: Seen) -> np.ndarray:
        """(N, 1, A)."""
        if len(observations["joint_position"]) != self._count:
            raise PolicyError(
                f"{len(observations['joint_position'])} worlds are to be planned for, and the planner was reset for "
                f"{self._count}. Reset it with that count."
            )
        seen = {name: np.asarray(rows, dtype=np.float64) for name, rows in observations.items()}
        state = self._remembered(self._restored(seen))
        rest = 0 * state.last if self._task.relative or self._task.machine.torque_driven else state.last
        self._best = np.where(self._new[:, None, None], rest[:, None], self._shifted())
        self._new[:] = False
        for _ in range(self._how.repeats):
            self._improve(state)
        first: np.ndarray = np.einsum("k,nka->na", self._mix[0], self._best)
        action: np.ndarray = np.clip(first, self._low, self._high)
        return action[:, None]

    def _remembered(self, state: State) -> State:
        """The state with what the task has noted since its episode began, as far as it is seen from outside."""
        eye, old, fresh = self._eye, self._eye.situation, self._new
        eye.place(state)
        now = eye.situation
        first = {name: np.where(fresh[:, None], pose, old.first[name]) for name, pose in now.objects.items()}
        moved = {name: distance(pose[:, :3], old.objects[name][:, :3]) for name, pose in now.objects.items()}
        speed = {name: np.where(fresh, 0.0, far / self._task.period_s) for name, far in moved.items()}
        seen = replace(now, first=first, speed=speed, notes=old.notes)
        notes = {name: np.where(fresh, 0.0, rows) for name, rows in self._task.notes(seen).items()}
        eye.situation = replace(seen, notes=notes)
        return replace(state, notes=notes, first=first)

    def _shifted(self) -> np.ndarray:
        """The plan a tick later: each knot moves towards the next by a tick's share."""
        share = min(1.0, self._how.knots / self._ticks)
        later = np.concatenate([self._best[:, 1:], self._best[:, -1:]], axis=1)
        found: np.ndarray = (1 - share) * self._best + share * later
        return found

    def _improve(self, state: State) -> None:
        how, arena, (count, knots, width) = self._how, self._arena, self._best.shape
        half = (self._high - self._low) / 2
        drawn = np.stack([random.normal(size=(how.samples, knots, width)) for random in self._random])
        noise = drawn * how.spread * half
        noise[:, 0] = 0.0  # the plan itself is one of the futures
        tried = np.clip(self._best[:, None] + noise, self._low, self._high)
        actions = np.einsum("tk,nska->tnsa", self._mix, tried).reshape(self._ticks, count * how.samples, width)
        arena.place(_repeated(arena, state, how.samples))
        total = _host(arena.rollout([arena.backing.array(row) for row in actions])).reshape(count, how.samples)
        scale = how.temperature * np.maximum(total.std(axis=1, keepdims=True), 1e-9)
        weight = np.exp((total - total.max(axis=1, keepdims=True)) / scale)
        weight /= weight.sum(axis=1, keepdims=True)
        self._best = np.einsum("ns,nska->nka", weight, tried)


class Restored:
    """From what is observed to a state of the scene: joints, and the object or the drawer."""

    def __init__(self, task: TaskSpec) -> None:
        self._task, self._model = task, task.machine.scene.nominal()
        names = {channel.name for channel in task.deployable.observations}
        sees = {"object_position", "object_rotation"} <= names
        self._free = free_place(self._model, task.place) if task.place and sees else -1
        drawer = [name for name in task.draw(np.random.default_rng(0)).joints if name not in task.machine.joints]
        self._drawer = int(self._model.joint(drawer[0]).qposadr[0]) if drawer and "opening" in names else -1
        if task.tracked and self._free < 0 and self._drawer < 0:
            raise TaskError(
                f"planning needs to see where {', '.join(task.tracked)} is, and the task {task.name!r} observes "
                "neither object_position with object_rotation nor opening. Add them."
            )

    def __call__(self, seen: Seen) -> State:
        task, model, count = self._task, self._model, len(seen["joint_position"])
        qpos, qvel = np.repeat(np.array(model.qpos0)[None], count, 0), np.zeros((count, model.nv))
        qpos[:, task.machine.qpos_at], qvel[:, task.machine.qvel_at] = seen["joint_position"], seen["joint_velocity"]
        for row in qpos:
            follow(model, row)
        if self._free >= 0:
            qpos[:, self._free : self._free + 3] = seen["object_position"]
            qpos[:, self._free + 3 : self._free + 7] = quaternions(seen["object_rotation"])
        if self._drawer >= 0:
            qpos[:, self._drawer] = seen["opening"][:, 0]
        goal = seen.get("goal", np.zeros((count, 0)))
        notes = dict.fromkeys(task.remembers, np.zeros(count))
        return State(qpos, qvel, goal, seen["last_command"], notes, {})


def _mixing(ticks: int, knots: int) -> np.ndarray:
    """How much of each knot is in each tick (ticks, knots): straight lines between knots."""
    at = np.linspace(0, knots - 1, ticks)
    return np.maximum(0.0, 1.0 - np.abs(at[:, None] - np.arange(knots)))


def _repeated(arena: Arena, state: State, samples: int) -> State:
    def many(rows: np.ndarray) -> Any:
        return arena.backing.array(np.repeat(rows, samples, axis=0))

    notes, first = ({name: many(rows) for name, rows in each.items()} for each in (state.notes, state.first))
    return State(many(state.qpos), many(state.qvel), many(state.goal), many(state.last), notes, first)


def quaternions(rotation: np.ndarray) -> np.ndarray:
    """wxyz of the six numbers that observations hold: the eigenvector of Bar-Itzhack's matrix."""
    x, y = rotation[:, :3], rotation[:, 3:]
    z = np.cross(x, y)
    k = np.empty((len(x), 4, 4))
    k[:, 0, 0] = x[:, 0] + y[:, 1] + z[:, 2]
    k[:, 1, 1], k[:, 2, 2] = x[:, 0] - y[:, 1] - z[:, 2], y[:, 1] - x[:, 0] - z[:, 2]
    k[:, 3, 3] = z[:, 2] - x[:, 0] - y[:, 1]
    for (i, j), value in {
        (0, 1): y[:, 2] - z[:, 1],
        (0, 2): z[:, 0] - x[:, 2],
        (0, 3): x[:, 1] - y[:, 0],
        (1, 2): x[:, 1] + y[:, 0],
        (1, 3): x[:, 2] + z[:, 0],
        (2, 3): y[:, 2] + z[:, 1],
    }.items():
        k[:, i, j] = k[:, j, i] = value
    found: np.ndarray = np.linalg.eigh(k)[1][:, :, -1]
    return found * np.where(found[:, :1] < 0, -1.0, 1.0)


def _host(values: Any) -> np.ndarray:
    return values if isinstance(values, np.ndarray) else values.cpu().numpy()
