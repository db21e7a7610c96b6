"""Hostile, broken and honest models from elsewhere."""

from __future__ import annotations

import os
import struct
import subprocess
import sys

import pytest

from twinproof.nouns.errors import SimError
from twinproof.sim.safe import Limits, answer_of, check_foreign, compile_apart
from twinproof.sim.scene import Scene, engine

TETRAHEDRON = "v 0 0 0\nv .1 0 0\nv 0 .1 0\nv 0 0 .1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
MESHED = (
    '<mujoco><asset><mesh name="m" file="{}"/></asset>'
    '<worldbody><body><freejoint/><geom type="mesh" mesh="m"/></body></worldbody></mujoco>'
)
ROBOT = """<robot name="two"><link name="base"/><link name="arm">
<inertial><mass value="1"/><inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><geometry><mesh filename="{}"/></geometry></collision></link>
<joint name="turn" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/>
<limit lower="-1" upper="1" effort="5" velocity="1"/></joint></robot>"""


def model(folder, text, name="model.xml"):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refused(path, words, **more):
    with pytest.raises(SimError, match=words):
        check_foreign(path, **more)


def test_an_honest_model_with_meshes_and_includes_becomes_a_scene(tmp_path):
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "t.obj").write_text(TETRAHEDRON)
    model(
        tmp_path,
        '<mujocoinclude><body name="b"><freejoint/><geom type="mesh" mesh="m"/></body></mujocoinclude>',
        "b.xml",
    )
    text = (
        '<mujoco><compiler meshdir="assets"/><asset><mesh name="m" file="t.obj"/></asset>'
        '<worldbody><include file="b.xml"/></worldbody></mujoco>'
    )
    checked = check_foreign(model(tmp_path, text))
    assert checked.files == ("assets/t.obj",)
    assert checked.bodies == ("world", "b")
    assert checked.engine == engine()
    assert Scene.read(tmp_path / "model.xml") == checked.scene
    assert checked.scene.compile().nmesh == 1


def test_an_honest_robot_in_urdf_becomes_a_scene(tmp_path):
    (tmp_path / "two" / "meshes").mkdir(parents=True)
    (tmp_path / "two" / "meshes" / "t.obj").write_text(TETRAHEDRON)
    path = model(tmp_path / "two" / "urdf", ROBOT.format("package://two/meshes/t.obj"), "robot.urdf")
    checked = check_foreign(path, root=tmp_path)
    assert checked.joints == ("turn",)
    assert checked.bodies == ("world", "base", "arm")


@pytest.mark.parametrize("name", ["../secret.obj", "sub/../../secret.obj"])
def test_a_mesh_above_the_root_is_refused(tmp_path, name):
    (tmp_path / "secret.obj").write_text(TETRAHEDRON)
    refused(model(tmp_path / "in", MESHED.format(name)), "lies outside")


def test_an_absolute_path_is_refused(tmp_path):
    (tmp_path / "secret.obj").write_text(TETRAHEDRON)
    refused(model(tmp_path / "in", MESHED.format(tmp_path / "secret.obj")), "relative to the model's folder")


def test_a_link_out_of_the_root_is_refused(tmp_path):
    (tmp_path / "secret.obj").write_text(TETRAHEDRON)
    path = model(tmp_path / "in", MESHED.format("t.obj"))
    (tmp_path / "in" / "t.obj").symlink_to(tmp_path / "secret.obj")
    refused(path, "lies outside")


@pytest.mark.parametrize("attribute", ["meshdir", "assetdir"])
def test_a_mesh_folder_outside_the_root_is_refused(tmp_path, attribute):
    (tmp_path / "t.obj").write_text(TETRAHEDRON)
    text = MESHED.format("t.obj").replace("<mujoco>", f'<mujoco><compiler {attribute}="{tmp_path}"/>')
    refused(model(tmp_path / "in", text), "relative to the model's folder")


