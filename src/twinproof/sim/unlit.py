"""Pictures of surfaces by their own colours, without light or shadow: what a file says about looks, and no more.

picture = unlit([moved(surface, T_world_link), …], camera)

Colour spaces and textures are followed to the letter: sRGB textures, colours of vertices and rgba multiply in linear
light, pixels are averaged in it. It compares formats; for pictures of a scene there is render.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.mesh import Mesh
from twinproof.sim.mesh_raster import rasterise
from twinproof.sim.ray_scene import linear
from twinproof.sim.render_camera import Camera
from twinproof.sim.surface import Surface, display

if TYPE_CHECKING:
    from jaxtyping import Float


def unlit(
    surfaces: Sequence[Surface], camera: Camera, behind: tuple[float, float, float] = (1.0, 1.0, 1.0), finer: int = 3
) -> Float[np.ndarray, "H W 3"]:
    """Display-referred colours (0 … 1) of surfaces that stand in the world; `finer` rays along each side of a pixel."""
    lens = camera.lens
    wide = replace(
        lens, width=lens.width * finer, height=lens.height * finer, fx=lens.fx * finer, fy=lens.fy * finer,
        cx=(lens.cx + 0.5) * finer - 0.5, cy=(lens.cy + 0.5) * finer - 0.5,
    )  # fmt: skip
    light = np.broadcast_to(linear(np.array(behind)), (wide.height, wide.width, 3)).copy()
    if surfaces:
        starts = np.cumsum([0, *(len(each.mesh.vertices) for each in surfaces)])
        faces = [each.mesh.faces + start for each, start in zip(surfaces, starts[:-1], strict=True)]
        whole = Mesh(np.concatenate([each.mesh.vertices for each in surfaces]), np.concatenate(faces))
        seen = rasterise(whole, Camera(wide, camera.T_world_camera))
        first = np.cumsum([0, *(len(each.mesh.faces) for each in surfaces)])
        owner = np.searchsorted(first, seen.face, side="right") - 1
        for k, each in enumerate(surfaces):
            mine = (seen.face >= 0) & (owner == k)
            if mine.any():
                light[mine] = albedo(each, seen.face[mine] - first[k], seen.weights[mine])
    mean = light.reshape(lens.height, finer, lens.width, finer, 3).mean(axis=(1, 3))
    return display(mean)


def albedo(surface: Surface, face: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Linear colours of places on a surface."""
    out = np.broadcast_to(linear(np.array(surface.rgba[:3])), (len(face), 3)).copy()
    if surface.mesh.colours is not None:
        corners = linear(surface.mesh.colours.astype(float))[surface.mesh.faces[face]]
        out *= np.einsum("nc,ncd->nd", weights, corners)
    if surface.texture is not None and surface.st is not None:
        out *= _looked_up(surface.texture, np.einsum("nc,ncd->nd", weights, surface.st[face]))
    return out


def _looked_up(texture: np.ndarray, st: np.ndarray) -> np.ndarray:
    """Linear colours of a repeating texture, between texels."""
    height, width = texture.shape[:2]
    x, y = st[:, 0] * width - 0.5, st[:, 1] * height - 0.5
    left, top = np.floor(x).astype(int), np.floor(y).astype(int)
    u, v = (x - left)[:, None], (y - top)[:, None]
    texels = linear(texture / 255.0)

    def at(row: np.ndarray, col: np.ndarray) -> np.ndarray:
        return np.asarray(texels[row % height, col % width])

    upper = (1 - u) * at(top, left) + u * at(top, left + 1)
    lower = (1 - u) * at(top + 1, left) + u * at(top + 1, left + 1)
    return np.asarray((1 - v) * upper + v * lower)
