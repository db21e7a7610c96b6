"""Multiple shooting: under the truth nothing is left, and everything that acts outside physics acts where it should."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from tests.sim.motions import (
    BOX,
    DOUBLE,
    PENDULUM,
    SERVO,
    Motion,
    joint_signals,
    late,
    moved,
    pose_signal,
    signal,
    sines,
)
from twinproof.nouns.episode import Episode
from twinproof.nouns.signal import Signal
from twinproof.sim.experiment import Experiment, experiment, touching
from twinproof.sim.scene import Scene
from twinproof.sim.shooting import Shooting, Variant

TRUTH = {"joint.elbow.damping": 0.07, "body.lower.mass": 0.4}
BEGIN = np.array([0.6, -0.3])


def of(motion: Motion, scene: Scene, signals: Mapping[str, Signal], group: int = 0) -> Experiment:
    return experiment(Episode.of(signals, {}), scene, group)


def arm(seed: int = 0, truth: Mapping[str, float] = TRUTH, seconds: float = 0.8) -> tuple[Motion, dict[str, Signal]]:
    """Two links under a truth, and everything their sensors said."""
    controls = sines(round(seconds / 0.004), 2, 0.004, seed)
    motion = moved(Scene(DOUBLE), controls, truth, qpos=BEGIN)
    gyro = {f"gyro_{axis}": motion.sensors[:, k] for k, axis in enumerate("xyz")}
    return motion, {
        **joint_signals(motion, controls),
        "imu": signal("imu", "imu", gyro, motion.time_s),
        "pot": signal("pot", "imu", {"elbow_pot": motion.sensors[:, 3]}, motion.time_s),
    }


def true_starts(shooting: Shooting, *motions: Motion) -> tuple[np.ndarray, np.ndarray]:
    """The exact state of every window's start."""
    first = np.array([round(t / shooting.step_s) for t in shooting.begin_s])
    rows = [(motions[e].qpos[k], motions[e].qvel[k]) for e, k in zip(shooting.episode, first, strict=True)]
    return np.array([row[0] for row in rows]), np.array([row[1] for row in rows])


def values(ids: tuple[str, ...], truth: Mapping[str, float], groups: int = 1) -> np.ndarray:
    return np.tile([truth[id] for id in ids], (groups, 1))


def of_entry(shooting: Shooting, start: str) -> np.ndarray:
    return np.isin(shooting.entry, [i for i, entry in enumerate(shooting.entries) if entry.startswith(start)])


@pytest.mark.parametrize("horizon_s", [0.1, 0.37, np.inf])
def test_under_the_truth_positions_velocities_torques_and_sensors_leave_nothing(horizon_s: float) -> None:
    motion, signals = arm()
    shooting = Shooting([of(motion, Scene(DOUBLE), signals)], tuple(TRUTH), horizon_s)
    true = Variant(values(shooting.ids, TRUTH), *true_starts(shooting, motion))
    rolled = shooting.roll([true])
    assert {entry.split(".")[0] for entry in shooting.entries} == {"state", "velocity", "torque", "imu", "pot"}
    for i, entry in enumerate(shooting.entries):
        gap = rolled.gap[0, shooting.entry == i]
        assert gap.size > 100, entry
        assert np.abs(gap).max() < 1e-6, entry
    assert np.abs(rolled.seam).max(initial=0.0) < 1e-9
    assert rolled.seam.shape == (1, shooting.windows - 1, 4)
    assert not rolled.diverged.any()


def test_other_parameters_and_other_starts_leave_gaps_and_seams() -> None:
    motion, signals = arm()
    shooting = Shooting([of(motion, Scene(DOUBLE), signals)], tuple(TRUTH), 0.2)
    qpos, qvel = true_starts(shooting, motion)
    wrong = Variant(values(shooting.ids, {**TRUTH, "body.lower.mass": 0.5}), qpos, qvel)
    moved_off = Variant(values(shooting.ids, TRUTH), qpos + 0.01, qvel)
    rolled = shooting.roll([wrong, moved_off])
    assert (np.abs(rolled.gap).max(axis=1) > 1e-3).all()
    assert (np.abs(rolled.seam).max(axis=(1, 2)) > 1e-3).all()
    position = of_entry(shooting, "state") & (shooting.horizon < 1e-9)
    np.testing.assert_allclose(rolled.gap[1, position], -0.01, atol=1e-12)


