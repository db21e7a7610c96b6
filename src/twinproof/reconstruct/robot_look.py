"""What colour the robot's links have, learnt from pictures: for each shape of the model a colour and how it is shaded.

colour = a + B n, with n the surface's normal in the world: even light plus light from one side, for each camera and
shape on its own. A shape that a camera hardly sees keeps the model's colour, as bright as the others are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.splats import SH0
from twinproof.sim.link_splats import LinkSplats
from twinproof.sim.render_camera import Camera, distort

if TYPE_CHECKING:
    from jaxtyping import Float

HOLD = 30.0  # samples' worth of holding a shape at the model's colour, without shading
SCALE = 0.15  # colours farther off than this are those of something else
DEPTH_M = 0.012  # a surfel this far behind what is drawn is hidden
ROUNDS = 5


@dataclass(frozen=True, eq=False)
class Samples:
    """Surfels that a camera saw: their shape, their normal in the world, and the pixel's colour."""

    geom: np.ndarray
    normal: np.ndarray
    rgb: np.ndarray


@dataclass(frozen=True, eq=False)
class Look:
    """For each shape (geom id) of the robot the 4 × 3 table that maps (1, n) to a colour."""

    tables: dict[int, Float[np.ndarray, "4 3"]]

    @staticmethod
    def of_model(links: LinkSplats) -> Look:
        """The model's own colours, without shading."""
        colours = 0.5 + SH0 * links.splats.sh[:, 0]
        first = {int(g): colours[np.argmax(links.geom == g)] for g in np.unique(links.geom)}
        return Look({geom: np.concatenate([colour[None], np.zeros((3, 3))]) for geom, colour in first.items()})

    def colours(self, links: LinkSplats, poses: Float[np.ndarray, "G 4 4"]) -> Float[np.ndarray, "N 3"]:
        """The surfels' colours when the links are so."""
        normals = world_normals(links, poses)
        out = np.zeros_like(normals)
        for geom, table in self.tables.items():
            mine = links.geom == geom
            out[mine] = table[0] + normals[mine] @ table[1:]
        return np.asarray(np.clip(out, 0, 1))


def world_normals(links: LinkSplats, poses: Float[np.ndarray, "G 4 4"]) -> Float[np.ndarray, "N 3"]:
    """The surfels' outward normals in the world."""
    turned: np.ndarray = np.einsum("nij,nj->ni", poses[links.splats.group, :3, :3], links.normals)
    return turned


def pixels_of(camera: Camera, points: Float[np.ndarray, "N 3"]) -> tuple[np.ndarray, np.ndarray]:
    """Where points of the world appear (column, row), and how deep they are along the optical axis."""
    T = np.linalg.inv(camera.T_world_camera)
    p = points @ T[:3, :3].T + T[:3, 3]
    depth = p[:, 2]
    xy = distort(p[:, :2] / np.maximum(depth, 1e-6)[:, None], camera.lens.distortion)
    return xy * [camera.lens.fx, camera.lens.fy] + [camera.lens.cx, camera.lens.cy], depth


def seen(
    links: LinkSplats,
    poses: Float[np.ndarray, "G 4 4"],
    camera: Camera,
    rgb: np.ndarray,
    depth_m: np.ndarray,
    other: np.ndarray,
) -> Samples:
    """The surfels that face the camera and that nothing hides, with the colours of their pixels.

    `other` marks pixels that do not look like the scene behind: as long as the robot is drawn beside where it is, the
    pixels it covers wrongly must not lend it their colours.
    """
    s = links.splats
    points = np.einsum("nij,nj->ni", poses[s.group, :3, :3], s.means) + poses[s.group, :3, 3]
    normals = world_normals(links, poses)
    pixel, depth = pixels_of(camera, points)
    at = pixel.round().astype(int)
    height, width = depth_m.shape
    toward = camera.T_world_camera[:3, 3] - points
    facing = np.einsum("ni,ni->n", toward, normals) > 0.25 * np.linalg.norm(toward, axis=1)
    inside = (at >= 0).all(axis=1) & (at < [width, height]).all(axis=1) & (depth > 0.02) & facing
    col, row = at[inside].T
    shown = (np.abs(depth_m[row, col] - depth[inside]) < DEPTH_M) & other[row, col]
    return Samples(links.geom[inside][shown], normals[inside][shown], rgb[row, col][shown])


def learn(model: Look, samples: Sequence[Samples]) -> Look:
    """Colours and shading of the shapes, by least squares that outliers do not move much, from the model's colours."""
    geom = np.concatenate([s.geom for s in samples])
    normal, rgb = np.concatenate([s.normal for s in samples]), np.concatenate([s.rgb for s in samples])
    if not len(geom):
        return model
    tint = _tint(rgb, np.array([model.tables[int(g)][0] for g in geom]))
    tables = {g: _fitted(normal[geom == g], rgb[geom == g], tint * table[0]) for g, table in model.tables.items()}
    return Look(tables)


def _tint(rgb: np.ndarray, plain: np.ndarray) -> np.ndarray:
    """How much brighter the camera shows the model's colours, for each channel."""
    return np.asarray(np.clip(np.median(rgb, axis=0) / np.maximum(np.median(plain, axis=0), 0.05), 0.3, 3))


def _fitted(normal: np.ndarray, rgb: np.ndarray, start: np.ndarray) -> np.ndarray:
    A = np.concatenate([np.ones((len(normal), 1)), normal], axis=1)
    hold = np.diag([HOLD, HOLD, HOLD, HOLD])
    first = np.concatenate([start[None], np.zeros((3, 3))])
    table = first
    for _ in range(ROUNDS):
        off = np.linalg.norm(rgb - A @ table, axis=1)
        w = 1 / (1 + (off / SCALE) ** 2) ** 2
        table = np.linalg.solve((A * w[:, None]).T @ A + hold, (A * w[:, None]).T @ rgb + hold @ first)
    return table
