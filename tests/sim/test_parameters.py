"""Every parameter changes what it says and nothing else, compiled or poked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.compare import DERIVED, differing
from tests.sim.models import ARM, EVERYTHING, TRICKY
from twinproof.nouns.theta import Theta
from twinproof.sim.instantiate import instantiate, poke_model, poke_worlds
from twinproof.sim.parameters import Parameter, nominal_value, parameter, vocabulary
from twinproof.sim.scene import Scene

SCENES = {
    "everything": Scene(EVERYTHING).reserving(control_delay_s=0.1, sensor_delay_s=0.05),
    "arm": Scene(ARM),
    "tricky": Scene(TRICKY),
}


def worth_a_test(id: str) -> bool:
    """Contacts of geoms are all alike: a few owners stand for the rest."""
    _, _, quantity = id.rpartition(".")
    owners = ("by_mass", "by_density", "floor", "touched", "foot")
    return not quantity.startswith(("friction_", "contact_", "restitution")) or id.split(".")[1] in owners


PHYSICS = ("mass", "com_", "inertia_", "actuator.", "joint.")
ALL = [
    (name, each.id)
    for name, scene in SCENES.items()
    for each in vocabulary(scene.nominal())
    if (name == "everything" or any(part in each.id for part in PHYSICS)) and worth_a_test(each.id)
]
FAST = [(name, id) for name, id in ALL if parameter(id).fast(SCENES[name].nominal())]


def other_value(each: Parameter, scene: Scene, share: float = 0.3) -> float:
    """A value inside the limits that is not the nominal one."""
    now, low, high = nominal_value(scene.nominal(), each), *each.limits
    high = min(high, each.most(scene.nominal()))
    if "texture" in each.id:
        return 1.0 - now
    step = share * (abs(now) if abs(now) > 1e-3 else min(0.1, high - low))
    return now + step if now + step <= high else max(low, now - step)


def unlike(compiled, poked) -> dict[str, float]:
    """What differs, but for the trees of boxes that speed up collisions (there are several good ones), and for the last
    bit of the compiler's single-precision arctangent."""
    found = differing(compiled, poked, 1e-12)
    found = {name: gap for name, gap in found.items() if not name.startswith("bvh_")}
    return {name: gap for name, gap in found.items() if name != "cam_fovy" or gap > 1e-7}


@pytest.mark.parametrize(("name", "id"), ALL)
def test_a_new_value_is_read_back_and_changes_only_declared_fields(name, id):
    scene, each = SCENES[name], parameter(id)
    value = other_value(each, scene)
    changed = instantiate(scene, Theta({id: value}))
    found = set(differing(scene.nominal(), changed, 1e-14))  # a unit quaternion is normalised once more
    allowed = {*each.fields, *(DERIVED if each.derives else ())}
    found -= {"bvh_nodeid"} if "inertia_" in id else set()  # two geoms may change places in the tree
    assert found <= allowed
    if not each.channel or each.fields:
        assert found & set(each.fields)
    if each.id.rpartition(".")[2] not in ("scale", "range_offset", "pitch", "roll", "yaw") and each.fields:
        assert nominal_value(changed, each) == pytest.approx(int(value) if "texture" in id else value, rel=1e-6)


@pytest.mark.parametrize(("name", "id"), ALL)
def test_writing_the_nominal_value_changes_nothing(name, id):
    scene, each = SCENES[name], parameter(id)
    theta = Theta({id: nominal_value(scene.nominal(), each)})
    assert differing(scene.nominal(), instantiate(scene, theta), 1e-12) == {}
    if each.fast(scene.nominal()):
        assert differing(scene.nominal(), poke_model(scene.nominal(), theta), 1e-12) == {}


@pytest.mark.parametrize(("name", "id"), FAST)
def test_compiled_and_poked_are_one_model(name, id):
    scene = SCENES[name]
    theta = Theta({id: other_value(parameter(id), scene)})
    assert unlike(instantiate(scene, theta), poke_model(scene.nominal(), theta)) == {}


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_parameters_compose_alike_compiled_and_poked(data):
    name = data.draw(st.sampled_from(sorted(SCENES)))
    scene = SCENES[name]
    ids = data.draw(st.lists(st.sampled_from([id for where, id in FAST if where == name]), max_size=12, unique=True))
    theta = Theta({id: other_value(parameter(id), scene, data.draw(st.floats(0.02, 0.5))) for id in ids})
    assert unlike(instantiate(scene, theta), poke_model(scene.nominal(), theta)) == {}


def test_worlds_with_different_thetas_are_each_as_if_alone():
    scene = SCENES["arm"]
    thetas = [
        Theta({"body.cube.mass": 0.5, "geom.cube.friction_slide": 0.3}),
        Theta({"body.cube.mass": 0.7, "geom.cube.friction_slide": 0.9}),
        Theta(),
        Theta({"joint.elbow.damping": 2.0}),
    ]
    fields = poke_worlds(scene.nominal(), thetas)
    assert fields.derives
    for world, theta in enumerate(thetas):
        alone = poke_model(scene.nominal(), theta)
        for field in fields:
            np.testing.assert_array_equal(fields[field][world], getattr(alone, field))


def test_batched_worlds_hold_the_same_models():
    from mujoco.batch import Batch

    scene, rng = SCENES["everything"], np.random.default_rng(0)
    ids = [id for name, id in FAST if name == "everything"]
    thetas = [
        Theta(
            {id: other_value(parameter(id), scene, rng.uniform(0.01, 0.6)) for id in rng.choice(ids, 12, replace=False)}
        )
        for _ in range(6)
    ]
    batch, fields = Batch(scene.nominal(), nsim=8, nthread=2), poke_worlds(scene.nominal(), thetas)
    worlds = np.arange(1, 7)
    fields.into_batch(batch, worlds)
    batch.set_const(worlds)
    for world, theta in zip(worlds, thetas, strict=True):
        assert differing(batch.get_model(int(world)), poke_model(scene.nominal(), theta), 1e-13) == {}
    untouched = poke_worlds(scene.nominal(), [Theta()] * 6)
    untouched.into_batch(batch, worlds, reset=fields)
    batch.set_const(worlds)
    for world in range(8):
        assert differing(batch.get_model(world), scene.nominal(), 1e-13) == {}
