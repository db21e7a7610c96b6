"""What a camera sees of a triangle mesh: depth, face and place on it for every pixel centre, by a depth buffer.

seen = rasterise(mesh, camera)
seen.depth_m > 0                      the silhouette, exact at pixel centres
seen.face, seen.weights               which face, and where on it (barycentric, perspective undone)

With a bent lens corners are bent and edges stay straight between them: right where triangles are a few pixels wide.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from twinproof.nouns.mesh import Mesh
from twinproof.sim.render_camera import Camera, distort
from twinproof.sim.splat.lens import EXACT

if TYPE_CHECKING:
    from jaxtyping import Float, Int

NEAR_M = 0.01


@dataclass(frozen=True, eq=False)
class Seen:
    """For every pixel: depth along the optical axis (m; 0: nothing), face (-1: none) and weights of its corners."""

    depth_m: Float[np.ndarray, "H W"]
    face: Int[np.ndarray, "H W"]
    weights: Float[np.ndarray, "H W 3"]


def rasterise(mesh: Mesh, camera: Camera) -> Seen:
    """One picture. Faces count from both sides; those that reach behind the camera are left out."""
    lens, T = camera.lens, np.linalg.inv(camera.T_world_camera)
    p = mesh.vertices @ T[:3, :3].T + T[:3, 3]
    z = p[:, 2]
    xy = p[:, :2] / np.where(z > NEAR_M, z, 1.0)[:, None]
    if lens.bent:
        xy = distort(xy, lens.distortion)
    pixels = np.stack([lens.fx * xy[:, 0] + lens.cx, lens.fy * xy[:, 1] + lens.cy, z], axis=1)
    size = (lens.height, lens.width)
    depth, face, weights = np.zeros(size), np.full(size, -1, np.int32), np.zeros((*size, 3))
    _fill(np.ascontiguousarray(pixels), np.array(mesh.faces), depth, face, weights)
    return Seen(depth, face, weights)


def rasterise_flat(
    corners: Float[np.ndarray, "F 3 2"], size: tuple[int, int]
) -> tuple[Int[np.ndarray, "H W"], Float[np.ndarray, "H W 3"]]:
    """Triangles that lie in a picture (x, y in pixels): the face at every pixel centre (-1: none) and the weights."""
    points = np.concatenate([corners.reshape(-1, 2), np.ones((3 * len(corners), 1))], axis=1)
    depth, face, weights = np.zeros(size), np.full(size, -1, np.int32), np.zeros((*size, 3))
    _fill(
        np.ascontiguousarray(points), np.arange(3 * len(corners), dtype=np.int32).reshape(-1, 3), depth, face, weights
    )
    return face, weights


@njit(**EXACT)
def _fill(points, faces, depth, face, weights):
    height, width = depth.shape
    for f in range(len(faces)):
        a, b, c = faces[f, 0], faces[f, 1], faces[f, 2]
        za, zb, zc = points[a, 2], points[b, 2], points[c, 2]
        if min(za, min(zb, zc)) <= NEAR_M:
            continue
        ax, ay, bx, by, cx, cy = points[a, 0], points[a, 1], points[b, 0], points[b, 1], points[c, 0], points[c, 1]
        area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
        if area == 0.0:
            continue
        first_col, last_col = max(0, math.ceil(min(ax, min(bx, cx)))), min(width - 1, math.floor(max(ax, max(bx, cx))))
        first_row, last_row = max(0, math.ceil(min(ay, min(by, cy)))), min(height - 1, math.floor(max(ay, max(by, cy))))
        for row in range(first_row, last_row + 1):
            for col in range(first_col, last_col + 1):
                wa = ((bx - col) * (cy - row) - (by - row) * (cx - col)) / area
                wb = ((cx - col) * (ay - row) - (cy - row) * (ax - col)) / area
                wc = 1.0 - wa - wb
                if wa < 0.0 or wb < 0.0 or wc < 0.0:
                    continue
                over = wa / za + wb / zb + wc / zc
                z = 1.0 / over
                if depth[row, col] == 0.0 or z < depth[row, col]:
                    depth[row, col], face[row, col] = z, f
                    weights[row, col, 0], weights[row, col, 1] = wa / za * z, wb / zb * z
                    weights[row, col, 2] = wc / zc * z
