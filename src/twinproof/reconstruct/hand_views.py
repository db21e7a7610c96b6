"""Where a riding camera really was at each picture: every one is laid on the table and moved until all of them agree.

Calibration knows the mount to half a millimetre. The arm that carries it is off by more from picture to picture: gears
ripple, links bend. Half a degree and two millimetres there are three pixels on an object, which blur its outlines and
its colours. The table's texture tells each picture's own six numbers; what the joints say is believed beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.clip import Clip
from twinproof.reconstruct.hand_camera_plane import Laid, Sight, Texels, channels_of, lay, mosaic_of
from twinproof.reconstruct.poses import difference, nudged
from twinproof.sim.grid import Plane
from twinproof.sim.render_camera import Lens, pixel_rays

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, UInt8

LEVELS = ((0.008, 0.2, 3), (0.005, 0.15, 3), (0.003, 0.08, 4))  # texels (m), misfit that counts half, rounds
TURN_RAD, SHIFT_M = 0.006, 0.004  # by which a picture's pose is off, as deviations
SHARED = 25.0  # neighbouring texels share their noise: so many count as one at most
LARGEST_M = 0.0067  # on the table; a pixel that covers more of it is not looked at
LEAST_FRAMES = 8  # pictures: fewer make no mosaic
LEAST_TEXELS = 400  # of the mosaic that a picture must see, or it stays where the joints have it


@dataclass(frozen=True, eq=False)
class Ride:
    """A camera's pictures of one episode with T_world_camera at the begin and the end of each readout."""

    lens: Lens
    rgb: UInt8[np.ndarray, "F H W 3"]
    use: Bool[np.ndarray, "F H W"]  # pixels that do not show the robot
    ends: Float[np.ndarray, "F 2 4 4"]

    @property
    def sweep(self) -> Float[np.ndarray, "F 6"]:
        """The motion from the begin of each readout to its end."""
        return difference(self.ends[:, 0], self.ends[:, 1])

    def at(self, share: float) -> Float[np.ndarray, "F 4 4"]:
        """T_world_camera when such a share of each readout had passed."""
        return nudged(self.ends[:, 0], share * self.sweep)


def pose_at_row(clip: Clip, frame: int, row: float) -> Float[np.ndarray, "4 4"]:
    """T_world_camera when a row of a picture was taken."""
    T = np.asarray(clip.T_world_camera[frame])
    if clip.sweep is None:
        return T
    return nudged(T, ((row + 0.5) / clip.size[1] - 0.5) * np.asarray(clip.sweep[frame]))


def agreed(ride: Ride, table: Plane) -> Ride:
    """The same pictures, each moved so that it agrees with the mosaic of all on the table."""
    if len(ride.rgb) < LEAST_FRAMES:
        return ride
    pictures = [channels_of(rgb.astype(np.float32) / 255) for rgb in ride.rgb]
    ends, gone = np.array(ride.ends), np.zeros((len(pictures), 6))
    precision = np.diag(np.array([TURN_RAD] * 3 + [SHIFT_M] * 3) ** -2.0)
    for texel_m, scale, rounds in LEVELS:
        texels = _texels(ride.lens, ends[:, 0], table, texel_m)
        for _ in range(rounds):
            sights = [Sight(ride.lens, np.linalg.inv(both), np.eye(6)) for both in ends]
            laid = [lay(p, use, s, texels) for p, use, s in zip(pictures, ride.use, sights, strict=True)]
            for k, (curved, pull) in enumerate(_pulls(laid, sights, texels, scale)):
                step = np.linalg.solve(curved + precision, pull - precision @ gone[k])
                gone[k] += step
                ends[k] = nudged(ends[k], np.stack([step, step]))
    return Ride(ride.lens, ride.rgb, ride.use, ends)


def _pulls(
    laid: Sequence[Laid], sights: Sequence[Sight], texels: Texels, scale: float
) -> list[tuple[Float[np.ndarray, "6 6"], Float[np.ndarray, "6"]]]:
    """Every picture's curvature and pull towards the mosaic; none where it sees too little of it."""
    from twinproof.sim.plane_kernels import fold

    mosaic, found = mosaic_of(laid, texels, scale), []
    shared, weights = np.zeros((len(mosaic.value), 2, 6), np.float32), np.zeros((len(mosaic.value), 2), np.float32)
    for each, sight in zip(laid, sights, strict=True):
        hessian, pull = np.zeros((6, 6)), np.zeros(6)
        if int((each.seen & (mosaic.count > 0)).sum()) >= LEAST_TEXELS:
            fold(
                each.value, mosaic.value, mosaic.slope, each.seen, mosaic.count, scale,
                np.ascontiguousarray(sight.T_camera_world[:, :3]), each.share, sight.twists, -1, -1, texels.shape[1],
                texels.corner, texels.along, texels.across, texels.texel_m, hessian, pull, shared, weights, False,
            )  # fmt: skip
        found.append(((hessian + np.tril(hessian, -1).T) / SHARED, pull / SHARED))
    return found


def _texels(lens: Lens, poses: Float[np.ndarray, "F 4 4"], table: Plane, texel_m: float) -> Texels:
    """A grid over what the pictures see well of the table."""
    rays, points = pixel_rays(lens)[::16, ::16].reshape(-1, 2), list[np.ndarray]()
    for T in poses:
        ahead = np.concatenate([rays, np.ones((len(rays), 1))], 1) @ T[:3, :3].T
        falls, height = ahead @ np.array(table.normal), float(table.above(T[:3, 3]))
        depth = -height / np.where(falls < -1e-6, falls, -1e-6)
        slant = -falls / np.linalg.norm(ahead, axis=1)
        fine = (falls < 0) & (height > 0) & (depth / (lens.fx * np.maximum(slant, 1e-6)) < LARGEST_M)
        points.append(T[:3, 3] + depth[fine, None] * ahead[fine])
    return Texels.over(table, np.concatenate(points), texel_m)
