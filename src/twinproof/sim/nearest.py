"""The nearest point of a mesh to each of many points: exact, through a tree of boxes.

tree = Tree.of(mesh)
distance_m, face, place = tree.nearest(points)
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from twinproof.nouns.mesh import Mesh
from twinproof.sim.splat.engine import blocks, spread
from twinproof.sim.splat.lens import EXACT
from twinproof.sim.threads import threads_usable

if TYPE_CHECKING:
    from jaxtyping import Float, Int

LEAF = 4  # triangles


@dataclass(frozen=True, eq=False)
class Tree:
    """Triangles in boxes in boxes.

    Node k has the box bounds[k] and the triangles order[first[k] : first[k] + count[k]]; where count is 0 its children
    are the nodes first[k] and first[k] + 1.
    """

    corners: Float[np.ndarray, "F 3 3"]
    order: Int[np.ndarray, "F"]
    bounds: Float[np.ndarray, "N 6"]
    first: Int[np.ndarray, "N"]
    count: Int[np.ndarray, "N"]

    @classmethod
    def of(cls, mesh: Mesh) -> Tree:
        """The tree of a mesh's faces."""
        corners = np.ascontiguousarray(mesh.vertices[mesh.faces])
        order, most = np.arange(len(corners)), 2 * len(corners) + 1
        bounds, first, count = np.zeros((most, 6)), np.zeros(most, np.int64), np.zeros(most, np.int64)
        used = _build(corners, corners.mean(axis=1), order, bounds, first, count)
        return cls(corners, order, bounds[:used].copy(), first[:used].copy(), count[:used].copy())

    def nearest(
        self, points: Float[np.ndarray, "P 3"], threads: int = 0
    ) -> tuple[Float[np.ndarray, "P"], Int[np.ndarray, "P"], Float[np.ndarray, "P 3"]]:
        """Distance (m), face and nearest point on it, of every point."""
        points = np.ascontiguousarray(points, float)
        distance, face, place = np.empty(len(points)), np.empty(len(points), np.int64), np.empty((len(points), 3))
        tree = (self.corners, self.order, self.bounds, self.first, self.count)
        spread(
            lambda span: _search(points, *tree, distance, face, place, *span),
            blocks(len(points), 4096),
            threads or threads_usable(),
        )
        return distance, face, place


@njit(**EXACT)
def _build(corners, centres, order, bounds, first, count):
    """Halves the triangles along the longest side of their centres, again and again; gives the number of nodes."""
    used, todo = 1, [(0, 0, len(order))]
    while len(todo) > 0:
        node, lo, hi = todo.pop()
        for axis in range(3):
            bounds[node, axis], bounds[node, axis + 3] = np.inf, -np.inf
        for n in range(lo, hi):
            for corner in range(3):
                for axis in range(3):
                    x = corners[order[n], corner, axis]
                    bounds[node, axis] = min(bounds[node, axis], x)
                    bounds[node, axis + 3] = max(bounds[node, axis + 3], x)
        if hi - lo <= LEAF:
            first[node], count[node] = lo, hi - lo
            continue
        longest, side = 0, -1.0
        for axis in range(3):
            low, high = np.inf, -np.inf
            for n in range(lo, hi):
                low, high = min(low, centres[order[n], axis]), max(high, centres[order[n], axis])
            if high - low > side:
                longest, side = axis, high - low
        keys = np.empty(hi - lo)
        for n in range(lo, hi):
            keys[n - lo] = centres[order[n], longest]
        order[lo:hi] = order[lo:hi][np.argsort(keys)]
        middle = (lo + hi) // 2
        first[node] = used
        todo.append((used, lo, middle))
        todo.append((used + 1, middle, hi))
        used += 2
    return used


