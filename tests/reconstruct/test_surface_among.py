"""Discs of the background that hang over an object are held back, and the rest stays where it was."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.reconstruct.planted import pictures  # noqa: E402
from tests.reconstruct.solids import ball, box  # noqa: E402
from twinproof.nouns.splats import SH0, Splats, joined  # noqa: E402
from twinproof.reconstruct.surface_among import Among, settled_among  # noqa: E402
from twinproof.reconstruct.surface_refine import Refining, coloured, sights_of  # noqa: E402
from twinproof.sim.splat.render import render  # noqa: E402


def discs(places: np.ndarray, grey: float, size_m: float) -> Splats:
    """Grey discs that look along z."""
    n = len(places)
    return Splats(
        places, np.tile([1.0, 0, 0, 0], (n, 1)), np.full((n, 3), np.log(size_m)), np.full(n, 1.5),
        np.full((n, 1, 3), (grey - 0.5) / SH0), np.zeros(n, int), ("background",), flat=True,
    )  # fmt: skip


def off(splats: Splats, view, camera) -> float:
    """Mean square within the object's mask."""
    drawn = render(splats, camera).colour
    return float(((drawn - view.rgb / 255) ** 2)[view.mask == 1].mean())


def test_discs_over_the_object_are_held_back_and_others_stay() -> None:
    mesh = ball(voxel=0.006)
    views, cameras = pictures(mesh, 9)
    kept = sights_of(type(views)((views.views[0], *views.views[2:]), groups=views.groups), "thing")
    thing = coloured(mesh, kept, "thing", Refining(colour_steps=30, bands=4))
    over = np.array([[0.0, 0.0, 0.06], [0.045, 0.03, 0.03]])
    far = np.array([[0.3, 0.0, 0.0], [0.0, -0.3, 0.0], [0.0, 0.0, -0.3]])
    behind = discs(np.concatenate([over, far]), 0.9, 0.02)
    after, own = settled_among(behind, thing, kept, Among())
    apart = (views.views[1], cameras[1])
    hung, held, bare = (off(s, *apart) for s in (joined([behind, thing]), joined([after, own]), thing))
    assert held - bare < 0.3 * (hung - bare)
    assert after.logit_opacities[:2].max() < behind.logit_opacities[:2].min() - 0.5
    assert np.array_equal(after.sh, behind.sh)
    for name in ("means", "log_scales", "logit_opacities"):
        assert np.array_equal(getattr(after, name)[2:], getattr(behind, name)[2:])
    assert np.array_equal(own.means, thing.means)  # the shape is not touched
    assert own.sh.shape == thing.sh.shape
    assert (after.groups, own.groups) == (behind.groups, thing.groups)


def test_without_colours_nothing_changes() -> None:
    mesh = box()
    views, _ = pictures(mesh, 3)
    thing, behind = (
        coloured(mesh, sights_of(views, "thing"), "thing", Refining(colour_steps=1)),
        discs(np.zeros((1, 3)), 0.5, 0.01),
    )
    bare = [type(sight)(sight.silhouette) for sight in sights_of(views, "thing")]
    assert settled_among(behind, thing, bare) == (behind, thing)
