"""The parametric actuator: what each number does, and that fits find it again with and without torque labels."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.test_driven import Brake
from twinproof.identify.actuator_fit import Free, Labels, Matching, Run, Windowed, match, regress
from twinproof.nouns.errors import ConfigError, ParameterError, RecordingError, SimError
from twinproof.nouns.randomness import stream
from twinproof.nouns.theta import Theta
from twinproof.sim.actuator_law import FIELDS, Actuator, ActuatorLaw, Friction, torque_of
from twinproof.sim.driven import Driven
from twinproof.sim.law import Chain
from twinproof.sim.scene import Scene
from twinproof.sim.windows import Start

WHEEL = """
<mujoco>
  <option timestep="0.002" gravity="0 0 0"/>
  <worldbody><body name="wheel"><joint name="axle" axis="0 1 0"/>
    <inertial pos="0 0 0" mass="1" diaginertia=".02 .02 .02"/></body></worldbody>
  <actuator><motor name="axle" joint="axle"/></actuator>
</mujoco>"""
PENDULUM = WHEEL.replace('gravity="0 0 0"', "").replace('pos="0 0 0" mass="1"', 'pos="0 0 -.1" mass="1"')
SCENE, SWING = Scene(WHEEL), Scene(PENDULUM)


def law(**values: float) -> ActuatorLaw:
    return ActuatorLaw({"axle": Actuator()}).having({f"axle.{name}": value for name, value in values.items()})


def roll(the_law: ActuatorLaw, torque: np.ndarray, speed: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    start = Start(np.zeros((1, 1)), np.full((1, 1), speed))
    rolled = Driven(SCENE).roll([Theta()], [the_law], start, torque.reshape(1, -1, 1))
    return rolled["qpos"][0, 0, :, 0], rolled["qvel"][0, 0, :, 0]


def excitation(samples: int, seed: int = 0) -> np.ndarray:
    t = np.arange(samples) * 0.002
    rng = stream(seed, "excitation")
    waves = [rng.uniform(0.2, 0.5) * np.sin(2 * np.pi * f * t + rng.uniform(0, 6)) for f in (0.7, 1.9, 4.3)]
    return np.sum(waves, axis=0)


def test_a_joint_sticks_below_breakaway_and_slides_above_it() -> None:
    held = law(coulomb=0.2, stribeck=0.1, presliding_rad=0.002)
    position, _ = roll(held, np.r_[np.linspace(0, 0.25, 500), np.full(300, 0.25)])
    assert np.abs(position).max() < 0.01
    position, _ = roll(held, np.r_[np.linspace(0, 0.35, 500), np.full(300, 0.35)])
    assert position[-1] > 0.5


def test_coulomb_and_viscous_friction_take_what_they_say() -> None:
    _, speed = roll(law(coulomb=0.1, viscous=0.05), np.full(4000, 0.3))
    assert speed[-1] == pytest.approx((0.3 - 0.1) / 0.05, rel=1e-3)
    _, speed = roll(law(coulomb=0.1, viscous=0.05, load=0.2), np.full(4000, 0.3))
    assert speed[-1] == pytest.approx((0.3 - 0.1 - 0.06) / 0.05, rel=1e-3)


def test_a_delay_between_steps_is_a_blend_of_two_commands() -> None:
    step = np.r_[np.zeros(10), np.ones(10)]
    _, whole = roll(law(delay_s=0.004), step)
    _, more = roll(law(delay_s=0.006), step)
    _, half = roll(law(delay_s=0.005), step)
    np.testing.assert_allclose(half, (whole + more) / 2, atol=1e-12)
    assert whole[11] == 0
    assert whole[12] > 0


def test_saturation_deadband_gain_and_backlash_shape_the_command() -> None:
    command = np.array([0.0, 0.05, 0.5, 2.0, -2.0, 0.3])
    still = np.zeros((6, 1))
    plant = Driven(SCENE).plant

    def torque(**values: float) -> np.ndarray:
        return torque_of(law(**values), plant, command[:, None], still)[:, 0]

    np.testing.assert_allclose(torque(saturation=1.0), np.clip(command, -1, 1))
    np.testing.assert_allclose(torque(deadband=0.1), [0, 0, 0.4, 1.9, -1.9, 0.2])
    np.testing.assert_allclose(torque(gain=1.5), 1.5 * command)
    np.testing.assert_allclose(torque(backlash=0.4), [0, 0, 0.3, 1.8, -1.8, 0.1])


def test_drift_wanders_with_a_seed_and_rests_without() -> None:
    warm = law(coulomb=0.2, drift=0.1)
    torque = np.full(500, 0.4)
    _, mean = roll(warm, torque)
    _, none = roll(law(coulomb=0.2), torque)
    np.testing.assert_array_equal(mean, none)
    drawn = [roll(ActuatorLaw(warm.actuators, seed=k), torque)[1] for k in (3, 3, 4)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert np.abs(drawn[0] - drawn[2]).max() > 0.01


def test_torque_labels_give_the_numbers_back() -> None:
    plant = Driven(SCENE).plant
    truth = law(coulomb=0.15, viscous=0.03, delay_s=0.009, gain=0.9, stribeck=0.08, stribeck_speed=0.2)
    rng, logs = stream(0, "labels"), []
    for k in range(3):
        command = excitation(1500, k)
        speed = 2 * np.gradient(excitation(1500, k + 9), 0.1)
        torque = torque_of(truth, plant, command[:, None], speed[:, None])
        logs.append(Labels(command[:, None], speed[:, None], torque + rng.normal(0, 0.01, torque.shape)))
    free = [
        Free("law.axle.coulomb", 0.05, 0, 1, 0.05),
        Free("law.axle.viscous", 0.0, 0, 1, 0.02),
        Free("law.axle.delay_s", 0.004, 0, 0.03, 0.003),
        Free("law.axle.gain", 1.0, 0.5, 2, 0.1),
        Free("law.axle.stribeck", 0.02, 0, 1, 0.05),
    ]
    start = law(stribeck_speed=0.2)
    found = regress(start, plant, logs, free)
    for name, value, within in (
        ("coulomb", 0.15, 0.01), ("viscous", 0.03, 0.003), ("delay_s", 0.009, 0.0005), ("gain", 0.9, 0.01),
    ):  # fmt: skip
        assert found.law.value(f"axle.{name}") == pytest.approx(value, abs=within), name
    assert found.rms == pytest.approx(0.01, rel=0.1)


def simulated(truth: ActuatorLaw, theta: Theta, seeds: tuple[int, ...], zeros: tuple[float, ...]) -> list[Run]:
    driven, runs = Driven(SWING), []
    for seed, zero in zip(seeds, zeros, strict=True):
        command = excitation(1000, seed)[:, None]
        rolled = driven.roll([theta], [truth], Start(np.zeros((1, 1)), np.zeros((1, 1))), command[None])
        q = np.r_[np.zeros((1, 1)), rolled["qpos"][0, 0, :-1]]
        v = np.r_[np.zeros((1, 1)), rolled["qvel"][0, 0, :-1]]
        runs.append(Run(f"run {seed}", q + zero, q + zero, v, command))
    return runs


def test_trajectories_alone_give_friction_delay_inertia_and_each_runs_zero_back() -> None:
    truth = law(coulomb=0.1, viscous=0.02, delay_s=0.007)
    runs = simulated(truth, Theta({"body.wheel.mass": 1.2}), (1, 2), (0.05, -0.03))
    free = [
        Free("body.wheel.mass", 1.0, 0.2, 3, 0.1),
        Free("law.axle.coulomb", 0.05, 0, 1, 0.03),
        Free("law.axle.viscous", 0.01, 0, 1, 0.01),
        Free("law.axle.delay_s", 0.003, 0, 0.02, 0.003),
        Free("joint.axle.offset", 0.0, -0.2, 0.2, 0.02, own=True, prior_sd=1.0),
    ]
    found = match(Driven(SWING), runs, free, law(), Matching(length=150, stride=75, first=20))
    assert found.values["body.wheel.mass"] == pytest.approx(1.2, rel=0.01)
    assert found.values["law.axle.coulomb"] == pytest.approx(0.1, rel=0.03)
    assert found.values["law.axle.delay_s"] == pytest.approx(0.007, abs=3e-4)
    assert found.own["run 1"]["joint.axle.offset"] == pytest.approx(0.05, abs=2e-3)
    assert found.theta("run 2")["joint.axle.offset"] == pytest.approx(-0.03, abs=2e-3)
    assert "joint.axle.offset" not in found.theta()
    assert found.rms < 2e-3
    assert isinstance(found.law, ActuatorLaw)
    chained = match(Driven(SWING), runs, free[1:2], Chain((law(),)), Matching(length=50, first=20, max_steps=1))
    assert isinstance(chained.law, Chain)


def test_numbers_of_a_law_go_by_name() -> None:
    assert law(load=0.1).value("axle.load") == 0.1
    assert law().value("axle.saturation") == np.inf
    assert law().having({"*.coulomb": 0.3}).actuators["axle"].friction.coulomb == 0.3
    assert set(FIELDS) >= {"gain", "delay_s", "drift"}
    with pytest.raises(ParameterError, match="'axle.colour' is no number of this law"):
        law().having({"axle.colour": 1.0})


def test_what_cannot_be_an_actuator_is_refused() -> None:
    with pytest.raises(ParameterError, match="viscous is -1"):
        Actuator(friction=Friction(viscous=-1))
    with pytest.raises(ParameterError, match="presliding_rad and a stribeck_speed above zero"):
        Actuator(friction=Friction(presliding_rad=0))
    with pytest.raises(ParameterError, match="saturates at 0"):
        Actuator(saturation=0)
    with pytest.raises(SimError, match="an actuator 'motor', the model has axle"):
        torque_of(ActuatorLaw({"motor": Actuator()}), Driven(SCENE).plant, np.zeros((2, 1)), np.zeros((2, 1)))
    with pytest.raises(SimError, match="too stiff for steps of 0.002 s: it needs a presliding_rad of"):
        roll(law(coulomb=5.0, presliding_rad=1e-5), np.zeros(3))
    tied = Scene(
        WHEEL.replace('<motor name="axle" joint="axle"/>', '<adhesion name="axle" body="wheel" ctrlrange="0 1"/>')
    )
    with pytest.raises(SimError, match="drives no single joint"):
        torque_of(law(coulomb=0.1), Driven(tied).plant, np.zeros((2, 1)), np.zeros((2, 1)))


def test_what_cannot_be_matched_is_refused() -> None:
    runs = simulated(law(), Theta(), (1,), (0.0,))
    with pytest.raises(ConfigError, match="start lies inside the limits"):
        Free("body.wheel.mass", 5.0, 0.1, 1.0, 0.1)
    with pytest.raises(RecordingError, match="its signals have"):
        Run("short", np.zeros((5, 1)), np.zeros((5, 1)), np.zeros((5, 1)), np.zeros((4, 1)))
    with pytest.raises(RecordingError, match="a window of 2000 after the first 50 needs more"):
        Windowed(Driven(SWING), runs, Matching(length=2000))
    with pytest.raises(ConfigError, match="cannot differ between runs"):
        match(Driven(SWING), runs, [Free("law.axle.coulomb", 0.1, 0, 1, 0.1, own=True)], law(), Matching(length=50))
    thrown = Scene("<mujoco><worldbody><body name='b'><freejoint/><geom size='.1'/></body></worldbody></mujoco>")
    with pytest.raises(ConfigError, match="a free or a ball joint"):
        Windowed(Driven(thrown), runs, Matching(length=50))
    with pytest.raises(ConfigError, match="has no numbers that can be fitted here"):
        match(Driven(SWING), runs, [Free("law.axle.coulomb", 0.1, 0, 1, 0.1)], Brake(0.1), Matching(length=50))
