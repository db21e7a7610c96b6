"""Colours of posed pictures on a mesh: a texture with seams (xatlas), or colours of vertices.

painted = bake(mesh, photos)                  painted.baked goes into write_mesh(path.glb, …)
coloured = vertex_colours(mesh, photos)

A place on the mesh takes the mean of the pictures that see it: not hidden by the mesh itself, not by a mask, not at a
slant; straight looks count most, and looks that disagree with the others little. What no picture sees takes the colour
of the nearest place that one does, and that is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.baked import Baked
from twinproof.nouns.errors import MeshError
from twinproof.nouns.mesh import Mesh
from twinproof.reconstruct.mesh_mend import missing, vertex_normals
from twinproof.sim.mesh_raster import rasterise, rasterise_flat
from twinproof.sim.render_camera import Camera, distort

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, UInt8

SLANT = 0.2  # least cosine between a look and the normal
MOST_SIZE = 8192


@dataclass(frozen=True, eq=False)
class Photo:
    """A picture, where it was taken from, and which of its pixels show the mesh (None: those where it is in front)."""

    rgb: UInt8[np.ndarray, "H W 3"]
    camera: Camera
    shows: Bool[np.ndarray, "H W"] | None = None

    def __post_init__(self) -> None:
        size = (self.camera.lens.height, self.camera.lens.width)
        if self.rgb.shape != (*size, 3) or (self.shows is not None and self.shows.shape != size):
            raise MeshError(f"photo: a picture of {self.rgb.shape} for a lens of {size}. Resize one of them.")


@dataclass(frozen=True, eq=False)
class Painted:
    """A mesh with its texture, the share of its surface that some picture saw, and what was assumed of the rest."""

    baked: Baked
    seen_share: float
    declared: tuple[str, ...] = ()


def bake(mesh: Mesh, photos: Sequence[Photo], size: int = 1024) -> Painted:
    """A texture of size × size."""
    if not 16 <= size <= MOST_SIZE:
        raise MeshError(f"texture: {size} pixels a side; 16 to {MOST_SIZE} are possible.")
    try:
        import xatlas
    except ImportError:
        raise missing("xatlas") from None
    origin, index, uv = xatlas.parametrize(mesh.vertices.astype(np.float32), mesh.faces.astype(np.uint32))
    corners = _matched(mesh, np.asarray(origin), np.asarray(index), np.asarray(uv))
    texel = corners.reshape(-1, 2) * size - 0.5
    face, weights = rasterise_flat(texel.reshape(-1, 3, 2), (size, size))
    some = face >= 0
    points = np.einsum("nc,ncd->nd", weights[some], mesh.vertices[mesh.faces[face[some]]])
    normals = np.einsum("nc,ncd->nd", weights[some], vertex_normals(mesh)[mesh.faces[face[some]]])
    colour, seen = looked_up(mesh, points, normals, photos)
    texture = np.zeros((size, size, 3))
    texture[some] = _from_nearest(colour, points, seen)
    texture = _bled(texture, some)[::-1]  # row 0 of a picture is its top, v = 0 its bottom
    share = float(seen.mean())
    declared = () if share > 0.999 else (f"{1 - share:.0%} of the surface was seen by no picture: nearest colours",)
    painted = Baked(_with_colours(mesh, photos), corners, np.round(255 * texture.clip(0, 1)).astype(np.uint8))
    return Painted(painted, share, declared)


def vertex_colours(mesh: Mesh, photos: Sequence[Photo]) -> tuple[Mesh, float]:
    """The mesh with a colour for each vertex, and the share of vertices that some picture saw."""
    colour, seen = looked_up(mesh, mesh.vertices, vertex_normals(mesh), photos)
    return Mesh(mesh.vertices, mesh.faces, _from_nearest(colour, mesh.vertices, seen)), float(seen.mean())


def _with_colours(mesh: Mesh, photos: Sequence[Photo]) -> Mesh:
    return vertex_colours(mesh, photos)[0]


def looked_up(
    mesh: Mesh, points: Float[np.ndarray, "N 3"], normals: Float[np.ndarray, "N 3"], photos: Sequence[Photo]
) -> tuple[Float[np.ndarray, "N 3"], Bool[np.ndarray, "N"]]:
    """Colours (0 … 1) of places on a mesh and which of them were seen."""
    if not photos:
        raise MeshError("texture: there are no pictures to take colours from. Give some.")
    looks = [_look(mesh, points, normals, photo) for photo in photos]
    total, mean = np.zeros(len(points)), np.zeros((len(points), 3))
    for some, colours, weights in looks:
        total[some] += weights
        mean[some] += weights[:, None] * colours
    seen = total > 0
    if not seen.any():
        raise MeshError("texture: no picture sees the mesh. Check that cameras and mesh are in one frame.")
    mean /= np.maximum(total, 1e-12)[:, None]
    # Again, with less weight for looks that are off: shine, a wrong edge, something in between.
    total, calm = np.zeros(len(points)), np.zeros((len(points), 3))
    for some, colours, weights in looks:
        less = weights / (1 + (np.abs(colours - mean[some]).mean(axis=1) / 0.1) ** 2)
        total[some] += less
        calm[some] += less[:, None] * colours
    return calm / np.maximum(total, 1e-12)[:, None], seen


def _look(
    mesh: Mesh, points: Float[np.ndarray, "N 3"], normals: Float[np.ndarray, "N 3"], photo: Photo
) -> tuple[Int[np.ndarray, "M"], Float[np.ndarray, "M 3"], Float[np.ndarray, "M"]]:
    """Which places one picture shows, in what colours, and how much each counts."""
    camera, lens = photo.camera, photo.camera.lens
    T = np.linalg.inv(camera.T_world_camera)
    p = points @ T[:3, :3].T + T[:3, 3]
    ahead = p[:, 2] > 0.01
    xy = p[:, :2] / np.where(ahead, p[:, 2], 1)[:, None]
    xy = distort(xy, lens.distortion) if lens.bent else xy
    u, v = lens.fx * xy[:, 0] + lens.cx, lens.fy * xy[:, 1] + lens.cy
    inside = ahead & (u >= 0) & (v >= 0) & (u <= lens.width - 1) & (v <= lens.height - 1)
    u, v = np.where(inside, u, 0), np.where(inside, v, 0)
    row, col = (v + 0.5).astype(int), (u + 0.5).astype(int)
    depth = rasterise(mesh, camera).depth_m
    pixel = p[:, 2] / lens.fx  # m
    look = points - camera.T_world_camera[:3, 3]
    cosine = -np.einsum("nd,nd->n", look, normals) / np.maximum(np.linalg.norm(look, axis=1), 1e-12)
    cosine /= np.maximum(np.linalg.norm(normals, axis=1), 1e-12)
    # In front as far as a pixel can tell, however the surface slants in it.
    front = np.abs(depth[row, col] - p[:, 2]) < 2 * pixel / np.maximum(cosine, SLANT)
    good = inside & front & (depth[row, col] > 0) & (cosine > SLANT)
    if photo.shows is not None:
        good &= photo.shows[row, col]
    some = np.flatnonzero(good)
    return some, _between(photo.rgb, u[some], v[some]) / 255, (cosine[some] * lens.fx / p[some, 2]) ** 2


def _between(rgb: UInt8[np.ndarray, "H W 3"], u: Float[np.ndarray, "N"], v: Float[np.ndarray, "N"]) -> np.ndarray:
    """Colours between pixels."""
    height, width = rgb.shape[:2]
    c, r = np.minimum(u.astype(int), width - 2), np.minimum(v.astype(int), height - 2)
    s, t = (u - c)[:, None], (v - r)[:, None]
    top, low = rgb[r, c] * (1 - s) + rgb[r, c + 1] * s, rgb[r + 1, c] * (1 - s) + rgb[r + 1, c + 1] * s
    return np.asarray(top * (1 - t) + low * t)


def _matched(mesh: Mesh, origin: np.ndarray, index: np.ndarray, uv: np.ndarray) -> Float[np.ndarray, "F 3 2"]:
    """The (u, v) of every corner, for faces in our order: xatlas keeps faces and renumbers vertices."""
    if not np.array_equal(origin[index], mesh.faces):
        raise MeshError("texture: xatlas dropped faces of the mesh (some have no area). Weld and simplify it first.")
    return np.asarray(uv[index], np.float64)


def _from_nearest(colour: np.ndarray, points: np.ndarray, seen: np.ndarray) -> np.ndarray:
    if seen.all():
        return colour
    from scipy.spatial import KDTree

    filled = colour.copy()
    filled[~seen] = colour[seen][KDTree(points[seen]).query(points[~seen])[1]]
    return filled


def _bled(texture: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Colours run over the charts' borders, so that reading between texels finds no black."""
    from scipy.ndimage import distance_transform_edt

    if not some.any():
        raise MeshError("texture: the charts cover no texel. Choose a larger texture.")
    nearest = distance_transform_edt(~some, return_distances=False, return_indices=True)
    return np.asarray(texture[nearest[0], nearest[1]])
