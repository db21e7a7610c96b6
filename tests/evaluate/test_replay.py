"""Logged actions sent to the twin: a twin that is the robot replays it, another does not, and the report says where."""

from __future__ import annotations

import numpy as np
import pytest

from tests.evaluate.practice import rig
from twinproof.evaluate.replay import by_world, moving, replay, replay_report, replayed, twin_tips, with_ranges
from twinproof.evaluate.tips import Tips
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import TraceError
from twinproof.nouns.rig import Arm, Joint, Rig
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.theta import Theta
from twinproof.sim.rollout import Rollouts
from twinproof.sim.scene import Scene
from twinproof.sim.windows import Start

ARM = """<mujoco><option timestep="0.002"/><compiler angle="radian"/><worldbody>
 <body name="upper"><joint name="a" axis="0 1 0" damping="0.5"/>
   <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.02"/>
  <body name="lower" pos="0 0 -0.3"><joint name="b" axis="0 1 0" damping="0.4" range="-2 2" limited="true"/>
   <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02"/><site name="tip" pos="0 0 -0.2"/></body></body>
</worldbody><actuator><motor name="a" joint="a"/><motor name="b" joint="b"/></actuator></mujoco>"""
JOINTS = ("a", "b")
RIG = Rig("arm", tuple(Joint(name) for name in JOINTS), (Arm("arm", JOINTS, tip="lower"),))


def recorded(theta: Theta, seconds: float = 1.5, seed: int = 0) -> Episode:
    """What the arm with these values records at 100 Hz."""
    scene, rate = Scene(ARM).reserving(0.1), 0.01
    time_s = np.arange(round(seconds / rate)) * rate
    phase = np.random.default_rng(seed).uniform(0, 6, 2)
    command = 1.2 * np.sin(3 * time_s[:, None] + phase) * [1.0, 0.4]
    start = Start(np.zeros((1, 2)), np.zeros((1, 2)))
    rolled = Rollouts(scene, substeps=5).roll([theta], start, command[None])
    qpos = np.concatenate([np.zeros((1, 2)), rolled["qpos"][0, 0]])
    qvel = np.concatenate([np.zeros((1, 2)), rolled["qvel"][0, 0]])
    stamps = np.arange(len(qpos)) * rate
    columns = tuple(Column(name, "rad") for name in JOINTS)
    signals = {
        "state": Signal("state", "joint_position", columns, stamps, qpos),
        "velocity": Signal("velocity", "joint_velocity", columns, stamps, qvel),
        "command": Signal("command", "joint_command", columns, time_s, command),
    }
    return Episode.of(signals, {}, labels={"object": "none"}, source=f"take {seed}")


def test_the_same_arm_replays_its_own_actions_and_a_heavier_one_does_not():
    scene, truth = Scene(ARM), Theta({"body.lower.mass": 0.9})
    arm, episode = with_ranges(RIG, scene), recorded(truth)
    right, wrong = (replay(scene, episode, theta, arm, twin_tips(arm, scene)) for theta in (truth, Theta()))
    assert right.total_rmse < 2e-3  # starts are read off the readings around them
    assert right.tip_m is not None
    assert right.tip_m < 1e-3
    assert wrong.total_rmse > 20 * right.total_rmse
    assert wrong.diverged_s is None


def test_restarts_keep_what_a_long_replay_magnifies_small():
    scene, episode = Scene(ARM), recorded(Theta({"body.lower.mass": 0.9}))
    arm = with_ranges(RIG, scene)
    whole, often = (replay(scene, episode, Theta(), arm, restart_s=s).total_rmse for s in (np.inf, 0.2))
    assert often < whole / 2


def test_a_replay_is_an_episode_with_the_same_stamps_that_says_what_it_replays():
    episode = recorded(Theta())
    shown = replayed(Scene(ARM), episode, Theta())
    assert shown.labels["replay_of"] == episode.id
    assert np.isin(shown.signals["state"].time_s, episode.signals["state"].time_s).all()
    assert shown.notes == ()


def test_worlds_that_are_the_same_are_rolled_once_and_every_trial_has_its_own():
    scene, episodes = Scene(ARM), {"h01": recorded(Theta()), "h02": recorded(Theta(), seed=1)}
    heavy = Theta({"body.lower.mass": 0.9})
    worlds = {("h01", "twin", 0): Theta(), ("h01", "twin", 1): Theta(), ("h02", "draws", 0): heavy}
    worlds["h02", "draws", 1] = Theta({"actuator.b.gain": 1e4})
    found, failed = by_world(
        dict.fromkeys({key[1] for key in worlds}, scene), episodes, worlds, with_ranges(RIG, scene), Tips()
    )
    assert found["h01", "twin", 0] is found["h01", "twin", 1]
    assert list(failed) == [("h02", "draws", 1)]
    assert found["h02", "draws", 0].total_rmse > 10 * found["h01", "twin", 0].total_rmse


def test_the_whole_protocol_runs_on_replays():
    scene = Scene(ARM)
    arm = with_ranges(RIG, scene)
    told = replay_report(scene, [recorded(Theta()), recorded(Theta(), seed=1)], Theta({"joint.a.damping": 2.0}), arm)
    assert [pair.overall.gap.total_rmse > 0.01 for pair in told.pairs] == [True, True]
    assert told.only_real == told.only_sim == ()


def test_a_joint_without_limits_has_the_range_of_a_full_turn():
    ranges = [joint.range for joint in with_ranges(RIG, Scene(ARM)).joints]
    assert ranges[0] == (-np.pi, np.pi)
    assert ranges[1] == (-2.0, 2.0)
    assert with_ranges(rig(), Scene(ARM)).joints[0].range == (-np.pi, np.pi)


def test_a_twin_that_diverges_at_once_or_early_is_no_replay():
    scene, episode, wild = Scene(ARM), recorded(Theta()), Theta({"actuator.b.gain": 1e4})
    arm = with_ranges(RIG, scene)
    with pytest.raises(TraceError, match="diverges at once"):
        replay(scene, episode, wild, arm)
    command = episode.signals["command"]
    late = np.where(command.time_s[:, None] < 0.4, 0.0, command.value)
    calm = {**episode.signals, "command": Signal("command", command.kind, command.columns, command.time_s, late)}
    with pytest.raises(TraceError, match="before half of the logged actions"):
        replay(scene, Episode.of(calm, {}), Theta({"actuator.b.gain": 1e5, "joint.b.damping": 0.0}), arm)


def test_looks_noise_and_starts_of_a_draw_move_nothing():
    drawn = Theta({"body.lower.mass": 0.5, "joint.a.position_noise": 0.1, "joint.a.start": 1.0, "image.noise": 0.1})
    assert moving(drawn) == Theta({"body.lower.mass": 0.5})
    episode = recorded(Theta({"body.lower.mass": 0.5}))
    assert replay(Scene(ARM), episode, drawn, with_ranges(RIG, Scene(ARM))).total_rmse < 2e-3
