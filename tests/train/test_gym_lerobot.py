"""A twin as LeRobot takes an environment: made by its id, rolled out by its rules, seen by its names."""

from __future__ import annotations

import importlib
import sys
from functools import partial
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from tests.tasks.looks import red_cube
from tests.train.folders import folders
from twinproof.nouns.errors import MissingExtra, TaskError
from twinproof.train.gym import ID, TaskEnv
from twinproof.train.gym_lerobot import LEROBOT_ID, LeRobotEnv, make_env


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return folders(tmp_path_factory.mktemp("lerobot"))


def test_it_is_made_and_rolled_out_as_lerobot_does_it(made):
    twin, draws = made
    importlib.import_module("gym_twinproof")  # LeRobot imports gym_TYPE, then makes gym_TYPE/TASK
    make = partial(gymnasium.make, "gym_twinproof/lerobot-v0", disable_env_checker=True, twin=twin, randomization=draws)
    envs = SyncVectorEnv([make, make], autoreset_mode=AutoresetMode.SAME_STEP)
    steps = envs.call("_max_episode_steps")[0]
    assert envs.call("task") == ("reach", "reach")
    assert envs.call("task_description")[0].startswith("reach: every joint")
    assert envs.metadata["render_fps"] > 0
    seen, _ = envs.reset(seed=[3, 4])
    assert set(seen) == {"agent_pos", "environment_state"}
    assert seen["agent_pos"].shape == (2, 1)
    assert seen["agent_pos"].dtype == np.float32
    done, ended = np.zeros(2, bool), {}
    for _ in range(steps + 1):
        seen, rewards, over, cut_short, info = envs.step(np.zeros((2, 1), np.float32))
        assert rewards.shape == (2,)
        done |= over | cut_short
        ended = info.get("final_info", ended)
        if done.all():
            break
    assert done.all()
    assert ended["is_success"].dtype == bool
    envs.close()


def test_the_end_of_an_episode_is_observed_and_not_the_start_of_the_next(made):
    env = TaskEnv(twin=made[0], task="reach")
    env.reset(seed=1)
    last = None
    for _ in range(env._max_episode_steps + 1):
        seen, _, ended, cut_short, _ = env.step(np.array([1.0]))
        if ended or cut_short:
            break
        last = seen
    assert last is not None
    assert abs(float(seen["joint_position"][0] - last["joint_position"][0])) < 0.2  # a tick apart
    first, _ = env.reset(seed=1)
    assert abs(float(seen["joint_position"][0] - first["joint_position"][0])) > 0.2


@pytest.mark.filterwarnings("ignore:.*WARN")  # it recommends spaces from -1 to 1; ours are in the robot's units
def test_gymnasiums_own_check_finds_nothing(made):
    check_env(LeRobotEnv(made[0]), skip_render_check=True)


def test_a_hub_environment_gives_suites_of_tasks(made):
    twin, _ = made
    suites = make_env(n_envs=2, twin=twin, task="reach")
    assert list(suites) == ["twinproof"]
    assert list(suites["twinproof"]) == [0]
    envs = suites["twinproof"][0]
    one, _ = envs.reset()
    assert envs.num_envs == 2
    assert not np.array_equal(one["environment_state"][0], one["environment_state"][1])  # worlds differ
    told = make_env(1, cfg=SimpleNamespace(gym_kwargs={"twin": twin, "task": "reach"}))
    assert told["twinproof"][0].call("task") == ("reach",)


def test_cameras_are_drawn_from_the_twins_splats(tmp_path):
    (tmp_path / "made").mkdir()
    red_cube(tmp_path / "made").save(tmp_path / "twin")
    told = {"cameras": ("above",), "width": 32, "render_mode": "rgb_array"}
    env = LeRobotEnv(tmp_path / "twin", "push", home=("turn=0.0",), **told)
    seen, _ = env.reset(seed=0)
    assert env.observation_space.contains(seen)
    assert seen["pixels"]["above"].shape == (24, 32, 3)
    assert seen["pixels"]["above"].dtype == np.uint8
    assert seen["pixels"]["above"].max() > 60
    first = env.render()
    assert np.array_equal(first, seen["pixels"]["above"])
    for _ in range(5):
        env.step(env.action_space.high)
    assert not np.array_equal(env.render(), first)  # the arm moved


def test_without_cameras_there_is_nothing_to_render(made):
    env = LeRobotEnv(made[0])
    assert env.metadata["render_modes"] == []
    with pytest.raises(TaskError, match="has no cameras, so it cannot be rendered"):
        env.render()


def test_without_gymnasium_the_extra_is_named(monkeypatch):
    for name in ("gym_twinproof", "gymnasium"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(MissingExtra, match=r"twinproof\[learn\]"):
        importlib.import_module("gym_twinproof")


def test_the_ids_are_known_once_it_is_imported():
    importlib.import_module("gym_twinproof")
    assert {ID, LEROBOT_ID} <= set(gymnasium.registry)
