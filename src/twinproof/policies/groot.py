"""A client of GR00T's policy server: ZMQ and msgpack, flat observations (N1.5) or nested ones (N1.6 and later).

groot-flat   {"video.front": (1, H, W, 3), "state.arm": (1, D), "annotation.human.task_description": [text]}
groot        {"video": {"front": (1, 1, H, W, 3)}, "state": {"arm": (1, 1, D)}, "language": {"task": [[text]]}}
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from twinproof.nouns.errors import PolicyError
from twinproof.policies import wire
from twinproof.policies.server import Server, put

FLAT_TASK, NESTED_TASK = ("annotation.human.task_description",), ("language", "task")


class GrootClient:
    """One connection. After an error it is closed, and stays so: a late answer must not be taken for the next one."""

    def __init__(self, server: Server) -> None:
        self._zmq = wire.needed("zmq")
        self.server, self.thought_s, self._nested = server, list[float](), server.framing == "groot"
        self._token = os.environ.get(server.key_variable, "") if server.key_variable else ""
        self._context = self._zmq.Context()
        self._socket = self._context.socket(self._zmq.REQ)
        self._socket.setsockopt(self._zmq.LINGER, 0)
        self._socket.setsockopt(self._zmq.MAXMSGSIZE, server.largest_mib * 2**20)
        try:
            self._socket.connect(server.address)
        except self._zmq.ZMQError as problem:
            self.close()
            raise PolicyError(f"{server.address} is no address for ZMQ ({problem}). Use tcp://host:port.") from None
        try:
            self._call("ping", None, server.connect_s)
            about = self._call("get_modality_config", None, server.connect_s)
        except PolicyError:
            self.close()
            raise
        self.about: Mapping[str, Any] = about if isinstance(about, Mapping) else {}

    def ask(self, observation: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer to one observation: arrays (steps, numbers) by name."""
        lead = (None, None) if self._nested else (None,)
        message = _with_axes(observation, lead)
        text = self.server.instruction
        if text:
            own = NESTED_TASK if self._nested else FLAT_TASK
            put(message, self.server.instruction_key or own, [[text]] if self._nested else [text])
        data = {"observation": message, "options": None} if self._nested else message
        answer = self._call("get_action", data, self.server.timeout_s)
        if self._nested and isinstance(answer, (list, tuple)) and answer:
            answer = answer[0]  # the actions; the second entry tells about them
        if not isinstance(answer, Mapping):
            raise PolicyError(f"{self.server.address} sent {type(answer).__name__}; a table of actions is needed.")
        return {name: _without_batch(value) if self._nested else value for name, value in answer.items()}

    def reset(self) -> None:
        """Tells the server that an episode begins; N1.5 has no word for it."""
        if self._nested:
            self._call("reset", {"options": None}, self.server.connect_s)

    def _call(self, endpoint: str, data: Mapping[str, Any] | None, timeout_s: float) -> Any:
        request: dict[str, Any] = {"endpoint": endpoint}
        if data is not None:
            request["data"] = data
        if self._token:
            request["api_token"] = self._token
        if self._socket.closed:
            raise PolicyError(f"the connection to {self.server.address} is closed. A new trial (reset) connects again.")
        self._socket.send(wire.pack(request, "npy"))
        if not self._socket.poll(round(timeout_s * 1000), self._zmq.POLLIN):
            self.close()
            raise PolicyError(
                f"{self.server.address} did not answer {endpoint!r} within {timeout_s:g} s: it is away, slow, lost, "
                f"or its answer has more than {self.server.largest_mib} MiB. The question is not asked again."
            )
        answer = wire.unpack(self._socket.recv(), self.server.address)
        if isinstance(answer, Mapping) and "error" in answer:
            raise PolicyError(f"{self.server.address} failed at {endpoint!r} and says: {answer['error']!s:.300}.")
        return answer

    def close(self) -> None:
        """Ends the connection; a second call does nothing."""
        self._socket.close(linger=0)
        self._context.term()


def _with_axes(value: Any, lead: tuple[None, ...]) -> Any:
    if isinstance(value, Mapping):
        return {name: _with_axes(item, lead) for name, item in value.items()}
    return np.asarray(value)[lead]


def _without_batch(value: Any) -> Any:
    return value[0] if isinstance(value, np.ndarray) and value.ndim == 3 and len(value) == 1 else value
