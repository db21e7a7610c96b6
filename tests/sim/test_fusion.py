"""Fusion of depth: the fast way and the plain way agree, a ball comes out as a ball, and nonsense is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.shapes import BENT, LENS, around, ball_depth
from twinproof.nouns.errors import MeshError
from twinproof.sim.fusion import DepthMap, fuse, fuse_plainly
from twinproof.sim.grid import Field, Grid, Plane

GRID = Grid.over(np.full(3, -0.075), np.full(3, 0.075), 0.005)


def maps(count=6, lens=LENS, **other) -> list[DepthMap]:
    return [DepthMap(ball_depth(camera), camera, **other) for camera in around(count, lens=lens)]


@pytest.mark.parametrize("lens", [LENS, BENT])
def test_the_fast_way_and_the_plain_way_agree(lens) -> None:
    some = [
        DepthMap(each.depth_m, each.camera, np.full(each.depth_m.shape, 0.5 + k))
        for k, each in enumerate(maps(4, lens))
    ]
    fast, plain = fuse(GRID, some, 0.015, threads=2), fuse_plainly(GRID, some, 0.015)
    assert (fast.weight > 0).mean() > 0.05
    assert fast.weight == pytest.approx(plain.weight, abs=1e-5)
    assert fast.distance_m == pytest.approx(plain.distance_m, abs=1e-6)


def test_a_ball_comes_out_with_its_radius_to_a_quarter_of_a_pixel() -> None:
    volume = fuse(GRID, maps(16), 0.015)
    radius = np.linalg.norm(GRID.points(), axis=-1)
    near = (volume.weight > 2) & (np.abs(radius - 0.05) < 0.005) & (np.abs(GRID.points()[..., 2]) < 0.03)
    assert near.sum() > 500
    error = (volume.distance_m - (radius - 0.05))[near & (np.abs(volume.distance_m) < 0.002)]
    pixel_m = 0.5 / 110
    assert np.abs(error).mean() < 0.25 * pixel_m
    assert abs(np.median(error)) < 0.1 * pixel_m


def test_the_number_of_threads_changes_nothing() -> None:
    one, two = fuse(GRID, maps(10), 0.015, threads=1), fuse(GRID, iter(maps(10)), 0.015, threads=2)
    assert np.array_equal(one.distance_m, two.distance_m)
    assert np.array_equal(one.weight, two.weight)


def test_colours_are_kept_near_the_surface() -> None:
    red = np.zeros((80, 96, 3), np.uint8)
    red[..., 0] = 255
    volume = fuse(GRID, maps(4, rgb=red), 0.015)
    near = np.abs(volume.distance_m) < 0.005
    assert volume.colour[near].mean(axis=0) == pytest.approx([1, 0, 0], abs=1e-5)


def test_pixels_without_confidence_do_not_count() -> None:
    nothing = fuse(GRID, maps(4, weight=np.zeros((80, 96))), 0.015)
    assert not nothing.weight.any()
    assert (nothing.known(-1.0).distance_m == -1).all()


def test_a_field_is_read_between_voxels_and_at_its_border() -> None:
    field = Field(GRID, GRID.points()[..., 0])
    assert field.at(np.array([[0.0123, 0.01, -0.07], [9, 0, 0]])) == pytest.approx([0.0123, GRID.high[0]])


def test_nonsense_is_refused() -> None:
    camera = around(1)[0]
    with pytest.raises(MeshError, match="depth_m has the shape"):
        DepthMap(np.zeros((3, 3)), camera)
    with pytest.raises(MeshError, match="below 0 or not finite"):
        DepthMap(np.full((80, 96), np.nan), camera)
    with pytest.raises(MeshError, match="wider than a voxel"):
        fuse(GRID, maps(1), 0.005)
    with pytest.raises(MeshError, match="some have colours"):
        fuse(GRID, [*maps(1, rgb=np.zeros((80, 96, 3), np.uint8)), *maps(1)], 0.015)
    with pytest.raises(MeshError, match="Choose a tighter box"):
        Grid.over(np.zeros(3), np.full(3, 100.0), 0.001)
    with pytest.raises(MeshError, match="is empty"):
        Grid.over(np.zeros(3), np.zeros(3), 0.001)
    with pytest.raises(MeshError, match="Give finite metres"):
        Grid(np.full(3, np.nan), 0.1, (3, 3, 3))
    with pytest.raises(MeshError, match="Give one each"):
        Field(GRID, np.zeros((2, 2, 2)))
    with pytest.raises(MeshError, match="has not the length 1"):
        Plane((0, 0, 2.0), 0.0)
