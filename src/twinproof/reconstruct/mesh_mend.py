"""From a signed field to a mesh that physics can take: marching cubes, one piece, closed, smoothed, fewer faces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.errors import MeshError, MissingExtra
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_files import welded
from twinproof.sim.grid import Field

if TYPE_CHECKING:
    from jaxtyping import Float


def missing(package: str) -> MissingExtra:
    """What to say where a package of the extra `mesh` is not there."""
    return MissingExtra(
        f"shapes need {package}, which is not installed. Install it with `pip install 'twinproof[mesh]'`."
    )


@dataclass(frozen=True)
class Check:
    """What manifold3d says of a mesh, and what follows."""

    status: str  # "NoError" where it bounds a solid
    volume_m3: float
    genus: int  # handles: 0 for a ball, 1 for a mug

    @property
    def solid(self) -> bool:
        """Whether it bounds a solid."""
        return self.status == "NoError" and self.volume_m3 > 0


def meshed(field: Field) -> Mesh:
    """The surface where the field is zero, closed at the border of the grid, faces turned outwards."""
    try:
        from skimage.measure import marching_cubes
    except ImportError:
        raise missing("scikit-image") from None
    padded = np.pad(field.distance_m, 1, constant_values=np.float32(field.grid.voxel_m))
    padded = np.where(padded == 0, np.float32(1e-3 * field.grid.voxel_m), padded)  # a zero on a corner makes slivers
    if not (padded < 0).any():
        raise MeshError("shape: nothing is inside: the masks, depths or cameras do not agree on any place. Check them.")
    vertices, faces, _, _ = marching_cubes(padded, 0.0, gradient_direction="ascent")
    mesh = welded(Mesh(field.grid.origin + field.grid.voxel_m * (vertices.astype(float) - 1), faces))
    return outward(mesh)


def outward(mesh: Mesh) -> Mesh:
    """The same with its faces turned so that the volume is positive."""
    return mesh if mesh.volume_m3 >= 0 else Mesh(mesh.vertices, mesh.faces[:, ::-1], mesh.colours)


def pieces(mesh: Mesh) -> list[Mesh]:
    """The connected parts, largest volume first; a hollow inside a part is one of its own, of negative volume."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    a, b = mesh.faces[:, [0, 1]].ravel(), mesh.faces[:, [1, 2]].ravel()
    links = coo_matrix((np.ones(len(a), bool), (a, b)), (len(mesh.vertices),) * 2)
    count, label = connected_components(links, directed=False)
    owner = label[mesh.faces[:, 0]]
    parts = [kept_faces(mesh, owner == k) for k in range(count) if (owner == k).any()]
    return sorted(parts, key=lambda part: part.volume_m3, reverse=True)


def kept_faces(mesh: Mesh, keep: np.ndarray) -> Mesh:
    """Some faces, and the vertices that they use."""
    used, index = np.unique(mesh.faces[keep], return_inverse=True)
    colours = None if mesh.colours is None else mesh.colours[used]
    return Mesh(mesh.vertices[used], index.reshape(-1, 3), colours)


def largest_piece(mesh: Mesh) -> tuple[Mesh, tuple[str, ...]]:
    """The part with the largest volume, hollows filled, and notes of what was left out."""
    parts = pieces(mesh)
    notes = []
    dust = [part.volume_m3 for part in parts[1:] if part.volume_m3 > 0]
    hollow = [-part.volume_m3 for part in parts[1:] if part.volume_m3 < 0]
    if dust:
        notes.append(f"{len(dust)} loose parts of {1e6 * sum(dust):.3g} cm³ in all were left out")
    if hollow:
        notes.append(f"{len(hollow)} hollows of {1e6 * sum(hollow):.3g} cm³ in all, which no view saw, were filled")
    return parts[0], tuple(notes)


def neighbours(mesh: Mesh) -> Any:
    """The mean over each vertex's neighbours, as a sparse matrix (V, V)."""
    from scipy.sparse import coo_matrix, diags

    a = mesh.faces[:, [0, 1, 2, 1, 2, 0]].ravel()
    b = mesh.faces[:, [1, 2, 0, 0, 1, 2]].ravel()
    links = coo_matrix((np.ones(len(a)), (a, b)), (len(mesh.vertices),) * 2).tocsr()
    links.data[:] = 1.0
    return diags(1 / np.maximum(np.asarray(links.sum(axis=1)).ravel(), 1)) @ links


