"""Tasks as Gymnasium environments: a vector view of an arena, one world as a plain environment, and registered ids.

import gymnasium, gym_twinproof
gymnasium.make("gym_twinproof/task-v0", twin="twin", task="reach")
gymnasium.make_vec("gym_twinproof/task-v0", num_envs=64, twin="twin", task="reach", randomization="randomization")

Every info holds is_success. Actions are in the contract's units. Observations are the channels that a robot can
measure, by name; privileged ones are in info["privileged"].
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from twinproof.nouns.policy import Channel
from twinproof.tasks.arena import Arena
from twinproof.train.ground import open_arena

ID = "gym_twinproof/task-v0"
LEROBOT_ID = "gym_twinproof/lerobot-v0"  # the same under LeRobot's names: gym_lerobot.py


def register() -> None:
    """Makes the ids known to gymnasium; a second call changes nothing."""
    if ID not in gymnasium.registry:
        here = "twinproof.train.gym"
        gymnasium.register(ID, entry_point=f"{here}:TaskEnv", vector_entry_point=f"{here}:make_vector")
        gymnasium.register(LEROBOT_ID, entry_point=f"{here}_lerobot:LeRobotEnv")


def make_vector(num_envs: int, **asked: Any) -> TaskVectorEnv:
    """What gymnasium.make_vec calls: `twin` and `task`, and `randomization`, `seed` as in `open_arena`."""
    return TaskVectorEnv(open_arena(count=num_envs, **_paths(asked)))


class TaskVectorEnv(VectorEnv):  # type: ignore[misc]
    """An arena as gymnasium's vector environment. Ended worlds begin anew in the same step."""

    def __init__(self, arena: Arena) -> None:
        self.arena, self.num_envs = arena, arena.count
        contract = arena.task.deployable
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_fps": round(contract.rate_hz)}
        self._seen = contract.observations
        self.single_observation_space = gymnasium.spaces.Dict({c.name: _box(c) for c in self._seen})
        self.single_action_space = _action_box(contract.actions)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.task_description = f"{arena.task.name}: {arena.task.success}"

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Begins every world anew; with a seed, from that seed."""
        super().reset(seed=seed)
        observations = self.arena.reset() if seed is None else self.arena.restart(seed)
        return self._shown(observations), {"is_success": np.zeros(self.num_envs, dtype=bool)}

    def step(
        self, actions: np.ndarray
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One control step: observations, rewards, terminations, truncations, infos with is_success.

        What was seen at the end of an episode is in infos["final_obs"], how it ended in infos["final_info"].
        """
        told = self.arena.step(np.asarray(actions, dtype=np.float64))
        reward = np.sum([np.asarray(value) for value in told.rewards.values()], axis=0)
        ended = told.succeeded | told.failed
        infos = {"is_success": told.succeeded, "reward_terms": dict(told.rewards)}
        infos["privileged"] = {c.name: told.observations[c.name] for c in self._hidden}
        cut_short = (told.timed_out | told.diverged) & ~ended
        infos |= {"final_obs": self._shown(told.final), "final_info": {"is_success": told.succeeded}}
        infos |= {"_final_obs": ended | cut_short, "_final_info": ended | cut_short}
        return self._shown(told.observations), reward, ended, cut_short, infos

    @property
    def _hidden(self) -> tuple[Channel, ...]:
        return tuple(c for c in self.arena.task.contract.observations if c.privileged)

    def _shown(self, observations: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return {c.name: np.asarray(observations[c.name], dtype=_kind(c)) for c in self._seen}


class TaskEnv(gymnasium.Env):  # type: ignore[misc]
    """One world as a plain gymnasium environment."""

    def __init__(self, arena: Arena | None = None, **asked: Any) -> None:
        self._vector = TaskVectorEnv(arena or open_arena(count=1, **_paths(asked)))
        self.metadata = {"render_modes": [], "render_fps": self._vector.metadata["render_fps"]}
        self.observation_space = self._vector.single_observation_space
        self.action_space = self._vector.single_action_space
        self.task_description = self._vector.task_description
        self._max_episode_steps = self._vector.arena.task.ticks

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Begins the world anew."""
        super().reset(seed=seed)
        observations, _ = self._vector.reset(seed=seed)
        return {name: value[0] for name, value in observations.items()}, {"is_success": False}

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """One control step. Where an episode ends, its last moment is observed."""
        _, reward, ended, cut_short, infos = self._vector.step(np.asarray(action)[None])
        told = {"is_success": bool(infos["is_success"][0])}
        seen = {name: value[0] for name, value in infos["final_obs"].items()}  # of this episode, also at its end
        return seen, float(reward[0]), bool(ended[0]), bool(cut_short[0]), told


def _paths(asked: Mapping[str, Any]) -> dict[str, Any]:
    return {name: Path(value) if name in ("twin", "randomization") else value for name, value in asked.items()}


def _kind(channel: Channel) -> type[np.generic]:
    """Pictures are bytes."""
    return np.uint8 if len(channel.shape) == 3 else np.float32


def _box(channel: Channel) -> Any:
    low, high = (-np.inf, np.inf) if channel.low is None else (channel.low, channel.high)
    return gymnasium.spaces.Box(low, high, channel.shape, _kind(channel))


def _action_box(actions: tuple[Channel, ...]) -> Any:
    low, high = (np.array([getattr(c, end) for c in actions], np.float32) for end in ("low", "high"))
    return gymnasium.spaces.Box(low, high)
