"""A triangle mesh: the shape of a thing, in metres, in the frame of its body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import MeshError
from twinproof.nouns.frozen import frozen_array, settle

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True, eq=False)
class Mesh:
    """Vertices and triangles, counter-clockwise seen from outside; colours of the vertices (0 … 1, sRGB) if known."""

    vertices: Float[np.ndarray, "V 3"]
    faces: Int[np.ndarray, "F 3"]
    colours: Float[np.ndarray, "V 3"] | None = None

    def __post_init__(self) -> None:
        vertices, faces = frozen_array(self.vertices, np.float64), frozen_array(self.faces, np.int32)
        if vertices.ndim != 2 or vertices.shape[1:] != (3,) or faces.ndim != 2 or faces.shape[1:] != (3,):
            raise MeshError(f"mesh: {vertices.shape} vertices and {faces.shape} faces; needed is (V, 3) and (F, 3).")
        if not len(faces):
            raise MeshError("mesh: it has no faces. A shape needs at least four.")
        bad = np.flatnonzero(~np.isfinite(vertices).all(axis=1))
        if len(bad):
            raise MeshError(f"mesh: {len(bad)} vertices are not finite (first: {bad[0]}). Remove or mend them.")
        if not 0 <= int(faces.min()) <= int(faces.max()) < len(vertices):
            raise MeshError(
                f"mesh: faces name vertices {faces.min()} to {faces.max()}, but there are {len(vertices)}. "
                "Count vertices from 0."
            )
        settle(self, vertices=vertices, faces=faces)
        if self.colours is not None:
            colours = frozen_array(self.colours, np.float32)
            if colours.shape != vertices.shape or not np.isfinite(colours).all():
                raise MeshError(
                    f"mesh: colours have the shape {colours.shape}; needed is one finite row for each of "
                    f"{len(vertices)} vertices."
                )
            settle(self, colours=colours)

    @property
    def volume_m3(self) -> float:
        """The signed volume that the faces enclose; it means something where the mesh is closed."""
        a, b, c = (self.vertices[self.faces[:, k]] for k in range(3))
        return float(np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6)

    @property
    def closed(self) -> bool:
        """Whether every edge has exactly two faces that run along it in opposite directions."""
        edges = np.concatenate([self.faces[:, [0, 1]], self.faces[:, [1, 2]], self.faces[:, [2, 0]]]).astype(np.int64)
        there = edges[:, 0] * len(self.vertices) + edges[:, 1]
        back = edges[:, 1] * len(self.vertices) + edges[:, 0]
        return len(np.unique(there)) == len(there) and bool(np.array_equal(np.sort(there), np.sort(back)))

    def moved(self, T: Float[np.ndarray, "4 4"], scale: float = 1.0) -> Mesh:
        """The same shape, scaled and then placed by a rigid transform."""
        return Mesh(scale * self.vertices @ np.asarray(T)[:3, :3].T + np.asarray(T)[:3, 3], self.faces, self.colours)
