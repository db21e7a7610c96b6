"""FastTD3 and FastSAC (Seo et al. 2025): off-policy learning from many worlds, large batches, a critic of returns'
spread that sees privileged state.

    worlds ── explore ──> Replay ── batches ──> Critic (policy, privileged, action) <── value ── actor (policy)

The replay is part of every checkpoint: a run that was killed goes on to the same curve.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinproof.nouns.errors import PolicyError
from twinproof.nouns.hashing import Json
from twinproof.train.actors import FastSac, FastTd3
from twinproof.train.critic import Critic
from twinproof.train.networks import Scale
from twinproof.train.replay import Batch, Replay
from twinproof.train.torch_extra import adam_arrays, adam_restored, seed_torch, torch_module
from twinproof.train.vec_env import VecEnv
from twinproof.train.written import Trained


@dataclass(frozen=True)
class OffPolicy:
    """What the two have in common. Batches grow with the worlds, so that each step is replayed equally often."""

    rollout: int = 32  # control steps of each world in an iteration
    updates: int = (
        8  # batches after every control step: many small ones bring more than few large ones of the same rows
    )
    share: int = 1  # rows of a batch for each world
    kept: int = 2**17  # rows of the replay: what the first, wild policies did is forgotten
    ahead: int = 3  # rewards that are summed up before the critic is asked
    first: int = 8  # control steps before the first batch
    learning_rate: float = 1e-3
    discount: float = 0.98
    follow: float = 0.05  # how far the critic's slow copies move at each batch
    hidden: tuple[int, ...] = (128, 128)
    atoms: int = 101  # of returns from -40 to 40, in units of a third of a mean reward a step
    asymmetric: bool = True  # the critic sees privileged channels


REACH = 40.0  # the largest return: thirteen rewards of one a step, for ever
RETURN = 3.0  # of a reward of one a step, for ever: with ten, as PPO has it, bad returns lay beyond the atoms
ACTOR_EVERY = 2  # batches of the critic for one of the actor


class OffPolicyLearner:
    """Networks, optimisers and replay for one environment; `iterate` is a rollout with batches after each step."""

    def __init__(self, env: VecEnv, way: FastTd3 | FastSac, how: OffPolicy, seed: int) -> None:
        torch = torch_module()
        seed_torch(seed, "train", "networks")
        self.env, self.how = env, how
        row = self._row(env.get_observations()["policy"], env.get_observations().get("privileged", None))
        self._narrow, width = int(env.get_observations()["policy"].shape[1]), int(row.shape[1])
        count, actions, device = env.num_envs, env.num_actions, env.device
        self.actor = way.actor([self._narrow, *how.hidden, actions], count, device)
        self.critic = Critic(width + actions, how.hidden, how.atoms, REACH, device)
        self.scale = Scale(width, device)
        self.replay = Replay(max(how.first, how.kept // count), count, width, actions, device)
        settings = {"lr": how.learning_rate, "betas": (0.9, 0.95), "weight_decay": 1e-3, "foreach": True}
        self.optimizers = {
            "actor_adam": torch.optim.AdamW(self.actor.parameters(), **settings),
            "critic_adam": torch.optim.AdamW(self.critic.nets.parameters(), **settings),
        }
        self._batches = 0

    @property
    def steps(self) -> int:
        """Environment steps of one iteration."""
        return self.env.num_envs * self.how.rollout

    def restart(self, episode: int) -> None:
        """Begins all worlds anew, at ages all over the horizon."""
        self.replay.cut()
        self.env.restart(episode, spread=True)

    def iterate(self) -> dict[str, float]:
        """A rollout of every world, with batches after each of its steps: losses, values, seconds of both parts."""
        sums: dict[str, Any] = {}
        collect_s, learn_s, drawn = 0.0, 0.0, 0
        for tick in range(self.how.rollout):
            begun = time.perf_counter()
            self._collect()
            collected = time.perf_counter()
            if self.replay.filled >= self.how.first:
                for _ in range(self.how.updates):
                    drawn += 1
                    _add(sums, self._learn())
            if tick == self.how.rollout - 1 or self.env.device == "cpu":  # else it would wait for the device
                _require_finite(sums)
            collect_s, learn_s = collect_s + collected - begun, learn_s + time.perf_counter() - collected
        times = {"loss/actor": -(-drawn // ACTOR_EVERY)}
        told = {name: float(value) / max(1, times.get(name, drawn)) for name, value in sums.items()}
        told |= {name: float(value) for name, value in self.actor.told().items()}
        return {**told, "collect_s": collect_s, "learn_s": learn_s}

    def _collect(self) -> None:
        torch, env = torch_module(), self.env
        with torch.no_grad():
            observed = env.get_observations()
            row = self._row(observed["policy"], observed.get("privileged", None))
            self.scale.take_in(row)
            action = self.actor.explore(self.scale(row)[:, : self._narrow])
            _, reward, done, extras = env.step(action)
            cut = done > 0
            self.replay.add(
                seen=row,
                action=action,
                reward=RETURN * (1 - self.how.discount) * reward,
                next=self._row(*env.after()),
                ended=cut & ~(extras["time_outs"] > 0),
                cut=cut,
            )

    def _row(self, policy: Any, privileged: Any) -> Any:
        """What the critic sees; the actor sees its first columns."""
        seen = privileged is not None and self.how.asymmetric
        return torch_module().cat([policy, privileged], dim=1) if seen else policy

    def _learn(self) -> dict[str, Any]:
        """One batch: the critic, now and then the actor, and the slow copies."""
        how, critic = self.how, self.critic
        batch = self.replay.draw(how.share * self.env.num_envs, how.ahead, how.discount)
        seen = self.scale(batch.seen)
        told = self._criticise(batch, seen)
        if self._batches % ACTOR_EVERY == 0:
            critic.nets.requires_grad_(False)
            loss = self.actor.loss(seen[:, : self._narrow], lambda action: critic.value(seen, action))
            _descend(self.optimizers["actor_adam"], loss)
            critic.nets.requires_grad_(True)
            told["loss/actor"] = loss.detach()
        critic.follow(how.follow)
        self._batches += 1
        return told

    def _criticise(self, batch: Batch, seen: Any) -> dict[str, Any]:
        with torch_module().no_grad():
            after = self.scale(batch.next)
            action, bonus = self.actor.aim(after[:, : self._narrow])
            reward = batch.reward + batch.discount * bonus
            targets, outside = self.critic.target(after, action, reward, batch.discount, self.actor.cautious)
            value = (targets[0] * self.critic.atoms).sum(dim=1).mean()
        loss = self.critic.loss(seen, batch.action, targets)
        _descend(self.optimizers["critic_adam"], loss)
        return {"loss/critic": loss.detach(), "value": value, "outside": outside}

    def trained(self) -> Trained:
        """The actor as it stands, without exploration."""
        narrow = self._narrow
        return self.actor.trained(self.scale.mean[:narrow], self.scale.sd[:narrow])

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything that decides the next iteration, but the worlds and the random streams."""
        found = {f"{kind}.{n}": v for kind, module in self._modules().items() for n, v in module.state_dict().items()}
        for kind, optimizer in self.optimizers.items():
            found |= {f"{kind}.{name}": value for name, value in adam_arrays(optimizer).items()}
        found |= {f"scale.{name}": value for name, value in self.scale.arrays().items()}
        found |= {f"replay.{name}": value for name, value in self.replay.arrays().items()}
        return {name: value.detach().cpu().numpy() for name, value in found.items()}

    def told(self) -> dict[str, Json]:
        """The counters beside the arrays."""
        return {"batches": self._batches, **self.replay.told()}

    def restore(self, arrays: Mapping[str, np.ndarray], told: Mapping[str, Json]) -> None:
        """The inverse of `arrays` and `told`."""
        torch = torch_module()
        part: dict[str, dict[str, np.ndarray]] = {}
        for name, array in arrays.items():
            kind, rest = name.split(".", 1)
            part.setdefault(kind, {})[rest] = array
        for kind, module in self._modules().items():
            module.load_state_dict({name: torch.tensor(array) for name, array in part[kind].items()})
        for kind, optimizer in self.optimizers.items():
            adam_restored(optimizer, part.get(kind, {}))
        self.scale.restore({name: torch.tensor(array) for name, array in part["scale"].items()})
        self.replay.restore(part["replay"], told)
        self._batches = int(told["batches"])

    def _modules(self) -> dict[str, Any]:
        return {"actor": self.actor.net, "critic": self.critic.nets, "slow": self.critic.slow}


def _descend(optimizer: Any, loss: Any) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def _require_finite(sums: Mapping[str, Any]) -> None:
    lost = [name for name, value in sums.items() if not np.isfinite(float(value))]
    if lost:
        raise PolicyError(
            f"off-policy learning diverged: {', '.join(lost)} is not finite. Lower the learning rate, or the reward's "
            "weights."
        )


def _add(sums: dict[str, Any], values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        sums[name] = sums.get(name, 0.0) + value
