"""Files made to deceive: each is refused with a clear word, in a process that cannot harm this one."""

from __future__ import annotations

import contextlib
import gzip
import json
import signal
import struct
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pxr import Sdf, Usd, UsdGeom

from tests.export.probes import write_probe
from tests.nouns.test_splats import splats
from twinproof.export.glb_read import read_glb_surfaces
from twinproof.export.read_back import Allowed, answer_of, read_back
from twinproof.export.reading import parsed
from twinproof.export.spz_read import read_spz
from twinproof.export.usd_read import read_usdz, scanned
from twinproof.export.write import export
from twinproof.nouns.errors import MeshError, SimError, SplatError, TwinError, TwinproofError
from twinproof.nouns.mesh_glb import MAGIC, glb_chunk
from twinproof.nouns.pictures import png_bytes
from twinproof.nouns.splat_files import write_ply, write_spz

TRIANGLE = '#usda 1.0\n(metersPerUnit = 1\n upAxis = "Z")\n{body}\n'
SECRET = 'def Mesh "secret" {\n point3f[] points = [(0,0,0),(1,0,0),(0,1,0)]\n int[] faceVertexCounts = [3]\n'
SECRET += " int[] faceVertexIndices = [0,1,2]\n}\n"


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    export(write_probe(folder / "twin", splats=False), ["usdz", "glb"], folder / "out")
    write_ply(folder / "out" / "splats.ply", splats(300))
    write_spz(folder / "out" / "splats.spz", splats(300))
    return folder / "out"


def usdz(path: Path, layers: dict[str, str | bytes], compress: int = zipfile.ZIP_STORED) -> Path:
    """A package with these files, aligned or not: we do not ask for that."""
    with zipfile.ZipFile(path, "w", compress) as archive:
        for name, text in layers.items():
            archive.writestr(zipfile.ZipInfo(name), text, compress)
    return path


def outside(folder: Path) -> Path:
    secret = folder / "secret.usda"
    secret.write_text(TRIANGLE.format(body=SECRET))
    return secret


# ---- USDZ


@pytest.mark.parametrize(
    "body",
    [
        'def "a" (references = @{secret}@</secret>) {{}}',
        'def "a" (payload = @{secret}@</secret>) {{}}',
        'def "a" (references = @../secret.usda@</secret>) {{}}',
        'def "a" {{\nasset file = @{secret}@\n}}',
        'def "a" {{\nasset[] files = [@a.png@, @../../etc/passwd@]\n}}',
        'def "a" {{\nasset file.timeSamples = {{ 0: @{secret}@ }}\n}}',
        'def "a" (customData = {{ asset file = @{secret}@ }}) {{}}',
        'def "a" (\nprepend variantSets = "v"\n) {{\nvariantSet "v" = {{\n"x" {{\n'
        'def "b" (references = @{secret}@</secret>) {{}}\n}}\n}}\n}}',
    ],
)
def test_a_usdz_that_names_a_file_outside_of_it_is_refused_before_it_is_opened(tmp_path, body):
    secret = outside(tmp_path)
    text = TRIANGLE.format(body=body.format(secret=secret))
    path = usdz(tmp_path / "x.usdz", {"root.usda": text, "a.png": png_bytes(np.zeros((2, 2, 3), np.uint8))})
    with pytest.raises(TwinError, match="which is not inside of it. Pack everything into one file"):
        read_usdz(path)


def test_a_sublayer_outside_is_refused(tmp_path):
    secret = outside(tmp_path)
    text = f"#usda 1.0\n(subLayers = [@{secret}@])\n"
    with pytest.raises(TwinError, match="which is not inside of it"):
        read_usdz(usdz(tmp_path / "x.usdz", {"root.usda": text}))


def test_value_clips_are_refused(tmp_path):
    body = 'def "a" (clips = { dictionary default = { string primPath = "/x" } }) {}'
    with pytest.raises(TwinError, match="plays value clips, which name other files"):
        read_usdz(usdz(tmp_path / "x.usdz", {"root.usda": TRIANGLE.format(body=body)}))


def test_layers_inside_of_the_package_may_be_named(tmp_path):
    inner = TRIANGLE.format(body=SECRET)
    outer = TRIANGLE.format(body='def "a" (references = @./parts/inner.usda@</secret>) {}')
    back = read_back(usdz(tmp_path / "x.usdz", {"root.usda": outer, "parts/inner.usda": inner}))
    assert len(back.surfaces) == 1


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["/etc/x.usda"], "which leads out of it"),
        (["../x.usda"], "which leads out of it"),
        (["a/../../x.usda"], "which leads out of it"),
        (["c:x.usda"], "which leads out of it"),
        (["x.usda", "run.py"], "layers and pictures are read, nothing else"),
        (["x.png", "x.usda"], "a USDZ begins with its root layer"),
        ([], "it holds 0 files"),
    ],
)
def test_names_in_a_package_are_looked_at(tmp_path, names, told):
    with pytest.raises(TwinError, match=told):
        scanned(usdz(tmp_path / "x.usdz", dict.fromkeys(names, "#usda 1.0\n")))


