"""The laws of Twin that need no physics engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.nouns.examples import (
    CORNERS,
    FACES,
    SCENE,
    SPLAT_FIELDS,
    cube,
    twin,
    twin_folder,
    write_obj,
    write_splats,
    write_stl,
)  # fmt: skip
from twinproof.nouns.errors import TwinError
from twinproof.nouns.files import file_hashes
from twinproof.nouns.rig import Intrinsics, Mount
from twinproof.nouns.source import Declared, Measured
from twinproof.nouns.twin import Alignment, Body, CollisionPart, Twin, TwinCamera
from twinproof.nouns.twin_files import closed_volume, read_scene, splat_header

BY_HAND = Declared("by hand")


def scene(tmp_path: Path, text: str) -> Path:
    root = twin_folder(tmp_path / "scene")
    (root / "scene.xml").write_text(text)
    return root


def test_a_twin_is_copied_whole_and_forgets_where_it_was_made(tmp_path):
    one, same = twin(tmp_path / "a"), twin(tmp_path / "b")
    assert one == same
    (tmp_path / "a" / "scratch.txt").write_text("not part of the twin")
    one.save(tmp_path / "saved")
    assert set(file_hashes(tmp_path / "saved")) == {
        "twin.json", "cameras.json", "scene.xml", "splats.ply",
        "meshes/cube.obj", "meshes/cube.stl", "meshes/cube_visual.obj",
    }  # fmt: skip
    loaded = Twin.load(tmp_path / "saved")
    assert loaded.path() == tmp_path / "saved" / "scene.xml"
    assert loaded.cameras["front"].mount.position_sd_m == 0.002
    assert loaded.body("cube").mass_kg == 0.2
    with pytest.raises(TwinError, match="'scratch.txt' is no file of this twin"):
        loaded.path("scratch.txt")
    with pytest.raises(TwinError, match="no body 'mug'; it has cube, room"):
        loaded.body("mug")


def test_a_file_that_changes_between_birth_and_saving_is_found(tmp_path):
    thing = twin(tmp_path / "a")
    write_obj(tmp_path / "a" / "meshes" / "cube_visual.obj", side_m=0.2)
    with pytest.raises(TwinError, match=r"cube_visual.obj was changed after the twin was made"):
        thing.save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


ASSET = '<mujoco><asset><mesh file="{}"/></asset></mujoco>'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<mujoco><worldbody>", "not well-formed XML"),
        ('<!DOCTYPE m [<!ENTITY x SYSTEM "file:///etc/passwd">]><mujoco>&x;</mujoco>', "has a DOCTYPE"),
        (ASSET.format("../outside.obj"), "leaves its folder"),
        (ASSET.format("/etc/passwd"), "leaves its folder"),
        (ASSET.format("nowhere.obj"), "'nowhere.obj', which is not in the twin's folder"),
        ('<mujoco><compiler meshdir="/etc"/><asset><mesh file="passwd"/></asset></mujoco>', "leaves its folder"),
        ('<mujoco><compiler assetdir="../.."/><asset><texture file="x.png"/></asset></mujoco>', "leaves its folder"),
        ('<mujoco><asset><texture fileleft="../x.png"/></asset></mujoco>', "leaves its folder"),
        ('<mujoco><asset><hfield file="../x.png"/></asset></mujoco>', "leaves its folder"),
        ('<mujoco><include file="robot.xml"/></mujoco>', "with <include>"),
        ('<mujoco><asset><model file="robot.xml"/></asset></mujoco>', "with <model>"),
        ("<mujoco><worldbody><body/></worldbody></mujoco>", "a body without a name"),
    ],
)
def test_a_scene_that_could_reach_outside_its_folder_is_refused(tmp_path, text, words):
    (tmp_path / "outside.obj").write_text("v 0 0 0")
    with pytest.raises(TwinError, match=words):
        read_scene(scene(tmp_path, text))


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    root = scene(tmp_path, ASSET.format("link.obj"))
    (tmp_path / "outside.obj").write_text("v 0 0 0")
    (root / "link.obj").symlink_to(tmp_path / "outside.obj")
    with pytest.raises(TwinError, match="leaves its folder"):
        read_scene(root)


def test_asset_folders_and_stripped_paths_resolve_as_the_engine_does(tmp_path):
    text = '<mujoco><compiler assetdir="meshes" strippath="true"/><asset><mesh file="C/x/cube.obj"/></asset></mujoco>'
    assert read_scene(scene(tmp_path, text)).files == ("meshes/cube.obj",)
    assert read_scene(scene(tmp_path, SCENE)).files == ("meshes/cube.obj",)
    assert read_scene(scene(tmp_path, SCENE)).bodies == ("cube",)


def test_a_scene_without_its_file_or_too_large_is_refused(tmp_path):
    with pytest.raises(TwinError, match=r"scene.xml does not exist"):
        read_scene(tmp_path)
    with (tmp_path / "scene.xml").open("wb") as handle:
        handle.truncate(65 << 20)
    with pytest.raises(TwinError, match="larger than 64 MB"):
        read_scene(tmp_path)


def test_every_body_of_the_scene_is_listed_once_and_no_other(tmp_path):
    room = Body("room", BY_HAND, "background", splats=(0, 5), lacks={"mesh": "only looks"})
    with pytest.raises(TwinError, match=r"does not list \(cube\)"):
        twin(tmp_path / "a", bodies=(room,))
    with pytest.raises(TwinError, match=r"lacks some that it lists \(mug\)"):
        twin(tmp_path / "b", bodies=(cube(), cube(name="mug", splats=None, lacks={"splats": "dark"})))
    with pytest.raises(TwinError, match="each of its bodies once; found cube, cube"):
        twin(tmp_path / "c", bodies=(cube(), cube()))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"splats": None}, "body 'cube' has no splats and does not say why"),
        ({"visual": None, "collision": ()}, "body 'cube' has no mesh and does not say why"),
        ({"splats": None, "lacks": {"splats": " "}}, "has no splats and does not say why"),
        ({"mass_kg": 0.0}, "a mass of 0.0 kg"),
        ({"mass_kg": float("nan")}, "a mass of nan kg"),
        ({"inertia_kgm2": (1e-4, 1e-4, 3e-4, 0, 0, 0)}, "No mass has these"),
        ({"inertia_kgm2": (1e-4, 1e-4, 1e-4, 2e-4, 0, 0)}, "No mass has these"),
        ({"inertia_kgm2": (-1e-4, 1e-4, 1e-4, 0, 0, 0)}, "No mass has these"),
        ({"collision": (CollisionPart("meshes/cube.obj", 0.0),)}, "a volume of 0.0 m³: not closed"),
    ],
)
def test_a_body_that_no_physics_allows_or_that_hides_a_lack_is_refused(change, words):
    with pytest.raises(TwinError, match=words):
        cube(**change)


@given(st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_the_inertia_of_any_real_mass_passes(sides, seed):
    points = np.random.default_rng(seed).uniform(-1, 1, (20, 3)) * sides
    points -= points.mean(axis=0)
    matrix = np.eye(3) * np.square(points).sum() - points.T @ points
    xx, yy, zz, xy, xz, yz = (float(matrix[i, j]) for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)))
    assert cube(inertia_kgm2=(xx, yy, zz, xy, xz, yz)).name == "cube"


@pytest.mark.parametrize("write", [write_obj, write_stl])
def test_closed_meshes_have_their_volume_and_open_or_flipped_ones_are_refused(tmp_path, write):
    path = tmp_path / f"cube.{write.__name__[-3:]}"
    write(path)
    assert closed_volume(path) == pytest.approx(1e-3, rel=1e-5)
    write(path, CORNERS, FACES[:-1])
    with pytest.raises(TwinError, match="is not closed: 3 of 33 edges have no opposite"):
        closed_volume(path)
    turned = FACES.copy()
    turned[0] = turned[0][::-1]
    write(path, CORNERS, turned)
    with pytest.raises(TwinError, match="turn its faces alike"):
        closed_volume(path)
    write(path, CORNERS, FACES[:, ::-1])
    assert closed_volume(path) == pytest.approx(-1e-3, rel=1e-5)


def test_a_stated_volume_is_checked_against_the_mesh(tmp_path):
    with pytest.raises(TwinError, match=r"encloses 0.001 m³, the twin states 1000 m³"):
        twin(tmp_path / "a", bodies=(cube(collision=(CollisionPart("meshes/cube.obj", 1000.0),)),))
    with pytest.raises(TwinError, match=r"collision mesh .*nowhere.obj does not exist"):
        twin(tmp_path / "b", bodies=(cube(collision=(CollisionPart("meshes/nowhere.obj", 1.0),)),))
    with pytest.raises(TwinError, match="leaves its folder"):
        twin(tmp_path / "c", bodies=(cube(collision=(CollisionPart("../nowhere.obj", 1.0),)),))
    with pytest.raises(TwinError, match=r"names the file 'meshes/gone.obj'"):
        twin(tmp_path / "d", bodies=(cube(visual="meshes/gone.obj"),))


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.stl", b"solid ascii", "no binary STL"),
        ("b.stl", bytes(80) + b"\xff\xff\xff\xff", "no binary STL"),
        ("c.obj", b"v 0 0 zero\n", "no readable OBJ"),
        ("d.obj", b"v 0 0 0\nf 1 2 3\n", "names a corner that does not exist"),
        ("e.obj", b"", "has no faces"),
    ],
)
def test_broken_meshes_are_named(tmp_path, name, data, words):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(TwinError, match=words):
        closed_volume(tmp_path / name)


def test_other_mesh_formats_are_taken_at_their_word(tmp_path):
    (tmp_path / "a.glb").write_bytes(b"glTF")
    assert closed_volume(tmp_path / "a.glb") is None


def test_a_splat_header_is_believed_only_if_the_size_agrees(tmp_path):
    path = tmp_path / "s.ply"
    write_splats(path, 20)
    header = splat_header(path)
    assert (header.count, header.record_bytes) == (20, 4 * len(SPLAT_FIELDS))
    assert header.offset + 20 * header.record_bytes == path.stat().st_size
    for stated in (19, 21, 10**12):
        write_splats(path, 20, stated=stated)
        with pytest.raises(TwinError, match=f"{stated} splats of 68"):
            splat_header(path)
    write_splats(path, 20, fields=[name for name in SPLAT_FIELDS if name != "opacity"])
    with pytest.raises(TwinError, match="lacks the fields opacity"):
        splat_header(path)
    with pytest.raises(TwinError, match="does not exist"):
        splat_header(tmp_path / "none.ply")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"ply\n", b"plx\n", "no PLY header"),
        (b"end_header", b"end_headex", "no PLY header"),
        (b"binary_little_endian", b"ascii", "is ascii; splats are read as binary_little_endian"),
        (b"property float ny", b"property quad ny", "the property ny has the unknown type 'quad'"),
        (b"vertex 20", b"vertex -1", "'element vertex -1'"),
        (b"vertex 20", b"vertex 99999999999999999999", "'element vertex 9999"),
        (b"property float x", b"property list uchar int x", "property list"),
        (b"property float ny", b"property float nx", "'property float nx'"),
        (b"element vertex", b"element face", "'element face 20'"),
    ],
)
def test_a_splat_header_that_is_not_standard_is_refused(tmp_path, old, new, words):
    path = tmp_path / "s.ply"
    write_splats(path)
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    with pytest.raises(TwinError, match=words):
        splat_header(path)


@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=8))
@settings(max_examples=30, deadline=None)
def test_any_bytes_in_a_splat_header_give_a_header_or_a_clear_error(tmp_path_factory, place, data):
    path = tmp_path_factory.mktemp("ply") / "s.ply"
    write_splats(path)
    whole = bytearray(path.read_bytes())
    place %= 400
    whole[place : place + len(data)] = data
    path.write_bytes(whole)
    try:
        header = splat_header(path)
    except TwinError:
        return
    assert header.offset + header.count * header.record_bytes == path.stat().st_size


def test_splats_belong_to_one_body_each(tmp_path):
    with pytest.raises(TwinError, match=r"splats 5 to 25, but splats.ply holds 20"):
        twin(tmp_path / "a", bodies=(cube(splats=(5, 20)),))
    room = Body("room", BY_HAND, "background", splats=(0, 6), lacks={"mesh": "only looks"})
    with pytest.raises(TwinError, match="bodies 'room' and 'cube' both own splat 5"):
        twin(tmp_path / "b", bodies=(cube(), room))


def test_splats_and_meshes_share_a_frame_within_the_stated_tolerance():
    with pytest.raises(TwinError, match=r"0.02 m apart, the stated tolerance is 0.005 m"):
        Alignment(Measured("tag"), splat_mesh_gap_m=0.02)
    with pytest.raises(TwinError, match="the twin's scale is 0"):
        Alignment(Measured("tag"), scale=0)


def test_cameras_have_pixels_and_a_name_that_a_file_can_hold(tmp_path):
    lens = Intrinsics(300, 300, 160, 120)
    with pytest.raises(TwinError, match="0 × 240 pixels"):
        TwinCamera(0, 240, lens, Mount(), BY_HAND)
    with pytest.raises(TwinError, match="the camera name '../front'"):
        twin(tmp_path / "a", cameras={"../front": TwinCamera(320, 240, lens, Mount(), BY_HAND)})


def test_audits_must_be_plain_data(tmp_path):
    with pytest.raises(TwinError, match=r"twin.audits.gap is inf"):
        twin(tmp_path / "a", audits={"gap": float("inf")})
