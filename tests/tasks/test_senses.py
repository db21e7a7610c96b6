"""What stands between worlds and a policy: readings, a tracker, commands, pushes. Each does what its number says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.tasks.scenes import home, lab_scene
from twinproof.nouns.theta import Theta
from twinproof.sim.channels import ODD, mixed
from twinproof.sim.kinematics import chain_of
from twinproof.sim.scene import Scene
from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.named import task_named
from twinproof.tasks.noise import HostNoise
from twinproof.tasks.tips import TipPosition

COUNT = 64
PLAY = Play(bank=4, auto_reset=False, nthread=1)


def swings(values, count=COUNT, **more):
    task = task_named("reach", lab_scene("pendulum"))
    return Arena(task.machine.scene, task, count, draws=[Theta(values)], play=replace(PLAY, **more))


def pushed(values, count=8):
    task = task_named("push", lab_scene("push"), home=home("push"))
    return Arena(task.machine.scene, task, count, draws=[Theta(values)], play=PLAY)


def test_readings_have_the_bias_the_noise_and_the_steps_that_were_asked_for():
    arena = swings(
        {
            "joint.shoulder.offset": 0.2,
            "sensor.shoulder_position.noise": 0.03,
            "joint.shoulder.position_noise": 0.04,
            "sensor.elbow_velocity.bias": 1.5,
            "sensor.elbow_position.quantum": 0.5,
        }
    )
    off = []
    for _ in range(20):
        arena.step(np.zeros((COUNT, 2)))
        off.append(arena.sensed.position - arena.situation.position)
        np.testing.assert_allclose(arena.sensed.velocity[:, 1] - arena.situation.velocity[:, 1], 1.5, atol=1e-9)
        np.testing.assert_allclose(arena.sensed.position[:, 1] % 0.5 % 0.5, 0.0, atol=1e-9)
    shoulder = np.concatenate(off)[:, 0]
    assert shoulder.mean() == pytest.approx(0.2, abs=5e-3)  # five standard errors of 1,280 draws
    assert shoulder.std() == pytest.approx(0.05, rel=0.1)  # both noises together


def test_a_lost_reading_is_the_one_before():
    arena = swings({"proprioception.dropout": 0.5})
    before, lost = arena.sensed.position, []
    for _ in range(20):
        arena.step(np.full((COUNT, 2), 1.0))
        lost.append((arena.sensed.position == before).all(axis=1))
        before = arena.sensed.position
    assert np.mean(lost) == pytest.approx(0.5, abs=0.07)  # five standard errors


def test_readings_come_late_by_their_latency():
    late, prompt = swings({"proprioception.latency": 0.03}, 2), swings({"joint.elbow.damping": 0.012}, 2)
    seen = {"late": [], "prompt": []}
    for _ in range(12):
        for name, arena in (("late", late), ("prompt", prompt)):
            arena.step(np.full((2, 2), 1.0))
            seen[name].append(arena.sensed.position)
    np.testing.assert_allclose(np.array(seen["late"])[3:], np.array(seen["prompt"])[:-3], atol=1e-6)


def test_a_tracker_is_noisy_late_and_sometimes_silent():
    arena = pushed({"tracker.position_noise": 0.01, "tracker.rotation_noise": 0.05, "tracker.dropout": 0.25}, COUNT)
    rest, off, same = arena.sensed.last, [], []
    before = arena.sensed.objects["object"]
    for _ in range(12):
        arena.step(rest)
        now = arena.sensed.objects["object"]
        off.append(now[:, :3] - arena.situation.objects["object"][:, :3])
        same.append((now == before).all(axis=1))
        before = now
    np.testing.assert_allclose(np.linalg.norm(before[:, 3:], axis=1), 1.0)
    assert np.concatenate(off).std() == pytest.approx(0.01, rel=0.15)
    assert np.mean(same) == pytest.approx(0.25, abs=0.08)


def test_a_tracker_lags_by_whole_ticks():
    arena = pushed({"tracker.latency": 0.1}, 2)  # two ticks
    rest, true, said = arena.sensed.last, [arena.situation.objects["object"]], [arena.sensed.objects["object"]]
    worlds = arena.backing.worlds
    for _ in range(5):
        place = worlds.qpos[:, -7]
        worlds.qpos[:, -7] = place + 0.01  # somebody moves the object
        arena.step(rest)
        true.append(arena.situation.objects["object"])
        said.append(arena.sensed.objects["object"])
    np.testing.assert_allclose(np.array(said)[2:], np.array(true)[:-2], atol=1e-12)
    np.testing.assert_allclose(said[1], true[0], atol=1e-12)


def test_commands_are_noisy_and_come_late_and_slack():
    arena = swings(
        {"actuator.shoulder.noise": 0.5, "actuator.shoulder.backlash": 0.2, "actuator.elbow.delay_jitter": 0.01}
    )
    told = []
    for _ in range(10):
        arena.step(np.zeros((COUNT, 2)))
        told.append(arena.sensed.last[:, 0])
        assert (abs(arena.backing.worlds.ctrl[:, 0] - arena.sensed.last[:, 0]) <= 0.1 + 1e-12).all()
    assert np.concatenate(told).std() == pytest.approx(0.5, rel=0.15)
    steps = []
    for k in range(20):
        arena.step(np.full((COUNT, 2), k % 2 * 1.0))
        steps.append(arena.backing.worlds.ctrl[:, 1] != arena.sensed.last[:, 1])
    assert np.mean(steps) == pytest.approx(0.5, abs=0.08)  # half of a tick of 10 ms, on average


def test_an_actuators_delay_is_the_physics_own():
    late, prompt = swings({"actuator.shoulder.delay": 0.02}, 2), swings({"joint.elbow.damping": 0.012}, 2)
    for k in range(3):
        a, b = late.step(np.full((2, 2), 2.0)), prompt.step(np.full((2, 2), 2.0))
        same = np.allclose(a.situation.velocity[:, 0], b.situation.velocity[:, 0], atol=1e-3)
        assert not same, f"tick {k}"


def test_bodies_are_pushed_now_and_then_and_as_hard_as_asked():
    arena = pushed({"body.object.push": 0.7}, COUNT)
    rest, body = arena.sensed.last, arena.backing.model.body("object").id
    on = []
    for _ in range(24):
        arena.step(rest)
        force = np.linalg.norm(arena.backing.worlds.view("xfrc_applied")[:, body, :3], axis=1)
        np.testing.assert_allclose(force[force > 0], 0.7)
        on.append(force > 0)
    on = np.array(on)
    assert on.mean() == pytest.approx(0.05, abs=0.03)  # a tenth of a second in two seconds
    assert (on[0::2] == on[1::2]).all(), "a push lasts two ticks of 50 ms"


def test_things_start_where_a_theta_says():
    arena = pushed({"body.object.start_x": 0.31, "body.object.start_yaw": 0.2, "joint.waist.start": 0.3}, 2)
    np.testing.assert_allclose(arena.situation.first["object"][:, 0], 0.31)
    np.testing.assert_allclose(arena.situation.position[:, 0], 0.3)


def test_a_worlds_noise_depends_on_its_key_and_tick_alone():
    few, many = HostNoise(2, np.array), HostNoise(5, np.array)
    few.restart(np.ones(2, bool), np.array([3, 9], np.uint64))
    many.restart(np.ones(5, bool), np.array([1, 9, 3, 4, 5], np.uint64))
    for _ in range(3):
        np.testing.assert_array_equal(few.uniform(4, 1), many.uniform(4, 1)[[2, 1]])
        assert (few.uniform(4, 1) != few.uniform(4, 2)).all()
        few.next()
        many.next()
    drawn = HostNoise(20_000, np.array)
    drawn.restart(np.ones(20_000, bool), np.arange(20_000, dtype=np.uint64))
    normal = drawn.normal(2, 3)
    assert abs(normal.mean()) < 0.02
    assert normal.std() == pytest.approx(1.0, abs=0.02)
    assert abs(np.corrcoef(normal.T)[0, 1]) < 0.03


@pytest.mark.parametrize("bench", ["push", "pendulum", "handover"])
def test_tips_are_where_the_models_chain_puts_them(bench):
    task = task_named("handover" if bench == "handover" else "reach", lab_scene(bench), home=home(bench))
    machine = task.machine
    arms = machine.arms or (machine.arm("lower_link"),)
    q = np.random.default_rng(0).uniform(-1, 1, (5, len(machine.joints)))
    for arm in arms:
        columns = [machine.joints.index(name) for name in arm.joints]
        expected = machine.chain(arm).poses(q[:, columns])[:, :3, 3]
        tip = TipPosition(machine.chain(arm), columns)
        np.testing.assert_allclose(tip(q, np), expected, atol=1e-12)
        np.testing.assert_allclose(tip.by_parts(q, np), expected, atol=1e-12)
        wide = np.zeros((5, 2 * len(machine.joints)))[:, : len(machine.joints)]  # rows that do not lie together
        wide[:] = q
        np.testing.assert_array_equal(tip(wide, np), tip(q, np))


def test_a_tip_on_a_slide_is_where_the_chain_puts_it():
    text = """<mujoco><worldbody><body pos=".1 0 .2" euler="10 20 30"><joint name="turn" axis="0 1 1"/>
      <geom size=".1"/><body pos="0 .3 .1"><joint name="slide" type="slide" axis="1 0 1"/><geom size=".1"/>
      <body name="tip" pos=".1 .2 .3"><geom size=".1"/></body></body></body></worldbody></mujoco>"""
    chain = chain_of(Scene(text), ("turn", "slide"), "tip")
    q = np.random.default_rng(0).uniform(-1, 1, (4, 2))
    tip = TipPosition(chain, (0, 1))
    np.testing.assert_allclose(tip(q, np), chain.poses(q)[:, :3, 3], atol=1e-12)
    np.testing.assert_allclose(tip.by_parts(q, np), chain.poses(q)[:, :3, 3], atol=1e-12)


def test_numbers_of_a_world_are_counted_as_splitmix_counts_them():
    noise, keys = HostNoise(3, np.array), np.array([3, 2**63, 2**64 - 1], np.uint64)
    noise.restart(np.ones(3, bool), keys)
    noise.next()
    with np.errstate(over="ignore"):
        state = mixed(keys + ODD[0] + np.uint64(7) * ODD[1])
        bits = mixed(state[:, None] + np.arange(5, dtype=np.uint64) * ODD[2])
    np.testing.assert_array_equal(noise.uniform(5, 7), ((bits >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53)


def test_objects_of_another_size_stand_on_the_table_and_keep_their_size():
    task = task_named("push", lab_scene("push"), home=home("push"))
    sizes = (0.8, 1.0, 1.25)
    draws = [Theta({"body.object.scale": size, "body.object.mass": 0.1}) for size in sizes]
    short = replace(task, horizon_s=0.2)
    arena = Arena(task.machine.scene, short, 3, draws=draws, play=Play(bank=7, nthread=1))
    for _ in range(6):  # over the end of an episode
        step = arena.step(arena.sensed.last)
        np.testing.assert_allclose(step.situation.objects["object"][:, 2], 0.042 * np.array(sizes), atol=1.5e-3)
    assert step.situation.speed["object"].max() < 0.05


def test_a_trackers_bias_stays_through_an_episode_and_the_critic_knows_the_truth():
    arena = pushed({"tracker.position_bias": 0.01, "tracker.rotation_bias": 0.05}, COUNT)

    def off():
        told, true = arena.sensed.objects["object"], arena.situation.objects["object"]
        return told[:, :3] - true[:, :3], 2 * np.arccos(np.clip(np.abs((told[:, 3:] * true[:, 3:]).sum(1)), 0, 1))

    arena.reset(seeds=list(range(COUNT)))
    place, turn = off()
    assert place.std() == pytest.approx(0.01, rel=0.2)
    assert np.sqrt(np.mean(turn**2)) == pytest.approx(0.05 * np.sqrt(3), rel=0.2)
    step = arena.step(arena.sensed.last)
    later, _ = off()
    np.testing.assert_allclose(later, place, atol=1e-9)
    seen, true = step.observations["object_position"], arena.situation.objects["object"][:, :3]
    np.testing.assert_allclose(seen - true, place, atol=1e-9)
    hidden = {name: step.observations[name] for name in arena.task.contract.privileged}
    again = arena.task.privileged(arena.situation)
    assert hidden
    for name, value in hidden.items():
        np.testing.assert_array_equal(value, again[name])
    arena.reset()
    assert np.abs(off()[0] - place).max() > 0.005  # another episode, another bias