def test_a_zip_bomb_is_refused(tmp_path):
    path = usdz(tmp_path / "x.usdz", {"root.usda": bytes(50 << 20)}, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 100_000
    with pytest.raises(TwinError, match="is refused: it holds 'root.usda' packed or encrypted"):
        read_back(path)


def test_a_directory_that_lists_one_file_many_times_is_refused(tmp_path):
    path = usdz(tmp_path / "x.usdz", {"a.usda": "#usda 1.0\n" + " " * 1000, "b.usda": ""})
    data = path.read_bytes()
    central = data.rindex(b"PK\x01\x02")
    entry = bytearray(data[data.index(b"PK\x01\x02") : central])
    again = bytes(entry).replace(b"a.usda", b"c.usda") + bytes(entry).replace(b"a.usda", b"d.usda")
    end = bytearray(data[data.rindex(b"PK\x05\x06") :])
    size = len(data) - len(end) - data.index(b"PK\x01\x02") + len(again)
    struct.pack_into("<HHI", end, 8, 4, 4, size)
    path.write_bytes(data[: len(data) - len(end)] + again + bytes(end))
    with pytest.raises(TwinError, match="lists files twice, or more bytes than there are"):
        scanned(path)


def test_what_is_no_zip_or_no_layer_is_refused(tmp_path):
    (tmp_path / "x.usdz").write_bytes(b"PK but nothing more")
    with pytest.raises(TwinError, match="is refused: it is no sound zip"):
        read_back(tmp_path / "x.usdz")
    with pytest.raises(TwinError, match="its layer 'root.usda' cannot be read .*parse error"):
        read_usdz(usdz(tmp_path / "z.usdz", {"root.usda": "#usda 1.0\ndef nonsense"}))
    with pytest.raises(TwinError, match="its layer 'root.usdc' cannot be read"):
        read_usdz(usdz(tmp_path / "y.usdz", {"root.usdc": b"PXR-USDC" + bytes(100)}))


def test_too_many_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("twinproof.export.usd_read.MOST_FILES", 2)
    with pytest.raises(TwinError, match="it holds 3 files; 1 to 2 are read"):
        scanned(usdz(tmp_path / "x.usdz", dict.fromkeys(["a.usda", "b.usda", "c.usda"], "")))


def test_too_many_prims_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("twinproof.export.usd_read.MOST_PRIMS", 3)
    body = "".join(f'def "p{k}" {{}}\n' for k in range(9))
    with pytest.raises(TwinError, match="prims and properties; 3 are read"):
        read_usdz(usdz(tmp_path / "x.usdz", {"root.usda": TRIANGLE.format(body=body)}))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (SECRET.replace("[3]", "[900000000]"), "its faces do not fit its corners"),
        (SECRET.replace("[0,1,2]", "[0,1,7]"), "faces name vertices 0 to 7, but there are 3"),
        (
            'def ParticleField3DGaussianSplat "s" {\npoint3f[] positions = [(0,0,0)]\n}',
            "0 orientations for 1 positions",
        ),
    ],
)
def test_a_usdz_whose_numbers_do_not_fit_is_refused(tmp_path, body, told):
    with pytest.raises(TwinError, match=told):
        read_back(usdz(tmp_path / "x.usdz", {"root.usda": TRIANGLE.format(body=body)}))


def test_units_and_up_axis_of_others_are_turned_into_ours(tmp_path):
    text = TRIANGLE.format(body=SECRET).replace("metersPerUnit = 1", "metersPerUnit = 0.01").replace('"Z"', '"Y"')
    (surface,) = read_back(usdz(tmp_path / "x.usdz", {"root.usda": text})).surfaces
    assert np.allclose(np.sort(surface.mesh.vertices, axis=0), np.sort([(0, 0, 0), (0.01, 0, 0), (0, 0, 0.01)], axis=0))
    absurd = TRIANGLE.format(body=SECRET).replace("metersPerUnit = 1", "metersPerUnit = 1e30")
    with pytest.raises(TwinError, match="its unit is 1e\\+30 m"):
        read_usdz(usdz(tmp_path / "y.usdz", {"root.usda": absurd}))


