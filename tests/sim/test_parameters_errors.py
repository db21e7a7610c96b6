"""Ids and values that cannot be: the error says what is wrong and what was meant."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.models import ARM, EVERYTHING
from twinproof.nouns.errors import SimError
from twinproof.nouns.theta import Theta
from twinproof.sim.fields import Fields
from twinproof.sim.instantiate import fast, instantiate, poke_model
from twinproof.sim.parameters import matching, nominal_value, parameter, vocabulary
from twinproof.sim.population import field_rows
from twinproof.sim.scene import Scene

SCENE = Scene(EVERYTHING)
MODEL = SCENE.nominal()


@pytest.mark.parametrize(
    ("id", "words"),
    [
        ("bodi.cube.mass", "Did you mean 'body'"),
        ("body.by_mass.mas", "Did you mean 'mass'"),
        ("body.mass", "is no parameter"),
        ("gravity.up", "is no parameter"),
        ("body.by_mas.mass", "no body 'by_mas'. Did you mean 'by_mass'"),
        ("joint.hing.damping", "no joint 'hing'. Did you mean 'hinge'"),
        ("actuator.serva.gain", "no actuator 'serva'. Did you mean 'servo'"),
        ("pair.qqq.friction_slide", "no pair 'qqq'. It has foot"),
        ("body.world.mass", "has no mass"),
        ("joint.ball.range_offset", "no range with two ends"),
        ("joint.ball.offset", "neither turns about an axis"),
        ("actuator.motor.velocity_gain", "is no position servo"),
        ("actuator.motor.backlash", "is no position servo"),
        ("actuator.motor.force_limit", "has no force limit"),
        ("actuator.servo.delay", "reserve it with scene.reserving\\(control_delay_s"),
        ("sensor.angle.delay", "reserve it with scene.reserving\\(sensor_delay_s"),
        ("geom.touched.contact_timeconst", "states solref as stiffness and damping"),
        ("geom.floor.contact_damping", "states solref as timeconst and dampratio"),
        ("body.shared.restitution", "differ in solref"),
        ("geom.floor.scale", "is a plane"),
        ("geom.shown.scale", "share the mesh.*mesh.twice.scale"),
        ("geom.floor.red", "use material.tiled.red"),
        ("material.plain.texture", "has no texture"),
        ("material.plain.metallic", "leaves its metallic to the renderer"),
        ("camera.lens.fovy", "use fx, fy"),
        ("camera.side.fx", "use fovy"),
    ],
)
def test_an_id_that_the_model_has_not_says_why(id, words):
    with pytest.raises(SimError, match=words):
        poke_model(MODEL, Theta({id: 0.5}))
    with pytest.raises(SimError, match=words):
        instantiate(SCENE, Theta({id: 0.5}))


def test_more_absences_say_why():
    flat = '<mujoco><option gravity="0 0 0"/><worldbody><body name="b"><joint/><inertial pos="0 0 0" mass="1" '
    flat += 'diaginertia="1 1 2"/></body></worldbody><contact/></mujoco>'
    model = Scene(flat).nominal()
    for id, words in {
        "gravity.tilt_x": "has no gravity",
        "body.b.inertia_d1": "is flat",
        "body.b.friction_slide": "has no geoms",
    }.items():
        with pytest.raises(SimError, match=words):
            nominal_value(model, parameter(id))
    tracking = '<mujoco><worldbody><body name="b"/><camera name="c" mode="targetbody" target="b"/></worldbody></mujoco>'
    with pytest.raises(SimError, match="turns by itself"):
        nominal_value(Scene(tracking).nominal(), parameter("camera.c.roll"))
    two = EVERYTHING.replace('friction=".5 .5 .01 .001 .001"', 'friction=".5 .6 .01 .001 .001"')
    with pytest.raises(SimError, match="two different slide frictions"):
        nominal_value(Scene(two).nominal(), parameter("pair.foot.friction_slide"))
    muscle = ARM.replace("<actuator>", '<actuator><muscle name="m" joint="elbow" lengthrange="0 1"/>')
    for id, words in {"actuator.m.gain": "no constant positive gain", "actuator.m.bias": "of another kind"}.items():
        with pytest.raises(SimError, match=words):
            nominal_value(Scene(muscle).nominal(), parameter(id))


@pytest.mark.parametrize(
    ("id", "value", "words"),
    [
        ("body.by_mass.mass", -1.0, "body.by_mass.mass is -1 kg; its limits are 1e-06 to 100000"),
        ("geom.floor.friction_slide", 50.0, "its limits are 1e-05 to 10"),
        ("actuator.servo.delay", 0.2, "takes 0.1 at most: reserve more"),
        ("material.tiled.texture", 2.0, "has 2 textures"),
    ],
)
def test_a_value_outside_its_limits_is_named_with_them(id, value, words):
    scene = SCENE.reserving(control_delay_s=0.1)
    with pytest.raises(SimError, match=words):
        instantiate(scene, Theta({id: value}))
    with pytest.raises(SimError, match=words):
        poke_model(scene.nominal(), Theta({id: value}))


def test_a_scale_needs_a_compiled_model():
    theta = Theta({"geom.by_density.scale": 1.1})
    assert not fast(MODEL, [Theta(), theta])
    assert fast(MODEL, [Theta({"body.by_mass.mass": 1.0})])
    with pytest.raises(SimError, match="needs a model compiled for every value"):
        poke_model(MODEL, theta)
    with pytest.raises(SimError, match="Use instantiate"):
        parameter("geom.by_density.scale").poke(Fields(MODEL, 1), np.array([1.1]))


def test_patterns_find_parameters():
    assert [each.id for each in matching(MODEL, "joint.*.damping")] == [
        f"joint.{name}.damping" for name in ("ball", "by_mass", "hinge", "meshed", "shared", "slider")
    ]
    assert [each.id for each in matching(MODEL, "object.by_mass.friction")] == ["body.by_mass.friction_slide"]
    with pytest.raises(SimError, match="no parameter of the model fits 'joint.*.dumping'"):
        matching(MODEL, "joint.*.dumping")
    with pytest.raises(SimError, match="Write object.NAME.friction"):
        matching(MODEL, "object.nobody.friction")


def test_an_object_whose_geoms_differ_has_a_friction_for_each():
    xml = '<mujoco><worldbody><body name="b"><joint/><geom name="g" size=".1"/><geom name="h" size=".1" friction=".3"/>'
    model = Scene(xml + "</body></worldbody></mujoco>").nominal()
    ids = ["geom.g.friction_slide", "geom.h.friction_slide"]
    assert [each.id for each in matching(model, "object.b.friction")] == ids


def test_every_id_leads_to_its_parameter_and_fits_the_nouns():
    for each in vocabulary(MODEL):
        assert parameter(each.id) == each
        assert each.info.contains(nominal_value(MODEL, each)), each.id


def test_an_alias_and_its_id_in_one_theta_are_refused_and_in_two_worlds_are_not():
    scene, id, alias = Scene(ARM), "body.cube.friction_slide", "object.cube.friction"
    both = Theta({id: 0.3, alias: 0.6})
    for make in (lambda: instantiate(scene, both), lambda: poke_model(scene.nominal(), both)):
        with pytest.raises(SimError, match=f"{id} and {alias} are the same parameter, {id}. Give one of them"):
            make()
    rows = field_rows(scene, [Theta({id: 0.3}), Theta({alias: 0.6})])
    assert rows["geom_friction"][:, scene.nominal().geom("cube").id, 0].tolist() == [0.3, 0.6]


@pytest.mark.filterwarnings("ignore:flex")
@pytest.mark.parametrize("kind", ['count="3 3 1" dim="2"', 'count="3 3 3" dim="3" dof="trilinear"'])
def test_the_points_of_a_flex_have_no_joint_damping_and_what_it_hangs_on_has(kind):
    flex = f'<flexcomp name="f" type="grid" {kind} spacing=".1 .1 .1" mass="1" radius=".01"><edge damping=".1"/>'
    if "trilinear" not in kind:
        flex += '<pin id="0"/>'
    xml = f'<mujoco><worldbody><body name="b"><joint name="h"/><geom size=".02"/>{flex}</flexcomp></body></worldbody>'
    scene = Scene(xml + "</mujoco>")
    damped = [each.id for each in vocabulary(scene.nominal()) if each.id.endswith(".damping")]
    assert damped == ["joint.h.damping"]
    assert instantiate(scene, Theta({"joint.h.damping": 0.2})).joint("h").damping[0] == 0.2
    point = scene.nominal().joint(scene.nominal().njnt - 1).name
    with pytest.raises(SimError, match="moves a point of a flex, which MuJoCo damps by its elasticity and edges"):
        instantiate(scene, Theta({f"joint.{point}.damping": 0.2}))
