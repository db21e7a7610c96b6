"""A network of a policy as an actor: joined observations, normaliser, history, network, actions in their units."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from twinproof.nouns.errors import PolicyError
from twinproof.nouns.policy import Channel, Policy, Scale
from twinproof.policies.network import Layout, Network
from twinproof.policies.sight import History, checked, limits_of, mask_of, row_of, width_of

NONE = Scale(0.0, 1.0)


class NetworkActor:
    """An MLP or a recurrent network that acts in N worlds at once (network.py has the layout)."""

    def __init__(self, policy: Policy) -> None:
        self.contract = policy.contract
        layout = Layout.of(policy.architecture)
        if (policy.kind == "recurrent") != bool(layout.gru):
            raise PolicyError(
                f"a policy of kind {policy.kind!r} has the GRU widths {list(layout.gru)}. A recurrent one has at least "
                "one, an mlp has none."
            )
        self._main = _Head(policy, layout, "")
        self._base = None
        if layout.base_architecture is not None:
            self._base = _Head(policy, layout.base_architecture, "base.")
        left = set(policy.weights) - self._main.used - (self._base.used if self._base else set())
        if left:
            raise PolicyError(f"the policy holds the weights {', '.join(sorted(left))}, which its architecture lacks.")
        self._count = 0

    def reset(self, count: int, seed: int, which: np.ndarray | None = None) -> None:
        """Forgets memory and history in the worlds of the mask. The seed is not used: nothing is drawn."""
        mask = mask_of(count, which)
        self._count = count
        for head in (self._main, self._base):
            if head is not None:
                head.reset(count, mask)

    def act(self, observations: Mapping[str, np.ndarray]) -> np.ndarray:
        """The actions of each world, (N, chunk, actions), in the contract's units."""
        if not self._count:
            raise PolicyError("an actor was asked to act before it was reset. Call reset first.")
        seen = checked(self.contract, observations, self._count)
        y = self._main.infer(seen)
        if self._base is None:
            action: np.ndarray = self._main.centre + self._main.reach * y
        else:
            action = self._base.centre + self._base.reach * self._base.infer(seen)
            action += self._main.layout.residual_share * self._main.half * y
        if not np.isfinite(action).all():
            world = int(np.argwhere(~np.isfinite(action))[0][0])
            raise PolicyError(
                f"the network overflows in world {world}: its action is not finite. Its input is far from what it was "
                "trained on."
            )
        return action


class _Head:
    """One network with its normaliser, its history and its memory."""

    def __init__(self, policy: Policy, layout: Layout, prefix: str) -> None:
        contract = policy.contract
        self.layout, self._network = layout, Network(layout, policy.weights, prefix)
        self._flat, self._pictures = _by_kind(contract.observations, layout)
        width, self._shape = width_of(self._flat), (-1, contract.chunk, len(contract.actions))
        self._mean, self._sd, arrays = _normaliser(policy, prefix, self._flat)
        self.used = self._network.used | arrays
        self._history = History(contract.history, width)
        self._check(contract.history * width, width, contract.chunk * len(contract.actions))
        low, high = limits_of(contract)
        self.half = (high - low) / 2
        scales = [policy.normaliser.get(action.name) for action in contract.actions]
        self.centre = np.array([s.mean if s else m for s, m in zip(scales, (low + high) / 2, strict=True)])
        self.reach = np.array([s.sd if s else h for s, h in zip(scales, self.half, strict=True)])
        self._memory = self._network.memory(0)
        self.reset(1, None)
        self.infer(
            {c.name: np.zeros((1, *c.shape), np.float32) for c in contract.observations}
        )  # compiled now, and not
        # in a robot's first tick
        self.reset(0, None)

    def _check(self, stacked: int, width: int, outputs: int) -> None:
        encoder = self.layout.encoder
        if encoder is not None and encoder.layers[0] != stacked:
            raise PolicyError(f"the encoder takes {encoder.layers[0]} numbers; the contract's history has {stacked}.")
        sees = stacked if encoder is None else width + encoder.layers[-1]
        if self.layout.eyes is not None:
            sees += len(self._pictures) * self.layout.eyes.features
            for picture in self._pictures:
                self.layout.eyes.places(*picture.shape[:2])
        if self._network.inputs != sees:
            raise PolicyError(
                f"the network takes {self._network.inputs} numbers; the contract's observations have {sees}."
            )
        if self.layout.layers[-1] != outputs:
            raise PolicyError(
                f"the network gives {self.layout.layers[-1]} numbers; the contract's chunk of actions has {outputs}."
            )

    def reset(self, count: int, mask: np.ndarray | None) -> None:
        self._history.reset(count, mask)
        if mask is None or any(len(kept) != count for kept in self._memory):
            self._memory = self._network.memory(count)
        else:
            for kept in self._memory:
                kept[mask] = 0.0

    def infer(self, seen: Mapping[str, np.ndarray]) -> np.ndarray:
        """y of the newest observations, squashed where the layout says so, (N, chunk, actions)."""
        newest = (row_of(self._flat, seen) - self._mean) / self._sd
        pictures = [seen[channel.name] for channel in self._pictures]
        y = self._network(newest, self._history.add(newest), self._memory, pictures)
        if self.layout.output == "tanh":
            from twinproof.policies.network_kernels import tanh

            tanh(y)
        return y.reshape(self._shape)


def _by_kind(channels: tuple[Channel, ...], layout: Layout) -> tuple[tuple[Channel, ...], tuple[Channel, ...]]:
    """What is joined to a row, and what eyes look at."""
    pictures = tuple(channel for channel in channels if len(channel.shape) == 3 and layout.eyes is not None)
    return tuple(channel for channel in channels if channel not in pictures), pictures


def _normaliser(policy: Policy, prefix: str, flat: tuple[Channel, ...]) -> tuple[np.ndarray, np.ndarray, set[str]]:
    """Mean and sd of each number of an observation, and the weights that state them."""
    width = width_of(flat)
    names = {f"{prefix}input.mean", f"{prefix}input.sd"}
    given = names & set(policy.weights)
    if not given:
        scales = [policy.normaliser.get(channel.name, NONE) for channel in flat]
        sizes = [width_of((channel,)) for channel in flat]
        mean, sd = (np.repeat(np.array([getattr(s, f) for s in scales], np.float32), sizes) for f in ("mean", "sd"))
        return mean, sd, given
    arrays = {name: np.asarray(policy.weights[name], np.float32) for name in given}
    if given != names or any(array.shape != (width,) for array in arrays.values()):
        shapes = ", ".join(f"{name} {array.shape}" for name, array in sorted(arrays.items()))
        raise PolicyError(
            f"the policy's input scales are {shapes}; {prefix}input.mean and {prefix}input.sd are needed, {width} "
            "numbers each."
        )
    if any(channel.name in policy.normaliser for channel in policy.contract.observations) and not prefix:
        raise PolicyError("the policy scales its observations twice: by input.mean and by its normaliser. Keep one.")
    sd = arrays[f"{prefix}input.sd"]
    if not (sd > 0).all():
        raise PolicyError(f"{prefix}input.sd holds {float(sd.min())}; every sd is above zero.")
    return arrays[f"{prefix}input.mean"], sd, given
