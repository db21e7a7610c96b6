"""What a mesh under refinement needs: fields that spread a pull, faces that agree, area, volume, few threads."""

# mypy: allow-untyped-calls, allow-untyped-defs, allow-incomplete-defs
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from twinproof.nouns.mesh import Mesh
from twinproof.sim.grid import Plane


class Spreading:
    """Solves (1 + λ L) y = x for many x: factored once; on a GPU inverted once, as a solve would come back for it."""

    def __init__(self, mesh: Mesh, smooth: float, device: str = "cpu") -> None:
        from scipy.sparse import coo_matrix, identity
        from scipy.sparse.csgraph import laplacian
        from scipy.sparse.linalg import splu

        a, b = mesh.faces[:, [0, 1, 2, 1, 2, 0]].ravel(), mesh.faces[:, [1, 2, 0, 0, 1, 2]].ravel()
        links = coo_matrix((np.ones(len(a)), (a, b)), (len(mesh.vertices),) * 2).tocsr()
        links.data[:] = 1.0
        matrix = (identity(len(mesh.vertices)) + smooth * laplacian(links)).tocsc()
        self.inverse: Any = None
        if device == "cpu":
            self.factors = splu(matrix)
        else:
            whole = torch.tensor(matrix.toarray(), device=device)
            self.inverse = torch.cholesky_inverse(torch.linalg.cholesky(whole)).float()

    def __call__(self, x: Any) -> Any:
        """The smooth field of x."""
        if self.inverse is not None:
            return self.inverse @ x.detach()
        return torch.tensor(self.factors.solve(x.detach().double().numpy()), dtype=x.dtype)


class Spread(torch.autograd.Function):  # type: ignore[misc]
    """The smooth field of x. The matrix is symmetric: the way back is the same solve."""

    @staticmethod
    def forward(ctx: Any, x: Any, spreading: Spreading) -> Any:
        ctx.spreading = spreading
        return spreading(x)

    @staticmethod
    def backward(ctx: Any, slope: Any) -> Any:
        return ctx.spreading(slope), None


def neighbour_faces(mesh: Mesh) -> Any:
    """Pairs of faces that share an edge."""
    edges = np.sort(np.concatenate([mesh.faces[:, [0, 1]], mesh.faces[:, [1, 2]], mesh.faces[:, [2, 0]]]), axis=1)
    face = np.tile(np.arange(len(mesh.faces)), 3)
    order = np.lexsort(edges.T)
    same = (edges[order][1:] == edges[order][:-1]).all(axis=1)
    return torch.tensor(np.stack([face[order][1:][same], face[order][:-1][same]]))


@lru_cache(maxsize=8)
def faces_on(mesh: Mesh, device: str) -> Any:
    """The faces as numbers that index tensors of a device; kept, as sending them takes time."""
    return torch.tensor(mesh.faces, dtype=torch.int64, device=device)


def crosses(vertices: Any, mesh: Mesh) -> Any:
    """The corners of every face, and the cross product of two of its sides."""
    corners = vertices[faces_on(mesh, str(vertices.device))]
    return corners, torch.linalg.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])


def bend(cross: Any, pairs: Any) -> Any:
    """How much neighbouring faces differ in their normals: 0 where it is flat."""
    normal = cross / cross.norm(dim=1, keepdim=True).clamp(min=1e-12)
    return (1 - (normal[pairs[0]] * normal[pairs[1]]).sum(dim=1)).mean()


def volume_of(corners: Any, cross: Any) -> Any:
    """The volume that the faces enclose."""
    return (corners[:, 0] * cross).sum() / 6


def area_of(cross: Any) -> Any:
    """The area of all faces."""
    return 0.5 * cross.norm(dim=1).sum()


def above(vertices: Any, support: Plane | None) -> Any:
    """The vertices, those below the plane that the object stands on lifted to it."""
    if support is None:
        return vertices
    normal = torch.tensor(support.normal, dtype=vertices.dtype, device=vertices.device)
    return vertices + torch.relu(support.offset_m - vertices @ normal)[:, None] * normal


@contextmanager
def few_threads(most: int) -> Iterator[None]:
    """Work on small tensors within: torch uses no more threads than that, and as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(min(before, most))
    try:
        yield
    finally:
        torch.set_num_threads(before)
