"""An actor that thinks while the robot moves: the chunk at hand is played until the next one has arrived."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from twinproof.nouns.actor import Actor
from twinproof.nouns.errors import PolicyError
from twinproof.policies.chunks import checked_execute


class Background:
    """One robot, one question under way. The first answer is waited for; later ones skip the ticks that have passed.

    Where a chunk ends before the next has come its last action is held, for at most `patience` ticks; then it is an
    error. `starved` counts those ticks, `latency_s` has the time of every answer. `chunks.Delayed` simulates the same.
    """

    def __init__(self, actor: Actor, execute: int | None = None, patience: int = 5) -> None:
        self.contract, self._actor = replace(actor.contract, chunk=1), actor
        self.execute, self.patience = checked_execute(actor, execute), patience
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="policy")
        self._coming: Future[np.ndarray] | None = None
        self._chunk: np.ndarray | None = None
        self._ready = False
        self.latency_s: list[float] = []
        self.starved = 0

    def reset(self, count: int, seed: int, which: np.ndarray | None = None) -> None:
        """Waits for what is under way, forgets it, and resets the actor."""
        if count != 1:
            raise PolicyError(f"an actor in the background drives one robot, and was reset for {count} worlds.")
        self.wait()
        self._actor.reset(1, seed)
        self._chunk, self._age, self._since, self.starved, self._ready = None, 0, 0, 0, True

    def act(self, observations: Mapping[str, np.ndarray]) -> np.ndarray:
        """The action of this tick, (1, 1, actions), at once."""
        if not self._ready:
            raise PolicyError("an actor was asked to act before it was reset. Call reset first.")
        if self._chunk is None:
            self._chunk, self._age = self._timed(observations), 0
        elif self._coming is not None and self._coming.done():
            coming, self._coming = self._coming, None
            self._chunk, self._age = coming.result(), self._since
        if self._coming is None and self._age >= self.execute:
            kept = {name: np.array(array) for name, array in observations.items()}
            self._coming, self._since = self._pool.submit(self._timed, kept), 0
        last = self._chunk.shape[1] - 1
        over = max(0, self._age - last)
        self.starved += over > 0
        if over > self.patience:
            raise PolicyError(
                f"the policy has not answered for {self._since} ticks, and its last chunk ended {over} ticks ago. Play "
                "less of each chunk, or make the policy faster."
            )
        given: np.ndarray = self._chunk[:, min(self._age, last)][:, None].copy()
        self._age, self._since = self._age + 1, self._since + 1
        return given

    @property
    def asking(self) -> np.ndarray:
        """Whether the next `act` asks (1,)."""
        under_way = self._coming is not None and not self._coming.done()
        age = self._age if self._coming is None else self._since
        return np.array([self._chunk is None or (not under_way and age >= self.execute)])

    def wait(self) -> None:
        """Waits for what is under way, and forgets it; an error of the answer is raised."""
        if self._coming is not None:
            coming, self._coming = self._coming, None
            coming.result()

    def _timed(self, observations: Mapping[str, np.ndarray]) -> np.ndarray:
        began = time.perf_counter()
        given = self._actor.act(observations)
        self.latency_s.append(time.perf_counter() - began)
        return given

    def close(self) -> None:
        """Waits for the thread to end."""
        self._pool.shutdown(wait=True)
