"""Splats to follow an object by: laid on its surface, and coloured by pictures in which its pose is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import MeshError
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.splats import SH0, Splats
from twinproof.sim.splat.project import BLUR
from twinproof.sim.splat.render import render_many
from twinproof.sim.track_fit import ONE, Followed
from twinproof.sim.track_sight import Sight, projected

if TYPE_CHECKING:
    from jaxtyping import Float

GREY = 0.5
BEHIND_M = 0.004  # a splat this far behind the surface that is seen is hidden by it
MOST = 20_000
ALIKE = 0.03  # one minus the cosine between directions that count as one side
SIGMA, OPAQUE = 0.5, 0.95  # of a splat: its width in spacings, and its opacity


def surface_splats(
    mesh: Mesh, spacing_m: float, pixel_m: float, rgb: Sequence[float] | None = None, group: str = "object"
) -> Splats:
    """Flat Gaussians, about `spacing_m` apart, all over a mesh: coloured as its vertices are, or in one colour.

    They lie inside the surface by as much as they reach out of it where a pixel is `pixel_m` wide (distance over focal
    length), so that the outline at half cover is the mesh's.
    """
    if not spacing_m > 0 or not pixel_m >= 0:
        raise MeshError(
            f"splats cannot lie {spacing_m} m apart and be seen at {pixel_m} m a pixel. Give positive sizes."
        )
    mesh = inset(mesh, _reach(spacing_m, pixel_m))
    a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    normal = np.cross(b - a, c - a)
    area = np.linalg.norm(normal, axis=1) / 2
    count = int(np.ceil(area.sum() / spacing_m**2))
    if not 0 < count <= MOST:
        raise MeshError(
            f"splats {spacing_m} m apart on {area.sum():.4g} m² would be {count}; 1 to {MOST} can be followed. "
            "Choose another spacing, or mend the mesh's units."
        )
    edge = np.cumsum(area) / area.sum()
    face = np.searchsorted(edge, (np.arange(count) + 0.5) / count)
    u, v = _spread(count)
    flip = u + v > 1
    u, v = np.where(flip, 1 - u, u), np.where(flip, 1 - v, v)
    unit = normal[face] / (2 * area[face][:, None])
    sigma = SIGMA * spacing_m
    means = a[face] + u[:, None] * (b - a)[face] + v[:, None] * (c - a)[face]
    if rgb is not None:
        colours = np.tile(np.asarray(rgb, float), (count, 1))
    elif mesh.colours is not None:
        ca, cb, cc = (mesh.colours[mesh.faces[:, k]] for k in range(3))
        colours = ca[face] + u[:, None] * (cb - ca)[face] + v[:, None] * (cc - ca)[face]
    else:
        colours = np.full((count, 3), GREY)
    scales = np.log(np.tile([sigma, sigma, 0.25 * sigma], (count, 1)))
    sh = ((colours - 0.5) / SH0)[:, None]
    return Splats(
        means,
        _facing(unit),
        scales,
        np.full(count, np.log(OPAQUE / (1 - OPAQUE))),
        sh,
        np.zeros(count, np.int32),
        (group,),
    )


def learnt(
    splats: Splats, sights: Sequence[Sight], poses: Sequence[Float[np.ndarray, "4 4"]], plain: bool = False
) -> Splats:
    """The same splats in the mean colours of the pixels on which each is seen, exposures brought to the plates'.

    A splat that no picture shows gets the colour of the nearest one that some does. A `plain` object has one colour on
    each side: splats that face one way share theirs, so that no error of the poses is painted onto it.
    """
    thing = Followed.of(splats)
    total, weight = np.zeros((len(splats), 3)), np.zeros(len(splats))
    some = [(s, T) for s, T in zip(sights, poses, strict=True) if s.colour is not None]
    drawn = render_many(
        thing.splats, [s.camera for s, _ in some], ONE, moved=[{"object": T} for _, T in some],
        what=("colour", "alpha", "depth"),
    )  # fmt: skip
    for (sight, T), image in zip(some, drawn, strict=True):
        assert sight.colour is not None
        assert image.depth is not None
        pixels, depth = projected(thing.points(T), sight.camera)
        place = np.rint(pixels).astype(int)
        inside = (
            (depth > 0)
            & (place >= 0).all(axis=1)
            & (place < (sight.camera.lens.width, sight.camera.lens.height)).all(axis=1)
        )
        row, column = np.where(inside, place[:, 1], 0), np.where(inside, place[:, 0], 0)
        facing = inside & (depth < image.depth[row, column] + BEHIND_M) & ~sight.hidden[row, column]
        facing &= image.alpha[row, column] > 0.9
        gain = np.ones(3) if sight.gain is None else sight.gain
        total[facing] += (sight.colour[row, column] / gain)[facing]
        weight[facing] += 1
    known = weight > 0
    if not known.any():
        return splats
    if plain:
        total, weight = _by_side(splats, total, weight)
        known = weight > 0
    colours = total / np.maximum(weight, 1e-9)[:, None]
    if not known.all():
        from scipy.spatial import cKDTree

        nearest = cKDTree(splats.means[known]).query(splats.means[~known])[1]
        colours[~known] = colours[known][nearest]
    return replace(splats, sh=((colours - 0.5) / SH0)[:, None])


def _by_side(splats: Splats, total: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums over all splats that face nearly the same way."""
    from scipy.spatial.transform import Rotation

    facing = Rotation.from_quat(splats.quats_wxyz[:, [1, 2, 3, 0]]).as_matrix()[:, :, 2]
    alike = np.exp((facing @ facing.T - 1) / ALIKE)
    alike[alike < 1e-3] = 0.0
    return alike @ total, alike @ weight


