"""Generative completion through a function, a program and HTTP; an honest stand-in makes boxes, others lie."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.reconstruct.stand_in import serving
from twinproof.nouns.errors import ConfigError, MeshError, RecordingError, SplatError
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_files import write_mesh
from twinproof.nouns.rig import Intrinsics
from twinproof.nouns.splat_files import write_ply
from twinproof.nouns.splats import Splats
from twinproof.reconstruct.generate import Generator, HttpGenerator, InProcess, Subprocess

RGB = np.zeros((12, 16, 3), np.uint8)
MASK = np.zeros((12, 16), bool)
MASK[3:9, 4:12] = True
DEPTH = np.full((12, 16), 0.5)
LENS = Intrinsics(20.0, 20.0, 8.0, 6.0)


def box(x: float = 2.0, y: float = 1.0, z: float = 0.5) -> Mesh:
    """A closed box with one corner at the origin."""
    corners = np.array([[i, j, k] for i in (0, x) for j in (0, y) for k in (0, z)], float)
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    return Mesh(corners, np.array([t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))]))


def dots(count: int = 3) -> Splats:
    return Splats(
        np.eye(3)[:count], np.tile([1.0, 0, 0, 0], (count, 1)), np.zeros((count, 3)), np.zeros(count),
        np.zeros((count, 4, 3)), np.zeros(count),
    )  # fmt: skip


PROGRAM = """
import json, sys, pathlib
request, out = pathlib.Path(sys.argv[-2]), pathlib.Path(sys.argv[-1])
asked = json.loads(request.read_text())
assert asked["format"] == "twinproof/generate/1"
for name in ("picture", "mask", "depth"):
    assert asked[name] is None or (request.parent / asked[name]).read_bytes()[:4] == b"\\x89PNG"
{body}
"""
HONEST = """
(out / "box.obj").write_text({obj!r})
(out / "answer.json").write_text(json.dumps({{"mesh": "box.obj", "splats": None, "name": "boxes"}}))
"""


def program(folder: Path, body: str) -> tuple[str, ...]:
    path = folder / "model.py"
    path.write_text(PROGRAM.replace("{body}", body), encoding="utf-8")
    return sys.executable, "-I", str(path)


def obj_text(folder: Path, mesh: Mesh) -> str:
    write_mesh(folder / "box.obj", mesh)
    return (folder / "box.obj").read_text()


def check_unit(generator: Generator, name: str) -> None:
    made = generator.complete(RGB, MASK, DEPTH, LENS)
    np.testing.assert_allclose(np.ptp(made.mesh.vertices, axis=0), (1, 0.5, 0.25), atol=1e-6)
    np.testing.assert_allclose(made.mesh.vertices.mean(axis=0), 0, atol=1e-6)
    assert made.mesh.closed
    assert made.name == name


def test_a_function_makes_a_shape_of_unit_size():
    check_unit(InProcess(lambda *_: box(), "boxes"), "boxes")
    made = InProcess(lambda *_: (box(), dots())).complete(RGB, MASK)
    assert made.splats is not None
    np.testing.assert_allclose(made.splats.means[0], (0, -0.25, -0.125))  # (1, 0, 0) was the middle of the long side
    np.testing.assert_allclose(made.splats.log_scales, np.log(0.5), rtol=1e-6)
    with pytest.raises(ConfigError, match="gave str; needed is a Mesh"):
        InProcess(lambda *_: "a box").complete(RGB, MASK)  # type: ignore[arg-type, return-value]


def test_a_program_makes_a_shape_of_unit_size(tmp_path):
    body = HONEST.format(obj=obj_text(tmp_path, box()))
    check_unit(Subprocess(program(tmp_path, body)), "boxes")
    assert Subprocess(program(tmp_path, body)).complete(RGB, MASK).mesh.closed


def test_a_server_makes_a_shape_of_unit_size(tmp_path):
    write_mesh(tmp_path / "box.glb", box())
    write_ply(tmp_path / "dots.ply", dots())
    asked = list[dict[str, Any]]()

    def answer(path: str, question: dict[str, Any]) -> dict[str, Any]:
        asked.append(question)
        files = {"mesh": "box.glb", "splats": "dots.ply"}
        made = {key: base64.b64encode((tmp_path / name).read_bytes()).decode() for key, name in files.items()}
        return {**made, "mesh_format": "glb", "name": "boxes"}

    with serving(answer) as url:
        check_unit(HttpGenerator(url), "boxes")
        assert HttpGenerator(url).complete(RGB, MASK).splats is not None
    assert asked[0]["intrinsics"]["fx"] == 20.0
    assert asked[1]["depth"] is None


@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        ("sys.exit('no GPU here')", RecordingError, "ended with 1. Its last words: no GPU here"),
        ("pass", RecordingError, "left no answer.json"),
        ("(out / 'answer.json').write_text('[')", RecordingError, "left no answer.json"),
        ("(out / 'answer.json').write_text('{\"mesh\": 7}')", RecordingError, "left no answer.json"),
        ("(out / 'answer.json').write_text('{\"mesh\": \"../given/request.json\"}')", MeshError, "leaves its folder"),
        ("(out / 'answer.json').write_text('{\"mesh\": \"/etc/hostname\"}')", MeshError, "leaves its folder"),
        (
            "(out / 'm.obj').symlink_to('/etc/hostname'); (out / 'answer.json').write_text('{\"mesh\": \"m.obj\"}')",
            MeshError, "leaves its folder",
        ),
        ("(out / 'answer.json').symlink_to('/etc/hostname')", RecordingError, "leaves its folder"),
        ("(out / 'answer.json').write_text('{\"mesh\": \"m.obj\"}')", MeshError, "does not exist"),
        ("(out / 'big').write_bytes(bytes(2 << 20))", RecordingError, "wrote 2 MB; 1 MB are taken"),
        (
            "(out / 'm.obj').write_text('v 0 0 nan\\nv 1 0 0\\nv 0 1 0\\nf 1 2 3\\n');"
            "(out / 'answer.json').write_text('{\"mesh\": \"m.obj\"}')", MeshError, "not finite",
        ),
        (
            "(out / 'm.obj').write_text('v 0 0 0\\nv 0 0 0\\nv 0 0 0\\nf 1 2 3\\n');"
            "(out / 'answer.json').write_text('{\"mesh\": \"m.obj\"}')", MeshError, "has no size",
        ),
        (
            "(out / 'm.obj').write_text('v 0 0 0\\nv 1 0 0\\nv 0 1 0\\nf 1 2 3\\n');"
            "(out / 'answer.json').write_text('{\"mesh\": \"m.obj\", \"splats\": \"../x.ply\"}')",
            SplatError, "leaves its folder",
        ),
    ],
)  # fmt: skip
def test_what_a_program_leaves_is_not_believed(tmp_path, body, kind, says):
    with pytest.raises(kind, match=says):
        Subprocess(program(tmp_path, body), most_bytes=1 << 20).complete(RGB, MASK)


def test_a_program_that_hangs_is_stopped_with_its_children(tmp_path):
    marker = tmp_path / "still here"
    child = f"import time, pathlib; time.sleep(1.5); pathlib.Path({str(marker)!r}).touch()"
    body = f"import subprocess, time; subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(60)"
    with pytest.raises(RecordingError, match="was not done after 0.7 s"):
        Subprocess(program(tmp_path, body), timeout_s=0.7).complete(RGB, MASK)
    import time

    time.sleep(1.7)
    assert not marker.exists()


def test_a_program_that_cannot_be_started_is_named():
    with pytest.raises(ConfigError, match="/no/such/program cannot be started"):
        Subprocess(("/no/such/program",)).complete(RGB, MASK)


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        ({"mesh": "AAAA", "mesh_format": "exe"}, MeshError, "format is 'exe'"),
        ({"mesh": "no base64!", "mesh_format": "obj"}, RecordingError, "no base64"),
        ({"mesh": "AAAA", "mesh_format": "glb"}, MeshError, "GLB"),
        ({}, MeshError, "GLB"),
        (503, RecordingError, "answered 503"),
    ],
)
def test_what_a_server_answers_is_not_believed(answer, kind, says):
    with serving(lambda *_: answer) as url, pytest.raises(kind, match=says):
        HttpGenerator(url).complete(RGB, MASK)


def test_pictures_stay_on_this_machine_unless_told():
    with pytest.raises(ConfigError, match="pictures would leave it"):
        HttpGenerator("https://example.org/trellis")


def test_too_many_faces_are_refused(monkeypatch):
    monkeypatch.setattr("twinproof.reconstruct.generate.MOST_FACES", 5)
    with pytest.raises(MeshError, match="12 faces; 5 are taken"):
        InProcess(lambda *_: box()).complete(RGB, MASK)


def test_requests_that_cannot_be_are_refused():
    generator = InProcess(lambda *_: box())
    with pytest.raises(RecordingError, match="the mask is empty"):
        generator.complete(RGB, np.zeros_like(MASK))
    with pytest.raises(RecordingError, match="with a mask of"):
        generator.complete(RGB, MASK[:5])
    with pytest.raises(RecordingError, match="Resize the depth"):
        generator.complete(RGB, MASK, DEPTH[:4])
