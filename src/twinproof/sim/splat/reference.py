"""The oracle: every splat on every pixel, in float64 torch, by the formulas of the papers and without any shortcut.

Short rather than fast: a few hundred splats on a small picture. Whatever the engines draw and differentiate is held
against this, number by number. `undecided` marks the pixels where float32 may rightly decide otherwise: an alpha within
a hair of 1/255, or light within a hair of the end.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from twinproof.sim.splat.harmonics import C0, C1, C2, C3
from twinproof.sim.splat.lens import reach
from twinproof.sim.splat.project import BLUR, CAP, FLOOR

if TYPE_CHECKING:
    import torch

STOP = 1e-4
HAIR = 1e-4  # relative


class Reference(NamedTuple):
    """A picture: colour (H, W, 3), alpha, expected and median depth, normal (camera frame), group, what is unsure."""

    colour: torch.Tensor
    alpha: torch.Tensor
    depth: torch.Tensor
    median: torch.Tensor
    normal: torch.Tensor
    group: torch.Tensor
    undecided: torch.Tensor


def rotation(quats: torch.Tensor) -> torch.Tensor:
    """Rotation matrices of quaternions wxyz of any length."""
    import torch

    w, x, y, z = torch.nn.functional.normalize(quats, dim=-1).unbind(-1)
    rows = (
        *(1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        *(2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        *(2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return torch.stack(rows, -1).reshape(*quats.shape[:-1], 3, 3)


def harmonics(direction, count: int):
    """The first `count` spherical harmonics at unit vectors."""
    import torch

    x, y, z = direction.unbind(-1)
    terms = [torch.full_like(x, C0), -C1 * y, C1 * z, -C1 * x]
    terms += [C2[0] * x * y, -C2[0] * y * z, C2[1] * (2 * z * z - x * x - y * y), -C2[0] * x * z]
    terms += [C2[2] * (x * x - y * y), -C3[0] * y * (3 * x * x - y * y), C3[1] * x * y * z]
    terms += [-C3[2] * y * (4 * z * z - x * x - y * y), C3[3] * z * (2 * z * z - 3 * x * x - 3 * y * y)]
    terms += [-C3[2] * x * (4 * z * z - x * x - y * y), C3[4] * z * (x * x - y * y), -C3[0] * x * (x * x - 3 * y * y)]
    return torch.stack(terms[:count], -1)


def bent(xy, k):
    """OpenCV's distortion of rays (…, 2), and its slopes (…, 2, 2) by automatic differentiation's own rules."""
    import torch

    def bend(xy):
        x, y = xy.unbind(-1)
        r2 = x * x + y * y
        radial = (1 + r2 * (k[0] + r2 * (k[1] + r2 * k[4]))) / (1 + r2 * (k[5] + r2 * (k[6] + r2 * k[7])))
        out_x = x * radial + 2 * k[2] * x * y + k[3] * (r2 + 2 * x * x) + r2 * (k[8] + r2 * k[9])
        out_y = y * radial + k[2] * (r2 + 2 * y * y) + 2 * k[3] * x * y + r2 * (k[10] + r2 * k[11])
        return torch.stack([out_x, out_y], -1)

    seen = bend(xy)
    slopes = torch.func.vmap(torch.func.jacrev(bend))(xy) if len(xy) else xy.new_zeros((0, 2, 2))
    return seen, slopes


def rasterise(
    means, quats, log_scales, logits, sh, group, V, lens, flat: bool = False, near: float = 0.01
) -> Reference:
    """The picture. V (G, 3, 4) is T_camera_group, lens (18,) as `lens.packed` gives it; everything float64."""
    import torch

    width, height = int(lens[16]), int(lens[17])
    R, t = V[group, :, :3], V[group, :, 3]
    points = torch.einsum("nij,nj->ni", R, means) + t
    opacity = torch.sigmoid(logits).clamp(max=CAP)
    with torch.no_grad():
        low_x, high_x, low_y, high_y = reach(lens.detach().numpy())
        xy = points[:, :2] / points[:, 2:]
        inside = (xy[:, 0] >= low_x) & (xy[:, 0] <= high_x) & (xy[:, 1] >= low_y) & (xy[:, 1] <= high_y)
        seen = (points[:, 2] > near) & (opacity > FLOOR)
        if bool((lens[4:16] != 0).any()):
            seen &= inside
        order = torch.argsort(points[:, 2].float(), stable=True)
        order = order[seen[order]]
    R, points, opacity, sh, group = R[order], points[order], opacity[order], sh[order], group[order]
    axes, scales = R @ rotation(quats[order]), log_scales[order].exp()

    ray = points[:, :2] / points[:, 2:]
    held = ray
    if not flat:
        held = torch.stack([ray[:, 0].clamp(low_x, high_x), ray[:, 1].clamp(low_y, high_y)], -1)
    (spot, _), (_, slopes) = bent(ray, lens[4:16]), bent(held, lens[4:16])
    centre = spot * lens[:2] + lens[2:4]
    E = lens[:2, None] * slopes
    J = torch.cat([E, -(E @ held[:, :, None])], -1) / points[:, 2, None, None]

    view = torch.nn.functional.normalize(torch.einsum("nji,nj->ni", R, points), dim=-1)
    colours = (torch.einsum("nk,nkc->nc", harmonics(view, sh.shape[1]), sh) + 0.5).clamp(min=0)
    short = torch.full((len(order),), 2) if flat else scales.argmin(-1)
    normals = torch.gather(axes, 2, short[:, None, None].expand(-1, 3, 1))[:, :, 0]
    normals = torch.where(((normals * points).sum(-1) > 0)[:, None], -normals, normals)

    rows, columns = torch.arange(height, dtype=means.dtype), torch.arange(width, dtype=means.dtype)
    pixels = torch.stack(torch.meshgrid(columns, rows, indexing="xy"), -1).reshape(-1, 1, 2)
    delta = pixels - centre  # (pixels, splats, 2)
    shape = _discs if flat else _ellipses
    exponent, depths = shape(delta, J, axes, scales, points)
    alpha = opacity * torch.exp(-exponent)
    drawn = torch.where(alpha >= FLOOR, alpha, torch.zeros_like(alpha))
    light = torch.cumprod(torch.cat([torch.ones_like(drawn[:, :1]), 1 - drawn], 1), 1)
    over = light[:, 1:] <= STOP
    stopped = torch.cumsum(over, 1) > 0
    weights = torch.where(stopped, torch.zeros_like(drawn), drawn * light[:, :-1])

    with torch.no_grad():
        near_floor = ((alpha / FLOOR - 1).abs() < HAIR) & ~stopped
        near_stop = ((light[:, 1:] / STOP - 1).abs() < 100 * HAIR).any(1)
        undecided = near_floor.any(1) | near_stop
        middle = (weights > 0) & (light[:, :-1] > 0.5)
        undecided |= ((light[:, 1:] - 0.5).abs() < HAIR).any(1)
        last = (
            torch.where(middle, torch.arange(1, len(order) + 1), 0).max(1).values
            if len(order)
            else pixels.new_zeros(len(pixels), dtype=torch.long)
        )
    total = weights.sum(1)
    some = (last > 0) & (total >= 0.5)
    chosen = torch.gather(torch.cat([depths.new_zeros(len(depths), 1), depths], 1), 1, last[:, None])[:, 0]
    groups = torch.cat([torch.tensor([-1]), group])[torch.where(some, last, 0)]

    def grid(values):
        return values.reshape(height, width, *values.shape[1:])

    return Reference(
        grid(weights @ colours),
        grid(total),
        grid((weights * depths).sum(1) / total.clamp(min=1e-10)),
        grid(torch.where(some, chosen, torch.zeros_like(chosen))),
        grid(weights @ normals),
        grid(groups),
        grid(undecided | ((total - 0.5).abs() < HAIR)),
    )


def _ellipses(delta, J, axes, scales, points):
    """Half the squared Mahalanobis distance of each pixel to each splat, and each splat's depth."""
    import torch

    M = J @ axes * scales[:, None, :]
    cov = M @ M.transpose(1, 2) + BLUR * torch.eye(2, dtype=M.dtype)
    exponent = 0.5 * (delta * torch.linalg.solve(cov, delta[..., None])[..., 0]).sum(-1)
    return exponent, points[:, 2].expand(exponent.shape)


def _discs(delta, J, axes, scales, points):
    """Half of s² + t² where the ray meets the disc's plane, by solving for it; the dot's where that is nearer."""
    import torch

    z = points[:, 2]
    G = (J @ axes * scales[:, None, :])[:, :, :2]
    e = axes[:, 2, :2] * scales[:, :2] / z[:, None]
    size = (G * G).sum((1, 2))
    line = torch.linalg.det(G).abs() <= 1e-12 * size
    G = torch.where(line[:, None, None], torch.eye(2, dtype=G.dtype) * 1e-15, G)
    e = torch.where(line[:, None], torch.zeros_like(e), e)
    flat = torch.linalg.solve(G, delta[..., None])[..., 0]
    over = 1 - (e * flat).sum(-1)
    ahead = over > 1e-6
    over = torch.where(ahead, over, torch.ones_like(over))
    disc = torch.where(ahead, ((flat / over[..., None]) ** 2).sum(-1), torch.full_like(over, 1e20))
    dot = 2 * (delta**2).sum(-1)
    depth = torch.where(disc <= dot, z / over, z.expand(over.shape))
    return 0.5 * torch.minimum(disc, dot), depth
