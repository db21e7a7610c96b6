"""URDF as another program reads it: poses, inertias, limits and ties are the twin's."""

from __future__ import annotations

import logging
from pathlib import Path

import mujoco
import numpy as np
import pytest
import yourdfpy

from tests.export.probes import SCENE, write_probe
from twinproof.export.chain import chain
from twinproof.export.subject import subject_of
from twinproof.export.urdf import write_urdf
from twinproof.sim.anatomy import anatomy
from twinproof.sim.scene import Scene

KNOT = """<mujoco><compiler autolimits="true"/><worldbody>
 <body name="one" pos="0 0 1" euler="0 90 0"><joint name="a" axis="1 0 0" pos="0 0 .1"/>
  <joint name="b" type="slide" axis="0 1 0"/><joint name="c" axis="0 0 1" pos=".1 0 0" range="-30 30"/>
  <geom size="0.1" mass="1"/>
  <body name="two" pos="0 .2 0"><joint name="d" type="ball" pos="0 .05 0"/><geom type="box" size=".1 .1 .1" mass="2"/>
  </body></body></worldbody></mujoco>"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("urdf")


@pytest.fixture(scope="module")
def twin(folder):
    return write_probe(folder / "twin", splats=False)


@pytest.fixture(scope="module")
def lost(twin, folder) -> tuple[str, ...]:
    return write_urdf(subject_of(twin), folder).lost


@pytest.fixture(scope="module")
def robot(folder, lost) -> yourdfpy.URDF:
    return yourdfpy.URDF.load(str(folder / "urdf" / "twin.urdf"))


def poses(scene: Scene, **angles: float) -> dict[str, np.ndarray]:
    """T_world_body by MuJoCo, joints set as counted from rest."""
    model = scene.compile()
    data = mujoco.MjData(model)
    for name, value in angles.items():
        data.qpos[model.joint(name).qposadr[0]] = model.qpos0[model.joint(name).qposadr[0]] + value
    mujoco.mj_kinematics(model, data)
    found = {}
    for body in range(1, model.nbody):
        T = np.eye(4)
        T[:3, :3], T[:3, 3] = data.xmat[body].reshape(3, 3), data.xpos[body]
        found[model.body(body).name] = T
    return found


def test_links_go_where_mujoco_puts_them(twin, robot):
    scene = Scene.of(twin)
    robot.update_cfg({"hinge": 0.7, "slide": 0.03})
    wanted = poses(scene, hinge=0.7, slide=0.03, follower=0.5 * 0.03)
    whole = anatomy(scene)
    for name in ("base", "arm", "slider", "mirror", "probe", "wedge"):
        joint = whole.named[name].joints
        anchor = np.array(joint[-1].anchor_m) if joint and joint[-1].kind != "free" else np.zeros(3)
        T = robot.get_transform(name)
        assert np.allclose(T[:3, :3], wanted[name][:3, :3], atol=1e-6)
        assert np.allclose(T[:3, 3] - T[:3, :3] @ anchor, wanted[name][:3, 3], atol=1e-6)


def test_limits_dynamics_and_ties_are_said(robot):
    hinge, slide, follower = (robot.joint_map[name] for name in ("hinge", "slide", "follower"))
    assert (hinge.limit.lower, hinge.limit.upper) == pytest.approx(np.radians((-60, 80)))
    assert hinge.limit.effort == 5
    assert (float(hinge.dynamics.damping), float(hinge.dynamics.friction)) == pytest.approx((0.2, 0.1))
    assert (slide.limit.lower, slide.limit.upper) == pytest.approx((-0.03, 0.04))  # its zero is at rest
    assert (follower.mimic.joint, follower.mimic.multiplier) == ("slide", 0.5)
    assert robot.joint_map["probe_free"].type == "floating"


def test_inertias_are_the_compiled_ones(twin, robot):
    for link in anatomy(Scene.of(twin)).links[1:]:
        said = robot.link_map[link.name].inertial
        assert said.mass == pytest.approx(link.mass_kg)
        assert np.allclose(said.inertia, link.inertia_kgm2, rtol=1e-6, atol=1e-12)


def test_mujoco_reads_it_too_with_the_same_masses(twin, folder, robot):
    scene = Scene.read(folder / "urdf" / "twin.urdf")
    want = {link.name: link.mass_kg for link in anatomy(Scene.of(twin)).links[1:]}
    got = {link.name: link.mass_kg for link in anatomy(scene).links[1:]}
    assert {name: got[name] for name in want if name in got} == pytest.approx(
        {n: m for n, m in want.items() if n in got}
    )
    assert {"arm", "slider", "probe"} <= set(got)


def test_what_it_cannot_say_is_listed(lost):
    told = " | ".join(lost)
    for what in ("splats", "friction", "armature", "limits of speed", "sensors (1)", "MuJoCo's zero of slide", "planes",
                 "effort of slide, follower", "that follower has no end", "capsules"):  # fmt: skip
        assert what in told


def test_several_joints_of_a_body_become_a_chain(folder):
    twin = write_probe(folder / "knot", splats=False, scene=KNOT)
    lost = write_urdf(subject_of(twin), folder / "knotted").lost
    robot = yourdfpy.URDF.load(str(folder / "knotted" / "urdf" / "twin.urdf"))
    robot.update_cfg({"a": 0.4, "b": -0.1, "c": 0.3, "d_x": 0.2, "d_y": 0.0, "d_z": 0.0})
    wanted = poses(Scene.of(twin), a=0.4, b=-0.1, c=0.3)["one"]
    T = robot.get_transform("one")
    assert np.allclose(T[:3, :3], wanted[:3, :3], atol=1e-6)
    assert np.allclose(T[:3, 3] - T[:3, :3] @ (0.1, 0, 0), wanted[:3, 3], atol=1e-6)
    assert [step.name for step in chain(anatomy(Scene.of(twin)))] == ["world", "one__a", "one__b", "one", "two"]
    told = " | ".join(lost)
    assert "that several joints move one: empty links of 1 g stand between them" in told
    assert "that d is a ball joint: three hinges stand for it" in told


def test_a_tie_that_is_no_straight_line_is_listed(folder):
    bent = SCENE.replace('polycoef="0 0.5 0 0 0"', 'polycoef="0 0.5 2 0 0"')
    lost = write_urdf(subject_of(write_probe(folder / "bent", splats=False, scene=bent)), folder / "bent_out").lost
    assert "how follower is tied: URDF knows straight lines between two joints only" in lost
    assert "<mimic" not in (folder / "bent_out" / "urdf" / "twin.urdf").read_text()


def test_no_warning_is_logged_by_yourdfpy(folder, lost, caplog):
    with caplog.at_level(logging.WARNING):
        yourdfpy.URDF.load(str(folder / "urdf" / "twin.urdf"), load_collision_meshes=True)
    assert caplog.messages == []
