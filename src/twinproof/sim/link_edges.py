"""A robot's links as the edges of their shapes: where two faces meet at an angle, or turn away from a camera."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.sim.link_splats import shape_triangles, shapes_of

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
    from mujoco import MjModel

CREASE = float(np.cos(np.radians(25)))  # faces whose normals are farther apart meet in an edge
ALONG = 0.8  # pieces that meet at a point go on in each other if their directions are this near
WELD_M = 1e-6
LIFT_M = 6e-4  # a piece is looked for so far outside its faces, or they would hide it
TINY = 1e-14
TOGETHER = 4  # points that are looked at in one product: few, so that products stay in the cache


@dataclass(frozen=True, eq=False)
class LinkEdges:
    """Short straight pieces of edges in the world, and the triangles that may hide them.

    Pieces of one `line` go on in each other; a corner ends a line. Pieces between faces that meet smoothly have lines
    too, but are edges for those alone who see one of the two faces from behind.
    """

    ends: Float[np.ndarray, "E 2 3"]
    normals: Float[np.ndarray, "E 2 3"]  # of the two faces
    sharp: Bool[np.ndarray, "E"]
    line: Int[np.ndarray, "E"]
    triangles: Float[np.ndarray, "F 3 3"]

    def seen_from(self, eye: Float[np.ndarray, "3"]) -> Int[np.ndarray, "S"]:
        """The pieces that a camera there sees as edges: sharp ones and outlines that no triangle hides."""
        middle = self.ends.mean(axis=1)
        ray = eye - middle
        towards = np.einsum("eki,ei->ek", self.normals, ray) > 0
        shown = np.flatnonzero((self.sharp & towards.any(axis=1)) | (towards[:, 0] != towards[:, 1]))
        out = (self.normals[shown] * towards[shown][..., None]).sum(axis=1)
        out /= np.linalg.norm(out, axis=1, keepdims=True)
        near = ray[shown] / np.linalg.norm(ray[shown], axis=1, keepdims=True)
        return np.asarray(shown[~_hidden(middle[shown] + LIFT_M * (out + 0.5 * near), eye, self.triangles)])


def link_edges(
    model: MjModel, bodies: Sequence[int], poses: Float[np.ndarray, "B 4 4"], edge_m: float = 0.006
) -> LinkEdges:
    """Of what is drawn of the bodies (ids), placed so in the world; pieces are no longer than about `edge_m`."""
    ends, normals, corners, triangles = list[np.ndarray](), list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    for body, T in zip(bodies, poses, strict=True):
        for geom in shapes_of(model, body):
            world = shape_triangles(model, geom, edge_m) @ T[:3, :3].T + T[:3, 3]
            first, faces, pair = _pieces(world)
            ends.append(first)
            normals.append(faces)
            corners.append(pair + sum(3 * len(t) for t in triangles))
            triangles.append(world)
    both = np.concatenate(normals)
    sharp = (both[:, 0] * both[:, 1]).sum(axis=1) < CREASE
    pieces = np.concatenate(ends)
    return LinkEdges(pieces, both, sharp, _lines(pieces, np.concatenate(corners), sharp), np.concatenate(triangles))


def _pieces(triangles: Float[np.ndarray, "F 3 3"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where two triangles meet: ends, the two normals, the numbers of the corners."""
    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    area = np.linalg.norm(normals, axis=1)
    triangles, normals = triangles[area > TINY], (normals / np.maximum(area, TINY)[:, None])[area > TINY]
    welded = (triangles.reshape(-1, 3) / WELD_M).round().astype(np.int64)
    corner = np.unique(welded, axis=0, return_inverse=True)[1].reshape(-1, 3)
    sides = np.concatenate([corner[:, pair] for pair in ([0, 1], [1, 2], [2, 0])])
    points = np.concatenate([triangles[:, pair] for pair in ([0, 1], [1, 2], [2, 0])])
    face = np.tile(np.arange(len(triangles)), 3)
    key = np.sort(sides, axis=1)
    order = np.lexsort((key[:, 1], key[:, 0]))
    shared = (key[order[1:]] == key[order[:-1]]).all(axis=1)
    one, other = order[:-1][shared], order[1:][shared]
    return points[one], np.stack([normals[face[one]], normals[face[other]]], axis=1), key[one]


def _lines(ends: np.ndarray, corners: np.ndarray, sharp: np.ndarray) -> np.ndarray:
    """A number for each piece, the same for those that go on in each other."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    way = ends[:, 1] - ends[:, 0]
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    at = dict[int, list[int]]()
    for piece in np.flatnonzero(sharp):
        for corner in corners[piece]:
            at.setdefault(int(corner), []).append(int(piece))
    joined = [(a, b) for meet in at.values() for a in meet for b in meet if a < b and abs(way[a] @ way[b]) > ALONG]
    if not joined:
        return np.arange(len(ends))
    pairs = np.array(joined, int).T
    graph = coo_matrix((np.ones(pairs.shape[1]), tuple(pairs)), shape=(len(ends), len(ends)))
    return np.asarray(connected_components(graph, directed=False)[1])


def _hidden(points: np.ndarray, eye: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Whether a triangle stands between each point and the eye.

    Möller and Trumbore, from the eye: all that a triangle lends to the products is then the same for every point.
    """
    one, other, away = triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0], eye - triangles[:, 0]
    facing, first = np.cross(other, one).T, np.cross(other, away).T
    second = np.cross(away, one)
    depth, out = (other * second).sum(axis=1), np.zeros(len(points), bool)
    for begin in range(0, len(points), TOGETHER):
        ray = points[begin : begin + TOGETHER] - eye
        det = ray @ facing
        inverse = np.where(np.abs(det) > TINY, 1 / np.where(det == 0, 1, det), 0)
        u, v, t = (ray @ first) * inverse, (ray @ second.T) * inverse, depth * inverse
        met = (inverse != 0) & (u >= 0) & (v >= 0) & (u + v <= 1) & (t > 0) & (t < 1)
        out[begin : begin + TOGETHER] = met.any(axis=1)
    return out
