"""Small networks as policies hold them: the layout that training writes, and the forward pass without torch.

A policy of kind "mlp" or "recurrent" has

architecture   {"layers": [inputs, 128, 128, outputs], "activation": "elu", "output": "limits"}
               and, where wanted: "norm": "layer"; "gru": [64] (one width a layer, recurrent only);
               "encoder": {"layers": [history * width, 64, 8], "activation": "elu"}; a base policy below;
               "eyes": {"filters": [16, 32], "kernels": [5, 3], "strides": [2, 2]} where it sees pictures
weights        layers.K.weight (out, in), layers.K.bias (out): y = W x + b, as torch has it; the activation after all
               but the last; with norm: layers.K.norm.weight, layers.K.norm.bias (out) before each activation;
               gru.K.weight_ih (3H, in), gru.K.weight_hh (3H, H), gru.K.bias_ih, gru.K.bias_hh (3H), gates r, z, n;
               encoder.layers.K...; input.mean, input.sd (width), where every number has a scale of its own;
               eyes.K.weight (out, in, k, k), eyes.K.bias (out), the same for every picture (network_eyes.py)

x, the input   1. every observation of the contract in its order, flattened in C order, joined: `width` numbers; with
                  eyes without its pictures, bytes (height, width, 3)
               2. (x - mean) / sd: of input.mean and input.sd, or of the policy's normaliser channel by channel
               3. history > 1: that many of these, the newest last; after a reset the first fills all places
               4. with an encoder: [the newest, encoder(all)] instead of all; with eyes: and what they see in each of
                  the newest pictures, in the contract's order; with a GRU: the last layer's memory
y, the output  chunk x actions, the chunk's first action first
action         "limits": (low + high) / 2 + (high - low) / 2 * y      "tanh": the same of tanh(y)
               where the normaliser names the action: mean + sd * y instead. Nothing is clipped here.
base           "base_architecture": {...}, "base": hash, "residual_share": 0.2, weights base.layers.K... and, where it
               has its own, base.input.mean, base.input.sd: action = base's action + residual_share * half range * y

Arithmetic is float32 in a fixed order (network_kernels.py): a world's action has the same bits in any company.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from twinproof.nouns.errors import PolicyError
from twinproof.nouns.hashing import Json
from twinproof.nouns.strict import build
from twinproof.policies.network_eyes import Eyes, EyesLayout

if TYPE_CHECKING:
    from jaxtyping import Float

Weights = Mapping[str, np.ndarray]
Activation = Literal["elu", "relu", "tanh"]


@dataclass(frozen=True)
class Encoder:
    """A network from the whole history to a few numbers."""

    layers: tuple[int, ...]
    activation: Activation = "elu"
    norm: Literal["none", "layer"] = "none"

    def __post_init__(self) -> None:
        _check_widths(self.layers)


@dataclass(frozen=True)
class Layout:
    """The architecture of a policy, read strictly."""

    layers: tuple[int, ...]
    activation: Activation = "elu"
    output: Literal["limits", "tanh"] = "limits"
    norm: Literal["none", "layer"] = "none"
    gru: tuple[int, ...] = ()
    encoder: Encoder | None = None
    eyes: EyesLayout | None = None
    base: str = ""
    base_architecture: Layout | None = None
    residual_share: float = 1.0

    def __post_init__(self) -> None:
        _check_widths(self.layers)
        if any(width < 1 for width in self.gru):
            raise PolicyError(f"a GRU has the widths {list(self.gru)}; each is at least 1.")
        if self.base_architecture is not None and self.base_architecture.base_architecture is not None:
            raise PolicyError("the base of a residual policy has a base of its own. One is the most.")

    @staticmethod
    def of(architecture: Json) -> Layout:
        """The layout that an architecture states."""
        return build(Layout, architecture, "architecture", PolicyError)


def _check_widths(layers: tuple[int, ...]) -> None:
    if len(layers) < 2 or min(layers) < 1:
        raise PolicyError(
            f"a network has the layers {list(layers)}; give the widths from input to output, two or more."
        )


def forward(architecture: Json, weights: Weights, x: Float[np.ndarray, "N in"]) -> Float[np.ndarray, "N out"]:
    """y of x, both in the network's own numbers; a recurrent one begins without memory."""
    layout = Layout.of(architecture)
    network = Network(layout, weights)
    x = np.ascontiguousarray(x, np.float32)
    if layout.encoder is not None or layout.eyes is not None:
        raise PolicyError("a network with an encoder or eyes sees more than one row. Use policies.load.actor_of.")
    return network(x, x, network.memory(len(x)))


