"""The visual hull: blocks change nothing, a ball comes out, a few wrong masks do no harm, the unknown cuts nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import distance_transform_edt

from tests.sim.shapes import BENT, LENS, around, ball_depth
from twinproof.nouns.errors import MeshError
from twinproof.sim.grid import Grid, Plane
from twinproof.sim.hull import hull, hull_plainly
from twinproof.sim.silhouette import Silhouette, distances_px

GRID = Grid.over(np.full(3, -0.1), np.full(3, 0.1), 0.004)
RADIUS = np.linalg.norm(GRID.points(), axis=-1)


def silhouettes(count=12, lens=LENS) -> list[Silhouette]:
    return [Silhouette((ball_depth(camera) > 0).astype(np.int8), camera) for camera in around(count, lens=lens)]


def with_unknown(views: list[Silhouette]) -> list[Silhouette]:
    """The same with a stripe across each picture that nobody knows."""
    hidden = []
    for k, each in enumerate(views):
        mask = each.mask.copy()
        mask[:, 8 * k % 80 : 8 * k % 80 + 15] = -1
        hidden.append(Silhouette(mask, each.camera))
    return hidden


def test_distances_are_those_of_scipy_and_far_where_there_is_nothing() -> None:
    mask = np.random.default_rng(0).random((37, 53)) < 0.02
    assert distances_px(mask) == pytest.approx(distance_transform_edt(~mask))
    assert (distances_px(np.zeros((4, 5), bool)) > 1e8).all()


@pytest.mark.parametrize(("lens", "share"), [(LENS, 0.0), (LENS, 0.2), (BENT, 0.0)])
def test_blocks_change_nothing_near_the_surface(lens, share) -> None:
    views = with_unknown(silhouettes(8, lens))
    fast = hull(GRID, views, wrong_share=share, threads=2).distance_m
    plain = hull_plainly(GRID, views, wrong_share=share).distance_m
    assert np.array_equal(fast < 0, plain < 0)
    near = np.abs(plain) < 0.01
    assert fast[near] == pytest.approx(plain[near], abs=1e-6)


def test_a_ball_comes_out_with_its_radius_to_a_fifth_of_a_pixel() -> None:
    field = hull(GRID, silhouettes(16)).distance_m
    belt = (np.abs(RADIUS - 0.05) < 0.004) & (np.abs(GRID.points()[..., 2]) < 0.02)
    pixel_m = 0.5 / 110
    assert np.median(field[belt] - (RADIUS[belt] - 0.05)) == pytest.approx(0, abs=0.2 * pixel_m)


def test_a_few_wrong_masks_cut_nothing_off_where_that_is_allowed() -> None:
    views = silhouettes(12)
    wrong = [Silhouette(np.zeros((80, 96), np.int8), views[3].camera), *views[:3], *views[4:]]
    assert (hull(GRID, wrong).distance_m < 0).sum() == 0
    inside = RADIUS < 0.045
    assert (hull(GRID, wrong, wrong_share=0.1).distance_m[inside] < 0).all()
    # It costs a little: where one view alone cuts, the hull keeps more.
    more = (hull(GRID, views, wrong_share=0.1).distance_m < 0).sum() / (hull(GRID, views).distance_m < 0).sum()
    assert 1 <= more < 1.3


def test_what_hides_the_object_cuts_nothing_off() -> None:
    inside = RADIUS < 0.045
    assert (hull(GRID, with_unknown(silhouettes(12))).distance_m[inside] < 0).all()


def test_a_support_plane_closes_the_hull() -> None:
    field = hull(GRID, silhouettes(12), support=Plane(offset_m=-0.02)).distance_m
    z = GRID.points()[..., 2]
    assert not (field[z < -0.021] < 0).any()
    assert (field[(RADIUS < 0.045) & (z > -0.019)] < 0).all()


def test_nonsense_is_refused() -> None:
    views = silhouettes(3)
    with pytest.raises(MeshError, match="must know a voxel"):
        hull(GRID, views[:1])
    with pytest.raises(MeshError, match="below 0.5"):
        hull(GRID, views, wrong_share=0.6)
    with pytest.raises(MeshError, match="no silhouette shows the object"):
        hull(GRID, [Silhouette(np.zeros((80, 96), np.int8), each.camera) for each in views])
    with pytest.raises(MeshError, match="the mask has the shape"):
        Silhouette(np.zeros((3, 3), np.int8), views[0].camera)
    with pytest.raises(MeshError, match="Write 1, 0, and -1"):
        Silhouette(np.full((80, 96), 2), views[0].camera)
