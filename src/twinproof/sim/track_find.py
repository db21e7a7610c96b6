"""Where an object that was lost may be: where pictures differ from their plates, seen by several cameras."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from twinproof.sim.track_pose import nudged

if TYPE_CHECKING:
    from jaxtyping import Float

    from twinproof.sim.track import Rest
    from twinproof.sim.track_fit import Followed
    from twinproof.sim.track_sight import Sight

DIFFERS = 0.12  # of a colour, 0 … 1
TURNS = 8
LEAST_PIXELS = 12


def candidates(
    thing: Followed, sights: Sequence[Sight], rest: Rest | None, last: np.ndarray | None
) -> list[Float[np.ndarray, "4 4"]]:
    """Poses to try: the last one, and the place that the cameras agree on, turned about the vertical by eighths."""
    tried = [] if last is None else [np.array(last)]
    rays = [ray for ray in map(_ray, sights) if ray is not None]
    place = _meeting(rays, None if rest is None else float(rest.T_world_object[2, 3]))
    upright = rest.T_world_object if rest is not None else last if last is not None else np.eye(4)
    if place is None:
        return tried
    for turn in 2 * np.pi * np.arange(TURNS) / TURNS:
        T = nudged(upright, np.array([0.0, 0.0, 0.0, 0.0, 0.0, turn]))
        T[:3, 3] = place
        tried.append(T)
    return tried


def _ray(sight: Sight) -> tuple[np.ndarray, np.ndarray] | None:
    """Origin and direction of the ray through the middle of what differs from the plate, or of the mask."""
    if sight.mask is not None:
        there = sight.mask & ~sight.hidden
    else:
        exposed = sight if sight.gain is not None else sight.exposed()
        assert exposed.colour is not None
        assert exposed.plate is not None
        assert exposed.gain is not None
        there = (np.abs(exposed.colour - exposed.plate * exposed.gain).max(axis=-1) > DIFFERS) & ~sight.hidden
    if there.sum() < LEAST_PIXELS:
        return None
    from scipy.ndimage import label

    pieces, count = label(there)
    sizes = np.bincount(pieces.reshape(-1))
    sizes[0] = 0
    rows, columns = np.nonzero(pieces == int(np.argmax(sizes)))
    if count == 0 or len(rows) < LEAST_PIXELS:
        return None
    lens, pose = sight.camera.lens, sight.camera.T_world_camera
    ahead = pose[:3, :3] @ [(np.median(columns) - lens.cx) / lens.fx, (np.median(rows) - lens.cy) / lens.fy, 1.0]
    return pose[:3, 3], ahead / np.linalg.norm(ahead)


def _meeting(rays: Sequence[tuple[np.ndarray, np.ndarray]], height_m: float | None) -> Float[np.ndarray, "3"] | None:
    """The point nearest to all rays; with one ray alone, where it meets the height at which the object rests."""
    if len(rays) == 1 and height_m is not None:
        origin, ahead = rays[0]
        reach = (height_m - origin[2]) / ahead[2] if abs(ahead[2]) > 1e-6 else -1.0
        return np.asarray(origin + reach * ahead) if reach > 0 else None
    if len(rays) < 2:
        return None
    A, b = np.zeros((3, 3)), np.zeros(3)
    for origin, ahead in rays:
        across = np.eye(3) - np.outer(ahead, ahead)
        A, b = A + across, b + across @ origin
    return np.asarray(np.linalg.solve(A + 1e-9 * np.eye(3), b))
