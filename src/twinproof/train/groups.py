"""Observation channels as the flat groups that networks eat: policy, privileged, images.

policy      (N, D)      what the robot can measure, channels of the contract in its order, each flattened
privileged  (N, P)      what only the simulator knows: for critics and teachers
images      {name: (N, height, width, 3)}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from twinproof.nouns.errors import PolicyError
from twinproof.nouns.policy import Channel, Contract


@dataclass(frozen=True)
class Groups:
    """The channels of a contract by group."""

    policy: tuple[Channel, ...]
    privileged: tuple[Channel, ...] = ()
    images: tuple[Channel, ...] = ()

    @staticmethod
    def of(contract: Contract) -> Groups:
        """Pictures are channels of three axes; the rest is split by `privileged`."""
        plain = [channel for channel in contract.observations if len(channel.shape) < 3]
        return Groups(
            tuple(channel for channel in plain if not channel.privileged),
            tuple(channel for channel in plain if channel.privileged),
            tuple(channel for channel in contract.observations if len(channel.shape) == 3),
        )


def width(channels: tuple[Channel, ...]) -> int:
    """Numbers in a flat group."""
    return sum(int(np.prod(channel.shape)) for channel in channels)


def flat(observations: Mapping[str, Any], channels: tuple[Channel, ...]) -> np.ndarray:
    """(N, D) float32, the channels side by side in their order."""
    missing = [channel.name for channel in channels if channel.name not in observations]
    if missing:
        raise PolicyError(f"the observation lacks {', '.join(missing)}; it has {', '.join(observations)}.")
    columns = [np.asarray(observations[channel.name], dtype=np.float32) for channel in channels]
    return np.concatenate([column.reshape(len(column), -1) for column in columns], axis=1)


def deployed(contract: Contract, history: int = 1) -> Contract:
    """The contract without its privileged channels: what a student, or the actor beside an asymmetric critic, sees."""
    kept = tuple(channel for channel in contract.observations if not channel.privileged)
    return replace(contract, observations=kept, history=history)


def action_scale(contract: Contract) -> tuple[np.ndarray, np.ndarray]:
    """Centre and half width of every action's limits, (A,): a network's output y means centre + half · y."""
    low = np.array([channel.low for channel in contract.actions], dtype=np.float64)
    high = np.array([channel.high for channel in contract.actions], dtype=np.float64)
    return (low + high) / 2, (high - low) / 2


def checked_actions(actions: np.ndarray, count: int, contract: Contract, who: str) -> np.ndarray:
    """The first action of each chunk, (N, A); any other shape is refused."""
    actions = np.asarray(actions)
    needed = (count, contract.chunk, len(contract.actions))
    if actions.shape != needed:
        raise PolicyError(
            f"{who} gave actions of the shape {actions.shape}; {needed} is needed: worlds, chunk, actions."
        )
    first: np.ndarray = actions[:, 0]
    if not np.isfinite(first).all():
        world, action = np.argwhere(~np.isfinite(first))[0]
        raise PolicyError(f"{who} gave {first[world, action]} for {contract.actions[action].name!r} in world {world}.")
    return first
