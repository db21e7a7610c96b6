"""From a trained network to a Policy in the layout of policies/network.py: layers by name, input.mean and input.sd."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from twinproof.nouns.errors import PolicyError
from twinproof.nouns.hashing import Json
from twinproof.nouns.ledger import LedgerHead
from twinproof.nouns.policy import Contract, Policy, require_same

Output = Literal["limits", "tanh"]


@dataclass(frozen=True, eq=False)
class Seen:
    """Convolutions of pictures (policies/network_eyes.py): weight (out, in, k, k) and bias (out) of each."""

    layers: tuple[tuple[np.ndarray, np.ndarray], ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Trained:
    """A multi-layer perceptron (ELU between layers) and the scale of its input: what every algorithm hands over."""

    layers: tuple[tuple[np.ndarray, np.ndarray], ...]  # weight (out, in) and bias (out) of each
    mean: np.ndarray  # (width,) of one observation, not of its history
    sd: np.ndarray
    encoder: tuple[tuple[np.ndarray, np.ndarray], ...] = ()  # of the history, where the policy has one
    eyes: Seen | None = None  # convolutions of its pictures, where it sees any
    output: Output = "limits"  # "tanh": squashed into the limits of the actions

    @staticmethod
    def of(sequential: Any, mean: Any, sd: Any, encoder: Any = (), eyes: Seen | None = None) -> Trained:
        """From torch Sequentials of Linear and ELU."""
        return Trained(pairs_of(sequential), _numpy(mean), _numpy(sd), pairs_of(encoder), eyes)


@dataclass(frozen=True)
class Origin:
    """What a policy came from."""

    parents: Mapping[str, str]  # "twin", "randomization", "recording", "teacher", … -> hash
    seed: int = 0
    training: Mapping[str, Json] = field(default_factory=dict)  # algorithm, settings, steps, final figures
    episodes: tuple[str, ...] = ()
    ledger: LedgerHead | None = None


def policy_of(trained: Trained, contract: Contract, origin: Origin) -> Policy:
    """The Policy noun of a network for a contract; one that sees privileged channels is not deployable."""
    return Policy(
        kind="mlp",
        contract=contract,
        parents=origin.parents,
        architecture=_architecture(trained),
        weights=_arrays(trained),
        deployable=not contract.privileged,
        seed=origin.seed,
        episodes=origin.episodes,
        training=origin.training,
        ledger=origin.ledger,
    )


def residual_of(trained: Trained, base: Policy, share: float, origin: Origin) -> Policy:
    """The base and, on top of its action, a correction of at most about `share` of half the action's range."""
    if base.kind != "mlp" or "base_architecture" in base.architecture or base.normaliser:
        raise PolicyError(
            f"the base policy {base.hash[:12]} is of kind {base.kind!r}; a residual stands on an mlp that twinproof "
            "train wrote and that has no base of its own."
        )
    arrays = _arrays(trained) | {f"base.{name}": array for name, array in base.weights.items()}
    architecture = _architecture(trained) | {
        "base": base.hash,
        "base_architecture": dict(base.architecture),
        "residual_share": share,
    }
    return Policy(
        kind="mlp",
        contract=base.contract,
        parents={**origin.parents, "base": base.hash},
        architecture=architecture,
        weights=arrays,
        deployable=base.deployable,
        seed=origin.seed,
        episodes=tuple(sorted({*origin.episodes, *base.episodes})),
        training=origin.training,
        ledger=origin.ledger or base.ledger,
    )


def trained_of(policy: Policy, contract: Contract, where: str) -> Trained:
    """The network of a policy that twinproof train wrote, to go on from; another contract is refused."""
    require_same(contract, policy.contract, where)
    count = sum(name.startswith("layers.") and name.endswith(".weight") for name in policy.weights)
    if policy.kind != "mlp" or "input.mean" not in policy.weights or not count:
        raise PolicyError(f"{where} is no network that twinproof train wrote: it lacks 'input.mean' or its layers.")
    layers = tuple((policy.weights[f"layers.{k}.weight"], policy.weights[f"layers.{k}.bias"]) for k in range(count))
    output: Output = "tanh" if policy.architecture.get("output") == "tanh" else "limits"
    return Trained(layers, policy.weights["input.mean"], policy.weights["input.sd"], output=output)


def _architecture(trained: Trained) -> dict[str, Json]:
    found: dict[str, Json] = {"layers": _widths(trained.layers), "activation": "elu", "output": trained.output}
    if trained.encoder:
        found["encoder"] = {"layers": _widths(trained.encoder), "activation": "elu"}
    if trained.eyes is not None:
        kernels = [weight.shape[2] for weight, _ in trained.eyes.layers]
        filters = [len(bias) for _, bias in trained.eyes.layers]
        found["eyes"] = {"filters": filters, "kernels": kernels, "strides": list(trained.eyes.strides)}
    return found


def _widths(layers: tuple[tuple[np.ndarray, np.ndarray], ...]) -> list[int]:
    return [layers[0][0].shape[1], *(len(bias) for _, bias in layers)]


def _arrays(trained: Trained) -> dict[str, np.ndarray]:
    arrays = {"input.mean": trained.mean, "input.sd": trained.sd}
    for prefix, layers in (("", trained.layers), ("encoder.", trained.encoder)):
        for k, (weight, bias) in enumerate(layers):
            arrays |= {f"{prefix}layers.{k}.weight": weight, f"{prefix}layers.{k}.bias": bias}
    for k, (weight, bias) in enumerate(trained.eyes.layers if trained.eyes is not None else ()):
        arrays |= {f"eyes.{k}.weight": weight, f"eyes.{k}.bias": bias}
    return {name: np.ascontiguousarray(array, np.float32) for name, array in arrays.items()}


def pairs_of(sequential: Any) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Weight and bias of each layer of a torch Sequential that has any."""
    layers = [layer for layer in sequential if hasattr(layer, "weight")]
    return tuple((_numpy(layer.weight), _numpy(layer.bias)) for layer in layers)


def _numpy(tensor: Any) -> np.ndarray:
    array = tensor.detach().cpu().numpy() if hasattr(tensor, "detach") else np.asarray(tensor)
    return np.array(array, dtype=np.float32)