def test_the_starts_that_readings_tell_are_nearly_the_true_ones() -> None:
    motion, signals = arm()
    shooting = Shooting([of(motion, Scene(DOUBLE), signals)], tuple(TRUTH), 0.2)
    qpos, qvel = true_starts(shooting, motion)
    np.testing.assert_allclose(shooting.starts[0], qpos, atol=3e-3)
    np.testing.assert_allclose(shooting.starts[1][1:], qvel[1:], atol=0.1)


def test_torque_at_a_sample_describes_the_step_before() -> None:
    motion, signals = arm()
    shooting = Shooting([of(motion, Scene(DOUBLE), signals)], tuple(TRUTH), 0.2)
    true = Variant(values(shooting.ids, TRUTH), *true_starts(shooting, motion))
    assert np.abs(shooting.roll([true]).gap[0, of_entry(shooting, "torque")]).max() < 1e-9
    early = replace(signals["torque"], time_s=signals["torque"].time_s + 0.004)
    shooting = Shooting([of(motion, Scene(DOUBLE), {**signals, "torque": early})], tuple(TRUTH), 0.2)
    true = Variant(values(shooting.ids, TRUTH), *true_starts(shooting, motion))
    assert np.abs(shooting.roll([true]).gap[0, of_entry(shooting, "torque")]).max() > 1e-2


@pytest.mark.parametrize("every", [2, 5])
def test_a_torque_that_jumps_between_two_samples_of_motion_leaves_nothing(every: int) -> None:
    # steps of 2 ms, while motion is kept every 4 ms; commands change at any step
    scene = Scene(SERVO.replace('timestep="0.004"', 'timestep="0.002"'))
    asked = sines(400, 1, 0.002, 0, held_s=0.018)
    motion = moved(scene, asked, qpos=np.array([0.3]))
    signals = joint_signals(motion, asked, every)
    whole = joint_signals(motion, asked)["command"]
    shooting = Shooting([of(motion, scene, {**signals, "command": whole})], (), 0.2)
    true = Variant(np.zeros((1, 0)), *true_starts(shooting, motion))
    assert shooting.substeps == 1
    assert np.abs(np.diff(motion.torque[1:], axis=0)).max() > 1.0
    assert np.abs(shooting.roll([true]).gap[0, of_entry(shooting, "torque")]).max() < 1e-6
    without = Shooting([of(motion, scene, {"state": signals["state"], "command": whole})], (), 0.2)
    assert without.substeps == 2


def test_gaps_are_ordered_by_window_and_labelled() -> None:
    motion, signals = arm()
    shooting = Shooting([of(motion, Scene(DOUBLE), signals)], tuple(TRUTH), 0.2)
    assert (np.diff(shooting.window) >= 0).all()
    for w in range(shooting.windows):
        rows = slice(*shooting.bounds[w : w + 2])
        assert (shooting.window[rows] == w).all()
        assert shooting.horizon[rows].max() <= shooting.length[w] * 0.004 + 1e-9
    assert (np.bincount(shooting.block[of_entry(shooting, "state")]) > 0).all()
    assert shooting.block.max() + 1 == shooting.blocks == len(shooting.block_episode)


def test_what_was_not_read_is_not_compared() -> None:
    motion, signals = arm()
    holes = {name: signals["state"].column(name).copy() for name in ("shoulder", "elbow")}
    holes["elbow"][50:80] = np.nan
    state = signal("state", "joint_position", holes, motion.time_s)
    full, some = (
        Shooting([of(motion, Scene(DOUBLE), {**signals, "state": each})], tuple(TRUTH), 0.2)
        for each in (signals["state"], state)
    )
    assert len(full.window) - len(some.window) == 30
    true = Variant(values(some.ids, TRUTH), *true_starts(some, motion))
    gap = some.roll([true]).gap
    assert np.isfinite(gap).all()
    assert np.abs(gap).max() < 1e-6


def test_a_pose_and_its_seams_vanish_while_a_box_slides() -> None:
    motion = moved(
        Scene(BOX), seconds=0.4, qpos=np.array([0, 0, 0.04, 1, 0, 0, 0]), qvel=np.array([1, 0.3, 0, 0, 0, 4.0])
    )
    each = of(motion, Scene(BOX), {"box": pose_signal(motion, "box", "box", every=2)})
    shooting = Shooting([each], ("body.box.friction_slide",), 0.1)
    nominal = np.array([[0.4]])
    starts = true_starts(shooting, motion)
    rolled = shooting.roll([Variant(nominal, *starts), Variant(nominal * 0.5, *starts)])
    assert len(shooting.entries) == 6
    assert np.abs(rolled.gap[0]).max() < 1e-4  # MuJoCo's solver is warm along a trajectory and cold at a start
    assert np.abs(rolled.seam[0]).max() < 1e-3
    assert np.abs(rolled.gap[1]).max() > 1e-3