def vertex_normals(mesh: Mesh) -> Float[np.ndarray, "V 3"]:
    """Unit normals, each face counting with its area."""
    a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    area = np.cross(b - a, c - a)
    total = np.zeros_like(mesh.vertices)
    for k in range(3):
        np.add.at(total, mesh.faces[:, k], area)
    length = np.linalg.norm(total, axis=1, keepdims=True)
    return np.asarray(total / np.where(length > 0, length, 1))


def areas_m2(mesh: Mesh) -> Float[np.ndarray, "F"]:
    """The area of every face."""
    a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    return np.asarray(0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1))


def smoothed(mesh: Mesh, rounds: int = 8) -> Mesh:
    """Without the steps of voxels (Taubin: a step in, a step out), and with the volume that it had."""
    if rounds <= 0:
        return mesh
    mean, points = neighbours(mesh), mesh.vertices.copy()
    for _ in range(rounds):
        for step in (0.5, -0.53):
            points += step * (mean @ points - points)
    soft = Mesh(points, mesh.faces, mesh.colours)
    for _ in range(3):  # moving all by the same distance changes the volume by area times that, to first order
        push = (mesh.volume_m3 - soft.volume_m3) / float(areas_m2(soft).sum())
        soft = Mesh(soft.vertices + push * vertex_normals(soft), soft.faces, soft.colours)
    return soft


def simplified(mesh: Mesh, faces: int) -> tuple[Mesh, tuple[str, ...]]:
    """About so many faces, closed as it was; where that fails the mesh stays as it is, and a note says so.

    Quadrics first. Where they tear it (they may pinch thin walls) edges are collapsed by manifold3d, which never does,
    within a tolerance that grows until the faces are few enough or the volume changes.
    """
    if len(mesh.faces) <= faces:
        return mesh, ()
    try:
        import fast_simplification
    except ImportError:
        raise missing("fast-simplification") from None

    def good(other: Mesh) -> bool:
        off = abs(other.volume_m3 - mesh.volume_m3)
        return other.closed and off < 0.01 * abs(mesh.volume_m3) and checked(other).solid

    for agg in (5.0, 2.0):
        points, index = fast_simplification.simplify(
            mesh.vertices.astype(np.float64), mesh.faces.astype(np.int32), target_count=faces, agg=agg
        )
        fewer = Mesh(points, index)
        if not fewer.closed and checked(fewer).solid:
            fewer = pieces(_parted(fewer))[0]
        if good(fewer):
            return fewer, ()
    size, best = float(np.ptp(mesh.vertices, axis=0).max()), mesh
    for share in (2e-4, 3e-4, 5e-4, 7e-4, 1e-3, 1.5e-3, 2e-3):
        fewer = _collapsed(mesh, share * size)
        if not good(fewer):
            break
        best = fewer
        if len(fewer.faces) <= faces:
            return fewer, ()
    return best, (f"it could not be simplified to {faces} faces and stay as it is: it keeps {len(best.faces)}",)


def _solid(mesh: Mesh) -> Any:
    """The mesh as manifold3d's solid, its centre at the origin: single precision is finest there."""
    import manifold3d

    local = (mesh.vertices - mesh.vertices.mean(axis=0)).astype(np.float32)
    return manifold3d.Manifold(manifold3d.Mesh(local, mesh.faces.astype(np.uint32)))


def _collapsed(mesh: Mesh, tolerance_m: float) -> Mesh:
    out = _solid(mesh).simplify(tolerance_m).to_mesh()
    fewer = Mesh(np.asarray(out.vert_properties)[:, :3] + mesh.vertices.mean(axis=0), np.asarray(out.tri_verts))
    return pieces(fewer)[0]  # a thin neck may be cut


def _parted(mesh: Mesh) -> Mesh:
    """Where two walls came to share an edge each gets vertices of its own, a millionth of the size apart."""
    out = _solid(mesh).to_mesh()
    apart = Mesh(np.asarray(out.vert_properties)[:, :3] + mesh.vertices.mean(axis=0), np.asarray(out.tri_verts))
    _, index, count = np.unique(apart.vertices, axis=0, return_inverse=True, return_counts=True)
    double = count[index.reshape(-1)] > 1
    step = 1e-6 * float(np.ptp(mesh.vertices, axis=0).max())
    return Mesh(apart.vertices - step * double[:, None] * vertex_normals(apart), apart.faces)


def checked(mesh: Mesh) -> Check:
    """Whether the mesh bounds a solid, by manifold3d."""
    from importlib.util import find_spec

    if find_spec("manifold3d") is None:
        raise missing("manifold3d")
    solid = _solid(mesh)
    return Check(str(solid.status()).split(".")[-1], float(solid.volume()), int(solid.genus()))
