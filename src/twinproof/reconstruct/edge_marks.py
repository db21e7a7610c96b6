"""Where a picture shows edges of a known shape, to a few hundredths of a pixel.

Across an edge the light goes in one step from one side to the other, as wide as a pixel and its blur. Each side is even
or changes evenly. The step is tried at every place across, and where it leaves least of the picture, there is the edge.
Pixels mix light, not what a screen shows of it: pictures are in linear light, or brighter sides would look larger.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from twinproof.reconstruct.robot_look import pixels_of
from twinproof.sim.link_edges import LinkEdges
from twinproof.sim.render_camera import Camera

if TYPE_CHECKING:
    from jaxtyping import Float, Int

ACROSS_PX, ALONG_PX, APART_PX = 3.5, 6.0, 5.0  # of the window around a mark to either side; between marks on a line
CLEAR_PX = 1.0  # that other edges stay away from the pixels that are looked at
LEAST_PX, LEAST_SIDE_PX = 24, 8  # pixels of a window, and of each of its sides
PLACES_PX = np.arange(-2.0, 2.01, 0.1)
BLURS_PX = (0.3, 0.45, 0.6, 0.8)
SHARP_PX = 0.7  # wider steps are no edges: a shadow's border
SURE_PX = 0.15  # marks whose own noise is larger are left out
SEEN = 3  # pictures at least that show a pixel


@dataclass(frozen=True, eq=False)
class Marks:
    """Places on edges where a picture was asked how far beside the drawn edge its own is."""

    points_m: Float[np.ndarray, "M 3"]  # in the world
    normals: Float[np.ndarray, "M 2"]  # across the edge, in the picture
    line: Int[np.ndarray, "M"]
    piece: Int[np.ndarray, "M"]
    off_px: Float[np.ndarray, "M"]  # along the normal


@dataclass(frozen=True, eq=False)
class Drawn:
    """Edges as one camera sees them: pieces from `a` to `b` in pixels."""

    points_m: Float[np.ndarray, "S 3"]  # middles in the world
    piece: Int[np.ndarray, "S"]
    line: Int[np.ndarray, "S"]
    sharp: np.ndarray
    a: Float[np.ndarray, "S 2"]
    b: Float[np.ndarray, "S 2"]

    @classmethod
    def of(cls, edges: LinkEdges, camera: Camera) -> Drawn:
        """What is neither hidden nor shorter than a hundredth of a pixel."""
        seen = edges.seen_from(camera.T_world_camera[:3, 3])
        (a, before), (b, after) = (pixels_of(camera, edges.ends[seen, k]) for k in (0, 1))
        kept = (np.linalg.norm(b - a, axis=1) > 0.01) & (np.minimum(before, after) > 0)
        piece = seen[kept]
        points_m = edges.ends[piece].mean(axis=1)
        return cls(points_m, piece, edges.line[piece], edges.sharp[piece], a[kept], b[kept])

    @property
    def middle(self) -> Float[np.ndarray, "S 2"]:
        """Of each piece."""
        return np.asarray(0.5 * (self.a + self.b))

    @property
    def way(self) -> Float[np.ndarray, "S 2"]:
        """Direction of each piece."""
        gone: np.ndarray = self.b - self.a
        return np.asarray(gone / np.linalg.norm(gone, axis=1, keepdims=True))

    @cached_property
    def apart(self) -> list[int]:
        """Sharp pieces that are apart on their line: the middles of windows."""
        middle, out = self.middle, list[int]()
        for k in np.flatnonzero(self.sharp):
            own = [i for i in out if self.line[i] == self.line[k]]
            if not own or np.linalg.norm(middle[own] - middle[k], axis=1).min() >= APART_PX:
                out.append(int(k))
        return out


@dataclass(frozen=True, eq=False)
class Window:
    """Pixels beside a piece of an edge: how far across the edge they are and how far along."""

    rows: np.ndarray
    cols: np.ndarray
    across: np.ndarray  # px
    along: np.ndarray  # of ALONG_PX


def marks(drawn: Drawn, light: Float[np.ndarray, "H W 3"], seen: Int[np.ndarray, "H W"]) -> Marks:
    """Of a picture in linear light; pixels that fewer than SEEN pictures made do not count."""
    found = list[tuple[int, float]]()
    for k in drawn.apart:
        window = _window(drawn, k, seen)
        if window is None:
            continue
        off = step(window.across, window.along, light[window.rows, window.cols])
        if off is not None:
            found.append((k, off))
    at = np.array([k for k, _ in found], int)
    way = drawn.way[at]
    normals = np.stack([-way[:, 1], way[:, 0]], axis=1)
    offs = np.array([off for _, off in found])
    return Marks(drawn.points_m[at], normals, drawn.line[at], drawn.piece[at], offs)


def _window(drawn: Drawn, k: int, seen: np.ndarray) -> Window | None:
    """None where too little is free of other edges and of what moves before it."""
    centre, way, middle = drawn.middle[k], drawn.way[k], drawn.middle
    reach = ACROSS_PX + ALONG_PX
    low, high = np.floor(centre - reach).astype(int), np.ceil(centre + reach).astype(int)
    if (low < 0).any() or (high >= [seen.shape[1], seen.shape[0]]).any():
        return None
    y, x = np.mgrid[low[1] : high[1] + 1, low[0] : high[0] + 1]
    p = np.stack([x.ravel(), y.ravel()], axis=1).astype(float)
    along = (p - centre) @ way
    near = (np.abs(along) < ALONG_PX) & (seen[y.ravel(), x.ravel()] >= SEEN)
    p, along = p[near], along[near]
    far = np.linalg.norm(middle - centre, axis=1)
    mine = drawn.sharp & (drawn.line == drawn.line[k])
    foot, own = _feet(p, drawn, np.flatnonzero(mine & (far < 2 * reach)))
    ways = drawn.way[own] * np.sign(drawn.way[own] @ way)[:, None]
    across = ((p - foot) * np.stack([-ways[:, 1], ways[:, 0]], axis=1)).sum(axis=1)
    beside = np.abs(((p - foot) * ways).sum(axis=1)) < 0.05 + 0.3 * np.abs(across)  # not beyond the line's end
    kept = beside & (np.abs(across) <= ACROSS_PX)
    others = np.flatnonzero(~mine & (far < 3 * reach))
    if len(others) and kept.any():
        kept &= np.linalg.norm(p - _feet(p, drawn, others)[0], axis=1) > CLEAR_PX
        between = np.linalg.norm(foot - _feet(foot, drawn, others)[0], axis=1)
        kept &= between > np.abs(across) + 0.7 * CLEAR_PX
    sides = min((across[kept] < -0.7).sum(), (across[kept] > 0.7).sum())
    if kept.sum() < LEAST_PX or sides < LEAST_SIDE_PX:
        return None
    cols, rows = p[kept].astype(int).T
    return Window(rows, cols, across[kept], along[kept] / ALONG_PX)


def _feet(p: np.ndarray, drawn: Drawn, pieces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest point of these pieces to each of the points, and the piece that it lies on."""
    middle = p.sum(axis=0) / max(1, len(p))  # numbers near 0: squares of them lose nothing
    q, a, gone = p - middle, drawn.a[pieces] - middle, (drawn.b - drawn.a)[pieces]
    long = (gone**2).sum(axis=1)
    ahead = q @ gone.T - (a * gone).sum(axis=1)
    share = np.clip(ahead / long, 0, 1)
    apart2 = share * (share * long - 2 * ahead) + (a**2).sum(axis=1) - 2 * q @ a.T  # and q², which decides nothing
    nearest = apart2.argmin(axis=1)
    feet = a[nearest] + share[np.arange(len(p)), nearest, None] * gone[nearest] + middle
    return feet, pieces[nearest]