# ---- what acts on readings alone


def counted(shooting: Shooting, variants: list[Variant]) -> int:
    """How many of the variants need a rollout of their own."""
    return len(shooting._distinct(variants)[0])


def test_late_stamps_offsets_and_biases_act_and_cost_no_rollout() -> None:
    motion, signals = arm()
    shifted = {
        **signals,
        "state": replace(signals["state"], time_s=signals["state"].time_s + 0.02),
        "pot": signal("pot", "imu", {"elbow_pot": motion.sensors[:, 3] + 0.3}, motion.time_s),
    }
    ids = (*TRUTH, "signal.state.delay", "sensor.elbow_pot.bias")
    shooting = Shooting([of(motion, Scene(DOUBLE), shifted)], ids, np.inf)
    starts = true_starts(shooting, motion)
    told = {**TRUTH, "signal.state.delay": 0.02, "sensor.elbow_pot.bias": 0.3}
    silent = {**told, "signal.state.delay": 0.0, "sensor.elbow_pot.bias": 0.0}
    variants = [Variant(values(ids, each), *starts) for each in (told, silent)]
    gap = shooting.roll(variants).gap
    late_ones = of_entry(shooting, "state")
    pot = of_entry(shooting, "pot")
    assert np.abs(gap[0, ~late_ones | (shooting.horizon > 0.02)]).max() < 1e-6
    assert np.abs(gap[1, late_ones]).max() > 0.01
    np.testing.assert_allclose(gap[1, pot], 0.3, atol=1e-9)
    assert counted(shooting, variants) == 1
    assert counted(shooting, [*variants, Variant(values(ids, {**told, "body.lower.mass": 0.5}), *starts)]) == 2


def test_a_late_signal_leaves_nothing_at_the_beginning_of_a_window_either() -> None:
    motion, signals = arm()
    shifted = {**signals, "state": replace(signals["state"], time_s=signals["state"].time_s + 0.008)}
    shooting = Shooting([of(motion, Scene(DOUBLE), shifted)], tuple(TRUTH), 0.15, fixed={"signal.state.delay": 0.008})
    gap = shooting.roll([Variant(values(shooting.ids, TRUTH), *true_starts(shooting, motion))]).gap[0]
    compared = of_entry(shooting, "state") & np.isfinite(gap)
    assert compared.sum() > 200
    assert (
        np.abs(gap[compared]).max() < 3e-3
    )  # a straight line may reach back before a window began; a held start may not


def shown_beside(track: Signal, name: str, **offset: float) -> Signal:
    """The same poses as a tracker with another frame gives them."""
    columns = {c.name: track.column(c.name) + offset.get(c.name, 0.0) for c in track.columns}
    return signal(name, "pose", columns, track.time_s, "m")


def test_a_trackers_frame_beside_the_worlds_is_an_offset_of_its_poses_and_of_the_starts_it_gives() -> None:
    motion = moved(Scene(BOX), seconds=0.2, qpos=np.array([0, 0, 1.0, 1, 0, 0, 0]), qvel=np.array([1, 0, 1, 0, 0, 4.0]))
    track = shown_beside(pose_signal(motion, "box", "box", every=2), "box", x=0.01, z=-0.02)
    each = of(motion, Scene(BOX), {"box": track})
    ids = ("signal.box.offset_x", "signal.box.offset_z")
    shooting = Shooting([each], ids, 0.1)
    qpos, qvel = true_starts(shooting, motion)
    shown = qpos + np.array([0.01, 0, -0.02, 0, 0, 0, 0])
    gap = shooting.roll([Variant(np.array([[0.01, -0.02]]), shown, qvel), Variant(np.zeros((1, 2)), qpos, qvel)]).gap
    assert np.abs(gap[0]).max() < 1e-6
    np.testing.assert_allclose(gap[1, of_entry(shooting, "box.z")], -0.02, atol=1e-6)
    # the same value held fixed
    held = Shooting([each], (), 0.1, fixed={"signal.box.offset_x": 0.01, "signal.box.offset_z": -0.02})
    assert np.abs(held.roll([Variant(np.zeros((1, 0)), shown, qvel)]).gap).max() < 1e-6


