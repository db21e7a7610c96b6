"""How much darker, and of what tint, a camera's pictures are towards their corners: told by the table.

shades = found_shades(views, table)
shades.flat(view)                     the same picture as a lens without shading would show it
drawn * shades.factor(view)           what was drawn for it, as the camera shows it

The table's places are seen by several views, each at another place in the picture. Logarithms of their colours are the
place's own, a gain of the view, and s₁ r² + s₂ r⁴ of the camera (r from the principal point, 1 at half the width): one
linear least squares. What moves over the table (shadows, the arm's border) disagrees and counts little. A place that
one view alone sees tells nothing, so cameras that all stand still and overlap nowhere are left as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.views import PosedView, Views
from twinproof.sim.grid import Plane
from twinproof.sim.render_camera import Lens, pixel_rays

if TYPE_CHECKING:
    from jaxtyping import Float

CELL_M = 0.012  # of the table
REACH_M = 1.2  # places farther away than this are not trusted
DARK, BRIGHT = 12, 243  # levels beyond which noise and clipping bend a logarithm
ROUNDS, CALM = 4, 0.03  # of the least squares; a difference of so much counts half
PRIOR_SD = (0.5, 0.05)  # of s₁ and s₂: glass and sensors fall off nearly as r²
ALIKE = 40.0  # neighbouring cells err together: so many of them are one piece of evidence


@dataclass(frozen=True, eq=False)
class Shades:
    """By camera (a view's name up to its last slash) the two coefficients of every channel."""

    by_camera: Mapping[str, Float[np.ndarray, "2 3"]]

    def factor(self, view: PosedView) -> Float[np.ndarray, "H W 3"]:
        """What the camera multiplies its picture with: 1 at the principal point."""
        found = self.by_camera.get(camera_of(view))
        if found is None:
            return np.ones(view.rgb.shape)
        squared = _squared_radius(view)[..., None]
        factor: np.ndarray = np.exp(squared * found[0] + squared**2 * found[1])
        return factor

    def flat(self, view: PosedView) -> PosedView:
        """The picture with the shading taken out."""
        if camera_of(view) not in self.by_camera:
            return view
        return replace(view, rgb=np.round((view.rgb / self.factor(view)).clip(0, 255)).astype(np.uint8))

    def corner(self, view: PosedView) -> float:
        """How bright the view's first corner is, as a share of its middle."""
        return float(self.factor(view)[0, 0].mean())


def camera_of(view: PosedView) -> str:
    """The camera's name in the view's."""
    return view.name.rpartition("/")[0]


def found_shades(views: Views, table: Plane) -> Shades:
    """Shading of the cameras, from the views' background (mask 0) on the table."""
    rows = [_seen(view, table) for view in views.views]
    view_of = np.concatenate([np.full(len(r.cell), k) for k, r in enumerate(rows)])
    place, count = np.unique(np.concatenate([r.cell for r in rows]), return_inverse=True)[1], len(views.views)
    cameras = sorted({camera_of(view) for view in views.views})
    number = np.array([cameras.index(camera_of(view)) for view in views.views])
    squared, value = np.concatenate([r.squared for r in rows]), np.concatenate([r.value for r in rows])
    if not len(place) or np.bincount(place).max() < 2:
        return Shades({})
    columns = np.zeros((len(place), count + 2 * len(cameras)))
    at = np.arange(len(place))
    columns[at, view_of] = 1
    columns[at, count + 2 * number[view_of]] = squared
    columns[at, count + 2 * number[view_of] + 1] = squared**2
    prior = np.diag([1e-6] * count + [(CALM / sd) ** 2 for sd in PRIOR_SD] * len(cameras))
    weight, solution = np.ones(len(place)), np.zeros((columns.shape[1], 3))
    for _ in range(ROUNDS):
        A, b = _beside(columns, place, weight), _beside(value, place, weight)
        solution = np.linalg.solve((A * weight[:, None]).T @ A / ALIKE + prior, (A * weight[:, None]).T @ b / ALIKE)
        off = np.abs(b - A @ solution).mean(axis=1)
        weight = 1 / (1 + (off / CALM) ** 2)
    return Shades({name: solution[count + 2 * k : count + 2 * k + 2] for k, name in enumerate(cameras)})


@dataclass(frozen=True, eq=False)
class _Seen:
    """What one view shows of the table: cells, r² there, and the logarithm of the mean colour."""

    cell: np.ndarray
    squared: np.ndarray
    value: np.ndarray


def _seen(view: PosedView, table: Plane) -> _Seen:
    places, far = on_plane(view, table)
    use = (far > 0.02) & (np.linalg.norm(places, axis=2) < REACH_M)
    use &= (view.rgb.min(axis=2) > DARK) & (view.rgb.max(axis=2) < BRIGHT)
    if view.mask is not None:
        use &= view.mask == 0
    steps = np.floor(places[use] / CELL_M).astype(np.int64) + 4096
    cell, into, count = np.unique(steps @ np.array([1 << 26, 1 << 13, 1]), return_inverse=True, return_counts=True)
    squared = np.bincount(into, _squared_radius(view)[use], len(cell)) / count
    mean = np.stack([np.bincount(into, view.rgb[use][:, c], len(cell)) / count for c in range(3)], axis=1)
    return _Seen(cell, squared, np.log(mean / 255))


def on_plane(view: PosedView, table: Plane) -> tuple[Float[np.ndarray, "H W 3"], Float[np.ndarray, "H W"]]:
    """Where the rays of a view's pixels meet a plane, and how far along; below 0 and far away where they do not."""
    k, (height, width) = view.intrinsics, view.rgb.shape[:2]
    rays = pixel_rays(Lens(width, height, k.fx, k.fy, k.cx, k.cy, k.distortion))
    along = np.concatenate([rays, np.ones((height, width, 1))], axis=2) @ view.T_world_camera[:3, :3].T
    origin = view.T_world_camera[:3, 3]
    slope = along @ np.array(table.normal)
    far = -float(table.above(origin)) / np.where(np.abs(slope) > 1e-3, slope, np.inf)
    return origin + far[..., None] * along, far


def _beside(values: np.ndarray, place: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The values less their weighted mean at the same place."""
    total = np.bincount(place, weight)
    means = np.stack([np.bincount(place, weight * column) for column in values.T], axis=1) / total[:, None]
    less: np.ndarray = values - means[place]
    return less


def _squared_radius(view: PosedView) -> Float[np.ndarray, "H W"]:
    k, (height, width) = view.intrinsics, view.rgb.shape[:2]
    row, column = np.mgrid[0:height, 0:width]
    squared: np.ndarray = ((column - k.cx) ** 2 + (row - k.cy) ** 2) / (width / 2) ** 2
    return squared


def said(shades: Shades, views: Sequence[PosedView]) -> tuple[str, ...]:
    """A word about every camera whose corners are darker or brighter by a hundredth or more."""
    first = {camera_of(view): view for view in reversed(views)}
    share = {name: shades.corner(first[name]) for name in sorted(first) if name in shades.by_camera}
    return tuple(
        f"lens shading: corners of {name or 'the camera'} show {100 * part:.0f} % of its middle; taken out of the looks"
        for name, part in share.items()
        if abs(part - 1) >= 0.01
    )
