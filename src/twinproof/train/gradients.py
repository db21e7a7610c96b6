"""Layers of Linear and ELU with their gradients written out: on a CPU three fifths of what autograd costs there.

x ─ W1, b1 ─ ELU ─ … ─ Wn, bn ─> y      dL/dy ─ backward ─> dL/dW, dL/db in the parameters' own `grad`

At these sizes (1,024 rows, widths of 128) half of autograd's time goes into handing out memory and into bookkeeping.
Most of the rest are products, for which oneDNN needs half to all of the time of the library that torch takes by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from twinproof.train.torch_extra import torch_module


def product(x: Any, weight: Any, bias: Any = None) -> Any:
    """x · weightᵀ + bias, without a gradient."""
    torch = torch_module()
    if x.dtype == torch.float32 and x.device.type == "cpu" and torch.backends.mkldnn.is_available():
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return torch.nn.functional.linear(x, weight, bias)


def elu(x: Any) -> Any:
    """ELU in place, without a gradient."""
    torch = torch_module()
    if x.dtype == torch.float32 and x.device.type == "cpu":
        from twinproof.train import elu_kernel

        elu_kernel.elu(x.numpy())
        return x
    return torch.nn.functional.elu(x, inplace=True)


def is_plain(network: Any) -> bool:
    """Whether `Layers` can stand for a torch network: Linear, ELU, Linear, …, Linear and nothing else."""
    nn = torch_module().nn
    parts = list(network) if isinstance(network, nn.Sequential) else []
    wanted = [nn.Linear if k % 2 == 0 else nn.ELU for k in range(len(parts))]
    return len(parts) % 2 == 1 and all(type(part) is kind for part, kind in zip(parts, wanted, strict=True))


class Layers:
    """A torch network and `more` parameters beside it. All their gradients lie in `gradient`, one flat tensor; each
    parameter's `grad` is a part of it."""

    def __init__(self, network: Any, more: Sequence[Any] = ()) -> None:
        torch = torch_module()
        self._linear = [part for part in network if hasattr(part, "in_features")]
        parameters = [each for part in self._linear for each in (part.weight, part.bias)] + list(more)
        self.gradient = torch.zeros(sum(each.numel() for each in parameters), dtype=parameters[0].dtype)
        ends = [0]
        for each in parameters:
            ends.append(ends[-1] + each.numel())
        for each, (begin, end) in zip(parameters, pairwise(ends), strict=True):
            each.grad = self.gradient[begin:end].view_as(each)
        self._seen: list[Any] = []  # what went into each layer

    def __call__(self, x: Any) -> Any:
        """What the network says of rows (N, width)."""
        x = x.contiguous()  # among columns of something wider oneDNN takes fifty times as long
        self._seen = [x]
        for layer in self._linear[:-1]:
            x = elu(product(x, layer.weight, layer.bias))
            self._seen.append(x)
        last = self._linear[-1]
        return product(x, last.weight, last.bias)

    def backward(self, change: Any) -> None:
        """Writes the gradients of the last call's layers, given that of its answer (N, outputs)."""
        torch = torch_module()
        for layer, x in zip(reversed(self._linear), reversed(self._seen), strict=True):
            layer.weight.grad.copy_(product(change.T, x.T))
            torch.sum(change, dim=0, out=layer.bias.grad)
            # through the ELU, from what it gave: its slope is 1 above zero, 1 + y below
            if layer is not self._linear[0]:
                change = torch.ops.aten.elu_backward(product(change, layer.weight.T), 1.0, 1.0, 1.0, True, x)

    def cut(self, largest: float) -> None:
        """Scales all gradients so that their norm is at most this, as torch's clip_grad_norm_ does."""
        self.gradient.mul_((largest / (self.gradient.norm() + 1e-6)).clamp(max=1.0))
