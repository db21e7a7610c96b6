"""Following an object through space and time: voxels around where it was, and votes of all cameras on each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.reconstruct.masks_footage import Footage
from twinproof.reconstruct.masks_seed import Seed
from twinproof.reconstruct.masks_space import block, nearest, pixels, project, rays, table_depth, window
from twinproof.sim.grid import Plane

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

SIDE = 32  # voxels along a block, at most
VOXEL_PX = 1.5  # a voxel is not smaller than this many pixels of the nearest camera
MARGIN_M = 0.03  # how far an object may get between two pictures
EMPTY_M = 0.012  # space is empty when it is this much before a measured surface
LOST = 0.12  # of its usual weight: so little is left when nobody sees it
REACH_M = 0.45  # a lost object is looked for within this

Tables = Mapping[str, np.ndarray]  # camera -> densities (3, bins) of the object, of all else, of the robot


@dataclass(frozen=True, eq=False)
class Track:
    """Where an object's middle is over time, how large it is, and whether anyone saw it."""

    time_s: Float[np.ndarray, "K"]
    centre: Float[np.ndarray, "K 3"]
    seen: Bool[np.ndarray, "K"]
    radius_m: float
    pixel_m: float  # the width of a pixel at the object, in the nearest camera

    def at(self, time_s: float) -> Float[np.ndarray, "3"]:
        """Its middle at a time."""
        return np.array([np.interp(time_s, self.time_s, self.centre[:, k]) for k in range(3)])


@dataclass(frozen=True, eq=False)
class Votes:
    """What all cameras say of the voxels of one block at one time: their sum, and each camera's own share."""

    points: Float[np.ndarray, "V 3"]
    total: Float[np.ndarray, "V"]
    own: dict[str, np.ndarray]
    witnesses: int  # cameras that see some of it

    @property
    def weight(self) -> Float[np.ndarray, "V"]:
        """How surely each voxel belongs to the object."""
        return np.clip(self.total - 0.4 * self.witnesses, 0, 4)


def vote(
    footages: Mapping[str, Footage], tables: Tables, time_s: float, centre: np.ndarray, half_m: float, side: int,
    table: Plane | None,
) -> Votes:  # fmt: skip
    """Votes on a block of voxels around a point."""
    from scipy import ndimage

    from twinproof.sim.mask_kernels import gather

    points = block(centre, half_m, side, table)
    total, own, witnesses = np.zeros(len(points), np.float32), dict[str, np.ndarray](), 0
    for name, footage in footages.items():
        frame = nearest(footage.clip, time_s)
        place = window(footage.clip, frame, centre, 1.74 * half_m)
        share = np.full(len(points), np.nan, np.float32)
        if place is not None:
            rows, cols = place
            _, said = footage.odds(frame, rows, cols, tables[name])
            wide = ndimage.maximum_filter(said, 3)  # cameras are not quite at one time, and voxels are not points
            at = pixels(footage.clip, frame, points) - np.array([cols.start, rows.start], np.int32)
            gather(wide, at, share)
            _carve(footage, frame, points, share)
        own[name] = np.nan_to_num(share)
        witnesses += bool((share > 0.3).any())
        total += own[name]
    return Votes(points, total, own, witnesses)


def _carve(footage: Footage, frame: int, points: np.ndarray, share: np.ndarray) -> None:
    """Voxels before a measured surface are empty: the camera looks through them."""
    deep = footage.clip.depth_m
    if deep is None:
        return
    at = project(footage.clip, frame, points)
    inside = np.isfinite(share)
    x, y = (np.floor(at[inside, k] + 0.5).astype(int) for k in (0, 1))
    measured = deep[frame, y, x]
    empty = (measured > 0) & (at[inside, 2] < measured - EMPTY_M)
    share[np.flatnonzero(inside)[empty]] = -3.0


def side_for(half_m: float, pixel_m: float, most: int) -> int:
    """How many voxels along a block are worth it."""
    return int(np.clip(np.ceil(2 * half_m / (VOXEL_PX * pixel_m)), 10, most))