class Network:
    """A layout with its weights, checked against each other: what a policy computes, without scaling or history."""

    def __init__(self, layout: Layout, weights: Weights, prefix: str = "") -> None:
        self.layout = layout
        take = _Taker(weights, prefix)
        self._encoder = None
        if layout.encoder is not None:
            self._encoder = Mlp(layout.encoder, take, "encoder.")
        self._eyes = None if layout.eyes is None else Eyes(layout.eyes, take)
        self._gru = tuple(_gru_layers(layout, take))
        self._mlp = Mlp(layout, take, "")
        self.used = frozenset(take.used)

    @property
    def inputs(self) -> int:
        """How many numbers the first stage (GRU, or layers) takes."""
        return self._gru[0].inputs if self._gru else self.layout.layers[0]

    def memory(self, count: int) -> tuple[np.ndarray, ...]:
        """An empty memory for so many worlds: one array a GRU layer."""
        return tuple(np.zeros((count, layer.width), np.float32) for layer in self._gru)

    def __call__(
        self,
        newest: np.ndarray,
        stacked: np.ndarray,
        memory: tuple[np.ndarray, ...],
        pictures: Sequence[np.ndarray] = (),
    ) -> np.ndarray:
        """y, from the newest input, the whole history and the newest pictures; the memory is changed in place."""
        x = stacked if self._encoder is None else np.concatenate([newest, self._encoder(stacked)], axis=1)
        if self._eyes is not None:
            x = np.concatenate([x, *(self._eyes(picture) for picture in pictures)], axis=1)
        for layer, kept in zip(self._gru, memory, strict=True):
            layer.step(x, kept)
            x = kept
        return self._mlp(x)


class Mlp:
    """Dense layers with an activation between them."""

    def __init__(self, layout: Layout | Encoder, take: _Taker, prefix: str) -> None:
        from twinproof.policies import network_kernels as kernels

        self._dense, self._norm = kernels.dense, kernels.layer_norm
        self._bend = {"elu": kernels.elu, "relu": kernels.relu, "tanh": kernels.tanh}[layout.activation]
        widths = layout.layers
        names = [f"{prefix}layers.{k}" for k in range(len(widths) - 1)]
        pairs = list(zip(names, widths[:-1], widths[1:], strict=True))
        self._layers = [(take.turned(f"{n}.weight", (b, a)), take(f"{n}.bias", (b,))) for n, a, b in pairs]
        norms = pairs[:-1] if layout.norm == "layer" else []
        self._norms = [(take(f"{n}.norm.weight", (b,)), take(f"{n}.norm.bias", (b,))) for n, _, b in norms]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The output for each row."""
        last = len(self._layers) - 1
        for k, (weight, bias) in enumerate(self._layers):
            out = np.empty((len(x), weight.shape[1]), np.float32)
            self._dense(x, weight, bias, out)
            if k < last:
                if self._norms:
                    self._norm(out, *self._norms[k])
                self._bend(out)
            x = out
        return x


class GruLayer:
    """One layer of gated recurrent units."""

    def __init__(self, take: _Taker, name: str, inputs: int, width: int) -> None:
        from twinproof.policies import network_kernels as kernels

        self._dense, self._step, self.inputs, self.width = kernels.dense, kernels.gru_step, inputs, width
        self._seen = take.turned(f"{name}.weight_ih", (3 * width, inputs)), take(f"{name}.bias_ih", (3 * width,))
        self._kept = take.turned(f"{name}.weight_hh", (3 * width, width)), take(f"{name}.bias_hh", (3 * width,))

    def step(self, x: np.ndarray, memory: np.ndarray) -> None:
        """Takes the memory one step on, in place."""
        seen, kept = (np.empty((len(x), 3 * self.width), np.float32) for _ in range(2))
        self._dense(x, *self._seen, seen)
        self._dense(memory, *self._kept, kept)
        self._step(seen, kept, memory)


def _gru_layers(layout: Layout, take: _Taker) -> Iterator[GruLayer]:
    if layout.gru and layout.layers[0] != layout.gru[-1]:
        raise PolicyError(
            f"the layers begin with {layout.layers[0]} numbers, and the GRU before them gives {layout.gru[-1]}. Make "
            "them the same."
        )
    for k, width in enumerate(layout.gru):
        name = f"gru.{k}"
        inputs = layout.gru[k - 1] if k else take.columns(f"{name}.weight_ih")
        yield GruLayer(take, name, inputs, width)


class _Taker:
    """Takes weights by name, checks their shapes, and remembers what was taken."""

    def __init__(self, weights: Weights, prefix: str) -> None:
        self._weights, self._prefix = weights, prefix
        self.used: set[str] = set()

    def __call__(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        array = self._found(name)
        if array.shape != shape:
            raise PolicyError(
                f"the weights {self._prefix + name!r} have the shape {array.shape}; the architecture states {shape}."
            )
        return np.ascontiguousarray(array, np.float32)

    def turned(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """A matrix as (in, out), the order that the kernels read."""
        return np.ascontiguousarray(self(name, shape).T)

    def columns(self, name: str) -> int:
        """How many inputs a matrix has."""
        array = self._found(name)
        return int(array.shape[1]) if array.ndim == 2 else 0

    def _found(self, name: str) -> np.ndarray:
        name = self._prefix + name
        if name not in self._weights:
            raise PolicyError(
                f"the policy lacks the weights {name!r}, which its architecture states. It has "
                f"{', '.join(sorted(self._weights)) or 'none'}."
            )
        self.used.add(name)
        return np.asarray(self._weights[name])
