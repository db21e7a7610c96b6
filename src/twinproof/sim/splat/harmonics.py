"""Spherical harmonics of degree 0 to 3 in the kernels: the basis (signs as in 3DGS) and its slopes."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

from numba import njit

from twinproof.nouns.splats import SH0
from twinproof.sim.splat.lens import EXACT

C0 = SH0
C1 = 0.4886025119029199
C2 = (1.0925484305920792, 0.31539156525252005, 0.5462742152960396)
C3 = (0.5900435899266435, 2.890611442640554, 0.4570457994644658, 0.3731763325901154, 1.445305721320277)


@njit(**EXACT)
def basis(x, y, z, count, out):
    """The first `count` (1, 4, 9 or 16) functions at the unit vector (x, y, z)."""
    out[0] = C0
    if count > 1:
        out[1], out[2], out[3] = -C1 * y, C1 * z, -C1 * x
    if count > 4:
        out[4], out[5] = C2[0] * x * y, -C2[0] * y * z
        out[6] = C2[1] * (2 * z * z - x * x - y * y)
        out[7], out[8] = -C2[0] * x * z, C2[2] * (x * x - y * y)
    if count > 9:
        out[9], out[10] = -C3[0] * y * (3 * x * x - y * y), C3[1] * x * y * z
        out[11], out[12] = -C3[2] * y * (4 * z * z - x * x - y * y), C3[3] * z * (2 * z * z - 3 * x * x - 3 * y * y)
        out[13], out[14] = -C3[2] * x * (4 * z * z - x * x - y * y), C3[4] * z * (x * x - y * y)
        out[15] = -C3[0] * x * (x * x - 3 * y * y)


@njit(**EXACT)
def basis_slopes(x, y, z, count, out):
    """How each of the first `count` functions grows with x, y and z, as polynomials (not along the sphere)."""
    out[:count] = 0.0
    if count > 1:
        out[1, 1], out[2, 2], out[3, 0] = -C1, C1, -C1
    if count > 4:
        out[4, 0], out[4, 1] = C2[0] * y, C2[0] * x
        out[5, 1], out[5, 2] = -C2[0] * z, -C2[0] * y
        out[6, 0], out[6, 1], out[6, 2] = -2 * C2[1] * x, -2 * C2[1] * y, 4 * C2[1] * z
        out[7, 0], out[7, 2] = -C2[0] * z, -C2[0] * x
        out[8, 0], out[8, 1] = 2 * C2[2] * x, -2 * C2[2] * y
    if count > 9:
        out[9, 0], out[9, 1] = -6 * C3[0] * x * y, -C3[0] * (3 * x * x - 3 * y * y)
        out[10, 0], out[10, 1], out[10, 2] = C3[1] * y * z, C3[1] * x * z, C3[1] * x * y
        out[11, 0], out[11, 1] = 2 * C3[2] * x * y, -C3[2] * (4 * z * z - x * x - 3 * y * y)
        out[11, 2] = -8 * C3[2] * y * z
        out[12, 0], out[12, 1] = -6 * C3[3] * x * z, -6 * C3[3] * y * z
        out[12, 2] = C3[3] * (6 * z * z - 3 * x * x - 3 * y * y)
        out[13, 0], out[13, 1] = -C3[2] * (4 * z * z - 3 * x * x - y * y), 2 * C3[2] * x * y
        out[13, 2] = -8 * C3[2] * x * z
        out[14, 0], out[14, 1], out[14, 2] = 2 * C3[4] * x * z, -2 * C3[4] * y * z, C3[4] * (x * x - y * y)
        out[15, 0], out[15, 1] = -C3[0] * (3 * x * x - 3 * y * y), 6 * C3[0] * x * y


@njit(**EXACT)
def colour(sh, i, c, count, work):
    """Channel c of splat i's colour for the basis in `work`."""
    total = 0.5
    for k in range(count):
        total += work[k] * sh[i, k, c]
    return total


@njit(**EXACT)
def colour_back(sh, i, arrow, count, work, slopes, into, grad_sh):
    """Adds what flows into splat i's sh; gives what flows into its direction, before that had length 1.

    `into` (3) flows into the colour; where that was cut at 0 nothing passes. `arrow` is (x, y, z, 1 / length).
    """
    x, y, z, scale = arrow
    basis(x, y, z, count, work)
    red = into[0] if colour(sh, i, 0, count, work) >= 0.0 else 0.0
    green = into[1] if colour(sh, i, 1, count, work) >= 0.0 else 0.0
    blue = into[2] if colour(sh, i, 2, count, work) >= 0.0 else 0.0
    for k in range(count):
        grad_sh[i, k, 0] += work[k] * red
        grad_sh[i, k, 1] += work[k] * green
        grad_sh[i, k, 2] += work[k] * blue
    if count == 1:
        return 0.0, 0.0, 0.0
    basis_slopes(x, y, z, count, slopes)
    gx, gy, gz = 0.0, 0.0, 0.0
    for k in range(1, count):
        weight = sh[i, k, 0] * red + sh[i, k, 1] * green + sh[i, k, 2] * blue
        gx += weight * slopes[k, 0]
        gy += weight * slopes[k, 1]
        gz += weight * slopes[k, 2]
    along = gx * x + gy * y + gz * z  # a longer arrow shows the same colour
    return (gx - along * x) * scale, (gy - along * y) * scale, (gz - along * z) * scale
