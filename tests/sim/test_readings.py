"""Signals meet the model they are compared with: by name, by body, with their noise, and what fits nothing is said."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from tests.sim.motions import (
    BOX,
    DOUBLE,
    DRAWER,
    POSE,
    SERVO,
    joint_signals,
    moved,
    pose_signal,
    signal,
    sines,
)
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import RecordingError
from twinproof.nouns.randomness import stream
from twinproof.nouns.signal import Column, Signal
from twinproof.sim.readings import commands, joint_of, noise_of, readings
from twinproof.sim.scene import Scene

TIME_S = np.arange(50) * 0.01


def episode(*signals: Signal) -> Episode:
    return Episode.of({each.name: each for each in signals}, {}, source="take 7")


def two(first: str, second: str, kind: str = "joint_position", name: str = "state") -> Signal:
    return signal(name, kind, {first: np.sin(TIME_S), second: np.cos(TIME_S)}, TIME_S)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("elbow", "shoulder"),
        ("elbow.pos", "shoulder.pos"),
        ("elbow_position", "shoulder_position"),
        ("elbow_pos", "shoulder_joint"),
        ("elbow.vel", "shoulder.effort"),
    ],
)
def test_columns_find_their_joint_by_name_or_by_a_usual_ending(first: str, second: str) -> None:
    model = Scene(DOUBLE).nominal()
    (found,), notes = readings(episode(two(first, second)), model)
    assert found.place.tolist() == [1, 0]
    assert found.entries == (f"state.{first}", f"state.{second}")
    assert (found.kind, found.output, found.units) == ("position", "qpos", ("rad", "rad"))
    assert notes == ()


def test_a_column_finds_a_joint_that_is_called_after_it_with_an_ending() -> None:
    model = Scene(DRAWER.replace('"lid_hinge"', '"lid_joint"')).nominal()
    assert joint_of("lid", model) == 1
    assert joint_of("lid.pos", model) == 1
    assert joint_of("drawer", model) is None


def test_velocities_and_torques_are_compared_with_degrees_of_freedom_not_positions() -> None:
    # the box in front takes seven positions and six velocities
    text = BOX.replace("</worldbody>", DRAWER.split("<worldbody>")[1].split("</worldbody>")[0] + "</worldbody>")
    model = Scene(text).nominal()
    three = [signal(kind, kind, {"rail": np.sin(TIME_S)}, TIME_S) for kind in ("joint_position", "joint_velocity")]
    found, _ = readings(episode(*three, signal("force", "joint_torque", {"rail": np.sin(TIME_S)}, TIME_S)), model)
    assert {each.kind: each.place.tolist() for each in found} == {"position": [7], "velocity": [6], "torque": [6]}
    assert {each.kind: each.output for each in found} == {
        "position": "qpos",
        "velocity": "qvel",
        "torque": "qfrc_actuator",
    }


def test_a_column_that_fits_nothing_is_left_out_and_said() -> None:
    (found,), notes = readings(episode(two("elbow", "wrist")), Scene(DOUBLE).nominal())
    assert found.entries == ("state.elbow",)
    assert notes == ("state: wrist fits nothing of the model and was left out",)


def test_no_match_at_all_is_an_error_that_names_both_sides() -> None:
    with pytest.raises(RecordingError, match="take 7: no signal fits the model") as told:
        readings(episode(two("j1", "j2")), Scene(DOUBLE).nominal())
    assert "state (j1, j2)" in str(told.value)
    assert "shoulder, elbow" in str(told.value)


def test_signals_of_one_sample_and_of_other_kinds_are_passed_over() -> None:
    other = signal("phase", "event", {"reach": np.ones(50)}, TIME_S)
    short = Signal("velocity", "joint_velocity", (Column("elbow", "rad/s"),), np.zeros(1), np.zeros((1, 1)))
    found, notes = readings(episode(two("elbow", "shoulder"), other, short), Scene(DOUBLE).nominal())
    assert [each.name for each in found] == ["state"]
    assert notes == ()


def test_a_gripper_is_a_position() -> None:
    (found,), _ = readings(episode(two("elbow", "shoulder", "gripper")), Scene(DOUBLE).nominal())
    assert found.kind == "position"


def test_a_share_of_something_is_no_angle() -> None:
    model = Scene(DOUBLE).nominal()
    bare = signal("jaw", "gripper", {"elbow": np.sin(TIME_S)}, TIME_S, "1")
    found, notes = readings(episode(bare, signal("q", "joint_position", {"shoulder": np.sin(TIME_S)}, TIME_S)), model)
    assert [each.name for each in found] == ["q"]
    assert "'% of range' is the unit of a place" in notes[0]


def test_a_sensor_of_one_number_is_found_by_its_name() -> None:
    model = Scene(DOUBLE).nominal()
    (found,), _ = readings(episode(signal("pot", "imu", {"elbow_pot": np.sin(TIME_S)}, TIME_S)), model)
    assert (found.kind, found.output, found.place.tolist()) == ("sensor", "sensordata", [3])


def test_the_three_numbers_of_a_gyroscope_are_found_by_their_axes() -> None:
    model = Scene(DOUBLE).nominal()
    axes = {f"gyro_{axis}": np.sin(TIME_S + k) for k, axis in enumerate("xyz")}
    (found,), notes = readings(episode(signal("imu", "imu", axes, TIME_S)), model)
    assert found.place.tolist() == [0, 1, 2]
    assert notes == ()


def test_a_pose_is_that_of_the_body_called_so_or_of_the_only_free_one() -> None:
    motion = moved(Scene(BOX), seconds=0.3, qvel=np.array([0.5, 0, 0, 0, 0, 1.0]))
    for name in ("box", "box_pose", "box_track", "object_pose"):
        (found,), _ = readings(episode(pose_signal(motion, "box", name)), motion.model)
        assert (found.kind, found.output, found.place.tolist()) == ("pose", "qpos", list(range(7)))
        assert found.entries[3:] == (f"{name}.turn_x", f"{name}.turn_y", f"{name}.turn_z")
        assert found.units == ("m",) * 3 + ("rad",) * 3
        np.testing.assert_allclose(np.linalg.norm(found.value[:, 3:], axis=1), 1.0, atol=1e-12)
        np.testing.assert_allclose(found.value, motion.qpos[np.r_[True, np.diff(motion.qpos, axis=0).any(axis=1)]])


def test_quaternions_that_jump_to_the_other_side_are_brought_back() -> None:
    motion = moved(Scene(BOX), seconds=0.3, qvel=np.array([0, 0, 1.0, 0, 0, 3.0]))
    value = motion.qpos.copy()
    value[40:90, 3:] *= -1
    track = signal("box", "pose", dict(zip(POSE, value.T, strict=True)), motion.time_s, "m")
    (found,), _ = readings(episode(track), motion.model)
    assert (np.einsum("ij,ij->i", found.value[1:, 3:], found.value[:-1, 3:]) > 0).all()
    assert found.sd[3] < 1e-3  # a jump is no noise


def test_a_pose_that_was_not_seen_repeats_and_is_dropped() -> None:
    motion = moved(Scene(BOX), seconds=0.2, qvel=np.array([0.5, 0, 1.0, 0, 0, 1.0]))
    seen = np.arange(0, 101, 5)  # the tracker is five times slower than the grid
    rows = motion.qpos[seen][np.arange(101) // 5]
    track = signal("box", "pose", dict(zip(POSE, rows.T, strict=True)), motion.time_s, "m")
    (found,), _ = readings(episode(track), motion.model)
    np.testing.assert_allclose(found.time_s, motion.time_s[seen])
    still = signal("box", "pose", dict(zip(POSE, np.tile(rows[:1], (101, 1)).T, strict=True)), motion.time_s, "m")
    with pytest.raises(RecordingError, match="no signal fits"):
        readings(episode(still), motion.model)
    model = Scene(BOX.replace("</worldbody>", DRAWER.split("<worldbody>")[1].split("</worldbody>")[0] + "</worldbody>"))
    _, notes = readings(
        episode(still, signal("state", "joint_position", {"rail": np.sin(TIME_S)}, TIME_S)), model.nominal()
    )
    assert notes == ("box: the pose never changes: the tracker did not see it; left out",)


def test_rows_of_a_pose_that_are_missing_are_dropped() -> None:
    motion = moved(Scene(BOX), seconds=0.2, qvel=np.array([0.5, 0, 1.0, 0, 0, 1.0]))
    rows = motion.qpos.copy()
    rows[10:20] = np.nan
    track = signal("box", "pose", dict(zip(POSE, rows.T, strict=True)), motion.time_s, "m")
    (found,), _ = readings(episode(track), motion.model)
    assert not np.isin(motion.time_s[10:20], found.time_s).any()
    assert np.isfinite(found.value).all()


def test_a_pose_of_a_drawer_becomes_the_position_along_its_rail() -> None:
    motion = moved(Scene(DRAWER), seconds=0.3, qvel=np.array([0.8, 0.0]))
    (found,), _ = readings(episode(pose_signal(motion, "drawer", "drawer")), motion.model)
    assert (found.kind, found.entries, found.units) == ("position", ("drawer.rail",), ("m",))
    shown = np.interp(found.time_s, motion.time_s, motion.qpos[:, 0])
    np.testing.assert_allclose(found.value[:, 0], shown, atol=1e-9)


def test_a_pose_of_a_lid_becomes_the_angle_of_its_hinge_even_beyond_half_a_turn() -> None:
    motion = moved(Scene(DRAWER), seconds=0.8, qvel=np.array([0.0, 40.0]))
    assert motion.qpos[:, 1].max() > 4.0
    (found,), _ = readings(episode(pose_signal(motion, "lid", "lid")), motion.model)
    assert (found.entries, found.units, found.place.tolist()) == (("lid.lid_hinge",), ("rad",), [1])
    np.testing.assert_allclose(found.value[:, 0], motion.qpos[:, 1], atol=1e-6)


def test_a_joint_whose_zero_lies_elsewhere_is_read_with_its_reference() -> None:
    text = DRAWER.replace('type="slide" axis="1 0 0"', 'type="slide" axis="1 0 0" ref="0.25"')
    motion = moved(Scene(text), seconds=0.2, qvel=np.array([0.8, 0.0]))
    (found,), _ = readings(episode(pose_signal(motion, "drawer", "drawer")), motion.model)
    np.testing.assert_allclose(found.value[:, 0], motion.qpos[: len(found.value), 0], atol=1e-9)


def test_a_pose_of_a_body_that_hangs_on_a_moving_one_is_not_taken_for_its_own_joint() -> None:
    controls = sines(75, 2, 0.004, 0)
    motion = moved(Scene(DOUBLE), controls, qpos=np.array([0.8, 0.0]))
    state = signal("state", "joint_position", {"shoulder": motion.qpos[:, 0]}, motion.time_s)
    found, notes = readings(episode(state, pose_signal(motion, "lower", "lower")), motion.model)
    wrong = [each for each in found if each.name == "lower"]
    assert not wrong or np.allclose(wrong[0].value[:, 0], motion.qpos[:, 1], atol=1e-6)
    assert wrong or any("lower" in note for note in notes)


def test_a_pose_without_its_columns_or_without_a_body_is_left_out_and_said() -> None:
    model = Scene(DOUBLE).nominal()
    state = two("elbow", "shoulder")
    flat = signal("tag", "pose", {"x": np.sin(TIME_S), "y": np.cos(TIME_S)}, TIME_S, "m")
    _, notes = readings(episode(state, flat), model)
    assert notes == ("tag: a pose has the columns x, y, z, qw, qx, qy, qz; it has x, y; left out",)
    motion = moved(Scene(BOX), seconds=0.1, qvel=np.ones(6))
    _, notes = readings(episode(state, pose_signal(motion, "box", "cup")), model)
    assert notes == ("cup: no body of the model is called so, and not just one moves freely; left out",)


def test_gaps_of_poses_are_lengths_and_turns_in_the_simulated_frame() -> None:
    motion = moved(Scene(BOX), seconds=0.1, qvel=np.array([0.5, 0, 1.0, 0, 0, 1.0]))
    (found,), _ = readings(episode(pose_signal(motion, "box", "box")), motion.model)
    shown = found.value[0]
    change = np.array([0.01, -0.02, 0.03, 0.1, -0.2, 0.3])
    value = shown.copy()
    value[:3] += change[:3]
    mujoco.mju_quatIntegrate(value[3:], change[3:], 1.0)
    np.testing.assert_allclose(found.gap(shown[None], value[None])[0], change, atol=1e-12)
    np.testing.assert_allclose(found.gap(shown[None], -value[None] * [-1, -1, -1, 1, 1, 1, 1])[0], change, atol=1e-12)


@pytest.mark.parametrize("sd", [1e-4, 1e-3, 1e-2])
def test_the_noise_of_a_smooth_motion_is_found(sd: float) -> None:
    rng, t = stream(0, "noise"), np.arange(400) * 0.01
    found, floor = noise_of(np.sin(3 * t) + 0.3 * np.sin(11 * t) + sd * rng.normal(size=400))
    assert found == pytest.approx(sd, rel=0.3)
    assert floor < sd / 5


def test_a_quantised_reading_is_no_surer_than_its_step() -> None:
    t = np.arange(400) * 0.01
    step = 2 * np.pi / 4096
    found, floor = noise_of(np.round(np.sin(2 * t) / step) * step)
    assert floor == pytest.approx(step / np.sqrt(12), rel=1e-6)
    assert floor <= found < 3 * floor


def test_noise_of_few_or_missing_or_constant_readings_is_small_and_above_zero() -> None:
    few, _ = noise_of(np.array([0.0, 0.31, 0.17]))
    constant, _ = noise_of(np.zeros(100))
    t = np.arange(400) * 0.01
    holes = np.sin(t) + 1e-3 * stream(1, "noise").normal(size=400)
    holes[::7] = np.nan
    assert 0 < few < 0.1
    assert 0 < constant < 1e-6
    assert noise_of(holes)[0] == pytest.approx(1e-3, rel=0.3)


def test_a_column_in_which_nothing_was_read_does_not_stop_the_others() -> None:
    state = signal("state", "joint_position", {"elbow": np.full(50, np.nan), "shoulder": np.sin(TIME_S)}, TIME_S)
    (found,), notes = readings(episode(state), Scene(DOUBLE).nominal())
    assert "state.shoulder" in found.entries
    assert "state.elbow" not in found.entries or (found.sd > 0).all()
    assert any("elbow" in note for note in notes)


# ---- commands


def test_commands_are_held_until_the_next_one_of_their_own_clock() -> None:
    model = Scene(DOUBLE).nominal()
    fast = signal("fast", "joint_command", {"elbow": np.arange(6.0)}, np.arange(6) * 0.01)
    slow = signal("slow", "joint_command", {"shoulder": np.array([5.0, 6.0])}, np.array([0.0, 0.025]))
    time_s, value, notes = commands(episode(fast, slow), model)
    np.testing.assert_allclose(time_s, [0, 0.01, 0.02, 0.025, 0.03, 0.04, 0.05])
    assert value[:, 0].tolist() == [5, 5, 5, 6, 6, 6, 6]
    assert value[:, 1].tolist() == [0, 1, 2, 2, 3, 4, 5]
    assert notes == ()


def test_a_command_that_is_missing_leaves_the_one_before_in_force() -> None:
    sent = signal("command", "joint_command", {"hinge": np.array([1.0, np.nan, np.nan, 4.0])}, np.arange(4) * 0.01)
    _, value, _ = commands(episode(sent), Scene(SERVO).nominal())
    assert value[:, 0].tolist() == [1, 1, 1, 4]


def test_actuators_that_were_sent_nothing_are_said() -> None:
    sent = signal("command", "joint_command", {"elbow": np.arange(6.0)}, np.arange(6) * 0.01)
    _, value, notes = commands(episode(sent), Scene(DOUBLE).nominal())
    assert (value[:, 0] == 0).all()
    assert notes == ("actuator 'shoulder' was sent nothing in take 7: zero is assumed",)


def test_an_actuator_whose_every_command_is_missing_was_sent_nothing() -> None:
    sent = signal("command", "joint_command", {"elbow": np.arange(6.0), "shoulder": np.full(6, np.nan)}, TIME_S[:6])
    _, value, notes = commands(episode(sent), Scene(DOUBLE).nominal())
    assert (value[:, 0] == 0).all()
    assert notes == ("actuator 'shoulder' was sent nothing in take 7: zero is assumed",)


def test_a_command_finds_its_actuator_by_the_joint_it_drives() -> None:
    text = DOUBLE.replace('motor name="elbow"', 'motor name="m2"')
    sent = signal("command", "joint_command", {"elbow.pos": np.arange(6.0), "shoulder": np.zeros(6)}, TIME_S[:6])
    _, value, notes = commands(episode(sent), Scene(text).nominal())
    assert value[:, 1].tolist() == [0, 1, 2, 3, 4, 5]
    assert notes == ()


def test_a_model_without_actuators_needs_no_command() -> None:
    time_s, value, notes = commands(episode(two("a", "b")), Scene(DRAWER).nominal())
    assert (len(time_s), value.shape, notes) == (1, (1, 0), ())


def test_a_recording_without_commands_that_fit_is_an_error() -> None:
    model = Scene(DOUBLE).nominal()
    with pytest.raises(RecordingError, match="the model has 2 actuators and the recording no joint_command"):
        commands(episode(two("elbow", "shoulder")), model)
    with pytest.raises(RecordingError, match="no command fits an actuator: the recording has ebow, wrist"):
        commands(episode(two("ebow", "wrist", "joint_command")), model)


def test_everything_an_arm_says_is_found() -> None:
    controls = sines(50, 2, 0.004, 0)
    motion = moved(Scene(DOUBLE), controls)
    found, notes = readings(episode(*joint_signals(motion, controls).values()), motion.model)
    assert sorted(each.kind for each in found) == ["position", "torque", "velocity"]
    assert notes == ()
