"""The table as the camera on the hand has scanned it: a mosaic for each scene, and how what is uncertain moves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import TwinError
from twinproof.reconstruct.hand_camera import FOCAL, HEIGHT, READOUT, HandCamera, Prior
from twinproof.reconstruct.hand_camera_frames import Hand, HandFrames, robot_masks
from twinproof.reconstruct.hand_camera_plane import Laid, Mosaic, Sight, Texels, channels_of, lay, mosaic_of
from twinproof.sim.grid import Plane
from twinproof.sim.render_camera import Camera, pixel_rays

if TYPE_CHECKING:
    from jaxtyping import Float

GROW_PX = 4  # by which the drawn robot is grown
UNSTEADY = 3.0  # texels on which the scan scatters so many times more than on most are not on the table
SPREAD = 1.5  # misfits so many times larger than the texture itself count little
TOGETHER = 6  # pictures in a row whose effects on the mosaic are kept as one: each on its own would be much to keep
DELTA = 2e-3  # of a finite difference: rad, m, s
SPARSE_PX = 16
FINEST_M = 0.004  # places where the scan cannot tell texels of this size apart are left out


@dataclass(frozen=True, eq=False)
class Scan:
    """What the camera on the hand saw of the table, and how it was calibrated, without the cameras that are sought."""

    found: HandCamera
    frames: Sequence[HandFrames]
    hand: Hand
    plane: Plane
    ripple_rad: float = Prior().ripple_rad  # or m, by which a joint is off at one picture and not at another


@dataclass(frozen=True, eq=False)
class Filmed:
    """One episode of the scan: channels, pixels of use, and the camera at each picture with how it moves."""

    scene: str
    pictures: Float[np.ndarray, "F H W 2"]
    use: Float[np.ndarray, "F H W"]
    sights: Sequence[Sight]

    @classmethod
    def of(cls, scan: Scan, frames: HandFrames) -> Filmed:
        """The robot is drawn once, where the scan's calibration says that it is."""
        found = scan.found
        angles = frames.angles.at(frames.time_s + found.clock_s + 0.5 * found.readout_s) - found.joints_rad
        cameras = [Camera(found.lens, T) for T in _poses(scan, found, frames, 0.5)]
        use = ~robot_masks(scan.hand, cameras, angles, grow_px=GROW_PX)
        return cls(frames.scene, channels_of(frames.rgb.astype(np.float32) / 255), use, _sights(scan, frames))


def _poses(scan: Scan, found: HandCamera, frames: HandFrames, share: float) -> np.ndarray:
    """T_world_camera of every picture at a share of the readout."""
    angles = frames.angles.at(frames.time_s + found.clock_s + share * found.readout_s) - found.joints_rad
    return np.stack([scan.hand.T_world_link(q) @ found.T_link_camera for q in angles])


def _sights(scan: Scan, frames: HandFrames) -> list[Sight]:
    """The scan's cameras, and how they move with what is uncertain about the camera on the hand."""
    found, count = scan.found, len(scan.found.names)
    begin, end = (np.linalg.inv(_poses(scan, found, frames, share)) for share in (0.0, 1.0))
    twists = np.zeros((len(begin), count, 6))
    for k in range(count):
        by = DELTA * np.eye(count)[k]
        share = 1.0 if k == READOUT else 0.5  # the last row is the one that the readout moves by all of it
        low, high = (_poses(scan, found.changed(s * by), frames, share) for s in (-1, 1))
        twists[:, k] = _twists(low, high) / (2 * DELTA)
    twists[:, FOCAL] = np.eye(6)[0]
    twists[:, HEIGHT, 3:] = -begin[:, :3, :3] @ np.array(scan.plane.normal)
    return [Sight(found.lens, np.stack(ends), each) for *ends, each in zip(begin, end, twists, strict=True)]


