"""An object's masks from its track: every camera's own evidence, what the others allow, and a cut along edges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.progress import Progress
from twinproof.reconstruct.masks_footage import Footage, density, linear, make_plate, plate_frames
from twinproof.reconstruct.masks_seed import Seed, cut, touching
from twinproof.reconstruct.masks_space import pixels, project, window
from twinproof.reconstruct.masks_track import Tables, Track, side_for, vote
from twinproof.sim.grid import Plane

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

SIDE = 40  # voxels along the block that the cameras agree on
TRUST = 0.7  # weight of the other cameras' say against a pixel's own
PRICE = 1.5  # of a pixel of outline
ALLOWED = -0.5  # some of a part must be where the other cameras say so much
NEARER = 6.0  # log odds that a claim loses from the middle of an object to its end
PART = 0.2  # a part smaller than this share of the largest is a speck
ALIKE = 0.5  # overlap of colours above which two objects are told apart by place alone
RING = 7  # pixels around an outline that are its surroundings
EVERY, SPARSE = 8, 3  # pictures and pixels from which the surroundings' colours are learnt


@dataclass(frozen=True, eq=False)
class Cutout:
    """One object in one picture: a window, the pixels that show it, and where it is hidden.

    `odds` are log odds with all that is known, `own` with this picture alone.
    """

    rows: slice
    cols: slice
    region: Bool[np.ndarray, "h w"]
    odds: Float[np.ndarray, "h w"]
    own: Float[np.ndarray, "h w"]
    hidden: Bool[np.ndarray, "h w"]
    claim: Float[np.ndarray, "h w"]  # whose claim is larger has a pixel that several objects want


Cutouts = Mapping[str, Mapping[int, Cutout]]  # camera -> picture -> cutout; absent where it is out of sight


def learn_from_seeds(
    footages: Mapping[str, Footage], seeds: list[Seed], avoid: list[np.ndarray], track: Track | None = None
) -> dict[str, np.ndarray]:
    """Colour densities for every camera, the object's from its seeds; `avoid` are colours that are not the object's.

    With a track, all else is learnt from where the object is not: before a near camera it may fill the picture.
    """
    shown = np.concatenate([footages[seed.camera].shown(seed.frame, _inner(seed.region)) for seed in seeds])
    own = density(shown, shaded=True, blur=1.3, even=0.015)
    return {name: _tables(footage, own, avoid, {}, track) for name, footage in footages.items()}


def _inner(region: np.ndarray) -> Bool[np.ndarray, "H W"]:
    """A region without its outline, where colours bleed, unless little would be left."""
    from scipy import ndimage

    inner = ndimage.binary_erosion(region, iterations=2)
    return inner if inner.sum() > 0.4 * region.sum() else region


def learn_again(
    footages: Mapping[str, Footage], tables: Tables, cutouts: Cutouts, avoid: list[np.ndarray]
) -> dict[str, np.ndarray]:
    """The same with every camera's own look at the object, the inner part of its masks."""
    from scipy import ndimage

    learnt = dict[str, np.ndarray]()
    for name, footage in footages.items():
        inner = []
        for frame, cutout in sorted(cutouts[name].items())[::2]:
            # colours bleed over an outline by a pixel or two, in lenses and in coded video
            core = ndimage.binary_erosion(cutout.region, iterations=2) & (cutout.own > 1.5)
            if core.sum() >= 10:
                inner.append(footage.colours(frame, core, cutout.rows, cutout.cols))
        seen = np.concatenate(inner) if inner else np.zeros((0, 3), np.float32)
        share = 0.85 * len(seen) / (len(seen) + 500)  # what the user showed keeps its say
        own = share * density(seen, blur=0.8, even=0.005) + (1 - share) * tables[name][0]
        learnt[name] = _tables(footage, own.astype(np.float32), avoid, cutouts[name], None)
    return learnt


def _tables(
    footage: Footage, own: np.ndarray, avoid: list[np.ndarray], cutouts: Mapping[int, Cutout], track: Track | None
) -> np.ndarray:
    """Densities of the object, of all else in this camera's pictures, and of the robot."""
    from twinproof.sim.mask_kernels import STEP

    clip = footage.clip
    sparse = np.zeros(clip.rgb.shape[1:3], bool)
    sparse[::SPARSE, ::SPARSE] = True
    others, robots = [], []
    for frame in range(0, len(clip), EVERY):
        free = sparse.copy()
        cutout = cutouts.get(frame)
        if cutout is not None:
            free[cutout.rows, cutout.cols] &= ~cutout.region
        if track is not None:
            place = window(clip, frame, track.at(float(clip.time_s[frame])), track.radius_m)
            if place is not None:
                free[place] = False
        drawn = clip.robot[frame] if clip.robot is not None else np.zeros_like(free)
        others.append(footage.shown(frame, free & ~drawn))
        robots.append(footage.shown(frame, free & drawn))
    other = density(np.concatenate(others))
    near = _around(footage, cutouts)
    if len(near) > 200:
        other = np.maximum(other, 0.5 * density(near))
    for colours in avoid:
        not_it = density(colours, blur=1.3)
        if float(np.sqrt(own * not_it).sum()) * STEP**3 < ALIKE:
            other = np.maximum(other, 0.5 * not_it)
    robot = np.concatenate(robots)
    return np.stack([own, other, density(robot) if len(robot) > 50 else other]).astype(np.float32)


