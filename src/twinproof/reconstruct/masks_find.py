"""Finding things that nobody pointed at: what moves though it is not the robot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.reconstruct.masks_footage import Footage, Plate, linear, make_plate, plate_frames
from twinproof.reconstruct.masks_prompted import DISTINCT, distinct
from twinproof.reconstruct.masks_seed import Seed, grow
from twinproof.sim.grid import Plane

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

KEYS = 14  # pictures of a camera that are compared with what is usual there
DARK = 0.66  # deeper shadows than usual are taken for shadows: a missed seed costs less than a false one
FAR = 9.0  # Lab units that no noise, and no shadow, makes
LEAST = 3e-4  # of a picture: smaller spots are not things


def find_movers(footages: Mapping[str, Footage], table: Plane | None) -> tuple[Seed, ...]:
    """Seeds of what moves, largest first; one thing may have several. Still cameras alone can tell."""
    found = list[tuple[float, Seed]]()
    for name, footage in footages.items():
        if footage.clip.still and len(footage.clip) >= 4:
            found += _of_camera(name, footage, table)
    found.sort(key=lambda each: -each[0])
    return tuple(seed for _, seed in found)


def _of_camera(name: str, footage: Footage, table: Plane | None) -> list[tuple[float, Seed]]:
    from scipy import ndimage

    clip = footage.clip
    wary = replace(footage, tolerance_px=footage.tolerance_px + 2)
    keys = np.unique(np.linspace(0, len(clip) - 1, KEYS).round().astype(int)).tolist()
    frames = sorted({*keys, *plate_frames(clip)})
    bare = {frame: wary.robot(frame, *footage.everywhere) == 0 for frame in frames}
    plate = make_plate(footage, frames, np.stack(list(bare.values())))
    far = {frame: np.where(bare[frame], _far(footage, frame, plate), 0) for frame in keys}
    seeds = list[tuple[float, Seed]]()
    for frame in keys:
        spots, count = ndimage.label(ndimage.binary_opening(far[frame] > FAR, np.ones((3, 3))))
        for spot in range(1, count + 1):
            region = spots == spot
            if region.sum() < max(25, LEAST * region.size) or at_border(region):
                continue
            then = _when(footage, frame, region, plate, far)
            seed = None if then is None else grown_from(name, footage, then, region, bare[then], table)
            if seed is not None:
                seeds.append((float(seed.region.sum()), seed))
    return seeds


def _far(footage: Footage, frame: int, plate: Plate) -> Float[np.ndarray, "H W"]:
    from twinproof.sim.mask_kernels import differs

    found: np.ndarray = differs(footage.clip.rgb[frame], footage.gain[frame], linear(), plate.lab, plate.known, DARK)
    return found


def at_border(region: np.ndarray) -> bool:
    """Whether a region reaches the picture's edge, where nobody knows how it goes on."""
    return bool(region[0].any() or region[-1].any() or region[:, 0].any() or region[:, -1].any())


def _when(footage: Footage, frame: int, region: np.ndarray, plate: Plate, far: dict[int, np.ndarray]) -> int | None:
    """The picture in which a thing stands where this region is.

    What differs from the usual is a thing that came, or the bare place of one that was usual there. A thing has an
    outline; a bare place runs on into its surroundings.
    """
    from scipy import ndimage

    rim = ndimage.binary_dilation(region) & ~ndimage.binary_erosion(region)
    lab = footage.shown(frame, np.ones_like(region)).reshape(*region.shape, 3)
    if _edges(lab)[rim].mean() > _edges(plate.lab)[rim].mean():
        return frame
    like = [key for key, distance in far.items() if key != frame and distance[region].mean() < 0.3 * FAR]
    return min(like, key=lambda key: abs(key - frame)) if like else None


def _edges(lab: np.ndarray) -> Float[np.ndarray, "H W"]:
    from scipy import ndimage

    steps = [ndimage.gaussian_gradient_magnitude(lab[..., k], 1.0) for k in range(3)]
    length: np.ndarray = np.linalg.norm(steps, axis=0)
    return length


def grown_from(
    name: str, footage: Footage, frame: int, region: np.ndarray, bare: Bool[np.ndarray, "H W"], table: Plane | None
) -> Seed | None:
    """A seed from the middle of a region, if a thing of its own is there."""
    from scipy import ndimage

    deep = ndimage.distance_transform_edt(region & bare)
    if deep.max() < 2:
        return None
    y, x = np.unravel_index(int(np.argmax(deep)), deep.shape)
    grown, ended = grow(footage, frame, np.array([[x, y]], float), np.zeros((0, 2)), None, table)
    if not ended or (grown & region).sum() < 0.4 * grown.sum() or distinct(footage, frame, grown) < DISTINCT:
        return None
    return Seed(name, frame, grown)