def inset(mesh: Mesh, depth_m: float) -> Mesh:
    """The mesh with every face moved inwards by a depth; a thin part keeps a third of its thickness at least."""
    a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    normal = np.cross(b - a, c - a)
    size = np.linalg.norm(normal, axis=1)
    unit = normal / np.maximum(size, 1e-15)[:, None]
    H, g = np.zeros((len(mesh.vertices), 3, 3)), np.zeros((len(mesh.vertices), 3))
    corners = [mesh.vertices[mesh.faces[:, k]] for k in range(3)]
    for k in range(3):  # each vertex moves so that all its faces do; faces count by their angle at it
        one, two = corners[(k + 1) % 3] - corners[k], corners[(k + 2) % 3] - corners[k]
        angle = np.arctan2(size, np.einsum("ij,ij->i", one, two))
        np.add.at(H, mesh.faces[:, k], angle[:, None, None] * unit[:, :, None] * unit[:, None, :])
        np.add.at(g, mesh.faces[:, k], -angle[:, None] * unit)
    ridge = 0.02 * np.trace(H, axis1=1, axis2=2)[:, None, None] * np.eye(3) + 1e-12 * np.eye(3)
    move = np.linalg.solve(H + ridge, g[..., None])[..., 0]
    most = np.ptp(mesh.vertices, axis=0).min() / 3
    moved = mesh.vertices + move * min(depth_m, most)
    return Mesh(moved, mesh.faces, mesh.colours)


def _reach(spacing_m: float, pixel_m: float) -> float:
    """How far outside an edge of evenly laid splats, seen from both sides, half of the light is stopped."""
    wide = np.hypot(SIGMA * spacing_m, np.sqrt(BLUR) * pixel_m)
    x, y = np.meshgrid(-spacing_m * (np.arange(24) + 0.5), spacing_m * np.arange(-24, 25))
    at = np.linspace(-wide, 4 * wide, 200)
    square = np.square(at[:, None] - x.reshape(-1)) + np.square(y.reshape(-1))
    light = np.log1p(-OPAQUE * np.exp(-square / (2 * wide * wide))).sum(axis=1)
    return float(np.interp(np.log(0.5) / 2, light, at))


def _spread(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points that fill the unit square evenly (the R2 sequence)."""
    k = np.arange(1, count + 1)
    return (0.5 + 0.7548776662466927 * k) % 1, (0.5 + 0.5698402909980532 * k) % 1


def _facing(unit: Float[np.ndarray, "N 3"]) -> Float[np.ndarray, "N 4"]:
    """Quaternions that turn z to these directions."""
    quat = np.concatenate([1 + unit[:, 2:], np.stack([-unit[:, 1], unit[:, 0], np.zeros(len(unit))], axis=1)], axis=1)
    down = unit[:, 2] < -1 + 1e-9
    quat[down] = (0.0, 1.0, 0.0, 0.0)
    return quat
