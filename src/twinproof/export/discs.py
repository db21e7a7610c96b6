"""Discs for viewers that draw volumes: large ones near a camera are cut, as such viewers smear them over the picture.

Most viewers draw a Gaussian as if the lens were linear around its centre. That is wrong for a disc that is large for
its distance: seen at a slant, one that lies beside the picture fogs all of it. Our discs are drawn exactly; cut into
smaller ones, they look alike in both ways of drawing.

exp(-x²/2σ²) is a sum of narrower ones whose weights are Gaussian too (a convolution). Opacities do not add, but optical
depths do: each piece takes its share of the depth -ln(1 - opacity) at its place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.splats import Splats
from twinproof.sim.splat.placed import as_volumes

if TYPE_CHECKING:
    from jaxtyping import Float

SHARE = 0.12  # of the distance to the nearest camera: how large a disc may stay
STEP = 1.5  # between pieces, in their own size: closer ones hide each other in part
REACH = 2.6  # how far pieces are laid, in sizes of what they stand for
MOST = 20  # pieces along one axis
NEAREST_M = 0.05
FAINT = 1e-3  # optical depth of a piece that is left out


def cut_discs(splats: Splats, eyes_m: Float[np.ndarray, "C 3"]) -> tuple[Splats, int]:
    """Volumes that look like the discs from the cameras, each in its disc's place in the order; how many were cut."""
    volumes = as_volumes(splats)
    if not splats.flat or not len(eyes_m):
        return volumes, 0
    sizes = np.exp(splats.log_scales[:, :2].astype(float))
    apart = np.linalg.norm(splats.means[:, None].astype(float) - eyes_m[None], axis=2).min(axis=1)
    allowed = np.maximum(SHARE * np.maximum(apart, NEAREST_M)[:, None], sizes * 2 * REACH / STEP / MOST)
    large = np.flatnonzero((sizes > allowed).any(axis=1)).tolist()
    pieces = {k: _pieces(volumes, k, np.minimum(sizes[k], allowed[k])) for k in large}
    counts = np.ones(len(splats), int)
    counts[large] = [len(pieces[k][0]) for k in large]
    whole = volumes.take(np.repeat(np.arange(len(splats)), counts))
    means, scales, logits = whole.means.copy(), whole.log_scales.copy(), whole.logit_opacities.copy()
    for k, first in zip(large, (np.cumsum(counts) - counts)[large].tolist(), strict=True):
        run = slice(first, first + int(counts[k]))
        means[run], scales[run, :2], opacity = pieces[k]
        logits[run] = np.log(opacity / (1 - opacity))
    return replace(whole, means=means, log_scales=scales, logit_opacities=logits), len(large)


def _pieces(volumes: Splats, k: int, part_m: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places, log sizes along both axes and opacities of the pieces of disc k, which are part_m large."""
    from scipy.spatial.transform import Rotation

    whole_m = np.exp(volumes.log_scales[k, :2].astype(float))
    along, profile, size_m, share = list[np.ndarray](), list[np.ndarray](), list[float](), 1.0
    for whole, part in zip(whole_m.tolist(), part_m.tolist(), strict=True):
        if part > 0.9 * whole:
            along.append(np.zeros(1))
            profile.append(np.ones(1))
            size_m.append(whole)
            continue
        places = STEP * part * np.arange(-(count := int(np.ceil(REACH * whole / (STEP * part)))), count + 1)
        narrow = np.sqrt(whole**2 - part**2)  # what the pieces widen is taken off what they follow
        along.append(places)
        profile.append(np.exp(-0.5 * (places / narrow) ** 2))
        share *= STEP / np.sqrt(2 * np.pi) * whole / narrow
        size_m.append(part)
    turn = Rotation.from_quat(np.roll(volumes.quats_wxyz[k].astype(float), -1)).as_matrix()
    u, v = (grid.ravel() for grid in np.meshgrid(*along, indexing="ij"))
    opacity = 1 / (1 + np.exp(-float(volumes.logit_opacities[k])))
    depth = -share * np.log1p(-min(opacity, 0.999) * np.outer(*profile).ravel())
    kept = depth > min(FAINT, float(depth.max()) / 2)
    places = volumes.means[k] + u[kept, None] * turn[:, 0] + v[kept, None] * turn[:, 1]
    return places, np.log(size_m), -np.expm1(-depth[kept])
