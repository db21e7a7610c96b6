"""A picture's part around the object, made ready for a descent: tensors where they are computed with, a lens that
moved with the cut.

On a GPU all cuts have one size, so that several are drawn at once; what lies beyond a picture's border is not known.
"""

# mypy: allow-untyped-calls, allow-untyped-defs, allow-incomplete-defs
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from twinproof.sim.render_camera import Camera, Lens, pixel_rays
from twinproof.sim.silhouette import Silhouette
from twinproof.sim.splat.lens import packed

if TYPE_CHECKING:
    from jaxtyping import Float, UInt8

INSIDE_PX = 3.0  # from there on no disc of the border mixes in


@dataclass(frozen=True, eq=False)
class Sight:
    """What one picture shows of the object: where it is, its colours, its depth (m, 0: not known)."""

    silhouette: Silhouette
    rgb: UInt8[np.ndarray, "H W 3"] | None = None
    depth_m: Float[np.ndarray, "H W"] | None = None

    @property
    def shown(self) -> bool:
        """Whether any pixel is the object's."""
        return bool((self.silhouette.mask == 1).any())


@dataclass(frozen=True, eq=False)
class Target:
    """One picture cut to the object and made ready."""

    camera: Camera
    lens: Any  # (1, 18); stays on this side, as sizes are read from it
    T_camera_world: Any  # (1, 4, 4)
    rays: Any  # (H, W, 2): x and y of every pixel's ray (x, y, 1)
    distance: np.ndarray  # px to the silhouette's edge, above 0 outside
    mask: Any  # (H, W) float: the alpha that the object should have
    inside: Any  # 1 where the object is, away from its edge
    known: Any
    rgb: Any | None
    depth: Any | None

    @property
    def focal_px(self) -> float:
        """The focal length."""
        return self.camera.lens.fx


def targets_of(sights: Sequence[Sight], margin_px: int, device: str = "cpu", alike: bool = False) -> list[Target]:
    """The pictures that show the object, each cut to it; with `alike` all as large as the largest."""
    shown = [sight for sight in sights if sight.shown]
    cuts = [_cut(sight.silhouette.mask == 1, margin_px) for sight in shown]
    sizes = [(rows.stop - rows.start, columns.stop - columns.start) for rows, columns in cuts]
    if alike and sizes:
        sizes = [(max(height for height, _ in sizes), max(width for _, width in sizes))] * len(sizes)
    return [_target(sight, cut, size, device) for sight, cut, size in zip(shown, cuts, sizes, strict=True)]


def together(batch: Sequence[Target]) -> list[list[int]]:
    """The places in a batch of what can be drawn at once: pictures of one size."""
    by_size = dict[tuple[int, ...], list[int]]()
    for k, target in enumerate(batch):
        by_size.setdefault(target.distance.shape, []).append(k)
    return list(by_size.values())


def _cut(own: np.ndarray, margin: int) -> tuple[slice, slice]:
    """Rows and columns around the object, within the picture."""
    rows, columns = np.nonzero(own.any(axis=1))[0], np.nonzero(own.any(axis=0))[0]
    reach = margin + max(len(rows), len(columns)) // 8
    (height, width), (top, left) = own.shape, (max(rows[0] - reach, 0), max(columns[0] - reach, 0))
    return (
        slice(int(top), min(int(rows[-1]) + 1 + reach, height)),
        slice(int(left), min(int(columns[-1]) + 1 + reach, width)),
    )


def _target(sight: Sight, cut: tuple[slice, slice], size: tuple[int, int], device: str) -> Target:
    camera, (rows, columns) = sight.silhouette.camera, cut
    within = (slice(rows.start, rows.start + size[0]), slice(columns.start, columns.start + size[1]))

    def part(plane: np.ndarray, beyond: float) -> np.ndarray:
        found = plane[within]
        missing = [(0, size[k] - found.shape[k]) for k in (0, 1)] + [(0, 0)] * (found.ndim - 2)
        return np.pad(found, missing, constant_values=beyond)

    def sent(plane: np.ndarray) -> Any:
        return torch.tensor(np.asarray(plane, np.float32), device=device)

    mask, lens = part(sight.silhouette.mask, -1), camera.lens
    lens = Lens(size[1], size[0], lens.fx, lens.fy, lens.cx - columns.start, lens.cy - rows.start, lens.distortion)
    moved = Camera(lens, camera.T_world_camera)
    distance = Silhouette(mask, moved).distance_px()
    return Target(
        moved,
        torch.tensor(packed(lens))[None],
        torch.tensor(np.linalg.inv(camera.T_world_camera), device=device)[None],
        sent(pixel_rays(lens)),
        distance,
        sent(mask == 1),
        sent((distance < -INSIDE_PX) & (mask == 1)),
        sent(mask >= 0),
        None if sight.rgb is None else sent(part(sight.rgb, 0) / 255),
        None if sight.depth_m is None else sent(part(sight.depth_m, 0)),
    )