def test_sheared_splats_are_refused(tmp_path):
    stage = Usd.Stage.CreateNew(str(tmp_path / "root.usda"))
    from twinproof.export.usd_looks import define_splats

    xform = UsdGeom.Xform.Define(stage, "/a")
    xform.AddScaleOp().Set((1, 2, 1))
    define_splats(stage, "/a/s", splats(4, groups=("one", "two")))
    stage.GetRootLayer().Save()
    path = usdz(tmp_path / "x.usdz", {"root.usda": (tmp_path / "root.usda").read_text()})
    with pytest.raises(TwinError, match="its splats are sheared or mirrored"):
        read_usdz(path)


def test_texture_coordinates_that_do_not_fit_are_refused(good, tmp_path):
    layer = Sdf.Layer.OpenAsAnonymous(f"{good / 'twin.usdz'}[twin.usdc]")
    stage = Usd.Stage.Open(layer)
    prim = next(p for p in stage.Traverse() if p.HasAttribute("primvars:st"))
    prim.GetAttribute("primvars:st").Set([(0, 0)])
    layer.Export(str(tmp_path / "root.usda"))
    files: dict[str, str | bytes] = {"twin.usda": (tmp_path / "root.usda").read_text()}
    with zipfile.ZipFile(good / "twin.usdz") as archive:
        files |= {name: archive.read(name) for name in archive.namelist() if name.endswith("png")}
    with pytest.raises(TwinError, match="its texture coordinates do not fit its corners"):
        read_usdz(usdz(tmp_path / "x.usdz", files))


# ---- GLB


def glb(tree: dict, binary: bytes = b"") -> bytes:
    chunks = glb_chunk(0x4E4F534A, json.dumps(tree).encode(), b" ") + glb_chunk(0x004E4942, binary, b"\0")
    return struct.pack("<III", MAGIC, 2, 12 + len(chunks)) + chunks


def tree_of(good: Path) -> tuple[dict, bytes]:
    from twinproof.nouns.mesh_glb import glb_chunks

    return glb_chunks((good / "twin.glb").read_bytes())


def changed(tree: dict, keys: tuple, value: object) -> dict:
    copy = json.loads(json.dumps(tree))
    at = copy
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = value
    return copy


@pytest.mark.parametrize(
    ("keys", "value", "told"),
    [
        (("images", 0), {"uri": "/etc/passwd"}, "image 0 lies outside of the file"),
        (("images", 0), {"uri": "https://example.org/x.png"}, "image 0 lies outside of the file"),
        (("accessors", 0, "count"), 1 << 39, "reaches beyond"),
        (("materials", 0), 7, "a material is not sound"),
        (("nodes", 0, "children"), [0], "deep, or in a ring"),
    ],
)
def test_a_glb_that_lies_is_refused(good, keys, value, told):
    tree, binary = tree_of(good)
    with pytest.raises(MeshError, match=told):
        read_glb_surfaces(glb(changed(tree, keys, value), binary))


def test_a_picture_of_absurd_size_or_no_picture_is_refused(good):
    tree, binary = tree_of(good)
    long = changed(tree, ("bufferViews", tree["images"][0]["bufferView"], "byteLength"), 1 << 30)
    with pytest.raises(MeshError, match="image 0 reaches beyond"):
        read_glb_surfaces(glb(long, binary))
    at = tree["bufferViews"][tree["images"][0]["bufferView"]]["byteOffset"]
    huge = bytearray(binary)
    struct.pack_into(">II", huge, at + 16, 60_000, 60_000)
    with pytest.raises(MeshError, match="image 0 says it is 60000 × 60000"):
        read_glb_surfaces(glb(tree, bytes(huge)))
    broken = bytearray(binary)
    broken[at : at + 8] = b"GIF89a__"
    with pytest.raises(MeshError, match="image 0 is no sound picture"):
        read_glb_surfaces(glb(tree, bytes(broken)))


def test_more_faces_than_are_read_are_refused(good, monkeypatch):
    monkeypatch.setattr("twinproof.export.glb_read.MOST_FACES", 3)
    with pytest.raises(MeshError, match="faces; 3 are read"):
        read_glb_surfaces((good / "twin.glb").read_bytes())


# ---- PLY, SPZ, MJCF


def test_a_ply_whose_header_lies_is_refused(tmp_path):
    write_ply(tmp_path / "s.ply", splats(5))
    data = (tmp_path / "s.ply").read_bytes()
    (tmp_path / "s.ply").write_bytes(data.replace(b"element vertex 5", b"element vertex 999999999"))
    with pytest.raises(TwinError, match="is refused: the header promises"):
        read_back(tmp_path / "s.ply")


