"""Colours of vertices as a texture, for viewers that know textures only: every face has half a cell of the picture.

cell   +-------+     two faces share a cell, with a gap between them, and every texel of a half has the colour of the
       | A   / |     place on its face that lies nearest: reading between texels finds no other face's colour
       |   /   |
       | /   B |
       +-------+
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import TwinError
from twinproof.nouns.mesh import Mesh
from twinproof.sim.ray_scene import linear
from twinproof.sim.surface import Surface, display

if TYPE_CHECKING:
    from jaxtyping import Float

    ColourAt = Callable[[Float[np.ndarray, "N 3"]], Float[np.ndarray, "N 3"]]

CELL = 8  # texels a side
SMALLEST_CELL = 5
MOST_SIDE = 4096  # of a texture; glTF viewers read as much
AT_ONCE = 1 << 14  # faces: what is held in memory stays small


def textured(surface: Surface, colour_at: ColourAt | None = None) -> Surface:
    """The same surface with a texture in the place of its vertices' colours.

    `colour_at` gives display-referred colours of places in the surface's frame; without it they lie evenly between
    those of the vertices, in linear light, as glTF has it.
    """
    mesh = surface.mesh
    assert mesh.colours is not None
    cell = CELL
    while (side := _side(len(mesh.faces), cell)) > MOST_SIDE and cell > SMALLEST_CELL:
        cell -= 1
    if side > MOST_SIDE:
        raise TwinError(
            f"{surface.name}: {len(mesh.faces)} faces need a texture of {side} texels a side; {MOST_SIDE} are written. "
            "Simplify the mesh."
        )
    texture = np.zeros((side, side, 3), np.uint8)
    row = side // cell  # cells
    for begin in range(0, len(mesh.faces), 2 * AT_ONCE):
        _paint(texture, surface, (begin, min(begin + 2 * AT_ONCE, len(mesh.faces))), cell, colour_at)
    first, second = _corners(cell)
    number = np.arange(len(mesh.faces)) // 2
    origin = cell * np.stack([number % row, number // row], axis=1)
    corners = np.where((np.arange(len(mesh.faces)) % 2 == 0)[:, None, None], first, second)
    st = (origin[:, None] + corners) / side
    return replace(surface, mesh=Mesh(mesh.vertices, mesh.faces), st=st, texture=texture)


def _side(faces: int, cell: int) -> int:
    return cell * max(1, math.ceil(math.sqrt((faces + 1) // 2)))


def _corners(cell: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the corners of the first and of the second face lie in a cell, in texels from the upper left."""
    reach = cell - 3.0
    first = np.array([(0.5, 0.5), (0.5 + reach, 0.5), (0.5, 0.5 + reach)])
    return first, cell - first


def _paint(texture: np.ndarray, surface: Surface, some: tuple[int, int], cell: int, colour_at: ColourAt | None) -> None:
    """Fills the cells of faces from the first, which is even, to the last."""
    assert surface.mesh.colours is not None
    row = len(texture) // cell
    y, x = np.mgrid[:cell, :cell] + 0.5
    for half, corners in enumerate(_corners(cell)):
        mine = (x + y < cell) if half == 0 else (x + y >= cell)
        weights = _weights(np.stack([x[mine], y[mine]], axis=1), corners)
        faces = np.arange(some[0] + half, some[1], 2)
        if colour_at is None:
            known = linear(surface.mesh.colours.astype(float))[surface.mesh.faces[faces]]
            colours = display(np.einsum("kc,fcd->fkd", weights, known))
        else:
            places = np.einsum("kc,fcd->fkd", weights, surface.mesh.vertices[surface.mesh.faces[faces]])
            colours = colour_at(places.reshape(-1, 3)).reshape(places.shape)
        at = faces // 2
        rows = (at // row * cell)[:, None] + (y[mine] - 0.5).astype(int)
        columns = (at % row * cell)[:, None] + (x[mine] - 0.5).astype(int)
        texture[rows, columns] = np.round(255 * np.clip(colours, 0, 1)).astype(np.uint8)


def _weights(places: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Barycentric weights of places, or of the nearest ones inside: a right-angled triangle with equal legs."""
    along = (places - corners[0]) @ np.linalg.inv(corners[1:] - corners[0])
    along = np.maximum(along, 0.0)
    over = np.maximum(along.sum(axis=1, keepdims=True) - 1.0, 0.0) / 2
    along = np.clip(along - over, 0.0, 1.0)
    return np.concatenate([1 - along.sum(axis=1, keepdims=True), along], axis=1)
