"""What is found in a scene, and what a task says that it could not find."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.tasks.scenes import home, lab_scene
from twinproof.nouns.errors import TaskError
from twinproof.sim.scene import Scene
from twinproof.tasks import drawer, handover, lift, push, reach
from twinproof.tasks.grasp import boundary, hold_of, widest_m
from twinproof.tasks.machine import Arm, Machine
from twinproof.tasks.task import TaskSpec
from twinproof.tasks.things import slider_of, thing_of

ARM = """
<mujoco>
  <compiler angle="radian"/>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 .1"/>
    <body name="upper" pos="0 0 .1">
      <joint name="lift" axis="0 1 0" range="-2 2" limited="true"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".03" contype="0" conaffinity="0"/>
      <site name="tip" pos=".3 0 0"/>
    </body>
    {more}
  </worldbody>
  <actuator>{servo}</actuator>
  {keys}
</mujoco>
"""
SERVO = '<position name="lift" joint="lift" kp="40" kv="2"/>'
HOME = '<keyframe><key name="home" qpos="0.3"/></keyframe>'
FREE = Scene(ARM.format(more="", servo=SERVO, keys=HOME).replace('limited="true"', 'limited="false"'))
BOX = '<body name="{0}" pos=".4 0 .05"><freejoint/><geom type="box" size=".05 .05 .05"/></body>'


def scene(more="", servo=SERVO, keys=HOME):
    keys = keys if not more else ""
    return Scene(ARM.format(more=more, servo=servo, keys=keys))


def test_a_lab_arm_is_found_with_its_fingers_and_its_limits():
    machine = Machine.of(lab_scene("push"), home=home("push"))
    assert machine.arms == (
        Arm("tip", ("waist", "shoulder", "elbow", "forearm_roll", "wrist", "wrist_rotate"), ("gripper",)),
    )
    assert not machine.torque_driven
    assert (machine.rate_hz, machine.substeps) == (20.0, 25)
    np.testing.assert_allclose(machine.limits.speed, [2.5] * 6 + [0.3])
    assert machine.command_units == ("rad",) * 6 + ("m",)
    qpos = machine.qpos(machine.home)
    assert qpos[machine.qpos_at[-1]] == qpos[machine.qpos_at[-1] + 1] == 0.02  # the coupled finger follows


def test_a_pendulum_is_driven_by_torques():
    machine = Machine.of(lab_scene("pendulum"))
    assert machine.torque_driven
    assert machine.command_units == ("N·m", "N·m")
    np.testing.assert_allclose(machine.limits.high, [6, 4])


def test_home_is_the_keyframe_of_that_name():
    np.testing.assert_allclose(Machine.of(scene()).home, [0.3])


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Machine.of(scene(servo="")), "the scene has 0 controls, and 0 of them drive a joint"),
        (lambda: Machine.of(scene(keys="")), "the scene has no keyframe 'home', so nothing says where the arm begins"),
        (lambda: Machine.of(scene(), home={"lifts": 1.0}), "home names 'lifts', which nothing drives. Did you mean"),
        (lambda: Machine.of(scene(), home={}), "home has no value for lift. Give one for every driven"),
        (lambda: Machine.of(scene(), home={"lift": 9.0}), "home has 'lift' at 9, and that joint goes from"),
        (lambda: Machine.of(scene(), home={"lift": np.nan}), "home has 'lift' at nan, and that joint goes from"),
        (lambda: Machine.of(scene(), tips=("tp",)), "the scene has no site or body 'tp' as a tip. Did you mean 'tip'"),
        (lambda: Machine.of(scene(BOX.format("a")), home={"lift": 0}, tips=("a",)), "no actuator moves the tip 'a'"),
        (lambda: Machine.of(scene(), rate_hz=33.0).substeps, "a tick at 33 Hz is 15.152 physics steps of 0.002 s"),
        (
            lambda: Machine.of(scene(servo='<motor name="lift" joint="lift"/>')),
            "the motor of 'lift' has no limit. Give it a ctrlrange",
        ),
        (lambda: Machine.of(FREE), "the joint 'lift' has no range. Give it one in the scene, or give limits=…"),
        (lambda: reach.of(scene(), tip="upper", horizon_s=0.0), "the task 'reach' has a horizon of 0.0 s"),
        (lambda: push.of(scene()), "the scene has no single free body: its free bodies are none. Name one"),
        (
            lambda: push.of(scene(BOX.format("a") + BOX.format("b")), home={"lift": 0}),
            "the scene has no single free body: its free bodies are a, b. Name one",
        ),
        (lambda: push.of(scene(BOX.format("a")), home={"lift": 0}, body="c"), "the scene has no free body 'c'"),
        (
            lambda: thing_of(scene(BOX.format("a").replace("<geom", '<geom contype="0" conaffinity="0"'))),
            "the body 'a' has no geom that touches anything",
        ),
        (lambda: drawer.of(scene()), "the task needs a drawer, and the sliding joints that nothing drives are: none"),
        (lambda: handover.of(scene()), "a handover needs two arms, and the scene's tips are: tip"),
        (lambda: widest_m(Machine.of(scene()), Machine.of(scene()).arm()), "the arm of 'tip' has no driven fingers"),
        (lambda: hold_of(thing_of(scene(BOX.format("a"))), 0.04), "no part of 'a' fits between fingers that open"),
    ],
)  # fmt: skip
def test_what_a_scene_lacks_is_said(made, said):
    with pytest.raises(TaskError) as caught:
        made()
    assert said in str(caught.value)


def test_mixed_drives_are_refused():
    two = ARM.replace(
        '<site name="tip" pos=".3 0 0"/>', '<body name="f"><joint name="roll" axis="1 0 0"/><geom size=".1"/></body>'
    )
    servo = SERVO + '<motor name="roll" joint="roll" ctrlrange="-1 1"/>'
    with pytest.raises(TaskError, match="roll take torques and the other joints positions"):
        Machine.of(Scene(two.format(more="", servo=servo, keys="")))


def test_an_arm_with_two_tips_must_be_named():
    machine = Machine.of(lab_scene("handover"), home=home("handover"))
    with pytest.raises(
        TaskError, match="the task needs an arm with one tip, and the scene's tips are: left_tip, right_tip"
    ):
        machine.arm()
    assert machine.arm("right_tip").fingers == ("right_gripper",)


def test_a_goal_that_no_tip_comes_near_is_said():
    short = ARM.format(more="", servo=SERVO, keys=HOME).replace('site name="tip" pos=".3 0 0"', 'site name="tip"')
    with pytest.raises(TaskError, match="no goal for 'tip' was found in 200 tries"):
        reach.of(Scene(short)).draw(np.random.default_rng(0))


def test_actions_must_be_one_a_joint():
    task = reach.of(scene(), horizon_s=1.0)
    many = replace(task.contract, actions=(*task.contract.actions, replace(task.contract.actions[0], name="more")))
    with pytest.raises(TaskError, match="the task 'reach' has 2 actions, and the robot takes 1: lift"):
        TaskSpec(**{**vars(task), "contract": many})


def test_a_drawer_is_found_with_its_handle_and_where_it_is_shut():
    machine = Machine.of(lab_scene("drawer"), home=home("drawer"))
    found = slider_of(machine.scene, machine)
    assert (found.joint, found.body) == ("drawer", "drawer")
    np.testing.assert_allclose(found.opens, [-1, 0, 0], atol=1e-12)
    np.testing.assert_allclose(found.handle_m, [-0.035, 0, 0], atol=1e-12)
    with pytest.raises(TaskError, match="the drawer has no site or geom 'knob' to take hold of"):
        slider_of(machine.scene, machine, "drawer", "knob")


def test_a_setup_cannot_put_what_is_not_free():
    from twinproof.tasks.starts import free_place

    with pytest.raises(TaskError, match="a setup puts the body 'upper' somewhere, and it is not free"):
        free_place(scene().nominal(), "upper")


def test_fingers_take_the_part_that_fits_between_them():
    tee = """<body name="tee" pos=".4 0 .03"><freejoint/>
      <geom type="box" size=".045 .014 .022"/><geom type="box" pos="0 -.045 0" size=".014 .031 .022"/></body>"""
    thing = thing_of(scene(tee))
    hold = hold_of(thing, 0.042)
    assert hold.axis == 0
    assert hold.half_m == pytest.approx(0.014)
    np.testing.assert_allclose(hold.at_m, [0, -0.045, 0], atol=1e-12)
    turns = np.tile([1.0, 0, 0, 0, 1, 0], (3, 1))
    ways = np.array([[1.0, 0, 0], [0, 1, 0], [0, -1, 0]])
    np.testing.assert_allclose(boundary(thing, turns, ways), [0.045, 0.014, 0.076], atol=1e-9)


def test_a_mesh_is_measured_along_the_bodys_axes_however_the_compiler_turned_it():
    turned = '<body name="a" pos=".4 0 .05"><freejoint/><geom type="mesh" mesh="block" pos="0 0 .01"/></body>'
    corners = np.array([(x, y, z) for x in (-0.02, 0.02) for y in (-0.021, 0.021) for z in (-0.02, 0.02)])
    bumps = [[0.019, 0.022, 0.019], [-0.02, -0.02, -0.022]]  # nearly a cube: its axes of inertia are anywhere
    corners = np.concatenate([corners, bumps])
    vertex = " ".join(f"{x:.4f}" for x in corners.ravel())
    text = ARM.format(more=turned, servo=SERVO, keys="")
    text = text.replace("<worldbody>", f'<asset><mesh name="block" vertex="{vertex}"/></asset><worldbody>', 1)
    thing = thing_of(Scene(text))
    np.testing.assert_allclose(thing.half_m, [0.02, 0.0215, 0.021], atol=1e-6)
    np.testing.assert_allclose(thing.middle_m, [0, 0.0005, 0.009], atol=1e-6)


def test_an_arm_without_fingers_pushes_with_its_tip_and_cannot_lift():
    blunt = scene(BOX.format("a"))
    assert push.of(blunt, home={"lift": 0.0}).touch == (("upper", "a"),)
    with pytest.raises(TaskError, match="the arm of 'tip' has no driven fingers"):
        lift.of(blunt, home={"lift": 0.0})
