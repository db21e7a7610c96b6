"""Torques that explain a motion are those that drove it."""

from __future__ import annotations

import numpy as np

from tests.sim.motions import DOUBLE, joint_signals, moved, sines
from twinproof.nouns.episode import Episode
from twinproof.nouns.theta import Theta
from twinproof.sim.experiment import Experiment, experiment
from twinproof.sim.inverse import inverse_dynamics
from twinproof.sim.scene import Scene

TRUTH = {"body.lower.mass": 0.4, "joint.elbow.damping": 0.08, "actuator.elbow.gain": 1.3}


def arm(kinds: tuple[str, ...] = ("state", "velocity", "torque")) -> Experiment:
    # slow commands, so that an acceleration is what a parabola over a few readings says
    controls = sines(500, 2, 0.004, 1, held_s=0.004)
    motion = moved(Scene(DOUBLE), controls, TRUTH, qpos=np.array([0.3, -0.2]))
    return experiment(Episode.of(joint_signals(motion, controls, kinds=kinds), {}), Scene(DOUBLE))


def test_the_true_parameters_ask_for_the_measured_torques_and_others_do_not() -> None:
    wrong = {**TRUTH, "body.lower.mass": 0.5}
    found = inverse_dynamics(arm(), [Theta(TRUTH), Theta(wrong)])
    assert found is not None
    measured, asked, sd = found
    assert measured.shape == asked.shape[1:]
    assert sd.shape == (2,)
    near, far = np.sqrt(np.mean((asked - measured) ** 2, axis=(1, 2)))
    assert near < 0.05 * measured.std()
    assert far > 3 * near


def test_delays_offsets_and_gains_do_not_matter() -> None:
    outside = {**TRUTH, "actuator.elbow.delay": 0.02, "joint.elbow.offset": 0.1, "actuator.elbow.gain": 3.0}
    found = inverse_dynamics(arm(), [Theta(TRUTH), Theta(outside)])
    assert found is not None
    np.testing.assert_allclose(found[1][0], found[1][1])


def test_without_torques_or_without_positions_there_is_nothing_to_say() -> None:
    assert inverse_dynamics(arm(("state", "velocity")), [Theta(TRUTH)]) is None
    assert inverse_dynamics(arm(("torque",)), [Theta(TRUTH)]) is None
