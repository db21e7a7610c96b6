"""Serves a LeRobot policy (ACT, SmolVLA, π0, π0.5, GR00T N1.7, …) to twinproof. Runs in your LeRobot environment.

    pip install websockets msgpack                      # beside lerobot; twinproof itself is not needed here
    python serve_lerobot.py --policy PATH_OR_HUB_ID --device cuda --port 8000
    python serve_lerobot.py --policy PATH --select-action       # diffusion, VQ-BeT, TD-MPC: one action a question

It speaks openpi's framing: a websocket, msgpack, arrays as {b"__ndarray__": True, b"data", b"dtype", b"shape"}; never
pickle. Observations come under LeRobot's own names (observation.state, observation.images.front as (H, W, 3) bytes,
task as text); the answer is {"actions": (steps, numbers)}, as the policy's own postprocessor gives it.
It listens on this machine alone unless --host says otherwise; there is no password.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import torch
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

LARGEST = 256 * 2**20  # bytes of a question
PLAIN = set("fiub")  # numbers and booleans; objects are refused

Think = Callable[[dict[str, Any]], np.ndarray]


def pack(message: dict[str, Any]) -> bytes:
    def encode(array: Any) -> Any:
        array = np.asarray(array, order="C")
        return {b"__ndarray__": True, b"data": array.tobytes(), b"dtype": array.dtype.str, b"shape": array.shape}

    return msgpack.packb(message, default=encode)


def unpack(data: bytes) -> dict[str, Any]:
    def decode(table: dict[Any, Any]) -> Any:
        if b"__ndarray__" not in table:
            return table
        kind = np.dtype(table[b"dtype"])
        if kind.kind not in PLAIN:
            raise ValueError(f"an array of type {kind}")
        return np.frombuffer(table[b"data"], kind).reshape(table[b"shape"]).copy()

    return msgpack.unpackb(data, object_hook=decode)


def load(path: str, device: str, select_action: bool) -> tuple[Think, Callable[[], None], dict[str, Any]]:
    """How to ask the policy, how to begin an episode, and what the policy says of itself."""
    from lerobot.configs.policies import PreTrainedConfig
    from lerobot.policies.factory import get_policy_class, make_pre_post_processors

    config = PreTrainedConfig.from_pretrained(path)
    config.device = device
    policy = get_policy_class(config.type).from_pretrained(path, config=config).to(device).eval()
    there = {"device_processor": {"device": device}}
    before, after = make_pre_post_processors(config, pretrained_path=path, preprocessor_overrides=there)
    inputs = {name: list(feature.shape) for name, feature in config.input_features.items()}

    @torch.inference_mode()
    def think(seen: dict[str, Any]) -> np.ndarray:
        lacking = sorted(set(inputs) - set(seen))
        if lacking:
            raise KeyError(f"the policy needs {', '.join(lacking)}, which was not sent")
        batch = before(
            {"task": seen.get("task", ""), "robot_type": "", **{name: tensor(seen[name]) for name in inputs}}
        )
        if select_action:
            return after(policy.select_action(batch)).float().cpu().numpy().reshape(1, -1)
        chunk = policy.predict_action_chunk(batch)
        steps = [
            after(chunk[:, k]) for k in range(chunk.shape[1])
        ]  # postprocessors take one step, as LeRobot's own loop
        return torch.stack(steps, dim=1)[0].float().cpu().numpy()

    def tensor(array: np.ndarray) -> torch.Tensor:
        value = torch.from_numpy(array).to(device)
        if value.dtype == torch.uint8:  # a picture (H, W, 3): channels first, 0 to 1
            return (value.float() / 255).permute(2, 0, 1).unsqueeze(0)
        return value.float().unsqueeze(0)

    steps = 1 if select_action else getattr(config, "chunk_size", getattr(config, "n_action_steps", 1))
    return think, policy.reset, {"policy": config.type, "inputs": inputs, "chunk": int(steps)}


def listen(think: Think, begin: Callable[[], None], about: dict[str, Any], host: str, port: int) -> None:
    """Answers until Ctrl-C, one question at a time; a question that fails is answered with its traceback."""
    turn = threading.Lock()  # connections have threads of their own, the policy is one

    def talk(connection: ServerConnection) -> None:
        try:
            connection.send(pack(about))
            for data in connection:
                started = time.perf_counter()
                try:
                    message, answer = unpack(data), dict[str, Any]()
                    with turn:
                        if message.get("endpoint") == "reset":
                            begin()
                        else:
                            answer["actions"] = think(message)
                except Exception:  # noqa: BLE001  whatever a policy raises is the answer, and the server goes on
                    connection.send(traceback.format_exc())
                    continue
                answer["server_timing"] = {"infer_ms": (time.perf_counter() - started) * 1e3}
                connection.send(pack(answer))
        except ConnectionClosed:
            pass

    with serve(talk, host, port, compression=None, max_size=LARGEST, ping_interval=None) as server:
        where = server.socket.getsockname()
        sys.stdout.write(f"serving {about['policy']} at ws://{where[0]}:{where[1]}\n")
        sys.stdout.flush()
        server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve a LeRobot policy to twinproof.")
    parser.add_argument("--policy", required=True, help="folder of a pretrained policy, or its name on the hub")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument(
        "--select-action", action="store_true", help="one action a question, the policy keeps its queue"
    )
    given = parser.parse_args()
    think, begin, about = load(given.policy, given.device, given.select_action)
    try:
        listen(think, begin, about, given.host, given.port)
    except KeyboardInterrupt:
        sys.stdout.write("stopped\n")


if __name__ == "__main__":
    main()
