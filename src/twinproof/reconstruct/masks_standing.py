"""Finding things that stand on the table and never move: they hide other places of it from every camera."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from twinproof.reconstruct.masks_find import at_border, grown_from
from twinproof.reconstruct.masks_footage import Footage, Plate
from twinproof.reconstruct.masks_seed import Seed
from twinproof.reconstruct.masks_space import pixels, rays, table_depth
from twinproof.sim.grid import Plane

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

OFF = 14.0  # Lab units by which two cameras differ on a place that only one of them sees
LEAST = 6e-4  # of a picture
REACH = 2.5  # how far the table is looked for, in heights of the camera above it


def find_standing(footages: Mapping[str, Footage], table: Plane | None) -> tuple[Seed, ...]:
    """Seeds of what stands on the table, largest first; needs the table and two still cameras with plates."""
    still = {name: footage for name, footage in footages.items() if footage.plate is not None}
    if table is None or len(still) < 2:
        return ()
    found = list[Seed]()
    for name, footage in still.items():
        others = [other for key, other in still.items() if key != name]
        found += _of_camera(name, footage, others, table)
    return tuple(sorted(found, key=lambda seed: -int(seed.region.sum())))


def _of_camera(name: str, footage: Footage, others: list[Footage], table: Plane) -> list[Seed]:
    from scipy import ndimage

    raised = _raised(footage, others, table)
    spots, count = ndimage.label(ndimage.binary_opening(raised, np.ones((3, 3))))
    seeds = []
    for spot in range(1, count + 1):
        region = spots == spot
        if region.sum() < max(30, LEAST * region.size) or at_border(region):
            continue
        frame, bare = _clear(footage, region)
        seed = grown_from(name, footage, frame, region, bare, table)
        if seed is not None:
            seeds.append(seed)
    return seeds


def _raised(footage: Footage, others: list[Footage], table: Plane) -> Bool[np.ndarray, "H W"]:
    """Pixels whose place on the table looks otherwise to every camera that sees it, and to one at least."""
    assert footage.plate is not None
    width, height = footage.clip.size
    y, x = (v.ravel() for v in np.mgrid[0:height, 0:width])
    origin, along = rays(footage.clip, 0, x, y)
    depth = table_depth(table, origin, along)
    near = (depth < REACH * float(table.above(origin))) & (footage.plate.known.ravel() > 0)
    points = origin + np.where(near, depth, 1.0)[:, None] * along
    nearest, asked = np.full(len(x), np.inf), np.zeros(len(x), bool)
    for other in others:
        assert other.plate is not None
        far = _far(footage.plate, other.plate, pixels(other.clip, 0, points), near)
        asked |= np.isfinite(far)
        nearest = np.fmin(nearest, far)
    raised: np.ndarray = (asked & near & (nearest > OFF)).reshape(height, width)
    return raised


def _far(own: Plate, other: Plate, at: np.ndarray, near: np.ndarray) -> Float[np.ndarray, "N"]:
    """How far two plates' colours are apart at the same places of the table; NaN where the other does not see it."""
    height, width = other.known.shape
    far = np.full(len(at), np.nan)
    inside = near & (at >= 1).all(axis=1) & (at[:, 0] < width - 1) & (at[:, 1] < height - 1)
    inside[inside] &= other.known[at[inside, 1], at[inside, 0]] > 0
    if not inside.any():
        return far
    mine = own.lab.reshape(-1, 3)[inside]
    u, v = at[inside].T
    # one camera's exposure is not the other's, and lines of the table fall on neighbouring pixels
    light = float(np.median(mine[:, 0] / np.maximum(other.lab[v, u, 0], 1.0)))
    steps = [np.linalg.norm(mine - light * other.lab[v + dy, u + dx], axis=1) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
    far[inside] = np.min(steps, axis=0)
    return far


def _clear(footage: Footage, region: np.ndarray) -> tuple[int, np.ndarray]:
    """The picture in which the robot hides least of a region, and where it does not."""
    frames = sorted({0, len(footage.clip) // 2, len(footage.clip) - 1})
    bare = [footage.robot(frame, *footage.everywhere) == 0 for frame in frames]
    best = int(np.argmax([int((region & free).sum()) for free in bare]))
    return frames[best], bare[best]
