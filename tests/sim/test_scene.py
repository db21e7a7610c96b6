"""A scene gives the same nominal every time, whatever the compiler would derive."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from tests.sim.compare import differing
from tests.sim.models import ARM, EVERYTHING, TRICKY
from twinproof.nouns.errors import SimError
from twinproof.nouns.theta import Theta
from twinproof.sim.instantiate import instantiate
from twinproof.sim.scene import Scene, engine

TETRAHEDRON = "v 0 0 0\nv .1 0 0\nv 0 .1 0\nv 0 0 .1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
MESHED = '<mujoco><asset><mesh name="m" file="t.obj"/></asset></mujoco>'
# Structure that the nominal changes on purpose: names, and no shortcut for bodies with a diagonal inertia matrix.
ON_PURPOSE = ("body_simple", "dof_simplenum", "M_", "map", "name", "nC", "nbuffer", "nnames", "nsensor")


def swing(model: mujoco.MjModel, steps: int = 200) -> np.ndarray:
    data = mujoco.MjData(model)
    data.ctrl[:] = 0.3
    for _ in range(steps):
        mujoco.mj_step(model, data)
    return data.qpos


@pytest.mark.parametrize("xml", [ARM, EVERYTHING])
def test_the_nominal_is_what_mujoco_compiles(xml):
    plain = mujoco.MjModel.from_xml_string(xml)
    found = differing(plain, Scene(xml).compile(), 1e-14)
    found = {name: gap for name, gap in found.items() if not name.startswith(ON_PURPOSE)}
    found.pop("cam_fovy", None)  # in single precision: one bit
    assert found == {}


@pytest.mark.parametrize("xml", [ARM, EVERYTHING])
def test_the_nominal_moves_as_mujoco_does(xml):
    plain, nominal = mujoco.MjModel.from_xml_string(xml), Scene(xml).compile()
    np.testing.assert_allclose(swing(nominal), swing(plain), rtol=0, atol=1e-9)


def test_compiler_settings_are_obeyed_once():
    scene = Scene(TRICKY)
    model = scene.compile()
    assert model.body_mass.sum() == pytest.approx(7)
    heavier = instantiate(scene, Theta({"body.link.mass": 3.0}))
    assert heavier.body("link").mass[0] == pytest.approx(3)
    assert heavier.body("base").mass[0] == pytest.approx(model.body("base").mass[0])
    assert instantiate(scene, Theta({"body.link.mass": 0.01})).body("link").mass[0] == pytest.approx(0.01)


def test_nameless_things_get_names():
    model = Scene(TRICKY).compile()
    assert model.geom(0).name == "base_geom0"
    assert model.joint(0).name == "link_joint0"
    assert model.actuator(0).name == "actuator0"


def test_two_scenes_are_equal_when_text_and_files_are(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "t.obj").write_text(TETRAHEDRON)
    first, second = Scene(MESHED, tmp_path / "a"), Scene(MESHED, tmp_path / "b")
    assert first == second
    assert len({first, second, Scene(MESHED, tmp_path / "a").reserving(0.1)}) == 2
    (tmp_path / "b" / "t.obj").write_text(TETRAHEDRON.replace(".1", ".2"))
    assert first != Scene(MESHED, tmp_path / "b")
    assert first != MESHED


def test_a_changed_copy_leaves_the_nominal_alone():
    scene = Scene(ARM)
    scene.compile().body_mass[:] = 99
    assert scene.compile().body_mass.max() < 99
    spec = scene.spec()
    spec.body("cube").pos = (9, 9, 9)
    assert scene.spec().body("cube").pos[0] != 9


def test_a_reserved_history_does_not_change_the_motion():
    np.testing.assert_array_equal(swing(Scene(ARM).compile()), swing(Scene(ARM).reserving(0.1, 0.1).compile()))
    more = Scene(ARM).reserving(0.1).reserving(0.05, 0.2)
    assert (more.control_delay_s, more.sensor_delay_s) == (0.1, 0.2)
    assert more.compile().actuator_history[0, 0] == 50


def test_a_delay_shifts_the_response_by_whole_steps():
    scene = Scene(ARM).reserving(0.1)
    delayed = instantiate(scene, Theta({"actuator.elbow.delay": 0.02, "actuator.shoulder.delay": 0.02}))
    data = mujoco.MjData(delayed)
    forces = []
    for _ in range(15):
        data.ctrl[:] = 1
        mujoco.mj_step(delayed, data)
        forces.append(data.actuator_force[0])
    assert np.argmax(np.abs(forces) > 10) == 10


def test_the_engine_is_named_with_its_version():
    assert engine() == f"mujoco {mujoco.__version__}"


def test_a_twin_gives_its_scene(tmp_path):
    from twinproof.nouns.source import Declared
    from twinproof.nouns.twin import Alignment, Body, Twin

    (tmp_path / "scene.xml").write_text(ARM)
    source = Declared("a test")
    lacks = {"mesh": "primitive shapes", "splats": "none were made"}
    bodies = tuple(Body(name, source, lacks=lacks) for name in ("upper", "lower", "cube"))
    twin = Twin(tmp_path, bodies, Alignment(source), engine(), ("0" * 20,), {"split": "0" * 64})
    assert differing(Scene.of(twin).compile(), Scene(ARM).compile()) == {}


def test_bad_scenes_are_refused_with_a_reason(tmp_path):
    with pytest.raises(SimError, match="has no folder"):
        Scene(MESHED)
    with pytest.raises(SimError, match="which is not in"):
        Scene(MESHED, tmp_path)
    with pytest.raises(SimError, match="pulls in 'x.xml'"):
        Scene('<mujoco><include file="x.xml"/></mujoco>', tmp_path)
    with pytest.raises(SimError, match="65 MB of XML"):
        Scene("<mujoco>" + " " * (65 << 20) + "</mujoco>")
    with pytest.raises(SimError, match="does not parse.*blob"):
        Scene('<mujoco><worldbody><geom type="blob"/></worldbody></mujoco>').compile()
    with pytest.raises(SimError, match="does not compile.*mass"):
        Scene("<mujoco><worldbody><body><freejoint/></body></worldbody></mujoco>").compile()
    with pytest.raises(SimError, match="Remove alignfree"):
        Scene('<mujoco><compiler alignfree="true"/></mujoco>').compile()
    with pytest.raises(SimError, match="zero or more"):
        Scene(ARM, control_delay_s=-1.0).compile()


def test_a_scene_may_be_read_by_the_text_of_its_path(tmp_path):
    (tmp_path / "arm.xml").write_text(ARM)
    assert Scene.read(str(tmp_path / "arm.xml"), str(tmp_path)) == Scene.read(tmp_path / "arm.xml")
    assert Scene(ARM, str(tmp_path)).root == tmp_path


@pytest.mark.parametrize("delay_s", [float("inf"), float("nan"), -0.1])
def test_a_reserved_delay_is_a_finite_number_that_is_not_negative(delay_s):
    with pytest.raises(SimError, match=f"a reserved delay is {delay_s} s. It is zero or more, and finite"):
        Scene(ARM).reserving(delay_s)
    with pytest.raises(SimError, match="It is zero or more, and finite"):
        Scene(ARM).reserving(0.1, delay_s)
    with pytest.raises(SimError, match="It is zero or more, and finite"):
        Scene(ARM, sensor_delay_s=delay_s)


def test_a_model_whose_clock_does_not_advance_is_refused():
    for step in ("0", "-0.001"):
        with pytest.raises(SimError, match="the model's timestep is -?0.* s. Give its <option> one above zero"):
            Scene(ARM.replace('timestep="0.002"', f'timestep="{step}"')).compile()


def test_coarse_physics_has_longer_steps_and_nearly_the_same_motion():
    fine, coarse = Scene(ARM), Scene(ARM).coarser(2)
    assert coarse.nominal().opt.timestep == 2 * fine.nominal().opt.timestep
    assert (coarse.nominal().opt.iterations, coarse.nominal().opt.ls_iterations) == (6, 10)
    assert coarse.hash != fine.hash
    assert fine.coarser(1) == fine
    assert coarse.coarser(2) == fine.coarser(4)
    assert coarse.reserving(0.02).leaner().coarse == 2
    off = np.abs(swing(coarse.compile(), 100) - swing(fine.compile(), 200)).max()
    assert 0 < off < 0.01
    with pytest.raises(SimError, match="asked for 0 times as long. Give a whole number of 1 or more"):
        fine.coarser(0)
