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
        rgb, pose = frozen_array(self.rgb, np.uint8), frozen_array(self.T_world_camera)
        if rgb.ndim != 3 or rgb.shape[2] != 3 or 0 in rgb.shape:
            raise SplatError(f"view {self.name}: the picture has the shape {rgb.shape}; needed is (height, width, 3).")
        turn = pose[:3, :3] if pose.shape == (4, 4) and np.isfinite(pose).all() else np.zeros((3, 3))
        if np.abs(turn @ turn.T - np.eye(3)).max() > 1e-3:
            raise SplatError(f"view {self.name}: the pose is not a finite rigid 4 × 4 matrix. Write T_world_camera.")
        if np.linalg.det(turn) < 0:
            raise SplatError(f"view {self.name}: the pose is mirrored (left-handed). Convert it to right-handed axes.")
        settle(self, rgb=rgb, T_world_camera=pose)
        for name, kind in {"depth_m": np.float32, "mask": np.int32}.items():
            if getattr(self, name) is not None:
                plane = frozen_array(getattr(self, name), kind)
                if plane.shape != rgb.shape[:2]:
                    raise SplatError(f"view {self.name}: {name} is {plane.shape}, the picture {rgb.shape[:2]}.")
                settle(self, **{name: plane})


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
        settle(self, points=points, colours=colours, views=tuple(self.views))

    def __len__(self) -> int:
        return len(self.views)
