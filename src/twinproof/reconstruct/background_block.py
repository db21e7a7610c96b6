"""How the scene behind looks: surfels fitted to views in which robot and objects do not count, judged on others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.splats import Splats, joined
from twinproof.nouns.views import PosedView, Views
from twinproof.reconstruct.background_fill import filled
from twinproof.reconstruct.lens_shade import found_shades, on_plane, said
from twinproof.sim.grid import Plane

if TYPE_CHECKING:
    from jaxtyping import Float

LEAST_VIEWS = 8  # fewer show a wall from one side, and any depth would explain them
APART = 8  # one view in so many is kept for judging
REACH_M = 1.2  # points on the table farther away than this are not trusted
POINTS = 6000


@dataclass(frozen=True, eq=False)
class FoundBackground:
    """The surfels, and figures on the views that were kept apart: PSNR (dB) and SSIM, of all that counts and of the
    object. What nobody saw behind the object is a group of its own (background_fill.MADE_UP)."""

    splats: Splats
    thing: Splats  # the object's surfels that it was judged with
    psnr_db: float
    object_psnr_db: float
    ssim: float
    object_ssim: float
    views: int
    apart: int
    notes: tuple[str, ...] = ()


Looks = Callable[[Views], Splats]  # the object's surfels, in the colours of views


def kept_and_apart(views: Views) -> tuple[Views, Views]:
    """The views that are fitted, and those that are kept for judging: none where there are few."""
    apart = [k for k in range(len(views.views)) if k % APART == APART // 2]
    if len(views.views) - len(apart) < LEAST_VIEWS:
        return views, replace(views, views=())
    kept = tuple(view for k, view in enumerate(views.views) if k not in apart)
    return replace(views, views=kept), replace(views, views=tuple(views.views[k] for k in apart))


def found_background(
    views: Views, thing: Splats, table: Plane, steps: int, progress: Progress = quiet, device: str = "cpu",
    looks: Looks | None = None, more: Sequence[PosedView] = (),
) -> FoundBackground | None:  # fmt: skip
    """`thing` are the object's surfels where it stands; the views' masks call it 1. None: too few views.

    `more` are pictures of the background at other times (at_other_times). What none shows is made up where the table
    is, so that the object can be taken away and leaves neither a hole nor its ghost.

    Lenses darken corners (lens_shade) and exposure drifts from picture to picture. The first is taken out before, the
    background's fit tells the second, and `looks`, where given, makes the object's colours anew from even pictures;
    then both are corrected where they meet (surface_among).
    """
    from twinproof.reconstruct.splat_fit import fit
    from twinproof.reconstruct.splat_judge import judge
    from twinproof.reconstruct.splat_recipe import Growth, Recipe
    from twinproof.reconstruct.surface_among import settled_among
    from twinproof.reconstruct.surface_refine import sights_of

    kept, apart = kept_and_apart(views)
    if not apart.views or steps == 0:
        return None
    raw = [_without(view) for view in (*kept.views, *more)]
    shades = found_shades(Views(tuple(raw)), table)
    shown = [shades.flat(view) for view in raw]
    points, colours = _on_table(shown, table)
    bare = Views(tuple(shown), points, colours)
    recipe = Recipe(iterations=steps, flat=True, degree=0, growth=Growth(most=8000))
    done = fit(bare, recipe, device=device, progress=progress)
    even = _even(bare, done.exposures)
    behind = joined([part for part in filled(done.splats, even, table) if part is not None])
    if looks is not None:
        own = replace(kept, views=_as_masked(even.views, kept.views))
        sights = sights_of(own, kept.groups[1])
        behind, thing = settled_among(behind, looks(own), sights, progress=progress, device=device)
    all_of_it = replace(done, splats=joined([behind, thing]))
    whole = judge(all_of_it, bare, apart, shading=shades.factor, flips=False)
    only = [
        replace(v, mask=np.where(v.mask == 1, 0, -1)) for v in apart.views if v.mask is not None and (v.mask == 1).any()
    ]
    inside = judge(all_of_it, bare, Views(tuple(only)), shading=shades.factor, flips=False) if only else []
    return FoundBackground(
        behind,
        thing,
        _mean([each.psnr_db for each in whole]),
        _mean([each.psnr_db for each in inside]),
        _mean([each.ssim for each in whole]),
        _mean([each.ssim for each in inside]),
        len(kept.views),
        len(apart.views),
        said(shades, raw),
    )


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _even(views: Views, exposures: Float[np.ndarray, "V 2 3"]) -> Views:
    """The pictures as they would be under the exposure that the fitted scene is in."""
    even = [
        replace(view, rgb=np.round(255 * ((view.rgb / 255 - offset) / gain).clip(0, 1)).astype(np.uint8))
        for view, (gain, offset) in zip(views.views, exposures, strict=True)
    ]
    return replace(views, views=tuple(even))


def _as_masked(even: Sequence[PosedView], views: Sequence[PosedView]) -> tuple[PosedView, ...]:
    """The even pictures of the first views, masked as these are."""
    return tuple(replace(one, mask=view.mask) for one, view in zip(even, views, strict=False))


def _without(view: PosedView) -> PosedView:
    """The same view with only the background counting."""
    mask = np.zeros(view.rgb.shape[:2], int) if view.mask is None else np.where(view.mask == 0, 0, -1)
    return replace(view, mask=mask)


def _on_table(views: list[PosedView], table: Plane) -> tuple[Float[np.ndarray, "P 3"], np.ndarray]:
    """Points where pixels of the background meet the table, with their colours."""
    points, colours = list[np.ndarray](), list[np.ndarray]()
    for view in views:
        places, far = on_plane(view, table)
        use = (far > 0.02) & (np.linalg.norm(places, axis=2) < REACH_M) & (view.mask == 0)
        rows = np.flatnonzero(use)[:: max(1, int(use.sum() * len(views) / POINTS))]
        points.append(places.reshape(-1, 3)[rows])
        colours.append(view.rgb.reshape(-1, 3)[rows])
    return np.concatenate(points), np.concatenate(colours)
