"""From chunks of actions to one action a tick: receding horizon, temporal ensembling, and an answer that comes late.

An actor that remembers (a history, a GRU) is asked at every tick, so that it sees every tick; one that does not is
asked only when some world needs it, with all worlds, and only the worlds in need take the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from twinproof.nouns.actor import Actor
from twinproof.nouns.errors import PolicyError
from twinproof.nouns.randomness import stream
from twinproof.policies.scripted import require_count
from twinproof.policies.sight import mask_of

Seen = Mapping[str, np.ndarray]
Ask = Callable[[Seen, np.ndarray], np.ndarray]  # some worlds alone, by a mask


class Chunked:
    """Plays the first `execute` actions of each chunk, then asks again: a receding horizon.

    `ask` asks some worlds alone, given by a mask, where that is cheaper than asking all.
    """

    def __init__(
        self,
        actor: Actor,
        execute: int | None = None,
        remembers: bool = False,
        ask: Ask | None = None,
    ) -> None:
        self.contract, self._actor = replace(actor.contract, chunk=1), actor
        self._ask = ask or (lambda seen, which: actor.act(seen))
        self.execute = checked_execute(actor, execute)
        self._remembers = remembers or actor.contract.history > 1
        self._chunk, self._age = np.zeros((0, 0, 0)), np.zeros(0, np.int64)
        self._resting = np.zeros(0, bool)

    def reset(self, count: int, seed: int, which: np.ndarray | None = None) -> None:
        """Forgets the chunks of the worlds of the mask."""
        mask = mask_of(count, which)
        self._actor.reset(count, seed, which)
        if mask is None or len(self._age) != count:
            self._chunk = np.zeros((count, self._actor.contract.chunk, len(self.contract.actions)))
            self._age, self._resting = np.full(count, self.execute), np.zeros(count, bool)
        else:
            self._age[mask], self._resting[mask] = self.execute, False

    def rest(self, which: np.ndarray) -> None:
        """The worlds of the mask are not asked any more until their reset: nobody looks at their actions."""
        self._resting |= which

    def act(self, observations: Seen) -> np.ndarray:
        """The action of this tick, (N, 1, actions)."""
        require_count(len(self._age))
        asked, problem = self.asking, None
        if asked.any():
            fresh, problem = answered(self._ask, observations, asked)
            spent = asked & (self._age >= self.execute)
            self._chunk[spent] = fresh[spent]
            self._age[spent] = 0
        last = self._chunk.shape[1] - 1
        given: np.ndarray = self._chunk[np.arange(len(self._age)), np.minimum(self._age, last)][:, None]
        self._age += 1
        if problem is not None:
            raise PolicyError(str(problem), problem.failed, given)
        return given

    @property
    def asking(self) -> np.ndarray:
        """The worlds that the next `act` asks about (N,): those whose chunk is played; all, of one that remembers."""
        asked: np.ndarray = (self._age >= self.execute) | self._remembers
        return asked & ~self._resting


def asking(actor: Actor, count: int) -> np.ndarray:
    """The worlds (N,) in which the policy will be asked at the next tick: all, but those that still play a chunk."""
    found: np.ndarray | None = getattr(actor, "asking", None)
    return np.ones(count, dtype=bool) if found is None else found


def rest(actor: Actor, which: np.ndarray) -> None:
    """Nobody asks about the worlds of a mask any more, where the actor can leave worlds out."""
    if isinstance(actor, (Chunked, Delayed)):
        actor.rest(which)


def answered(ask: Ask, seen: Seen, which: np.ndarray) -> tuple[np.ndarray, PolicyError | None]:
    """What a policy answers, and the error that names the worlds in which it did not; one of every world is raised."""
    try:
        return ask(seen, which), None
    except PolicyError as problem:
        if problem.given is None:
            raise
        return np.asarray(problem.given), problem


class Ensembled:
    """Asks at every tick and averages what all chunks say of it, the oldest with weight 1, the next exp(-decay), …"""

    def __init__(self, actor: Actor, decay: float = 0.01) -> None:
        if not 0 <= decay < np.inf:
            raise PolicyError(f"temporal ensembling with a decay of {decay}; zero or more is needed.")
        self.contract, self._actor, self._decay = replace(actor.contract, chunk=1), actor, decay
        self._chunks, self._held = np.zeros((0, 0, 0, 0)), np.zeros(0, np.int64)

    def reset(self, count: int, seed: int, which: np.ndarray | None = None) -> None:
        """Forgets the chunks of the worlds of the mask."""
        mask = mask_of(count, which)
        self._actor.reset(count, seed, which)
        length = self._actor.contract.chunk
        if mask is None or len(self._held) != count:
            self._chunks = np.zeros((count, length, length, len(self.contract.actions)))  # [n, j]: asked j ticks ago
            self._held = np.zeros(count, np.int64)
        else:
            self._held[mask] = 0

    def act(self, observations: Seen) -> np.ndarray:
        """The average of what was foreseen for this tick, (N, 1, actions)."""
        require_count(len(self._held))
        fresh, problem = answered(lambda seen, which: self._actor.act(seen), observations, self._held >= 0)
        self._chunks[:, 1:] = self._chunks[:, :-1]
        self._chunks[:, 0] = fresh
        length = self._chunks.shape[1]
        self._held = np.minimum(self._held + 1, length)
        ago = np.arange(length)
        foreseen = self._chunks[:, ago, ago]  # (N, length, A): the chunk of j ticks ago on its action j
        newer = self._held[:, None] - 1 - ago  # place in the row, the oldest is 0
        weight = np.where(newer >= 0, np.exp(-self._decay * np.maximum(newer, 0)), 0.0)
        weight /= weight.sum(axis=1, keepdims=True)
        given: np.ndarray = (weight[:, :, None] * foreseen).sum(axis=1, keepdims=True)
        if problem is not None:
            raise PolicyError(str(problem), problem.failed, given)
        return given


class Late(Protocol):
    """How late answers come."""

    def ticks(self, rate_hz: float, seed: int, call: int) -> int:
        """Ticks until the answer to a call is there."""
        ...


@dataclass(frozen=True)
class Latency:
    """How long an answer takes: one of these times, drawn anew for each call."""

    samples_s: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.samples_s or not all(0 <= sample < np.inf for sample in self.samples_s):
            raise PolicyError(f"latencies are {list(self.samples_s)[:5]} s; give at least one, none below zero.")

    def ticks(self, rate_hz: float, seed: int, call: int) -> int:
        """Ticks until the answer to a call is there: the same for every world, and in any company."""
        rng = stream(seed, "latency", str(call))
        return int(np.ceil(self.samples_s[int(rng.integers(len(self.samples_s)))] * rate_hz - 1e-9))


@dataclass(frozen=True, eq=False)
class Measured:
    """As long as answers took so far, which somebody writes down as they come."""

    took_s: list[float]

    def ticks(self, rate_hz: float, seed: int, call: int) -> int:
        """Ticks until the answer to a call is there, as long as one of those before it took."""
        return Latency(tuple(self.took_s)).ticks(rate_hz, seed, call)


class Delayed:
    """An actor whose answers come late, as a server's do; one question at a time is under way.

    The first answer of an episode is waited for. Later ones arrive after their latency, and what they say of ticks that
    have passed is skipped. Meanwhile the old chunk goes on; where it ends its last action is held, and `starved` counts
    those ticks.
    """

    def __init__(
        self,
        actor: Actor,
        latency: Late,
        execute: int | None = None,
        remembers: bool = False,
        ask: Ask | None = None,
    ) -> None:
        self.contract, self._actor, self.latency = replace(actor.contract, chunk=1), actor, latency
        self._ask_in = ask or (lambda seen, which: actor.act(seen))
        self.execute = checked_execute(actor, execute)
        self._remembers = remembers or actor.contract.history > 1
        self.starved, self._resting = np.zeros(0, np.int64), np.zeros(0, bool)

    def reset(self, count: int, seed: int, which: np.ndarray | None = None) -> None:
        """Forgets the chunks of the worlds of the mask, and what was under way for them."""
        mask = mask_of(count, which)
        self._actor.reset(count, seed, which)
        if mask is None or len(self.starved) != count:
            shape = (count, self._actor.contract.chunk, len(self.contract.actions))
            self._chunk, self._coming = np.zeros(shape), np.zeros(shape)
            self._age, self._left, self._took, self._calls, self._seed, self.starved = np.zeros((6, count), np.int64)
            mask, self._resting = np.ones(count, bool), np.zeros(count, bool)
        self._resting[mask] = False
        self._age[mask], self._left[mask] = -1, -1  # no chunk yet; nothing under way
        self._calls[mask], self._seed[mask], self.starved[mask] = 0, seed, 0

    def act(self, observations: Seen) -> np.ndarray:
        """The action of this tick, (N, 1, actions)."""
        require_count(len(self.starved))
        asks, problem = self._needy, None
        if self.asking.any():
            fresh, problem = answered(self._ask_in, observations, self.asking)
            for world in np.flatnonzero(asks):
                self._ask(int(world), fresh[world])
        due = self._left == 0
        self._chunk[due], self._age[due] = self._coming[due], self._took[due]
        self._left[due] = -1
        last = self._chunk.shape[1] - 1
        self.starved += self._age > last
        given: np.ndarray = self._chunk[np.arange(len(due)), np.minimum(self._age, last)][:, None]
        self._age += 1
        self._left[self._left > 0] -= 1
        if problem is not None:
            raise PolicyError(str(problem), problem.failed, given)
        return given

    @property
    def _needy(self) -> np.ndarray:
        """The worlds that ask at this tick: nothing is under way, and enough of their chunk is played."""
        needy: np.ndarray = (self._left < 0) & ((self._age < 0) | (self._age >= self.execute)) & ~self._resting
        return needy

    @property
    def asking(self) -> np.ndarray:
        """The worlds that the next `act` asks about (N,); all, of one that remembers."""
        return self._needy | (~self._resting & self._remembers)

    def rest(self, which: np.ndarray) -> None:
        """The worlds of the mask are not asked any more until their reset."""
        self._resting |= which

    def _ask(self, world: int, answer: np.ndarray) -> None:
        first = self._age[world] < 0
        took = (
            0 if first else self.latency.ticks(self.contract.rate_hz, int(self._seed[world]), int(self._calls[world]))
        )
        self._coming[world], self._left[world], self._took[world] = answer, took, took
        self._calls[world] += 1


def checked_execute(actor: Actor, execute: int | None) -> int:
    """How many actions of a chunk are played: all of them where nothing is said."""
    chunk = actor.contract.chunk
    played = chunk if execute is None else execute
    if not 1 <= played <= chunk:
        raise PolicyError(
            f"{played} actions of each chunk are to be played, and a chunk has {chunk}. Give 1 to {chunk}."
        )
    return played