def test_a_robot_mesh_outside_the_root_is_refused(tmp_path):
    (tmp_path / "t.obj").write_text(TETRAHEDRON)
    refused(model(tmp_path / "in", ROBOT.format("../t.obj")), "lies outside")
    refused(model(tmp_path / "in", ROBOT.format("package://../t.obj")), "relative to the model's folder|lies outside")
    refused(model(tmp_path / "in", ROBOT.format("package://two/t.obj")), "Name the folder that holds the package")
    refused(model(tmp_path / "in", ROBOT.format("file:///etc/passwd")), "relative to the model's folder")


def test_an_include_from_outside_is_refused(tmp_path):
    model(tmp_path, "<mujoco/>", "other.xml")
    refused(model(tmp_path / "in", '<mujoco><include file="../other.xml"/></mujoco>'), "lies outside")


def test_a_model_outside_its_own_root_is_refused(tmp_path):
    refused(model(tmp_path / "a", "<mujoco/>"), "not inside its root", root=tmp_path / "b")


def test_includes_in_a_circle_are_refused(tmp_path):
    model(tmp_path, '<mujoco><include file="model.xml"/></mujoco>', "b.xml")
    refused(model(tmp_path, '<mujoco><include file="b.xml"/></mujoco>'), "includes itself")


def test_a_flood_of_includes_is_refused(tmp_path):
    for k in range(9):
        model(tmp_path, f'<mujoco><include file="m{k + 1}.xml"/><include file="m{k + 1}.xml"/></mujoco>', f"m{k}.xml")
    model(tmp_path, "<mujoco/>", "m9.xml")
    refused(tmp_path / "m0.xml", "more than 200 includes")


def test_a_model_pulled_in_by_attach_is_refused(tmp_path):
    refused(model(tmp_path, '<mujoco><asset><model name="o" file="o.xml"/></asset></mujoco>'), "pulls in 'o.xml'")


def test_an_entity_bomb_is_refused(tmp_path):
    bomb = '<!DOCTYPE m [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><mujoco model="&b;"/>'
    refused(model(tmp_path, bomb), "DOCTYPE")


def test_broken_deep_huge_and_missing_files_are_refused(tmp_path):
    refused(model(tmp_path, "<mujoco><worldbody></mujoco>"), "not well-formed")
    refused(model(tmp_path, "<mujoco>" + "<body>" * 300 + "</body>" * 300 + "</mujoco>"), "deep inside one another")
    refused(model(tmp_path, "<svg/>"), "is a <svg>")
    refused(tmp_path / "nothing.xml", "does not exist")
    path = model(tmp_path, "<mujoco/>")
    os.truncate(path, 65 << 20)
    refused(path, "64 are allowed")
    (tmp_path / "coded.xml").write_bytes(b'<?xml version="1.0" encoding="klingon"?><mujoco/>')
    refused(tmp_path / "coded.xml", "encoding")


@pytest.mark.parametrize("value", ["nan", "inf", "1e999", "0 -Infinity 0"])
def test_numbers_that_are_not_finite_are_refused(tmp_path, value):
    refused(model(tmp_path, f'<mujoco><option gravity="{value}"/></mujoco>'), "must be finite")


def test_a_thing_may_be_called_nan(tmp_path):
    assert (
        check_foreign(model(tmp_path, '<mujoco><worldbody><body name="nan"/></worldbody></mujoco>')).bodies[1] == "nan"
    )


@pytest.mark.parametrize(
    "text",
    [
        '<mujoco><extension><plugin plugin="mujoco.elasticity.cable"/></extension></mujoco>',
        '<mujoco><worldbody><body><plugin instance="x"/></body></worldbody></mujoco>',
    ],
)
def test_plugins_are_refused(tmp_path, text):
    refused(model(tmp_path, text), "plugin")


