"""From a prompt to a first region: clicks and boxes grow in their own picture, by colour and outline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.reconstruct.masks_footage import Footage, density
from twinproof.reconstruct.masks_space import rays, table_depth
from twinproof.sim.grid import Plane

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

REACH_M = 0.16  # an object is not larger than this to any side of a click
SURE = 20.0  # log odds of what the user said
ROUNDS = 5
PRICE = 2.0  # of one pixel of outline where the colours are alike


@dataclass(frozen=True, eq=False)
class Seed:
    """Where an object is in one picture, to begin with."""

    camera: str
    frame: int
    region: Bool[np.ndarray, "H W"]


def outline_price(rgb: np.ndarray, price: float = PRICE) -> tuple[np.ndarray, np.ndarray]:
    """The price of an outline between neighbours: dear where they look alike, cheap across an edge."""
    c = rgb.astype(np.float32)
    across, down = np.zeros(c.shape[:2], np.float32), np.zeros(c.shape[:2], np.float32)
    step_x, step_y = ((c[:, 1:] - c[:, :-1]) ** 2).sum(-1), ((c[1:] - c[:-1]) ** 2).sum(-1)
    usual = 2 * (step_x.mean() + step_y.mean()) / 2 + 20.0
    across[:, :-1] = price * (0.1 + 0.9 * np.exp(-step_x / usual))
    down[:-1] = price * (0.1 + 0.9 * np.exp(-step_y / usual))
    return across, down


def cut(odds: np.ndarray, rgb: np.ndarray, rounds: int = 120, price: float = PRICE) -> Bool[np.ndarray, "h w"]:
    """The region of positive odds with a short outline along edges."""
    from twinproof.sim.mask_kernels import smooth_cut

    region: np.ndarray = smooth_cut(odds.astype(np.float32), *outline_price(rgb, price), rounds) > 0.5
    return region


def touching(region: np.ndarray, at: np.ndarray) -> Bool[np.ndarray, "h w"]:
    """The connected parts of a region that hold one of the chosen pixels."""
    from scipy import ndimage

    parts, _ = ndimage.label(region)
    held = np.unique(parts[at & region])
    kept: np.ndarray = np.isin(parts, held[held > 0])
    return kept


def grow(
    footage: Footage, frame: int, inside: np.ndarray, outside: np.ndarray, box: np.ndarray | None, table: Plane | None
) -> tuple[Bool[np.ndarray, "H W"], bool]:
    """The region around clicks (N, 2) or in a box, and whether it has an end: a bare surface runs on and on."""
    rows, cols = _window(footage, frame, inside, box, table)
    rgb = footage.clip.rgb[frame, rows, cols]
    h, w = rgb.shape[:2]
    whole = np.ones((h, w), bool)
    lab = footage.colours(frame, whole, rows, cols).reshape(h, w, 3)
    yes, no = _near(inside, rows, cols, h, w, 2.0), _near(outside, rows, cols, h, w, 2.0)
    allowed = whole if box is None else _boxed(box, rows, cols, h, w)
    start = yes if yes.any() else _middle(allowed)
    region = allowed if box is not None and not yes.any() else _alike(lab, start)
    first = density(lab[_near(inside, rows, cols, h, w, 4.0) if yes.any() else start], shaded=True, blur=1.6)
    robot = footage.robot(frame, rows, cols)
    for _ in range(ROUNDS):
        # what the user showed keeps its say: a region that once leaked must not teach itself the table's colours
        own = 0.7 * density(lab[region & ~no], shaded=True) + 0.3 * first
        odds = np.log(own / density(lab[~region]))[bins(lab)].clip(-3, 3)
        odds = np.where(yes, SURE, np.where(no | ~allowed, -SURE, np.where(robot == 2, odds - 3, odds)))
        grown = touching(cut(odds, rgb), start)
        if not grown.any() or (grown == region).all():
            break
        region = grown
    edge = np.concatenate([region[0], region[-1], region[:, 0], region[:, -1]])
    ended = box is not None or (region.mean() < 0.6 and edge.mean() < 0.3)
    full = np.zeros(footage.clip.rgb.shape[1:3], bool)
    full[rows, cols] = region
    return full, bool(ended and region.any())


def bins(lab: np.ndarray) -> np.ndarray:
    """The bin of every colour, as `mask_kernels.colour_bin` counts."""
    i = np.clip((lab[..., 0] / 6).astype(int), 0, 19)
    j, k = (np.clip((lab[..., n] / 6 + 16).astype(int), 0, 31) for n in (1, 2))
    found: np.ndarray = (i * 32 + j) * 32 + k
    return found


def _window(
    footage: Footage, frame: int, inside: np.ndarray, box: np.ndarray | None, table: Plane | None
) -> tuple[slice, slice]:
    """Rows and columns in which the object must lie."""
    clip = footage.clip
    width, height = clip.size
    if box is not None:
        x0, y0, x1, y1 = box
        margin = 0.25 * max(x1 - x0, y1 - y0) + 4
        x0, y0, x1, y1 = x0 - margin, y0 - margin, x1 + margin, y1 + margin
    else:
        x, y = inside.mean(axis=0)
        half = 0.2 * width
        if table is not None:
            origin, along = rays(clip, frame, np.array([round(x)]), np.array([round(y)]))
            depth = float(table_depth(table, origin, along)[0])
            half = REACH_M * clip.intrinsics.fx / depth if np.isfinite(depth) else half
        half = float(np.clip(half, 12, 0.35 * width)) + float(np.ptp(inside, axis=0).max()) / 2
        x0, y0, x1, y1 = x - half, y - half, x + half, y + half
    return slice(max(0, int(y0)), min(height, int(y1) + 2)), slice(max(0, int(x0)), min(width, int(x1) + 2))


def _near(points: np.ndarray, rows: slice, cols: slice, h: int, w: int, radius: float) -> Bool[np.ndarray, "h w"]:
    y, x = np.mgrid[rows.start : rows.start + h, cols.start : cols.start + w]
    near = np.zeros((h, w), bool)
    for px, py in points:
        near |= (x - px) ** 2 + (y - py) ** 2 <= radius**2
    return near


def _boxed(box: np.ndarray, rows: slice, cols: slice, h: int, w: int) -> Bool[np.ndarray, "h w"]:
    y, x = np.mgrid[rows.start : rows.start + h, cols.start : cols.start + w]
    x0, y0, x1, y1 = box
    inside: np.ndarray = (x >= x0) & (x <= x1) & (y >= y0) & (y <= y1)
    return inside


def _middle(allowed: np.ndarray) -> Bool[np.ndarray, "h w"]:
    """The inner half of a box."""
    y, x = np.nonzero(allowed)
    middle = np.zeros_like(allowed)
    a, b, c, d = (int(np.percentile(v, q)) for v in (y, x) for q in (25, 75))
    middle[a : b + 1, c : d + 1] = True
    return middle


def _alike(lab: Float[np.ndarray, "h w 3"], start: np.ndarray) -> Bool[np.ndarray, "h w"]:
    """What is connected to the start and looks much like it, up to light and shade."""
    from scipy import ndimage

    centre = np.median(lab[start], axis=0)
    smooth = np.stack([ndimage.uniform_filter(lab[..., k], 3) for k in range(3)], axis=-1)
    light = np.clip((smooth @ centre) / (centre @ centre), 0.6, 1.4)
    far = np.linalg.norm(smooth - light[..., None] * centre, axis=-1)
    grown = touching((far < 9) | start, start)
    wider: np.ndarray = ndimage.binary_dilation(grown)
    return wider
