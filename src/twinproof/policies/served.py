"""An actor behind a server: observations under the server's keys, its answers checked before anybody acts on them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from twinproof.nouns.errors import PolicyError
from twinproof.nouns.policy import Contract, Policy
from twinproof.policies.scripted import as_actions, require_count
from twinproof.policies.server import Server, put, server_of
from twinproof.policies.sight import checked, limits_of, mask_of


class Client(Protocol):
    """A connection to a server that speaks one framing. Whatever goes wrong is a PolicyError, and closes it."""

    about: Mapping[str, Any]  # what the server says of itself
    thought_s: list[float]  # how long the server says it thought, where it does

    def ask(self, observation: Mapping[str, Any]) -> Mapping[str, Any]: ...

    def reset(self) -> None: ...

    def close(self) -> None: ...


class ServedActor:
    """Asks a server, one world after the other. `latency_s` has the time of every answer.

    An error closes the connection; nothing is asked again by itself. The next `reset` connects anew.
    """

    def __init__(self, policy: Policy) -> None:
        self.contract, self.server = policy.contract, server_of(policy)
        self.latency_s: list[float] = []
        self.beyond_limits = 0  # numbers outside the contract's limits, not wild ones
        self._client: Client | None = None
        self._count = 0

    def reset(self, count: int, seed: int, which: np.ndarray | None = None) -> None:
        """Connects where there is no connection, and tells the server that an episode begins, where it listens."""
        mask_of(count, which)
        if count > 1 and self.server.reset:
            raise PolicyError(
                f"{self.server.address} remembers (reset = true) and has one memory; {count} worlds would share it. "
                "Run one world at a time."
            )
        self._count = count
        try:
            self.client.reset()
        except PolicyError:
            self.close()
            raise

    @property
    def client(self) -> Client:
        """The connection, made when first needed."""
        if self._client is None:
            self._client = connected(self.server)
        return self._client

    def act(self, observations: Mapping[str, np.ndarray]) -> np.ndarray:
        """The actions of each world, (N, chunk, actions), in the contract's units."""
        return self.act_in(observations, np.ones(self._count, bool))

    def act_in(self, observations: Mapping[str, np.ndarray], which: np.ndarray) -> np.ndarray:
        """The same for the worlds of a mask; nobody asks about the others, which get the middle of their limits.

        A world whose answer fails is named in the error and not asked again; the next one gets a new connection.
        """
        seen = checked(self.contract, observations, require_count(self._count))
        if self._client is None and self._count == 1:  # of several worlds, another one's answer closed it
            raise PolicyError(f"the connection to {self.server.address} is closed. A new trial (reset) connects again.")
        low, high = limits_of(self.contract)
        given = np.tile((low + high) / 2, (self._count, self.contract.chunk, 1))
        failed: dict[int, str] = {}
        for world in np.flatnonzero(which):
            try:
                given[world] = self._answer({name: array[world] for name, array in seen.items()})
            except PolicyError as problem:
                self.close()
                failed[int(world)] = str(problem)
        if failed:
            raise PolicyError(next(iter(failed.values())), failed, given)
        return given

    def _answer(self, seen: Mapping[str, np.ndarray]) -> np.ndarray:
        """The chunk (chunk, actions) for one world, checked."""
        began = time.perf_counter()
        answer = self.client.ask(request(self.server, seen))
        self.latency_s.append(time.perf_counter() - began)
        rows = actions_of(self.server, self.contract, answer)
        actions = as_actions(self.contract, rows[None], 1, self.server.address)
        self.beyond_limits += check_limits(self.contract, actions, self.server)
        checked_rows: np.ndarray = actions[0]
        return checked_rows

    def close(self) -> None:
        """Ends the connection."""
        if self._client is not None:
            client, self._client = self._client, None
            client.close()


def connected(server: Server) -> Client:
    """A new connection in the server's framing."""
    if server.framing == "openpi":
        from twinproof.policies.openpi import OpenpiClient

        return OpenpiClient(server)
    from twinproof.policies.groot import GrootClient

    return GrootClient(server)


def request(server: Server, seen: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The observation of one world under the server's keys, pictures as they are wanted, numbers as float32."""
    from twinproof.policies.resize import resized

    message: dict[str, Any] = {}
    for sent in server.send:
        value = seen[sent.channel]
        if value.ndim == 3:
            value = resized(value, sent.size) if sent.size else value
            value = value.transpose(2, 0, 1) if sent.layout == "chw" else value
        else:
            value = value.reshape(-1)[list(sent.columns)] if sent.columns else value
            value = np.asarray(value * sent.scale + sent.offset, np.float32)
        put(message, sent.key, value)
    return message


def actions_of(server: Server, contract: Contract, answer: Mapping[str, Any]) -> np.ndarray:
    """The chunk (steps, actions) of an answer, in the contract's units."""
    parts = []
    for entry in server.receive:
        value: Any = answer
        for name in entry.key:
            if not isinstance(value, Mapping) or name not in value:
                have = ", ".join(map(str, value)) if isinstance(value, Mapping) else type(value).__name__
                raise PolicyError(f"{server.address} gave no {'/'.join(entry.key)!r}. It gave {have or 'nothing'}.")
            value = value[name]
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
            found = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
            raise PolicyError(
                f"{server.address} gave {'/'.join(entry.key)!r} as {found}; an array of floats is needed."
            )
        rows = value[:, None] if value.ndim == 1 else value
        if rows.ndim != 2 or (entry.columns and max(entry.columns) >= rows.shape[1]):
            raise PolicyError(
                f"{server.address} gave {'/'.join(entry.key)!r} of shape {value.shape}; (steps, numbers) is needed"
                f"{f' with the columns {list(entry.columns)}' if entry.columns else ''}."
            )
        rows = rows[:, list(entry.columns)] if entry.columns else rows
        parts.append(rows.astype(np.float64) * entry.scale + entry.offset)
    steps = {len(part) for part in parts}
    width = sum(part.shape[1] for part in parts)
    if steps != {contract.chunk} or width != len(contract.actions):
        raise PolicyError(
            f"{server.address} gave {width} actions in chunks of {', '.join(map(str, sorted(steps)))}; the contract "
            f"states {len(contract.actions)} in chunks of {contract.chunk}."
        )
    return np.concatenate(parts, axis=1)


def check_limits(contract: Contract, actions: np.ndarray, server: Server) -> int:
    """How many numbers are beyond their limits; wild ones, as of wrong units, are an error."""
    low, high = limits_of(contract)
    beyond = np.maximum(low - actions, actions - high) / (high - low)
    if (beyond > server.wild).any():
        world, step, k = np.unravel_index(int(np.argmax(beyond)), beyond.shape)
        raise PolicyError(
            f"{server.address} gave {actions[world, step, k]:.4g} {contract.actions[k].unit} for "
            f"{contract.actions[k].name!r}, whose limits are {low[k]:g} to {high[k]:g}. Check units, order and scale; "
            "nothing was sent to the robot."
        )
    return int((beyond > 1e-9).sum())
