"""A clip made ready for masks: exposure evened out, the robot's edge, the plate behind everything, colour densities."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.clip import Clip
from twinproof.reconstruct.masks_space import rays
from twinproof.sim.grid import Plane

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, UInt8

SPARSE = 4  # exposure is judged on every fourth row and column
ENOUGH = 48  # pictures for a plate
LEAST = 4  # a plate's pixel is known when it was seen bare in so many pictures
DARK = 0.74  # L + 16 in the deepest shadow, as a share of that in the light
RAISED_M = 0.006  # depth cameras tell an object from the table above this height
HALO = -1.0  # log odds at most, of thin lines of colours that the object does not have
SHADES = {0.72: 0.06, 0.86: 0.14, 1.0: 0.7, 1.08: 0.1}  # light under which colours seen once may appear, and its share


@cache
def linear() -> Float[np.ndarray, "256"]:
    """Linear light of a display-referred byte."""
    s = np.arange(256) / 255
    table: np.ndarray = np.where(s <= 0.04045, s / 12.92, ((s + 0.055) / 1.055) ** 2.4).astype(np.float32)
    table.setflags(write=False)
    return table


@dataclass(frozen=True, eq=False)
class Plate:
    """What a still camera sees where nothing stands: colours (L + 16, a, b), whether known, and their spread."""

    lab: Float[np.ndarray, "H W 3"]
    known: UInt8[np.ndarray, "H W"]
    sigma: float = 4.0


@dataclass(frozen=True, eq=False)
class Footage:
    """A clip, the gain that evens out each picture's exposure, and how far the drawn robot may be off."""

    clip: Clip
    gain: Float[np.ndarray, "T 3"]
    tolerance_px: int
    plate: Plate | None = None
    table: Plane | None = None

    def robot(self, frame: int, rows: slice, cols: slice) -> UInt8[np.ndarray, "h w"]:
        """0 where the robot is not, 1 within the tolerance of its edge, 2 inside it."""
        from scipy import ndimage

        size = (rows.stop - rows.start, cols.stop - cols.start)
        if self.clip.robot is None:
            return np.zeros(size, np.uint8)
        t, (width, height) = self.tolerance_px, self.clip.size
        top, left = max(rows.start - t, 0), max(cols.start - t, 0)
        wide = self.clip.robot[frame, top : min(rows.stop + t, height), left : min(cols.stop + t, width)]
        if not wide.any():
            return np.zeros(size, np.uint8)
        shape = np.ones((2 * t + 1, 2 * t + 1), bool)
        out = ndimage.binary_dilation(wide, shape).astype(np.uint8)
        out += ndimage.binary_erosion(wide, shape, border_value=1)
        r, c = rows.start - top, cols.start - left
        return np.ascontiguousarray(out[r : r + size[0], c : c + size[1]])

    def odds(self, frame: int, rows: slice, cols: slice, tables: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log odds (h, w) that each pixel of a window shows the object, and its vote on what is there.

        `tables` are the densities of the object's colours, of all others, of the robot's. A vote is the odds, clipped;
        it is near 0 where something may stand before the object: the robot, or anything that is not the plate.
        """
        from scipy import ndimage

        from twinproof.sim.mask_kernels import evidence

        rgb = self.clip.rgb[frame, rows, cols]
        plate = self.plate
        if plate is None:
            lab, known, sigma = np.zeros((*rgb.shape[:2], 3), np.float32), np.zeros(rgb.shape[:2], np.uint8), 4.0
        else:
            lab, known, sigma = plate.lab[rows, cols], plate.known[rows, cols], plate.sigma
        robot = self.robot(frame, rows, cols)
        odds, kind = evidence(rgb, self.gain[frame], linear(), lab, known, robot, tables, sigma, DARK)
        # a new colour may be another side of the object; along an outline it is a halo of lens, sharpening or coding
        halo = (kind == 2) & ~ndimage.binary_opening(kind == 2, np.ones((5, 5), bool))
        odds = np.where(halo, np.minimum(odds, HALO), odds) + self._lying(frame, rows, cols)
        # where the robot is drawn, little else can stand before an object: what looks strange is then not the object
        strange = -1.0 if self.clip.robot is None else -2.5
        floor = np.where(robot == 2, 0.0, np.where(kind == 1, -3.0, np.where(robot == 1, -0.5, strange)))
        return odds, np.clip(odds, floor, 2.0).astype(np.float32)

    def _lying(self, frame: int, rows: slice, cols: slice) -> Float[np.ndarray, "h w"] | float:
        """Log odds against pixels that measured depth puts on the table or below it; 0 where that says nothing."""
        deep = self.clip.depth_m
        if deep is None or self.table is None:
            return 0.0
        y, x = np.mgrid[rows, cols]
        origin, along = rays(self.clip, frame, x.ravel(), y.ravel())
        depth = deep[frame, rows, cols].ravel()
        height = self.table.above(origin + depth[:, None] * along)
        low = np.where(depth > 0, np.clip((height - RAISED_M) / RAISED_M, -1, 0), 0)
        against: np.ndarray = (3.0 * low).reshape(y.shape).astype(np.float32)
        return against

    def colours(self, frame: int, where: np.ndarray, rows: slice, cols: slice) -> Float[np.ndarray, "N 3"]:
        """L + 16, a, b of the pixels of a window that are chosen."""
        from twinproof.sim.mask_kernels import to_lab

        found: np.ndarray = to_lab(self.clip.rgb[frame, rows, cols][where], self.gain[frame], linear())
        return found

    def shown(self, frame: int, where: Bool[np.ndarray, "H W"]) -> Float[np.ndarray, "N 3"]:
        """The same of a whole picture."""
        return self.colours(frame, where, *self.everywhere)

    @property
    def everywhere(self) -> tuple[slice, slice]:
        """The window of a whole picture."""
        width, height = self.clip.size
        return slice(0, height), slice(0, width)


def even_exposure(clip: Clip) -> Float[np.ndarray, "T 3"]:
    """What each picture's channels are to be multiplied with, so that what stands still keeps its light."""
    if not clip.still or len(clip) < 3:
        return np.ones((len(clip), 3), np.float32)
    light = linear()[clip.rgb[:, ::SPARSE, ::SPARSE]].reshape(len(clip), -1, 3)
    bare = np.ones(light.shape[:2], bool)
    if clip.robot is not None:
        bare = ~clip.robot[:, ::SPARSE, ::SPARSE].reshape(len(clip), -1)
    usual = np.median(light, axis=0)
    good = bare & (usual.max(axis=-1) < 0.9) & (usual.min(axis=-1) > 0.01)
    gain = np.ones((len(clip), 3), np.float32)
    for t in range(len(clip)):
        if good[t].sum() >= 50:
            gain[t] = 1 / np.median(light[t, good[t]] / usual[good[t]], axis=0)
    return np.clip(gain, 0.4, 2.5)


def density(lab: np.ndarray, shaded: bool = False, blur: float = 1.0, even: float = 0.03) -> np.ndarray:
    """The density of colours over the bins of `mask_kernels`, blurred; a share of it is even over all colours."""
    from scipy import ndimage

    from twinproof.sim.mask_kernels import BINS, EVEN, STEP, count_colours

    bins = np.zeros(int(np.prod(BINS)), np.float64)
    for factor, share in (SHADES if shaded else {1.0: 1.0}).items():
        count_colours((lab * np.float32(factor)).astype(np.float32), np.full(len(lab), share), bins)
    total = bins.sum()
    if total <= 0:
        return np.full(len(bins), EVEN, np.float32)
    smooth = ndimage.gaussian_filter(bins.reshape(BINS), blur, mode="nearest").ravel()
    mixed: np.ndarray = ((1 - even) * smooth / (total * STEP**3) + even * EVEN).astype(np.float32)
    return mixed


def plate_frames(clip: Clip) -> list[int]:
    """The pictures that a plate is made of: all of them, or as many as are enough."""
    return sorted({round(k) for k in np.linspace(0, len(clip) - 1, min(len(clip), ENOUGH)).tolist()})


def make_plate(footage: Footage, frames: list[int], bare: np.ndarray) -> Plate:
    """The plate of a still camera from the pictures in which each pixel is bare: neither object nor robot."""
    from twinproof.sim.mask_kernels import plate_rows, to_lab

    clip = footage.clip
    width, height = clip.size
    lab, count = np.empty((height, width, 3), np.float32), np.empty((height, width), np.int32)
    plate_rows(clip.rgb[frames], footage.gain[frames], linear(), bare, lab, count)
    known = (count >= min(LEAST, max(1, len(frames) // 2))).astype(np.uint8)
    misses = [np.zeros(0, np.float32)]
    for k in range(0, len(frames), max(1, len(frames) // 8)):
        where = (bare[k] & (known > 0))[::SPARSE, ::SPARSE]
        shown = to_lab(clip.rgb[frames[k], ::SPARSE, ::SPARSE][where], footage.gain[frames[k]], linear())
        misses.append(np.abs(shown - lab[::SPARSE, ::SPARSE][where]).max(axis=-1))
    every = np.concatenate(misses)
    spread = float(np.median(every)) if len(every) else 2.0
    return Plate(lab, known, float(np.clip(1.5 * spread, 2.0, 6.0)))
