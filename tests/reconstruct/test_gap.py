"""Distances between shapes: exact where they can be said, the same both ways, and refused where they mean nothing."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reconstruct.solids import ball, box
from twinproof.nouns.errors import MeshError
from twinproof.nouns.mesh import Mesh
from twinproof.reconstruct.gap import chamfer_m, collision_gap, gap, points_on, volume_error
from twinproof.sim.nearest import Tree, on_triangle


def test_the_tree_finds_what_trying_all_triangles_finds() -> None:
    mesh, points = ball(voxel=0.012), np.random.default_rng(0).normal(0, 0.06, (200, 3))
    distance, face, place = Tree.of(mesh).nearest(points, threads=2)
    corners = mesh.vertices[mesh.faces]
    tried = np.array([[on_triangle(t, *p) for t in corners] for p in points])
    every = np.linalg.norm(tried - points[:, None], axis=-1)
    assert distance == pytest.approx(every.min(axis=1), abs=1e-12)
    assert np.take_along_axis(every, face[:, None], 1)[:, 0] == pytest.approx(distance, abs=1e-12)
    assert np.linalg.norm(place - points, axis=1) == pytest.approx(distance, abs=1e-12)


@pytest.mark.parametrize("point", [(2, 0, 1), (-1, -1, 1), (0.2, 0.2, 3), (0.9, 0.9, 0), (-1, 2, 0), (0.5, -1, 0)])
def test_the_nearest_point_of_a_triangle_is_where_sampling_finds_it(point) -> None:
    t = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0.0]])
    s, r = np.meshgrid(np.linspace(0, 1, 401), np.linspace(0, 1, 401))
    inside = (s + r) <= 1
    fine = np.stack([s[inside], r[inside], 0 * s[inside]], axis=1)
    best = fine[np.linalg.norm(fine - point, axis=1).argmin()]
    assert on_triangle(t, *map(float, point)) == pytest.approx(best, abs=0.003)


def test_points_lie_on_the_mesh_and_evenly() -> None:
    mesh = box()
    points = points_on(mesh, 4000)
    assert Tree.of(mesh).nearest(points)[0].max() < 1e-12
    top = (points[:, 2] > 0.02 - 1e-9).mean()
    assert top == pytest.approx(0.1 * 0.06 / (2 * (0.1 * 0.06 + 0.1 * 0.04 + 0.06 * 0.04)), abs=0.02)


def test_a_shape_grown_by_a_millimetre_is_a_millimetre_away() -> None:
    small, large = ball(0.05), ball(0.051)
    found = gap(small, large, 3000)
    assert found.chamfer_m == pytest.approx(0.001, abs=5e-5)
    assert found.volume_ratio == pytest.approx(1.02**3, rel=0.01)
    assert chamfer_m(small, large, 3000) == (found.chamfer_m, found.p95_m)
    assert volume_error(large, small) == pytest.approx(found.volume_ratio - 1)
    assert found.as_json()["worst_m"] < 0.002


def test_sides_where_parts_meet_do_not_count_in_the_collision_gap() -> None:
    whole = box((0.1, 0.06, 0.04))
    halves = [box((0.06, 0.06, 0.04), (-0.02, 0, 0)), box((0.06, 0.06, 0.04), (0.02, 0, 0))]
    found = collision_gap(whole, halves, 2000)
    assert found.chamfer_m < 1e-6
    assert found.volume_ratio == pytest.approx(1, rel=1e-5)


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(MeshError, match="no area"):
        points_on(Mesh(np.zeros((3, 3)), np.array([[0, 1, 2]])))
    with pytest.raises(MeshError, match="no collision part"):
        collision_gap(box(), [])
