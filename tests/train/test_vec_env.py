"""An arena as rsl_rl's and gymnasium's environment."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from rsl_rl.runners import OnPolicyRunner

from tests.train.folders import folders, ranges, scene
from twinproof.nouns.errors import MissingExtra, PolicyError
from twinproof.tasks import reach
from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.feasible import Chance
from twinproof.train import gym
from twinproof.train.costs import Costs
from twinproof.train.judge import judge
from twinproof.train.torch_extra import check_device, quiet_torch
from twinproof.train.vec_env import Base, Sums, VecEnv


def arena(count: int = 6, **how) -> Arena:
    task = reach.of(scene(), horizon_s=0.4)
    return Arena(scene(), task, count, draws=ranges(), play=Play(bank=32, nthread=1, **how))


def test_groups_keep_what_the_robot_cannot_measure_from_the_policy():
    env = VecEnv(arena())
    seen = env.get_observations()
    assert {name: tuple(value.shape) for name, value in seen.items()} == {"policy": (6, 7), "privileged": (6, 4)}
    np.testing.assert_allclose(seen["privileged"][:, 2:], env.arena.theta, atol=1e-6)  # bob's mass, the hinge's damping
    assert VecEnv(arena(), teacher=True).get_observations()["policy"].shape == (6, 9)


def test_arenas_of_tensors_and_of_arrays_are_the_same_environment():
    task = reach.of(scene(), horizon_s=0.4)
    play = Play(bank=32, nthread=1)
    envs = [VecEnv(Arena(scene(), task, 6, draws=ranges(), play=play, arrays=kind)) for kind in ("numpy", "torch")]
    told = [env.restart(2) for env in envs]
    for _ in range(50):
        torch.testing.assert_close(told[0]["policy"], told[1]["policy"])
        told = [env.step(torch.full((6, 1), 0.3))[0] for env in envs]
    one, other = (env.counted() for env in envs)
    assert one == pytest.approx(other)


def test_poses_a_physics_step_behind_leave_the_motion_as_it_is():
    task, told = reach.of(scene(), horizon_s=0.4), []
    for current in (True, False):
        world = Arena(scene(), task, 3, draws=ranges(), play=Play(bank=32, nthread=1, current=current))
        for _ in range(20):
            world.step(np.full((3, 1), 0.7))
        told.append(np.array(world.situation.position))
    np.testing.assert_array_equal(*told)


def test_rsl_rls_own_runner_takes_it(capsys):
    gaussian = {"class_name": "GaussianDistribution"}
    config = {
        "num_steps_per_env": 4,
        "save_interval": 100,
        "obs_groups": {"actor": ["policy"], "critic": ["policy", "privileged"]},
        "actor": {"class_name": "MLPModel", "hidden_dims": [8], "distribution_cfg": gaussian},
        "critic": {"class_name": "MLPModel", "hidden_dims": [8]},
        "algorithm": {"class_name": "PPO", "num_learning_epochs": 1},
    }
    with quiet_torch():
        runner = OnPolicyRunner(VecEnv(arena()), config, log_dir=None)
        runner.learn(2)
    assert runner.current_learning_iteration == 1


def test_an_episode_that_ends_is_counted_once_and_valued_on():
    env = VecEnv(arena())
    cut_short = sum(float(env.step(torch.zeros(6, 1))[3]["time_outs"].sum()) for _ in range(40))
    counted = env.counted()
    assert counted["ended"] == counted["timed_out"] + counted["succeeded"] + counted["diverged"] == cut_short == 6
    assert env.counted()["ended"] == 0
    env.restart(3, spread=True)
    ends = sum(float(env.step(torch.zeros(6, 1))[2].sum()) for _ in range(40))
    assert ends == 6
    assert env.counted()["ended"] == 1  # the others began in the middle of an episode


def test_limits_cost_and_actions_beyond_them_are_cut_and_counted():
    env = VecEnv(arena(), costs=Costs())
    env.step(torch.full((6, 1), 3.0))
    counted = env.counted()
    assert counted["cut_actions"] == 1
    assert counted["reward/cost/joint limit"] == 0  # the command itself was cut before


def test_the_workspace_is_a_box_that_tips_stay_in():
    world = arena(3)
    told = world.step(np.zeros((3, 1)))
    situation = type(told.situation)(
        **{**vars(told.situation), "tips": {"tip": np.array([[0, 0, 0.0], [0, 0, 2], [9, 0, 0]])}}
    )
    step = type(told)(**{**vars(told), "situation": situation, "clipped": {"joint limit": np.array([0, 1, 2])}})
    found = Costs(workspace_low_m=(-1, -1, -1), workspace_high_m=(1, 1, 1)).terms(step)
    np.testing.assert_allclose(found["cost/workspace"], [0, -0.1, -0.1])
    np.testing.assert_allclose(found["cost/joint limit"], [0, -0.02, -0.04])


def test_a_base_policy_is_corrected_by_a_share():
    world = arena()

    class Half:
        contract = world.task.deployable

        def reset(self, count, seed, which=None):
            pass

        def act(self, observations):
            return np.full((6, 1, 1), 0.5)

    env = VecEnv(world, on=Base(Half(), 0.1))
    env.step(torch.ones(6, 1))
    np.testing.assert_allclose(world.sensed.last, 0.5 + 0.1 * 2.0, atol=1e-6)


def test_a_policy_of_the_wrong_shape_is_refused():
    with pytest.raises(PolicyError, match=r"actions of the shape \(6, 2\); \(6, 1\) is needed: worlds, actions"):
        VecEnv(arena()).step(torch.zeros(6, 2))


def test_every_world_is_judged_by_one_episode():
    world = arena(8)
    found = judge(world, Chance(world), 1)
    assert (found.episodes, found.succeeded, found.success) == (8, 0, 0.0)


def test_a_device_that_is_absent_or_unknown_is_refused():
    if not torch.cuda.is_available():
        with pytest.raises(MissingExtra, match="'cuda' was asked for, and no CUDA device answers"):
            check_device("cuda")
    with pytest.raises(MissingExtra, match="the device 'tpu' is not known. Name cpu, cuda or cuda:N"):
        check_device("tpu")


def test_gymnasium_makes_one_world_and_many(tmp_path):
    twin, draws = folders(tmp_path)
    gym.register()
    gym.register()
    single = gymnasium.make(gym.ID, twin=twin, task="reach", disable_env_checker=True)
    seen, info = single.reset(seed=1)
    assert single.observation_space.contains(seen)
    assert info == {"is_success": False}
    _, reward, ended, _, info = single.step(single.action_space.sample())
    assert isinstance(reward, float)
    assert not ended
    assert single.unwrapped.task_description.startswith("reach: every joint")
    many = gymnasium.make_vec(gym.ID, num_envs=5, twin=twin, task="reach", randomization=draws)
    first, _ = many.reset(seed=2)
    again, _ = many.reset(seed=2)
    np.testing.assert_array_equal(first["goal"], again["goal"])
    _, rewards, _, cut_short, infos = many.step(np.zeros((5, 1)))
    assert rewards.shape == cut_short.shape == infos["is_success"].shape == (5,)
    assert set(infos["privileged"]) == {"true_to_goal", "true_velocity"}


@pytest.mark.parametrize("xp", [np, torch])
def test_sums_of_many_rows_are_kept_side_by_side(xp):
    sums = Sums()
    assert sums.now() == {}
    sums.add({}, xp)
    for _ in range(2):
        sums.add({"met": xp.asarray([True, False, True]), "rest": xp.asarray([False, False, True])}, xp)
    assert sums.now() == {"met": 4.0, "rest": 2.0}
    kept = sums._value
    sums.clear()
    assert sums.now() == {"met": 0.0, "rest": 0.0}
    assert sums._value is kept, "a tick that is replayed writes into it"
    sums.add({"met": xp.asarray([True, True, True]), "rest": xp.asarray([False, False, False])}, xp)
    assert sums.now() == {"met": 3.0, "rest": 0.0}
    sums.add({"rest": xp.asarray([True, False, False]), "met": xp.asarray([True, True, False])}, xp)
    sums.add({"met": xp.asarray([True, False, False]), "late": xp.asarray([False, True, True])}, xp)
    assert sums.now() == {"met": 6.0, "rest": 1.0, "late": 2.0}, "by name, in whatever order and number they come"
