"""PPO's update as rsl_rl does it, without asking the device for a number between two minibatches.

rsl_rl's own reads three losses and, where the learning rate follows the divergence, compares on the host: a GPU then
waits for Python all the time. Here a minibatch is one replayed graph (sim/replayed.py). And rsl_rl shuffles once;
here, as in `ppo_by_hand`, every epoch is shuffled anew.
"""

from __future__ import annotations

from typing import Any

from twinproof.sim.replayed import DeviceTape, Replayed
from twinproof.train.torch_extra import torch_module

SLOWEST, FASTEST, FACTOR = 1e-5, 1e-2, 1.5  # of the learning rate, where it follows the divergence


class Minibatches:
    """The update of an rsl_rl PPO whose networks are plain layers; `replayed` on a GPU."""

    def __init__(self, algorithm: Any, *, replayed: bool) -> None:
        torch = torch_module()
        self._algorithm, device = algorithm, algorithm.device
        self._rate = torch.full((), algorithm.learning_rate, device=device)
        self._sums = torch.zeros(3, device=device)
        for group in algorithm.optimizer.param_groups:
            group["capturable"] = replayed
        self._replayed = Replayed(self, self._learn, DeviceTape) if replayed else None
        storage = algorithm.storage
        self._rows = {
            "observations": storage.observations.flatten(0, 1),
            "actions": storage.actions.flatten(0, 1),
            "returns": storage.returns.flatten(0, 1),
            "log_prob": storage.actions_log_prob.flatten(),
            "advantages": torch.zeros(storage.advantages.numel(), device=device),
        }
        self._before: tuple[Any, ...] = ()  # parameters of the distributions that acted

    def forget(self) -> None:
        """Someone put other tensors in the optimiser's place."""
        if self._replayed is not None:
            self._replayed.forget()

    def update(self) -> dict[str, float]:
        """All epochs of all minibatches on what the storage holds; gives mean losses and empties it."""
        torch, algorithm, storage = torch_module(), self._algorithm, self._algorithm.storage
        self._before = tuple(each.flatten(0, 1) for each in storage.distribution_params)
        self._rows["advantages"].copy_(storage.advantages.flatten())
        self._rate.fill_(algorithm.learning_rate)
        self._sums.zero_()
        for group in algorithm.optimizer.param_groups:
            group["lr"] = self._rate
        size = storage.num_envs * storage.num_transitions_per_env // algorithm.num_mini_batches
        learn = self._replayed or self._learn
        for _ in range(algorithm.num_learning_epochs):
            for rows in torch.randperm(size * algorithm.num_mini_batches, device=algorithm.device).split(size):
                learn(rows)
        seen = storage.observations.flatten(0, 1)
        algorithm.actor.update_normalization(seen)
        algorithm.critic.update_normalization(seen)
        storage.clear()
        algorithm.learning_rate = float(self._rate)
        means = (self._sums / (algorithm.num_learning_epochs * algorithm.num_mini_batches)).tolist()
        return dict(zip(("value", "surrogate", "entropy"), means, strict=True))

    def _learn(self, rows: Any) -> None:
        """One minibatch."""
        torch, algorithm = torch_module(), self._algorithm
        seen = self._rows["observations"][rows]
        actions, returns, log_prob, advantages = (
            self._rows[name][rows] for name in ("actions", "returns", "log_prob", "advantages")
        )
        if algorithm.normalize_advantage_per_mini_batch:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        actor = algorithm.actor
        actor.distribution.update(actor.mlp(actor.get_latent(seen)))
        values = algorithm.critic(seen)
        if algorithm.schedule == "adaptive":
            self._follow(tuple(each[rows] for each in self._before))
        ratio = torch.exp(actor.get_output_log_prob(actions) - log_prob)
        cut = ratio.clamp(1 - algorithm.clip_param, 1 + algorithm.clip_param)
        surrogate = torch.max(-advantages * ratio, -advantages * cut).mean()
        value, entropy = (returns - values).pow(2).mean(), actor.output_entropy.mean()
        algorithm.optimizer.zero_grad()
        (surrogate + algorithm.value_loss_coef * value - algorithm.entropy_coef * entropy).backward()
        torch.nn.utils.clip_grad_norm_(actor.parameters(), algorithm.max_grad_norm)
        torch.nn.utils.clip_grad_norm_(algorithm.critic.parameters(), algorithm.max_grad_norm)
        algorithm.optimizer.step()
        self._sums += torch.stack([value, surrogate, entropy]).detach()

    def _follow(self, before: tuple[Any, ...]) -> None:
        """The learning rate goes down where the policy moves too far at once, and up where it hardly moves."""
        torch, algorithm = torch_module(), self._algorithm
        with torch.no_grad():
            now = algorithm.actor.output_distribution_params
            apart = algorithm.actor.get_kl_divergence(before, now).mean()
            slower, faster = (self._rate / FACTOR).clamp(min=SLOWEST), (self._rate * FACTOR).clamp(max=FASTEST)
            calm = (apart < algorithm.desired_kl / 2) & (apart > 0)
            far = apart > algorithm.desired_kl * 2
            self._rate.copy_(torch.where(far, slower, torch.where(calm, faster, self._rate)))