def pixel_width_m(footages: Mapping[str, Footage], time_s: float, centre: np.ndarray) -> float:
    """The width of a pixel at a point, in the still camera that is nearest to it, or in any."""
    widths = []
    for footage in footages.values():
        clip = footage.clip
        depth = float(project(clip, nearest(clip, time_s), centre[None])[0, 2])
        if depth > 0:
            widths.append((not clip.still, depth / clip.intrinsics.fx))
    return min(widths)[1] if widths else 0.003


def placed(
    footages: Mapping[str, Footage], tables: Tables, seed: Seed, table: Plane | None
) -> tuple[np.ndarray, float]:
    """Middle and radius of the object in the world: along the rays of its seed, where the other cameras agree."""
    clip = footages[seed.camera].clip
    y, x = np.nonzero(seed.region)
    origin, along = rays(clip, seed.frame, x, y)
    middle = rays(clip, seed.frame, np.array([round(x.mean())]), np.array([round(y.mean())]))[1][0]
    size = float(np.percentile(np.hypot(x - x.mean(), y - y.mean()), 98)) / clip.intrinsics.fx  # radius at depth 1
    depth = _rough_depth(clip.T_world_camera[seed.frame][:3, 3], along, table)
    measured = np.zeros(0) if clip.depth_m is None else clip.depth_m[seed.frame][seed.region]
    time_s = float(clip.time_s[seed.frame])
    others = {name: footage for name, footage in footages.items() if name != seed.camera}
    tries = np.linspace(0.55, 1.1, 23) * depth if table is not None else np.geomspace(0.15, 4.0, 60)
    if (measured > 0).sum() > 0.3 * len(x):
        depth = float(np.median(measured[measured > 0])) + 0.5 * size * depth  # its surface is before its middle
    elif others:
        said = [_agreement(others, tables, time_s, origin + d * middle, 0.6 * size * d, table) for d in tries]
        if max(said) > 0.2:
            depth = float(tries[int(np.argmax(said))])
    centre, radius = origin + depth * middle, size * depth
    shown = radius
    for _ in range(2):
        found = vote(footages, tables, time_s, centre, 1.4 * radius + MARGIN_M, SIDE, table)
        weight = found.weight
        if weight.sum() <= 0:
            break
        weight = np.where(weight > 0.5 * weight.max(), weight, 0)
        centre = weight @ found.points / weight.sum()
        if found.witnesses > 1:
            far = np.linalg.norm(found.points[weight > 0] - centre, axis=1)
            radius = float(np.clip(np.percentile(far, 97), 0.9 * shown, 1.5 * shown))
    return centre, radius


def _rough_depth(origin: np.ndarray, along: np.ndarray, table: Plane | None) -> float:
    """Where the lowest rays of a region meet the table: there the object stands."""
    if table is None:
        return 1.0
    met = table_depth(table, origin, along)
    met = met[np.isfinite(met)]
    return float(np.percentile(met, 10)) if len(met) else 1.0


def _agreement(
    others: Mapping[str, Footage], tables: Tables, time_s: float, point: np.ndarray, radius_m: float,
    table: Plane | None,
) -> float:  # fmt: skip
    """The mean vote of the other cameras on a small ball."""
    if table is not None and float(table.above(point)) < -0.5 * radius_m:
        return -3.0
    said = []
    for name, footage in others.items():
        frame = nearest(footage.clip, time_s)
        place = window(footage.clip, frame, point, 0.5 * radius_m)
        if place is not None:
            said.append(float(footage.odds(frame, *place, tables[name])[1].mean()))
    return float(np.mean(said)) if said else -3.0


