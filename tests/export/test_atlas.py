"""Colours of vertices, or of splats, become a texture that shows the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.export.probes import CORNERS, WEDGE, psnr, seen, write_probe
from twinproof.export import atlas
from twinproof.export.atlas import textured
from twinproof.export.read_back import read_back
from twinproof.export.subject import subject_of
from twinproof.export.write import export
from twinproof.nouns.baked import Baked
from twinproof.nouns.errors import TwinError
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_files import write_mesh
from twinproof.nouns.source import Measured
from twinproof.nouns.twin import Alignment, Body, Twin
from twinproof.sim.surface import Surface
from twinproof.sim.unlit import unlit

SHADES = np.array([(0.9, 0.2, 0.2), (0.2, 0.9, 0.2), (0.2, 0.2, 0.9), (0.9, 0.9, 0.2), (0.5, 0.5, 0.5), (1, 1, 1)])
BACK = np.diag([1.0, -1.0, -1.0, 1.0])
TEXTURED = """<mujoco model="can"><asset><mesh name="wedge" file="meshes/wedge.obj"/>
 <texture name="wedge_texture" type="2d" file="meshes/wedge.png"/>
 <material name="wedge_material" texture="wedge_texture"/></asset>
 <worldbody><body name="wedge" pos="0.02 0.03 0.01" quat="0.9 0.1 0.3 0.2"><freejoint/>
  <geom name="wedge" type="mesh" mesh="wedge" material="wedge_material" mass="0.3"/></body></worldbody></mujoco>"""


def wedge() -> Surface:
    return Surface("wedge", "wedge", Mesh(CORNERS, WEDGE, SHADES), (0.9, 1.0, 0.8, 1.0))


@pytest.mark.parametrize("turn", [np.eye(4), BACK])
def test_a_texture_shows_what_the_colours_of_vertices_show(turn):
    one, other = (replace(each, mesh=each.mesh.moved(turn)) for each in (wedge(), textured(wedge())))
    assert other.mesh.colours is None
    before, after = (unlit([each], seen(), behind=(0, 0, 0)) for each in (one, other))
    assert before.max() > 0.5
    assert psnr(after, before) > 40


def test_every_face_has_a_place_of_its_own():
    st, texture = textured(wedge()).st, textured(wedge()).texture
    assert st.shape == (8, 3, 2)
    assert texture.shape == (16, 16, 3)
    inside = st * 16
    assert inside.min() == 0.5
    assert inside.max() == 15.5
    centres = inside.mean(axis=1)
    assert np.linalg.norm(centres[:, None] - centres, axis=2)[~np.eye(8, dtype=bool)].min() > 3


def test_finer_colours_than_those_of_the_vertices_are_kept():
    striped = textured(wedge(), lambda places: np.where(np.sin(100 * places[:, :1]) > 0, 1.0, 0.0) * np.ones((1, 3)))
    picture = unlit([striped], seen(), behind=(0.5, 0.5, 0.5))
    assert (picture > 0.8).sum() > 50
    assert (picture < 0.3).sum() > 50


def test_many_faces_get_smaller_places_and_too_many_are_refused(monkeypatch):
    monkeypatch.setattr(atlas, "MOST_SIDE", 12)
    assert textured(wedge()).texture.shape == (12, 12, 3)
    monkeypatch.setattr(atlas, "MOST_SIDE", 8)
    with pytest.raises(TwinError, match="8 faces need a texture of 10 texels a side; 8 are written"):
        textured(wedge())


def test_a_texture_that_a_reconstruction_baked_goes_out_as_it_is(tmp_path):
    """The form of reconstruct: OBJ with texture coordinates, a PNG beside it, a material in the scene that names it."""
    baked = textured(replace(wedge(), rgba=(1.0, 1.0, 1.0, 1.0)))
    corners = np.stack([baked.st[..., 0], 1 - baked.st[..., 1]], axis=-1)
    (tmp_path / "twin" / "meshes").mkdir(parents=True)
    write_mesh(tmp_path / "twin" / "meshes" / "wedge.obj", Baked(Mesh(CORNERS, WEDGE, SHADES), corners, baked.texture))
    assert (tmp_path / "twin" / "meshes" / "wedge.png").is_file()
    (tmp_path / "twin" / "scene.xml").write_text(TEXTURED)
    body = Body("wedge", Measured("planted"), visual="meshes/wedge.obj", lacks={"splats": "none were fitted"})
    twin = Twin(tmp_path / "twin", (body,), Alignment(Measured("tag")), "mujoco 3.17.0", ("e1",), {"split": "5" * 64})
    subject = subject_of(twin)
    shown = next(each for each in subject.standing() if each.name == "wedge")
    assert shown.texture is not None
    assert shown.mesh.colours is None
    plain = replace(wedge(), mesh=wedge().mesh.moved(subject.anatomy.named["wedge"].T_world_link), rgba=(1, 1, 1, 1))
    before = unlit([plain], seen(), behind=(0, 0, 0))
    assert psnr(unlit([shown], seen(), behind=(0, 0, 0)), before) > 35
    export(twin, ["glb"], tmp_path / "out")
    back = next(each for each in read_back(tmp_path / "out" / "twin.glb").surfaces if each.name == "wedge")
    assert psnr(unlit([back], seen(), behind=(0, 0, 0)), before) > 35


def test_a_mesh_without_colours_takes_them_from_the_splats_that_lie_on_it(tmp_path):
    twin = write_probe(tmp_path / "twin")
    lines = (twin.root / "meshes" / "wedge.obj").read_text().splitlines()
    bare = [" ".join(line.split()[:4]) if line.startswith("v ") else line for line in lines]
    (twin.root / "meshes" / "wedge.obj").write_text("\n".join(bare))
    subject = subject_of(replace(twin))
    (k,) = subject.by_splats
    assert subject.surfaces[k].name == "wedge"
    assert subject.textured()[k].texture is not None
    whole = unlit([subject.surfaces[k]], seen(), behind=(0, 0, 0))
    assert psnr(unlit([subject.textured()[k]], seen(), behind=(0, 0, 0)), whole) > 20
