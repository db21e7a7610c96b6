"""Derivatives where a small step would lie: pasts, delays in whole physics steps, and parameters with two names."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.models import ARM
from twinproof.nouns.errors import SimError
from twinproof.nouns.randomness import stream
from twinproof.nouns.theta import Theta
from twinproof.sim.jacobian import Differences, jacobian
from twinproof.sim.rollout import Rollouts
from twinproof.sim.scene import Scene
from twinproof.sim.windows import Start

SCENE = Scene(ARM)


def test_a_changed_first_command_does_not_change_what_a_delayed_actuator_was_sent_before() -> None:
    scene, theta = Scene(ARM, control_delay_s=0.02), Theta({"actuator.elbow.delay": 0.02, "joint.elbow.offset": 0.1})
    rollouts = Rollouts(scene, substeps=5)
    commands = np.cumsum(stream(1, "commands").normal(0, 0.2, (2, 6, 2)), axis=1)
    qpos = scene.nominal().qpos0
    unsaid = jacobian(rollouts, theta, Start(qpos, np.zeros(8)), commands, control=True)
    said = Start(qpos, np.zeros(8), past=commands[:, :1])  # the same past in words
    told = jacobian(rollouts, theta, said, commands, control=True)
    np.testing.assert_array_equal(unsaid.base["qpos"], told.base["qpos"])
    np.testing.assert_array_equal(unsaid.control["qpos"], told.control["qpos"])
    elbow_by_first = unsaid.control["qpos"][:, :, 1, 1]
    assert (elbow_by_first[:, :2] == 0).all()  # 20 ms are two samples: until then the old command rules
    assert (elbow_by_first[:, 2] != 0).all()


@pytest.mark.parametrize(("value_s", "steps"), [(0.01, (4, 6)), (0.0, (0, 1)), (0.02, (9, 10)), (0.009, (4, 6))])
def test_a_delay_is_differentiated_over_whole_physics_steps(value_s: float, steps: tuple[int, int]) -> None:
    scene, id = Scene(ARM, control_delay_s=0.02), "actuator.elbow.delay"
    rollouts = Rollouts(scene, substeps=5)
    commands = np.cumsum(stream(2, "commands").normal(0, 0.2, (1, 8, 2)), axis=1)
    start = Start(scene.nominal().qpos0, np.zeros(8), past=np.zeros((1, 2)))
    found = jacobian(rollouts, Theta({id: value_s}), start, commands, [id])
    ends = rollouts.roll([Theta({id: 0.002 * k}) for k in steps], start, commands)["qvel"][:, 0]
    slope = (ends[1] - ends[0]) / (0.002 * (steps[1] - steps[0]))
    assert np.abs(slope).max() > 1
    np.testing.assert_allclose(found.parameters["qvel"][0, ..., 0], slope, rtol=1e-9, atol=1e-9)


def test_a_sensors_delay_has_a_slope_and_a_step_of_its_own_is_rounded_to_physics_steps() -> None:
    scene, id = Scene(ARM, sensor_delay_s=0.02), "sensor.elbow.delay"
    rollouts = Rollouts(scene, ("sensordata",), substeps=5)
    start, commands = Start(scene.nominal().qpos0, np.zeros(8)), np.ones((1, 8, 2))
    for own, steps in (({}, (4, 6)), ({id: 0.0041}, (3, 7))):
        found = jacobian(rollouts, Theta({id: 0.01}), start, commands, [id], differences=Differences(own=own))
        ends = rollouts.roll([Theta({id: 0.002 * k}) for k in steps], start, commands)["sensordata"][:, 0]
        slope = (ends[1] - ends[0]) / (0.002 * (steps[1] - steps[0]))
        assert np.abs(slope).max() > 0.1
        np.testing.assert_allclose(found.parameters["sensordata"][0, ..., 0], slope, rtol=1e-9, atol=1e-9)


def test_an_alias_is_differentiated_at_the_thetas_value_under_either_name() -> None:
    alias, id = "object.cube.friction", "body.cube.friction_slide"
    rollouts = Rollouts(SCENE, substeps=5)
    start = Start(SCENE.nominal().qpos0, np.array([0, 0, 1.0, 0, 0, 0, 0, 0]))
    found = [
        jacobian(
            rollouts, Theta({held: 0.1}), start, np.zeros((1, 10, 2)), [asked], differences=Differences(own={own: 0.01})
        ).parameters["qvel"]
        for held, asked, own in ((id, id, id), (alias, id, alias), (id, alias, id), (alias, alias, alias))
    ]
    for each in found[1:]:
        np.testing.assert_array_equal(each, found[0])
    with pytest.raises(SimError, match=f"{id} and {alias} are the same parameter"):
        jacobian(rollouts, Theta({id: 0.1, alias: 0.2}), start, np.zeros((1, 10, 2)), [id])
