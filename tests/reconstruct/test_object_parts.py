"""An object with files, mass, looks and audits becomes a body of a twin that MuJoCo compiles."""

from __future__ import annotations

from xml.etree.ElementTree import Element, tostring

import numpy as np
import pytest

from tests.reconstruct.solids import box
from twinproof.nouns.baked import Baked
from twinproof.nouns.errors import MeshError
from twinproof.nouns.randomness import stream
from twinproof.nouns.source import Declared, Inferred
from twinproof.nouns.splat_files import write_ply
from twinproof.nouns.splats import Splats
from twinproof.nouns.twin import Alignment, Twin
from twinproof.reconstruct.gap import points_on
from twinproof.reconstruct.object_parts import Making, write_object
from twinproof.sim.grid import Plane
from twinproof.sim.scene import Scene

SHAPE = box((0.1, 0.06, 0.04), (0.4, 0.1, 0.02))


def looks() -> Splats:
    points = points_on(SHAPE, 50)
    quats = stream(0, "quats").normal(size=(50, 4))
    return Splats(
        points, quats, np.full((50, 3), -5.0), np.ones(50), np.zeros((50, 1, 3)), np.zeros(50, int), ("brick",)
    )


def test_a_brick_becomes_a_twin(tmp_path) -> None:
    parts = write_object(tmp_path, "brick", SHAPE, looks(), how=Making(mass_kg=0.2), support=Plane())
    root, asset, world = Element("mujoco"), Element("asset"), Element("worldbody")
    asset.extend(parts.assets)
    world.append(parts.element)
    root.extend([asset, world])
    (tmp_path / "scene.xml").write_text(tostring(root, encoding="unicode"))
    write_ply(tmp_path / "splats.ply", looks())
    body = parts.body(Inferred("5" * 64))
    twin = Twin(tmp_path, (body,), Alignment(Declared("a test")), "mujoco", (), {}, audits=parts.audits)
    model = Scene.of(twin).nominal()
    assert model.body("brick").pos == pytest.approx([0.4, 0.1, 0.02])
    assert model.body("brick").mass[0] == pytest.approx(0.2)
    assert twin.body("brick").splats == (0, 50)
    assert twin.audits["collision_gap"]["mean_m"] < 1e-4
    assert twin.audits["splat_mesh_gap_m"]["worst"] < 1e-6
    assert twin.audits["standing"]["tip_rad"] == pytest.approx(np.arctan2(0.03, 0.02), abs=0.01)


def test_a_guessed_density_is_declared_and_a_texture_comes_along(tmp_path) -> None:
    baked = Baked(SHAPE, np.zeros((12, 3, 2)), np.full((4, 4, 3), 90, np.uint8))
    T = np.eye(4)
    T[:3, 3] = (0.4, 0.1, 0.0)
    parts = write_object(tmp_path, "brick", baked, T_world_body=T)
    assert "is declared: 600 kg/m³" in parts.notes[-1]
    assert parts.mass.com_m == pytest.approx((0, 0, 0.02), abs=1e-9)
    assert (tmp_path / "meshes/brick.png").is_file()
    assert parts.body(Declared("x")).lacks["splats"]
    assert any(asset.tag == "texture" for asset in parts.assets)


def test_a_name_that_is_no_file_is_refused(tmp_path) -> None:
    with pytest.raises(MeshError, match="must be made of letters"):
        write_object(tmp_path, "../brick", SHAPE)