def test_a_box_that_a_tracker_shows_below_the_floor_still_lies_on_it() -> None:
    resting = moved(Scene(BOX), seconds=0.6, qpos=np.array([0, 0, 0.031, 1, 0, 0, 0]))
    slides = np.array([0.3, 0, 0, 0, 0, 0])  # a pose that never changes would be taken for one that nobody saw
    still = moved(Scene(BOX), seconds=0.3, qpos=resting.qpos[-1], qvel=slides)
    track = shown_beside(pose_signal(still, "box", "box"), "box", z=-0.004)
    shooting = Shooting([of(still, Scene(BOX), {"box": track})], ("signal.box.offset_z",), 0.15)
    gap = shooting.roll([Variant(np.array([[z]]), *shooting.starts) for z in (-0.004, 0.0)]).gap
    told, untold = gap[:, of_entry(shooting, "box.z")]
    assert np.abs(told).max() < 2e-4
    assert np.abs(untold).max() > 2e-3  # begun inside the floor, it is thrown out of it


def test_two_trackers_of_one_body_have_frames_of_their_own() -> None:
    motion = moved(Scene(BOX), seconds=0.2, qpos=np.array([0, 0, 1.0, 1, 0, 0, 0]), qvel=np.array([1, 0, 1, 0, 0, 4.0]))
    track = pose_signal(motion, "box", "box", every=2)
    both = {"first": shown_beside(track, "first", x=0.01), "second": shown_beside(track, "second", x=-0.03)}
    shooting = Shooting(
        [of(motion, Scene(BOX), both)],
        ("signal.first.offset_x", "signal.second.offset_x"),
        0.1,
    )
    qpos, qvel = true_starts(shooting, motion)
    gap = shooting.roll([Variant(np.array([[0.01, -0.03]]), qpos + np.array([0.01, 0, 0, 0, 0, 0, 0]), qvel)]).gap
    assert np.abs(gap).max() < 1e-6


def test_an_encoder_offset_moves_truth_under_readings_and_starts() -> None:
    # readings and starts are as encoders show them; gravity feels the true angle
    controls = sines(200, 1, 0.004, 0)
    motion = moved(Scene(PENDULUM), controls, qpos=np.array([0.3]))
    state = signal("state", "joint_position", {"hinge": motion.qpos[:, 0] + 0.1}, motion.time_s)
    command = joint_signals(motion, controls, kinds=())["command"]
    shooting = Shooting(
        [of(motion, Scene(PENDULUM), {"state": state, "command": command})], ("joint.hinge.offset",), 0.2
    )
    qpos, qvel = true_starts(shooting, motion)
    gap = shooting.roll([Variant(np.array([[x]]), qpos + 0.1, qvel) for x in (0.1, 0.0)]).gap
    assert np.abs(gap[0]).max() < 1e-6
    assert np.abs(gap[1]).max() > 1e-2
    held = Shooting(shooting.experiments, (), 0.2, fixed={"joint.hinge.offset": 0.1})
    assert np.abs(held.roll([Variant(np.zeros((1, 0)), qpos + 0.1, qvel)]).gap).max() < 1e-6


def test_a_servo_with_an_offset_and_a_delay_leaves_nothing() -> None:
    asked = sines(200, 1, 0.004, 0)
    motion = moved(Scene(SERVO), late(asked, 0.013, 0.004) - 0.1, qpos=np.array([0.3]))
    state = signal("state", "joint_position", {"hinge": motion.qpos[:, 0] + 0.1}, motion.time_s)
    command = joint_signals(motion, asked, kinds=())["command"]
    shooting = Shooting(
        [of(motion, Scene(SERVO), {"state": state, "command": command})],
        ("joint.hinge.offset", "actuator.hinge.delay"),
        0.2,
    )
    qpos, qvel = true_starts(shooting, motion)
    gap = shooting.roll([Variant(np.array([row]), qpos + 0.1, qvel) for row in ((0.1, 0.013), (0.1, 0.0))]).gap
    assert np.abs(gap[0]).max() < 1e-4  # the brute-force delay is a mean over 400 moments
    assert np.abs(gap[1]).max() > 1e-2


# ---- some windows, several scenes, groups, divergence


def test_only_the_chosen_windows_are_rolled() -> None:
    motion, signals = arm()
    shooting = Shooting([of(motion, Scene(DOUBLE), signals)], tuple(TRUTH), 0.1)
    variant = Variant(values(shooting.ids, {**TRUTH, "body.lower.mass": 0.5}), *true_starts(shooting, motion))
    whole, some = shooting.roll([variant]), shooting.roll([variant], np.array([2, 5, 6]))
    chosen = np.isin(shooting.window, [2, 5, 6])
    np.testing.assert_allclose(some.gap[0, chosen], whole.gap[0, chosen], rtol=0, atol=1e-12)
    assert np.isnan(some.gap[0, ~chosen]).all()
    assert np.isfinite(some.end_qpos[0]).all(axis=1).tolist() == [w in (2, 5, 6) for w in range(shooting.windows)]


