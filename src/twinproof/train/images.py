"""Learning from pictures: the torch side of policies/network_eyes.py, for PPO and for students.

groups policy (N, D), images/image.front (N, H, W, 3) ─ eyes ─> [scaled numbers, where each filter finds its thing]

The critic of PPO and the labeller of a student see no picture: they know the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from twinproof.policies.network_eyes import COLOURS, EyesLayout
from twinproof.train.ppo import Ppo, actor_settings
from twinproof.train.torch_extra import torch_module
from twinproof.train.written import Seen, Trained, pairs_of

GROUP = "images/"


@dataclass(frozen=True)
class Look:
    """The convolutions of a policy that sees pictures."""

    filters: tuple[int, ...] = (16, 32, 32)
    kernels: tuple[int, ...] = (5, 3, 3)
    strides: tuple[int, ...] = (2, 2, 2)

    @property
    def layout(self) -> EyesLayout:
        """As policies have it."""
        return EyesLayout(self.filters, self.kernels, self.strides)


LOOK = Look()


def picture_groups(observed: Any) -> list[str]:
    """The groups of an environment's observations that are pictures, in their order."""
    return [name for name in observed.keys() if name.startswith(GROUP)]  # noqa: SIM118  a TensorDict


def torch_eyes(look: Look, sizes: Sequence[tuple[int, int]]) -> Any:
    """A module of pictures [(N, H, W, 3) bytes, …] of these sizes (height, width): (N, 2F each), side by side."""
    torch = torch_module()
    for height, width in sizes:
        look.layout.places(height, width)

    class Eyes(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            inputs = (COLOURS, *look.filters[:-1])
            rows = zip(inputs, look.filters, look.kernels, look.strides, strict=True)
            self.layers = torch.nn.ModuleList([torch.nn.Conv2d(a, b, k, s) for a, b, k, s in rows])

        def forward(self, pictures: Sequence[Any]) -> Any:
            return torch.cat([self._one(picture) for picture in pictures], dim=1)

        def _one(self, picture: Any) -> Any:
            x = picture.permute(0, 3, 1, 2).float() / 255 - 0.5
            for k, layer in enumerate(self.layers):
                x = layer(x) if k == len(self.layers) - 1 else torch.nn.functional.elu(layer(x))
            share = torch.softmax(x.flatten(2), dim=2).unflatten(2, x.shape[2:])
            down, across = (2 * torch.arange(n, device=x.device) / max(n - 1, 1) - 1 for n in x.shape[2:])
            return torch.cat([share.sum(2) @ across, share.sum(3) @ down], dim=1)

        def seen(self) -> Seen:
            return Seen(pairs_of(self.layers), look.strides)

    return Eyes()


@dataclass(frozen=True)
class Seeing:
    """An actor of PPO that sees the group policy and all pictures."""

    look: Look = LOOK

    def model(self, observed: Any, actions: int, ppo: Ppo) -> Any:
        """rsl_rl's actor, with eyes before its layers."""
        from rsl_rl.models import MLPModel

        torch, look, groups = torch_module(), self.look, picture_groups(observed)

        class SeeingModel(MLPModel):  # type: ignore[misc]  # as rsl_rl's own CNNModel extends it
            def __init__(self) -> None:
                super().__init__(observed, {"actor": ["policy"]}, "actor", actions, **actor_settings(ppo))
                self.eyes = torch_eyes(look, [tuple(observed[group].shape[1:3]) for group in groups])

            def _get_latent_dim(self) -> int:
                return int(self.obs_dim) + len(groups) * look.layout.features

            def get_latent(self, obs: Any, masks: Any = None, hidden_state: Any = None) -> Any:
                seen = self.eyes([obs[group] for group in groups])
                return torch.cat([super().get_latent(obs, masks, hidden_state), seen], dim=-1)

        return SeeingModel()

    def trained(self, model: Any) -> Trained:
        """The actor as it stands."""
        normaliser = model.obs_normalizer
        mean, sd = normaliser.mean, normaliser.std + normaliser.eps
        return Trained.of(model.mlp, mean, sd, eyes=model.eyes.seen())
