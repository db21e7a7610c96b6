"""PPO's update on a CPU, with little between the products: the same steps as rsl_rl's, and its storage.

observations ─> actions, values, log probabilities           rollouts.py
minibatches ─ layers ─ loss's slope ─ backward ─ Adam        every epoch shuffled anew, where rsl_rl shuffles once

tests/train/test_ppo_by_hand.py holds an update equal to rsl_rl's own. Actors with more than layers over numbers, and
other devices, are left to rsl_rl.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

from twinproof.train.gradients import Layers, is_plain
from twinproof.train.minibatches import FACTOR, FASTEST, SLOWEST
from twinproof.train.rollouts import Rollouts, log_probability
from twinproof.train.torch_extra import torch_module


def can_be_by_hand(algorithm: Any) -> bool:
    """Whether the networks of rsl_rl's PPO are what `ByHand` knows, and on the CPU."""
    from rsl_rl.models import MLPModel

    plain = all(type(model) is MLPModel and is_plain(model.mlp) for model in (algorithm.actor, algorithm.critic))
    return plain and str(algorithm.device) == "cpu"


class ByHand(Rollouts):
    """Acts and learns in the place of rsl_rl's PPO, whose networks, storage, optimiser and settings it works on."""

    def __init__(self, algorithm: Any) -> None:
        spread = algorithm.actor.distribution.log_std_param
        super().__init__(algorithm, Layers(algorithm.actor.mlp, [spread]), Layers(algorithm.critic.mlp))
        parameters = chain(algorithm.actor.parameters(), algorithm.critic.parameters())
        algorithm.optimizer = torch_module().optim.Adam(parameters, lr=algorithm.learning_rate, fused=True)

    def update(self) -> dict[str, float]:
        """PPO's update on the rollout: mean losses, named as rsl_rl does."""
        with torch_module().no_grad():
            return self._updated()

    def _updated(self) -> dict[str, float]:
        torch, ppo, storage = torch_module(), self._ppo, self._ppo.storage
        seen = storage.observations.flatten(0, 1)
        old_mean, old_sd = storage.distribution_params
        numbers = (storage.actions, old_mean, storage.actions_log_prob, storage.advantages, storage.returns)
        parts = [ppo.actor.get_latent(seen), ppo.critic.get_latent(seen), *(each.flatten(0, 1) for each in numbers)]
        widths, whole = [part.shape[1] for part in parts], torch.cat(parts, dim=1)
        batch, losses = len(whole) // ppo.num_mini_batches, torch.zeros(3, dtype=whole.dtype)
        for _ in range(ppo.num_learning_epochs):
            shuffled = whole.index_select(0, torch.randperm(batch * ppo.num_mini_batches))
            for rows in shuffled.split(batch):
                losses += self._learn(rows.split(widths, dim=1), old_sd[0, 0])
        ppo.actor.update_normalization(seen)
        ppo.critic.update_normalization(seen)
        storage.clear()
        losses /= ppo.num_learning_epochs * ppo.num_mini_batches
        return dict(zip(("value", "surrogate", "entropy"), losses.tolist(), strict=True))

    def _learn(self, rows: Sequence[Any], old_sd: Any) -> Any:
        """A step of Adam on a minibatch: its losses."""
        torch, ppo, log_sd = torch_module(), self._ppo, self._log_sd
        seen, known, action, old_mean, old_log, gain, wanted = rows
        gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        mean, sd = self._actor(seen), log_sd.exp()
        off = (action - mean) / sd
        if ppo.schedule == "adaptive":
            self._follow(log_sd - old_sd.log() + (old_sd**2 + (old_mean - mean) ** 2) / (2 * sd**2) - 0.5)
        ratio = (log_probability(off, log_sd) - old_log).exp()
        free, held = -gain * ratio, -gain * ratio.clamp(1 - ppo.clip_param, 1 + ppo.clip_param)
        # d loss / d log probability: nothing where the clip holds the ratio back
        slope = torch.where((free >= held) | ((ratio - 1).abs() <= ppo.clip_param), free, 0.0) / len(seen)
        self._actor.backward(slope * off / sd)
        log_sd.grad.copy_((slope * (off * off - 1)).sum(dim=0) - ppo.entropy_coef)
        self._actor.cut(ppo.max_grad_norm)
        missed = self._critic(known) - wanted
        self._critic.backward(missed * (2 * ppo.value_loss_coef / len(seen)))
        self._critic.cut(ppo.max_grad_norm)
        entropy = (log_sd + 0.5 + 0.5 * math.log(2 * math.pi)).sum()
        losses = torch.stack([(missed * missed).mean(), torch.maximum(free, held).mean(), entropy])
        ppo.optimizer.step()
        return losses

    def _follow(self, divergence: Any) -> None:
        """The learning rate follows the divergence (N, A) of the policy from the one that acted."""
        ppo, mean = self._ppo, float(divergence.sum(dim=-1).mean())
        if mean > 2 * ppo.desired_kl:
            ppo.learning_rate = max(SLOWEST, ppo.learning_rate / FACTOR)
        elif 0 < mean < ppo.desired_kl / 2:
            ppo.learning_rate = min(FASTEST, ppo.learning_rate * FACTOR)
        for group in ppo.optimizer.param_groups:
            group["lr"] = ppo.learning_rate