@pytest.mark.parametrize(
    "text",
    [
        '<hfield name="h" nrow="100000" ncol="100000" size="1 1 1 1"/>',
        '<hfield name="h" nrow="-5" ncol="10" size="1 1 1 1"/>',
        '<texture name="t" type="2d" builtin="flat" width="60000" height="60000"/>',
        '<texture name="t" type="skybox" builtin="flat" width="6000" height="6000"/>',
    ],
)
def test_absurd_sizes_are_refused(tmp_path, text):
    refused(model(tmp_path, f"<mujoco><asset>{text}</asset></mujoco>"), "Make it smaller")


def test_files_that_state_absurd_sizes_are_refused(tmp_path):
    (tmp_path / "t.png").write_bytes(b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 100000, 100000))
    (tmp_path / "h.bin").write_bytes(struct.pack("<ii", 100000, 100000))
    texture = '<mujoco><asset><texture name="t" type="2d" file="t.png"/></asset></mujoco>'
    refused(model(tmp_path, texture), "says it is 100000 × 100000")
    field = '<mujoco><asset><hfield name="h" file="h.bin" size="1 1 1 1"/></asset></mujoco>'
    refused(model(tmp_path, field), "says it is 100000 × 100000")


def test_a_missing_and_a_heavy_mesh_are_refused(tmp_path):
    path = model(tmp_path, MESHED.format("t.obj"))
    refused(path, "does not exist")
    (tmp_path / "t.obj").write_text(TETRAHEDRON)
    refused(path, "Simplify it", limits=Limits(file_bytes=10))


def test_replicas_of_replicas_are_counted(tmp_path):
    inner = '<replicate count="1000"><geom size=".1"/></replicate>'
    text = f'<mujoco><worldbody><replicate count="1000">{inner}</replicate></worldbody></mujoco>'
    refused(model(tmp_path, text), "1000000 copies")


def test_what_mujoco_refuses_is_told_in_its_words(tmp_path):
    refused(model(tmp_path, '<mujoco><worldbody><geom type="blob"/></worldbody></mujoco>'), "does not parse.*blob")
    text = "<mujoco><worldbody><body><freejoint/></body></worldbody></mujoco>"
    refused(model(tmp_path, text), "does not compile.*mass")


def test_a_process_that_crashes_is_told_by_its_signal():
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    done = subprocess.run([sys.executable, "-c", crash], capture_output=True, text=True, check=False)
    with pytest.raises(SimError, match="x.xml crashes MuJoCo \\(SIGSEGV\\)"):
        answer_of(done, "x.xml", Limits())
    silent = subprocess.run([sys.executable, "-c", ""], capture_output=True, text=True, check=False)
    with pytest.raises(SimError, match="ended without a word"):
        answer_of(silent, "x.xml", Limits())


def test_a_bomb_that_passed_the_scan_stays_in_its_own_process(tmp_path):
    bomb = '<mujoco><asset><hfield name="h" nrow="100000" ncol="100000" size="1 1 1 1"/></asset></mujoco>'
    with pytest.raises(SimError, match="gives up on it"):
        compile_apart(bomb, tmp_path, "bomb.xml", Limits(memory_bytes=1 << 30))


def test_a_model_that_needs_too_much_memory_or_time_is_refused(tmp_path):
    greedy = '<mujoco><size memory="6G"/><worldbody><body><freejoint/><geom size=".1"/></body></worldbody></mujoco>'
    with pytest.raises(SimError, match="memory|gives up|crashes"):
        compile_apart(greedy, tmp_path, "greedy.xml", Limits(memory_bytes=1 << 30))
    ball = "<body><freejoint/><geom size='.1'/></body>"
    many = f"<mujoco><worldbody><replicate count='30000' offset='.1 0 0'>{ball}</replicate></worldbody></mujoco>"
    with pytest.raises(SimError, match="within 1 s of CPU time"):
        compile_apart(many, tmp_path, "many.xml", Limits(cpu_s=1))
    with pytest.raises(SimError, match="within 0.2 s"):
        compile_apart(many, tmp_path, "many.xml", Limits(wall_s=0.2))
