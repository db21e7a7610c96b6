"""A small contract and networks for it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from twinproof.nouns.policy import Channel, Contract
from twinproof.nouns.randomness import stream
from twinproof.train.written import Trained

SEEN = (Channel("position", "rad", shape=(2,)), Channel("speed", "rad/s", shape=(2,)), Channel("goal", "m"))
ACTIONS = (Channel("shoulder", "N·m", -2.0, 2.0), Channel("elbow", "N·m", -1.0, 3.0))


def contract(history: int = 1) -> Contract:
    return Contract(SEEN, ACTIONS, 50.0, history=history)


def network(seed: int = 0, history: int = 1, hidden: int = 16) -> Trained:
    """Random weights and scales."""
    rng = stream(seed, "test", "network")
    sizes = [5 * history, hidden, hidden, 2]
    layers = tuple(
        ((rng.normal(size=(b, a)) / np.sqrt(a)).astype(np.float32), rng.normal(size=b).astype(np.float32))
        for a, b in pairwise(sizes)
    )
    return Trained(layers, rng.normal(size=5).astype(np.float32), rng.uniform(0.2, 3, 5).astype(np.float32))


def observations(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = stream(seed, "test", "observations")
    return {c.name: rng.normal(size=(count, *c.shape)) * 3 for c in SEEN}
