"""Triangles on the surface of a MuJoCo geom, none with an edge much longer than asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.sim.ray_shapes import BOX, CAPSULE, CYLINDER, ELLIPSOID, MESH, SPHERE

if TYPE_CHECKING:
    from jaxtyping import Float
    from mujoco import MjModel

    Triangles = Float[np.ndarray, "F 3 3"]

SOLID = (SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH)  # all but planes, height fields and what has no surface


def geom_triangles(model: MjModel, geom: int, edge_m: float) -> Triangles:
    """The geom's surface in its own frame, counter-clockwise from outside; only for kinds in SOLID."""
    kind = int(model.geom_type[geom])
    if kind == MESH:
        return subdivided(_mesh(model, int(model.geom_dataid[geom])), edge_m)
    return solid_triangles(kind, np.array(model.geom_size[geom]), edge_m)


def solid_triangles(kind: int, size: Float[np.ndarray, "3"], edge_m: float) -> Triangles:
    """The surface of a box, sphere, ellipsoid, capsule or cylinder of MuJoCo's sizes, in its own frame."""
    match kind:
        case _ if kind == BOX:
            return _box(size, edge_m)
        case _ if kind == CAPSULE:
            return _turned(_capsule_profile(size[0], size[1], edge_m), size[0], edge_m)
        case _ if kind == CYLINDER:
            return _turned(_cylinder_profile(size[0], size[1], edge_m), size[0], edge_m)
        case _:
            return _ellipsoid(size if kind == ELLIPSOID else size[[0, 0, 0]], edge_m)


def subdivided(triangles: Triangles, edge_m: float) -> Triangles:
    """The same surface: a triangle whose longest edge is too long is cut across it, until none is left."""
    done, todo = [triangles[:0]], triangles
    while len(todo):
        edges = np.linalg.norm(todo[:, [1, 2, 0]] - todo, axis=2)
        long = edges.max(axis=1) > edge_m
        done.append(todo[~long])
        rows, first = np.flatnonzero(long), edges[long].argmax(axis=1)
        a, b, c = (todo[rows, (first + k) % 3] for k in range(3))
        middle = (a + b) / 2
        todo = np.concatenate([np.stack([a, middle, c], 1), np.stack([middle, b, c], 1)])
    return np.concatenate(done)


def _mesh(model: MjModel, mesh: int) -> Triangles:
    first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
    face, faces = int(model.mesh_faceadr[mesh]), int(model.mesh_facenum[mesh])
    vertices: Any = model.mesh_vert[first : first + count]
    triangles: np.ndarray = np.asarray(vertices, float)[model.mesh_face[face : face + faces]]
    return triangles


def _grid(points: Float[np.ndarray, "R C 3"]) -> Triangles:
    """Two triangles for every cell of a grid of points whose rows and columns turn like x and y seen from outside."""
    a, b, c, d = points[:-1, :-1], points[:-1, 1:], points[1:, 1:], points[1:, :-1]
    both = np.stack([np.stack([a, b, c], -2), np.stack([a, c, d], -2)], axis=2)
    triangles: np.ndarray = both.reshape(-1, 3, 3)
    area = np.linalg.norm(np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]), axis=1)
    return np.asarray(triangles[area > 1e-12])  # at a pole or an axis one of the two has no area


def _steps(length: float, edge_m: float) -> int:
    return max(1, int(np.ceil(length / edge_m)))


def _box(half: np.ndarray, edge_m: float) -> Triangles:
    sides = []
    for axis in range(3):
        u, v = (axis + 1) % 3, (axis + 2) % 3
        along_u, along_v = (np.linspace(-half[k], half[k], _steps(2 * half[k], edge_m) + 1) for k in (u, v))
        for sign in (1, -1):
            points = np.empty((len(along_v), len(along_u), 3))
            points[..., u], points[..., v] = along_u[None, ::sign], along_v[:, None]
            points[..., axis] = sign * half[axis]
            sides.append(_grid(points))
    return np.concatenate(sides)


def _turned(profile: Float[np.ndarray, "P 2"], radius: float, edge_m: float) -> Triangles:
    """A profile (radius, z), from the lowest point up, turned about z."""
    angle = np.linspace(0, 2 * np.pi, max(6, _steps(2 * np.pi * radius, edge_m)) + 1)
    r, z = profile[:, None, 0], profile[:, None, 1]
    points = np.stack(np.broadcast_arrays(r * np.cos(angle), r * np.sin(angle), z), axis=-1)
    return _grid(points)


def _cylinder_profile(radius: float, half: float, edge_m: float) -> np.ndarray:
    out = np.linspace(0, radius, _steps(radius, edge_m) + 1)
    up = np.linspace(-half, half, _steps(2 * half, edge_m) + 1)
    lower, upper = np.stack([out, np.full_like(out, -half)], 1), np.stack([out[::-1], np.full_like(out, half)], 1)
    return np.concatenate([lower[:-1], np.stack([np.full_like(up, radius), up], 1), upper[1:]])


def _capsule_profile(radius: float, half: float, edge_m: float) -> np.ndarray:
    bend = np.linspace(-np.pi / 2, 0, max(3, _steps(np.pi / 2 * radius, edge_m)) + 1)
    up = np.linspace(-half, half, _steps(2 * half, edge_m) + 1)
    low = np.stack([radius * np.cos(bend), radius * np.sin(bend) - half], 1)
    middle = np.stack([np.full_like(up, radius), up], 1)
    return np.concatenate([low[:-1], middle, (low * [1, -1])[::-1][1:]])


def _ellipsoid(half: np.ndarray, edge_m: float) -> Triangles:
    bend = np.linspace(-np.pi / 2, np.pi / 2, max(6, _steps(np.pi * half.max(), edge_m)) + 1)
    profile = np.stack([np.cos(bend), np.sin(bend)], 1)
    return np.asarray(_turned(profile, 1.0, edge_m / float(half.max())) * half)
