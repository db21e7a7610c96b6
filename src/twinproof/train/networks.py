"""Small torch networks as training begins them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from twinproof.train.torch_extra import torch_module


def mlp(sizes: Sequence[int], norm: bool = False) -> Any:
    """A torch Sequential of Linear and ELU, no ELU at the end; with `norm` a LayerNorm before each ELU."""
    nn = torch_module().nn
    layers: list[Any] = []
    for k, (a, b) in enumerate(pairwise(sizes)):
        layers.append(nn.Linear(a, b))
        if k < len(sizes) - 2:
            layers += [*([nn.LayerNorm(b)] if norm else []), nn.ELU()]
    return nn.Sequential(*layers)


def first_weights(network: Any, last: float) -> None:
    """First weights: orthogonal, so that signals keep their size through the layers, and a last layer of this gain. A
    small one lets the arm begin near its last command, whatever the seed."""
    init = torch_module().nn.init
    layers = [layer for layer in network.modules() if hasattr(layer, "in_features")]
    for layer in layers:
        init.orthogonal_(layer.weight, gain=last if layer is layers[-1] else 2**0.5)
        init.zeros_(layer.bias)


class Scale:
    """Running mean and sd of rows: every number of an input on a scale of its own."""

    SMALLEST = 1e-2  # added to each sd: what hardly moves is not blown up

    def __init__(self, width: int, device: str) -> None:
        torch = torch_module()
        self.mean, self.var = torch.zeros(width, device=device), torch.ones(width, device=device)
        self.count = torch.zeros((), device=device, dtype=torch.float64)

    @property
    def sd(self) -> Any:
        """What rows are divided by."""
        return self.var.sqrt() + self.SMALLEST

    def __call__(self, rows: Any) -> Any:
        """Rows (N, width) on their scale."""
        return (rows - self.mean) / self.sd

    def take_in(self, rows: Any) -> None:
        """Adds rows (N, width) to the statistics (Chan et al. 1979)."""
        mean, var = rows.mean(dim=0), rows.var(dim=0, unbiased=False)
        total = self.count + len(rows)
        share = (len(rows) / total).float()
        off = mean - self.mean
        self.var = self.var + share * (var - self.var) + share * (1 - share) * off**2
        self.mean, self.count = self.mean + share * off, total

    def arrays(self) -> dict[str, Any]:
        """Its tensors by name."""
        return {"mean": self.mean, "var": self.var, "count": self.count}

    def restore(self, tensors: dict[str, Any]) -> None:
        """The inverse of `arrays`."""
        device = self.mean.device
        self.mean, self.var, self.count = (tensors[name].to(device) for name in ("mean", "var", "count"))