@njit(**EXACT)
def _search(points, corners, order, bounds, first, count, distance, face, place, lo, hi):
    stack, gaps = np.empty(128, np.int64), np.empty(128)
    for n in range(lo, hi):
        x, y, z = points[n, 0], points[n, 1], points[n, 2]
        best, top = np.inf, 1
        stack[0], gaps[0] = 0, to_box(bounds[0], x, y, z)
        while top > 0:
            top -= 1
            node = stack[top]
            if gaps[top] >= best:
                continue
            if count[node] > 0:
                for k in range(first[node], first[node] + count[node]):
                    px, py, pz = on_triangle(corners[order[k]], x, y, z)
                    square = (px - x) ** 2 + (py - y) ** 2 + (pz - z) ** 2
                    if square < best:
                        best, face[n] = square, order[k]
                        place[n, 0], place[n, 1], place[n, 2] = px, py, pz
                continue
            near, far = first[node], first[node] + 1
            to_near, to_far = to_box(bounds[near], x, y, z), to_box(bounds[far], x, y, z)
            if to_far < to_near:
                near, far, to_near, to_far = far, near, to_far, to_near
            stack[top], gaps[top] = far, to_far
            stack[top + 1], gaps[top + 1] = near, to_near
            top += 2
        distance[n] = np.sqrt(best)


@njit(**EXACT)
def to_box(box, x, y, z):
    """Squared distance to a box."""
    a, b, c = max(box[0] - x, x - box[3], 0.0), max(box[1] - y, y - box[4], 0.0), max(box[2] - z, z - box[5], 0.0)
    return a * a + b * b + c * c


@njit(**EXACT)
def on_triangle(t, x, y, z):
    """The point of a triangle nearest to (x, y, z) (Ericson, Real-Time Collision Detection, 5.1.5)."""
    abx, aby, abz = t[1, 0] - t[0, 0], t[1, 1] - t[0, 1], t[1, 2] - t[0, 2]
    acx, acy, acz = t[2, 0] - t[0, 0], t[2, 1] - t[0, 1], t[2, 2] - t[0, 2]
    apx, apy, apz = x - t[0, 0], y - t[0, 1], z - t[0, 2]
    d1, d2 = abx * apx + aby * apy + abz * apz, acx * apx + acy * apy + acz * apz
    if d1 <= 0 and d2 <= 0:
        return t[0, 0], t[0, 1], t[0, 2]
    bpx, bpy, bpz = x - t[1, 0], y - t[1, 1], z - t[1, 2]
    d3, d4 = abx * bpx + aby * bpy + abz * bpz, acx * bpx + acy * bpy + acz * bpz
    if d3 >= 0 and d4 <= d3:
        return t[1, 0], t[1, 1], t[1, 2]
    vc = d1 * d4 - d3 * d2
    if vc <= 0 and d1 >= 0 and d3 <= 0:
        s = d1 / (d1 - d3) if d1 != d3 else 0.0
        return t[0, 0] + s * abx, t[0, 1] + s * aby, t[0, 2] + s * abz
    cpx, cpy, cpz = x - t[2, 0], y - t[2, 1], z - t[2, 2]
    d5, d6 = abx * cpx + aby * cpy + abz * cpz, acx * cpx + acy * cpy + acz * cpz
    if d6 >= 0 and d5 <= d6:
        return t[2, 0], t[2, 1], t[2, 2]
    vb = d5 * d2 - d1 * d6
    if vb <= 0 and d2 >= 0 and d6 <= 0:
        s = d2 / (d2 - d6) if d2 != d6 else 0.0
        return t[0, 0] + s * acx, t[0, 1] + s * acy, t[0, 2] + s * acz
    va = d3 * d6 - d5 * d4
    if va <= 0 and d4 - d3 >= 0 and d5 - d6 >= 0:
        total = (d4 - d3) + (d5 - d6)
        s = (d4 - d3) / total if total != 0 else 0.0
        return t[1, 0] + s * (t[2, 0] - t[1, 0]), t[1, 1] + s * (t[2, 1] - t[1, 1]), t[1, 2] + s * (t[2, 2] - t[1, 2])
    total = va + vb + vc
    s, r = vb / total, vc / total
    return t[0, 0] + abx * s + acx * r, t[0, 1] + aby * s + acy * r, t[0, 2] + abz * s + acz * r
