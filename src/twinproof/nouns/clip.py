"""A clip: what one camera saw over time, on the robot's clock, with where the camera was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import RecordingError
from twinproof.nouns.frozen import frozen_array, settle
from twinproof.nouns.rig import Intrinsics

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, UInt8


@dataclass(frozen=True, eq=False)
class Clip:
    """T pictures of one camera. T_world_camera looks along +z, x right, y down; a camera that stands still repeats it.

    `robot` is where the robot was drawn to be, `depth_m` is along the optical axis, 0 where it is not known. Poses are
    those at the middle row; `sweep` is the motion (turn in rad, shift in m, both in the camera's frame) from the first
    row to the last, where a rolling shutter is known.
    """

    camera: str
    time_s: Float[np.ndarray, "T"]
    rgb: UInt8[np.ndarray, "T H W 3"]
    intrinsics: Intrinsics
    T_world_camera: Float[np.ndarray, "T 4 4"]
    robot: Bool[np.ndarray, "T H W"] | None = None
    depth_m: Float[np.ndarray, "T H W"] | None = None
    sweep: Float[np.ndarray, "T 6"] | None = None
    numbers: Int[np.ndarray, "T"] | None = None  # of the pictures, in their video

    def __post_init__(self) -> None:
        rgb = np.asarray(self.rgb)
        if rgb.dtype != np.uint8 or rgb.ndim != 4 or rgb.shape[3] != 3 or 0 in rgb.shape:
            raise RecordingError(
                f"clip of {self.camera}: the pictures are {rgb.dtype} of the shape {rgb.shape}; needed is uint8 of "
                "(pictures, height, width, 3)."
            )
        settle(self, rgb=frozen_array(rgb, np.uint8))
        shapes = {"time_s": (len(rgb),), "T_world_camera": (len(rgb), 4, 4)}
        shapes |= {name: rgb.shape[:3] for name in ("robot", "depth_m") if getattr(self, name) is not None}
        shapes |= {"sweep": (len(rgb), 6)} if self.sweep is not None else {}
        shapes |= {"numbers": (len(rgb),)} if self.numbers is not None else {}
        kinds = {"robot": np.bool_, "depth_m": np.float32, "numbers": np.int64}
        for name, shape in shapes.items():
            array = frozen_array(getattr(self, name), kinds.get(name, np.float64))
            if array.shape != shape or not np.isfinite(array).all():
                raise RecordingError(
                    f"clip of {self.camera}: {name} has the shape {array.shape}; needed is {shape}, all finite."
                )
            settle(self, **{name: array})
        if (np.diff(self.time_s) <= 0).any():
            raise RecordingError(f"clip of {self.camera}: its times do not increase. Sort the pictures by time.")

    def __len__(self) -> int:
        return len(self.rgb)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.rgb.shape[2], self.rgb.shape[1]

    @property
    def still(self) -> bool:
        """Whether the camera stands still."""
        return bool((np.abs(self.T_world_camera - self.T_world_camera[:1]) < 1e-9).all())
