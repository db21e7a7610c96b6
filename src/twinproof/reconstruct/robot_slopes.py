"""How the drawn robot moves over the pixels with each unknown: from depth and kinematics, not from drawing it again.

Differences of drawn pictures err by themselves, each unknown's in its own way. A longer lens and a camera farther away
nearly undo each other, and what such errors leave of both then passes for a slope: the fit stands still there, and
believes itself sure. Motions of pixels cancel as they should.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.sim.render_camera import Camera, Lens, distort, pixel_rays

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from twinproof.sim.splat.render import SplatImage

SURE = 0.5  # of a pixel's light: below, depth and link are those of the nearest surer pixel
STENCIL = np.array([1.0, -8.0, 0.0, 8.0, -1.0], np.float32) / 12  # a slope over five pixels
EDGE = 0.02  # per px: slopes of the cover below this are no outline
MARGIN_PX = 10  # around the robot, that pictures are cut to
TINY = 1e-6


@dataclass(frozen=True, eq=False)
class Shown:
    """The robot in one picture, cut to where it is: for every pixel the point that it shows and the link's number.

    `*N` is rows and columns at first, one number for each pixel that counts after `only`.
    """

    rows: slice
    cols: slice
    points: Float[np.ndarray, "*N 3"]  # in the camera's frame
    link: Int[np.ndarray, "*N"]
    pixels: Float[np.ndarray, "*N 2"]  # less the lens's centre
    outwards: Float[np.ndarray, "*N 2"]  # along the outline, one pixel; 0 inside
    camera: Camera

    @classmethod
    def of(cls, picture: SplatImage, camera: Camera) -> Shown | None:
        """None where the robot is not in the picture."""
        from scipy.ndimage import distance_transform_edt

        assert picture.group is not None
        assert picture.depth is not None
        known = (picture.group >= 0) & (picture.alpha > SURE)
        if not known.any():
            return None
        rows, cols = _box(picture.alpha > 0.02)
        near = distance_transform_edt(~known[rows, cols], return_distances=False, return_indices=True)
        depth, link = (each[rows, cols][tuple(near)] for each in (picture.depth, picture.group))
        lens = camera.lens
        rays = pixel_rays(lens)[rows, cols]
        points = np.concatenate([rays, np.ones((*rays.shape[:2], 1))], axis=2) * depth[..., None]
        row, column = np.mgrid[rows, cols].astype(float)
        pixels = np.stack([column - lens.cx, row - lens.cy], axis=2)
        return cls(rows, cols, points, link, pixels, _outwards(picture.alpha[rows, cols]), camera)

    @classmethod
    def at(cls, points_m: Float[np.ndarray, "N 3"], camera: Camera) -> Shown:
        """Points of the world before a camera, for themselves."""
        T = np.linalg.inv(camera.T_world_camera)
        points = points_m @ T[:3, :3].T + T[:3, 3]
        lens, flat = camera.lens, distort(points[:, :2] / points[:, 2:], camera.lens.distortion)
        whole, none = slice(None), np.zeros(len(points), int)
        return cls(whole, whole, points, none, flat * (lens.fx, lens.fy), np.zeros_like(flat), camera)

    def only(self, kept: Bool[np.ndarray, "H W"]) -> Shown:
        """Of these pixels alone."""
        cut = {name: getattr(self, name)[kept] for name in ("points", "link", "pixels", "outwards")}
        return replace(self, **cut)

    def by_camera(self) -> Float[np.ndarray, "7 *N 2"]:
        """Pixels' motion by turn (camera frame), shift (world) and log focal length of the camera."""
        turns = [self._seen(np.cross(self.points, axis)) for axis in np.eye(3)]
        into = self.camera.T_world_camera[:3, :3].T
        shifts = [self._seen(np.broadcast_to(-into @ axis, self.points.shape)) for axis in np.eye(3)]
        return np.stack([*turns, *shifts, self.pixels])

    def by_links(
        self, here: Float[np.ndarray, "G 4 4"], low: np.ndarray, high: np.ndarray, apart: float
    ) -> Float[np.ndarray, "*N 2"]:
        """Pixels' motion when the links go from `low` to `high`, by one unit of which the two are `apart`."""
        T = self.camera.T_world_camera
        rate = (high - low) / apart @ np.linalg.inv(here)  # of a point in the world that is fixed to a link
        world = self.points @ T[:3, :3].T + T[:3, 3]
        own = rate[self.link]
        turned = np.einsum("...ij,...j->...i", own[..., :3, :3], world) + own[..., :3, 3]
        return self._seen(turned @ T[:3, :3])

    def _seen(self, motion: Float[np.ndarray, "*N 3"]) -> Float[np.ndarray, "*N 2"]:
        """A motion of points in the camera's frame as one of pixels."""
        lens, z = self.camera.lens, np.maximum(self.points[..., 2:], 1e-3)
        flat = (motion[..., :2] - self.points[..., :2] / z * motion[..., 2:]) / z
        return np.asarray(_bent(self.points[..., :2] / z, flat, lens) * (lens.fx, lens.fy))


def _bent(xy: np.ndarray, motion: np.ndarray, lens: Lens) -> np.ndarray:
    """A motion of rays as the lens shows it."""
    if not lens.bent:
        return motion
    size = 1e-5
    ahead, behind = (distort(xy + way * motion, lens.distortion) for way in (size, -size))
    return np.asarray((ahead - behind) / (2 * size))


def slopes_of(picture: Float[np.ndarray, "H W C"]) -> Float[np.ndarray, "H W C 2"]:
    """Along columns (x) and rows (y), per pixel."""
    from scipy.ndimage import correlate1d

    along = [correlate1d(np.asarray(picture, np.float32), STENCIL, axis=axis, mode="nearest") for axis in (1, 0)]
    return np.stack(along, axis=-1)


def _outwards(alpha: Float[np.ndarray, "H W"]) -> Float[np.ndarray, "H W 2"]:
    gone = slopes_of(alpha[..., None])[..., 0, :]
    size = np.linalg.norm(gone, axis=2)
    return np.asarray(np.where((size > EDGE)[..., None], -gone / np.maximum(size, TINY)[..., None], 0.0))


def _box(shown: np.ndarray) -> tuple[slice, slice]:
    """Rows and columns around what is shown."""
    rows, cols = (np.flatnonzero(shown.any(axis=axis)) for axis in (1, 0))
    height, width = shown.shape
    return (
        slice(max(0, int(rows[0]) - MARGIN_PX), min(height, int(rows[-1]) + MARGIN_PX + 1)),
        slice(max(0, int(cols[0]) - MARGIN_PX), min(width, int(cols[-1]) + MARGIN_PX + 1)),
    )
