"""The pendulum's spring behind a server: a served policy that needs no picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.evaluate.swing import spring
from tests.policies.servers import openpi_pack
from twinproof.nouns.policy import Policy
from twinproof.policies.server import Received, Sent, Server, served_policy
from twinproof.tasks.task import TaskSpec

CHANNELS = ("joint_position", "joint_velocity", "to_goal")


def talking(task: TaskSpec, chunk: int, reply: Callable[[int, np.ndarray], Any] = lambda number, rows: rows):
    """What answers the messages: chunks of the spring's torque, each as `reply` makes it of its number and rows."""
    actor, asked = spring(task, 0.4), [0]
    names = [channel.name for channel in task.deployable.observations]
    shapes = {channel.name: channel.shape for channel in task.deployable.observations}

    def talk(connection: Any, message: dict[str, Any]) -> None:
        asked[0] += 1
        seen = {name: np.zeros((1, *shapes[name])) for name in names}
        seen |= {name: np.asarray(message[name], dtype=np.float64)[None] for name in CHANNELS}
        actor.reset(1, 0)
        rows = np.repeat(actor.act(seen)[0], chunk, axis=0).astype(np.float32)
        connection.send(openpi_pack({"actions": reply(asked[0], rows)}))

    return talk


def served_spring(address: str, task: TaskSpec, chunk: int, **more: Any) -> Policy:
    send = tuple(Sent((name,), name) for name in CHANNELS)
    server = Server(address, "openpi", send, (Received(("actions",)),), timeout_s=5.0, **more)
    sees = tuple(channel for channel in task.deployable.observations if channel.name in CHANNELS)
    return served_policy(server, replace(task.deployable, observations=sees, chunk=chunk))


def saved(policy: Policy, folder: Path) -> str:
    policy.save(folder)
    return f"served={folder}"
