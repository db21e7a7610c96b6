"""One world of a twin as LeRobot's evaluation and training expect an environment.

agent_pos            joint positions                                    LeRobot calls it observation.state
environment_state    every other channel that a robot can measure, in the contract's order, joined
pixels               {camera: bytes (height, width, 3)}, where cameras are asked for: drawn from the twin's splats

Attributes `task`, `task_description` and `_max_episode_steps`, and is_success in every info, are what its rollout asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from twinproof.nouns.errors import TaskError
from twinproof.nouns.twin import Twin
from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.eyes import PREFIX, SplatEyes, with_pictures
from twinproof.tasks.home import Stated, home_of
from twinproof.tasks.named import task_named
from twinproof.train.ground import ranges_of
from twinproof.train.gym import LEROBOT_ID, TaskEnv

JOINTS = "joint_position"
SUITE = "twinproof"


def make_env(n_envs: int = 1, use_async_envs: bool = False, cfg: Any = None, **asked: Any) -> dict[str, dict[int, Any]]:
    """{suite: {task: vector environment}}, as LeRobot's Hub environments give it. `asked` are LeRobotEnv's options.

    `cfg` is LeRobot's own configuration, where it hands one over: its `gym_kwargs` are further options.
    """
    options = {**(dict(cfg.gym_kwargs) if cfg is not None else {}), **asked}
    made = [partial(LeRobotEnv, **{"seed": 0, **options, "world": k}) for k in range(n_envs)]
    kind = AsyncVectorEnv if use_async_envs else SyncVectorEnv
    return {SUITE: {0: kind(made, autoreset_mode=AutoresetMode.SAME_STEP)}}


class LeRobotEnv(gymnasium.Env):  # type: ignore[misc]
    """See the module. `world` keeps worlds that run beside each other apart."""

    def __init__(
        self, twin: Path | str, task: str = "reach", *, randomization: Path | str | None = None,
        home: Stated = (), cameras: Sequence[str] = (), width: int = 96, seed: int = 0, world: int = 0,
        render_mode: str | None = None,
    ) -> None:  # fmt: skip
        found = Twin.load(Path(twin))
        spec = task_named(task, found, home=home_of(home, found), relative=True)
        eyes = SplatEyes(found, tuple(cameras), width) if cameras else None
        spec = spec if eyes is None else with_pictures(spec, eyes)
        draws = ranges_of(found, None if randomization is None else Path(randomization))
        play = Play(lean=eyes is None)
        self._env = TaskEnv(Arena(found, spec, 1, draws=draws, seed=seed + world, play=play, eyes=eyes))
        self._channels = spec.deployable.observations
        self._cameras = () if eyes is None else eyes.names
        self._last: dict[str, Any] = {}
        self.task, self.task_description = spec.name, self._env.task_description
        self._max_episode_steps = self._env._max_episode_steps
        self.metadata = {**self._env.metadata, "render_modes": ["rgb_array"] if self._cameras else []}
        self.render_mode = render_mode if self._cameras else None
        self.action_space = self._env.action_space
        self.observation_space = _space(self._ordered(self._env.observation_space.spaces))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begins the world anew; with a seed, from that seed."""
        super().reset(seed=seed)
        seen, info = self._env.reset(seed=seed)
        return self._told(seen), info

    def step(self, action: np.ndarray) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """One control step. What is observed at the end of an episode is its last moment."""
        seen, reward, ended, cut_short, info = self._env.step(action)
        return self._told(seen), reward, ended, cut_short, info

    def render(self) -> np.ndarray:
        """What the first camera sees."""
        if not self._cameras:
            raise TaskError("this environment has no cameras, so it cannot be rendered. Give cameras=('front',).")
        return np.asarray(self._last["pixels"][self._cameras[0]])

    def _ordered(self, spaces: Mapping[str, Any]) -> dict[str, Any]:
        """Channels under LeRobot's names; the numbers of environment_state are still apart."""
        pictures = {name: spaces[f"{PREFIX}{name}"] for name in self._cameras}
        others = [c.name for c in self._channels if c.name != JOINTS and not c.name.startswith(PREFIX)]
        found: dict[str, Any] = {"agent_pos": [spaces[JOINTS]], "environment_state": [spaces[name] for name in others]}
        return {**{name: rows for name, rows in found.items() if rows}, **({"pixels": pictures} if pictures else {})}

    def _told(self, seen: Mapping[str, np.ndarray]) -> dict[str, Any]:
        told = self._ordered(seen)
        numbers = {name: np.concatenate([row.ravel() for row in told[name]]) for name in told if name != "pixels"}
        pictures = {name: np.round(value).astype(np.uint8) for name, value in told.get("pixels", {}).items()}
        self._last = {**numbers, **({"pixels": pictures} if pictures else {})}
        return self._last


def _space(told: Mapping[str, Any]) -> Any:
    """The space of those observations."""
    spaces: dict[str, Any] = {}
    for name, rows in told.items():
        if name == "pixels":
            boxes = {camera: gymnasium.spaces.Box(0, 255, row.shape, np.uint8) for camera, row in rows.items()}
            spaces[name] = gymnasium.spaces.Dict(boxes)
        else:
            low, high = (np.concatenate([getattr(row, end).ravel() for row in rows]) for end in ("low", "high"))
            spaces[name] = gymnasium.spaces.Box(low, high, dtype=np.float32)
    return gymnasium.spaces.Dict(spaces)


__all__ = ["LEROBOT_ID", "LeRobotEnv", "make_env"]