def test_episodes_of_two_scenes_go_in_one_call() -> None:
    heavy = DOUBLE.replace('mass=".3"', 'mass=".6"')
    one, first = arm(0, {"joint.elbow.damping": 0.07})
    controls = sines(150, 2, 0.004, 5)
    other = moved(Scene(heavy), controls, {"joint.elbow.damping": 0.07}, qpos=BEGIN)
    both = [of(one, Scene(DOUBLE), first), of(other, Scene(heavy), joint_signals(other, controls))]
    shooting = Shooting(both, ("joint.elbow.damping",), (0.1, 0.25))
    true = Variant(np.array([[0.07]]), *true_starts(shooting, one, other))
    rolled = shooting.roll([true])
    assert np.abs(rolled.gap).max() < 1e-6
    assert set(shooting.length[shooting.episode == 0]) != set(shooting.length[shooting.episode == 1])
    assert not np.isin(np.flatnonzero(np.diff(shooting.episode)), shooting.seams).any()


def test_every_group_has_values_of_its_own() -> None:
    light, heavy = ({"body.lower.mass": kg} for kg in (0.2, 0.6))
    made = [arm(k, truth) for k, truth in enumerate((light, heavy, light))]
    groups = (0, 1, 0)
    experiments = [of(m, Scene(DOUBLE), s, g) for (m, s), g in zip(made, groups, strict=True)]
    shooting = Shooting(experiments, ("body.lower.mass",), 0.2)
    starts = true_starts(shooting, *(m for m, _ in made))
    right, swapped = (Variant(np.array(kg)[:, None], *starts) for kg in ((0.2, 0.6), (0.6, 0.2)))
    gap = shooting.roll([right, swapped]).gap
    assert np.abs(gap[0]).max() < 1e-6
    assert all(np.abs(gap[1, shooting.episode[shooting.window] == e]).max() > 1e-3 for e in range(3))


def test_a_variant_that_diverges_is_flagged_and_its_gaps_are_not_numbers() -> None:
    motion, signals = arm()
    shooting = Shooting([of(motion, Scene(DOUBLE), signals)], tuple(TRUTH), 0.2)
    qpos, qvel = true_starts(shooting, motion)
    mad = qvel.copy()
    mad[1] = 1e9
    rolled = shooting.roll([Variant(values(shooting.ids, TRUTH), qpos, v) for v in (qvel, mad)])
    assert rolled.diverged.tolist() == [[False] * 4, [False, True, False, False]]
    lost = shooting.window == 1
    later = lost & (shooting.horizon > 0.1)
    assert np.isnan(rolled.gap[1, later]).all()
    assert np.isfinite(rolled.gap[1, ~lost]).all()
    assert np.abs(rolled.gap[0]).max() < 1e-6


def test_a_window_forgets_keeps_or_magnifies_its_start() -> None:
    def moves(text: str, qpos: float) -> np.ndarray:
        controls = np.zeros((250, 1)) if "motor" in text else np.full((250, 1), qpos)
        motion = moved(Scene(text), controls, qpos=np.array([qpos]))
        each = of(motion, Scene(text), joint_signals(motion, controls, kinds=("state",)))
        shooting = Shooting([each], (), np.inf)
        return shooting.memory(Variant(np.zeros((1, 0)), *true_starts(shooting, motion)), np.array([0]))[0]

    free = PENDULUM.replace('damping="0.05" frictionloss="0.03"', "")
    assert np.abs(moves(SERVO, 0.2)[0, 0]) < 0.05
    assert np.abs(moves(free, np.pi)[0, 0]) > 20  # upside down
    still = moves(free, 0.0)
    assert np.linalg.det(still) == pytest.approx(1.0, abs=0.1)  # nothing is lost without damping


def test_contact_is_seen_where_windows_begin() -> None:
    pair = """<mujoco><worldbody>
      <body name="finger"><joint name="finger" type="slide" axis="1 0 0"/><geom type="sphere" size=".05"/></body>
      <geom type="box" pos=".2 0 0" size=".05 .05 .05"/></worldbody></mujoco>"""
    model = Scene(pair).nominal()
    assert not touching(model, np.array([[0.0], [0.05]]))
    assert touching(model, np.array([[0.0], [0.101]]))
    motion, signals = arm()
    assert not Shooting([of(motion, Scene(DOUBLE), signals)], tuple(TRUTH), 0.2).touches