def spz(
    path: Path, count: int = 5, version: int = 3, degree: int = 1, bits: int = 12, body: bytes | None = None
) -> Path:
    head = struct.pack("<4sIIBBBB", b"NGSP", version, count, degree, bits, 0, 0)
    path.write_bytes(gzip.compress(head + (bytes(29 * 5) if body is None else body)))
    return path


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"version": 4}, "no SPZ of version 3"),
        ({"count": 2_000_000_000}, "its header says 2000000000 splats"),
        ({"degree": 9}, "of degree 9"),
        ({"bits": 60}, "with 60 bits"),
        ({"count": 6}, "does not unpack to the 174 bytes of 6 splats"),
        ({"body": bytes(100 << 20)}, "does not unpack to the 145 bytes of 5 splats"),
    ],
)
def test_an_spz_that_lies_is_refused(tmp_path, changes, told):
    with pytest.raises(SplatError, match=told):
        read_spz(spz(tmp_path / "s.spz", **changes))


def test_an_spz_that_is_no_gzip_is_refused(tmp_path):
    (tmp_path / "s.spz").write_bytes(b"NGSP" + bytes(100))
    with pytest.raises(TwinError, match="is refused: it is no gzip"):
        read_back(tmp_path / "s.spz")


def test_an_mjcf_that_names_files_outside_is_refused(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "scene.xml").write_text(
        '<mujoco><asset><mesh name="m" file="../secret.stl"/></asset><worldbody/></mujoco>'
    )
    with pytest.raises(SimError, match="which lies outside"):
        read_back(tmp_path / "in" / "scene.xml")


# ---- the process


def test_a_reader_that_needs_too_much_is_ended(good, tmp_path):
    with pytest.raises(TwinError, match="has 0 MB; 0 MB are read"):
        read_back(good / "twin.usdz", Allowed(file_bytes=1000))
    with pytest.raises(TwinError, match=r"is refused: it unpacks to \d+ MB, 0 MB are allowed"):
        read_back(good / "splats.ply", Allowed(answer_bytes=1000))
    with pytest.raises(TwinError, match="was not read within 0.01 s"):
        read_back(good / "splats.ply", Allowed(wall_s=0.01))


def test_a_bomb_beyond_the_memory_is_told(tmp_path):
    write_spz(tmp_path / "s.spz", splats(300_000))
    with pytest.raises(TwinError, match="it needs more than 8 MB of memory|crashes its reader"):
        read_back(tmp_path / "s.spz", Allowed(memory_bytes=8 << 20))


@pytest.mark.parametrize(
    ("code", "out", "told"),
    [
        (-signal.SIGXCPU, "", "was not read within 120 s of CPU time"),
        (-signal.SIGSEGV, "", r"crashes its reader \(SIGSEGV\)"),
        (0, '\n{"error": "it is empty."}', "is refused: it is empty."),
        (1, "", "is refused: its reader ended without a word."),
    ],
)
def test_how_a_reader_ended_is_told(code, out, told):
    with pytest.raises(TwinError, match=told):
        answer_of(subprocess.CompletedProcess([], code, out, ""), Path("x.usdz"), Allowed())


def test_a_layer_that_slips_in_from_outside_is_still_found(tmp_path, monkeypatch):
    secret = outside(tmp_path)
    monkeypatch.setattr("twinproof.export.usd_read._check_layer", lambda *_: None)
    text = TRIANGLE.format(body=f'def "a" (references = @{secret}@</secret>) {{}}')
    with pytest.raises(TwinError, match="it pulls in .*secret.usda', which is not inside of it"):
        read_usdz(usdz(tmp_path / "x.usdz", {"root.usda": text}))


def test_endings_and_absent_files_are_told(tmp_path):
    with pytest.raises(TwinError, match=r"x.usdz does not exist"):
        read_back(tmp_path / "x.usdz")
    (tmp_path / "x.fbx").write_text("")
    with pytest.raises(TwinError, match="the ending '.fbx' is none that is read here"):
        read_back(tmp_path / "x.fbx")


@pytest.mark.parametrize("name", ["twin.glb", "splats.spz"])
@settings(max_examples=40)
@given(place=st.floats(0, 1), data=st.binary(min_size=1, max_size=8))
def test_any_broken_bytes_give_a_clear_error_or_something_that_holds(good, tmp_path_factory, name, place, data):
    path = tmp_path_factory.getbasetemp() / f"broken_{name}"
    whole = bytearray((good / name).read_bytes())
    at = int(place * (len(whole) - len(data)))
    whole[at : at + len(data)] = data
    path.write_bytes(whole)
    with contextlib.suppress(TwinproofError):
        parsed(path)
