"""Where a ray enters a shape: analytic for MuJoCo's primitives, by MuJoCo's own bounding volumes for meshes.

A ray is origin + t · direction; the direction need not have length one. Only fronts are hit: a ray that starts inside
a shape leaves it unseen, as OpenGL's culling of back faces does, so a camera may sit inside its own housing.
`enter` answers (t, part, u, v): the part is a side of a box or cylinder, or a triangle with its barycentric u, v.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
# (numba infers the types of a kernel from what it is called with; annotations would be a second, unread truth.)
from __future__ import annotations

import math
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit

PLANE, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH = 0, 2, 3, 4, 5, 6, 7  # as mjtGeom counts them
# Without `_nrt` every look at an array would count its references, which two threads do on one cache line: 3 × slower.
FAST = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz", "arcp"}, "_nrt": False}
INLINE = {**FAST, "forceinline": True}  # a call hands over every array of a scene: dearer than what most of these do
ENTRY = {**FAST, "cache": True}  # called from Python; its compiled form holds all the others, which are not cached
FAR = 1e30


def sources() -> int:
    """A number that changes with any kernel's source.

    numba's cache looks only at the file of a function and at what it closes over: so those that are cached, and call
    kernels of other files, close over this.
    """
    return zlib.crc32(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("ray_*.py"))))


class Shapes(NamedTuple):
    """The visible geoms of one state, and the meshes they share, as arrays that kernels read."""

    kind: np.ndarray  # (n,) int32
    pos: np.ndarray  # (n, 3)
    rot: np.ndarray  # (n, 9) row-major, local to world
    size: np.ndarray  # (n, 3)
    bound: np.ndarray  # (n,) radius of the ball around pos that holds the shape; below 0: none does (planes)
    opaque: np.ndarray  # (n,) bool: whether it throws shadows
    mesh: np.ndarray  # (n, 4) int32: first vertex, first triangle, first tree node, first normal; -1 where no mesh
    vert: np.ndarray  # (V, 3) float32
    face: np.ndarray  # (F, 3) int32, counted from the mesh's first vertex
    tree_box: np.ndarray  # (B, 6) centre and half-size
    tree_skip: np.ndarray  # (B,) int32: the node after the last descendant; children follow their parent
    tree_face: np.ndarray  # (B,) int32: the triangle of a leaf, else -1


@njit(**INLINE)
def to_local(s, k, x, y, z):
    """A world direction in the frame of shape k."""
    r = s.rot
    return (
        r[k, 0] * x + r[k, 3] * y + r[k, 6] * z,
        r[k, 1] * x + r[k, 4] * y + r[k, 7] * z,
        r[k, 2] * x + r[k, 5] * y + r[k, 8] * z,
    )


@njit(**INLINE)
def to_world(s, k, x, y, z):
    """A direction in the frame of shape k, in the world."""
    r = s.rot
    return (
        r[k, 0] * x + r[k, 1] * y + r[k, 2] * z,
        r[k, 3] * x + r[k, 4] * y + r[k, 5] * z,
        r[k, 6] * x + r[k, 7] * y + r[k, 8] * z,
    )


@njit(**INLINE)
def enter(s, k, ox, oy, oz, dx, dy, dz, near, best):
    """The first front of shape k with near < t < best: (t, part, u, v); t is FAR where there is none."""
    rx, ry, rz = ox - s.pos[k, 0], oy - s.pos[k, 1], oz - s.pos[k, 2]
    a = dx * dx + dy * dy + dz * dz
    bound = s.bound[k]
    if bound >= 0.0:
        b = rx * dx + ry * dy + rz * dz
        c = rx * rx + ry * ry + rz * rz - bound * bound
        if c > 0.0:
            if b > 0.0:
                return FAR, 0, 0.0, 0.0
            if b * b < a * c:
                return FAR, 0, 0.0, 0.0
    x, y, z = to_local(s, k, rx, ry, rz)
    u, v, w = to_local(s, k, dx, dy, dz)
    if s.kind[k] == MESH:
        t, part, e, f = _mesh(
            s.vert, s.face, s.tree_box, s.tree_skip, s.tree_face, s.mesh[k, 0], s.mesh[k, 1], s.mesh[k, 2],
            x, y, z, u, v, w, near, best,
        )  # fmt: skip
    else:
        t, part = _primitive(s.kind[k], s.size[k, 0], s.size[k, 1], s.size[k, 2], x, y, z, u, v, w)
        e, f = 0.0, 0.0
    if t <= near or t >= best:
        return FAR, 0, 0.0, 0.0
    return t, part, e, f


@njit(**FAST)
def _primitive(kind, sx, sy, sz, x, y, z, u, v, w):
    if kind == BOX:
        return _box(x, y, z, u, v, w, sx, sy, sz)
    if kind == CAPSULE:
        return _capsule(x, y, z, u, v, w, sx, sy), 0
    if kind == CYLINDER:
        return _cylinder(x, y, z, u, v, w, sx, sy)
    if kind == SPHERE:
        return _ball(x, y, z, u, v, w, sx), 0
    if kind == ELLIPSOID:
        return _ball(x / sx, y / sy, z / sz, u / sx, v / sy, w / sz, 1.0), 0
    return _plane(x, y, z, u, v, w, sx, sy), 0


@njit(**INLINE)
def _plane(x, y, z, u, v, w, half_x, half_y):
    if w >= 0.0 or z <= 0.0:
        return FAR
    t = -z / w
    if half_x > 0.0 and abs(x + t * u) > half_x:
        return FAR
    if half_y > 0.0 and abs(y + t * v) > half_y:
        return FAR
    return t


@njit(**INLINE)
def _ball(x, y, z, u, v, w, radius):
    a = u * u + v * v + w * w
    b = x * u + y * v + z * w
    # The nearest point of the line first: |o|² - (o·d)²/|d|² loses digits when the ball is small and far away.
    k = b / a
    px, py, pz = x - k * u, y - k * v, z - k * w
    room = radius * radius - (px * px + py * py + pz * pz)
    if room < 0.0:
        return FAR
    return -k - math.sqrt(room / a)


@njit(**FAST)
def _cylinder(x, y, z, u, v, w, radius, half):
    low, high, part = -FAR, FAR, 0
    a = u * u + v * v
    if a > 1e-20 * w * w:
        k = (x * u + y * v) / a
        px, py = x - k * u, y - k * v
        room = radius * radius - (px * px + py * py)
        if room < 0.0:
            return FAR, 0
        root = math.sqrt(room / a)
        low, high = -k - root, -k + root
    elif x * x + y * y > radius * radius:
        return FAR, 0
    if w != 0.0:
        inverse = 1.0 / w
        t0, t1 = (-half - z) * inverse, (half - z) * inverse
        cap = 2
        if t0 > t1:
            t0, t1, cap = t1, t0, 1
        if t0 > low:
            low, part = t0, cap
        high = min(high, t1)
    elif abs(z) > half:
        return FAR, 0
    if low > high:
        return FAR, 0
    return low, part


@njit(**FAST)
def _capsule(x, y, z, u, v, w, radius, half):
    t = FAR
    a = u * u + v * v
    if a > 1e-20 * w * w:
        k = (x * u + y * v) / a
        px, py = x - k * u, y - k * v
        room = radius * radius - (px * px + py * py)
        if room < 0.0:
            return FAR
        t = -k - math.sqrt(room / a)
        height = z + t * w
        if abs(height) <= half:
            return t
        return _ball(x, y, z - (half if height > 0.0 else -half), u, v, w, radius)
    return _ball(x, y, z - (half if w < 0.0 else -half), u, v, w, radius)


@njit(**FAST)
def _box(x, y, z, u, v, w, sx, sy, sz):
    low, high, part = -FAR, FAR, 0
    for axis in range(3):
        if axis == 0:
            o, d, half = x, u, sx
        elif axis == 1:
            o, d, half = y, v, sy
        else:
            o, d, half = z, w, sz
        if d == 0.0:
            if abs(o) > half:
                return FAR, 0
            continue
        inverse = 1.0 / d
        t0, t1 = (-half - o) * inverse, (half - o) * inverse
        side = 2 * axis
        if t0 > t1:
            t0, t1, side = t1, t0, side + 1
        if t0 > low:
            low, part = t0, side
        if t1 < high:
            high = t1
    if low > high:
        return FAR, 0
    return low, part


@njit(**INLINE)
def _slab(box, node, x, y, z, iu, iv, iw):
    """Where the ray enters the box of a tree node, or FAR."""
    hx, hy, hz = box[node, 3] * abs(iu), box[node, 4] * abs(iv), box[node, 5] * abs(iw)
    mx, my, mz = (box[node, 0] - x) * iu, (box[node, 1] - y) * iv, (box[node, 2] - z) * iw
    low = max(mx - hx, max(my - hy, mz - hz))
    high = min(mx + hx, min(my + hy, mz + hz))
    if high < 0.0 or low > high * (1 + 1e-9) + 1e-12:
        return FAR
    return low


@njit(**FAST)
def _mesh(vert, face, box, skip, leaves, first_vert, first_face, node, x, y, z, u, v, w, near, best):
    """Walks the tree depth first; a node whose box the ray misses is left for the node after its last descendant."""
    end = skip[node]
    iu = 1.0 / u if abs(u) > 1e-300 else 1e300
    iv = 1.0 / v if abs(v) > 1e-300 else 1e300
    iw = 1.0 / w if abs(w) > 1e-300 else 1e300
    found, e, f = -1, 0.0, 0.0
    while node < end:
        if _slab(box, node, x, y, z, iu, iv, iw) >= best:
            node = skip[node]
            continue
        leaf = leaves[node]
        if leaf >= 0:
            t, p, q = _triangle(corners(vert, face, first_vert, first_face + leaf), x, y, z, u, v, w)
            if near < t < best:
                best, found, e, f = t, leaf, p, q
        node += 1
    if found < 0:
        return FAR, 0, 0.0, 0.0
    return best, found, e, f


@njit(**ENTRY)
def skip_nodes(child, first, skip):
    """Fills, for a tree whose children come after their parent, the node after each one's last descendant."""
    for node in range(child.shape[0] - 1, -1, -1):
        last = max(child[node, 0], child[node, 1])
        skip[node] = skip[last] if last >= 0 else first + node + 1


