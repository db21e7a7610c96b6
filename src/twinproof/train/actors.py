"""The two ways in which an off-policy actor explores and learns: FastTD3's and FastSAC's (Seo et al. 2025)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from twinproof.train.networks import first_weights, mlp
from twinproof.train.torch_extra import torch_module
from twinproof.train.written import Trained

SHARPEST, WIDEST = -5.0, 0.0  # log sd of FastSAC's actions before they are squashed


class OffPolicyActor(Protocol):
    """y of rows of the group policy, in (-1, 1)."""

    net: Any
    cautious: bool  # whether the critics' targets are the lower of two

    def explore(self, rows: Any) -> Any:
        """What the worlds are told, one row a world."""

    def aim(self, rows: Any) -> tuple[Any, Any]:
        """What would be done after a batch's rows, and what is added to the return for doing it."""

    def loss(self, rows: Any, value: Callable[[Any], tuple[Any, Any]]) -> Any:
        """To be made small; `value` is what the critics expect of actions."""

    def parameters(self) -> list[Any]:
        """What is learned."""

    def trained(self, mean: Any, sd: Any) -> Trained:
        """What a robot runs, without exploration, with the scale of its input."""

    def told(self) -> dict[str, Any]:
        """Figures for the metrics."""


@dataclass(frozen=True)
class FastTd3:
    """A deterministic actor; worlds explore with noise of different sizes, which replaces a schedule."""

    spread: tuple[float, float] = (0.05, 0.5)  # sd of the noise: the calmest and the wildest world
    smooth: float = 0.2  # sd of the noise on the action that a target is taken at
    smooth_most: float = 0.5
    cautious: bool = False  # targets from the lower of two critics, as TD3 has it: with few steps it fears too much

    def actor(self, sizes: list[int], count: int, device: str) -> OffPolicyActor:
        """The network with its ways, for so many worlds."""
        return _Deterministic(self, sizes, count, device)


@dataclass(frozen=True)
class FastSac:
    """An actor that is paid for staying random; its temperature follows a wanted entropy."""

    temperature: float = 0.01  # at first
    entropy: float = -0.5  # wanted, for each action: of a uniform one it is log 2 = 0.69

    def actor(self, sizes: list[int], count: int, device: str) -> OffPolicyActor:
        """The network with its ways; it needs no count of worlds."""
        return _Gaussian(self, sizes, device)


class _Deterministic:
    def __init__(self, way: FastTd3, sizes: list[int], count: int, device: str) -> None:
        torch = torch_module()
        self.net, self._way, self.cautious = mlp(sizes), way, way.cautious
        first_weights(self.net, 0.01)
        self.net.to(device)
        self._spread = torch.linspace(*way.spread, count, device=device)[:, None]

    def explore(self, rows: Any) -> Any:
        y = self.net(rows).tanh()
        return (y + self._spread * torch_module().randn_like(y)).clamp(-1.0, 1.0)

    def aim(self, rows: Any) -> tuple[Any, Any]:
        y, most = self.net(rows).tanh(), self._way.smooth_most
        noise = (self._way.smooth * torch_module().randn_like(y)).clamp(-most, most)
        return (y + noise).clamp(-1.0, 1.0), torch_module().zeros_like(y[:, 0])

    def loss(self, rows: Any, value: Callable[[Any], tuple[Any, Any]]) -> Any:
        first, second = value(self.net(rows).tanh())
        return -(torch_module().minimum(first, second) if self.cautious else (first + second) / 2).mean()

    def parameters(self) -> list[Any]:
        return list(self.net.parameters())

    def trained(self, mean: Any, sd: Any) -> Trained:
        return replace(Trained.of(self.net, mean, sd), output="tanh")

    def told(self) -> dict[str, Any]:
        return {"spread": self._spread.mean()}


class _Gaussian:
    cautious = False

    def __init__(self, way: FastSac, sizes: list[int], device: str) -> None:
        torch = torch_module()
        self._wanted = way.entropy * sizes[-1]
        self.net = mlp([*sizes[:-1], 2 * sizes[-1]])
        first_weights(self.net, 0.01)
        torch.nn.init.constant_(self.net[-1].bias[sizes[-1] :], 1.0)  # an sd of 0.5 at first
        self.net.register_parameter("log_temperature", torch.nn.Parameter(torch.tensor([math.log(way.temperature)])))
        self.net.to(device)
        self._spread: Any = torch.zeros(())

    def _drawn(self, rows: Any) -> tuple[Any, Any]:
        """An action of each row, and the logarithm of its density."""
        torch = torch_module()
        mean, raw = self.net(rows).chunk(2, dim=1)
        log_sd = SHARPEST + (WIDEST - SHARPEST) * (raw.tanh() + 1) / 2
        z = torch.randn_like(mean)
        u = mean + log_sd.exp() * z
        squashed = 2 * (math.log(2) - u - torch.nn.functional.softplus(-2 * u))  # log(1 - tanh(u)^2), safely
        density = (-0.5 * z**2 - log_sd - 0.5 * math.log(2 * math.pi) - squashed).sum(dim=1)
        self._spread = log_sd.detach().exp().mean()
        return u.tanh(), density

    def explore(self, rows: Any) -> Any:
        return self._drawn(rows)[0]

    def aim(self, rows: Any) -> tuple[Any, Any]:
        y, density = self._drawn(rows)
        return y, -self.net.log_temperature.exp() * density

    def loss(self, rows: Any, value: Callable[[Any], tuple[Any, Any]]) -> Any:
        y, density = self._drawn(rows)
        first, second = value(y)
        temperature = self.net.log_temperature.exp()
        entropy = (temperature.detach() * density - (first + second) / 2).mean()
        return entropy - temperature.mean() * (density.detach().mean() + self._wanted)

    def parameters(self) -> list[Any]:
        return list(self.net.parameters())

    def trained(self, mean: Any, sd: Any) -> Trained:
        both = Trained.of(self.net, mean, sd)
        weight, bias = both.layers[-1]
        middle = (weight[: len(bias) // 2], bias[: len(bias) // 2])
        return replace(both, layers=(*both.layers[:-1], middle), output="tanh")

    def told(self) -> dict[str, Any]:
        return {"spread": self._spread, "temperature": self.net.log_temperature.detach().exp()[0]}
