"""An arena as rsl_rl's vector environment: flat observation groups as tensors, one reward, ends and time-outs.

      y (N, A), a network's own numbers                     groups {policy (N, D), privileged (N, P), images/NAME}
ppo ─────────────────────────────────> VecEnv ─────────────────────────────────> ppo
                      centre + half · y, cut at the limits │ sum of the reward terms, done, time_outs
                                                         Arena
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.actor import Actor
from twinproof.nouns.errors import PolicyError
from twinproof.nouns.policy import Channel
from twinproof.tasks.backing import DeviceBacking
from twinproof.train.costs import NO_COSTS, Costs
from twinproof.train.groups import Groups, action_scale, checked_actions
from twinproof.train.torch_extra import torch_module

if TYPE_CHECKING:
    import torch
    from tensordict import TensorDict

    from twinproof.sim.replayed import Replayed
    from twinproof.tasks.arena import Arena, Step


@dataclass(frozen=True)
class Base:
    """A policy that is corrected: y = 1 moves its action by `share` of half the action's range."""

    actor: Actor
    share: float


Dress = Callable[[Any, int], Any]  # pictures (N, H, W, 3) of the numbers n and on, as they are changed for training
PICTURES = 30  # bits of numbers that pictures after one restart may take
ENDS = ("succeeded", "failed", "timed_out", "diverged")