def step(
    across: Float[np.ndarray, "N"], along: Float[np.ndarray, "N"], light: Float[np.ndarray, "N 3"]
) -> float | None:
    """How far across the step in the light is; None where no sharp one stands out."""
    from scipy.special import ndtr

    even = np.stack([np.ones_like(across), across, along], axis=1)
    left, blur = np.full(len(PLACES_PX), np.inf), 0.0
    for each in BLURS_PX:
        cover = ndtr((across - PLACES_PX[:, None]) / each)[..., None]
        sides = np.concatenate([even * (1 - cover), even * cover], axis=2)
        normal = np.einsum("pni,pnj->pij", sides, sides) + 1e-6 * np.eye(6)
        fitted = np.linalg.solve(normal, np.einsum("pni,nc->pic", sides, light))
        rest = ((light - sides @ fitted) ** 2).sum(axis=(1, 2))
        if rest.min() < left.min():
            left, blur = rest, each
    best = int(left.argmin())
    if best in (0, len(left) - 1) or blur > SHARP_PX:
        return None
    fine = float(PLACES_PX[1] - PLACES_PX[0])
    bend = (left[best - 1] - 2 * left[best] + left[best + 1]) / fine**2
    noise = left[best] / max(1, light.size - 20)
    if bend <= 0 or np.sqrt(2 * noise / bend) > SURE_PX:
        return None
    return float(PLACES_PX[best] - 0.5 * (left[best + 1] - left[best - 1]) / (fine * bend))
