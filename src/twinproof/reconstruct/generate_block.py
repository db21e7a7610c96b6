"""An object's shape from a model of the user's, in the size and place that its outlines ask for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinproof.nouns.errors import TwinError
from twinproof.nouns.views import Views
from twinproof.reconstruct.depth_shape import points_on
from twinproof.reconstruct.generate import Generator
from twinproof.reconstruct.generate_check import admit
from twinproof.reconstruct.generate_fit import Outline, fit_similarity
from twinproof.reconstruct.object_block import FoundObject
from twinproof.sim.grid import Plane
from twinproof.sim.splat.placed import placed


def generated(
    views: Views, group: str, name: str, table: Plane, generator: Generator, notes: Sequence[str] = ()
) -> FoundObject:
    """A model's shape, made from the view that shows most of the object, in the size and place that outlines ask for.

    Depth, where there is some, tells its size too, and one view is enough then. It must agree with every view and rest
    on the table; it is declared.
    """
    from twinproof.reconstruct.surface import bind  # needs torch

    number = views.groups.index(group)
    shown = [v for v in views.views if v.mask is not None and (v.mask == number).any()]
    if not shown:
        raise TwinError(f"{name} is in no view at rest, so no model can complete it. Point at it: --click.")
    best = max(shown, key=lambda view: int(np.sum(view.mask == number)))
    made = generator.complete(best.rgb, np.asarray(best.mask == number), best.depth_m, best.intrinsics)
    outlines = [Outline(np.asarray(v.mask == number), v.intrinsics, v.T_world_camera) for v in shown]
    points = points_on(views, group)
    fit = fit_similarity(made.mesh, points if len(points) else None, outlines)
    passed = admit(made, fit, outlines, np.array([*table.normal, table.offset_m]))
    middle = np.eye(4)
    middle[:3, 3] = (passed.mesh.vertices.min(axis=0) + passed.mesh.vertices.max(axis=0)) / 2
    back = np.linalg.inv(middle)
    splats = bind(passed.mesh, per_face=1, group=name).splats() if passed.splats is None else passed.splats
    iou = {view.name: passed.figures[f"iou {k}"] for k, view in enumerate(shown)}
    reason = f"the shape of {name} was {passed.source.reason}"
    return FoundObject(
        name, passed.mesh.moved(back), placed(splats, back), middle, iou, (*notes, *views.notes), (reason,),
        made_by=passed.source.reason,
    )  # fmt: skip
