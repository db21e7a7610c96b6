"""`twinproof export` as a user meets it: what is written, what is said, what is refused."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.export.probes import write_probe
from tests.test_cli import run
from twinproof.export.write import FORMAT, asked, export
from twinproof.nouns.errors import ConfigError, MissingExtra, StoreError, TwinError
from twinproof.nouns.files import check_files, read_sealed
from twinproof.nouns.splat_files import read_ply


@pytest.fixture(scope="module")
def twin(tmp_path_factory):
    made = write_probe(tmp_path_factory.mktemp("probe") / "work")
    made.save(made.root.parent / "twin")
    return made


def test_a_folder_appears_whole_with_hashes_losses_and_parent(twin, tmp_path, capsys):
    out = tmp_path / "out"
    assert run("export", twin.root.parent / "twin", "--to", "glb,ply", "spz", "--out", out) == 0
    said = read_sealed(out / "export.json", FORMAT, TwinError)
    assert said["twin"] == twin.hash
    assert list(said["formats"]) == ["glb", "ply", "spz"]
    check_files(out, said["files"], TwinError)
    assert all(entry["lost"] and entry["files"] for entry in said["formats"].values())
    lost = (out / "LOST.md").read_text()
    assert all(what in lost for entry in said["formats"].values() for what in entry["lost"])
    assert said["formats"]["ply"]["checked"][0].startswith("read again by twinproof: 0 surfaces")
    assert said["frame"]["metres_per_unit"] == 1
    shown = capsys.readouterr().out
    assert "twin.glb" in shown
    assert "things left out" in shown


def test_runs_say_which_splat_is_whose(twin, tmp_path):
    export(twin, ["ply"], tmp_path / "out")
    runs = json.loads((tmp_path / "out" / "export.json").read_text())["splats"]
    assert sum(count for each in runs.values() for _, count in each) == len(read_ply(tmp_path / "out" / "splats.ply"))
    assert runs["probe"] == [list(twin.body("probe").splats)]


def test_a_splat_ply_has_the_reference_layout(twin, tmp_path):
    export(twin, ["ply"], tmp_path / "out")
    head = (tmp_path / "out" / "splats.ply").read_bytes().split(b"end_header\n")[0].decode().splitlines()
    names = [line.split()[2] for line in head if line.startswith("property")]
    rest = [f"f_rest_{k}" for k in range(45)]
    turn = ["rot_0", "rot_1", "rot_2", "rot_3"]
    dc, scale = ["f_dc_0", "f_dc_1", "f_dc_2"], ["scale_0", "scale_1", "scale_2"]
    assert names == ["x", "y", "z", "nx", "ny", "nz", *dc, *rest, "opacity", *scale, *turn]


@pytest.mark.parametrize(("words", "told"), [(["gltf"], "unknown format 'gltf'"), ([","], "no format is named")])
def test_a_format_that_does_not_exist_is_named(words, told):
    with pytest.raises(ConfigError, match=f"export: {told}. There are mjcf, urdf, usdz, glb, ply, spz"):
        asked(words)


def test_formats_come_once_and_in_order():
    assert asked(["spz,mjcf", "MJCF"]) == ("mjcf", "spz")


@pytest.mark.parametrize("name", ["ply", "spz"])
def test_a_twin_without_splats_has_no_splat_file_and_nothing_is_left_behind(tmp_path, name):
    bare = write_probe(tmp_path / "work", splats=False)
    with pytest.raises(TwinError, match=f"has no splats, and {name} holds nothing else. Leave {name} out"):
        export(bare, ["glb", name], tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["work"]


def test_a_scene_that_shows_nothing_makes_no_glb(tmp_path):
    hidden = '<mujoco><worldbody><body name="b"><freejoint/><geom size="1" group="4"/></body></worldbody></mujoco>'
    twin = write_probe(tmp_path / "work", splats=False, scene=hidden)
    with pytest.raises(TwinError, match=r"shows no surface \(geom groups 0 to 2\), so a GLB would be empty"):
        export(twin, ["glb"], tmp_path / "out")


def test_nothing_is_overwritten(twin, tmp_path):
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(StoreError, match="exists and is not empty"):
        export(twin, ["ply"], tmp_path)


def test_a_missing_extra_is_told_before_any_work():
    code = (
        "import sys; sys.modules['pxr'] = None\n"
        "from twinproof.export.usdz import usd\n"
        "from twinproof.nouns.errors import MissingExtra\n"
        "try: usd()\n"
        "except MissingExtra as told: print(told)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "USDZ is written and read with usd-core. Run: pip install 'twinproof[usd]'.\n"


def test_an_old_usd_is_told(monkeypatch):
    import pxr

    from twinproof.export.usdz import usd

    monkeypatch.setitem(sys.modules, "pxr.UsdVol", type(sys)("pxr.UsdVol"))
    monkeypatch.setattr(pxr, "UsdVol", sys.modules["pxr.UsdVol"], raising=False)
    with pytest.raises(MissingExtra, match="this usd-core knows no Gaussian splats"):
        usd()


def test_a_file_that_changes_meanwhile_is_noticed(tmp_path):
    from twinproof.export.mjcf import write_mjcf
    from twinproof.export.subject import subject_of

    twin = write_probe(tmp_path / "work", splats=False)
    subject = subject_of(twin)
    (twin.root / "meshes" / "wedge.obj").write_text((twin.root / "meshes" / "wedge.obj").read_text() + "v 9 9 9\n")
    with pytest.raises(TwinError, match="does not load as the scene of .* Its files changed meanwhile"):
        write_mjcf(subject, tmp_path / "out")


def test_a_file_that_gives_back_less_than_was_put_in_is_not_kept(twin, tmp_path, monkeypatch):
    from twinproof.export import write
    from twinproof.export.read_back import ReadBack

    monkeypatch.setattr(write, "read_back", lambda path: ReadBack())
    with pytest.raises(TwinError, match="splats.ply gives back 0 surfaces and 0 splats, and 0 and"):
        export(twin, ["ply"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_who_looked_at_an_mjcf_is_said(twin, tmp_path):
    checked = export(twin, ["mjcf"], tmp_path / "out").written["mjcf"].checked
    assert checked[0] == "mujoco 3.17.0 compiles and steps it"
    assert checked[1].startswith("mujoco_warp")


def test_numbers_that_are_not_finite_do_not_enter_a_urdf():
    from twinproof.export.urdf import _text

    with pytest.raises(TwinError, match=r"urdf: the numbers \[nan\] of the twin's scene are not finite"):
        _text([float("nan")])


def test_the_same_twin_gives_the_same_bytes(tmp_path):
    twin = write_probe(tmp_path / "work", splats=False)
    for name in ("one", "two"):
        export(twin, ["urdf,usdz,glb"], tmp_path / name)
    first, second = (json.loads((tmp_path / name / "export.json").read_text())["files"] for name in ("one", "two"))
    assert [name for name in first if first[name] != second[name]] == []