@njit(**INLINE)
def corners(vert, face, first_vert, triangle):
    """The three corners of a triangle, local."""
    a, b, c = first_vert + face[triangle, 0], first_vert + face[triangle, 1], first_vert + face[triangle, 2]
    return (
        float(vert[a, 0]), float(vert[a, 1]), float(vert[a, 2]),
        float(vert[b, 0]), float(vert[b, 1]), float(vert[b, 2]),
        float(vert[c, 0]), float(vert[c, 1]), float(vert[c, 2]),
    )  # fmt: skip


@njit(**INLINE)
def _triangle(triangle, x, y, z, u, v, w):
    """Möller and Trumbore, fronts only."""
    ax, ay, az, bx, by, bz, cx, cy, cz = triangle
    e1x, e1y, e1z, e2x, e2y, e2z = bx - ax, by - ay, bz - az, cx - ax, cy - ay, cz - az
    px, py, pz = v * e2z - w * e2y, w * e2x - u * e2z, u * e2y - v * e2x
    det = e1x * px + e1y * py + e1z * pz
    if det <= 0.0:
        return FAR, 0.0, 0.0
    sx, sy, sz = x - ax, y - ay, z - az
    p = sx * px + sy * py + sz * pz
    # A ray along a shared edge must meet one of the two triangles, so the rim is a hair wider than the triangle.
    slack = 1e-12 * det
    if p < -slack or p > det + slack:
        return FAR, 0.0, 0.0
    qx, qy, qz = sy * e1z - sz * e1y, sz * e1x - sx * e1z, sx * e1y - sy * e1x
    q = u * qx + v * qy + w * qz
    if q < -slack or p + q > det + slack:
        return FAR, 0.0, 0.0
    return (e2x * qx + e2y * qy + e2z * qz) / det, p / det, q / det


