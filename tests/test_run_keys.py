"""A stage's key sees the files that its files read: modules beside a Python file, what a model names, a rig's model."""

import pytest

from twinproof.cli_evaluate import Evaluate
from twinproof.cli_identify import Identify
from twinproof.cli_ingest import Ingest
from twinproof.cli_reconstruct import Reconstruct
from twinproof.cli_train import Train
from twinproof.job import decisive, read_job
from twinproof.job_files import content_of
from twinproof.nouns.hashing import content_key, hash_file
from twinproof.run import SECTIONS

SCENE = """<mujoco><compiler meshdir="meshes" texturedir="looks"/><include file="parts/arm.xml"/>
<asset><texture name="t" type="2d" file="wood.png"/><texture name="sky" type="skybox" fileright="right.png"/>
<hfield name="h" file="hills.png" size="1 1 1 1"/></asset></mujoco>"""
ARM = """<mujoco><include file="hand.xml"/><asset><mesh name="link" file="link.obj"/></asset></mujoco>"""
HAND = """<mujoco><asset><mesh name="finger" file="finger.obj"/></asset></mujoco>"""
URDF = """<robot name="arm"><link name="base"><visual><geometry><mesh filename="package://arm/base.stl"/></geometry></visual>
<collision><geometry><mesh filename="shells/base.stl"/></geometry></collision></link></robot>"""
FILES = {
    "scene.xml": SCENE,
    "scene_mug.xml": SCENE,
    "parts/arm.xml": ARM,
    "parts/hand.xml": HAND,
    "meshes/link.obj": "a link",
    "meshes/finger.obj": "a finger",
    "meshes/hills.png": "hills",
    "looks/wood.png": "wood",
    "looks/right.png": "sky",
    "robot.urdf": URDF,
    "arm/base.stl": "base",
    "shells/base.stl": "shell",
    "rig.toml": '[model]\npath = "scene.xml"\n',
    "driver.py": "import bus\n",
    "hover.py": "from bus import wires\n",
    "bus.py": "import wires\n",
    "wires.py": "count = 3\n",
    "unread.py": "",
    "meshes/unread.obj": "",
}
MODEL = (
    "parts/arm.xml",
    "parts/hand.xml",
    "meshes/link.obj",
    "meshes/finger.obj",
    "meshes/hills.png",
    "looks/wood.png",
)
CASES = [
    ("reconstruct", Reconstruct, 'scene = "scene.xml"', ("scene.xml", *MODEL, "looks/right.png")),
    ("reconstruct", Reconstruct, 'robot = "robot.urdf"', ("robot.urdf", "arm/base.stl", "shells/base.stl")),
    (
        "identify",
        Identify,
        'parameters = ["joint.*.damping"]\nscenes = "scene_{object}.xml"',
        ("scene_mug.xml", *MODEL),
    ),
    ("ingest", Ingest, 'source = "arm"\nrig = "rig.toml"', ("rig.toml", "scene.xml", *MODEL)),
    ("evaluate", Evaluate, 'policy = ["a=expert"]\nrobot = "driver.py"', ("driver.py", "bus.py", "wires.py")),
    ("train", Train, 'task = "hover.py"', ("hover.py", "bus.py", "wires.py")),
]


@pytest.mark.parametrize(("section", "kind", "table", "read"), CASES, ids=[f"{c[0]}-{c[3][0]}" for c in CASES])
def test_a_file_that_a_file_reads_decides(tmp_path, section, kind, table, read):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "job.toml").write_text(f"[{section}]\n{table}\n")
    job = read_job(tmp_path / "job.toml", SECTIONS)
    given = {name: tmp_path / name for name in ("out", "panel", "split", "twin") if name in kind.__dataclass_fields__}

    def key():
        return content_key(decisive(job.config(section, kind, {}, given), {})[0])

    first, changed = key(), set()
    for name, text in FILES.items():
        comment = "" if name.endswith((".xml", ".urdf")) else "# other\n"
        (tmp_path / name).write_text(text + (comment or "<!-- other -->"))
        changed |= {name} if key() != first else set()
        (tmp_path / name).write_text(text)
    assert changed >= set(read)
    assert not changed & {"unread.py", "meshes/unread.obj"}
    assert key() == first


def test_a_mesh_that_is_lost_decides_and_a_file_that_reads_nothing_is_its_hash(tmp_path):
    (tmp_path / "scene.xml").write_text('<mujoco><asset><mesh file="link.obj"/></asset></mujoco>')
    lost = content_of(tmp_path / "scene.xml")
    (tmp_path / "link.obj").write_text("a link")
    assert content_of(tmp_path / "scene.xml") != lost
    assert content_of(tmp_path / "link.obj") == hash_file(tmp_path / "link.obj")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("scene.xml", "<mujoco"),
        ("scene.xml", '<mujoco><include file="scene.xml"/></mujoco>'),
        ("scene.xml", '<mujoco><include file="../elsewhere.xml"/></mujoco>'),
        ("rig.toml", "= 3"),
        ("rig.toml", "[model]\npath = 'no_such.xml'"),
        ("driver.py", "def ("),
    ],
)
def test_a_file_that_cannot_be_understood_is_its_hash(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert content_of(tmp_path / name) == hash_file(tmp_path / name)
