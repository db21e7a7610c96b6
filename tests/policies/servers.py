"""Policy servers over loopback that speak each protocol as its makers do, written from their side and not from ours."""

from __future__ import annotations

import contextlib
import io
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgpack
import numpy as np
import zmq
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from twinproof.nouns.policy import Channel, Contract, Policy
from twinproof.policies.server import Received, Sent, Server, served_policy

CONTRACT = Contract(
    (Channel("joints", "rad", shape=(3,)), Channel("front", "", shape=(6, 8, 3))),
    (Channel("elbow", "rad", -1.0, 1.0), Channel("grip", "m", 0.0, 0.04)),
    10.0,
    chunk=4,
)


def seen(count: int = 1, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"joints": rng.normal(size=(count, 3)), "front": rng.integers(0, 255, (count, 6, 8, 3), dtype=np.uint8)}


def think(joints: np.ndarray) -> np.ndarray:
    """The reference policy: a chunk (4, 2) that depends on the joints alone."""
    steps = np.arange(4, dtype=np.float32)[:, None]
    return (np.tanh(np.float32(joints[:2])) * [0.5, 0.01] + [0, 0.02] + steps * [0.01, 0.001]).astype(np.float32)


# openpi: websocket, one binary message each way, the server first


def openpi_pack(thing: Any) -> bytes:
    def encode(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return {b"__ndarray__": True, b"data": value.tobytes(), b"dtype": value.dtype.str, b"shape": value.shape}
        return {b"__npgeneric__": True, b"data": value.item(), b"dtype": value.dtype.str}

    return msgpack.packb(thing, default=encode)


def openpi_unpack(data: bytes) -> Any:
    def decode(value: Any) -> Any:
        if b"__ndarray__" in value:
            return np.ndarray(buffer=value[b"data"], dtype=np.dtype(value[b"dtype"]), shape=value[b"shape"])
        return value

    return msgpack.unpackb(data, object_hook=decode)


Talk = Callable[[ServerConnection, dict[str, Any]], None]


def well(connection: ServerConnection, message: dict[str, Any]) -> None:
    actions = think(message["observation/state"])
    connection.send(openpi_pack({"actions": actions, "server_timing": {"infer_ms": 1.5}}))


@contextlib.contextmanager
def openpi(
    talk: Talk = well, greet: Any = b"", heard: list[Any] | None = None, headers: list[Any] | None = None
) -> Iterator[str]:
    """The address of a server that greets and then answers every message by `talk`."""

    lines: list[ServerConnection] = []

    def handle(connection: ServerConnection) -> None:
        lines.append(connection)
        if headers is not None:
            headers.append(connection.request.headers.get("Authorization"))
        with contextlib.suppress(ConnectionClosed, OSError):
            connection.send(greet or openpi_pack({"policy": "reference"}))
            for data in connection:
                message = openpi_unpack(data)
                if heard is not None:
                    heard.append(message)
                talk(connection, message)

    with serve(
        handle, "127.0.0.1", 0, compression=None, max_size=None, ping_interval=None, close_timeout=0.2
    ) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()
            for line in lines:  # who forgot to hang up would keep the server's thread for ever
                with contextlib.suppress(OSError):
                    line.socket.shutdown(socket.SHUT_RDWR)


def openpi_server(address: str, **changes: Any) -> Server:
    send = (
        Sent(("observation/state",), "joints"),
        Sent(("images", "cam_high"), "front", size=(12, 12), layout="chw"),
    )
    given = {"send": send, "receive": (Received(("actions",)),), "instruction": "push the box"}
    return Server(address, "openpi", **{**given, "timeout_s": 2.0, "connect_s": 2.0, **changes})


# GR00T: ZMQ, a request with an endpoint, arrays as .npy


def npy(array: np.ndarray) -> dict[str, Any]:
    held = io.BytesIO()
    np.save(held, array, allow_pickle=False)
    return {"__ndarray_class__": True, "as_npy": held.getvalue()}


def groot_pack(thing: Any, newest: bool = False) -> bytes:
    def encode(value: Any) -> Any:
        if newest:  # msgpack-numpy
            return {
                b"nd": True,
                b"type": value.dtype.str,
                b"kind": b"",
                b"shape": value.shape,
                b"data": value.tobytes(),
            }
        return npy(value)

    return msgpack.packb(thing, default=encode)


def groot_unpack(data: bytes) -> Any:
    def decode(value: Any) -> Any:
        if "__ndarray_class__" in value:
            return np.load(io.BytesIO(value["as_npy"]), allow_pickle=False)
        return value

    return msgpack.unpackb(data, object_hook=decode)


class Groot:
    """How N1.5 (flat), N1.6 and N1.7 (nested) and what came after (newest arrays) answer."""

    def __init__(self, nested: bool, newest: bool = False, token: str = "") -> None:
        self.nested, self.newest, self.token = nested, newest, token
        self.heard: list[Any] = []

    def answer(self, request: dict[str, Any]) -> bytes | None:
        self.heard.append(request)
        if self.token and request.get("api_token") != self.token:
            return groot_pack({"error": "Unauthorized: Invalid API token"})
        match request.get("endpoint"):
            case "ping":
                return groot_pack({"status": "ok", "message": "Server is running"})
            case "get_modality_config":
                video = {
                    "__ModalityConfig_class__": True,
                    "as_json": {"delta_indices": [0], "modality_keys": ["front"]},
                }
                return groot_pack({"video": video})
            case "reset" if self.nested:
                return groot_pack({}) if request["data"] == {"options": None} else None
            case "get_action":
                return groot_pack(self.act(request["data"]), self.newest)
        return groot_pack({"error": f"Unknown endpoint: {request.get('endpoint')}"})

    def act(self, data: dict[str, Any]) -> Any:
        if not self.nested:
            joints, picture = data["state.arm"], data["video.front"]
            assert joints.shape == (1, 3)
            assert picture.shape == (1, 6, 8, 3)
            assert data["annotation.human.task_description"] == ["push the box"]
            chunk = think(joints[0])
            return {"action.elbow": chunk[:, :1], "action.grip": chunk[:, 1]}
        seen = data["observation"]
        assert seen["state"]["arm"].shape == (1, 1, 3)
        assert seen["video"]["front"].shape == (1, 1, 6, 8, 3)
        assert seen["language"]["task"] == [["push the box"]]
        chunk = think(seen["state"]["arm"][0, 0])
        return [{"elbow": chunk[None, :, :1], "grip": chunk[None, :, 1:]}, {}]


@contextlib.contextmanager
def groot(answer: Callable[[dict[str, Any]], bytes | None]) -> Iterator[str]:
    """The address of a server; an answer of None is silence from then on."""
    context = zmq.Context()
    end = context.socket(zmq.REP)
    end.setsockopt(zmq.LINGER, 0)
    port = end.bind_to_random_port("tcp://127.0.0.1")
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            if end.poll(20):
                given = answer(groot_unpack(end.recv()))
                if given is None:
                    break
                end.send(given)
        stop.wait()
        end.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield f"tcp://127.0.0.1:{port}"
    finally:
        stop.set()
        thread.join()
        context.term()


def groot_server(address: str, nested: bool, **changes: Any) -> Server:
    if nested:
        send = (Sent(("state", "arm"), "joints"), Sent(("video", "front"), "front"))
        receive = (Received(("elbow",)), Received(("grip",)))
    else:
        send = (Sent(("state.arm",), "joints"), Sent(("video.front",), "front"))
        receive = (Received(("action.elbow",)), Received(("action.grip",)))
    given = {"send": send, "receive": receive, "instruction": "push the box", "timeout_s": 2.0, "connect_s": 2.0}
    return Server(address, "groot" if nested else "groot-flat", **{**given, **changes})


def policy(server: Server, contract: Contract = CONTRACT) -> Policy:
    return served_policy(server, contract)
