"""Commands come late and slack, measurements are shifted, noisy, coarse: the same whatever the number of worlds."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.models import ARM, EVERYTHING
from twinproof.nouns.errors import SimError
from twinproof.nouns.theta import Theta
from twinproof.sim.channels import ControlChannel, SensorChannel, normal, uniform
from twinproof.sim.scene import Scene

MODEL = Scene(ARM).nominal()


def sent(channel: ControlChannel, commands: np.ndarray) -> np.ndarray:
    """Sends one row a tick to all worlds and both actuators; what the first actuator of each world gets."""
    return np.array([channel(np.full(channel.shift.shape, each))[:, 0] for each in commands])


def test_without_parameters_nothing_changes():
    commands = np.random.default_rng(0).normal(size=(5, 3, 2))
    control, sensor = ControlChannel(MODEL, [Theta()] * 3, 0.02, 0), SensorChannel(MODEL, [Theta()] * 3, 0)
    for each in commands:
        np.testing.assert_array_equal(control(each), each)
        np.testing.assert_array_equal(sensor(each), each)


def test_backlash_is_play_of_its_width():
    channel = ControlChannel(MODEL, [Theta({"actuator.shoulder.backlash": 0.2}), Theta()], 0.02, 0)
    found = sent(channel, np.array([0.0, 0.05, 0.3, 0.25, 0.15, 0.05]))
    np.testing.assert_allclose(found[:, 0], [0.0, 0.0, 0.2, 0.2, 0.2, 0.15])
    np.testing.assert_allclose(found[:, 1], [0.0, 0.05, 0.3, 0.25, 0.15, 0.05])
    channel.reset([0])
    assert sent(channel, np.array([0.0]))[0, 0] == 0.0


def test_a_joint_offset_shifts_measurements_and_commands_back():
    theta = Theta({"joint.elbow.offset": 0.1})
    control, sensor = ControlChannel(MODEL, [theta, Theta()], 0.02, 0), SensorChannel(MODEL, [theta, Theta()], 0)
    np.testing.assert_allclose(control(np.ones((2, 2))), [[1, 0.9], [1, 1]])
    np.testing.assert_allclose(sensor(np.ones((2, 2))), [[1, 1.1], [1, 1]])
    np.testing.assert_allclose(sensor.encoders(np.zeros((2, MODEL.nq)))[:, :3], [[0, 0.1, 0], [0, 0, 0]])
    # The controller asks for 0.5 in its own eyes, and reads 0.5 where the joint really is at 0.4.
    really = control(np.full((2, 2), 0.5))
    np.testing.assert_allclose(sensor(really)[0], 0.5)


def test_a_joint_offset_reaches_the_sensor_of_its_servo_through_the_gear():
    model = Scene(
        EVERYTHING.replace('name="servo" joint="hinge" kp', 'name="servo" joint="hinge" gear="3" kp')
    ).nominal()
    sensor = SensorChannel(model, [Theta({"joint.hinge.offset": 0.1, "sensor.angle.noise": 0.0})], 0)
    np.testing.assert_allclose(sensor(np.zeros((1, 5)))[0], [0.1, 0, 0, 0, 0.3])


def test_jitter_delays_by_its_mean_and_keeps_the_order():
    jitter_s, period_s = 0.05, 0.02
    channel = ControlChannel(MODEL, [Theta({"actuator.shoulder.delay_jitter": jitter_s})] * 4 + [Theta()], period_s, 1)
    found = sent(channel, np.arange(4000.0))
    late = np.arange(4000.0)[:, None] - found
    assert (np.diff(found, axis=0) >= 0).all()
    assert (late[:, 4] == 0).all()
    assert late.max() <= np.ceil(jitter_s / period_s)
    # A command waits for a late one before it, so the mean is above half the jitter and below all of it.
    assert jitter_s / 2 / period_s < late[:, :4].mean() < jitter_s / period_s
    assert np.corrcoef(late[:, 0], late[:, 1])[0, 1] < 0.1


def test_a_reset_world_takes_its_first_command_at_once():
    channel = ControlChannel(MODEL, [Theta({"actuator.shoulder.delay_jitter": 0.2})] * 3, 0.02, 1)
    sent(channel, np.arange(10.0))
    channel.reset(np.array([1]))
    found = sent(channel, np.array([77.0, 77.0, 77.0]))
    assert (found[:, 1] == 77).all()
    assert (found[0, [0, 2]] < 10).all()
    channel.set_thetas([0], [Theta({"actuator.shoulder.delay_jitter": 0.9})])
    assert sent(channel, np.arange(100.0, 200.0)).shape == (100, 3)


def test_sensor_bias_noise_and_quantum():
    theta = Theta({"sensor.elbow.bias": 0.5, "sensor.shoulder.noise": 0.1, "sensor.elbow.quantum": 0.25})
    sensor = SensorChannel(MODEL, [theta] * 2000, 3)
    measured = sensor(np.full((2000, 2), 0.3))
    assert measured[:, 0].mean() == pytest.approx(0.3, abs=0.01)
    assert measured[:, 0].std() == pytest.approx(0.1, rel=0.05)
    assert (measured[:, 1] == 0.75).all()
    sensor.reset([0])
    assert (sensor(np.full((2000, 2), 0.3))[:, 0] != measured[:, 0]).all()


def test_noise_that_the_model_states_is_there_without_a_theta():
    model = Scene(EVERYTHING).nominal()
    assert SensorChannel(model, [Theta()], 0).noise[0, 0] == pytest.approx(0.01)


def test_a_world_draws_the_same_whatever_the_number_of_worlds():
    theta = Theta({"sensor.shoulder.noise": 0.1, "actuator.shoulder.delay_jitter": 0.1})
    few, many = SensorChannel(MODEL, [theta] * 3, 5), SensorChannel(MODEL, [theta] * 50, 5)
    for _ in range(3):
        np.testing.assert_array_equal(few(np.zeros((3, 2))), many(np.zeros((50, 2)))[:3])
    few_c, many_c = ControlChannel(MODEL, [theta] * 3, 0.02, 5), ControlChannel(MODEL, [theta] * 50, 0.02, 5)
    np.testing.assert_array_equal(sent(few_c, np.arange(50.0)), sent(many_c, np.arange(50.0))[:, :3])
    other = SensorChannel(MODEL, [theta] * 3, 6)
    assert not np.array_equal(other(np.zeros((3, 2))), SensorChannel(MODEL, [theta] * 3, 5)(np.zeros((3, 2))))


def test_the_numbers_are_evenly_spread_and_unrelated():
    key = np.uint64(7)
    block = np.stack([uniform(key, (200, 5), tick) for tick in range(100)])
    counts = np.histogram(block, bins=20, range=(0, 1))[0]
    assert ((counts - 5000) ** 2 / 5000).sum() < 45  # chi-squared, 19 degrees of freedom, 1 in 1000
    for axis in range(3):
        moved = np.roll(block, 1, axis=axis)
        assert abs(np.corrcoef(block.ravel(), moved.ravel())[0, 1]) < 0.012  # 3.8 sd of 100,000 pairs
    bells = np.stack([normal(key, (200, 5), tick) for tick in range(100)])
    assert bells.mean() == pytest.approx(0, abs=0.012)
    assert bells.std() == pytest.approx(1, abs=0.01)
    assert (bells**4).mean() == pytest.approx(3, abs=0.1)


def test_arrays_of_the_wrong_width_are_refused():
    with pytest.raises(SimError, match="commands have the shape"):
        ControlChannel(MODEL, [Theta()], 0.02, 0)(np.zeros((1, 3)))
    with pytest.raises(SimError, match="sensor data have the shape"):
        SensorChannel(MODEL, [Theta()], 0)(np.zeros((2, 2)))
