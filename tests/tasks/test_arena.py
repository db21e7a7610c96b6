"""What an arena promises to training and evaluation."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.tasks.scenes import home, lab_scene
from twinproof.nouns.errors import PolicyError, TaskError
from twinproof.nouns.randomization import Randomization, Range
from twinproof.nouns.robot import Observation
from twinproof.nouns.source import Declared
from twinproof.nouns.theta import Theta
from twinproof.sim.parameters.resolve import parameter
from twinproof.sim.scene import Scene
from twinproof.tasks import reach
from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.sensed import Sensed
from twinproof.tasks.task import Setup

SMALL = Play(bank=16, nthread=1)
THETA = Theta(
    {
        "actuator.shoulder.delay": 0.01,
        "actuator.elbow.backlash": 0.01,
        "actuator.elbow.delay_jitter": 0.004,
        "joint.shoulder.damping": 0.05,
        "joint.shoulder.offset": 0.03,
        "sensor.shoulder_position.noise": 0.01,
        "sensor.elbow_position.quantum": 0.02,
        "actuator.elbow.noise": 0.05,
        "joint.elbow.velocity_noise": 0.1,
        "proprioception.latency": 0.004,
        "proprioception.dropout": 0.2,
    }
)


@pytest.fixture(scope="module")
def swing():
    return reach.of(lab_scene("pendulum"))


@pytest.fixture(scope="module")
def arm():
    return reach.of(lab_scene("push"), home=home("push"))


def drive(arena, ticks, rng):
    """Torques at random; everything that was seen and judged, by name."""
    found = {}
    limits = arena.task.machine.limits
    for _ in range(ticks):
        action = rng.uniform(limits.low, limits.high, (arena.count, len(limits.low)))
        step = arena.step(arena.backing.array(action))
        for name, value in {**step.observations, **step.rewards, "done": step.done}.items():
            found.setdefault(name, []).append(np.asarray(value).copy())
    return {name: np.stack(rows) for name, rows in found.items()}


def test_every_channel_of_the_contract_comes_in_its_shape(swing, arm):
    for task in (swing, arm):
        arena = Arena(task.machine.scene, task, 3, play=SMALL)
        seen = arena.reset()
        assert {name: value.shape[1:] for name, value in seen.items()} == {
            channel.name: channel.shape for channel in task.contract.observations
        }
        assert set(arena.task.deployable.privileged) == set()


def test_tensors_and_arrays_give_the_same_numbers(swing):
    runs = [
        drive(
            Arena(swing.machine.scene, swing, 4, draws=[THETA], play=SMALL, arrays=kind), 40, np.random.default_rng(0)
        )
        for kind in ("numpy", "torch")
    ]
    assert runs[0].keys() == runs[1].keys()
    for name, rows in runs[0].items():
        np.testing.assert_allclose(runs[1][name], rows, rtol=1e-9, atol=1e-12, err_msg=name)


def test_an_episode_is_the_same_whatever_runs_beside_it(swing):
    long = Play(auto_reset=False, bank=2, nthread=1)
    many = Arena(swing.machine.scene, swing, 3, draws=[Theta(), THETA], play=long)
    one = Arena(swing.machine.scene, swing, 1, draws=[THETA], seed=5, play=long)
    actions = np.random.default_rng(1).uniform(-3, 3, (20, 1, 2))
    first = many.reset(seeds=[7, 8, 9], thetas=[Theta(), THETA, Theta()])
    alone = one.reset(seeds=[8], thetas=[THETA])
    np.testing.assert_array_equal(first["joint_position"][1], alone["joint_position"][0])
    for action in actions:
        a, b = many.step(np.repeat(action, 3, axis=0)), one.step(action)
        for name, value in a.observations.items():
            np.testing.assert_array_equal(value[1], b.observations[name][0], err_msg=name)


def test_a_world_that_is_done_begins_its_next_episode(swing):
    task = replace(swing, horizon_s=0.05)
    arena = Arena(swing.machine.scene, task, 2, play=SMALL)
    goals = [arena.sensed.goal]
    for k in range(1, 11):
        step = arena.step(np.zeros((2, 2)))
        assert (step.timed_out == (k % 5 == 0)).all()
        if k % 5 == 0:
            goals.append(step.observations["goal"])
            assert (step.final["goal"] == goals[-2]).all()
            assert (arena.sensed.time_s == 0).all()
    assert len({tuple(row) for goal in goals for row in goal}) == 6


def test_without_auto_reset_a_verdict_stands(swing):
    task = replace(swing, horizon_s=0.02)
    arena = Arena(swing.machine.scene, task, 2, play=Play(auto_reset=False, bank=2))
    arena.step(np.zeros((2, 2)))
    for _ in range(3):
        step = arena.step(np.zeros((2, 2)))
        assert step.done.all()
        assert step.timed_out.all()
    arena.reset([1])
    assert arena.step(np.zeros((2, 2))).done.tolist() == [True, False]


def test_a_setup_given_is_where_the_episode_begins(swing):
    arena = Arena(swing.machine.scene, swing, 2, play=SMALL)
    seen = arena.reset([1], setups=[Setup((0.5, -0.5), joints={"shoulder": 0.3, "elbow": -0.2})])
    np.testing.assert_allclose(seen["joint_position"][1], [0.3, -0.2])
    np.testing.assert_allclose(seen["goal"][1], [0.5, -0.5])


def test_the_same_observation_function_serves_a_robot(swing):
    arena = Arena(swing.machine.scene, swing, 1, play=SMALL)
    seen = arena.reset()
    report = Observation(3.0, arena.sensed.position[0], arena.sensed.velocity[0], arena.sensed.torque[0])
    real = swing.observe(Sensed.of_robot(report, arena.sensed.goal[0], np.zeros(2), begun_s=3.0))
    for name, value in real.items():
        np.testing.assert_array_equal(value, seen[name], err_msg=name)


def test_commands_beyond_the_limits_are_clipped_and_counted(arm):
    arena = Arena(arm.machine.scene, arm, 2, play=SMALL)
    rest = arena.sensed.last
    wanted = rest.copy()
    wanted[0, 0] += 4.0
    step = arena.step(wanted)
    assert step.clipped["joint limit"].tolist() == [1, 0]
    assert step.clipped["speed limit"].tolist() == [1, 0]
    np.testing.assert_allclose(arena.sensed.last[0, 0] - rest[0, 0], 2.5 / 20)


def test_an_arm_at_rest_stays_where_it_is(arm):
    arena = Arena(arm.machine.scene, arm, 2, play=SMALL)
    begin = arena.situation.position
    held = arena.backing.worlds.ctrl.copy()
    for _ in range(10):
        step = arena.step(held)
    assert abs(step.situation.position - begin).max() < 0.01


def test_actions_of_another_shape_and_actions_that_are_no_numbers_are_refused(swing):
    arena = Arena(swing.machine.scene, swing, 2, play=SMALL)
    with pytest.raises(PolicyError, match=r"actions of shape \(2, 3\) came; \(2, 2\) is needed"):
        arena.step(np.zeros((2, 3)))
    with pytest.raises(TaskError, match=r"the action 'of the policy' .* in world 1 at step 0"):
        arena.step(np.array([[0.0, 0.0], [np.nan, 0.0]]))


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_reward_that_becomes_nan_is_named_with_world_and_step(swing, kind):
    def reward(situation):
        late = situation.time_s > 0.025
        return {**swing.reward(situation), "odd": situation.xp.where(late, float("nan"), 0.0)}

    arena = Arena(swing.machine.scene, replace(swing, reward=reward), 2, play=SMALL, arrays=kind)
    with pytest.raises(
        TaskError, match="the reward term 'odd' of the task 'reach' is NaN or infinite in world 0 at step 3"
    ):
        drive(arena, 5, np.random.default_rng(0))


def test_rows_that_do_not_fit_the_worlds_are_refused(swing):
    arena = Arena(swing.machine.scene, swing, 2, play=SMALL)
    with pytest.raises(TaskError, match="2 worlds begin an episode with 1 seeds"):
        arena.reset(seeds=[1])
    with pytest.raises(TaskError, match="a setup has 1 numbers as its goal, the task's own have 2"):
        arena.reset([0], setups=[Setup((0.5,))])
    with pytest.raises(TaskError, match="a setup puts the joint 'shoulders' somewhere"):
        arena.reset([0], setups=[Setup((0.5, 0.5), joints={"shoulders": 0.1})])
    with pytest.raises(TaskError, match="a setup puts an object somewhere, and the scene has no body ''"):
        arena.reset([0], setups=[Setup((0.5, 0.5), at_m=(0.1, 0.1))])
    with pytest.raises(TaskError, match="a Theta pushes lower_link, which no draw of this arena did"):
        arena.reset([0], thetas=[Theta({"body.lower_link.push": 3.0})])
    with pytest.raises(TaskError, match=r"a command's delay jitters by 0.05 s, more than two ticks of 0.01 s"):
        arena.reset([0], thetas=[Theta({"actuator.elbow.delay_jitter": 0.05})])
    with pytest.raises(TaskError, match="an arena was given no Thetas to take in turn"):
        Arena(swing.machine.scene, swing, 2, draws=[], play=SMALL)


def test_a_restart_is_as_if_nothing_had_been_before(swing):
    used, fresh = (Arena(swing.machine.scene, swing, 3, draws=[THETA, Theta()], play=SMALL) for _ in range(2))
    drive(used, 17, np.random.default_rng(1))
    found = []
    for arena in (used, fresh):
        seen = arena.restart(4, spread=True)
        assert arena.age.tolist() == [0, 7919 % 300, 2 * 7919 % 300]
        found.append({**drive(arena, 30, np.random.default_rng(2)), "first": seen["goal"]})
    for name, rows in found[0].items():
        np.testing.assert_array_equal(rows, found[1][name], err_msg=name)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_what_the_draws_vary_is_known_to_teachers(swing, kind):
    draws = [Theta({"joint.elbow.damping": d, "joint.shoulder.damping": 0.02}) for d in (0.01, 0.02, 0.03)]
    arena = Arena(swing.machine.scene, swing, 3, draws=[*draws, Theta()], play=SMALL, arrays=kind)
    assert arena.theta_ids == ("joint.elbow.damping", "joint.shoulder.damping")
    np.testing.assert_allclose(np.asarray(arena.theta), [[-1, 0], [0, 0], [1, 0]], atol=1e-12)
    arena.reset([0], thetas=[draws[2]])
    np.testing.assert_allclose(np.asarray(arena.theta)[0], [1, 0], atol=1e-12)
    damping = arena.backing.worlds._batch.expand("dof_damping")
    np.testing.assert_allclose(damping[:, 1], [0.03, 0.02, 0.03])


def test_an_arena_without_draws_has_no_parameters(swing):
    assert Arena(swing.machine.scene, swing, 2, play=SMALL).theta.shape == (2, 0)


def test_a_theta_that_was_given_is_gone_with_its_episode(swing):
    arena = Arena(swing.machine.scene, swing, 2, play=SMALL)
    damping = arena.backing.worlds._batch.expand("dof_damping")
    nominal = damping.copy()
    arena.reset([1], thetas=[Theta({"joint.elbow.damping": 0.5})])
    assert damping[1, 1] == 0.5
    arena.reset()
    np.testing.assert_array_equal(damping, nominal)


def test_every_episode_draws_from_a_randomization(swing):
    def entry(id, low, high):
        info = parameter(id).info
        return Range(info, low, high, (low + high) / 2, Declared("planted"), "dynamics", "rubbing", "none", "a test")

    ranges = (entry("joint.elbow.damping", 0.01, 0.03), entry("actuator.elbow.delay", 0.0, 0.02))
    randomization = Randomization(ranges, {})
    arenas = [Arena(swing.machine.scene, swing, 4, draws=randomization, seed=s, play=SMALL) for s in (0, 0, 1)]
    first, same, other = (arena.backing.worlds._batch.expand("dof_damping")[:, 1].copy() for arena in arenas)
    assert ((first >= 0.01) & (first <= 0.03)).all()
    assert len(set(first)) == 4
    np.testing.assert_array_equal(first, same)
    assert (first != other).all()
    arenas[0].reset()
    assert (arenas[0].backing.worlds._batch.expand("dof_damping")[:, 1] != first).all()
    assert arenas[0].theta_ids == ("actuator.elbow.delay", "joint.elbow.damping")
    assert abs(arenas[0].theta).max() <= 1


def test_readings_cannot_come_late_without_sensors(swing):
    mute = Scene(
        re.sub(r"<sensor>.*?</sensor>", "", swing.machine.scene.xml, flags=re.DOTALL), swing.machine.scene.root
    )
    task = reach.of(mute)
    arena = Arena(mute, task, 2, draws=[Theta({"joint.elbow.offset": 0.1})], play=SMALL)
    np.testing.assert_allclose(arena.sensed.position - arena.situation.position, [[0, 0.1]] * 2, atol=1e-12)
    with pytest.raises(
        TaskError, match=r"readings are to come late .* no sensors of position and velocity on shoulder"
    ):
        Arena(mute, task, 2, draws=[Theta({"proprioception.latency": 0.02})], play=SMALL)
