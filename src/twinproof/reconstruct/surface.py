"""Triangles that carry Gaussians: flat discs pinned to a mesh, so that moving a vertex moves looks and physics at once.

bound = bind(mesh, per_face=4, group="cube")
scene = bound.scene(vertices, looks)          torch: gradients reach vertices and looks
splats = bound.splats(vertices, looks)        the same as a noun

   a              each face is cut into like pieces; a disc lies in each one: its place is barycentric, its axes and
  /·\\             sizes those of the piece (the ellipse of its spread), its normal the face's. `offset` lifts it along
 /·▽·\\            the normal, in sizes of the disc.
b─────c
"""

# mypy: allow-untyped-calls
from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from twinproof.nouns.errors import MeshError
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.splats import SH0, Splats
from twinproof.reconstruct.surface_smooth import faces_on
from twinproof.sim.splat.torch_render import Scene

if TYPE_CHECKING:
    from jaxtyping import Float

PER_FACE = (1, 4, 9, 16)  # like pieces that a triangle can be cut into
COVER = 1.6  # size of a disc in standard deviations of its piece: neighbours close the gaps between them
THIN = 1e-6  # m, of the size that nobody looks at


class Looks(NamedTuple):
    """What discs look like, as tensors: colour (spherical harmonics), opacity (logit), size and lift in sizes."""

    sh: Float[torch.Tensor, "N K 3"]
    logits: Float[torch.Tensor, "N"]
    log_size: Float[torch.Tensor, "N"]
    offset: Float[torch.Tensor, "N"]


@dataclass(frozen=True, eq=False)
class Bound:
    """Discs bound to the faces of a mesh: disc n belongs to face n // per_face."""

    mesh: Mesh
    per_face: int
    group: str
    looks: Looks
    weights: Float[np.ndarray, "K 3"] = field(repr=False)  # barycentric, of the pieces of a face

    def __len__(self) -> int:
        return len(self.mesh.faces) * self.per_face

    @property
    def vertices(self) -> Float[torch.Tensor, "V 3"]:
        """The mesh's own vertices as a tensor."""
        return torch.tensor(self.mesh.vertices, dtype=torch.float32)

    def scene(
        self, vertices: Float[torch.Tensor, "V 3"] | None = None, looks: Looks | None = None, still: bool = False
    ) -> Scene:
        """The discs as the rasteriser takes them, on the vertices' device, with gradients to whatever asks for them.

        With `still` no slope goes through the sizes of triangles: smaller discs show sharper colours, and a fit would
        shrink the mesh for that.
        """
        points = self.vertices if vertices is None else vertices
        device = points.device
        looks = Looks(*(each.to(device) for each in looks or self.looks))
        corners = points[faces_on(self.mesh, str(device))]
        frame = frames(corners)
        weights = torch.tensor(self.weights, dtype=points.dtype, device=device)
        means = torch.einsum("kc,fcd->fkd", weights, corners)
        sizes = frame.sizes.detach() if still else frame.sizes
        size = COVER / self.per_face**0.5 * sizes[:, None] * looks.log_size.exp().reshape(-1, self.per_face, 1)
        lift = looks.offset.reshape(-1, self.per_face, 1) * size.mean(dim=2, keepdim=True)
        means = means + lift * frame.normal[:, None]
        thin = torch.full((*size.shape[:2], 1), float(np.log(THIN)), device=device)
        quats = frame.quats[:, None].expand(-1, self.per_face, -1)
        return Scene(
            means.reshape(-1, 3),
            quats.reshape(-1, 4).contiguous(),
            torch.cat([size.clamp(min=THIN).log(), thin], dim=2).reshape(-1, 3),
            looks.logits,
            looks.sh,
            torch.zeros(len(self), dtype=torch.int64, device=device),
        )

    def splats(self, vertices: Float[torch.Tensor, "V 3"] | None = None, looks: Looks | None = None) -> Splats:
        """The discs as surfels of one group."""
        scene = self.scene(vertices, looks)
        means, quats, scales, logits, sh = (tensor.detach().cpu().numpy() for tensor in scene[:5])
        return Splats(means, quats, scales, logits, sh, np.zeros(len(self), np.int32), (self.group,), True)

    def moved(self, vertices: Float[torch.Tensor, "V 3"], looks: Looks) -> Bound:
        """The same discs on the moved mesh, its vertices coloured as the discs around them."""
        with torch.no_grad():
            colour = (0.5 + SH0 * looks.sh[:, 0]).clamp(0, 1).reshape(-1, self.per_face, 3).mean(dim=1).double().numpy()
        total, count = np.zeros((len(self.mesh.vertices), 3)), np.zeros((len(self.mesh.vertices), 1))
        for corner in range(3):
            np.add.at(total, self.mesh.faces[:, corner], colour)
            np.add.at(count, self.mesh.faces[:, corner], 1.0)
        mesh = Mesh(vertices.detach().double().numpy(), self.mesh.faces, total / np.maximum(count, 1))
        return Bound(mesh, self.per_face, self.group, Looks(*(each.detach().clone() for each in looks)), self.weights)


