"""One mask that lacks half of the object does not cut the object in half."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.reconstruct.planted import pictures
from tests.reconstruct.solids import ball
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.views import Views
from twinproof.reconstruct.masks_agree import agreed
from twinproof.reconstruct.shape import ShapeRecipe, shape_from_masks
from twinproof.reconstruct.surface_refine import sights_of
from twinproof.sim.grid import Plane

LOW = Plane(offset_m=-0.06)


def with_half_a_mask(mesh: Mesh, count: int) -> Views:
    views, _ = pictures(mesh, count)
    mask = np.array(views.views[1].mask)
    rows = np.nonzero((mask == 1).any(axis=1))[0]
    mask[: int(rows.mean())] = 0
    halved = replace(views.views[1], mask=mask)
    return replace(views, views=(views.views[0], halved, *views.views[2:]))


def volume(views: Views) -> float:
    outlines = [sight.silhouette for sight in sights_of(views, "thing")]
    return shape_from_masks(outlines, ShapeRecipe(across=40), support=LOW).volume_m3


def test_what_one_mask_leaves_out_is_not_known_there() -> None:
    mesh = ball(voxel=0.006)
    views, whole = with_half_a_mask(mesh, 12), pictures(mesh, 12)[0]
    mended = agreed(views, "thing", LOW)
    assert volume(views) < 0.8 * volume(whole)
    assert volume(mended) == pytest.approx(volume(whole), rel=0.05)
    assert "masks of view_1 leave out" in mended.notes[-1]
    changed = [k for k, (a, b) in enumerate(zip(views.views, mended.views, strict=True)) if a is not b]
    assert changed == [1]
    assert np.array_equal(mended.views[1].mask == 1, views.views[1].mask == 1)


def test_masks_that_agree_and_views_that_are_few_stay() -> None:
    mesh = ball(voxel=0.006)
    whole, few = pictures(mesh, 12)[0], with_half_a_mask(mesh, 6)
    assert agreed(whole, "thing", LOW) is whole
    assert agreed(few, "thing", LOW) is few
