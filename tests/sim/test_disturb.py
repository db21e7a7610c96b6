"""Starts, pushes and noise from outside the model."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.models import ARM
from twinproof.nouns.errors import SimError
from twinproof.nouns.theta import Theta
from twinproof.sim.disturb import Disturbances, started
from twinproof.sim.instantiate import instantiate
from twinproof.sim.parameters import nominal_value, parameter
from twinproof.sim.parameters.beside import AROUND
from twinproof.sim.scene import Scene
from twinproof.sim.worlds import Worlds

SCENE = Scene(ARM)
MODEL = SCENE.nominal()


def test_an_episode_starts_where_its_theta_says_and_the_rest_stays():
    theta = Theta({"joint.elbow.start": 0.4, "body.cube.start_x": 0.3, "body.cube.start_yaw": np.pi / 2})
    qpos = np.stack([MODEL.qpos0, MODEL.qpos0])
    found = started(MODEL, qpos, [theta, Theta()])
    np.testing.assert_array_equal(found[1], MODEL.qpos0)
    elbow, cube = (int(MODEL.joint(name).qposadr[0]) for name in ("elbow", "cube"))
    assert found[0, elbow] == 0.4
    assert found[0, cube] == 0.3
    np.testing.assert_allclose(found[0, cube + 3 : cube + 7], [np.sqrt(0.5), 0, 0, np.sqrt(0.5)])
    untouched = [k for k in range(MODEL.nq) if k not in (elbow, cube, *range(cube + 3, cube + 7))]
    np.testing.assert_array_equal(found[0, untouched], MODEL.qpos0[untouched])


def test_a_push_moves_the_body_that_it_names_and_only_now_and_then():
    disturb = Disturbances(MODEL, [Theta({"body.cube.push": 3.0}), Theta()], 0.02, seed=0)
    forces = np.stack([disturb.pushes(tick) for tick in range(4000)])
    strength = np.linalg.norm(forces[..., :3], axis=-1)
    cube = MODEL.body("cube").id
    pushed = strength[:, 0, cube] > 0
    np.testing.assert_allclose(strength[pushed, 0, cube], 3.0)
    assert 0.02 < pushed.mean() < 0.09  # a tenth of a second every two seconds
    assert not strength[:, 1].any()
    assert not np.delete(strength[:, 0], cube, axis=1).any()
    assert not forces[..., 3:].any()


def test_pushes_reach_the_worlds():
    worlds = Worlds(SCENE, [Theta({"body.cube.push": 5.0}), Theta()], substeps=4)
    disturb = Disturbances(worlds.model, worlds.thetas, 4 * MODEL.opt.timestep, seed=1)
    for tick in range(400):
        worlds.view("xfrc_applied")[...] = disturb.pushes(tick)
        worlds.step(np.zeros((2, MODEL.nu)))
    cube = MODEL.body("cube").id
    assert np.linalg.norm(worlds.xpos[0, cube] - worlds.xpos[1, cube]) > 1e-3


def test_noise_has_the_stated_size_and_does_not_depend_on_the_number_of_worlds():
    theta = Theta({"actuator.elbow.noise": 0.2, "joint.elbow.velocity_noise": 0.5})
    few = Disturbances(MODEL, [theta] * 2, 0.02, seed=3)
    many = Disturbances(MODEL, [theta] * 400, 0.02, seed=3)
    sent = many.commands(np.zeros((400, MODEL.nu)), 7)
    np.testing.assert_array_equal(few.commands(np.zeros((2, MODEL.nu)), 7), sent[:2])
    assert not sent[:, 0].any()
    assert np.std(sent[:, 1]) == pytest.approx(0.2, rel=0.1)
    seen = many.readings("velocity", np.ones((400, 2)), ("elbow", "shoulder"), 7)
    assert np.std(seen[:, 0]) == pytest.approx(0.5, rel=0.1)
    np.testing.assert_array_equal(seen[:, 1], 1.0)
    np.testing.assert_array_equal(many.readings("torque", np.ones((400, 1)), ("elbow",), 7), 1.0)


@pytest.mark.parametrize("id", [f"{kind}.{name}" for kind, entries in AROUND.items() for name in entries])
def test_what_belongs_to_no_thing_of_the_model_changes_no_field(id):
    each = parameter(id)
    low, high = each.limits
    assert low <= nominal_value(MODEL, each) <= high
    assert each.info.unit
    assert instantiate(SCENE, Theta({id: low})).body_mass.sum() == MODEL.body_mass.sum()


def test_an_unknown_quantity_of_a_picture_is_an_error_with_the_nearest_known():
    with pytest.raises(SimError, match=r"'image.brightnes' is no parameter: image has no 'brightnes'. Did you mean"):
        parameter("image.brightnes")


@pytest.mark.parametrize(
    ("id", "why"),
    [
        ("joint.cube.start", "neither turns about an axis nor slides"),
        ("body.upper.start_x", "does not move freely"),
        ("body.base.push", "is fixed to the world"),
        ("body.cube.x", "moves freely: use body.cube.start_x"),
        ("body.world.y", "the world stays where it is"),
        ("body.world.scale", "has a plane"),
        ("body.base.scale", "has no geoms"),
    ],
)
def test_a_thing_that_cannot_start_grow_or_be_pushed_says_why(id, why):
    scene = Scene(ARM.replace("<worldbody>", '<worldbody><body name="base"/>', 1))
    with pytest.raises(SimError, match=why):
        nominal_value(scene.nominal(), parameter(id))


def test_a_body_grows_with_all_its_geoms_about_its_own_origin():
    text = ARM.replace(
        '<geom name="cube" type="box" size=".05 .05 .05" mass=".2"/>',
        '<geom name="cube" type="box" size=".05 .05 .05" mass=".2"/><geom name="knob" pos="0 0 .06" size=".01"/>'
        '<geom name="rod" type="capsule" fromto="0 0 .05 0 0 .1" size=".01"/>',
    )
    model = instantiate(Scene(text), Theta({"body.cube.scale": 2.0}))
    np.testing.assert_allclose(model.geom("cube").size, [0.1, 0.1, 0.1])
    np.testing.assert_allclose(model.geom("knob").pos[2], 0.12)
    np.testing.assert_allclose(model.geom("knob").size[0], 0.02)
    np.testing.assert_allclose(model.geom("rod").size[:2], [0.02, 0.05])
    np.testing.assert_allclose(model.geom("rod").pos[2], 0.15)
