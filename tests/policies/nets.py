"""Small real networks, made with torch and written in the layout of policies/network.py."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch

from twinproof.nouns.policy import Channel, Contract, Policy

CHANNELS = (Channel("joints", "rad", shape=(3,)), Channel("goal", "m", shape=(2,)), Channel("time", "s"))
ACTIONS = (Channel("elbow", "rad", -1.0, 3.0), Channel("wrist", "rad", -0.5, 0.5))
WIDTH = 6


def contract(**changes: Any) -> Contract:
    return Contract(CHANNELS, ACTIONS, **{"rate_hz": 20.0, **changes})


def observations(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {c.name: rng.normal(size=(count, *c.shape)) for c in CHANNELS}


def joined(seen: dict[str, np.ndarray]) -> torch.Tensor:
    rows = [seen[c.name].reshape(len(seen["time"]), -1) for c in CHANNELS]
    return torch.tensor(np.concatenate(rows, axis=1), dtype=torch.float32)


def mlp(widths: list[int], activation: str = "elu", norm: bool = False, seed: int = 0) -> torch.nn.Sequential:
    torch.manual_seed(seed)
    bend = {"elu": torch.nn.ELU, "relu": torch.nn.ReLU, "tanh": torch.nn.Tanh}[activation]
    parts: list[torch.nn.Module] = []
    for k, (a, b) in enumerate(pairwise(widths)):
        parts.append(torch.nn.Linear(a, b))
        if k < len(widths) - 2:
            parts += [*([torch.nn.LayerNorm(b)] if norm else []), bend()]
    network = torch.nn.Sequential(*parts)
    for part in network:
        if isinstance(part, torch.nn.LayerNorm):
            torch.nn.init.normal_(part.weight)
            torch.nn.init.normal_(part.bias)
    return network


def weights_of(network: torch.nn.Sequential, prefix: str = "") -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    k = -1
    for part in network:
        if isinstance(part, torch.nn.Linear):
            k += 1
        name = f"{prefix}layers.{k}" + (".norm" if isinstance(part, torch.nn.LayerNorm) else "")
        for key, value in part.state_dict().items():
            found[f"{name}.{key}"] = value.numpy().copy()
    return found


def policy(widths: list[int], seed: int = 0, **changes: Any) -> Policy:
    network = mlp(widths, seed=seed)
    given = {"contract": contract(), "weights": weights_of(network), **changes}
    architecture = {"layers": widths, "activation": "elu", "output": "limits", **given.pop("architecture", {})}
    return Policy(**{"kind": "mlp", "parents": {}, "architecture": architecture, **given})


def gru_policy(hidden: int = 5, seed: int = 0) -> tuple[Policy, torch.nn.GRU, torch.nn.Sequential]:
    torch.manual_seed(seed)
    gru, head = torch.nn.GRU(WIDTH, hidden, num_layers=2), mlp([hidden, 4, 2], seed=seed)
    weights = weights_of(head)
    for key, value in gru.state_dict().items():
        name, layer = key.rsplit("_l", 1)
        weights[f"gru.{layer}.{name}"] = value.numpy().copy()
    architecture = {"layers": [hidden, 4, 2], "gru": [hidden, hidden]}
    return Policy("recurrent", contract(), {}, architecture, weights), gru, head
