"""What touches: parts are convex and cover the mesh, masses are right, MuJoCo takes the body, bad ones are refused."""

from __future__ import annotations

import sys
from xml.etree.ElementTree import Element, tostring

import numpy as np
import pytest

from tests.reconstruct.solids import ball, box
from twinproof.nouns.errors import MeshError, MissingExtra
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_files import write_mesh
from twinproof.reconstruct import collision
from twinproof.reconstruct.collision import (
    Decomposing,
    convex_parts,
    even_hull,
    hull_of,
    mass_properties,
    mend,
    mjcf_body,
    written_parts,
)
from twinproof.reconstruct.gap import union_m3
from twinproof.reconstruct.mesh_mend import checked
from twinproof.sim.scene import Scene


def angle() -> Mesh:
    """An L: a box without a quarter of it."""
    import manifold3d

    solids = [
        manifold3d.Manifold(manifold3d.Mesh(part.vertices.astype(np.float32), part.faces.astype(np.uint32)))
        for part in (box((0.1, 0.04, 0.1)), box((0.06, 0.1, 0.06), (0.03, 0, 0.03)))
    ]
    mesh = (solids[0] - solids[1]).to_mesh()
    return Mesh(np.asarray(mesh.vert_properties)[:, :3], np.asarray(mesh.tri_verts))


def test_an_angle_falls_into_convex_parts_that_cover_it() -> None:
    whole = angle()
    parts = convex_parts(whole, Decomposing(seconds=60))
    assert 2 <= len(parts) <= 4
    assert all(part.closed and part.volume_m3 > 0 for part in parts)
    assert all(part.volume_m3 == pytest.approx(hull_of(part.vertices).volume_m3, rel=1e-9) for part in parts)
    assert union_m3(parts) == pytest.approx(whole.volume_m3, rel=0.05)


def test_mass_properties_of_a_box_are_those_of_the_textbook() -> None:
    found = mass_properties(box((0.1, 0.06, 0.04), (0.5, -0.2, 0.1)), mass_kg=0.3)
    assert found.com_m == pytest.approx((0.5, -0.2, 0.1))
    x, y, z = 0.1, 0.06, 0.04
    expected = [0.3 / 12 * (y * y + z * z), 0.3 / 12 * (x * x + z * z), 0.3 / 12 * (x * x + y * y)]
    assert found.inertia_kgm2 == pytest.approx((*expected, 0, 0, 0), abs=1e-12)
    assert mass_properties(box(), density_kgm3=1000).mass_kg == pytest.approx(1000 * 0.1 * 0.06 * 0.04)


def test_mujoco_takes_the_body_and_finds_the_same_inertia(tmp_path) -> None:
    mesh = angle()
    mass = mass_properties(mesh, mass_kg=0.2)
    parts = written_parts(
        tmp_path, "angle", [box((0.04, 0.04, 0.1), (-0.03, 0, 0)), box((0.1, 0.04, 0.04), (0, 0, -0.03))]
    )
    write_mesh(tmp_path / "meshes/angle.obj", mesh)
    assets, body = mjcf_body("angle", "meshes/angle.obj", [part.path for part in parts], mass)
    root, asset, world = Element("mujoco"), Element("asset"), Element("worldbody")
    asset.extend(assets)
    world.append(body)
    root.extend([asset, world])
    model = Scene(tostring(root, encoding="unicode"), tmp_path).nominal()
    assert model.body("angle").mass[0] == pytest.approx(0.2)
    assert model.body("angle").ipos == pytest.approx(mass.com_m, abs=1e-9)
    xx, yy, zz, xy, xz, yz = mass.inertia_kgm2
    principal = np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])[::-1]
    assert np.sort(model.body("angle").inertia)[::-1] == pytest.approx(principal, rel=1e-6)
    assert model.geom_group.tolist() == [2, 3, 3]
    assert model.geom_contype.tolist() == [0, 1, 1]
    assert all(part.volume_m3 > 0 for part in parts)


def test_a_body_may_carry_a_texture() -> None:
    assets, body = mjcf_body("cup", "cup.obj", [], mass_properties(box(), mass_kg=1), free=False, texture="cup.png")
    assert [asset.tag for asset in assets] == ["texture", "material", "mesh"]
    assert body.find("geom").get("material") == "cup_material"
    assert body.find("freejoint") is None


def test_flipped_faces_are_turned_and_small_holes_closed_and_both_are_said() -> None:
    whole = ball(voxel=0.005)
    faces = whole.faces.copy()
    faces[::7] = faces[::7, ::-1]
    torn = Mesh(whole.vertices, np.delete(faces, [11, 500], axis=0))
    assert not torn.closed
    mended, notes = mend(torn)
    assert checked(mended).solid
    assert mended.volume_m3 == pytest.approx(whole.volume_m3, rel=1e-3)
    assert "looked inwards" in notes[0]
    assert "2 holes" in notes[1]
    inside_out, notes = mend(Mesh(whole.vertices, whole.faces[:, ::-1]))
    assert inside_out.volume_m3 == pytest.approx(whole.volume_m3)
    assert mend(whole)[1] == ()


def test_what_cannot_be_mended_is_refused() -> None:
    whole = box()
    with pytest.raises(MeshError, match="does not bound a solid"):
        mend(Mesh(whole.vertices, whole.faces[:-2]))


def test_a_decomposition_that_hangs_or_crashes_is_told(monkeypatch) -> None:
    with pytest.raises(MeshError, match="were not cut within"):
        convex_parts(ball(voxel=0.02), Decomposing(seconds=0.01))
    monkeypatch.setattr(collision, "write_mesh", lambda path, mesh: path.write_bytes(b"nothing"))
    with pytest.raises(MeshError, match="process ended with 1"):
        convex_parts(box(), Decomposing(seconds=60))


def test_nonsense_is_refused(monkeypatch) -> None:
    with pytest.raises(MeshError, match="between 0.01 and 1"):
        Decomposing(threshold=0)
    with pytest.raises(MeshError, match="either a mass or a density"):
        mass_properties(box())
    with pytest.raises(MeshError, match="open or inside out"):
        mass_properties(Mesh(box().vertices, box().faces[:-1]), mass_kg=1)
    with pytest.raises(MeshError, match="are positive"):
        mass_properties(box(), mass_kg=-1)
    with pytest.raises(MeshError, match="lie in one plane"):
        hull_of(np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0.0]]))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="coacd"):
        convex_parts(box())
    assert "coacd" not in sys.modules


def test_a_bump_does_not_stand_for_the_side_it_is_on():
    corners = np.array([[a, b, c] for a in (-0.02, 0.02) for b in (-0.02, 0.02) for c in (-0.02, 0.02)])
    cube = hull_of(corners)
    middle, k = len(cube.vertices), int(np.flatnonzero((cube.vertices[cube.faces][:, :, 0] > 0.019).all(axis=1))[0])
    a, b, c = cube.faces[k]
    tip = cube.vertices[cube.faces[k]].mean(axis=0) + np.array([0.006, 0, 0])
    faces = np.concatenate([np.delete(cube.faces, k, axis=0), [(a, b, middle), (b, c, middle), (c, a, middle)]])
    bumpy = Mesh(np.concatenate([cube.vertices, tip[None]]), faces)
    even, whole = even_hull(bumpy), hull_of(bumpy.vertices)
    assert even.closed
    assert even.volume_m3 == pytest.approx(bumpy.volume_m3, rel=1e-6)
    assert np.ptp(even.vertices[:, 0]) < np.ptp(whole.vertices[:, 0])
