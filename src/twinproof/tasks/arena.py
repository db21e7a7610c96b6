"""N worlds of one scene with one task: what training and evaluation both stand on.

arena = Arena(twin, task, 256, draws=randomization, seed=0)
seen = arena.reset()                       {channel: (N, *shape)}, privileged channels among them
step = arena.step(actions)                 (N, A) in the contract's order and units
step.observations, step.rewards, step.done, step.succeeded, step.failed, step.timed_out, step.diverged

    action ─ task.command ─ noise ─ limits ─ late, slack ─> worlds ─> Situation ─> reward, success, failure
                                                               └─ noise, delay ─> Sensed ─> observations

Episode e of world w is number w + N·e; its start, its Theta and its noise come from a seed of that number. An episode
given by its own seed is the same whatever runs beside it (on a GPU all but the noise).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from twinproof.nouns.errors import PolicyError, TaskError
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.theta import Theta
from twinproof.nouns.twin import Twin
from twinproof.sim.asked import whole, world_rows
from twinproof.sim.parameters.base import index
from twinproof.sim.population import unpokable
from twinproof.sim.scene import Scene
from twinproof.tasks.backing import Backing, DeviceBacking, HostBacking
from twinproof.tasks.columns import Columns
from twinproof.tasks.commands import Commands
from twinproof.tasks.conditions import delays_s, physics, pushed_bodies
from twinproof.tasks.episodes import Draws, Ground, drawn_theta, episode_seed, episodes_of
from twinproof.tasks.eyes import Eyes
from twinproof.tasks.finite import Finite, check_each
from twinproof.tasks.late_view import LateView
from twinproof.tasks.look import Look, kept
from twinproof.tasks.machine import joint_places
from twinproof.tasks.model_error import astray
from twinproof.tasks.play import Play, State, Step
from twinproof.tasks.sensed import Array, Sensed, Situation
from twinproof.tasks.senses import JointSenses, Tracker
from twinproof.tasks.task import Setup, TaskSpec
from twinproof.tasks.viewpoints import Viewpoints

EXTREMES = ((np.min, np.inf), (np.max, -np.inf))
__all__ = ["Arena", "Play", "State", "Step"]


class Arena:
    """See the module. `draws` are a Randomization, or Thetas that worlds take in turn; always on the nominal. Where
    they hold a size, which needs a model compiled for every value, each world keeps its first draw. Worlds of a Twin
    are moved by the drive of its Randomization, where that has one; a Scene says itself what moves it.

    `sensed` is what the robot knows now, `situation` what is the case; both are new objects at every tick.
    """

    sensed: Sensed
    situation: Situation
    first_divergence: str = ""  # which world diverged first, when and why; known on the CPU

    def __init__(
        self,
        scene: Scene | Twin,
        task: TaskSpec,
        count: int,
        *,
        draws: Draws = None,
        seed: int = 0,
        play: Play | None = None,
        device: str = "cpu",
        arrays: Literal["numpy", "torch"] = "numpy",
        eyes: Eyes | None = None,
    ) -> None:
        if isinstance(scene, Twin):
            scene = Scene.of(scene, draws.drive if isinstance(draws, Randomization) else None)
        self.play, self.count = play or Play(), whole(count, "the number of worlds", 1)
        self.seed, self._draws, self.eyes = whole(seed, "the seed", 0), draws, eyes
        seeds = [episode_seed(self.seed, k) for k in range(max(self.play.bank, 1))]
        thetas = [drawn_theta(draws, each, k) for k, each in enumerate(seeds)]
        compiled = bool(unpokable(scene.nominal(), thetas))
        if compiled:  # a model for every value takes too long at a reset: each world keeps its Theta for good
            seeds = [episode_seed(self.seed, k) for k in range(self.count * max(1, self.play.bank // self.count))]
            thetas = [thetas[k % self.count % len(thetas)] for k in range(len(seeds))]
        inside = physics(scene.nominal(), task.machine.joints, thetas, self.play.lean)
        self._inside, self._random, whole_model = inside, any(inside) and not compiled, scene.nominal()
        scene = (scene.leaner() if self.play.lean else scene).reserving(*delays_s(inside))
        self.task, self.scene = replace(task, machine=replace(task.machine, scene=scene)), scene
        self.backing = self._made(device, arrays, inside[: self.count] if compiled else self.count)
        self.xp = self.backing.xp
        varied = tuple(sorted({id for theta in thetas for id in theta}))
        shown = (whole_model, () if eyes is None else eyes.cameras)
        self._ground = Ground(self.task, scene, self.backing.model, pushed_bodies(thetas), varied, *shown)
        self._lay_out()
        self._bank = episodes_of(self._ground, seeds, thetas)
        self._flags = self._bank.flags(task.period_s)
        self._span = self._theta_span()
        given = {name: rows for name, rows in self._bank.rows.items() if name != "key"}
        self._columns = Columns(given)
        self._all_rows = self.backing.array(self._columns.joined(given))
        self._own = self.backing.array(np.zeros((self.count, self._columns.width)))
        if self._random:
            self.backing.fill(inside)
        self.reset()

    def _made(self, device: str, arrays: str, thetas: Sequence[Theta] | int) -> Backing:
        worlds = (self.scene, thetas, self.task.touch, self.task.machine.substeps)
        if device != "cpu":
            return DeviceBacking(*worlds, self.play, device=device, seed=self.seed)
        return HostBacking(*worlds, self.play, tensors=arrays == "torch", seed=self.seed)

    def _lay_out(self) -> None:
        task, model, backing = self.task, self.backing.model, self.backing
        joints = task.machine.joints
        self._at = backing.array(joint_places(model, joints)[0])
        self._astray = astray(self._draws, task.machine, backing) if self.play.model_error else None
        self._senses = JointSenses(backing, model, joints)
        self._tracker = Tracker(backing, {name: index(model, "body", name) for name in task.tracked}, task.period_s)
        self._look = Look(backing, task, self._tracker)
        self._commands = Commands(backing, task, [index(model, "body", name) for name in self._ground.pushed])
        self._finite = Finite(self.xp, backing.patient, task.name)
        self._tick = backing.array(np.zeros(self.count, dtype=np.int64))
        self._episode = backing.array(np.zeros(self.count, dtype=np.int64))
        self._world = backing.array(np.arange(self.count))
        self._over: dict[str, Array] = {}
        self._now: Situation | None = None
        self._images: dict[str, Array] = {}
        self._late = LateView(backing, task.period_s)

    def reset(
        self,
        which: Any = None,
        *,
        seeds: Sequence[int] | None = None,
        setups: Sequence[Setup] | None = None,
        thetas: Sequence[Theta] | None = None,
    ) -> dict[str, Array]:
        """Begins an episode in some worlds (a mask or indices; all where None); gives the observations of all worlds.

        Each begins its next one of the bank, or the one of its seed where `seeds` are given. `setups` and `thetas`, one
        for each of those worlds in the order given, take the place of what would be drawn. Delays longer than those of
        the arena's own draws need a scene that reserves them.
        """
        rows = np.arange(self.count) if which is None else world_rows(_host(which), self.count)
        mask = np.zeros(self.count, dtype=bool)
        mask[rows] = True
        for name, given in (("seeds", seeds), ("setups", setups), ("thetas", thetas)):
            if given is not None and len(given) != len(rows):
                raise TaskError(f"{len(rows)} worlds begin an episode with {len(given)} {name}. Give one each.")
        if seeds is None and setups is None and thetas is None:
            self._begin(self.backing.array(mask))
        else:
            self._begin_given(rows, mask, seeds, setups, thetas)
        return self._observations()

    def restart(self, episode: int = 0, spread: bool = False) -> dict[str, Array]:
        """Begins, in every world, its episode of this number, as an arena of the same seed would after that many.
        `spread` puts the worlds at different ticks of it, so that they do not all end at once."""
        self._episode = self._episode * 0 + whole(episode, "the number of the episode", 0)
        seen = self.reset()
        if spread:
            self._tick = (self._world * 7919) % self.task.ticks
        return seen

    def rest(self, which: Any) -> None:
        """Some worlds (a mask or indices) stand still until their next reset: nobody looks at them any more."""
        self.backing.rest(world_rows(_host(which), self.count))

    @property
    def age(self) -> Array:
        """Ticks of each world since its episode began (N,)."""
        return self._tick

    @property
    def theta_ids(self) -> tuple[str, ...]:
        """What the draws vary, in the order of `theta`."""
        return self._ground.varied

    @property
    def theta(self) -> Array:
        """Each world's parameters (N, P), -1 to 1 over the draws, 0 where they do not differ or a Theta has none: for
        teachers and critics alone."""
        middle, half = self._span
        found = (self._mine["theta"] - middle) / half
        return self.xp.where(self.xp.isfinite(found), found, 0.0)

    @property
    def _mine(self) -> dict[str, Array]:
        """What each world was given for its episode, by name."""
        return self._columns.views(self._own)

    def _theta_span(self) -> tuple[Array, Array]:
        values = self._bank.rows["theta"]
        known = np.isfinite(values).any(axis=0)
        low, high = (np.where(known, f(values, axis=0, where=np.isfinite(values), initial=i), 0.0) for f, i in EXTREMES)
        half = np.where(high > low, (high - low) / 2, 1.0)
        return self.backing.array((low + high) / 2), self.backing.array(half)

    def step(self, actions: Array) -> Step:
        """One tick in every world."""
        told = self.tick(actions)
        self.passed()
        return told

    def passed(self) -> None:
        """A tick has passed: now and then it is looked at what would have to be waited for."""
        self._finite.passed()
        self.backing.passed()

    def tick(self, actions: Array) -> Step:
        """What `step` computes, without a look at what would have to be waited for: who repeats it calls `passed`."""
        self._check_actions(actions)
        clipped = self._tried(actions)
        self._sense(self.sensed.last, None)
        self._keep(None)
        rewards, verdict = self._judged()
        anew = self.play.auto_reset and not (self.backing.patient and not bool(verdict["done"].any()))
        if not anew:
            self._see()
        final = self._observations()
        step = Step(final, final, rewards, clipped=clipped, situation=self.situation, **verdict)
        if not anew:
            return step
        self._begin(step.done)
        return replace(step, observations=self._observations())

    def _judged(self) -> tuple[dict[str, Array], dict[str, Array]]:
        task, situation, xp = self.task, self.situation, self.xp
        diverged = self.backing.diverged()
        if self.backing.patient and not self.first_divergence and bool(diverged.any()):
            world = int(np.argmax(_host(diverged)))
            self.first_divergence = f"world {world} {self.backing.why(world)}"
        terms = task.reward(situation)
        check_each("reward term", terms, task.name, self.count)
        rewards = {name: xp.where(diverged, 0.0, value) for name, value in terms.items()}
        self._finite.check("reward term", rewards, self._tick)
        judged = {"succeeded": task.succeeded(situation), "failed": task.failed(situation)}
        check_each("verdict", judged, task.name, self.count, yes_or_no=True)
        succeeded, failed = (value & ~diverged for value in judged.values())
        ended = failed | diverged | (succeeded if self.play.stop_at_success else failed)
        late = self._tick >= task.ticks
        verdict = {
            "done": ended | late,
            "succeeded": succeeded,
            "failed": failed,
            "timed_out": late & ~ended,
            "diverged": diverged,
        }
        if not self.play.auto_reset:
            over = self._over.get("done")
            if over is not None:
                verdict = {name: xp.where(over, self._over[name], value) for name, value in verdict.items()}
            self._over = verdict
        return rewards, verdict

    def _begin(self, mask: Array) -> None:
        """The bank's next episode in the worlds of a mask."""
        episode = self._world + self.count * self._episode
        number = episode % len(self._bank)
        self._own = self.xp.where(mask[:, None], self._all_rows[number], self._own)
        if self.backing.patient:
            round_trips = (_host(episode) // len(self._bank)).astype(np.uint64)  # the same start, other noise
            self.backing.noise.restart(_host(mask), self._bank.rows["key"][_host(number)] + round_trips)
        self._start(mask, number if self._random else None)

    def _begin_given(self, rows: np.ndarray, mask: np.ndarray, seeds: Any, setups: Any, thetas: Any) -> None:
        """Episodes that the caller names, in the order of `rows`."""
        number = (_host(self._world) + self.count * _host(self._episode))[rows]
        seeds = [episode_seed(self.seed, int(k)) for k in number] if seeds is None else list(seeds)
        if thetas is None:
            thetas = [drawn_theta(self._draws, seed, int(k)) for seed, k in zip(seeds, number, strict=True)]
        given = episodes_of(self._ground, seeds, thetas, setups)
        self._flags = {name: max(self._flags[name], flag) for name, flag in given.flags(self.task.period_s).items()}
        new = {name: np.array(_host(rows)) for name, rows in self._mine.items()}
        for name, value in new.items():
            if value.shape[1:] != given.rows[name].shape[1:]:
                raise TaskError(
                    f"a setup has {given.rows[name].shape[1]} numbers as its goal, the task's own have "
                    f"{value.shape[1]}. Give as many."
                )
            value[rows] = given.rows[name]
        key = np.zeros(self.count, dtype=np.uint64)
        key[rows] = given.rows["key"]
        self.backing.noise.restart(mask, key)
        self._own = self.backing.array(self._columns.joined(new))
        inside = physics(self.backing.model, self.task.machine.joints, thetas, self.play.lean)
        self.backing.set_thetas(rows, inside)
        if any(inside) and not self._random:  # from now on a world's next episode must bring its own Theta back
            self._random = True
            self.backing.fill(self._inside)
        self._start(self.backing.array(mask), None)

    def _start(self, mask: Array, number: Array | None, qvel: Array | None = None) -> None:
        xp, mine = self.xp, self._mine
        self.backing.restart(mask, mine["qpos"], mine["ctrl"], number, qvel)
        if self._astray is not None:
            self._astray.begin(mask)
        self._tick = xp.where(mask, 0, self._tick)
        self._episode = xp.where(mask, self._episode + 1, self._episode)
        self._over = {name: value & ~mask for name, value in self._over.items()}
        at_rest = self.backing.view("qpos")[:, self._at]
        width = len(self.task.machine.joints)
        rest = at_rest * 0 if self.task.machine.torque_driven else at_rest + mine["bias"][:, :width]
        self._commands.restart(mask, rest, mine["ctrl"])
        fresh = self._look(self._tick, mine["goal"], rest, None)
        self.situation = fresh if self._now is None else kept(mask, fresh, self._now)
        last = rest if self._now is None else xp.where(mask[:, None], rest, self.sensed.last)
        self._now = self.situation
        self._sense(last, mask)
        self._keep(mask)
        self._see()

    def place(self, state: State) -> None:
        """Puts every world into a state, for those who plan: what was told last and what the task remembers along."""
        every = self._world >= 0
        self._own = self._own + 0  # a situation may still show what stood there
        for name, rows in {"qpos": state.qpos, "goal": state.goal, "ctrl": state.last}.items():
            self._mine[name][...] = rows
        self._start(every, None, state.qvel)
        self._commands.restart(every, state.last, state.last - self._mine["shift"])
        now = self.situation
        told = replace(now, command=state.last, before=state.last, notes=dict(state.notes))
        self.situation = self._now = replace(told, first={**now.first, **state.first})
        self.sensed = replace(self.sensed, last=state.last)

    def rollout(self, actions: Sequence[Array]) -> Array:
        """All rewards (N,) of some ticks' actions, each (N, A). Nothing is observed and nothing begins anew: a world
        that fails or diverges gets no more."""
        total, alive = self.situation.position[:, 0] * 0, self._world >= 0
        for action in actions:
            self._tried(action)
            diverged = self.backing.diverged()
            rewards = self.task.reward(self.situation)
            total = total + self.xp.where(alive & ~diverged, sum(rewards.values()), 0.0)
            alive = alive & ~diverged & ~self.task.failed(self.situation)
        return total

    def _tried(self, actions: Array) -> dict[str, Array]:
        """A tick of the worlds; gives how often limits were met."""
        told, clipped = self._commands.told(self.task.command(self.sensed, actions), self._mine, self._flags)
        self._commands.push(self._mine, self._flags, self._tick)
        if self._astray is not None:
            self._astray.push()
        self.backing.step(self._commands.arrived(told, self._mine, self._flags))
        self.backing.noise.next()
        self._tick = self._tick + 1
        self.situation = self._now = self._look(self._tick, self._mine["goal"], told, self.situation)
        self.sensed = replace(self.sensed, last=told)
        return clipped

    def _sense(self, last: Array, fresh: Array | None) -> None:
        """What the robot knows now; where `fresh` is given, only of the worlds that begin."""
        width = len(self.task.machine.joints)
        read = self._senses.read(self._mine, self._flags, fresh)
        self.sensed = Sensed(
            self.xp,
            self._tick * self.task.period_s,
            read[:, :width],
            read[:, width : 2 * width],
            self._mine["goal"],
            last,
            read[:, 2 * width :],
            self._tracker.read(self._mine, self._flags, self.situation.objects, fresh),
            self._images,
        )

    def _keep(self, fresh: Array | None) -> None:
        """What pictures that come late will show; where `fresh` is given, of the worlds that begin."""
        if self.eyes is not None and self._flags["picture_lag"]:
            self._late.keep(self._mine["picture_late"], self._flags["picture_lag"], fresh)

    def _see(self) -> None:
        """New pictures: once a tick, after worlds began anew."""
        if self.eyes is not None:
            drawn = Viewpoints(self._mine["camera"], self._mine["lens"]) if self._flags["off"] else None
            self._images = self.eyes.see(self._late if self._flags["picture_lag"] else self.backing, drawn)
            self.sensed = replace(self.sensed, images=self._images)

    def _observations(self) -> dict[str, Array]:
        seen = dict(self.task.observe(self.sensed))
        if self.play.privileged:
            seen |= self.task.privileged(self.situation)
        self._finite.check("observation", {name: value for name, value in seen.items() if value.ndim < 4}, self._tick)
        return seen

    def _check_actions(self, actions: Array) -> None:
        wanted = (self.count, len(self.task.contract.actions))
        if tuple(actions.shape) != wanted:
            names = ", ".join(channel.name for channel in self.task.contract.actions)
            raise PolicyError(
                f"actions of shape {tuple(actions.shape)} came; {wanted} is needed, a column for {names}."
            )
        self._finite.check("action", {"of the policy": actions}, self._tick)


def _host(values: Any) -> Any:
    """Numbers of any kind as the host has them; reading a device waits for it."""
    return values if isinstance(values, (np.ndarray, list, tuple)) else values.cpu().numpy()
