"""Gaussian splats: the looks of a scene as many small ellipsoids (volumes) or discs (surfels), in groups that can move.

Each splat is written in the frame of its group; a group is moved by a rigid transform when it is rendered, so moving an
object or a robot link copies nothing. Numbers are kept as the standard PLY keeps them: logarithms of the scales,
logits of the opacities, spherical harmonics of the colour (display-referred sRGB, 0.5 added after evaluation).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import SplatError
from twinproof.nouns.frozen import frozen_array, settle

if TYPE_CHECKING:
    from jaxtyping import Float, Int

BANDS = {1: 0, 4: 1, 9: 2, 16: 3}  # coefficients of a colour -> degree of its spherical harmonics
SH0 = 0.28209479177387814  # the constant harmonic: colour = 0.5 + SH0 · sh[0] where the degree is 0
MOST = 1e30  # a finite float32 whose square is not one is of no use to a renderer


@dataclass(frozen=True, eq=False)
class Splats:
    """N splats in G groups. Surfels (`flat`) are discs: their third scale is not looked at.

    Quaternions need not have unit length, and may not be zero; everything is finite.
    """

    means: Float[np.ndarray, "N 3"]  # m, in the group's frame
    quats_wxyz: Float[np.ndarray, "N 4"]
    log_scales: Float[np.ndarray, "N 3"]  # of standard deviations in m
    logit_opacities: Float[np.ndarray, "N"]
    sh: Float[np.ndarray, "N K 3"]  # K = 1, 4, 9 or 16
    group: Int[np.ndarray, "N"]
    groups: tuple[str, ...] = ("background",)
    flat: bool = False

    def __post_init__(self) -> None:
        count = len(np.atleast_1d(self.means))
        wanted = {"means": (count, 3), "quats_wxyz": (count, 4), "log_scales": (count, 3), "logit_opacities": (count,)}
        for name, shape in wanted.items():
            settle(self, **{name: _numbers(name, getattr(self, name), shape)})
        sh = np.asarray(self.sh)
        if sh.ndim != 3 or sh.shape[1] not in BANDS:
            raise SplatError(
                f"splats: sh has the shape {sh.shape}; needed is (N, 1, 4, 9 or 16 coefficients, 3 colours)."
            )
        settle(
            self, sh=_numbers("sh", sh, (count, sh.shape[1], 3)), group=_group(self, count), groups=tuple(self.groups)
        )
        lying = np.flatnonzero((self.quats_wxyz == 0).all(axis=1))
        if len(lying):
            raise SplatError(f"splats: {len(lying)} have the quaternion 0 0 0 0 (first: {lying[0]}). Write 1 0 0 0.")

    def __len__(self) -> int:
        return len(self.means)

    @property
    def degree(self) -> int:
        """Degree of the colours' spherical harmonics: 0 to 3."""
        return BANDS[self.sh.shape[1]]

    def of(self, group: str) -> Splats:
        """Only the splats of one group, as a group of its own."""
        if group not in self.groups:
            raise SplatError(f"splats: there is no group {group!r}; there are {', '.join(self.groups)}.")
        return self.take(self.group == self.groups.index(group), (group,))

    def take(self, keep: np.ndarray, groups: tuple[str, ...] | None = None) -> Splats:
        """Those that a mask or indices name, in that order; `groups` renames the groups that are left, in order."""
        arrays = {field.name: getattr(self, field.name)[keep] for field in fields(self)[:6]}
        if groups is not None:
            arrays["group"] = np.unique(arrays["group"], return_inverse=True)[1].reshape(-1)
        return Splats(**arrays, groups=groups or self.groups, flat=self.flat)


def joined(parts: Sequence[Splats]) -> Splats:
    """All splats of several scenes; groups of one name become one group, lower degrees are filled up with zeros."""
    if not parts or len({part.flat for part in parts}) > 1:
        raise SplatError("splats: joining needs at least one scene, and either volumes or surfels, not both.")
    names = tuple(dict.fromkeys(name for part in parts for name in part.groups))
    most = max(part.sh.shape[1] for part in parts)
    columns = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Splats)[:4]
    }
    sh = [np.pad(part.sh, ((0, 0), (0, most - part.sh.shape[1]), (0, 0))) for part in parts]
    group = [np.array([names.index(name) for name in part.groups], np.int32)[part.group] for part in parts]
    return Splats(**columns, sh=np.concatenate(sh), group=np.concatenate(group), groups=names, flat=parts[0].flat)


def _numbers(name: str, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    with np.errstate(over="ignore"):  # a double beyond float32 becomes infinite, and is refused below
        array = frozen_array(values, np.float32)
    if array.shape != shape:
        raise SplatError(f"splats: {name} has the shape {array.shape}; needed is {shape}, one row for each splat.")
    bad = ~(np.abs(array) < MOST)
    if bad.any():
        rows = np.flatnonzero(bad.reshape(len(array), -1).any(axis=1))
        raise SplatError(
            f"splats: {len(rows)} rows of {name} are not finite (first: {rows[0]}). "
            "Remove these splats before they are used."
        )
    return array


def _group(splats: Splats, count: int) -> np.ndarray:
    group = frozen_array(splats.group, np.int32)
    if group.shape != (count,) or not len(splats.groups):
        raise SplatError(
            f"splats: group has the shape {group.shape} and {len(splats.groups)} names; needed is ({count},)."
        )
    if count and not 0 <= int(group.min()) <= int(group.max()) < len(splats.groups):
        raise SplatError(
            f"splats: group runs from {group.min()} to {group.max()}, but there are {len(splats.groups)} names. "
            "Name every group, counting from 0."
        )
    return group
