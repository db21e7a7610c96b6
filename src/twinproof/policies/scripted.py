"""Actors that are code: a function of the observations, and logged actions played again."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from twinproof.nouns.errors import PolicyError
from twinproof.nouns.policy import Contract
from twinproof.policies.sight import checked, mask_of

Script = Callable[[Mapping[str, np.ndarray]], np.ndarray]


class Scripted:
    """A function without memory: {channel: (N, *shape)} -> (N, chunk, actions), or (N, actions) for a chunk of one."""

    def __init__(self, contract: Contract, script: Script) -> None:
        self.contract, self._script, self._count = contract, script, 0

    def reset(self, count: int, seed: int, which: np.ndarray | None = None) -> None:
        """Nothing is remembered, so nothing is forgotten."""
        mask_of(count, which)
        self._count = count

    def act(self, observations: Mapping[str, np.ndarray]) -> np.ndarray:
        """What the function gives, checked."""
        given = self._script(checked(self.contract, observations, require_count(self._count)))
        return as_actions(self.contract, given, self._count, "the script")


class Replay:
    """Logged actions (T, actions), one a tick; a reset goes back to the first, beyond the last is an error."""

    def __init__(self, contract: Contract, actions: np.ndarray) -> None:
        self.contract = contract
        self._actions = np.array(actions, dtype=np.float64)
        if self._actions.ndim != 2 or self._actions.shape[1] != len(contract.actions) or contract.chunk != 1:
            raise PolicyError(
                f"logged actions of shape {self._actions.shape} for {len(contract.actions)} actions in chunks of "
                f"{contract.chunk}; one row a tick is needed, and a chunk of 1."
            )
        self._at = np.zeros(0, np.int64)

    def reset(self, count: int, seed: int, which: np.ndarray | None = None) -> None:
        """Begins the log anew, in the worlds of the mask."""
        mask = mask_of(count, which)
        if mask is None or len(self._at) != count:
            self._at = np.zeros(count, np.int64)
        else:
            self._at[mask] = 0

    def act(self, observations: Mapping[str, np.ndarray]) -> np.ndarray:
        """The next row of the log; what is seen changes nothing."""
        checked(self.contract, observations, require_count(len(self._at)))
        if self._at.max() >= len(self._actions):
            raise PolicyError(f"the log has {len(self._actions)} actions, and one more was asked for. Stop before.")
        given: np.ndarray = self._actions[self._at][:, None]
        self._at += 1
        return given


def require_count(count: int) -> int:
    """The number of worlds, once there was a reset."""
    if not count:
        raise PolicyError("an actor was asked to act before it was reset. Call reset first.")
    return count


def as_actions(contract: Contract, given: object, count: int, who: str) -> np.ndarray:
    """What someone gave, as a new array (N, chunk, actions) of finite numbers, or an error."""
    try:
        actions = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise PolicyError(f"{who} gave {type(given).__name__} {given!r:.60}, which is no array of numbers.") from None
    wanted = (count, contract.chunk, len(contract.actions))
    if contract.chunk == 1 and actions.shape == (count, wanted[2]):
        actions = actions[:, None]
    if actions.shape != wanted:
        raise PolicyError(f"{who} gave actions of shape {actions.shape}; the contract states {wanted}.")
    if not np.isfinite(actions).all():
        failed = {}
        for world in np.flatnonzero(~np.isfinite(actions).all(axis=(1, 2))):
            step, k = np.argwhere(~np.isfinite(actions[world]))[0]
            failed[int(world)] = (
                f"{who} gave {actions[world, step, k]} for {contract.actions[k].name!r} in world {world}, step {step} "
                "of the chunk. Nothing is sent that is no number."
            )
        raise PolicyError(next(iter(failed.values())), failed, actions)
    return actions
