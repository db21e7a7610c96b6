"""What looks wrong in recordings is said before and after the fit, with the episode; clean data is met with silence."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.identify.arms import TRUTH, asked, pendulum, servo, swinging, swings
from tests.sim.motions import (
    BOX,
    DOUBLE,
    DRAWER,
    PENDULUM,
    SERVO,
    gaussian,
    joint_signals,
    moved,
    pose_signal,
    signal,
    sines,
    swing,
)
from twinproof.identify.fit import Fit, GaussNewton, fit
from twinproof.identify.suspect import conflicting, suspicious
from twinproof.identify.suspect_signs import turned
from twinproof.nouns.episode import Episode
from twinproof.nouns.signal import Signal
from twinproof.sim.experiment import Experiment, experiment
from twinproof.sim.scene import Scene

LIMITED = PENDULUM.replace('damping="0.05"', 'damping="0.05" range="-2 2" limited="true"')
ALL = ("state", "velocity", "torque")
OTHERS = {id: value for id, value in TRUTH.items() if id != "joint.hinge.damping"}


def of(text: str, episode: Episode, **changed: Signal) -> Experiment:
    return experiment(Episode.of({**episode.signals, **changed}, {}), Scene(text))


def column(episode: Episode, name: str, change: Callable[[np.ndarray], np.ndarray]) -> Signal:
    """One signal of an episode, every column changed."""
    old = episode.signals[name]
    return signal(name, old.kind, {c.name: change(old.column(c.name).copy()) for c in old.columns}, old.time_s)


def only(text: str, experiments: list[Experiment]) -> None:
    """Exactly one finding, which names the episode and contains the text."""
    found = suspicious(experiments)
    assert len(found) == 1, found
    assert text in found[0], found
    assert found[0].startswith(f"episode {experiments[0].id}: ")


@pytest.mark.parametrize("text", [PENDULUM, LIMITED, SERVO, DOUBLE])
def test_clean_recordings_are_met_with_silence(text: str) -> None:
    made = [
        experiment(swing(text, seed=k, seconds=1.0, kinds=ALL, noise={"state": 1e-3}), Scene(text)) for k in range(3)
    ]
    assert suspicious(made) == ()
    motion = moved(Scene(DRAWER), seconds=0.5, qvel=np.array([0.5, 0.0]))
    assert suspicious([of(DRAWER, Episode.of(joint_signals(motion, None, kinds=("state", "velocity")), {}))]) == ()
    box = moved(Scene(BOX), seconds=0.3, qvel=np.array([0.5, 0, 1, 0, 0, 0.0]))
    assert suspicious([of(BOX, Episode.of({"box": pose_signal(box, "box", "box")}, {}))]) == ()


def test_clean_fits_are_met_with_silence() -> None:
    assert conflicting(pendulum()) == ()
    assert conflicting(servo()) == ()
    assert conflicting(swinging()) == ()


# ---- units


def test_degrees_for_radians_are_suspected() -> None:
    episode = swing(LIMITED)
    each = of(LIMITED, episode, state=column(episode, "state", np.degrees))
    only("rad; the joint's range is 2. Degrees? State the unit in the rig", [each])
    assert "state.hinge reaches" in suspicious([each])[0]


@pytest.mark.parametrize("text", [PENDULUM, DOUBLE, SERVO])
@pytest.mark.parametrize("kinds", [("state",), ("state", "velocity")])
def test_degrees_are_suspected_of_hinges_without_stops(text: str, kinds: tuple[str, ...]) -> None:
    episode = swing(text, seconds=1.5, kinds=kinds, noise={"state": 1e-3}, size=0.6)
    turned = {name: column(episode, name, np.degrees) for name in kinds}
    found = suspicious([of(text, episode, **turned)])
    assert any("Degrees? State the unit in the rig" in sentence for sentence in found), found
    assert suspicious([of(text, episode)]) == ()


def test_servos_whose_commands_are_in_degrees_too_are_suspected_and_so_is_either_alone() -> None:
    episode = swing(SERVO, seconds=2.0, size=0.8)
    state, sent = (column(episode, name, np.degrees) for name in ("state", "command"))
    only("rad/s under a position servo. Degrees?", [of(SERVO, episode, state=state, command=sent)])
    only("times as far as its commands ask. Degrees?", [of(SERVO, episode, state=state)])
    only("as far as its commands ask. Degrees there?", [of(SERVO, episode, command=sent)])


def test_a_servo_that_is_blocked_or_pushed_aside_is_not_taken_for_degrees() -> None:
    episode = swing(SERVO, seconds=2.0, size=0.8)
    blocked = column(episode, "state", lambda q: q / 60)
    assert suspicious([of(SERVO, episode, state=blocked)]) == ()
    held = column(episode, "command", lambda sent: sent / 300)
    assert suspicious([of(SERVO, episode, command=held)]) == ()


def test_positions_in_degrees_beside_velocities_in_radians_are_said() -> None:
    episode = swing(PENDULUM, kinds=("state", "velocity"))
    found = suspicious([of(PENDULUM, episode, state=column(episode, "state", np.degrees))])
    assert any("times the slope of state.hinge: degrees?" in sentence for sentence in found)


@pytest.mark.parametrize("text", [PENDULUM, DOUBLE, SERVO])
@pytest.mark.parametrize(("times", "said"), [(1000.0, "N mm?"), (0.001, "kN m?")])
def test_torques_off_by_a_thousand_are_suspected(text: str, times: float, said: str) -> None:
    episode = swing(text, seconds=1.5, kinds=("state", "torque"), noise={"state": 1e-4}, size=0.6)
    only(
        f"of the torque that the motion takes. {said}" if times < 1 else said,
        [of(text, episode, torque=column(episode, "torque", lambda torque: times * torque))],
    )
    assert suspicious([of(text, episode)]) == ()
    strong = column(episode, "torque", lambda torque: 3 * torque)  # a gain that is off is no unit
    assert suspicious([of(text, episode, torque=strong)]) == ()


def leaning(gravity: str = "0 0 -9.81", sign: float = 1.0) -> Episode:
    """A servo that goes to five places and rests there, in a world whose gravity points somewhere."""
    scene = Scene(SERVO.replace('timestep="0.004"', f'timestep="0.004" gravity="{gravity}"'))
    sent = np.repeat(np.array([0.6, -0.5, 1.2, 0.2, -1.1]), 250)[:, None]
    told = joint_signals(moved(scene, sent, qpos=np.array([0.6])), sent, 2, None, ("state", "torque"))
    old = told["torque"]
    torque = signal("torque", old.kind, {"hinge": sign * old.column("hinge")}, old.time_s)
    return Episode.of({**told, "torque": torque}, {})


@pytest.mark.parametrize(
    ("gravity", "way"),
    [("0 0 9.81", (0, 0, 1)), ("9.81 0 0", (1, 0, 0))],
)
def test_torques_at_rest_tell_where_gravity_points(gravity: str, way: tuple[float, ...]) -> None:
    (found,) = suspicious([of(SERVO, leaning(gravity))])
    told = re.search(r"torque at rest says that gravity points along \((.*?)\), and the scene has it along ", found)
    assert told is not None
    assert [float(each) for each in told[1].split(", ")] == pytest.approx(way, abs=0.1)
    assert found.endswith("Is the robot mounted otherwise?")


@pytest.mark.parametrize("text", [PENDULUM, SERVO, DOUBLE])
def test_a_torque_that_is_counted_the_other_way_round_is_suspected(text: str) -> None:
    for seed in range(3):
        noisy = {"state": 1e-3, "torque": 0.05}
        episode = swing(text, seed=seed, seconds=2.0, kinds=ALL, noise=noisy, size=0.5, delay_s=0.0137)
        assert suspicious([of(text, episode)]) == ()
        for name in [each.name for each in episode.signals["torque"].columns]:
            old = episode.signals["torque"]
            values = {c.name: (-1 if c.name == name else 1) * old.column(c.name) for c in old.columns}
            against = signal("torque", old.kind, values, old.time_s)
            only(f"torque.{name} goes against ", [of(text, episode, torque=against)])


def test_turned_torques_of_a_servo_that_only_holds_its_load_are_suspected() -> None:
    only("torque.hinge goes against what its motor was told", [of(SERVO, leaning(sign=-1.0))])


def test_a_torque_that_nothing_drives_or_that_fits_either_sign_is_not_suspected() -> None:
    episode = swing(PENDULUM, seconds=2.0, kinds=ALL, size=0.0, noise={"state": 1e-3, "torque": 0.05})
    assert suspicious([of(PENDULUM, episode)]) == ()
    beat = np.sin(2 * np.pi * 5 * np.arange(500) * 0.004)[:, None]  # five a second: late by half a turn is turned round
    motion = moved(Scene(PENDULUM), -beat, qpos=np.array([0.2]))
    signals = joint_signals(motion, beat, 2, gaussian(0, state=1e-3), ("torque",))
    assert turned(experiment(Episode.of(signals, {}), Scene(PENDULUM)), None) == []


def test_gravity_where_the_scene_has_it_is_met_with_silence_whatever_the_mass() -> None:
    assert suspicious([of(SERVO, leaning())]) == ()
    assert suspicious([of(SERVO.replace('mass=".5"', 'mass="1.2"'), leaning())]) == ()


def test_millimetres_for_metres_are_suspected_of_slides_and_of_poses() -> None:
    text = DRAWER.replace('axis="1 0 0" damping="2"', 'axis="1 0 0" damping="2" range="-.3 .3" limited="true"')
    motion = moved(Scene(text), seconds=0.5, qvel=np.array([0.8, 0.0]))
    slid = {"rail": 1000 * motion.qpos[:, 0]}
    each = of(text, Episode.of({"state": signal("state", "joint_position", slid, motion.time_s, "m")}, {}))
    only("m; the joint's range is 0.3. Millimetres?", [each])
    box = moved(Scene(BOX), seconds=0.3, qvel=np.array([0.5, 0, 1, 0, 0, 0.0]))
    track = pose_signal(box, "box", "box")
    scale = dict.fromkeys("xyz", 1000.0)
    far = {c.name: track.column(c.name) * scale.get(c.name, 1.0) for c in track.columns}
    found = suspicious([of(BOX, Episode.of({"box": signal("box", "pose", far, track.time_s, "m")}, {}))])
    assert found
    assert all("Millimetres?" in sentence for sentence in found)


def test_a_position_beyond_the_range_that_no_unit_explains_is_another_joint_or_zero() -> None:
    episode = swing(LIMITED)
    each = of(LIMITED, episode, state=column(episode, "state", lambda q: q - q.max() + 2.7))
    only("the model's range ends at 2. Another joint order or zero?", [each])


# ---- clipped and saturated


def test_a_clipped_torque_and_saturated_commands_are_said() -> None:
    episode = swing(PENDULUM, kinds=ALL, size=0.5)
    clipped = column(episode, "torque", lambda torque: np.clip(torque, -0.4, 0.4))
    only(
        "torque.hinge sits at its largest value 0.4 in over 20% of samples: clipped?",
        [of(PENDULUM, episode, torque=clipped)],
    )
    text = PENDULUM.replace('joint="hinge"/></act', 'joint="hinge" ctrlrange="-.4 .4" ctrllimited="true"/></act')
    sent = column(episode, "command", lambda command: np.clip(command, -0.4, 0.4))
    found = suspicious([of(text, episode, command=sent)])
    assert len(found) == 1
    assert "commands of hinge are at their limit in " in found[0]
    assert found[0].endswith("of samples: saturated")
    only("commands of hinge lie outside the model's control range in", [of(text, episode)])


# ---- signals that contradict one another


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda speed: -speed, "another sign, unit or joint order?"),
        (np.degrees, "degrees?"),
        (lambda speed: speed / 1000, "another sign, unit or joint order?"),
    ],
)
def test_a_velocity_that_is_not_the_slope_of_the_position_is_said(
    change: Callable[[np.ndarray], np.ndarray], said: str
) -> None:
    episode = swing(PENDULUM, kinds=ALL)
    found = suspicious([of(PENDULUM, episode, velocity=column(episode, "velocity", change))])
    assert len(found) == 1
    assert "velocity.hinge is " in found[0]
    assert "times the slope of state.hinge" in found[0]
    assert found[0].endswith(said)


def test_velocities_in_another_joint_order_are_said() -> None:
    episode = swing(DOUBLE, kinds=("state", "velocity"), seconds=1.5)
    old = episode.signals["velocity"]
    swapped = {"shoulder": old.column("elbow"), "elbow": old.column("shoulder")}
    found = suspicious([of(DOUBLE, episode, velocity=signal("velocity", "joint_velocity", swapped, old.time_s))])
    assert found
    assert all("another sign, unit or joint order?" in sentence for sentence in found)


def test_velocities_with_missing_values_are_still_compared() -> None:
    episode = swing(PENDULUM, kinds=ALL)

    def holes(speed: np.ndarray) -> np.ndarray:
        speed[10:60] = np.nan
        return -speed

    found = suspicious([of(PENDULUM, episode, velocity=column(episode, "velocity", holes))])
    assert len(found) == 1
    assert "times the slope" in found[0]


# ---- rates


def test_varying_rates_are_said() -> None:
    episode = swing(PENDULUM)
    state = episode.signals["state"]
    kept = np.ones(len(state.time_s), dtype=bool)
    kept[50:70] = False
    rare = replace(state, time_s=state.time_s[kept], value=state.value[kept])
    only("state comes at varying rates: steps from 0.0080 to 0.1680 s", [of(PENDULUM, episode, state=rare)])


def test_one_sentence_stands_for_many_episodes() -> None:
    made = []
    for k in range(5):
        episode = swing(PENDULUM, seed=k, kinds=("state", "velocity"))
        state = episode.signals["state"]
        rare = replace(state, time_s=np.r_[state.time_s[:-1], 5.0])
        made.append(of(PENDULUM, episode, state=rare))
    found = suspicious(made)
    assert len(found) == 1
    assert found[0].startswith(
        f"episodes {made[0].id}, {made[1].id}, {made[2].id} and 2 more: state comes at varying rates"
    )


# ---- after the fit


def test_an_episode_that_contradicts_the_others_is_named() -> None:
    made = swings(PENDULUM, TRUTH, 4, seconds=1.0)
    (odd,) = swings(PENDULUM, {**TRUTH, "joint.hinge.damping": 0.14}, 1, seed=9, seconds=1.0)
    found = conflicting(fit(asked(PENDULUM, ["joint.hinge.damping"], [*made, odd], fixed=OTHERS), GaussNewton()))
    assert any(sentence.startswith(f"episode {odd.id}") and "contradicts the others" in sentence for sentence in found)
    assert not any(each.id in sentence for sentence in found for each in made)


def bumped(seed: int) -> Experiment:
    """A swing that somebody knocks for 20 ms in its middle, with a torque that no command tells of."""
    scene, steps = Scene(PENDULUM), 300
    sent = sines(steps, 1, 0.004, seed)
    pushed = sent.copy()
    pushed[150:155] += 12.0
    motion = moved(scene, pushed, TRUTH, qpos=np.array([0.3]))
    return experiment(Episode.of(joint_signals(motion, sent, 2, None, ("state", "velocity")), {}), scene)


def test_a_robot_that_was_bumped_is_said_with_the_time() -> None:
    made = [*swings(PENDULUM, TRUTH, 2, seconds=1.2, kinds=("state", "velocity")), bumped(5)]
    found = conflicting(fit(asked(PENDULUM, ["joint.hinge.damping"], made, fixed=OTHERS), GaussNewton()))
    knocked = [sentence for sentence in found if "Was the robot bumped?" in sentence]
    assert knocked
    assert all(made[2].id in sentence for sentence in knocked)
    at_s = [float(t) for sentence in knocked for t in re.findall(r" at ([\d.]+) s", sentence)]
    assert any(0.4 <= t <= 0.65 for t in at_s)


def test_a_window_that_diverges_at_the_best_parameters_is_said() -> None:
    found: Fit = swinging()
    (stage,) = found.stages
    assert stage.linear is not None
    gap = stage.linear.gap.copy()
    gap[(stage.shooting.window == 3) & (stage.shooting.horizon > 0.05)] = np.nan
    lost = replace(found, stages=(replace(stage, linear=replace(stage.linear, gap=gap)),))
    (said,) = conflicting(lost)
    id = found.problem.experiments[stage.shooting.episode[3]].id
    at_s = stage.shooting.begin_s[3]
    assert said == f"episode {id} at {at_s:.2f} s: the rollout diverges at the best parameters; it counts as lost"


@pytest.mark.parametrize(
    ("gravity", "words"),
    [
        ("0 -9.81 0", "gravity points along (0, -9.81, 0)"),
        ("0 0 9.81", "gravity points along (0, 0, 9.81)"),
        ("0 0 0", "the scene has no gravity"),
        ("0 0 -9810", "gravity is 9810 m/s²"),
    ],
)
def test_gravity_that_points_elsewhere_or_is_of_another_size_is_said(gravity: str, words: str) -> None:
    track = moved(Scene(BOX), seconds=0.3, qvel=np.array([0.5, 0, 1, 0, 0, 0.0]))
    text = BOX.replace("<worldbody>", f'<option gravity="{gravity}"/><worldbody>', 1)
    found = suspicious([of(text, Episode.of({"box": pose_signal(track, "box", "box")}, {}))])
    assert any(words in sentence for sentence in found)
