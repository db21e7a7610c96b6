"""How far two shapes are apart: visual against collision, found against true.

Distances are from points drawn evenly by area on one mesh to the nearest point of the other (exact, through a tree),
both ways. Chamfer here is the mean of the two one-way means, in metres: not their sum, and not squared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import MeshError
from twinproof.nouns.hashing import Json
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.randomness import stream
from twinproof.reconstruct.mesh_mend import areas_m2

if TYPE_CHECKING:
    from jaxtyping import Float

SAMPLES = 20_000


@dataclass(frozen=True)
class OneWay:
    """Distances from the points of one shape to another, m."""

    mean_m: float
    p95_m: float
    worst_m: float


@dataclass(frozen=True)
class Gap:
    """Distances both ways, and the volumes' ratio."""

    there: OneWay  # from the first to the second
    back: OneWay
    volume_ratio: float  # second / first

    @property
    def chamfer_m(self) -> float:
        """The mean of the two one-way means."""
        return 0.5 * (self.there.mean_m + self.back.mean_m)

    @property
    def p95_m(self) -> float:
        """The larger of the two 95th percentiles."""
        return max(self.there.p95_m, self.back.p95_m)

    def as_json(self) -> dict[str, Json]:
        """The numbers, for the audits of a twin."""
        return {
            "mean_m": self.chamfer_m,
            "p95_m": self.p95_m,
            "worst_m": max(self.there.worst_m, self.back.worst_m),
            "visual_to_collision_m": [self.there.mean_m, self.there.p95_m, self.there.worst_m],
            "collision_to_visual_m": [self.back.mean_m, self.back.p95_m, self.back.worst_m],
            "volume_ratio": self.volume_ratio,
        }


def points_on(mesh: Mesh, count: int = SAMPLES, seed: int = 0) -> Float[np.ndarray, "P 3"]:
    """Points drawn evenly by area; the same for the same mesh and seed."""
    area = areas_m2(mesh)
    if not area.sum() > 0:
        raise MeshError("mesh: all its faces have no area. Nothing can be measured on it.")
    rng = stream(seed, "points on a mesh")
    # One stratum for each point instead of free draws: less scatter for the same number.
    place = (np.arange(count) + rng.random(count)) / count
    face = np.searchsorted(np.cumsum(area) / area.sum(), place).clip(0, len(area) - 1)
    s, t = np.sqrt(rng.random(count)), rng.random(count)
    weights = np.stack([1 - s, s * (1 - t), s * t], axis=1)
    return np.asarray(np.einsum("pk,pkd->pd", weights, mesh.vertices[mesh.faces[face]]))


def one_way(points: Float[np.ndarray, "P 3"], mesh: Mesh) -> OneWay:
    """Distances from points to a mesh."""
    from twinproof.sim.nearest import Tree

    distance = Tree.of(mesh).nearest(points)[0]
    return OneWay(float(distance.mean()), float(np.quantile(distance, 0.95)), float(distance.max()))


def gap(first: Mesh, second: Mesh, samples: int = SAMPLES, seed: int = 0) -> Gap:
    """How far two meshes are apart, both ways."""
    there, back = one_way(points_on(first, samples, seed), second), one_way(points_on(second, samples, seed), first)
    return Gap(there, back, second.volume_m3 / first.volume_m3 if first.volume_m3 else float("inf"))


def chamfer_m(first: Mesh, second: Mesh, samples: int = SAMPLES) -> tuple[float, float]:
    """The mean of the two one-way mean distances, and the larger of the two 95th percentiles, m."""
    found = gap(first, second, samples)
    return found.chamfer_m, found.p95_m


def volume_error(found: Mesh, true: Mesh) -> float:
    """(found - true) / true."""
    return (found.volume_m3 - true.volume_m3) / true.volume_m3


def collision_gap(visual: Mesh, parts: Sequence[Mesh], samples: int = SAMPLES) -> Gap:
    """Visual against collision: the parts' surfaces that lie inside another part touch nothing and do not count."""
    if not parts:
        raise MeshError("there is no collision part to compare with. Make some first.")
    together = np.concatenate([points_on(part, max(200, int(samples * _share(part, parts)))) for part in parts])
    owner = np.repeat(np.arange(len(parts)), [max(200, int(samples * _share(part, parts))) for part in parts])
    buried = np.zeros(len(together), bool)
    for k, part in enumerate(parts):
        corners = part.vertices[part.faces]
        normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-30)
        height = (together @ normal.T - np.einsum("fd,fd->f", normal, corners[:, 0])).max(axis=1)
        buried |= (height < -1e-6) & (owner != k)  # parts are convex: inside is behind every face
    offsets = np.cumsum([0, *(len(part.vertices) for part in parts)])[:-1]
    all_parts = Mesh(
        np.concatenate([part.vertices for part in parts]),
        np.concatenate([part.faces + offset for part, offset in zip(parts, offsets, strict=True)]),
    )
    there, back = one_way(points_on(visual, samples), all_parts), one_way(together[~buried], visual)
    return Gap(there, back, union_m3(parts) / visual.volume_m3)


def _share(part: Mesh, parts: Sequence[Mesh]) -> float:
    return float(areas_m2(part).sum() / sum(areas_m2(each).sum() for each in parts))


def union_m3(parts: Sequence[Mesh]) -> float:
    """The volume that some part covers: parts may overlap."""
    import manifold3d

    solids = [
        manifold3d.Manifold(manifold3d.Mesh(part.vertices.astype(np.float32), part.faces.astype(np.uint32)))
        for part in parts
    ]
    return float(manifold3d.Manifold.batch_boolean(solids, manifold3d.OpType.Add).volume())
