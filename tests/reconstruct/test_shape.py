"""Shapes from masks, depth and surfels: right to a pixel, closed, and honest about what nobody saw."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tests.reconstruct.solids import ball, box, bumpy, solid
from tests.sim.shapes import around, ball_depth
from twinproof.nouns.errors import MeshError, MissingExtra
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_files import welded
from twinproof.nouns.splats import Splats
from twinproof.reconstruct import mesh_mend
from twinproof.reconstruct.gap import chamfer_m, volume_error
from twinproof.reconstruct.mesh_mend import checked, largest_piece, meshed, simplified, smoothed
from twinproof.reconstruct.shape import ShapeRecipe, shape_from_depth, shape_from_masks, shape_from_surfels
from twinproof.sim.fusion import DepthMap
from twinproof.sim.grid import Field, Grid, Plane
from twinproof.sim.silhouette import Silhouette

RECIPE = ShapeRecipe(across=40, faces=1500)
CAMERAS = around(12)
MAPS = [DepthMap(ball_depth(camera), camera) for camera in CAMERAS]
MASKS = [Silhouette((each.depth_m > 0).astype(np.int8), each.camera) for each in MAPS]
PIXEL_M = 0.5 / 110
BALL = ball(voxel=0.002)


def test_masks_give_a_closed_mesh_within_a_pixel() -> None:
    shape = shape_from_masks(MASKS, RECIPE)
    assert shape.mesh.closed
    assert shape.check.solid
    assert shape.check.genus == 0
    assert chamfer_m(shape.mesh, BALL, 2000)[0] < 0.5 * PIXEL_M
    assert abs(volume_error(shape.mesh, BALL)) < 0.05
    assert not shape.declared


def test_depth_is_better_than_masks_and_says_how_much_it_saw() -> None:
    shape = shape_from_depth(MAPS, RECIPE, silhouettes=MASKS)
    assert chamfer_m(shape.mesh, BALL, 2000)[0] < chamfer_m(shape_from_masks(MASKS, RECIPE).mesh, BALL, 2000)[0]
    assert abs(volume_error(shape.mesh, BALL)) < 0.05
    assert "12 depth pictures show" in shape.notes[0]


def test_what_stands_on_a_table_is_closed_there_and_that_is_declared() -> None:
    above = [Silhouette(each.mask, each.camera) for each in MASKS if each.camera.T_world_camera[2, 3] > 0]
    shape = shape_from_masks(above, RECIPE, support=Plane(offset_m=-0.03))
    assert shape.mesh.vertices[:, 2].min() == pytest.approx(-0.03, abs=0.001)
    assert "never seen from below" in shape.declared[0]
    assert "although a camera was below" in shape_from_masks(MASKS, RECIPE, support=Plane(offset_m=-0.03)).declared[0]


def test_depth_alone_fills_what_it_did_not_see_and_says_so() -> None:
    shape = shape_from_depth(MAPS, RECIPE)
    assert "taken as filled" in shape.declared[0]
    assert shape.mesh.closed


def surfels(radius=0.05, count=1500) -> Splats:
    """Discs that cover a ball."""
    k = np.arange(count) + 0.5
    z, turn = 1 - 2 * k / count, np.pi * (1 + 5**0.5) * k
    normal = np.stack([np.sqrt(1 - z**2) * np.cos(turn), np.sqrt(1 - z**2) * np.sin(turn), z], axis=1)
    axis = np.stack([-normal[:, 1], normal[:, 0], 0 * z], axis=1)  # turns +z into the normal
    quats = np.concatenate([1 + normal[:, 2:], axis], axis=1)
    scale = np.log(np.full((count, 3), 1.2 * radius * np.sqrt(4 / count)))
    return Splats(
        radius * normal,
        quats,
        scale,
        np.full(count, 4.0),
        np.zeros((count, 1, 3)),
        np.zeros(count, int),
        ("ball",),
        True,
    )


def test_surfels_give_the_shape_that_they_cover() -> None:
    shape = shape_from_surfels(surfels(), CAMERAS, RECIPE, silhouettes=MASKS)
    assert chamfer_m(shape.mesh, BALL, 2000)[0] < 0.5 * PIXEL_M
    assert abs(volume_error(shape.mesh, BALL)) < 0.08


def test_loose_parts_and_hollows_are_left_out_and_noted() -> None:
    def two_and_a_hollow(p: np.ndarray) -> np.ndarray:
        big = np.abs(np.linalg.norm(p, axis=-1) - 0.03) - 0.012
        return np.minimum(big, np.linalg.norm(p - 0.065, axis=-1) - 0.01)

    whole, notes = largest_piece(solid(two_and_a_hollow))
    assert len(notes) == 2
    assert "loose parts" in notes[0]
    assert "hollows" in notes[1]
    assert whole.volume_m3 == pytest.approx(4 / 3 * np.pi * 0.042**3, rel=0.02)


def test_smoothing_keeps_the_volume_and_lowers_the_error() -> None:
    stepped = solid(lambda p: np.where(bumpy(p) < 0, -0.004, 0.004))
    soft, true = smoothed(stepped), solid(bumpy, voxel=0.002)
    assert soft.volume_m3 == pytest.approx(stepped.volume_m3, rel=1e-4)
    assert chamfer_m(soft, true, 2000)[0] < 0.8 * chamfer_m(stepped, true, 2000)[0]
    assert smoothed(stepped, 0) is stepped


def test_simplifying_stays_closed_and_where_it_cannot_it_says_so(monkeypatch) -> None:
    fewer, notes = simplified(BALL, 500)
    assert len(fewer.faces) <= 500
    assert not notes
    assert checked(fewer).solid
    monkeypatch.setattr(mesh_mend, "checked", lambda mesh: mesh_mend.Check("NotManifold", 0.0, 0))
    same, notes = simplified(BALL, 500)
    assert same is BALL
    assert "could not be simplified" in notes[0]


def test_where_quadrics_tear_a_wall_edges_are_collapsed_instead(monkeypatch) -> None:
    import fast_simplification

    monkeypatch.setattr(fast_simplification, "simplify", lambda points, faces, **_: (points, faces[:-1]))  # torn open
    fine = smoothed(box_of_voxels())
    fewer, _ = simplified(fine, 400)
    assert len(fewer.faces) < 0.5 * len(fine.faces)
    assert fewer.closed


def box_of_voxels() -> Mesh:
    return solid(lambda p: np.abs(p / (0.05, 0.03, 0.02)).max(axis=-1) * 0.03 - 0.03)


def test_nonsense_is_refused() -> None:
    with pytest.raises(MeshError, match="at least 8 voxels"):
        ShapeRecipe(across=2)
    with pytest.raises(MeshError, match="no depth pictures"):
        shape_from_depth([])
    with pytest.raises(MeshError, match="show the object; 2"):
        shape_from_masks(MASKS[:1])
    with pytest.raises(MeshError, match="inside the box"):
        shape_from_depth(MAPS, RECIPE, box=(np.full(3, 5.0), np.full(3, 5.1)))
    with pytest.raises(MeshError, match="0 points of the object"):
        shape_from_depth([DepthMap(np.zeros((80, 96)), CAMERAS[0])])
    apart = [Silhouette(np.roll(each.mask, 26 * (k % 3 - 1), axis=0), each.camera) for k, each in enumerate(MASKS)]
    with pytest.raises(MeshError, match="agree on no place"):
        shape_from_masks(apart, RECIPE)
    with pytest.raises(MeshError, match="has no end"):
        shape_from_masks([MASKS[1], MASKS[1]], RECIPE)
    grid = Grid.over(np.zeros(3), np.ones(3), 0.2)
    with pytest.raises(MeshError, match="nothing is inside"):
        meshed(Field(grid, np.ones(grid.shape)))


def test_a_mesh_that_bounds_no_solid_does_not_come_out(monkeypatch) -> None:
    from twinproof.reconstruct import shape

    monkeypatch.setattr(shape, "checked", lambda mesh: mesh_mend.Check("NotManifold", 0.0, 0))
    with pytest.raises(MeshError, match="does not bound a solid"):
        shape_from_masks(MASKS, RECIPE)


@pytest.mark.parametrize(
    ("package", "call"),
    [("skimage.measure", lambda: solid(bumpy)), ("fast_simplification", lambda: simplified(BALL, 100))],
)
def test_a_missing_package_names_its_extra(monkeypatch, package, call) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=r"twinproof\[mesh\]"):
        call()


def test_without_manifold3d_nothing_is_called_solid(monkeypatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="manifold3d"):
        checked(box())


def test_walls_that_came_to_share_an_edge_are_parted() -> None:
    one, other = box((0.1, 0.1, 0.1)), box((0.1, 0.1, 0.1), (0.1, 0.1, 0))
    touching = welded(Mesh(np.vstack([one.vertices, other.vertices]), np.vstack([one.faces, other.faces + 8])))
    assert not touching.closed  # four faces at the edge between them
    parted = mesh_mend._parted(touching)
    assert parted.closed
    assert welded(parted).closed
    assert parted.volume_m3 == pytest.approx(touching.volume_m3, rel=1e-4)