class VecEnv:
    """What rsl_rl's runners and algorithms ask of an environment, on an arena that resets ended worlds by itself.

    The group privileged holds privileged channels and the drawn parameters of each world. With `teacher` the policy
    sees privileged channels too. With `on` the network's output is a correction of a base
    policy's action. `costs` are added to the task's reward. The arena stops at numbers that are not finite. Pictures
    are changed by `dress` (randomize.augment), each in its own way; `seen` has them as they are. On a GPU a tick
    without pictures is recorded once and replayed (sim/replayed.py); `graphs=False` runs it kernel by kernel.
    """

    def __init__(
        self,
        arena: Arena,
        device: str = "cpu",
        *,
        teacher: bool = False,
        on: Base | None = None,
        costs: Costs = NO_COSTS,
        dress: Dress | None = None,
        graphs: bool = True,
    ) -> None:
        torch = torch_module()
        self.arena, self.device, self._on, self._costs = arena, device, on, costs
        self._dress, self._shown = dress, 0  # how many pictures were shown
        contract = arena.task.contract
        self.groups = Groups.of(contract)
        if teacher:
            seen = tuple(channel for channel in contract.observations if len(channel.shape) < 3)
            self.groups = Groups(seen, (), self.groups.images)
        self.num_envs, self.num_actions = arena.count, len(contract.actions)
        self.max_episode_length = arena.task.ticks
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long, device=device)
        self.cfg: dict[str, Any] = {}
        centre, half = action_scale(contract)
        self._centre = torch.as_tensor(centre, dtype=torch.float32, device=device)
        self._half = torch.as_tensor(half, dtype=torch.float32, device=device)
        self._since = 0  # ticks that were counted
        self._cut: Any = torch.zeros((), device=device)
        self._ticks: Replayed | None = None
        if graphs and on is None and arena.eyes is None and isinstance(arena.backing, DeviceBacking):
            self._ticks = arena.backing.replayed(self, self._advance)
        self._clear()
        self._told: Step | None = None
        self._theta: Any = None
        self._theta_before: Any = None  # of the episodes that the last step was in
        self.seen: Mapping[str, Any] = {}  # the newest observations as the arena gives them
        self._begin(arena.reset(), 0)

    def restart(self, episode: int, spread: bool = False) -> TensorDict:
        """Begins everything anew at an episode's number; with `spread` at ages all over the horizon, so that episodes
        do not all end at once."""
        self._begin(self.arena.restart(episode, spread), episode)
        if self._ticks is not None:
            self._ticks.forget()
        self._clear()
        return self._observed()

    @property
    def replays(self) -> bool:
        """Whether ticks are recorded and replayed."""
        return self._ticks is not None

    def get_observations(self) -> TensorDict:
        """The newest observations."""
        return self._observed()

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """One control step of every world: observations, rewards (N,), dones (N,), extras with time_outs."""
        if tuple(actions.shape) != (self.num_envs, self.num_actions):
            raise PolicyError(
                f"the policy gave actions of the shape {tuple(actions.shape)}; {(self.num_envs, self.num_actions)} "
                "is needed: worlds, actions."
            )
        if self._ticks is None:
            self._advance(actions)
        else:
            self._ticks(actions)
        self._since += 1
        self.arena.passed()
        reward, done, cut_short = self._ended_now
        if self._ticks is not None:  # the next tick writes over what this one found
            reward, done, cut_short = reward.clone(), done.clone(), cut_short.clone()
        return self._observed(), reward, done, {"time_outs": cut_short}

    def _advance(self, actions: torch.Tensor) -> None:
        """A tick, of which everything stays in attributes."""
        asked = actions if self._on is None else self._base_y(self._on) + self._on.share * actions
        cut = asked.clamp(-1.0, 1.0)
        commands = self._centre + self._half * cut
        told = self.arena.tick(commands.numpy() if self.arena.xp is np else commands)
        done = self._tensor(told.done)
        terms = {**told.rewards, **self._costs.terms(told, self.arena.sensed.torque)}
        reward = self._tensor(sum(terms.values()))
        self._told, self._theta_before = told, self._theta
        self._look(told.observations)
        if self._on is not None:
            self._on.actor.reset(self.num_envs, 0, np.asarray(told.done))
        self._count(told, terms)
        self._cut += (cut != asked).float().mean()
        self.episode_length_buf = torch_module().where(done > 0, 0, self.episode_length_buf + 1)
        # an end by success is no loss of what would have come: it is valued like an end by time, or hovering would pay
        self._ended_now = (reward, done, self._tensor(told.timed_out | told.succeeded))

    def after(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The groups policy and privileged that the last step led to, before any world began anew."""
        told = self._told
        if told is None or told.final is told.observations:
            return self._groups_now["policy"], self._groups_now.get("privileged", None)
        return self._flat(told.final, self.groups.policy), self._hidden(told.final, self._theta_before)

    def counted(self) -> dict[str, float]:
        """Counts since the last call: ended episodes by kind, mean reward a step by term, the share of cut actions."""
        steps = max(1, self._since * self.num_envs)
        ended = self._ended.now()
        found = {name: ended.get(name, 0.0) for name in (*ENDS, "ended")}
        found |= {f"reward/{name}": value / steps for name, value in self._rewards.now().items()}
        found |= {f"clipped/{name}": value / steps for name, value in self._clipped.now().items()}
        found["cut_actions"] = float(self._cut) / max(1, self._since)
        self._since = 0
        for sums in (self._ended, self._rewards, self._clipped):
            sums.clear()
        self._cut.zero_()
        return found

    def _begin(self, observations: Mapping[str, Any], seed: int) -> None:
        if self._on is not None:
            self._on.actor.reset(self.num_envs, seed)
        self._shown = seed << PICTURES
        self.episode_length_buf = torch_module().zeros_like(self.episode_length_buf)
        self._whole: Any = self.arena.age == 0
        self._told = None
        self._look(observations)

    def _base_y(self, on: Base) -> torch.Tensor:
        """What the base would do, in the network's own numbers."""
        told = checked_actions(on.actor.act(self.seen), self.num_envs, on.actor.contract, "the base policy")
        return (self._tensor(told) - self._centre) / self._half

    def _count(self, told: Step, terms: Mapping[str, Any]) -> None:
        whole = self._whole  # an episode that began in its middle, at a restart, says nothing about success
        ends = {name: getattr(told, name) & whole for name in ENDS} | {"ended": told.done & whole}
        self._whole = whole | told.done
        for sums, rows in ((self._ended, ends), (self._rewards, terms), (self._clipped, told.clipped)):
            sums.add(rows, self.arena.xp)

    def _clear(self) -> None:
        self._since = 0
        self._cut.zero_()
        self._ended, self._rewards, self._clipped = Sums(), Sums(), Sums()

    def _look(self, observations: Mapping[str, Any]) -> None:
        self.seen = observations
        groups = {"policy": self._flat(observations, self.groups.policy)}
        self._theta = self._tensor(self.arena.theta) if self.arena.theta_ids else None
        hidden = self._hidden(observations, self._theta)
        if hidden is not None:
            groups["privileged"] = hidden
        for channel in self.groups.images:
            groups[f"images/{channel.name}"] = self._picture(observations[channel.name])
        self._groups_now = groups

    def _observed(self) -> TensorDict:
        from tensordict import TensorDict

        groups = self._groups_now
        if self._ticks is not None:
            groups = {name: value.clone() for name, value in groups.items()}
        return TensorDict(groups, batch_size=[self.num_envs], device=self.device)

    def _hidden(self, observations: Mapping[str, Any], theta: Any) -> torch.Tensor | None:
        """Privileged channels and the drawn parameters, side by side; None where there are neither."""
        parts = [self._flat(observations, self.groups.privileged)] if self.groups.privileged else []
        parts += [] if theta is None else [theta]
        return torch_module().cat(parts, dim=1) if parts else None

    def _picture(self, value: Any) -> torch.Tensor:
        torch = torch_module()
        picture = torch.as_tensor(value, device=self.device)
        if self._dress is None:
            return picture
        self._shown += self.num_envs
        return self._dress(picture, self._shown - self.num_envs)

    def _flat(self, observations: Mapping[str, Any], channels: tuple[Channel, ...]) -> torch.Tensor:
        torch = torch_module()
        columns = [torch.as_tensor(observations[c.name], device=self.device) for c in channels]
        return torch.cat([column.reshape(self.num_envs, -1) for column in columns], dim=1).float()

    def _tensor(self, value: Any) -> torch.Tensor:
        torch = torch_module()
        return torch.as_tensor(value, dtype=torch.float32, device=self.device)


class Sums:
    """Sums over all worlds and ticks of rows by name, kept side by side: one sum for all of them."""

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._value: Any = None

    def add(self, rows: Mapping[str, Any], xp: Any) -> None:
        """The rows (N,) of a tick. Ticks may name others than those before: a task's own terms come and go."""
        if rows and (self._value is None or tuple(rows) == self._names):
            total = xp.concatenate([row[None] for row in rows.values()]).sum(-1)
            self._names, self._value = tuple(rows), total if self._value is None else self._value + total
        elif rows:
            sums = dict(zip(self._names, self._value, strict=True))
            sums |= {name: row.sum() + sums.get(name, 0) for name, row in rows.items()}
            self._names, self._value = tuple(sums), xp.concatenate([each.reshape(1) for each in sums.values()])

    def now(self) -> dict[str, float]:
        """The sums since the last `clear`."""
        values = () if self._value is None else self._value.tolist()
        return dict(zip(self._names, map(float, values), strict=True))

    def clear(self) -> None:
        """From zero again; in place, where a tick that is replayed writes."""
        if self._value is not None:
            self._value[...] = 0