def bind(mesh: Mesh, per_face: int = 4, group: str = "object", bands: int = 1) -> Bound:
    """Discs on every face, coloured as the mesh's vertices are (grey where they have no colour)."""
    if per_face not in PER_FACE:
        raise MeshError(f"surface: {per_face} discs a face; a triangle is cut into {', '.join(map(str, PER_FACE))}.")
    weights, count = _pieces(per_face), len(mesh.faces) * per_face
    colours = np.full((len(mesh.vertices), 3), 0.5) if mesh.colours is None else np.asarray(mesh.colours, float)
    sh = np.zeros((count, bands, 3), np.float32)
    sh[:, 0] = ((np.einsum("kc,fcd->fkd", weights, colours[mesh.faces]) - 0.5) / SH0).reshape(-1, 3)
    looks = Looks(torch.tensor(sh), torch.full((count,), 3.0), torch.zeros(count), torch.zeros(count))
    return Bound(mesh, per_face, group, looks, weights)


def _pieces(count: int) -> Float[np.ndarray, "K 3"]:
    """Centres of the like pieces that n cuts along each side make: upright ones and those upside down."""
    n = round(count**0.5)
    upright = [(i + 1 / 3, j + 1 / 3) for i in range(n) for j in range(n - i)]
    turned = [(i + 2 / 3, j + 2 / 3) for i in range(n - 1) for j in range(n - 1 - i)]
    first = np.array(upright + turned) / n
    return np.concatenate([first, 1 - first.sum(axis=1, keepdims=True)], axis=1)


class Frames(NamedTuple):
    """For every face: unit normal, sizes along two axes in it, and the turn that takes x y z to these axes."""

    normal: Float[torch.Tensor, "F 3"]
    sizes: Float[torch.Tensor, "F 2"]
    quats: Float[torch.Tensor, "F 4"]


def frames(corners: Float[torch.Tensor, "F 3 3"]) -> Frames:
    """Frames of triangles; slopes go through normals and sizes.

    Which way the axes lie within the face is taken as fixed: an equilateral triangle has no longest axis, and the slope
    of one would be infinite there.
    """
    ab, ac = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    normal = _unit(torch.linalg.cross(ab, ac))
    along = _unit(ab)
    across = torch.linalg.cross(normal, along)
    middle = corners.mean(dim=1, keepdim=True)
    x, y = ((corners - middle) @ along[..., None])[..., 0], ((corners - middle) @ across[..., None])[..., 0]
    xx, yy, xy = (x * x).sum(1) / 12, (y * y).sum(1) / 12, (x * y).sum(1) / 12  # spread of an evenly filled triangle
    turn = 0.5 * torch.atan2(2 * xy, xx - yy).detach()
    c, s = torch.cos(turn), torch.sin(turn)
    long = c * c * xx + 2 * c * s * xy + s * s * yy
    short = s * s * xx - 2 * c * s * xy + c * c * yy
    first = c[:, None] * along + s[:, None] * across
    second = torch.linalg.cross(normal, first)
    sizes = torch.stack([long, short], dim=1).clamp(min=THIN**2).sqrt()
    return Frames(normal, sizes, quaternions(torch.stack([first, second, normal], dim=2)))


def _unit(vectors: Any) -> Any:
    return vectors / vectors.norm(dim=-1, keepdim=True).clamp(min=1e-12)


def quaternions(R: Float[torch.Tensor, "F 3 3"]) -> Float[torch.Tensor, "F 4"]:
    """Quaternions (w x y z, not of unit length) of rotations: of four formulas the one that divides by the most."""
    m = R
    xx, yy, zz = m[:, 0, 0], m[:, 1, 1], m[:, 2, 2]
    a, b, c = m[:, 2, 1] - m[:, 1, 2], m[:, 0, 2] - m[:, 2, 0], m[:, 1, 0] - m[:, 0, 1]
    d, e, f = m[:, 1, 0] + m[:, 0, 1], m[:, 2, 0] + m[:, 0, 2], m[:, 2, 1] + m[:, 1, 2]
    rows = torch.stack(
        [
            torch.stack([1 + xx + yy + zz, a, b, c], 1),
            torch.stack([a, 1 + xx - yy - zz, d, e], 1),
            torch.stack([b, d, 1 - xx + yy - zz, f], 1),
            torch.stack([c, e, f, 1 - xx - yy + zz], 1),
        ],
        dim=1,
    )
    best = torch.diagonal(rows, dim1=1, dim2=2).argmax(dim=1)
    return rows[torch.arange(len(rows), device=rows.device), best]
