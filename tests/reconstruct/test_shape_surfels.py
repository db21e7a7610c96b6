"""Surfels of one object from pictures and masks: the background is gone, and the shape is that of the object."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.reconstruct.planted import pictures
from tests.reconstruct.solids import ball, box
from twinproof.nouns.errors import MeshError
from twinproof.nouns.views import Views
from twinproof.reconstruct.gap import chamfer_m
from twinproof.reconstruct.shape import ShapeRecipe
from twinproof.reconstruct.shape_surfels import SURFELS, _points_in, object_only, shape_of_surfels
from twinproof.sim.nearest import Tree
from twinproof.sim.silhouette import Silhouette


def test_points_in_a_mesh_are_inside_and_everywhere() -> None:
    points = _points_in(box((0.1, 0.06, 0.04), (1, 0, 0)), 500, 0)
    assert (np.abs(points - [1, 0, 0]) < [0.05, 0.03, 0.02]).all()
    assert np.ptp(points, axis=0) == pytest.approx([0.1, 0.06, 0.04], rel=0.1)


def test_the_background_is_black_and_points_start_on_and_in_the_hull() -> None:
    hull = ball(voxel=0.01)
    views, _ = pictures(hull, 3)
    alone = object_only(views, "thing", hull, points=200)
    first = alone.views[0]
    assert first.rgb[views.views[0].mask == 0].max() == 0
    assert (first.mask == 0).all()
    assert len(alone.points) == 200
    assert (Tree.of(hull).nearest(alone.points)[0] < 1e-6).sum() == 100
    assert alone.groups == ("thing",)


def test_surfels_of_a_ball_cover_a_ball() -> None:
    true = ball(voxel=0.004)
    views, cameras = pictures(true, 6, size=(64, 56), focal=110.0)
    silhouettes = [
        Silhouette(view.mask.astype(np.int8), camera) for view, camera in zip(views.views, cameras, strict=True)
    ]
    recipe = replace(SURFELS, iterations=25, sizes=((0.0, 1),))
    alone = object_only(views, "thing", true, points=800)
    shape, splats = shape_of_surfels(alone, silhouettes, recipe, ShapeRecipe(across=32, faces=1500))
    assert splats.groups == ("thing",)
    assert splats.flat
    assert shape.mesh.closed
    assert chamfer_m(shape.mesh, true, 2000)[0] < 0.003


def test_nonsense_is_refused() -> None:
    views, _ = pictures(box(), 2)
    with pytest.raises(MeshError, match="no group 'cup'"):
        object_only(views, "cup", box())
    bare = Views(tuple(replace(view, mask=None) for view in views.views), groups=views.groups)
    with pytest.raises(MeshError, match="has a mask"):
        object_only(bare, "thing", box())
