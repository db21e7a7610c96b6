"""Forward kinematics: the model's chain is MuJoCo's own, and the DH table puts the tip in the same place."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from twinproof.evaluate.dh import DhTable, read_dh, table_of
from twinproof.lab.benches import bench
from twinproof.nouns.errors import RigError
from twinproof.nouns.randomness import stream
from twinproof.sim.kinematics import chain_of
from twinproof.sim.scene import Scene

PI = np.pi
ARM = ("waist", "shoulder", "elbow", "forearm_roll", "wrist", "wrist_rotate")
ODD = """<mujoco><compiler angle="radian"/><worldbody>
 <body name="a" pos="0.1 0.2 0.3" quat="0.9 0.1 -0.3 0.2"><geom size="0.1"/>
  <joint name="one" pos="0.02 0 0.05" axis="1 2 3" ref="0.3"/>
  <joint name="two" type="slide" axis="0 1 1"/>
  <body name="b" pos="0 0.1 0.4"><geom size="0.1"/>
   <joint name="rest" axis="0 1 0"/><joint name="three" axis="0 1 0" pos="0 0 0.1"/>
   <body name="c" pos="0 0 0.2"><geom size="0.1"/><joint name="four" axis="0 1 0"/>
    <body name="d" pos="0.1 0 0" euler="0 0.4 0.2"><geom size="0.1"/><joint name="five" axis="1 0 0"/>
     <site name="tool" pos="0.02 0.03 0.1" quat="0.5 0.5 0.5 -0.5"/></body></body></body></body>
 <body name="loose"><freejoint name="free"/><geom size="0.1"/><site name="on_loose"/></body>
</worldbody></mujoco>"""
UR5 = """<robot name="ur5"><link name="base_link"/><link name="l1"/><link name="l2"/><link name="l3"/><link name="l4"/>
 <link name="l5"/><link name="l6"/>
 <joint name="pan" type="revolute"><parent link="base_link"/><child link="l1"/><origin xyz="0 0 0.089159"/>
  <axis xyz="0 0 1"/><limit lower="-6" upper="6" effort="1" velocity="1"/></joint>
 <joint name="lift" type="revolute"><parent link="l1"/><child link="l2"/>
  <origin xyz="0 0.13585 0" rpy="0 1.57079632679 0"/><axis xyz="0 1 0"/>
  <limit lower="-6" upper="6" effort="1" velocity="1"/></joint>
 <joint name="elbow" type="revolute"><parent link="l2"/><child link="l3"/><origin xyz="0 -0.1197 0.425"/>
  <axis xyz="0 1 0"/><limit lower="-6" upper="6" effort="1" velocity="1"/></joint>
 <joint name="w1" type="revolute"><parent link="l3"/><child link="l4"/>
  <origin xyz="0 0 0.39225" rpy="0 1.57079632679 0"/><axis xyz="0 1 0"/>
  <limit lower="-6" upper="6" effort="1" velocity="1"/></joint>
 <joint name="w2" type="revolute"><parent link="l4"/><child link="l5"/><origin xyz="0 0.093 0"/>
  <axis xyz="0 0 1"/><limit lower="-6" upper="6" effort="1" velocity="1"/></joint>
 <joint name="w3" type="revolute"><parent link="l5"/><child link="l6"/><origin xyz="0 0 0.09465"/>
  <axis xyz="0 1 0"/><limit lower="-6" upper="6" effort="1" velocity="1"/></joint>
