"""How good a fitted scene is: pictures that the fit never saw, drawn and compared.

A held-out picture's exposure is not known without looking at it, so it is taken from its neighbours by name among the
fitted ones. Three figures: PSNR, SSIM, and FLIP, a perceptual distance that needs no downloaded weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from twinproof.nouns.splats import SH0, Splats
from twinproof.nouns.views import PosedView, Views
from twinproof.reconstruct.splat_fit import Fitted, lens_of
from twinproof.reconstruct.splat_state import seen_in
from twinproof.sim.picture_distance import flip, psnr, ssim
from twinproof.sim.render_camera import Camera
from twinproof.sim.splat.render import CPU, Device, render


@dataclass(frozen=True)
class Judged:
    """One held-out view: its figures, and the picture that was drawn for it."""

    name: str
    psnr_db: float
    ssim: float
    flip: float
    drawn: np.ndarray  # (H, W, 3) uint8


def held_out(views: Views, every: int) -> tuple[Views, Views]:
    """What is fitted, and every so-manieth view (the first one too), which is not; 0 holds none out."""
    kept = [view for k, view in enumerate(views.views) if not every or k % every]
    apart = [view for k, view in enumerate(views.views) if every and not k % every]
    return replace(views, views=tuple(kept)), replace(views, views=tuple(apart))


def settled(fitted: Fitted) -> Fitted:
    """The same scene with the views' median exposure taken into its colours: seen without any, it looks as they do.

    Gains of all views and colours of all splats can be traded against each other; the fit leaves open which.
    """
    gain, offset = np.median(fitted.exposures[:, 0], axis=0), np.median(fitted.exposures[:, 1], axis=0)
    sh = fitted.splats.sh.astype(float) * gain
    sh[:, 0] += ((gain - 1) * 0.5 + offset) / SH0
    s = fitted.splats
    colours = Splats(s.means, s.quats_wxyz, s.log_scales, s.logit_opacities, sh, s.group, s.groups, s.flat)
    exposures = fitted.exposures.astype(float).copy()
    exposures[:, 0] /= gain
    exposures[:, 1] -= exposures[:, 0] * offset
    return replace(fitted, splats=colours, exposures=exposures)


def exposure_for(name: str, fitted_names: Sequence[str], exposures: np.ndarray) -> np.ndarray:
    """Mean exposure of the fitted views whose names stand before and after."""
    order = np.argsort(fitted_names)
    at = int(np.searchsorted(np.asarray(fitted_names)[order], name))
    beside = [order[k] for k in (at - 1, at) if 0 <= k < len(order)]
    mean: np.ndarray = exposures[beside].mean(axis=0)
    return mean


Shading = Callable[[PosedView], np.ndarray]  # what a view's camera multiplies its pixels with (H, W, 3)


def drawn(
    splats: Splats, view: PosedView, exposure: np.ndarray, device: Device = CPU, shading: Shading | None = None
) -> np.ndarray:
    """The view as the scene shows it, 0 to 1."""
    picture = render(splats, Camera(lens_of(view), view.T_world_camera), device).colour * exposure[0] + exposure[1]
    shown: np.ndarray = np.clip(picture if shading is None else picture * shading(view), 0, 1)
    return shown


def judge(
    fitted: Fitted,
    fitted_views: Views,
    apart: Views,
    device: Device = CPU,
    shading: Shading | None = None,
    flips: bool = True,
) -> tuple[Judged, ...]:
    """Figures and pictures of every view that was held out. Without `flips` FLIP, which takes longest, is NaN."""
    names, found = [view.name for view in fitted_views.views], []
    for view in apart.views:
        picture = drawn(fitted.splats, view, exposure_for(view.name, names, fitted.exposures), device, shading)
        counts = None if view.mask is None else view.mask >= 0
        perceived = flip(view.rgb, picture, counts) if flips else float("nan")
        figures = psnr(view.rgb, picture, counts), ssim(view.rgb, picture, counts), perceived
        found.append(Judged(view.name, *figures, (picture * 255 + 0.5).astype(np.uint8)))
    return tuple(found)


def grouped(splats: Splats, views: Views) -> Splats:
    """The splats with the group that most views' masks give to their centres; unseen ones stay as they are."""
    if len(views.groups) < 2:
        return splats
    votes = np.zeros((len(splats), len(views.groups)), np.int32)
    for view in views.views:
        if view.mask is None:
            continue
        seen, pixels, _ = seen_in(view, splats.means.astype(float), 0.01)
        column, row = np.round(pixels).astype(int).T
        label = view.mask[row, column]
        known = label >= 0
        np.add.at(votes, (seen[known], label[known]), 1)
    group = np.where(votes.any(axis=1), votes.argmax(axis=1), splats.group)
    s = splats
    return Splats(s.means, s.quats_wxyz, s.log_scales, s.logit_opacities, s.sh, group, views.groups, s.flat)
