"""A history network takes over where the parametric actuator leaves structure, and only there."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.identify.test_actuators import SCENE, excitation, law
from twinproof.identify.actuator_fit import Free, Labels, regress
from twinproof.identify.actuator_net import HistoryNet, predicted, structure
from twinproof.nouns.errors import ConfigError, PosteriorError, SimError
from twinproof.nouns.randomness import stream
from twinproof.nouns.theta import Theta
from twinproof.sim.actuator_law import torque_of
from twinproof.sim.actuator_net import ActuatorNet
from twinproof.sim.driven import Driven
from twinproof.sim.scene import Scene
from twinproof.sim.windows import Start

PLANT = Driven(SCENE).plant
TRUTH = law(coulomb=0.1, viscous=0.02, delay_s=0.006)
FREE = [
    Free("law.axle.coulomb", 0.05, 0, 1, 0.05),
    Free("law.axle.viscous", 0.0, 0, 1, 0.02),
    Free("law.axle.delay_s", 0.002, 0, 0.03, 0.003),
]
SMALL = HistoryNet(history=6, spacing=1, width=24, epochs=15, batch=512, steps=100)


def log(seed: int, bent: float) -> Labels:
    """A motor; `bent` adds what no number of the parametric model describes: a torque that depends on the product."""
    command, speed = excitation(1500, seed)[:, None], 3 * excitation(1500, seed + 20)[:, None]
    torque = torque_of(TRUTH, PLANT, command, speed) + bent * np.sin(3 * command) * speed
    return Labels(command, speed, torque + stream(seed, "net").normal(0, 0.01, torque.shape))


def test_white_residuals_keep_the_parametric_law() -> None:
    logs = [log(k, 0.0) for k in range(3)]
    (test,) = structure(regress(law(), PLANT, logs, FREE), PLANT, logs)
    assert test.white()


def test_structure_in_the_residuals_calls_for_the_network() -> None:
    logs = [log(k, 0.3) for k in range(4)]
    parametric, later = regress(law(), PLANT, logs, FREE), log(9, 0.3)
    (test,) = structure(parametric, PLANT, logs)
    assert str(test).startswith("torque of axle: not white")
    net = SMALL.fit(PLANT, logs, ["axle"])
    by_law = torque_of(parametric.law, PLANT, later.command, later.qvel) - later.torque
    by_net = predicted(net, PLANT, later) - later.torque
    assert by_net[net.reach :].std() < 0.8 * by_law.std()


def test_torques_that_were_measured_now_and_then_are_enough() -> None:
    logs = [replace(log(k, 0.0), at=np.arange(0, 1500, 3)) for k in range(3)]
    blank = [replace(each, torque=np.where(np.arange(1500)[:, None] % 3 == 0, each.torque, 9.0)) for each in logs]
    found = regress(law(), PLANT, blank, FREE)
    assert found.law.value("axle.delay_s") == pytest.approx(0.006, abs=3e-4)
    assert len(found.left[0]) == 500
    assert structure(found, PLANT, blank)[0].white()
    net = SMALL.fit(PLANT, blank, ["axle"])
    assert np.abs(predicted(net, PLANT, log(8, 0.0)) - log(8, 0.0).torque)[net.reach :].std() < 0.1


def test_a_network_drives_the_joint_through_its_motor() -> None:
    logs = [log(k, 0.0) for k in range(3)]
    net = SMALL.fit(PLANT, logs, ["axle"])
    later = log(8, 0.0)
    assert np.abs(predicted(net, PLANT, later) - later.torque)[net.reach :].std() < 0.08
    start, command = Start(np.zeros((1, 1)), np.full((1, 1), 0.5)), excitation(100, 3).reshape(1, 100, 1)
    by_net = Driven(SCENE).roll([Theta()], [net], start, command)["qvel"]
    by_law = Driven(SCENE).roll([Theta()], [TRUTH], start, command)["qvel"]
    assert np.abs(by_net - by_law).max() < 0.2 * np.abs(by_law).max()
    again = ActuatorNet.unpacked(*net.packed())
    np.testing.assert_array_equal(predicted(net, PLANT, later), predicted(again, PLANT, later))
    with pytest.raises(SimError, match="trained on steps of 0.002 s, the model steps 0.001 s"):
        net.memory(0.001)
    with pytest.raises(ConfigError, match="one rollout has one actuator network"):
        Driven(SCENE).roll([Theta()] * 2, [net, again], start, command)
    renamed = Scene(SCENE.xml.replace('motor name="axle"', 'motor name="other"'))
    with pytest.raises(SimError, match="the network drives 'axle', the model has other"):
        Driven(renamed).roll([Theta()], [net], start, command)
    with pytest.raises(PosteriorError, match="a history network lacks something"):
        ActuatorNet.unpacked({}, {})


def test_inputs_beyond_training_are_held_at_its_ends() -> None:
    net = SMALL.fit(PLANT, [log(k, 0.0) for k in range(2)], ["axle"])
    top = np.tile(net.high[:, None], (1, 1, 1))
    np.testing.assert_allclose(net.torque(top), net.torque(top + 100.0))


def test_short_logs_loose_motors_and_a_missing_torch_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    short = Labels(np.zeros((40, 1)), np.zeros((40, 1)), np.zeros((40, 1)))
    with pytest.raises(ConfigError, match="too short to train"):
        SMALL.fit(PLANT, [short], ["axle"])
    motor = '<motor name="axle" joint="axle"/>'
    tied = Scene(SCENE.xml.replace(motor, '<adhesion name="axle" body="wheel" ctrlrange="0 1"/>'))
    with pytest.raises(SimError, match="moves no single joint"):
        SMALL.fit(Driven(tied).plant, [log(0, 0.0)], ["axle"])
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ConfigError, match="needs torch"):
        SMALL.fit(PLANT, [log(0, 0.0)], ["axle"])
