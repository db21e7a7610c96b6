"""Textures from pictures: the colours of the places they show, nothing through walls, and honest about the unseen."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tests.reconstruct.planted import pictures, shade
from tests.reconstruct.solids import ball, box
from twinproof.nouns.errors import MeshError, MissingExtra
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_files import write_mesh
from twinproof.reconstruct import texture
from twinproof.reconstruct.gap import points_on
from twinproof.reconstruct.mesh_mend import simplified
from twinproof.reconstruct.texture import Photo, bake, looked_up, vertex_colours
from twinproof.sim.mesh_raster import rasterise_flat

MESH = simplified(ball(), 400)[0]


def photos(mesh: Mesh, count: int) -> list[Photo]:
    views, cameras = pictures(mesh, count, size=(160, 140), focal=260.0)
    return [Photo(view.rgb, camera, view.mask == 1) for view, camera in zip(views.views, cameras, strict=True)]


def texels(baked, places: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Colours that the texture gives to places on the mesh, read as a viewer would."""
    rng = np.random.default_rng(0)
    face = rng.integers(0, len(baked.mesh.faces), places)
    weights = rng.dirichlet((1, 1, 1), places)
    uv = np.einsum("nc,ncd->nd", weights, baked.uv[face])
    height, width = baked.texture.shape[:2]
    column, row = (uv[:, 0] * width).astype(int), ((1 - uv[:, 1]) * height).astype(int)
    at = np.einsum("nc,ncd->nd", weights, baked.mesh.vertices[baked.mesh.faces[face]])
    return baked.texture[row.clip(0, height - 1), column.clip(0, width - 1)] / 255, at


def test_the_texture_has_the_colours_of_the_places_it_covers(tmp_path) -> None:
    painted = bake(MESH, photos(MESH, 14), 256)
    assert painted.seen_share > 0.99
    found, places = texels(painted.baked)
    assert np.abs(found - shade(places)).mean() < 0.08
    write_mesh(tmp_path / "ball.glb", painted.baked)


def test_vertices_take_the_colours_of_their_places() -> None:
    coloured, share = vertex_colours(MESH, photos(MESH, 14))
    assert share > 0.99
    assert np.abs(coloured.colours - shade(MESH.vertices)).mean() < 0.08


def test_what_no_picture_sees_is_said_and_filled_from_near() -> None:
    painted = bake(MESH, photos(MESH, 14)[:1], 128)
    assert 0.1 < painted.seen_share < 0.6
    assert "seen by no picture" in painted.declared[0]
    assert painted.baked.texture.min() > 5  # no black anywhere


def test_nothing_is_painted_through_a_wall() -> None:
    near = box((0.1, 0.1, 0.01), (0, 0, 0.05))
    far = box((0.1, 0.1, 0.01), (0, 0, -0.05))
    both = Mesh(np.vstack([near.vertices, far.vertices]), np.vstack([near.faces, far.faces + 8]))
    views, cameras = pictures(both, 14)
    above = int(np.argmax([camera.T_world_camera[2, 3] for camera in cameras]))
    photo = Photo(views.views[above].rgb, cameras[above])
    top_of_far = np.array([[0.0, 0.0, -0.045]])
    with pytest.raises(MeshError, match="no picture sees the mesh"):
        looked_up(both, top_of_far, np.array([[0, 0, 1.0]]), [photo])
    assert looked_up(both, np.array([[0.0, 0.0, 0.055]]), np.array([[0, 0, 1.0]]), [photo])[1].all()


def test_a_look_that_disagrees_counts_little() -> None:
    good = photos(MESH, 14)
    bad = [Photo(255 - good[0].rgb, good[0].camera, good[0].shows), *good[1:]]
    places = points_on(MESH, 300)
    normals = places / np.linalg.norm(places, axis=1, keepdims=True)
    off = np.abs(looked_up(MESH, places, normals, bad)[0] - shade(places)).mean()
    assert off < 0.12


def test_flat_triangles_cover_the_pixels_inside_them() -> None:
    face, weights = rasterise_flat(np.array([[[0, 0], [8, 0], [0, 8.0]]]), (10, 10))
    assert (face >= 0).sum() == 45
    assert weights[0, 0] == pytest.approx([1, 0, 0])


def test_nonsense_is_refused(monkeypatch) -> None:
    some = photos(MESH, 1)
    with pytest.raises(MeshError, match="16 to 8192"):
        bake(MESH, some, 4)
    with pytest.raises(MeshError, match="no pictures"):
        bake(MESH, [], 64)
    with pytest.raises(MeshError, match="Resize one of them"):
        Photo(np.zeros((3, 3, 3), np.uint8), some[0].camera)
    flat = Mesh(np.vstack([MESH.vertices, MESH.vertices[:1]]), np.vstack([MESH.faces, [[0, 0, len(MESH.vertices)]]]))
    with pytest.raises(MeshError, match="xatlas dropped faces"):
        texture._matched(flat, np.arange(9), np.zeros((3, 3), int), np.zeros((9, 2)))
    with pytest.raises(MeshError, match="cover no texel"):
        texture._bled(np.zeros((4, 4, 3)), np.zeros((4, 4), bool))
    monkeypatch.setitem(sys.modules, "xatlas", None)
    with pytest.raises(MissingExtra, match="xatlas"):
        bake(MESH, some, 64)