@njit(**INLINE)
def normal(s, k, part, x, y, z):
    """The outward unit normal, in the world, at the local point (x, y, z) of shape k."""
    kind = s.kind[k]
    u, v, w = 0.0, 0.0, 1.0
    if kind == BOX:
        sign = 1.0 if part % 2 == 1 else -1.0
        axis = part // 2
        u, v, w = (sign if axis == 0 else 0.0), (sign if axis == 1 else 0.0), (sign if axis == 2 else 0.0)
    elif kind == CAPSULE:
        half = s.size[k, 1]
        u, v, w = x, y, z - min(max(z, -half), half)
    elif kind == CYLINDER:
        if part == 0:
            u, v, w = x, y, 0.0
        else:
            w = 1.0 if part == 1 else -1.0
    elif kind == SPHERE:
        u, v, w = x, y, z
    elif kind == ELLIPSOID:
        u, v, w = x / s.size[k, 0] ** 2, y / s.size[k, 1] ** 2, z / s.size[k, 2] ** 2
    elif kind == MESH:
        ax, ay, az, bx, by, bz, cx, cy, cz = corners(s.vert, s.face, s.mesh[k, 0], s.mesh[k, 1] + part)
        px, py, pz, qx, qy, qz = bx - ax, by - ay, bz - az, cx - ax, cy - ay, cz - az
        u, v, w = py * qz - pz * qy, pz * qx - px * qz, px * qy - py * qx
    u, v, w = to_world(s, k, u, v, w)
    scale = 1.0 / math.sqrt(max(u * u + v * v + w * w, 1e-300))
    return u * scale, v * scale, w * scale