</robot>"""


def mujoco_poses(scene: Scene, joints: tuple[str, ...], tip: str, q: np.ndarray) -> np.ndarray:
    model = scene.nominal()
    data, found = mujoco.MjData(model), []
    for row in q:
        for name, value in zip(joints, row, strict=True):
            data.qpos[model.joint(name).qposadr[0]] = value
        mujoco.mj_kinematics(model, data)
        site = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, tip) >= 0
        at, turn = (data.site(tip).xpos, data.site(tip).xmat) if site else (data.body(tip).xpos, data.body(tip).xmat)
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = turn.reshape(3, 3), at
        found.append(pose)
    return np.array(found)


CASES = [
    (Scene(ODD), ("one", "two", "three", "four", "five"), "tool"),
    (Scene(ODD), ("one", "three"), "b"),
    (Scene(bench("push").robot_text()), ARM, "hand"),
    (Scene(bench("handover").robot_text()), tuple(f"right_{name}" for name in ARM), "right_hand"),
]


@pytest.mark.parametrize(("scene", "joints", "tip"), CASES)
def test_the_chain_of_a_model_is_where_mujoco_puts_the_tip(scene, joints, tip):
    q = stream(0, "fk").uniform(-1.5, 1.5, (20, len(joints)))
    assert chain_of(scene, joints, tip).poses(q) == pytest.approx(mujoco_poses(scene, joints, tip, q), abs=1e-12)


@pytest.mark.parametrize(("scene", "joints", "tip"), CASES)
def test_the_dh_table_and_the_chain_of_the_model_are_equal(scene, joints, tip):
    chain = chain_of(scene, joints, tip)
    q = stream(1, "fk").uniform(-3, 3, (20, len(joints)))
    assert table_of(chain).poses(q) == pytest.approx(chain.poses(q), abs=1e-9)


def test_the_makers_dh_table_of_the_ur5_and_its_urdf_are_equal():
    inertial = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    urdf = UR5
    for k in range(1, 7):
        urdf = urdf.replace(f'<link name="l{k}"/>', f'<link name="l{k}">{inertial}</link>')
    chain = chain_of(Scene(urdf), ("pan", "lift", "elbow", "w1", "w2", "w3"), "l6")
    maker = DhTable(
        a_m=(0, -0.425, -0.39225, 0, 0, 0),
        alpha_rad=(PI / 2, 0, 0, PI / 2, -PI / 2, 0),
        d_m=(0.089159, 0, 0, 0.10915, 0.09465, 0.0823),
        theta_rad=(0,) * 6,
    )
    q = stream(2, "ur5").uniform(-3, 3, (50, 6))
    turn = np.diag([-1.0, -1.0, 1.0, 1.0])  # the controller's base is turned by half a turn against base_link
    T_last_tip = np.linalg.inv(chain.poses(q[:1])[0]) @ turn @ maker.poses(q[:1])[0]
    assert turn @ maker.poses(q) == pytest.approx(chain.poses(q) @ T_last_tip, abs=1e-9)
    # the tool is the published one: 82.3 mm along y of the last link
    assert T_last_tip[:3, 3] == pytest.approx([0, 0.0823, 0], abs=1e-9)
    own = table_of(chain)
    assert np.abs(own.a_m[1:3]) == pytest.approx([0.425, 0.39225])
    assert sum(own.d_m[1:4]) == pytest.approx(0.10915)


def test_a_dh_file_holds_one_table_an_arm(tmp_path):
    path = tmp_path / "dh.toml"
    path.write_text(
        "[left]\na_m = [0.3, 0.2]\nalpha_rad = [0, 0]\nd_m = [0, 0]\ntheta_rad = [0, 0]\n"
        "[left.base]\nposition_m = [0.0, 0.0, 1.0]\n"
    )
    pose = read_dh(path)["left"].poses(np.array([[0.0, PI / 2]]))[0]
    assert pose[:3, 3] == pytest.approx([0.3, 0.2, 1.0])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[left]\na_m = [0.3]\nalpha_rad = [0, 0]\nd_m = [0]\ntheta_rad = [0]\n", "columns of 1, 2, 1, 1, 1 rows"),
        ("[left]\na_m = [inf]\nalpha_rad = [0]\nd_m = [0]\ntheta_rad = [0]\n", "not finite"),
        ("[left\n", "not readable TOML"),
        ("[left]\na = [1]\n", "unknown key 'a'"),
    ],
)
def test_a_broken_dh_file_is_refused(tmp_path, text, said):
    (tmp_path / "dh.toml").write_text(text)
    with pytest.raises(RigError, match=said):
        read_dh(tmp_path / "dh.toml")


def test_a_dh_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(RigError, match=r"dh.toml does not exist"):
        read_dh(tmp_path / "dh.toml")


def test_a_dh_table_of_another_arm_is_refused():
    with pytest.raises(RigError, match="2 rows is used for an arm of 3 joints"):
        DhTable((1, 1), (0, 0), (0, 0), (0, 0)).poses(np.zeros((1, 3)))


@pytest.mark.parametrize(
    ("joints", "tip", "said"),
    [
        (("one", "thre"), "tool", "the model has no such joint. Did you mean 'three'"),
        (("one", "five"), "b", "it is not on the way to 'b'"),
        (("three", "one"), "b", r"in the model they follow as \['one', 'three'\]"),
        (("one",), "tol", "no body or site 'tol'.*It has a, b, c, d, loose"),
        (("one",), "losse", "Did you mean 'loose'"),
        (("free",), "on_loose", "is no hinge or slide"),
    ],
)
def test_a_rig_that_does_not_fit_the_model_is_named(joints, tip, said):
    with pytest.raises(RigError, match=said):
        chain_of(Scene(ODD), joints, tip)