def _twists(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    change = np.linalg.inv(before) @ after
    return np.concatenate([Rotation.from_matrix(change[:, :3, :3]).as_rotvec(), change[:, :3, 3]], axis=1)


@dataclass(frozen=True, eq=False)
class Table:
    """The mosaic of one scene, and how it changes with the hand camera's unknowns when only one group of pictures does.

    Changes are in units of the mosaic's scale; summed over the groups they are what all pictures together do.
    """

    texels: Texels
    mosaic: Mosaic
    moves: Float[np.ndarray, "N 2 G P"]


def tables_of(scan: Scan, films: Sequence[Filmed], texel_m: float, scale: float) -> dict[str, Table]:
    """A mosaic for each scene, over all that the scan sees well."""
    texels = Texels.over(scan.plane, _seen_points(scan, films), texel_m, scan.found.height_m)
    out = {}
    for scene in dict.fromkeys(f.scene for f in films):
        mine = [f for f in films if f.scene == scene]
        sights = [s for f in mine for s in f.sights]
        shown = [pair for f in mine for pair in zip(f.pictures, f.use, strict=True)]
        laid = [lay(picture, use, s, texels) for (picture, use), s in zip(shown, sights, strict=True)]
        mosaic = mosaic_of(laid, texels, scale)
        steady = _steady(laid, mosaic)
        texture = float(np.sqrt(np.mean(mosaic.value[steady, 0] ** 2))) if steady.any() else scale
        mosaic = replace(mosaic, count=np.where(steady, mosaic.count, 0), scale=min(scale, max(1e-3, SPREAD * texture)))
        out[scene] = Table(texels, mosaic, _moves(laid, sights, mosaic, texels))
    return out


def _seen_points(scan: Scan, films: Sequence[Filmed]) -> np.ndarray:
    lens, normal = scan.found.lens, np.array(scan.plane.normal)
    flat = pixel_rays(lens)[::SPARSE_PX, ::SPARSE_PX].reshape(-1, 2)
    rays, points = np.concatenate([flat, np.ones((len(flat), 1))], axis=1), [np.zeros((0, 3))]
    for sight in (s for f in films for s in f.sights):
        T = np.linalg.inv(sight.T_camera_world[0])
        ahead = rays @ T[:3, :3].T
        falls, height = ahead @ normal, float(scan.plane.above(T[:3, 3])) - scan.found.height_m
        depth = -height / np.where(falls < -1e-6, falls, -1e-6)
        slant = -falls / np.linalg.norm(ahead, axis=1)
        fine = (falls < 0) & (height > 0) & (lens.fx * FINEST_M * slant > 0.6 * depth)
        points.append(T[:3, 3] + depth[fine, None] * ahead[fine])
    found = np.concatenate(points)
    if len(found) < len(rays):
        raise TwinError(
            "the scan hardly sees the table from nearby. Check where the camera on the hand is and how high the table "
            "is, or record an episode in which the hand looks at the table."
        )
    return found


def _steady(laid: Sequence[Laid], mosaic: Mosaic) -> np.ndarray:
    """Texels on which the scan agrees with itself: what stands on the table is elsewhere in every picture."""
    off = np.stack([np.abs(each.value[:, 0] - mosaic.value[:, 0]) * each.seen for each in laid]).sum(axis=0)
    mean = off / np.maximum(1, np.stack([each.seen for each in laid]).sum(axis=0))
    known = mosaic.count > 0
    return known & (mean <= UNSTEADY * np.median(mean[known])) if known.any() else known


def _moves(laid: Sequence[Laid], sights: Sequence[Sight], mosaic: Mosaic, texels: Texels) -> np.ndarray:
    from twinproof.sim.plane_kernels import fold

    P, groups = len(sights[0].twists), -(-len(laid) // TOGETHER)
    shared = np.zeros((groups, *mosaic.value.shape, P), np.float32)
    weights = np.zeros(mosaic.value.shape, np.float32)
    for k, (each, sight) in enumerate(zip(laid, sights, strict=True)):
        fold(
            each.value, mosaic.value, mosaic.slope, each.seen, mosaic.count, mosaic.scale,
            np.ascontiguousarray(sight.T_camera_world[:, :3]), each.share, sight.twists, READOUT, FOCAL,
            texels.shape[1], texels.corner, texels.along, texels.across, texels.texel_m,
            np.zeros((P, P)), np.zeros(P), shared[k // TOGETHER], weights, False,
        )  # fmt: skip
    return np.moveaxis(shared / np.maximum(weights, 1e-6)[..., None], 0, 2)
