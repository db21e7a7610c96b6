"""A scene written out as plain data says what MuJoCo compiled."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from twinproof.nouns.errors import SimError
from twinproof.sim.anatomy import anatomy
from twinproof.sim.scene import Scene

ARM = """<mujoco><compiler autolimits="true"/>
 <worldbody>
  <body name="base" pos="0 0 0.1"><geom type="box" size=".1 .1 .1"/>
   <body name="arm" pos="0.2 0 0.1" euler="0 30 0"><joint name="turn" axis="0 1 0" pos="0 0 .05" range="-60 80" ref="10"
     damping="0.3" frictionloss="0.1" armature="0.02"/>
    <geom name="bar" type="capsule" size="0.02 0.1" pos="0.1 0 0" euler="0 90 0" friction="0.7 0.02 0.001"/>
    <body name="tip" pos="0.2 0 0"><joint name="slide" type="slide" axis="1 0 0"/>
     <geom type="sphere" size="0.03" rgba="1 0 0 1" contype="0" conaffinity="0"/></body></body></body>
  <body name="ball"><freejoint/><geom type="sphere" size="0.05" group="3"/></body>
 </worldbody>
 <equality><joint joint1="slide" joint2="turn" polycoef="0.01 0.5 0 0 0"/></equality>
 <actuator><position name="servo" joint="turn" kp="40" kv="3" forcerange="-5 6" gear="2"/></actuator>
 <sensor><jointpos joint="turn"/></sensor>
</mujoco>"""


def test_links_have_the_masses_and_poses_that_mujoco_compiled():
    scene = Scene(ARM)
    whole, model = anatomy(scene), scene.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    assert [link.name for link in whole.links] == ["world", "base", "arm", "tip", "ball"]
    for k, link in enumerate(whole.links):
        assert link.mass_kg == pytest.approx(model.body_mass[k])
        assert np.allclose(link.T_world_link[:3, 3], data.xpos[k])
        assert np.allclose(link.T_world_link[:3, :3], data.xmat[k].reshape(3, 3))
        if k:
            assert np.allclose(np.linalg.eigvalsh(link.inertia_kgm2), np.sort(model.body_inertia[k]))
            assert np.allclose(whole.named[link.parent].T_world_link @ link.T_parent_link, link.T_world_link)
    assert whole.moving == {"arm", "tip", "ball"}


def test_a_joint_counts_its_range_from_rest():
    joint = anatomy(Scene(ARM)).named["arm"].joints[0]
    assert joint.kind == "hinge"
    assert joint.range == pytest.approx(np.radians((-70, 70)))
    assert joint.rest == pytest.approx(np.radians(10))
    assert (joint.damping, joint.friction_loss, joint.armature) == pytest.approx((0.3, 0.1, 0.02))


def test_a_servo_is_told_as_the_joint_feels_it():
    joint = anatomy(Scene(ARM)).named["arm"].joints[0]
    (drive,) = joint.drives
    assert (drive.name, drive.kind) == ("servo", "position")
    assert (drive.stiffness, drive.damping) == pytest.approx((160, 12))  # the gear counts twice
    assert joint.most == pytest.approx(12)
    assert anatomy(Scene(ARM)).named["tip"].joints[0].most is None


def test_ties_and_what_else_there_is_are_counted():
    whole = anatomy(Scene(ARM))
    (tie,) = whole.couplings
    assert (tie.joint, tie.other, tie.multiplier, tie.offset, tie.straight) == ("slide", "turn", 0.5, 0.01, True)
    assert whole.more == {"sensors": 1}


def test_shapes_say_whether_they_touch_and_show():
    whole = anatomy(Scene(ARM))
    bar, tip, ball = (whole.named[name].shapes[0] for name in ("arm", "tip", "ball"))
    assert (bar.kind, bar.touches, bar.shown) == ("capsule", True, True)
    assert bar.friction == pytest.approx((0.7, 0.02, 0.001))
    assert (tip.touches, tip.shown, tip.rgba) == (False, True, (1, 0, 0, 1))
    assert (ball.touches, ball.shown) == (True, False)


def test_a_height_field_is_refused():
    field = """<mujoco><asset><hfield name="hills" nrow="2" ncol="2" size="1 1 1 1"/></asset>
     <worldbody><geom type="hfield" hfield="hills"/></worldbody></mujoco>"""
    with pytest.raises(SimError, match="the scene has a height field, which cannot be described"):
        anatomy(Scene(field))
