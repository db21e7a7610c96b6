"""States between noisy readings: places, speeds and accelerations of joints, free bodies and mirrored fingers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.motions import BOX, DOUBLE, DRAWER, moved, pose_signal, signal
from twinproof.nouns.episode import Episode
from twinproof.nouns.randomness import stream
from twinproof.nouns.signal import Signal
from twinproof.sim.readings import Reading, readings
from twinproof.sim.scene import Scene
from twinproof.sim.smooth import states_at
from twinproof.sim.tangent import between_quaternions

FINGERS = """
<mujoco>
  <compiler angle="radian"/>
  <worldbody>
    <body name="left"><joint name="left" type="slide" axis="0 1 0" ref=".01"/><geom size=".01"/></body>
    <body name="right" pos="0 .2 0"><joint name="right" type="slide" axis="0 -1 0"/><geom size=".01"/></body>
    <body name="cap" pos="0 .4 0"><joint name="cap" type="slide" axis="0 0 1"/><geom size=".01"/></body>
  </worldbody>
  <equality><joint joint1="right" joint2="left" polycoef=".002 1.5 3 0 0"/></equality>
</mujoco>
"""
TIME_S = np.arange(200) * 0.01
AT_S = np.linspace(0.1, 1.9, 25)


def read(model: object, *signals: Signal) -> tuple[Reading, ...]:
    return readings(Episode.of({each.name: each for each in signals}, {}), model)[0]


def test_a_noisy_sine_gives_up_its_place_speed_and_acceleration() -> None:
    model, rng = Scene(DOUBLE).nominal(), stream(0, "smooth")
    noisy = {"elbow": np.sin(3 * TIME_S) + 1e-4 * rng.normal(size=200), "shoulder": np.zeros(200)}
    found = states_at(read(model, signal("state", "joint_position", noisy, TIME_S)), model, AT_S)
    assert np.sqrt(np.mean((found.qpos[:, 1] - np.sin(3 * AT_S)) ** 2)) < 1e-4
    assert np.sqrt(np.mean((found.qvel[:, 1] - 3 * np.cos(3 * AT_S)) ** 2)) < 0.01
    assert np.sqrt(np.mean((found.acceleration[:, 1] + 9 * np.sin(3 * AT_S)) ** 2)) < 1.0
    assert found.measured.tolist() == [True, True]


def test_measured_speeds_make_the_state_surer() -> None:
    model, rng = Scene(DOUBLE).nominal(), stream(1, "smooth")
    place = signal("state", "joint_position", {"elbow": np.sin(3 * TIME_S) + 1e-3 * rng.normal(size=200)}, TIME_S)
    speed = {"elbow": 3 * np.cos(3 * TIME_S) + 1e-3 * rng.normal(size=200)}
    alone = states_at(read(model, place), model, AT_S)
    both = states_at(read(model, place, signal("v", "joint_velocity", speed, TIME_S)), model, AT_S)
    wrong = [np.abs(each.qvel[:, 1] - 3 * np.cos(3 * AT_S)).max() for each in (alone, both)]
    assert wrong[1] < 0.01 < wrong[0]


def test_missing_readings_and_the_ends_of_a_recording_are_bridged() -> None:
    model = Scene(DOUBLE).nominal()
    value = np.sin(3 * TIME_S)
    value[40:48] = np.nan
    found = states_at(
        read(model, signal("state", "joint_position", {"elbow": value}, TIME_S)), model, np.array([0.0, 0.44, 1.99])
    )
    np.testing.assert_allclose(found.qpos[:, 1], np.sin(3 * np.array([0.0, 0.44, 1.99])), atol=1e-3)
    np.testing.assert_allclose(found.qvel[:, 1], 3 * np.cos(3 * np.array([0.0, 0.44, 1.99])), atol=0.06)


def test_what_nobody_measured_stays_where_the_model_has_it_and_is_said() -> None:
    text = DRAWER.replace("</mujoco>", '<keyframe><key name="home" qpos="0.2 0.7"/></keyframe></mujoco>')
    model = Scene(text).nominal()
    found = states_at(
        read(model, signal("state", "joint_position", {"rail": np.sin(TIME_S)}, TIME_S)), model, np.array([0.5, 1.0])
    )
    np.testing.assert_allclose(found.qpos[:, 1], 0.7)
    np.testing.assert_allclose(found.qvel[:, 1], 0.0)
    assert found.measured.tolist() == [True, False]


def test_a_tumbling_box_gives_up_its_pose_and_velocity_as_mujoco_has_them() -> None:
    motion = moved(
        Scene(BOX), seconds=0.3, qpos=np.array([0, 0, 1.0, 1, 0, 0, 0]), qvel=np.array([1, 0, 0.5, 4, 1, -3.0])
    )
    found = states_at(
        read(motion.model, pose_signal(motion, "box", "box", every=5)), motion.model, motion.time_s[20:120:7]
    )
    true_q, true_v = motion.qpos[20:120:7], motion.qvel[20:120:7]
    np.testing.assert_allclose(found.qpos[:, :3], true_q[:, :3], atol=1e-4)
    np.testing.assert_allclose(between_quaternions(true_q[:, 3:], found.qpos[:, 3:]), 0.0, atol=2e-3)
    np.testing.assert_allclose(found.qvel[:, :3], true_v[:, :3], atol=0.01)
    np.testing.assert_allclose(found.qvel[:, 3:], true_v[:, 3:], atol=0.05)
    np.testing.assert_allclose(found.acceleration[:, 2], -9.81, atol=0.2)
    assert found.measured.all()


def test_a_mirrored_finger_follows_its_equality() -> None:
    model = Scene(FINGERS).nominal()
    value = 0.01 + 0.02 * np.sin(3 * TIME_S)
    found = states_at(read(model, signal("state", "joint_position", {"left": value}, TIME_S)), model, AT_S)
    x, speed = 0.02 * np.sin(3 * AT_S), 0.06 * np.cos(3 * AT_S)
    np.testing.assert_allclose(found.qpos[:, 1], 0.002 + 1.5 * x + 3 * x**2, atol=1e-5)
    np.testing.assert_allclose(found.qvel[:, 1], speed * (1.5 + 6 * x), atol=1e-3)
    np.testing.assert_allclose(found.qpos[:, 2], 0.0)
    assert found.measured.tolist()[2] is False


def test_a_finger_that_was_measured_itself_keeps_its_reading() -> None:
    model = Scene(FINGERS).nominal()
    both = {"left": 0.02 * np.sin(3 * TIME_S), "right": 0.005 * np.cos(TIME_S)}
    found = states_at(read(model, signal("state", "joint_position", both, TIME_S)), model, AT_S)
    assert found.qpos[:, 1] == pytest.approx(0.005 * np.cos(AT_S), abs=1e-5)
