"""Adaptation by a latent (RMA, Kumar et al. 2021): know the world's parameters first, then feel them in one's history.

phase 1    parameters ─ encoder ─> z ─┐
                          observation ┴─ layers ─> action          PPO; parameters are drawn anew for every episode
phase 2    history of observations ─ history encoder ─> ẑ ─┐
                                              observation ─┴─ layers ─> action        ẑ is fitted to z where ẑ drives

The policy that is written has the layers of phase 1 and the history encoder: it needs no parameter. Observations hold
the last command, so that their history is one of observations and actions.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinproof.nouns.errors import ConfigError, PolicyError
from twinproof.nouns.hashing import Json
from twinproof.train.imitate import Stack
from twinproof.train.networks import mlp
from twinproof.train.ppo import Ppo, PpoLearner, actor_settings
from twinproof.train.torch_extra import adam_arrays, adam_restored, seed_torch, torch_module
from twinproof.train.vec_env import VecEnv
from twinproof.train.written import Trained

KEPT = ("history.", "adam.")  # of a checkpoint, beside what PPO keeps


@dataclass(frozen=True)
class Latent:
    """Settings of both phases."""

    latent: int = 8  # numbers in z
    hidden: tuple[int, ...] = (64, 32)  # of the encoder of the parameters
    history: int = 16  # ticks that the history encoder sees
    history_hidden: tuple[int, ...] = (128, 64)
    first_share: float = 0.7  # of all steps, in phase 1
    updates: int = 40  # minibatches of phase 2 after each rollout, drawn from it
    batch: int = 1024
    learning_rate: float = 1e-3


@dataclass(frozen=True)
class Knowing:
    """An actor that sees z of the last `parameters` numbers of the group privileged."""

    parameters: int
    latent: Latent

    def model(self, observed: Any, actions: int, ppo: Ppo) -> Any:
        """rsl_rl's actor, its layers behind the encoder."""
        from rsl_rl.models import MLPModel

        model = MLPModel(observed, {"actor": ["policy", "privileged"]}, "actor", actions, **actor_settings(ppo))
        width, latent = int(observed["policy"].shape[1]), self.latent
        encoder = mlp([self.parameters, *latent.hidden, latent.latent])
        model.mlp = bottleneck(encoder, mlp([width + latent.latent, *ppo.hidden, actions]), width)
        return model

    def trained(self, model: Any) -> Trained:
        """What acts without the parameters is not known here: `LatentLearner.trained` adds it."""
        raise AssertionError("the latent learner writes its own policy")


