"""Masks that leave out what the other views agree on: a hull believes every one of them, and one would cut pieces off.

An arm that comes near the object may take half of it out of a mask. The hull that a tenth of the views may deny is
drawn into each view; where a view's mask leaves out a fifth of it or more, those pixels count as not known from then
on.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinproof.nouns.errors import MeshError
from twinproof.nouns.views import Views
from twinproof.sim.grid import Plane

FEWEST = 10  # views that show the object; fewer cannot outvote one
WRONG_SHARE = 0.1  # of the views that may deny a place
LEFT_OUT = 0.2  # of the object's known pixels
AROUND_PX = 2


def agreed(views: Views, group: str, table: Plane) -> Views:
    """The views, doubtful masks with what the others agree on not known, and a note that names them."""
    from scipy.ndimage import binary_dilation

    from twinproof.reconstruct.shape import ShapeRecipe, shape_from_masks
    from twinproof.reconstruct.surface_refine import sights_of
    from twinproof.sim.mesh_raster import rasterise

    masked = [view for view in views.views if view.mask is not None]
    outlines = {
        view.name: sight.silhouette for view, sight in zip(masked, sights_of(views, group), strict=True) if sight.shown
    }
    if len(outlines) < FEWEST:
        return views
    recipe = ShapeRecipe(across=48, faces=2000, wrong_share=WRONG_SHARE)
    try:
        most = shape_from_masks(list(outlines.values()), recipe, support=table).mesh
    except MeshError:  # the shape itself, made next, says what is wrong
        return views
    mended = dict[str, np.ndarray]()
    for view in masked:
        if view.mask is None or view.name not in outlines:
            continue
        outline = outlines[view.name]
        drawn = rasterise(most, outline.camera).depth_m > 0
        if (drawn & (outline.mask == 0)).sum() > LEFT_OUT * max(1, (drawn & (outline.mask >= 0)).sum()):
            near = binary_dilation(drawn, iterations=AROUND_PX)
            mended[view.name] = np.where(near & (outline.mask == 0), -1, view.mask)
    if not mended:
        return views
    changed = tuple(replace(v, mask=mended[v.name]) if v.name in mended else v for v in views.views)
    note = (
        f"masks of {', '.join(sorted(mended))} leave out a fifth or more of what the others agree on: not known there"
    )
    return replace(views, views=changed, notes=(*views.notes, note))
