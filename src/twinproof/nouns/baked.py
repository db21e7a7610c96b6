"""A mesh with a picture on it: texture coordinates of every face's corners, and the texture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import MeshError
from twinproof.nouns.frozen import frozen_array, settle
from twinproof.nouns.mesh import Mesh

if TYPE_CHECKING:
    from jaxtyping import Float, UInt8


@dataclass(frozen=True, eq=False)
class Baked:
    """A mesh, where each corner of each face lies in the texture (0 … 1, origin at the lower left), and the texture."""

    mesh: Mesh
    uv: Float[np.ndarray, "F 3 2"]
    texture: UInt8[np.ndarray, "H W 3"]

    def __post_init__(self) -> None:
        uv, texture = frozen_array(self.uv, np.float32), np.asarray(self.texture)
        if uv.shape != (len(self.mesh.faces), 3, 2) or not np.isfinite(uv).all():
            raise MeshError(
                f"texture: uv has the shape {uv.shape}; needed is a finite (u, v) for each corner of "
                f"{len(self.mesh.faces)} faces."
            )
        if texture.dtype != np.uint8 or texture.ndim != 3 or texture.shape[2] != 3 or 0 in texture.shape:
            raise MeshError(f"texture: it is {texture.dtype} of the shape {texture.shape}; needed is uint8 (H, W, 3).")
        settle(self, uv=uv, texture=frozen_array(texture, np.uint8))

    def split(self) -> tuple[Mesh, Float[np.ndarray, "V 2"]]:
        """The same with one (u, v) a vertex: vertices stand twice where the texture has a seam."""
        corners = np.concatenate([self.mesh.faces.reshape(-1, 1), self.uv.reshape(-1, 2)], axis=1)
        rows, inverse = np.unique(corners, axis=0, return_inverse=True)
        origin = rows[:, 0].astype(int)
        colours = None if self.mesh.colours is None else self.mesh.colours[origin]
        return Mesh(self.mesh.vertices[origin], inverse.reshape(-1, 3), colours), rows[:, 1:]
