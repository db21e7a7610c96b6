"""PPO with an asymmetric critic: rsl_rl's algorithm behind our own settings, loop and checkpoints.

The actor sees the group policy (or what its Body says); the critic also privileged. rsl_rl's runner is not used: it
logs, prints and saves in its own ways (pickles), and cannot go on to the same curve. Plain layers roll out in few
operations (rollouts.py) and learn by hand on a CPU (ppo_by_hand.py), in recorded minibatches on a GPU (minibatches.py).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from twinproof.nouns.errors import PolicyError
from twinproof.nouns.hashing import Json
from twinproof.train.minibatches import Minibatches
from twinproof.train.networks import first_weights
from twinproof.train.ppo_by_hand import ByHand, can_be_by_hand
from twinproof.train.rollouts import Rollouts
from twinproof.train.torch_extra import seed_torch, torch_module
from twinproof.train.vec_env import VecEnv
from twinproof.train.written import Trained


@dataclass(frozen=True)
class Ppo:
    """Settings of PPO (Schulman et al. 2017) as rsl_rl has it."""

    rollout: int = 32  # control steps of each world between two updates
    epochs: int = 5
    minibatches: int = 4
    learning_rate: float = 1e-3
    discount: float = 0.98
    trace: float = 0.95  # lambda of the advantage estimate
    clip: float = 0.2
    entropy: float = 0.0
    kl: float = 0.015  # the learning rate follows this divergence between two policies; 0 keeps it as it is
    spread: float = 0.6  # first sd of the actions, in half widths of their limits
    hidden: tuple[int, ...] = (128, 128)
    asymmetric: bool = True  # the critic sees privileged channels


class Body(Protocol):
    """What an actor is made of: rsl_rl's model of it, and the network that is written in the end."""

    def model(self, observed: Any, actions: int, ppo: Ppo) -> Any: ...

    def trained(self, model: Any) -> Trained: ...


@dataclass(frozen=True)
class Plain:
    """Layers over what the robot measures."""

    def model(self, observed: Any, actions: int, ppo: Ppo) -> Any:
        """rsl_rl's actor."""
        from rsl_rl.models import MLPModel

        return MLPModel(observed, {"actor": ["policy"]}, "actor", actions, **actor_settings(ppo))

    def trained(self, model: Any) -> Trained:
        """The actor as it stands."""
        normaliser = model.obs_normalizer
        return Trained.of(model.mlp, normaliser.mean, normaliser.std + normaliser.eps)


PLAIN = Plain()


def actor_settings(ppo: Ppo) -> dict[str, Any]:
    """What every actor's model is told."""
    noise = {"class_name": "GaussianDistribution", "init_std": ppo.spread, "std_type": "log"}
    return {"hidden_dims": ppo.hidden, "activation": "elu", "obs_normalization": True, "distribution_cfg": noise}


