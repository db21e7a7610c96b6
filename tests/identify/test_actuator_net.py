"""A history network takes over where the parametric actuator leaves structure, and only there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.identify.test_actuators import SCENE, excitation, law
from twinproof.identify.actuator_fit import Free, Labels, regress
from twinproof.identify.actuator_net import ActuatorNet, HistoryNet, choose, predicted
from twinproof.identify.actuators import ActuatorLaw, torque_of
from twinproof.nouns.errors import ConfigError, PosteriorError, SimError
from twinproof.nouns.randomness import stream
from twinproof.nouns.theta import Theta
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
SMALL = HistoryNet(history=6, spacing=1, width=24, epochs=15, batch=512)


def log(seed: int, bent: float) -> Labels:
    """A motor; `bent` adds what no number of the parametric model describes: a torque that depends on the product."""
    command, speed = excitation(1500, seed)[:, None], 3 * excitation(1500, seed + 20)[:, None]
    torque = torque_of(TRUTH, PLANT, command, speed) + bent * np.sin(3 * command) * speed
    return Labels(command, speed, torque + stream(seed, "net").normal(0, 0.01, torque.shape))


def test_white_residuals_keep_the_parametric_law() -> None:
    logs = [log(k, 0.0) for k in range(3)]
    chosen = choose(regress(law(), PLANT, logs, FREE), PLANT, logs, [log(7, 0.0)], SMALL)
    assert isinstance(chosen.law, ActuatorLaw)
    assert "white residuals" in chosen.reason


def test_structure_in_the_residuals_calls_for_the_network() -> None:
    logs = [log(k, 0.3) for k in range(4)]
    parametric = regress(law(), PLANT, logs, FREE)
    chosen = choose(parametric, PLANT, logs, [log(9, 0.3)], SMALL)
    assert not chosen.residuals[0].white()
    assert isinstance(chosen.law, ActuatorNet)
    assert "the network is used" in chosen.reason
    assert "torque of axle: not white" in chosen.reason


def test_a_network_drives_the_joint_in_its_motors_place(tmp_path: Path) -> None:
    logs = [log(k, 0.0) for k in range(3)]
    net = SMALL.fit(PLANT, logs, ["axle"])
    later = log(8, 0.0)
    assert np.abs(predicted(net, PLANT, later) - later.torque)[net.reach :].std() < 0.08
    start, command = Start(np.zeros((1, 1)), np.full((1, 1), 0.5)), excitation(100, 3).reshape(1, 100, 1)
    by_net = Driven(SCENE).roll([Theta()], [net], start, command)["qvel"]
    by_law = Driven(SCENE).roll([Theta()], [TRUTH], start, command)["qvel"]
    assert np.abs(by_net - by_law).max() < 0.2 * np.abs(by_law).max()
    net.save(tmp_path)
    again = ActuatorNet.load(tmp_path)
    np.testing.assert_array_equal(predicted(net, PLANT, later), predicted(again, PLANT, later))
    assert {path.name for path in tmp_path.iterdir()} == {"actuator_net.safetensors", "actuator_net.json"}
    with pytest.raises(SimError, match="trained on steps of 0.002 s, the model steps 0.001 s"):
        net.memory(0.001)
    with pytest.raises(ConfigError, match="one rollout has one actuator network"):
        Driven(SCENE).roll([Theta()] * 2, [net, again], start, command)
    renamed = Scene(SCENE.xml.replace('motor name="axle"', 'motor name="other"'))
    with pytest.raises(SimError, match="the network drives 'axle', the model has other"):
        Driven(renamed).roll([Theta()], [net], start, command)
    (tmp_path / "actuator_net.json").write_text(json.dumps({"format": "another"}))
    with pytest.raises(PosteriorError, match="holds 'another'"):
        ActuatorNet.load(tmp_path)


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
