"""Mesh files: what is written is read back, others read it too, and hostile files are refused by name."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

from twinproof.nouns import mesh_files
from twinproof.nouns.baked import Baked
from twinproof.nouns.errors import MeshError
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_files import read_mesh, welded, write_mesh

CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.25]], float)
FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
COLOURS = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.2, 0.4, 0.6]])
SOLID = Mesh(CORNERS, FACES, COLOURS)


def by_place(mesh: Mesh) -> np.ndarray:
    """Vertices in an order of their own, for files that weld."""
    return mesh.vertices[np.lexsort(mesh.vertices.round(6).T)]


@pytest.mark.parametrize("ending", [".obj", ".ply", ".stl", ".glb"])
def test_a_mesh_is_read_as_it_was_written(tmp_path, ending) -> None:
    path = tmp_path / f"solid{ending}"
    write_mesh(path, SOLID)
    back = read_mesh(path)
    assert by_place(back) == pytest.approx(by_place(SOLID))
    assert back.closed
    assert back.volume_m3 == pytest.approx(SOLID.volume_m3, rel=1e-6)
    if ending == ".stl":
        assert back.colours is None
    else:
        tip = int(np.argmax(back.vertices[:, 2]))
        assert back.colours is not None
        assert back.colours[tip] == pytest.approx([0.2, 0.4, 0.6], abs=1e-6)


@pytest.mark.parametrize("ending", [".obj", ".ply", ".stl", ".glb"])
def test_others_read_what_we_write(tmp_path, ending) -> None:
    trimesh = pytest.importorskip("trimesh")
    path = tmp_path / f"solid{ending}"
    write_mesh(path, SOLID)
    other = trimesh.load(path, force="mesh")
    assert other.is_watertight
    assert other.volume == pytest.approx(SOLID.volume_m3, rel=1e-6)
    if ending == ".glb":  # there y is up
        assert other.bounds[1] == pytest.approx([1, 1.25, 0], abs=1e-6)


def test_a_texture_goes_into_glb_and_obj_and_seams_are_welded_when_read(tmp_path) -> None:
    trimesh = pytest.importorskip("trimesh")
    uv = np.random.default_rng(0).random((4, 3, 2))
    baked = Baked(SOLID, uv, np.full((5, 7, 3), (200, 100, 50), np.uint8))
    for ending in (".glb", ".obj"):
        path = tmp_path / f"solid{ending}"
        write_mesh(path, baked)
        assert read_mesh(path).closed
        other = trimesh.load(path, force="mesh")
        picture = other.visual.material.baseColorTexture if ending == ".glb" else other.visual.material.image
        assert picture.size == (7, 5)
        assert picture.convert("RGB").getpixel((3, 2)) == (200, 100, 50)
        corner = other.visual.uv[other.faces]
        assert np.sort(corner.reshape(-1, 2), axis=0) == pytest.approx(np.sort(uv.reshape(-1, 2), axis=0), abs=1e-6)


def test_welding_drops_what_collapses_and_averages_colours() -> None:
    twice = Mesh(np.vstack([CORNERS, CORNERS]), np.vstack([FACES[:2], FACES[2:] + 4, [[0, 4, 1]]]),
                 np.vstack([COLOURS, 0 * COLOURS]))  # fmt: skip
    one = welded(twice)
    assert len(one.vertices) == 4
    assert len(one.faces) == 4
    assert one.colours is not None
    assert one.colours.max() == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("v 0 0 0\nv 1 0 0\nv 0 1 x\nf 1 2 3\n", "line 3 is not readable"),
        ("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 0\n", "counted from 1"),
        ("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9\n", "faces name vertices"),
        ("v 0 0 0\nv 1 0 0 1 1 1\nv 0 1 0\nf 1 2 3\n", "numbers; x y z"),
        ("v 0 0 0\nv 1 0 0\nv 0 nan 0\nf 1 2 3\n", "not finite"),
        ("v 0 0 0\n", "no faces"),
    ],
)
def test_a_bad_obj_is_refused(tmp_path, text, said) -> None:
    path = tmp_path / "bad.obj"
    path.write_text(text)
    with pytest.raises(MeshError, match=said):
        read_mesh(path)


def test_polygons_of_an_obj_become_fans_and_count_back_from_the_end(tmp_path) -> None:
    path = tmp_path / "quad.obj"
    path.write_text("v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf -4/1/1 -3/2/1 -2 -1\n")
    assert read_mesh(path).faces.tolist() == [[0, 1, 2], [0, 2, 3]]


def cut(data: bytes) -> bytes:
    return data[:-7]


def lying_stl(data: bytes) -> bytes:
    return data[:80] + struct.pack("<I", 4_000_000_000) + data[84:]


def lying_ply(data: bytes) -> bytes:
    return data.replace(b"element vertex 4", b"element vertex 99999999999")


def glb(change) -> bytes:
    """A GLB whose JSON was changed."""
    data = mesh_files_glb()
    size = struct.unpack_from("<I", data, 12)[0]
    tree = json.loads(data[20 : 20 + size])
    change(tree)
    text = json.dumps(tree).encode()
    text += b" " * (-len(text) % 4)
    body = struct.pack("<II", len(text), 0x4E4F534A) + text + data[20 + size :]
    return struct.pack("<III", 0x46546C67, 2, 12 + len(body)) + body


def mesh_files_glb() -> bytes:
    from twinproof.nouns.mesh_glb import glb_bytes

    return glb_bytes(SOLID)


@pytest.mark.parametrize(
    ("ending", "damage", "said"),
    [
        (".stl", cut, "do not hold"),
        (".stl", lying_stl, "do not hold"),
        (".ply", cut, "the header promises"),
        (".ply", lying_ply, "the header promises"),
        (".ply", lambda data: b"x" + data, "no PLY header"),
        (".ply", lambda data: data.replace(b"binary_little", b"binary_bigger"), "is read"),
        (".ply", lambda data: data.replace(b"property double x", b"property doubly x"), "header says"),
        (".ply", lambda data: data.replace(b"double x", b"double w"), "does not name vertices"),
        (".ply", lambda data: data.replace(b"\x03", b"\x04"), "not all of its faces are triangles"),
        (".glb", cut, "no whole GLB"),
        (".glb", lambda data: data[:12] + struct.pack("<I", 1 << 31) + data[16:], "does not fit"),
        (".glb", lambda data: data.replace(b'{"asset"', b"{'asset'"), "JSON is not readable"),
        (".glb", lambda _: glb(lambda tree: tree.update(extensionsRequired=["KHR_draco"])), "needs extensions"),
        (".glb", lambda _: glb(lambda tree: tree["accessors"][0].update(count=1 << 30)), "reaches beyond"),
        (".glb", lambda _: glb(lambda tree: tree["accessors"][0].update(count=-1)), "no sound glTF"),
        (".glb", lambda _: glb(lambda tree: tree["accessors"][0].update(type="VEC2")), "not three numbers"),
        (".glb", lambda _: glb(lambda tree: tree["accessors"][0].update(count=3)), "vertices that are not there"),
        (".glb", lambda _: glb(lambda tree: tree["accessors"][2].update(count=3)), "colours do not fit"),
        (".glb", lambda _: glb(lambda tree: tree["accessors"][0].update(sparse={})), "sparse"),
        (".glb", lambda _: glb(lambda tree: tree["nodes"][0].update(children=[0])), "in a ring"),
        (".glb", lambda _: glb(lambda tree: tree["nodes"][0].pop("mesh")), "shows no triangles"),
        (".glb", lambda _: glb(lambda tree: tree["meshes"][0]["primitives"][0].update(mode=1)), "plain triangles"),
        (".glb", lambda _: glb(lambda tree: tree["nodes"][0].update(translation=[1e999, 0, 0])), "not finite"),
    ],
)
def test_a_hostile_file_is_refused(tmp_path, ending, damage, said) -> None:
    path = tmp_path / f"bad{ending}"
    write_mesh(path, SOLID)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(MeshError, match=said):
        read_mesh(path)


def test_sizes_are_limited(tmp_path, monkeypatch) -> None:
    for ending in (".obj", ".ply", ".stl", ".glb"):
        write_mesh(tmp_path / f"solid{ending}", SOLID)
    monkeypatch.setattr(mesh_files, "MOST_FACES", 3)
    for ending in (".obj", ".ply", ".stl", ".glb"):
        with pytest.raises(MeshError, match="it has 4 faces; 3 are read"):
            read_mesh(tmp_path / f"solid{ending}")
    monkeypatch.setattr(mesh_files, "MOST_BYTES", 100)
    with pytest.raises(MeshError, match="are read. Simplify"):
        read_mesh(tmp_path / "solid.stl")


def test_what_is_no_mesh_file_is_refused(tmp_path) -> None:
    with pytest.raises(MeshError, match="does not exist"):
        read_mesh(tmp_path / "none.obj")
    (tmp_path / "solid.fbx").write_bytes(b"")
    with pytest.raises(MeshError, match="no mesh format"):
        read_mesh(tmp_path / "solid.fbx")
    baked = Baked(SOLID, np.zeros((4, 3, 2)), np.zeros((2, 2, 3), np.uint8))
    with pytest.raises(MeshError, match="no format with a texture"):
        write_mesh(tmp_path / "solid.stl", baked)
    with pytest.raises(MeshError, match="cannot be written"):
        write_mesh(tmp_path / "nowhere" / "solid.stl", SOLID)


def test_a_texture_that_does_not_fit_is_refused() -> None:
    with pytest.raises(MeshError, match="uv has the shape"):
        Baked(SOLID, np.zeros((3, 3, 2)), np.zeros((2, 2, 3), np.uint8))
    with pytest.raises(MeshError, match="needed is uint8"):
        Baked(SOLID, np.zeros((4, 3, 2)), np.zeros((2, 2, 3)))


@pytest.mark.parametrize("ending", [".obj", ".ply", ".stl", ".glb"])
def test_a_file_with_broken_bytes_is_read_or_refused_and_nothing_else(tmp_path, ending) -> None:
    path = tmp_path / f"solid{ending}"
    write_mesh(path, SOLID)
    whole, rng, refused = path.read_bytes(), np.random.default_rng(0), 0
    for _ in range(150):
        data = bytearray(whole)
        at = int(rng.integers(len(data)))
        match int(rng.integers(3)):
            case 0:
                data[at] = int(rng.integers(256))
            case 1:
                del data[at : at + int(rng.integers(1, 9))]
            case _:
                data[at:at] = rng.bytes(3)
        path.write_bytes(bytes(data))
        try:
            read_mesh(path)
        except MeshError:
            refused += 1
    assert refused > 20
