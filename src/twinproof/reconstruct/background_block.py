"""How the scene behind looks: surfels fitted to views in which robot and objects do not count, judged on others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.splats import Splats, joined
from twinproof.nouns.views import PosedView, Views
from twinproof.sim.grid import Plane
from twinproof.sim.render_camera import Lens, pixel_rays

if TYPE_CHECKING:
    from jaxtyping import Float

LEAST_VIEWS = 8  # fewer show a wall from one side, and any depth would explain them
APART = 8  # one view in so many is kept for judging
REACH_M = 1.2  # points on the table farther away than this are not trusted
POINTS = 6000


@dataclass(frozen=True, eq=False)
class FoundBackground:
    """The surfels, and figures on the views that were kept apart: PSNR (dB) of all that counts and of the object."""

    splats: Splats
    psnr_db: float
    object_psnr_db: float
    views: int
    apart: int


def found_background(
    views: Views, thing: Splats, table: Plane, steps: int, progress: Progress = quiet, device: str = "cpu"
) -> FoundBackground | None:
    """`thing` are the object's surfels where it stands; the views' masks call it 1. None: too few views."""
    from twinproof.reconstruct.splat_fit import fit
    from twinproof.reconstruct.splat_judge import judge
    from twinproof.reconstruct.splat_recipe import Growth, Recipe

    moving = [k for k in range(len(views.views)) if k % APART == APART // 2]
    if len(views.views) - len(moving) < LEAST_VIEWS or steps == 0:
        return None
    shown = [_without(view) for view in views.views]
    points, colours = _on_table(shown, table)
    apart = Views(tuple(shown[k] for k in moving))
    kept = Views(tuple(v for k, v in enumerate(shown) if k not in moving), points, colours)
    recipe = Recipe(iterations=steps, flat=True, degree=0, growth=Growth(most=8000))
    done = fit(kept, recipe, device=device, progress=progress)
    all_of_it = replace(done, splats=joined([done.splats, thing]))
    whole = Views(tuple(views.views[k] for k in moving), groups=views.groups)
    psnr = [each.psnr_db for each in judge(all_of_it, kept, whole)]
    only = [
        replace(v, mask=np.where(v.mask == 1, 0, -1)) for v in whole.views if v.mask is not None and (v.mask == 1).any()
    ]
    inside = [each.psnr_db for each in judge(all_of_it, kept, Views(tuple(only)))] if only else [float("nan")]
    return FoundBackground(done.splats, float(np.mean(psnr)), float(np.mean(inside)), len(kept.views), len(apart.views))


def _without(view: PosedView) -> PosedView:
    """The same view with only the background counting."""
    mask = np.zeros(view.rgb.shape[:2], int) if view.mask is None else np.where(view.mask == 0, 0, -1)
    return replace(view, mask=mask)


def _on_table(views: list[PosedView], table: Plane) -> tuple[Float[np.ndarray, "P 3"], np.ndarray]:
    """Points where pixels of the background meet the table, with their colours."""
    points, colours = list[np.ndarray](), list[np.ndarray]()
    for view in views:
        k, (height, width) = view.intrinsics, view.rgb.shape[:2]
        rays = pixel_rays(Lens(width, height, k.fx, k.fy, k.cx, k.cy, k.distortion))
        along = np.concatenate([rays, np.ones((height, width, 1))], axis=2) @ view.T_world_camera[:3, :3].T
        origin = view.T_world_camera[:3, 3]
        slope = along @ np.array(table.normal)
        far = -float(table.above(origin)) / np.where(np.abs(slope) > 1e-3, slope, np.inf)
        places = origin + far[..., None] * along
        use = (far > 0.02) & (np.linalg.norm(places, axis=2) < REACH_M) & (view.mask == 0)
        rows = np.flatnonzero(use)[:: max(1, int(use.sum() * len(views) / POINTS))]
        points.append(places.reshape(-1, 3)[rows])
        colours.append(view.rgb.reshape(-1, 3)[rows])
    return np.concatenate(points), np.concatenate(colours)
