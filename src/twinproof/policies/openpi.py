"""A client of openpi's policy server (π0, π0.5, and whatever speaks its framing): websocket and msgpack.

The server first tells about itself; then every binary message is a question or an answer; a text is its traceback.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from twinproof.nouns.errors import PolicyError
from twinproof.policies import wire
from twinproof.policies.server import Server, put

PROMPT = ("prompt",)
TOO_BIG = 1009  # how a websocket says that a message was larger than allowed


class OpenpiClient:
    """One connection. After an error it is closed, and stays so: a late answer must not be taken for the next one."""

    def __init__(self, server: Server) -> None:
        client = wire.needed("websockets.sync.client")
        failed = wire.needed("websockets.exceptions").WebSocketException
        self._lost = (OSError, failed, AssertionError)  # websockets asserts when a peer vanishes while it writes
        self.server, self.thought_s = server, list[float]()
        key = os.environ.get(server.key_variable, "") if server.key_variable else ""
        try:
            self._socket = client.connect(
                server.address,
                compression=None,
                max_size=server.largest_mib * 2**20,
                open_timeout=server.connect_s,
                close_timeout=1.0,
                ping_interval=None,  # a server that thinks does not answer pings
                proxy=None,
                additional_headers={"Authorization": f"Api-Key {key}"} if key else None,
            )
        except self._lost as problem:
            raise PolicyError(
                f"no policy server answers at {server.address} ({type(problem).__name__}: {problem}). Start it, or "
                "correct the address; nothing moved."
            ) from None
        try:
            self.about = self._table(server.connect_s, "told about itself")
        except PolicyError:
            self.close()
            raise

    def ask(self, observation: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer to one observation."""
        message = dict(observation)
        if self.server.instruction:
            put(message, self.server.instruction_key or PROMPT, self.server.instruction)
        answer = self._exchange(message)
        timing = answer.get("server_timing")
        thought = timing.get("infer_ms") if isinstance(timing, Mapping) else None
        if isinstance(thought, (int, float)):
            self.thought_s.append(float(thought) / 1e3)
        return answer

    def reset(self) -> None:
        """Tells the server that an episode begins, where it understands that."""
        if self.server.reset:
            self._exchange({"endpoint": "reset"})

    def _exchange(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            self._socket.send(wire.pack(message, "openpi"))
        except self._lost as problem:
            raise self._gone(problem) from None
        return self._table(self.server.timeout_s, "answered")

    def _table(self, timeout_s: float, when: str) -> Mapping[str, Any]:
        began = time.monotonic()
        try:
            data = self._socket.recv(timeout=timeout_s)
        except TimeoutError:
            self.close()
            raise PolicyError(
                f"{self.server.address} was silent for {time.monotonic() - began:.1f} s before it {when}. The "
                "connection was closed and the question is not asked again; allow more with timeout_s."
            ) from None
        except self._lost as problem:
            raise self._gone(problem) from None
        if isinstance(data, str):
            self.close()
            last = data.strip().splitlines()[-1:] or ["nothing"]
            raise PolicyError(f"{self.server.address} failed and says: {last[0]:.300}. Look at the server's own log.")
        answer = wire.unpack(data, self.server.address)
        if not isinstance(answer, Mapping):
            raise PolicyError(f"{self.server.address} sent {type(answer).__name__}; a table is needed.")
        return answer

    def _gone(self, problem: Exception) -> PolicyError:
        self.close()
        sent = getattr(problem, "sent", None)
        if sent is not None and sent.code == TOO_BIG:
            return PolicyError(
                f"{self.server.address} sent more than {self.server.largest_mib} MiB at once. It was not read, and "
                "the connection was closed."
            )
        return PolicyError(
            f"the connection to {self.server.address} is lost ({problem}). The question is not asked again: stop, and "
            "begin a new trial."
        )

    def close(self) -> None:
        """Ends the connection; a second call does nothing."""
        self._socket.close()
