"""Stands where your VLA will: a policy server in openpi's framing that sees a picture, a state and an instruction.

    python serve.py --port 8000

It is no VLA. It moves the tip towards the goal by the arm's own Jacobian, in chunks of absolute joint targets, and
looks at the picture only to see that the camera is on: in the dark it stays where it is. Everything around it is what a
π0 served by openpi, or a LeRobot policy behind examples/lerobot_server, is asked and answers: a websocket, msgpack,
arrays as {b"__ndarray__": True, b"data", b"dtype", b"shape"}; never pickle. twinproof itself is not needed here.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import msgpack
import mujoco
import numpy as np
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

CHUNK, RATE_HZ = 8, 20
STEP_M = 0.012  # that the tip is moved in a tick, at most
DARK = 8.0  # mean brightness of a picture below which nothing is done


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
        if kind.kind not in "fiub":
            raise ValueError(f"an array of type {kind}")
        return np.frombuffer(table[b"data"], kind).reshape(table[b"shape"]).copy()

    return msgpack.unpackb(data, object_hook=decode)


class Reacher:
    """Chunks of joint targets that lead the tip of an arm to a place."""

    def __init__(self, robot: Path, tip: str, joints: list[str]) -> None:
        self.model = mujoco.MjModel.from_xml_path(str(robot))
        self.data = mujoco.MjData(self.model)
        self.site = self.model.site(tip).id
        self.at = [int(self.model.joint(name).qposadr[0]) for name in joints]
        self.dof = [int(self.model.joint(name).dofadr[0]) for name in joints]

    def think(self, seen: dict[str, Any]) -> np.ndarray:
        """(CHUNK, joints) in rad and m."""
        picture, state = seen["observation/image"], np.array(seen["observation/state"], float)
        if picture.mean() < DARK:
            return np.repeat(state[None], CHUNK, axis=0)
        q, off = state.copy(), np.array(seen["observation/goal"], float)
        chunk = []
        for _ in range(CHUNK):
            step = off * min(1.0, STEP_M / max(np.linalg.norm(off), 1e-9))
            q = q + self._moved(q, step)
            off = off - step
            chunk.append(q)
        return np.array(chunk)

    def _moved(self, q: np.ndarray, step: np.ndarray) -> np.ndarray:
        self.data.qpos[self.at] = q
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        whole = np.zeros((3, self.model.nv))
        mujoco.mj_jacSite(self.model, self.data, whole, None, self.site)
        jacobian = whole[:, self.dof]
        jacobian[:, -1] = 0.0  # the gripper stays as it is
        return jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + 1e-3 * np.eye(3), step)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", type=Path, default=Path(__file__).parent / "robot.xml")
    parser.add_argument("--tip", default="tip")
    parser.add_argument("--joints", nargs="+", required=True)
    parser.add_argument("--port", type=int, default=8000)
    asked = parser.parse_args()
    policy = Reacher(asked.robot, asked.tip, asked.joints)

    def handle(connection: ServerConnection) -> None:
        try:
            connection.send(pack({"policy": "a stand-in", "chunk": CHUNK, "rate_hz": RATE_HZ}))
            for data in connection:
                began = time.perf_counter()
                actions = policy.think(unpack(data))
                took_ms = 1e3 * (time.perf_counter() - began)
                connection.send(pack({"actions": actions, "server_timing": {"infer_ms": took_ms}}))
        except ConnectionClosed:
            pass

    with serve(handle, "127.0.0.1", asked.port, compression=None, max_size=2**26) as server:
        sys.stdout.write(f"serving a stand-in at ws://127.0.0.1:{server.socket.getsockname()[1]}\n")
        sys.stdout.flush()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            sys.exit(0)


if __name__ == "__main__":
    main()
