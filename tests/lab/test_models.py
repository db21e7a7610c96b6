"""The lab's models: the nominal and the true one differ by a Theta, and instances of a family are always the same."""

from __future__ import annotations

from fnmatch import fnmatchcase

import numpy as np
import pytest

from twinproof.lab import hidden
from twinproof.lab.benches import BENCHES, bench
from twinproof.lab.hidden import TIMES
from twinproof.lab.models import textures
from twinproof.lab.models.room import NOMINAL_LOOK
from twinproof.lab.models.text import Values, camera_text, quaternion, rotation, rotation_vector
from twinproof.lab.population import FAMILIES, instance, mean_instance, measured, population
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.randomness import stream
from twinproof.nouns.theta import Theta
from twinproof.sim.instantiate import instantiate
from twinproof.sim.scene import Scene
from twinproof.sim.world import World, compile_text


def texts(name: str, seed: int) -> tuple[str, str, Values]:
    """Nominal and true scene of a bench without effects, and the values that the true one asked for."""
    made = bench(name)
    cameras = {view.name: camera_text(view.name, view.T_parent_camera, view.fovy_rad) for view in made.views}
    thing = population(made.families[0])[2] if made.families else None
    true = Values(made.plant(seed).theta)
    return (
        made.scene_text(Values(), NOMINAL_LOOK, thing, cameras, False),
        made.scene_text(true, NOMINAL_LOOK, thing, cameras, False),
        true,
    )


@pytest.mark.parametrize("name", BENCHES)
def test_the_true_model_is_the_nominal_one_with_the_hidden_theta(name, tmp_path):
    for file, data in textures.assets().items():
        (tmp_path / file).write_bytes(data)
    nominal, true, values = texts(name, 3)
    inside = Theta({id: value for id, value in values.hidden.items() if id in values.nominal})
    assert len(inside) >= 14
    ours, theirs = compile_text(true, textures.assets()), instantiate(Scene(nominal, tmp_path), inside)
    fields = [f for f in dir(ours) if getattr(getattr(ours, f), "dtype", np.dtype(int)).kind == "f"]
    changed = [f for f in fields if not np.allclose(getattr(ours, f), getattr(theirs, f), rtol=1e-9, atol=1e-12)]
    assert changed == []
    assert np.allclose(ours.opt.gravity, theirs.opt.gravity)
    assert not np.allclose(ours.dof_damping, compile_text(nominal, textures.assets()).dof_damping)


@pytest.mark.parametrize("name", BENCHES)
def test_every_hidden_value_is_a_parameter_of_the_vocabulary(name, tmp_path):
    for file, data in textures.assets().items():
        (tmp_path / file).write_bytes(data)
    scene = Scene(texts(name, 0)[0], tmp_path).reserving(control_delay_s=0.05)
    instantiate(scene, bench(name).plant(0).theta)  # an id that the vocabulary lacks, or a value beyond limits, raises


@pytest.mark.parametrize("name", BENCHES)
def test_hidden_values_lie_where_the_documentation_says(name):
    made = bench(name)
    for seed in range(6):
        plant = made.plant(seed)
        for id, value in plant.theta.items():
            if id.endswith(".offset"):
                assert np.radians(0.5) <= abs(value) <= np.radians(3.0)
            elif id.endswith(".delay"):
                assert hidden.DELAY_S[0] <= value <= hidden.DELAY_S[1]
            elif id in made.nominal_values and not id.startswith("gravity"):
                low, high = next(span for pattern, span in TIMES.items() if fnmatchcase(id, pattern))
                assert low <= value / made.nominal_values[id] <= high
        for camera in plant.cameras:
            off = camera.T_stated[:3, 3] - camera.T_true[:3, 3]
            turn = np.linalg.norm(rotation_vector(camera.T_true[:3, :3].T @ camera.T_stated[:3, :3]))
            assert -0.060 <= camera.clock_offset_s <= -0.010
            if camera.parent == "world":
                assert 0.010 <= np.linalg.norm(off) <= 0.030
                assert np.radians(1) <= turn <= np.radians(4)


def test_two_plants_differ_and_one_is_always_the_same():
    first, again, other = bench("push").plant(1), bench("push").plant(1), bench("push").plant(2)
    assert first.theta == again.theta
    assert (first.cameras[0].T_true == again.cameras[0].T_true).all()
    assert first.theta != other.theta


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_family_has_a_dozen_instances_that_spread_about_its_mean(family):
    things, mean = population(family), mean_instance(family)
    assert len(things) >= 10
    assert instance(things[7].name) == things[7]
    masses = np.array([thing.mass_kg for thing in things])
    assert len(set(masses)) == len(things)
    assert 0.05 < np.std(np.log(masses)) < 0.6
    assert 0.7 < np.exp(np.mean(np.log(masses))) / mean.mass_kg < 1.4
    known = measured(things[3])
    assert np.abs(np.subtract(known.half_m, things[3].half_m)).max() <= 0.00025 + 1e-9
    assert known.friction == mean.friction


def test_a_robot_alone_compiles_without_any_file():
    for name in BENCHES:
        made = bench(name)
        world = World(compile_text(made.robot_text()))
        assert world.actuators == made.joints
        assert world.model.nsensor == 3 * len(made.joints)


def test_rotations_there_and_back_are_the_same():
    rng = stream(0, "rotations")
    for _ in range(50):
        vector = rng.normal(size=3)
        vector *= rng.uniform(0, 3.1) / np.linalg.norm(vector)
        assert rotation_vector(rotation(vector)) == pytest.approx(vector, abs=1e-6)
        assert quaternion(rotation(vector))[0] >= 0


@pytest.mark.parametrize(
    ("ask", "match"),
    [
        (lambda: bench("kitchen"), "no bench 'kitchen'. Use one of pendulum, push, drawer, handover"),
        (lambda: population("spoon"), "no family 'spoon'"),
        (lambda: instance("box_99"), "no object 'box_99': a family has 12. Use box_00 to box_11"),
        (lambda: instance("cube"), "no object 'cube'. Objects are called FAMILY_NUMBER"),
    ],
)
def test_what_the_lab_does_not_have_is_said(ask, match):
    with pytest.raises(ConfigError, match=match):
        ask()


@pytest.mark.parametrize("name", ["push", "drawer", "handover"])
def test_a_nominal_scene_says_where_its_arms_begin(name):
    named = bench(name)
    world = World(compile_text(named.nominal_scene(None, named.plant(0)), textures.assets()))
    key = world.model.key("home").qpos
    assert {joint: float(key[world.joint_slices(joint)[0]][0]) for joint in named.joints} == dict(named.home)