def bottleneck(encoder: Any, head: Any, width: int) -> Any:
    """A module of [observation (width), privileged]: the head sees the observation and z of the last numbers."""
    torch = torch_module()

    class Bottleneck(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.head = encoder, head

        def z(self, x: Any) -> Any:
            return self.encoder(x[:, -self.encoder[0].in_features :])

        def forward(self, x: Any) -> Any:
            return self.head(torch.cat([x[:, :width], self.z(x)], dim=1))

    return Bottleneck()


class LatentLearner:
    """Both phases over one environment; `total_steps` is what the run will take in all."""

    def __init__(self, env: VecEnv, ppo: Ppo, latent: Latent, seed: int, total_steps: int) -> None:
        torch = torch_module()
        if not env.arena.theta_ids:
            raise ConfigError(
                "--algo rma adapts to parameters that differ from episode to episode, and none does here. Give a "
                "RANDOMIZATION, or use ppo."
            )
        self.env, self.latent = env, latent
        self.known = PpoLearner(env, ppo, seed, Knowing(len(env.arena.theta_ids), latent))
        seed_torch(seed, "train", "history")
        self._width = int(env.get_observations()["policy"].shape[1])
        sizes = [latent.history * self._width, *latent.history_hidden, latent.latent]
        self.history = mlp(sizes).to(env.device)
        self.optimizer = torch.optim.Adam(self.history.parameters(), lr=latent.learning_rate)
        self._stack: Stack | None = None  # the history of every world, in phase 2
        self._done, self._first = 0, max(1, round(latent.first_share * total_steps / self.steps))

    @property
    def steps(self) -> int:
        """Environment steps of one iteration, in both phases."""
        return self.known.steps

    def restart(self, episode: int) -> None:
        """Begins all worlds anew."""
        self._stack = None
        self.known.restart(episode)

    def iterate(self) -> dict[str, float]:
        """A rollout and its update: of PPO in phase 1, of the history encoder in phase 2."""
        told = self.known.iterate() if self._done < self._first else self._adapt()
        told["phase"] = 1.0 if self._done < self._first else 2.0
        self._done += 1
        return told

    def _adapt(self) -> dict[str, float]:
        torch, env, actor = torch_module(), self.env, self.known.algorithm.get_policy()
        begun = time.perf_counter()
        seen, wanted = [], []
        with torch.no_grad():
            x = actor.get_latent(env.get_observations())
            stack = self._stack = self._stack or Stack(x[:, : self._width], self.latent.history)
            for _ in range(self.known.ppo.rollout):
                seen.append(stack.rows.flatten(1))
                wanted.append(actor.mlp.z(x))
                y = actor.mlp.head(torch.cat([x[:, : self._width], self.history(seen[-1])], dim=1))
                observed, _, done, _ = env.step(y)
                x = actor.get_latent(observed)
                stack.add(x[:, : self._width], done > 0)
        collected = time.perf_counter()
        loss, explained = self._fit(torch.cat(seen), torch.cat(wanted))
        told = {"loss/latent": loss, "latent_explained": explained}
        return told | {"collect_s": collected - begun, "learn_s": time.perf_counter() - collected}

    def _fit(self, seen: Any, wanted: Any) -> tuple[float, float]:
        """Fits ẑ to z; the mean squared error before the fit, and the share of z's variance that was explained."""
        torch = torch_module()
        with torch.no_grad():
            loss = float(((self.history(seen) - wanted) ** 2).mean())
            explained = 1 - loss / max(float(((wanted - wanted.mean(dim=0)) ** 2).mean()), 1e-12)
        if not np.isfinite(loss):
            raise PolicyError("the history encoder diverged: its loss is not finite. Lower its learning rate.")
        for _ in range(self.latent.updates):
            chosen = torch.randint(len(seen), (min(self.latent.batch, len(seen)),), device=seen.device)
            error = ((self.history(seen[chosen]) - wanted[chosen]) ** 2).mean()
            self.optimizer.zero_grad()
            error.backward()
            self.optimizer.step()
        return loss, explained

    def trained(self) -> Trained:
        """The layers of phase 1 behind the history encoder as it stands."""
        actor = self.known.algorithm.get_policy()
        mean, sd = actor.obs_normalizer.mean, actor.obs_normalizer.std + actor.obs_normalizer.eps
        return Trained.of(actor.mlp.head, mean[: self._width], sd[: self._width], self.history)

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything of PPO, the history encoder and its optimiser."""
        found = {f"history.{name}": value for name, value in self.history.state_dict().items()}
        found |= {f"adam.{name}": value for name, value in adam_arrays(self.optimizer).items()}
        return self.known.arrays() | {name: value.detach().cpu().numpy().copy() for name, value in found.items()}

    def told(self) -> dict[str, Json]:
        """Counters."""
        return {**self.known.told(), "done": self._done}

    def restore(self, arrays: Mapping[str, np.ndarray], told: Mapping[str, Json]) -> None:
        """The inverse of `arrays` and `told`."""
        torch = torch_module()
        self.known.restore(arrays, told)
        part = {kind: {n.removeprefix(kind): a for n, a in arrays.items() if n.startswith(kind)} for kind in KEPT}
        self.history.load_state_dict({name: torch.tensor(array) for name, array in part["history."].items()})
        adam_restored(self.optimizer, part["adam."])
        self._done = int(told["done"])