def follow(
    footages: Mapping[str, Footage], tables: Tables, seed: Seed, start: tuple[np.ndarray, float], table: Plane | None
) -> Track:
    """The object's way through the whole clip, from its seed onwards and backwards."""
    lead = footages[seed.camera].clip
    times = np.unique(np.round(np.concatenate([f.clip.time_s for f in footages.values()]), 3))
    step = float(np.median(np.diff(lead.time_s))) if len(lead) > 1 else 1.0
    times = times[np.concatenate([[True], np.diff(np.floor(times / step)) > 0])]
    first = int(np.argmin(np.abs(times - lead.time_s[seed.frame])))
    centre, radius = start
    pixel_m = pixel_width_m(footages, float(times[first]), centre)
    centres, seen = np.tile(centre, (len(times), 1)), np.zeros(len(times), bool)
    usual = 0.0
    for way in (range(first, len(times)), range(first - 1, -1, -1)):
        here, speed = centres[first].copy(), np.zeros(3)
        for k in way:
            guess = here + speed
            found = _found(footages, tables, float(times[k]), guess, (radius, pixel_m), table, LOST * usual)
            if found is None and usual > 0:
                found = _search(footages, tables, float(times[k]), here, (radius, pixel_m), table, 3 * LOST * usual)
            if found is None:
                speed, centres[k] = np.zeros(3), here
                continue
            there, weight = found
            usual = weight if usual == 0 else max(0.98 * usual, 0.9 * usual + 0.1 * weight)
            speed = 0.5 * (there - here) if k != way[0] else np.zeros(3)
            here = there
            centres[k], seen[k] = here, True
    return Track(times, centres, seen, radius, pixel_m)


def _found(
    footages: Mapping[str, Footage], tables: Tables, time_s: float, guess: np.ndarray, size_m: tuple[float, float],
    table: Plane | None, least: float,
) -> tuple[np.ndarray, float] | None:  # fmt: skip
    """Middle and weight near a guess; None if there is too little. `size_m`: radius, and width of a pixel."""
    half = 1.4 * size_m[0] + MARGIN_M
    found = vote(footages, tables, time_s, guess, half, side_for(half, size_m[1], SIDE), table)
    weight = found.weight
    if float(weight.sum()) <= max(least, 1.0):
        return None
    centre, total = _settled(found.points, weight, guess, 1.1 * size_m[0])
    if total <= max(least, 1.0):
        return None
    if found.witnesses == 1 and table is not None:
        centre = _on_table(footages, found, centre, guess, table)
    return centre, total


def _settled(points: np.ndarray, weight: np.ndarray, guess: np.ndarray, radius: float) -> tuple[np.ndarray, float]:
    """The middle of the weight that a ball of the object's size holds, by mean shift: neighbours do not pull."""
    centre = guess
    for _ in range(5):
        held = np.where(((points - centre) ** 2).sum(axis=1) < radius**2, weight, 0)
        if held.sum() <= 0:
            held = weight
        centre = held @ points / held.sum()
    return centre, float(held.sum())


def _on_table(
    footages: Mapping[str, Footage], found: Votes, centre: np.ndarray, guess: np.ndarray, table: Plane
) -> np.ndarray:
    """One camera knows a direction alone: the object stays as high above the table as it was."""
    name = next(name for name, share in found.own.items() if (share > 0.3).any())
    clip = footages[name].clip
    eye = clip.T_world_camera[0][:3, 3] if clip.still else None
    if eye is None:
        return centre
    along = centre - eye
    slope = float(along @ np.array(table.normal))
    if abs(slope) < 0.15 * float(np.linalg.norm(along)):
        return centre
    moved = eye + along * float((table.above(guess) - table.above(eye)) / slope)
    return moved if np.linalg.norm(moved - centre) < 0.1 else centre


def _search(
    footages: Mapping[str, Footage], tables: Tables, time_s: float, centre: np.ndarray, size_m: tuple[float, float],
    table: Plane | None, least: float,
) -> tuple[np.ndarray, float] | None:  # fmt: skip
    """Looks for a lost object in a large block, then again where most was found."""
    wide = vote(footages, tables, time_s, centre, REACH_M, 40, table)
    weight = wide.weight
    if weight.max() <= 0.5:
        return None
    best = wide.points[int(np.argmax(weight))]
    close = np.linalg.norm(wide.points - best, axis=1) < 1.2 * size_m[0]
    guess = weight[close] @ wide.points[close] / weight[close].sum()
    return _found(footages, tables, time_s, guess, size_m, table, least)
