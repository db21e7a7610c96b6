"""Posed pictures: what a splat scene is fitted to, and what it is judged on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import SplatError
from twinproof.nouns.frozen import frozen_array, settle
from twinproof.nouns.rig import Intrinsics

if TYPE_CHECKING:
    from jaxtyping import Float, UInt8


@dataclass(frozen=True, eq=False)
class PosedView:
    """One picture, where it was taken from, and what else is known of its pixels.

    T_world_camera looks along +z, x right, y down. `depth_m` is along that axis, 0 where it is not known. `mask` holds
    a group's index for every pixel, -1 for pixels that do not count.
    """

    name: str
    rgb: UInt8[np.ndarray, "H W 3"]
    intrinsics: Intrinsics
    T_world_camera: Float[np.ndarray, "4 4"]
    depth_m: Float[np.ndarray, "H W"] | None = None
    mask: np.ndarray | None = None

    def __post_init__(self) -> None:
        rgb, pose = np.asarray(self.rgb), frozen_array(self.T_world_camera)
        if rgb.dtype != np.uint8 or rgb.ndim != 3 or rgb.shape[2] != 3 or 0 in rgb.shape:
            raise SplatError(
                f"view {self.name}: the picture is {rgb.dtype} of the shape {rgb.shape}; needed is uint8 of "
                "(height, width, 3)."
            )
        _check_pose(self.name, pose)
        lens = self.intrinsics
        numbers = (lens.fx, lens.fy, lens.cx, lens.cy, *lens.distortion)
        if not np.isfinite(numbers).all() or min(lens.fx, lens.fy) <= 0:
            raise SplatError(f"view {self.name}: its intrinsics are not finite with positive fx and fy. Mend them.")
        settle(self, rgb=frozen_array(rgb, np.uint8), T_world_camera=pose)
        for name, kind in {"depth_m": np.float32, "mask": np.int32}.items():
            if getattr(self, name) is not None:
                plane = frozen_array(getattr(self, name), kind)
                if plane.shape != rgb.shape[:2]:
                    raise SplatError(
                        f"view {self.name}: {name} has the shape {plane.shape}, the picture {rgb.shape[:2]}. "
                        "Resize it to the picture."
                    )
                settle(self, **{name: plane})
        if self.depth_m is not None and not (np.isfinite(self.depth_m) & (self.depth_m >= 0)).all():
            raise SplatError(
                f"view {self.name}: depth_m has values below 0 or not finite. Write 0 where none is known."
            )


def _check_pose(name: str, pose: np.ndarray) -> None:
    whole = pose.shape == (4, 4) and bool(np.isfinite(pose).all()) and np.allclose(pose[3], (0, 0, 0, 1))
    turn = pose[:3, :3] if whole else np.zeros((3, 3))
    if np.abs(turn @ turn.T - np.eye(3)).max() > 1e-3:
        raise SplatError(f"view {name}: the pose is not a finite rigid 4 × 4 matrix. Write T_world_camera.")
    if np.linalg.det(turn) < 0:
        raise SplatError(f"view {name}: the pose is mirrored (left-handed). Convert it to right-handed axes.")


@dataclass(frozen=True, eq=False)
class Views:
    """Posed pictures of one scene, and points on its surface where some are known (SfM, depth)."""

    views: tuple[PosedView, ...]
    points: Float[np.ndarray, "P 3"] = field(default_factory=lambda: np.zeros((0, 3)))
    colours: UInt8[np.ndarray, "P 3"] = field(default_factory=lambda: np.zeros((0, 3), np.uint8))
    groups: tuple[str, ...] = ("background",)
    notes: tuple[str, ...] = ()  # what a reader should know: pictures left out, where points came from

    def __post_init__(self) -> None:
        points, colours = frozen_array(self.points, np.float32), frozen_array(self.colours, np.uint8)
        if points.ndim != 2 or points.shape[1:] != (3,) or colours.shape != points.shape:
            raise SplatError(f"views: {points.shape} points with {colours.shape} colours; needed is (P, 3) of both.")
        if not np.isfinite(points).all():
            raise SplatError(f"views: {(~np.isfinite(points).all(axis=1)).sum()} points are not finite. Remove them.")
        names = [view.name for view in self.views]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise SplatError(f"views: two are called {twice!r}. Each view has a name of its own.")
        for view in self.views:
            if view.mask is not None and not -1 <= int(view.mask.min()) <= int(view.mask.max()) < len(self.groups):
                raise SplatError(
                    f"view {view.name}: its mask runs from {view.mask.min()} to {view.mask.max()}, but there are "
                    f"{len(self.groups)} groups. Use a group's index, or -1 for pixels that do not count."
                )
        settle(self, points=points, colours=colours, views=tuple(self.views), groups=tuple(self.groups))

    def __len__(self) -> int:
        return len(self.views)
