"""Masks of one object before a plain backdrop: what differs from the backdrop's colour, and is one piece."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.ndimage import binary_fill_holes, distance_transform_edt, label

from twinproof.nouns.errors import MeshError
from twinproof.nouns.views import PosedView, Views

if TYPE_CHECKING:
    from jaxtyping import Int32, UInt8

OBJECT = "object"
GROUPS = ("background", OBJECT)
REACH = 0.016  # of the longer side: parts this near to each other are one
SMALL_HOLE = 0.01  # of the object's pixels: a smaller spot of the backdrop's colour inside may be a shadow
LEAST = 1e-3  # of the picture: less is no object but noise


@dataclass(frozen=True)
class Backdrop:
    """A backdrop's colour (0 … 255; None: what most of the picture's border shows) and how far from it counts."""

    rgb: tuple[int, int, int] | None = None
    tolerance: float = 0.12  # of the full scale, in the channel that differs most

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < 1 or (self.rgb is not None and not all(0 <= value <= 255 for value in self.rgb)):
            raise MeshError(
                f"backdrop: the colour {self.rgb} with a tolerance of {self.tolerance}. Needed are three numbers from "
                "0 to 255 and a share between 0 and 1."
            )

    def mask(self, rgb: UInt8[np.ndarray, "H W 3"]) -> Int32[np.ndarray, "H W"]:
        """1 on the object, 0 beside it, -1 where a spot inside it has the backdrop's colour: a shadow, or a gap."""
        around = np.concatenate([rgb[0], rgb[-1], rgb[:, 0], rgb[:, -1]])
        colour = np.median(around, axis=0) if self.rgb is None else np.array(self.rgb)
        differs = np.abs(rgb - colour).max(axis=2) > 255 * self.tolerance
        whole = _largest(_closed(differs, max(1, round(REACH * max(rgb.shape[:2])))))
        if whole.sum() < LEAST * whole.size:
            return np.zeros(whole.shape, np.int32)
        return np.where(_without_spots(whole), np.where(differs, 1, -1), 0).astype(np.int32)


def cut_out(views: Views, backdrop: Backdrop | None = None, group: str = "") -> Views:
    """The views with masks of one object, groups 'background' and 'object': by the backdrop, by a group of their masks,
    or where masks have no groups by what counts in them. Pictures without the object are left out, and named."""
    if backdrop is None and group and group not in views.groups:
        raise MeshError(f"the masks have no group {group!r}. They have {', '.join(views.groups)}.")
    if backdrop is None and not group and len(views.groups) > 1:
        raise MeshError(f"the masks have the groups {', '.join(views.groups)}. Say which is the object: --group.")
    made = [replace(view, mask=_mask(view, views, backdrop, group)) for view in views.views]
    shown = tuple(view for view in made if view.mask is not None and (view.mask == 1).any())
    lost = [view.name for view in made if view not in shown]
    notes = (f"{len(lost)} pictures do not show the object and are left out: {', '.join(lost[:5])}",) if lost else ()
    return replace(views, views=shown, groups=GROUPS, notes=(*views.notes, *notes))


def _mask(view: PosedView, views: Views, backdrop: Backdrop | None, group: str) -> np.ndarray:
    if backdrop is not None:
        return backdrop.mask(view.rgb)
    if view.mask is None:
        raise MeshError(
            f"picture {view.name} has no mask, and no backdrop's colour was named. Put masks beside the pictures "
            "(docs/splats.md), or take them before a plain backdrop: --backdrop black."
        )
    if not group:
        return np.where(view.mask >= 0, 1, 0)
    return np.where(view.mask < 0, -1, view.mask == views.groups.index(group))


def _closed(some: np.ndarray, radius: int) -> np.ndarray:
    """Gaps narrower than twice the radius closed; the picture's border is no gap."""
    wide = np.pad(some, radius, mode="edge")
    grown = distance_transform_edt(~wide) <= radius
    return np.asarray(distance_transform_edt(np.pad(grown, 1, constant_values=False)) > radius)[1:-1, 1:-1][
        radius:-radius, radius:-radius
    ]


def _largest(some: np.ndarray) -> np.ndarray:
    pieces, count = label(some)
    if not count:
        return np.zeros(some.shape, bool)
    return np.asarray(pieces == 1 + int(np.bincount(pieces.ravel())[1:].argmax()))


def _without_spots(whole: np.ndarray) -> np.ndarray:
    """The piece with its small holes filled; a large one stays, as a cup's handle has."""
    holes, count = label(binary_fill_holes(whole) & ~whole)
    sizes = np.bincount(holes.ravel())
    small = [k for k in range(1, count + 1) if sizes[k] < SMALL_HOLE * whole.sum()]
    return np.asarray(whole | np.isin(holes, small))
