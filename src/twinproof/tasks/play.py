"""How an arena runs, what a tick brings, and where worlds stand: what goes into an arena and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from twinproof.tasks.sensed import Array, Situation


@dataclass(frozen=True)
class Play:
    """How an arena runs its episodes."""

    auto_reset: bool = True  # a world that is done begins its next episode at once
    stop_at_success: bool = True  # else an episode ends at its horizon or when it fails
    privileged: bool = True  # privileged channels among the observations
    bank: int = 1024  # different starts and Thetas before they come again
    lean: bool = True  # leave out what only shows: worlds that are rendered need it
    nthread: int = 0
    contacts: int | None = None  # on a GPU: how many one world may have on average; None leaves it to the engine
    constraints: int | None = None  # on a GPU: how many one world may have
    model_error: bool = False  # joints are kicked as the randomisation's model error says (tasks/model_error.py)
    current: bool = True  # else poses and sensors on a CPU lag the joints by a physics step, and cost a sixth less


@dataclass(frozen=True, eq=False)
class Step:
    """What a tick brought, one row a world. Where a world is done and begins anew, `observations` are of the new
    episode and all else of the old one. Without auto-reset a world that is done keeps its verdict."""

    observations: Mapping[str, Array]
    final: Mapping[str, Array]  # the observations before any world began anew; then with the pictures of a tick ago
    rewards: Mapping[str, Array]  # by term; zero where a world diverged
    done: Array
    succeeded: Array
    failed: Array
    timed_out: Array  # done by the horizon alone
    diverged: Array
    clipped: Mapping[str, Array]  # "joint limit", "speed limit" -> how many joints of a command were beyond it
    situation: Situation

    @property
    def reward(self) -> Array:
        """All terms together."""
        return sum(self.rewards.values())


@dataclass(frozen=True, eq=False)
class State:
    """Where N worlds stand: positions and velocities of the scene, goals, the newest commands, the task's notes."""

    qpos: Array  # (N, nq)
    qvel: Array  # (N, nv)
    goal: Array  # (N, G)
    last: Array  # (N, J)
    notes: Mapping[str, Array]  # (N,)
    first: Mapping[str, Array]  # (N, 7) where objects were when the episode began; where they are now, if not said
