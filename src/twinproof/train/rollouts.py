"""A rollout of PPO in few operations a tick, in the place of rsl_rl's: the same numbers in its storage.

observations ─ actor ─ + sd · noise ─> actions               a tick
all ticks' observations ─> values, log probabilities         once a rollout

rsl_rl asks the critic, and what was likely, at every tick: on a GPU dozens of kernels more, on a CPU a third of all
products in small pieces. Advantages are left as they are: minibatches bring them to one scale.
"""

from __future__ import annotations

import math
from typing import Any

from twinproof.train.torch_extra import torch_module


class Rollouts:
    """Acts and remembers in the place of rsl_rl's PPO with plain layers; `actor` and `critic` say what those say."""

    def __init__(self, algorithm: Any, actor: Any, critic: Any) -> None:
        torch = torch_module()
        self._ppo, self._noise = algorithm, torch.zeros(0)
        self._actor, self._critic = actor, critic
        self._groups = dict(algorithm.storage.observations.items())
        self._cut_short = torch.zeros_like(algorithm.storage.values)
        self._log_sd = algorithm.actor.distribution.log_std_param
        # always the same memory: an update that was recorded reads it
        algorithm.storage.distribution_params = tuple(torch.zeros_like(algorithm.storage.actions) for _ in range(2))

    def act(self, observed: Any) -> Any:
        """Actions (N, A) for the groups of a tick; both are kept."""
        torch, ppo, storage, tick = torch_module(), self._ppo, self._ppo.storage, self._ppo.storage.step
        if tick == 0:
            self._noise = self._log_sd.exp() * torch.randn_like(storage.actions)
        for name, group in self._groups.items():
            group[tick] = observed[name]
        return torch.add(self._actor(ppo.actor.get_latent(observed)), self._noise[tick], out=storage.actions[tick])

    def process_env_step(self, observed: Any, reward: Any, done: Any, extras: Any) -> None:
        """What the actions brought (N,); what they led to is asked for at the next tick."""
        storage, tick = self._ppo.storage, self._ppo.storage.step
        storage.rewards[tick, :, 0] = reward
        storage.dones[tick, :, 0] = done
        self._cut_short[tick, :, 0] = extras["time_outs"]
        storage.step += 1

    def compute_returns(self, observed: Any) -> None:
        """Returns and advantages of the rollout; `observed` are the groups it led to."""
        ppo, storage = self._ppo, self._ppo.storage
        seen = storage.observations.flatten(0, 1)
        mean, log_sd = self._actor(ppo.actor.get_latent(seen)), self._log_sd
        storage.values.copy_(self._critic(ppo.critic.get_latent(seen)).view_as(storage.values))
        storage.rewards.add_(ppo.gamma * self._cut_short * storage.values)
        off = (storage.actions.flatten(0, 1) - mean) / log_sd.exp()
        storage.actions_log_prob.copy_(log_probability(off, log_sd).view_as(storage.actions_log_prob))
        means, sds = storage.distribution_params
        means.copy_(mean.view_as(means))
        sds.copy_(log_sd.exp().expand_as(sds))
        self._weigh(self._critic(ppo.critic.get_latent(observed)))

    def _weigh(self, last_values: Any) -> None:
        """Advantages by generalised estimation (Schulman et al. 2016), and what returns they make."""
        torch, ppo, storage = torch_module(), self._ppo, self._ppo.storage
        goes_on = (1.0 - storage.dones.float()) * ppo.gamma
        ahead = torch.cat([storage.values[1:], last_values[None]])
        storage.advantages = storage.rewards + goes_on * ahead - storage.values  # of one tick alone
        fades, later = (goes_on * ppo.lam).to(ahead.dtype), torch.zeros_like(last_values)
        for tick in reversed(range(len(fades))):
            later = storage.advantages[tick].addcmul_(fades[tick], later)
        torch.add(storage.advantages, storage.values, out=storage.returns)


def log_probability(off: Any, log_sd: Any) -> Any:
    """Of normal numbers (N, 1), `off` their distances from the mean in sds (N, A)."""
    return (-0.5 * off * off - log_sd - 0.5 * math.log(2 * math.pi)).sum(dim=-1, keepdim=True)
