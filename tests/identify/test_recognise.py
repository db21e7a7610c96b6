"""Experiments are recognised for what they are good for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from tests.sim.motions import BOX, DRAWER, PENDULUM, joint_signals, moved, pose_signal, signal, sines, swing
from twinproof.identify.recognise import Motion, recognise
from twinproof.nouns.episode import Episode
from twinproof.nouns.randomness import stream
from twinproof.nouns.signal import Signal
from twinproof.sim.experiment import experiment
from twinproof.sim.scene import Scene

# a motor beside a box that somebody may have moved
TABLE = BOX.replace("</worldbody>", PENDULUM.split("<worldbody>")[1].split("</worldbody>")[0] + "</worldbody>").replace(
    "</mujoco>", '<actuator><motor name="hinge" joint="hinge"/></actuator></mujoco>'
)
TIME_S = np.arange(100) * 0.01


def kind(text: str, signals: Mapping[str, Signal]) -> Motion:
    return recognise(experiment(Episode.of(signals, {}), Scene(text)))


def track(x: np.ndarray, z: np.ndarray) -> Signal:
    noise = 1e-5 * stream(0, "track").normal(size=(2, len(x)))
    rest = {"qw": np.ones(len(x)), **{axis: np.zeros(len(x)) for axis in ("qx", "qy", "qz")}}
    return signal("box", "pose", {"x": x + noise[0], "y": np.zeros(len(x)), "z": z + noise[1], **rest}, TIME_S, "m")


def test_a_driven_joint_and_one_that_swings_freely() -> None:
    assert recognise(experiment(swing(PENDULUM), Scene(PENDULUM))) is Motion.DRIVEN
    motion = moved(Scene(DRAWER), seconds=1.0, qvel=np.array([0.5, 0.0]))
    assert kind(DRAWER, joint_signals(motion, None, kinds=("state",))) is Motion.FREE
    still = moved(Scene(PENDULUM), np.zeros((250, 1)))
    assert kind(PENDULUM, joint_signals(still, np.zeros((250, 1)), kinds=("state",))) is Motion.STILL


def test_a_swing_whose_motor_is_sent_nothing_is_free() -> None:
    free = moved(Scene(PENDULUM), np.zeros((250, 1)), qpos=np.array([1.0]))
    assert kind(PENDULUM, joint_signals(free, np.zeros((250, 1)), kinds=("state",))) is Motion.FREE


def test_a_box_that_is_tossed_and_one_that_lies() -> None:
    motion = moved(Scene(BOX), seconds=0.4, qpos=np.array([0, 0, 0.5, 1, 0, 0, 0]), qvel=np.array([1, 0, 1, 0, 0, 4.0]))
    assert kind(BOX, {"box": pose_signal(motion, "box", "box", 5)}) is Motion.TOSS
    assert kind(BOX, {"box": track(np.zeros(100), np.full(100, 0.03))}) is Motion.STILL


@pytest.mark.parametrize(
    ("x", "z", "expected"),
    [
        (np.linspace(0, 0.1, 100), np.full(100, 0.03), Motion.PUSH),
        (np.linspace(0, 0.1, 100), np.linspace(0.03, 0.2, 100), Motion.LIFT),
        (np.zeros(100), np.full(100, 0.03), Motion.DRIVEN),
    ],
)
def test_a_box_beside_a_driven_arm_is_pushed_lifted_or_left(x: np.ndarray, z: np.ndarray, expected: Motion) -> None:
    sent = signal("command", "joint_command", {"hinge": sines(100, 1, 0.01, 0)[:, 0]}, TIME_S)
    state = signal("state", "joint_position", {"hinge": 0.1 * np.sin(TIME_S)}, TIME_S)
    assert kind(TABLE, {"box": track(x, z), "command": sent, "state": state}) is expected


def test_every_kind_says_what_it_tells_best() -> None:
    assert all(": " in motion.value for motion in Motion)
    assert "friction" in Motion.PUSH.value
    assert "delay" in Motion.DRIVEN.value