def _around(footage: Footage, cutouts: Mapping[int, Cutout]) -> np.ndarray:
    """Colours of what lies a few pixels off the object's outline."""
    from scipy import ndimage

    found = [np.zeros((0, 3), np.float32)]
    for frame, cutout in sorted(cutouts.items())[:: EVERY // 2]:
        if cutout.region.any():
            away = ndimage.distance_transform_edt(~cutout.region)
            robot = footage.robot(frame, cutout.rows, cutout.cols)
            ring = (away >= 2) & (away <= RING) & (robot == 0)
            found.append(footage.colours(frame, ring, cutout.rows, cutout.cols))
    return np.concatenate(found)


def with_plates(footages: Mapping[str, Footage], tables: list[Tables], cutouts: list[Cutouts]) -> dict[str, Footage]:
    """Still cameras get the plate behind all objects: what is seen where none of them, and no robot, is."""
    from scipy import ndimage

    from twinproof.sim.mask_kernels import colour_odds

    made = dict[str, Footage]()
    for name, footage in footages.items():
        clip = footage.clip
        if not clip.still:
            made[name] = footage
            continue
        width, height = clip.size
        frames = plate_frames(clip)
        bare = np.empty((len(frames), height, width), bool)
        for k, frame in enumerate(frames):
            bare[k] = footage.robot(frame, *footage.everywhere) == 0
            for table in tables if not cutouts else ():
                at = (clip.rgb[frame], footage.gain[frame], linear(), table[name][0], table[name][1])
                bare[k] &= colour_odds(*at) < 0
            for each in cutouts:
                cutout = each[name].get(frame)
                if cutout is not None:
                    taken = ndimage.binary_dilation(cutout.region, iterations=2)
                    bare[k, cutout.rows, cutout.cols] &= ~taken
        made[name] = replace(footage, plate=make_plate(footage, frames, bare))
    return made


def refine(
    footages: Mapping[str, Footage], tables: Tables, track: Track, table: Plane | None, progress: Progress, name: str
) -> Cutouts:
    """The object in every picture of every camera."""
    half = 1.25 * track.radius_m + 0.01
    side = side_for(half, track.pixel_m, SIDE)
    due = {
        camera: np.array([int(np.argmin(np.abs(track.time_s - t))) for t in f.clip.time_s])
        for camera, f in footages.items()
    }
    found: dict[str, dict[int, Cutout]] = {camera: {} for camera in footages}
    for k, time_s in enumerate(track.time_s):
        votes = vote(footages, tables, float(time_s), track.centre[k], half, side, table)
        near = np.linalg.norm(votes.points - track.centre[k], axis=1) < 1.2 * track.radius_m + 2 * track.pixel_m
        for camera, footage in footages.items():
            other = (votes.total - votes.own[camera])[near]
            for frame in np.flatnonzero(due[camera] == k).tolist():
                cutout = _cutout(footage, frame, tables[camera], votes.points[near], other, (track.centre[k], half))
                if cutout is not None:
                    found[camera][frame] = cutout
        progress(k + 1, name, len(track.time_s))
    return found


def _cutout(
    footage: Footage, frame: int, tables: np.ndarray, points: np.ndarray, other: np.ndarray,
    ball: tuple[np.ndarray, float],
) -> Cutout | None:  # fmt: skip
    """The object in one picture: own odds, and the best that others say of any voxel behind each pixel."""
    from scipy import ndimage

    from twinproof.sim.mask_kernels import support

    place = window(footage.clip, frame, ball[0], 1.4 * ball[1])
    if place is None:
        return None
    rows, cols = place
    own, voted = footage.odds(frame, rows, cols, tables)
    said = np.full(own.shape, -9.0, np.float32)
    at = pixels(footage.clip, frame, points) - np.array([cols.start, rows.start], np.int32)
    support(other, at, said)
    said = ndimage.maximum_filter(said, 3)
    joint = own + TRUST * np.clip(said, -4, 0.7)
    region = cut(joint, footage.clip.rgb[frame, rows, cols], price=PRICE)
    region = _whole(touching(region, said > ALLOWED) if other.any() else region, joint)
    hidden = ~region & (said > 1.0) & (own < 0) & (voted > -2.0)  # not where the bare plate shows through
    x, y, depth = project(footage.clip, frame, ball[0][None])[0]
    away = np.hypot(np.arange(cols.start, cols.stop) - x, np.arange(rows.start, rows.stop)[:, None] - y)
    claim = joint - NEARER * away * max(depth, 1e-3) / (footage.clip.intrinsics.fx * ball[1])
    return Cutout(rows, cols, region, joint, own, hidden, claim.astype(np.float32))


def _whole(region: np.ndarray, odds: np.ndarray) -> Bool[np.ndarray, "h w"]:
    """The region without specks, its pinholes filled."""
    from scipy import ndimage

    parts, count = ndimage.label(region)
    if count > 1:
        weight = ndimage.sum_labels(np.clip(odds, 0, 3), parts, np.arange(1, count + 1))
        region = np.isin(parts, 1 + np.flatnonzero(weight >= PART * weight.max()))
    holes, count = ndimage.label(~region)
    if count > 1:
        sizes = np.bincount(holes.ravel(), minlength=count + 1)
        small = np.flatnonzero(sizes < max(4, 0.01 * region.sum()))
        region = region | np.isin(holes, small[small > 0])
    return region
