"""What every actor does before it acts: observations checked against the contract, joined, and kept as history."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from twinproof.nouns.errors import PolicyError
from twinproof.nouns.policy import Channel, Contract

LARGEST = float(np.finfo(np.float32).max)


def width_of(channels: tuple[Channel, ...]) -> int:
    """How many numbers the channels have together."""
    return sum(int(np.prod(channel.shape)) for channel in channels)


def limits_of(contract: Contract) -> tuple[np.ndarray, np.ndarray]:
    """The low and the high limit of each action."""
    low = np.array([action.low for action in contract.actions], np.float64)
    return low, np.array([action.high for action in contract.actions], np.float64)


def checked(contract: Contract, observations: Mapping[str, np.ndarray], count: int) -> dict[str, np.ndarray]:
    """Each observation of the contract as an array (N, *shape) of finite numbers; what else is given is left aside."""
    found = {}
    for channel in contract.observations:
        if channel.name not in observations:
            raise PolicyError(
                f"the observation {channel.name!r} is missing; given are {', '.join(sorted(observations)) or 'none'}. "
                "The policy's contract names what it needs."
            )
        array = np.asarray(observations[channel.name])
        if array.shape != (count, *channel.shape):
            raise PolicyError(
                f"the observation {channel.name!r} has the shape {array.shape}; for {count} worlds the contract states "
                f"{(count, *channel.shape)}."
            )
        if array.dtype.kind not in "fiub":
            raise PolicyError(f"the observation {channel.name!r} is of type {array.dtype}; numbers are needed.")
        if array.dtype.kind == "f" and not (np.abs(array) <= LARGEST).all():  # NaN fails as well
            place = np.argwhere(~(np.abs(array) <= LARGEST))[0]
            raise PolicyError(
                f"the observation {channel.name!r} of world {place[0]} holds {array[tuple(place)]}. A policy is asked "
                "about finite numbers, as they were measured."
            )
        found[channel.name] = array
    return found


def joined(contract: Contract, observations: Mapping[str, np.ndarray], count: int) -> np.ndarray:
    """All observations of the contract as one row of float32 a world."""
    return row_of(contract.observations, checked(contract, observations, count))


def row_of(channels: tuple[Channel, ...], found: Mapping[str, np.ndarray]) -> np.ndarray:
    """Channels that were checked, side by side as one row of float32 a world."""
    rows = [found[channel.name].reshape(len(found[channel.name]), -1) for channel in channels]
    return np.concatenate(rows, axis=1, dtype=np.float32, casting="unsafe")


class History:
    """The newest rows of each world, oldest first. After a reset the first row fills all places."""

    def __init__(self, length: int, width: int) -> None:
        self._length, self._width = length, width
        self._rows = np.zeros((0, length, width), np.float32)
        self._empty = np.ones(0, bool)

    def reset(self, count: int, which: np.ndarray | None) -> None:
        """Forgets, in the worlds of the mask; with another count, everywhere."""
        if which is None or count != len(self._empty):
            self._rows = np.zeros((count, self._length, self._width), np.float32)
            self._empty = np.ones(count, bool)
        else:
            self._empty |= which

    def add(self, rows: np.ndarray) -> np.ndarray:
        """Takes the newest row of each world and gives all, (N, length * width)."""
        if self._length == 1:
            return rows
        self._rows[:, :-1] = self._rows[:, 1:]
        self._rows[:, -1] = rows
        if self._empty.any():
            self._rows[self._empty] = rows[self._empty, None]
            self._empty[:] = False
        return self._rows.reshape(len(rows), -1)


def mask_of(count: int, which: np.ndarray | None) -> np.ndarray | None:
    """The mask of worlds that are reset, checked; None means all."""
    if count < 1:
        raise PolicyError(f"an actor was reset for {count} worlds. Give 1 or more.")
    if which is None:
        return None
    mask = np.asarray(which)
    if mask.dtype != bool or mask.shape != (count,):
        raise PolicyError(
            f"an actor was reset with a mask of type {mask.dtype} and shape {mask.shape}; needed is true or false for "
            f"each of {count} worlds."
        )
    return mask
