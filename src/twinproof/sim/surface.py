"""A visible surface: triangles, with one colour, colours of vertices, or a texture.

surface.mesh     triangles; its colours, where it has some, multiply with rgba in linear light
surface.st       where each corner of each face lies in the texture: from the left, from the top, repeating
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.mesh import Mesh

if TYPE_CHECKING:
    from jaxtyping import Float, UInt8


@dataclass(frozen=True, eq=False)
class Surface:
    """What is seen of one geom, in the frame of its link, or in the world after it was `moved` there."""

    name: str
    link: str
    mesh: Mesh
    rgba: tuple[float, float, float, float]  # display-referred; multiplies in linear light
    st: Float[np.ndarray, "F 3 2"] | None = None
    texture: UInt8[np.ndarray, "H W 3"] | None = None
    simplified: str = ""  # what is not as MuJoCo draws it


def display(linear: np.ndarray) -> np.ndarray:
    """Display-referred sRGB of linear light in 0 … 1."""
    c = np.clip(linear, 0, 1)
    return np.asarray(np.where(c <= 0.0031308, 12.92 * c, 1.055 * c ** (1 / 2.4) - 0.055))


def moved(surface: Surface, T: Float[np.ndarray, "4 4"]) -> Surface:
    """The same surface elsewhere."""
    return replace(surface, mesh=surface.mesh.moved(T))