class PpoLearner:
    """Networks, optimiser and rollout storage for one environment; `iterate` is a rollout and its update."""

    def __init__(self, env: VecEnv, ppo: Ppo, seed: int, body: Body = PLAIN) -> None:
        from rsl_rl.algorithms import PPO
        from rsl_rl.models import MLPModel
        from rsl_rl.storage import RolloutStorage

        seed_torch(seed, "train", "networks")
        self.env, self.ppo, self.body = env, ppo, body
        observed = env.get_observations()
        more = [name for name in observed.keys() if name == "privileged" and ppo.asymmetric]  # noqa: SIM118  a TensorDict
        groups = {"critic": ["policy", *more]}
        shape = {"hidden_dims": ppo.hidden, "activation": "elu", "obs_normalization": True}
        actor = body.model(observed, env.num_actions, ppo)
        critic = MLPModel(observed, groups, "critic", 1, **shape)
        storage = RolloutStorage("rl", env.num_envs, ppo.rollout, observed, [env.num_actions], env.device)
        first_weights(actor.mlp, 0.01)
        first_weights(critic.mlp, 1.0)
        self.algorithm = PPO(
            actor,
            critic,
            storage,
            num_learning_epochs=ppo.epochs,
            num_mini_batches=ppo.minibatches,
            clip_param=ppo.clip,
            gamma=ppo.discount,
            lam=ppo.trace,
            entropy_coef=ppo.entropy,
            learning_rate=ppo.learning_rate,
            schedule="adaptive" if ppo.kl else "fixed",
            desired_kl=ppo.kl,
            use_clipped_value_loss=False,
            normalize_advantage_per_mini_batch=True,
            max_grad_norm=0.5,
            device=env.device,
        )
        self.algorithm.train_mode()
        self._minibatches: Minibatches | None = None
        self.rule = self.algorithm  # what acts, and updates where there are no minibatches
        if can_be_by_hand(self.algorithm):
            self.rule = ByHand(self.algorithm)
        elif env.replays and type(actor) is MLPModel:
            self.rule = Rollouts(self.algorithm, actor.mlp, critic.mlp)
            self._minibatches = Minibatches(self.algorithm, replayed=True)

    @property
    def steps(self) -> int:
        """Environment steps of one iteration."""
        return self.env.num_envs * self.ppo.rollout

    def restart(self, episode: int) -> None:
        """Begins all worlds anew, at ages all over the horizon."""
        self.env.restart(episode, spread=True)

    def iterate(self) -> dict[str, float]:
        """One rollout of every world and the update on it: losses, spread, learning rate, seconds of both parts."""
        torch, algorithm, rule, env = torch_module(), self.algorithm, self.rule, self.env
        begun = time.perf_counter()
        observed = env.get_observations()
        with torch.no_grad():
            for _ in range(self.ppo.rollout):
                observed, reward, done, extras = env.step(rule.act(observed))
                # returns of about ten rewards a step, whatever the discount: smaller ones drown in Adam's own jitter
                rule.process_env_step(observed, 10 * (1 - self.ppo.discount) * reward, done, extras)
            rule.compute_returns(observed)
        collected = time.perf_counter()
        if not bool(torch.isfinite(algorithm.storage.returns).all()):
            raise PolicyError(
                "PPO diverged: the critic's values are not finite. Lower the learning rate, or the reward's weights."
            )
        told = {f"loss/{name}": float(value) for name, value in self._update().items()}
        told["spread"] = float(algorithm.get_policy().distribution.log_std_param.detach().exp().mean())
        told["learning_rate"] = float(algorithm.learning_rate)
        told["collect_s"], told["learn_s"] = collected - begun, time.perf_counter() - collected
        return told

    def _update(self) -> dict[str, float]:
        """PPO's update; at the very first rollout only the scale of the observations is taken, as an update would be
        undone by the networks' new view of the world."""
        algorithm = self.algorithm
        if int(algorithm.get_policy().obs_normalizer.count):
            return dict(self.rule.update() if self._minibatches is None else self._minibatches.update())
        seen = algorithm.storage.observations.flatten(0, 1)
        algorithm.actor.update_normalization(seen)
        algorithm.critic.update_normalization(seen)
        algorithm.storage.clear()
        return {}

    def trained(self) -> Trained:
        """The actor as it stands."""
        return self.body.trained(self.algorithm.get_policy())

    def start_from(self, trained: Trained) -> None:
        """Puts a trained network in place of the actor's first weights."""
        torch, actor = torch_module(), self.algorithm.get_policy()
        layers = [layer for layer in actor.mlp if hasattr(layer, "weight")]
        shapes = [tuple(weight.shape) for weight, _ in trained.layers]
        if [tuple(layer.weight.shape) for layer in layers] != shapes:
            raise PolicyError(
                f"the policy to start from has layers of the shapes {shapes}; this run has "
                f"{[tuple(layer.weight.shape) for layer in layers]}. Give the same hidden widths."
            )
        normaliser = actor.obs_normalizer
        with torch.no_grad():
            for layer, (weight, bias) in zip(layers, trained.layers, strict=True):
                layer.weight.copy_(torch.as_tensor(weight))
                layer.bias.copy_(torch.as_tensor(bias))
            normaliser._mean.copy_(torch.as_tensor(trained.mean)[None])
            normaliser._std.copy_(torch.as_tensor(trained.sd)[None] - normaliser.eps)
            normaliser._var.copy_(normaliser._std**2)
            normaliser.count.fill_(self.steps)  # as much weight as one iteration's own

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything that decides the next iteration, but the worlds and the random streams."""
        algorithm = self.algorithm
        found = {f"actor.{name}": value for name, value in algorithm.actor.state_dict().items()}
        found |= {f"critic.{name}": value for name, value in algorithm.critic.state_dict().items()}
        for index, slots in algorithm.optimizer.state_dict()["state"].items():
            found |= {f"optimizer.{index}.{name}": value for name, value in slots.items()}
        return {name: value.detach().cpu().numpy() for name, value in found.items()}

    def told(self) -> dict[str, Json]:
        """The counters beside the arrays."""
        return {"learning_rate": float(self.algorithm.learning_rate)}

    def restore(self, arrays: Mapping[str, np.ndarray], told: Mapping[str, Json]) -> None:
        """The inverse of `arrays` and `told`."""
        torch, algorithm = torch_module(), self.algorithm
        part = {
            kind: {n.split(".", 1)[1]: torch.tensor(a) for n, a in arrays.items() if n.startswith(f"{kind}.")}
            for kind in ("actor", "critic", "optimizer")
        }
        algorithm.actor.load_state_dict(part["actor"])
        algorithm.critic.load_state_dict(part["critic"])
        state: dict[int, dict[str, Any]] = {}
        for name, value in part["optimizer"].items():
            index, slot = name.split(".", 1)
            state.setdefault(int(index), {})[slot] = value
        groups = algorithm.optimizer.state_dict()["param_groups"]
        rate = float(told["learning_rate"])
        algorithm.optimizer.load_state_dict(
            {"state": state, "param_groups": [{**group, "lr": rate} for group in groups]}
        )
        algorithm.learning_rate = rate
        if self._minibatches is not None:
            self._minibatches.forget()
