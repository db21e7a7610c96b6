"""One world with names: what it says, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from twinproof.nouns.errors import SimError
from twinproof.sim.world import World, compile_text

BALL = """<mujoco><compiler angle="radian"/><option timestep="0.002"/><worldbody>
  <geom name="floor" type="plane" size="1 1 .1"/>
  <camera name="eye" pos="0 -1 0.5" xyaxes="1 0 0 0 0 1"/>
  <body name="ball" pos="0 0 1"><freejoint name="ball"/><geom name="ball" size="0.1" mass="0.5"/></body>
  <body name="arm" pos="1 0 1"><joint name="swing" axis="0 1 0" range="-1 1" limited="true" damping="0.1"/>
    <geom type="capsule" fromto="0 0 0 0 0 -.3" size=".02" mass="0.2" contype="0" conaffinity="0"/>
    <site name="end" pos="0 0 -.3"/></body>
</worldbody>
<actuator><motor name="swing" joint="swing"/></actuator>
<sensor><jointpos name="angle" joint="swing"/></sensor></mujoco>"""


@pytest.fixture
def world() -> World:
    return World(compile_text(BALL))


def test_a_force_at_a_body_carries_it_and_the_ball_rests_on_the_floor_without_it(world):
    world.body_force("ball", np.array([0, 0, 0.5 * 9.81]))
    world.step(100)
    assert world.body_pose("ball")[2, 3] == pytest.approx(1.0, abs=1e-9)
    world.body_force("ball", np.zeros(3))
    world.step(2000)
    assert world.body_pose("ball")[2, 3] == pytest.approx(0.1, abs=2e-3)
    contact = world.contacts()[0]
    assert {contact.first, contact.second} == {"floor", "ball"}
    assert contact.force_n == pytest.approx(0.5 * 9.81, rel=0.02)
    assert world.touching("ball", "world")
    assert not world.touching("ball", "arm")


def test_a_jacobian_predicts_where_a_site_goes(world):
    before, jacobian = world.site_pose("end")[:3, 3].copy(), world.site_jacobian("end")
    world.set_joint("swing", 1e-5)
    world.kinematics()
    moved = world.site_pose("end")[:3, 3] - before
    assert moved == pytest.approx(jacobian[:3, world.joint_slices("swing")[1].start] * 1e-5, abs=1e-9)


def test_a_camera_looks_along_its_z_axis_with_y_down(world):
    pose = world.camera_pose("eye")
    assert pose[:3, 2] == pytest.approx([0, 1, 0])
    assert pose[:3, 1] == pytest.approx([0, 0, -1])


def test_a_joint_force_and_a_reset_are_what_they_say(world):
    world.joint_force("swing", 0.2)
    world.step(50)
    assert world.sensor("angle")[0] > 0.01
    world.reset()
    assert world.time == 0.0
    assert world.sensor("angle")[0] == 0.0
    assert world.joint_range("swing") == (-1.0, 1.0)
    assert world.actuators == ("swing",)


@pytest.mark.parametrize(
    ("ask", "match"),
    [
        (lambda world: world.site_pose("ende"), r"no site 'ende'. Did you mean 'end'\?"),
        (lambda world: world.joint_slices("nothing"), "no joint 'nothing'. It has ball, swing"),
        (lambda world: world.set_state(np.zeros(3)), r"qpos has shape \(3,\); this model needs \(8,\)"),
        (lambda world: compile_text("<mujoco><worldbody><body></worldbody></mujoco>"), "does not compile"),
    ],
)
def test_what_a_world_cannot_do_is_said(world, ask, match):
    with pytest.raises(SimError, match=match):
        ask(world)


def test_a_world_that_explodes_says_when_and_where(world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its own log into the working folder
    world.qvel[:] = 1e12
    with pytest.raises(SimError, match=r"the world diverged before 0\.0\d+ s"):
        world.step(5)
