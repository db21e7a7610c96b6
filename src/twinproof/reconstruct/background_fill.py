"""The background behind what may be taken away: from other times where they show it, else made up and labelled so.

more = at_other_times(clips, labels, views)          pixels of still cameras that a thing hid, and later did not
real, made = filled(splats, views, table)            surfels that nobody saw go; the table below is continued (declared)
made = filled_below(splats, table, places)           the same for a background alone: where it is open from above
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.clip import Clip
from twinproof.nouns.splats import SH0, Splats
from twinproof.nouns.views import PosedView, Views
from twinproof.reconstruct.plate import Origin, Plate, inpainted, plate_over_time, surface_points
from twinproof.sim.grid import Plane
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.splat.render import render

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

MADE_UP = "background_made_up"  # the group, and the twin's layer, of what nobody saw
WHY = "nobody saw the table there: its colours are continued from around it (inpainted)"
CELL_M = 0.004  # of the table that is made up
REACH_M = 1.2  # cells farther away than this are left open
NEAR_PX = 2  # so near to a thing's outline a pixel may show it
COVER = 0.7  # size of a disc in cells: neighbours close the gaps between them
LOGIT = 4.0  # of its opacity
LEAST_PX = 50  # that another time has to show anew
TIMES = 24  # pictures of a camera that are looked through
OPEN = 0.5  # what stops less of the light from above is a hole
ACROSS = 96  # cells a side, looking down
AROUND = 2.0  # the region looked at, in sizes of what stood there


def at_other_times(
    clips: Mapping[str, Clip], labels: Mapping[str, Int[np.ndarray, "T H W"]], views: Views
) -> tuple[PosedView, ...]:
    """Of every still camera in the views, what its pictures of other times show where something hid the background.

    Labels are the masks': -1 is the background. Pixels that the view shows already do not count.
    """
    more = []
    for view in views.views:
        camera, clip = view.name.rpartition("/")[0], clips.get(view.name.rpartition("/")[0])
        if clip is None or not clip.still or view.mask is None:
            continue
        some = np.unique(np.linspace(0, len(clip) - 1, min(TIMES, len(clip))).astype(int))
        plate = plate_over_time(clip.rgb[some], grown(labels[camera][some] != -1))
        fresh = (plate.origin == Origin.SEEN) & (view.mask != 0)
        if fresh.sum() >= LEAST_PX:
            mask = np.where(fresh, 0, -1)
            more.append(
                PosedView(f"{camera}/at_other_times", plate.rgb, view.intrinsics, view.T_world_camera, mask=mask)
            )
    return tuple(more)


def said(background: Splats | None) -> tuple[str, ...]:
    """How much of a background was made up, in words."""
    if background is None or MADE_UP not in background.groups:
        return ()
    area = len(background.of(MADE_UP)) * (100 * CELL_M) ** 2
    return (f"{area:.0f} cm² of the table behind things was never seen: made up from around it (inpainted)",)


def grown(hidden: Bool[np.ndarray, "*T H W"]) -> Bool[np.ndarray, "*T H W"]:
    """The same with the pixels around, picture by picture."""
    from scipy.ndimage import maximum_filter

    size = (*[1] * (hidden.ndim - 2), 2 * NEAR_PX + 1, 2 * NEAR_PX + 1)
    return np.asarray(maximum_filter(hidden, size))


def filled(splats: Splats, views: Views, table: Plane) -> tuple[Splats, Splats | None]:
    """The background without what no view ever saw, and surfels on the table where none saw it (None: nowhere).

    Views are masked: 0 is the background. Only what seen table surrounds is made up.
    """
    things = [np.zeros(v.rgb.shape[:2], bool) if v.mask is None else v.mask != 0 for v in views.views]
    around, places = [grown(each) for each in things], splats.means.astype(float)
    made, cells = None, _cells(views, table)
    if cells is not None:
        colour, inside = _shown(cells.points.reshape(-1, 3), views, around)
        seen, inside = (each.reshape(cells.points.shape[:2]) for each in (colour[:, 3] > 0, inside))
        mean = (colour[:, :3] / np.maximum(colour[:, 3:], 1)).reshape(cells.points.shape)
        made = _continued(cells, mean, seen, _enclosed(seen, inside))
    shown, looked = _shown(places, views, things)
    lost = looked & (shown[:, 3] == 0)
    if made is not None:  # the fringe of an outline has the colours of both
        lost |= looked & (_shown(places, views, around)[0][:, 3] == 0) & _beside(places, made)
    return splats.take(~lost), made


def _beside(places: Float[np.ndarray, "N 3"], made: Splats) -> Bool[np.ndarray, "N"]:
    from scipy.spatial import KDTree

    return np.asarray(KDTree(made.means).query(places)[0] < 2 * CELL_M)


def filled_below(splats: Splats, table: Plane, places: Float[np.ndarray, "N 3"]) -> Splats | str | None:
    """Surfels for the holes of the table that reach under places: where the background lets light through from above.

    None where there is none. Where nothing is known around it to continue, a sentence says so.
    """
    from scipy.ndimage import label

    middle = places.mean(axis=0)
    size = AROUND * max(float(np.ptp(places, axis=0).max()), 4 * CELL_M)
    pixel, height = size / ACROSS, 10 * size  # from far above the rays are nearly parallel
    eye = _facing(table, middle - float(table.above(middle)) * np.array(table.normal) + height * np.array(table.normal))
    focal = height / pixel
    camera = Camera(Lens(ACROSS, ACROSS, focal, focal, (ACROSS - 1) / 2, (ACROSS - 1) / 2), eye)
    drawn = render(splats, camera, what=("colour", "alpha"))
    seen = drawn.alpha > OPEN
    cells = _Cells(surface_points(camera, table), table, pixel)
    below = _around(cells, places) & ~seen
    if not below.any():
        return None
    number, _ = label(_enclosed(seen, ~seen))
    hole = np.isin(number, np.unique(number[below & (number > 0)]))
    if not hole.any():
        return "the background shows no table around it that could be continued: a hole stays there"
    colour = 255 * drawn.colour / np.maximum(drawn.alpha, 1e-3)[..., None]
    return _continued(cells, colour, seen, hole)


@dataclass(frozen=True, eq=False)
class _Cells:
    """A grid of places on the table."""

    points: Float[np.ndarray, "H W 3"]
    table: Plane
    size_m: float


def _shown(
    points: Float[np.ndarray, "N 3"], views: Views, hidden: Sequence[np.ndarray]
) -> tuple[Float[np.ndarray, "N 4"], Bool[np.ndarray, "N"]]:
    """The sum of the colours that views show at points, how many do, and whether any looks there at all."""
    from twinproof.reconstruct.splat_state import seen_in

    total, looked = np.zeros((len(points), 4)), np.zeros(len(points), bool)
    for view, covered in zip(views.views, hidden, strict=True):
        which, pixels, _ = seen_in(view, points, 0.01)
        column, row = np.round(pixels).astype(int).T
        looked[which] = True
        clear = ~covered[row, column]
        total[which[clear], :3] += view.rgb[row[clear], column[clear]]
        total[which[clear], 3] += 1
    return total, looked


def _cells(views: Views, table: Plane) -> _Cells | None:
    """A grid over all of the table that something hides in some view."""
    found = [np.zeros((0, 3))]
    for view in views.views:
        if view.mask is not None:
            k, (height, width) = view.intrinsics, view.rgb.shape[:2]
            lens = Lens(width, height, k.fx, k.fy, k.cx, k.cy, k.distortion)
            places = surface_points(Camera(lens, view.T_world_camera), table)[view.mask != 0]
            found.append(places[np.linalg.norm(places, axis=1) < REACH_M])  # beyond the horizon they are not finite
    places = np.concatenate(found)
    if not len(places):
        return None
    T = _facing(table, np.zeros(3))
    flat = places @ T[:3, :2]
    low, high = flat.min(axis=0) - 2 * CELL_M, flat.max(axis=0) + 2 * CELL_M
    x, y = (np.arange(a, b, CELL_M) for a, b in zip(low, high, strict=True))
    ground = table.offset_m * np.array(table.normal)
    return _Cells(ground + x[None, :, None] * T[:3, 0] + y[:, None, None] * T[:3, 1], table, CELL_M)


def _enclosed(seen: Bool[np.ndarray, "H W"], inside: Bool[np.ndarray, "H W"]) -> Bool[np.ndarray, "H W"]:
    """Cells that were looked at in vain and that seen ones surround."""
    from scipy.ndimage import binary_fill_holes

    return np.asarray(binary_fill_holes(seen) & ~seen & inside)


def _around(cells: _Cells, places: Float[np.ndarray, "N 3"]) -> Bool[np.ndarray, "H W"]:
    """Cells near what stood there."""
    from scipy.spatial import KDTree

    normal = np.array(cells.table.normal)
    flat = places - cells.table.above(places)[:, None] * normal
    far = KDTree(flat).query(cells.points.reshape(-1, 3))[0]
    return np.asarray((far < 0.25 * max(float(np.ptp(flat, axis=0).max()), CELL_M)).reshape(cells.points.shape[:2]))


def _continued(
    cells: _Cells, rgb: Float[np.ndarray, "H W 3"], seen: Bool[np.ndarray, "H W"], hole: Bool[np.ndarray, "H W"]
) -> Splats | None:
    """Surfels over the holes, in colours that run smoothly in from their borders."""
    if not hole.any():
        return None
    rows, columns = (slice(max(0, int(k.min()) - 1), int(k.max()) + 2) for k in np.nonzero(hole))
    cut = np.where(seen[rows, columns], Origin.SEEN, Origin.NONE).astype(np.int8)
    plate = inpainted(Plate(np.round(rgb[rows, columns]).clip(0, 255).astype(np.uint8), cut))
    here = hole[rows, columns]
    means, count = cells.points[rows, columns][here], int(here.sum())
    x, y, z = cells.table.normal
    quat = (1 + z, -y, x, 0.0) if z > -1 + 1e-6 else (0.0, 1.0, 0.0, 0.0)
    return Splats(
        means,
        np.tile(quat, (count, 1)),
        np.full((count, 3), np.log(COVER * cells.size_m)),
        np.full(count, LOGIT),
        ((plate.rgb[here] / 255 - 0.5) / SH0)[:, None],
        np.zeros(count, np.int32),
        (MADE_UP,),
        flat=True,
    )


def _facing(table: Plane, at: Float[np.ndarray, "3"]) -> Float[np.ndarray, "4 4"]:
    """A camera's pose that looks straight down on the table."""
    z = -np.array(table.normal)
    x = np.cross(z, [0.0, 1.0, 0.0] if abs(z[1]) < 0.9 else [1.0, 0.0, 0.0])
    x /= np.linalg.norm(x)
    T = np.eye(4)
    T[:3, 0], T[:3, 1], T[:3, 2], T[:3, 3] = x, np.cross(z, x), z, at
    return T
