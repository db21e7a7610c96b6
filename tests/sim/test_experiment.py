"""An episode made ready: commands delayed, shifted by encoders, held by backlash; windows that cover it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.sim.motions import DOUBLE, PENDULUM, SERVO, joint_signals, late, moved, signal, sines, swing
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import RecordingError
from twinproof.sim.experiment import Experiment, Passage, experiment, passage
from twinproof.sim.scene import Scene


def driven(text: str = PENDULUM, seconds: float = 1.0) -> Experiment:
    return experiment(swing(text, seconds=seconds), Scene(text))


def through(each: Experiment, delay_s: float = 0.0, shift: float = 0.0, slack: float = 0.0) -> np.ndarray:
    return each.controls(Passage(np.array([delay_s]), np.array([shift]), np.array([slack])))[:, 0]


def test_without_a_delay_every_step_gets_the_command_that_is_held() -> None:
    each = driven()
    np.testing.assert_allclose(through(each), sines(250, 1, 0.004, 0)[:, 0], atol=1e-12)
    assert (each.begin_s, each.end_s, each.steps) == (0.0, pytest.approx(1.0), 250)


@pytest.mark.parametrize("delay_s", [0.001, 0.004, 0.0137, 0.0503])
def test_a_delay_between_whole_steps_is_a_blend_of_two_commands(delay_s: float) -> None:
    each, sent = driven(), sines(250, 1, 0.004, 0)
    np.testing.assert_allclose(through(each, delay_s), late(sent, delay_s, 0.004)[:, 0], atol=5e-3 * np.abs(sent).max())
    whole = int(delay_s / 0.004 + 1e-9)
    share = delay_s / 0.004 - whole
    before = np.r_[np.full(whole + 1, sent[0, 0]), sent[:, 0]][:251]
    np.testing.assert_allclose(through(each, delay_s), (1 - share) * before[1:] + share * before[:-1], atol=1e-12)


def test_a_delay_loses_nothing_of_what_was_sent() -> None:
    time_s = np.arange(100) * 0.01
    pulse = signal("command", "joint_command", {"hinge": np.where((time_s > 0.3) & (time_s < 0.5), 1.0, 0.0)}, time_s)
    state = signal("state", "joint_position", {"hinge": np.sin(time_s)}, time_s)
    each = experiment(Episode.of({"command": pulse, "state": state}, {}), Scene(PENDULUM))
    areas = [through(each, delay_s).sum() for delay_s in (0.0, 0.0017, 0.02, 0.0333)]
    np.testing.assert_allclose(areas, areas[0], rtol=1e-12)


def test_commands_on_another_clock_than_physics_are_felt_for_as_long_as_they_held() -> None:
    time_s = np.array([0.0, 0.0103, 0.0171, 0.05])
    sent = signal("command", "joint_command", {"hinge": np.array([1.0, 2.0, 4.0, 0.0])}, time_s)
    state = signal("state", "joint_position", {"hinge": np.zeros(100)}, np.arange(100) * 0.001)
    each = experiment(Episode.of({"command": sent, "state": state}, {}), Scene(PENDULUM))
    found = through(each)
    np.testing.assert_allclose(found[:2], 1.0)
    assert found[2] == pytest.approx((0.0023 * 1 + 0.0017 * 2) / 0.004)
    assert found[4] == pytest.approx((0.0011 * 2 + 0.0029 * 4) / 0.004)
    np.testing.assert_allclose(found[-5:], 0.0)


def test_the_last_command_holds_for_ever() -> None:
    time_s = np.arange(10) * 0.01
    sent = signal("command", "joint_command", {"hinge": np.arange(10.0)}, time_s)
    state = signal("state", "joint_position", {"hinge": np.zeros(300)}, np.arange(300) * 0.01)
    each = experiment(Episode.of({"command": sent, "state": state}, {}), Scene(PENDULUM))
    np.testing.assert_allclose(through(each)[30:], 9.0)
    np.testing.assert_allclose(through(each, 0.005)[30:], 9.0)


def test_backlash_is_the_play_operator() -> None:
    each, sent = driven(), sines(250, 1, 0.004, 0)[:, 0]
    found, held = through(each, slack=0.1), sent[0]
    for k, want in enumerate(sent):
        held = min(max(held, want - 0.1), want + 0.1)
        assert found[k] == pytest.approx(held, abs=1e-12)


def test_the_passage_of_a_servo_is_shifted_by_its_encoder_and_that_of_a_motor_is_not() -> None:
    values = {"joint.hinge.offset": 0.05, "actuator.hinge.delay": 0.01, "actuator.hinge.backlash": 0.02}
    servo, motor = (passage(Scene(text).nominal(), values) for text in (SERVO, PENDULUM))
    assert (servo.shift.tolist(), motor.shift.tolist()) == ([0.05], [0.0])
    geared = passage(Scene(SERVO.replace('gear="1"', 'gear="3"')).nominal(), values)
    assert geared.shift.tolist() == [pytest.approx(0.15)]
    for each in (servo, motor):
        assert (each.delay_s.tolist(), each.slack.tolist()) == ([0.01], [0.01])
    assert servo.key != motor.key
    assert passage(Scene(SERVO).nominal(), values).key == servo.key


def test_a_servo_whose_encoder_is_off_comes_to_rest_where_the_encoder_says() -> None:
    # the shifted command leads the true joint to where its encoder shows what was asked for
    scene, offset = (
        Scene(SERVO.replace('frictionloss="0.03"', "").replace('timestep="0.004"', 'timestep="0.004" gravity="0 0 0"')),
        0.2,
    )
    asked = np.full((800, 1), 0.5)
    rest = moved(scene, asked - passage(scene.nominal(), {"joint.hinge.offset": offset}).shift)
    assert rest.qpos[-1, 0] + offset == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(
    ("horizon_s", "multiple"), [(0.15, 1), (0.15, 2), (0.07, 3), (np.inf, 1), (5.0, 1), (0.004, 1)]
)
def test_windows_of_equal_length_cover_the_episode(horizon_s: float, multiple: int) -> None:
    each = driven(seconds=1.1)
    tiles = each.tiles(horizon_s, multiple)
    assert (tiles[:, 1] == tiles[0, 1]).all()
    assert tiles[0, 1] % multiple == 0
    assert tiles[0, 0] == 0
    np.testing.assert_array_equal(tiles[1:, 0], (tiles[:, 0] + tiles[:, 1])[:-1])
    left = each.steps - int(tiles[-1].sum())
    assert 0 <= left < multiple * len(tiles)
    if np.isfinite(horizon_s) and horizon_s < 1:
        assert tiles[0, 1] * 0.004 == pytest.approx(horizon_s, rel=0.15)


def test_readings_and_commands_must_overlap() -> None:
    controls = sines(50, 1, 0.004, 0)
    signals = joint_signals(moved(Scene(PENDULUM), controls), controls, kinds=("state",))
    sent = signals["command"]
    afterwards = replace(sent, time_s=sent.time_s + 0.19)
    with pytest.raises(RecordingError, match=r"take 3: its signals share 0\.010 s; 0\.02 s are needed"):
        experiment(Episode.of({**signals, "command": afterwards}, {}, source="take 3"), Scene(PENDULUM))
    never = replace(sent, time_s=sent.time_s + 5)
    with pytest.raises(RecordingError, match=r"share 0\.000 s"):
        experiment(Episode.of({**signals, "command": never}, {}), Scene(PENDULUM))


def test_labels_and_notes_travel_with_the_episode() -> None:
    episode = swing(DOUBLE, labels={"object": "box_1"})
    signals = {**episode.signals, "extra": signal("extra", "joint_position", {"toe": np.zeros(5)}, np.arange(5) * 0.1)}
    each = experiment(Episode.of(signals, {}, labels=episode.labels), Scene(DOUBLE), group=3)
    assert (each.labels, each.group) == ({"object": "box_1"}, 3)
    assert each.notes == ("extra: toe fits nothing of the model and was left out",)
