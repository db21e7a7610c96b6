"""How long a policy thinks: every call measured and kept."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from twinproof.nouns.actor import Actor
from twinproof.nouns.errors import PolicyError


@dataclass(frozen=True)
class Timing:
    """Calls, and the time that half, 95 % and 99 % of them stayed below."""

    count: int
    p50_s: float
    p95_s: float
    p99_s: float
    worst_s: float

    @staticmethod
    def of(latency_s: np.ndarray | list[float]) -> Timing:
        """The timing of these calls."""
        if not len(latency_s):
            raise PolicyError("no call was made, so nothing can be said about latency. Ask the policy first.")
        p50, p95, p99 = np.percentile(latency_s, [50, 95, 99])
        return Timing(len(latency_s), float(p50), float(p95), float(p99), float(np.max(latency_s)))


class Timed:
    """An actor whose calls are timed; `latency_s` has one number a call."""

    def __init__(self, actor: Actor) -> None:
        self.contract, self._actor = actor.contract, actor
        self.latency_s: list[float] = []

    def reset(self, count: int, seed: int, which: np.ndarray | None = None) -> None:
        """Resets the actor; what was measured is kept."""
        self._actor.reset(count, seed, which)

    def act(self, observations: Mapping[str, np.ndarray]) -> np.ndarray:
        """The actor's answer; a call that fails is no measurement."""
        began = time.perf_counter()
        given = self._actor.act(observations)
        self.latency_s.append(time.perf_counter() - began)
        return given
