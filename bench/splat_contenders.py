"""What the splat rasteriser is held against on a CPU: plain torch, tile by tile, and Warp with a thread for each pixel.

Both take splats that are projected already, nearest first by `depths`, and follow one convention: pixel centres at
integers, sigma = (a dx² + 2 b dx dy + c dy²) / 2, alpha = min(0.999, opacity · exp(-sigma)), alphas below 1/255 are not
drawn, and a pixel is finished before its light would fall below 1e-4. Tiles are 16 × 16; a tile's list holds the splats
whose contour alpha = 1/255 reaches one of its rows between its first and last column of pixels.

    python bench/splat_contenders.py          checks both against a loop over pixels and splats
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import torch

TILE = 16
LEAST, MOST, STOP = 1 / 255, 0.999, 1e-4
CHUNK = 512  # splats of a tile at once; of 16 to all, the fastest where lists have 200 to 600 splats


class Lists(NamedTuple):
    """Tile t sees the splats splat[start[t] : start[t + 1]], nearest first."""

    start: np.ndarray  # (tiles + 1,)
    splat: np.ndarray  # (pairs,) indices of the splats as they were given


def tile_lists(
    means2d: np.ndarray, conics: np.ndarray, opacities: np.ndarray, depths: np.ndarray, width: int, height: int
) -> Lists:
    """The lists of all tiles, with exact bounds: the ellipse alpha = 1/255 cut at each row of tiles."""
    across, down = -(-width // TILE), -(-height // TILE)
    a, b, c = conics.T.astype(np.float64)
    det = a * c - b * b
    seen = np.flatnonzero((opacities > LEAST) & (det > 0) & (a > 0))
    order = seen[np.argsort(depths[seen], kind="stable")]
    x, y = means2d[order].T.astype(np.float64)
    a, b, c, det = a[order], b[order], c[order], det[order]
    edge = 2 * np.log(opacities[order].astype(np.float64) / LEAST)
    half_x, half_y = np.sqrt(edge * c / det), np.sqrt(edge * a / det)
    top = np.ceil(np.maximum(y - half_y, 0)).astype(int) // TILE
    low = np.floor(np.minimum(y + half_y, down * TILE - 1)).astype(int) // TILE
    rank, row = _spread(top, low)
    lean = b[rank] / c[rank] * half_x[rank]  # dy of the leftmost point of the ellipse
    near = np.maximum(row * TILE - y[rank], -half_y[rank])
    far = np.minimum(row * TILE + TILE - 1 - y[rank], half_y[rank])
    reach = [
        (side * np.sqrt(np.maximum(a[rank] * edge[rank] - det[rank] * dy**2, 0)) - b[rank] * dy) / a[rank]
        for side, dy in ((-1, np.clip(lean, near, far)), (1, np.clip(-lean, near, far)))
    ]
    left = np.ceil(np.maximum(x[rank] + reach[0], 0)).astype(int) // TILE
    right = np.floor(np.minimum(x[rank] + reach[1], across * TILE - 1)).astype(int) // TILE
    which, column = _spread(left, right)
    tile, splat = row[which] * across + column, order[rank[which]]
    by_tile = np.argsort(tile, kind="stable")  # depth order stays within a tile
    counts = np.bincount(tile, minlength=across * down)
    return Lists(np.concatenate([[0], np.cumsum(counts)]), splat[by_tile])


def _spread(first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(which, value) for every value from first[which] to last[which], both included."""
    count = np.maximum(last - first + 1, 0)
    which = np.repeat(np.arange(len(first)), count)
    return which, first[which] + np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)


def torch_tiles(
    means2d: torch.Tensor,
    conics: torch.Tensor,
    opacities: torch.Tensor,
    colours: torch.Tensor,
    depths: torch.Tensor,
    width: int,
    height: int,
    lists: Lists | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The picture (H, W, 3) and alpha (H, W), differentiable in the first four; in one thread unless torch has more.

    What makes torch fast here: all pairs are gathered once and split once (gathering per tile makes the backward pass
    write a gradient of full length for every tile), sigma of all pixels of a tile is one matrix product of the
    quadratic form's six coefficients with the pixels' monomials, and the opacity rides along in the exponent.
    """
    import torch

    if lists is None:
        given = (each.detach().numpy() for each in (means2d, conics, opacities, depths))
        lists = tile_lists(*given, width, height)
    across, down = -(-width // TILE), -(-height // TILE)
    splat = torch.as_tensor(lists.splat)
    tile = torch.as_tensor(np.repeat(np.arange(across * down), np.diff(lists.start)))
    middle = (TILE - 1) / 2
    corner = torch.stack([tile % across * TILE + middle, tile // across * TILE + middle], 1).to(means2d.dtype)
    packed = torch.cat([means2d, conics, torch.log(opacities)[:, None], colours], 1).index_select(0, splat)
    form = _coefficients(packed[:, :2] - corner, packed[:, 2:5], packed[:, 5])
    counts = np.diff(lists.start).tolist()
    monomials = _monomials(means2d.dtype)
    light, picture = [], []
    for of_tile, shade in zip(form.split(counts), packed[:, 6:].split(counts), strict=True):
        blended = _blend(of_tile, shade, monomials) if len(of_tile) else None
        picture.append(blended[0] if blended else torch.zeros(TILE * TILE, 3, dtype=means2d.dtype))
        light.append(blended[1] if blended else torch.ones(TILE * TILE, dtype=means2d.dtype))
    whole = torch.cat([torch.stack(picture), 1 - torch.stack(light)[..., None]], 2)
    whole = whole.view(down, across, TILE, TILE, 4).transpose(1, 2).reshape(down * TILE, across * TILE, 4)
    return whole[:height, :width, :3], whole[:height, :width, 3]


def _coefficients(offset: torch.Tensor, conics: torch.Tensor, log_opacity: torch.Tensor) -> torch.Tensor:
    """log(opacity) - sigma as coefficients of 1, x, y, x², xy, y² around the middle of the tile."""
    import torch

    (x, y), (a, b, c) = offset.unbind(1), conics.unbind(1)
    along_x, along_y = a * x + b * y, b * x + c * y
    constant = log_opacity - 0.5 * (x * along_x + y * along_y)
    return torch.stack([constant, along_x, along_y, -0.5 * a, -b, -0.5 * c], 1)


def _monomials(dtype: torch.dtype) -> torch.Tensor:
    import torch

    at = torch.arange(TILE, dtype=dtype) - (TILE - 1) / 2
    y, x = (each.reshape(-1) for each in torch.meshgrid(at, at, indexing="ij"))
    return torch.stack([torch.ones_like(x), x, y, x * x, x * y, y * y])


def _blend(form: torch.Tensor, shade: torch.Tensor, monomials: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Colours (pixels, 3) and the light that is left (pixels) of a tile's splats, front to back, chunk by chunk."""
    import torch

    whole = torch.ones(monomials.shape[1], dtype=form.dtype)
    total, left, passing = torch.zeros(len(whole), 3, dtype=form.dtype), whole, whole  # passing: 0 where finished
    for first in range(0, len(form), CHUNK):
        alpha = _alphas(form[first : first + CHUNK] @ monomials)
        after = torch.cumprod(1 - alpha, 0)
        after = after * passing if first else after
        before = torch.cat([passing[None], after[:-1]])
        if bool((after[-1] >= STOP).all()):  # most tiles, most chunks: no pixel is finished
            total = total + (alpha * before).T @ shade[first : first + CHUNK]
            left = passing = after[-1]
            continue
        drawn = after.detach() >= STOP  # light only falls: what comes after the first that is not drawn is not either
        total = total + torch.where(drawn, alpha * before, 0.0).T @ shade[first : first + CHUNK]
        here = torch.cat([passing[None], after]).gather(0, drawn.sum(0)[None])[0]
        left = torch.where(passing > 0, here, left)
        passing = torch.where(drawn[-1], after[-1], 0.0)
        if not bool(drawn[-1].any()):
            break
    return total, left


def _alphas(exponent: torch.Tensor) -> torch.Tensor:
    import torch

    if not exponent.requires_grad:
        return torch.nn.functional.threshold_(exponent.exp_().clamp_(max=MOST), np.nextafter(LEAST, 0), 0.0)
    alpha = torch.exp(exponent).clamp(max=MOST)
    return torch.where(alpha < LEAST, 0.0, alpha)


def warp_tiles(
    means2d: np.ndarray,
    conics: np.ndarray,
    opacities: np.ndarray,
    colours: np.ndarray,
    depths: np.ndarray,
    width: int,
    height: int,
    lists: Lists | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The picture (H, W, 3) and alpha (H, W) by Warp on the CPU: one thread for each pixel over its tile's list."""
    lists = lists or tile_lists(means2d, conics, opacities, depths, width, height)
    wp, kernel = _warp_kernel()
    flat = [np.ascontiguousarray(each, np.float32) for each in (means2d, conics, opacities, colours)]
    kinds = (wp.vec2, wp.vec3, wp.float32, wp.vec3)
    given = [wp.array(each, dtype=kind, device="cpu") for each, kind in zip(flat, kinds, strict=True)]
    start, splat = (wp.array(each.astype(np.int32), dtype=wp.int32, device="cpu") for each in lists)
    colour = wp.zeros(width * height, dtype=wp.vec3, device="cpu")
    alpha = wp.zeros(width * height, dtype=wp.float32, device="cpu")
    wp.launch(kernel, dim=width * height, inputs=[*given, start, splat, width], outputs=[colour, alpha], device="cpu")
    return colour.numpy().reshape(height, width, 3), alpha.numpy().reshape(height, width)


_kept: list[Any] = []  # Warp and its kernel, compiled once


def _warp_kernel() -> tuple[Any, Any]:
    if not _kept:
        import warp as wp

        wp.config.quiet = True

        @wp.kernel
        def draw(
            means: wp.array(dtype=wp.vec2),
            conics: wp.array(dtype=wp.vec3),
            opacities: wp.array(dtype=wp.float32),
            shades: wp.array(dtype=wp.vec3),
            start: wp.array(dtype=wp.int32),
            splat: wp.array(dtype=wp.int32),
            width: int,
            colour: wp.array(dtype=wp.vec3),
            alphas: wp.array(dtype=wp.float32),
        ):
            i = wp.tid()
            x, y = i % width, i // width
            tile = (y // 16) * ((width + 15) // 16) + x // 16
            light = float(1.0)  # noqa: UP018
            total = wp.vec3(0.0, 0.0, 0.0)
            for k in range(start[tile], start[tile + 1]):
                j = splat[k]
                dx = float(x) - means[j][0]
                dy = float(y) - means[j][1]
                q = conics[j]
                sigma = 0.5 * (q[0] * dx * dx + q[2] * dy * dy) + q[1] * dx * dy
                alpha = wp.min(0.999, opacities[j] * wp.exp(-sigma))
                if alpha >= 1.0 / 255.0:
                    left = light * (1.0 - alpha)
                    if left < 1.0e-4:
                        break
                    total += alpha * light * shades[j]
                    light = left
            colour[i] = total
            alphas[i] = 1.0 - light

        _kept.extend([wp, draw])
    return _kept[0], _kept[1]


def plain_loop(
    means2d: np.ndarray,
    conics: np.ndarray,
    opacities: np.ndarray,
    colours: np.ndarray,
    depths: np.ndarray,
    width: int,
    height: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The same picture by a loop over pixels and splats, in float64: no tiles, no bounds."""
    picture, alphas = np.zeros((height, width, 3)), np.zeros((height, width))
    order = np.argsort(depths, kind="stable")
    for y in range(height):
        for x in range(width):
            light = 1.0
            for j in order:
                dx, dy = x - float(means2d[j, 0]), y - float(means2d[j, 1])
                a, b, c = map(float, conics[j])
                alpha = min(MOST, float(opacities[j]) * np.exp(-0.5 * (a * dx * dx + c * dy * dy) - b * dx * dy))
                if alpha < LEAST:
                    continue
                if light * (1 - alpha) < STOP:
                    break
                picture[y, x] += alpha * light * colours[j]
                light *= 1 - alpha
            alphas[y, x] = 1 - light
    return picture, alphas


def random_splats(count: int, width: int, height: int, seed: int = 0) -> list[np.ndarray]:
    """Ellipses of all sizes and directions in and around a picture: means, conics, opacities, colours, depths."""
    rng = np.random.default_rng(seed)
    means = rng.uniform(-8, [width + 8, height + 8], (count, 2))
    sizes, angle = np.exp(rng.uniform(-0.5, 2.2, (count, 2))), rng.uniform(0, np.pi, count)
    turn = np.stack([np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)], 1).reshape(-1, 2, 2)
    inverse = np.linalg.inv(np.einsum("nij,nj,nkj->nik", turn, sizes**2, turn))
    conics = np.stack([inverse[:, 0, 0], inverse[:, 0, 1], inverse[:, 1, 1]], 1)
    opacities = np.clip(rng.uniform(-0.01, 1.05, count), 1e-3, 1.0)
    columns = (means, conics, opacities, rng.uniform(0, 1, (count, 3)), rng.uniform(1, 5, count))
    return [each.astype(np.float32) for each in columns]


def check(count: int = 60, width: int = 41, height: int = 35) -> dict[str, float]:
    """The largest gaps to the loop, of torch and of Warp where it is installed; of gradients, to a dense blend."""
    import torch

    splats = random_splats(count, width, height)
    expected, covered = plain_loop(*splats, width, height)
    inputs = [torch.as_tensor(each) for each in splats]
    picture, alpha = torch_tiles(*inputs, width, height)
    gaps = {
        "torch, picture": float(np.abs(picture.numpy() - expected).max()),
        "torch, alpha": float(np.abs(alpha.numpy() - covered).max()),
        "torch, gradients (relative)": _gradient_gap([each.astype(np.float64) for each in splats], width, height),
    }
    try:
        picture, alpha = warp_tiles(*splats, width, height)
    except ImportError:
        return gaps
    return gaps | {
        "Warp, picture": float(np.abs(picture - expected).max()),
        "Warp, alpha": float(np.abs(alpha - covered).max()),
    }


def _gradient_gap(splats: list[np.ndarray], width: int, height: int) -> float:
    """Gradients of a weighted sum of the picture by tiles, against those of a blend without tiles, in float64."""
    import torch

    weights = torch.as_tensor(np.random.default_rng(1).normal(size=(height, width, 4)))
    depths = torch.as_tensor(splats[4])
    leaves = [torch.as_tensor(each).requires_grad_() for each in splats[:4]]
    by_tiles, dense = (
        torch.autograd.grad((torch.cat([picture, alpha[..., None]], 2) * weights).sum(), leaves)
        for picture, alpha in (torch_tiles(*leaves, depths, width, height), _dense(leaves, depths, width, height))
    )
    return max(float((one - other).abs().max() / other.abs().max()) for one, other in zip(by_tiles, dense, strict=True))


def _dense(leaves: list[torch.Tensor], depths: torch.Tensor, width: int, height: int) -> tuple[Any, Any]:
    """All splats on all pixels, light by a plain loop over the splats."""
    import torch

    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    light, picture = torch.ones(height, width, dtype=torch.float64), 0.0
    open_ = torch.ones(height, width, dtype=torch.bool)
    for j in torch.argsort(depths, stable=True).tolist():
        mean, (a, b, c), opacity, colour = (each[j] for each in leaves)
        dx, dy = x - mean[0], y - mean[1]
        alpha = (opacity * torch.exp(-0.5 * (a * dx * dx + c * dy * dy) - b * dx * dy)).clamp(max=MOST)
        after = light * (1 - alpha)
        open_ = open_ & ((alpha < LEAST) | (after >= STOP))
        drawn = open_ & (alpha >= LEAST)
        picture = picture + torch.where(drawn, alpha * light, 0.0)[..., None] * colour
        light = torch.where(drawn, after, light)
    return picture, 1 - light


if __name__ == "__main__":
    found = check()
    for name, gap in found.items():
        print(f"{name}: {gap:.1e}")
    if "Warp, picture" not in found:
        print("Warp is not installed: pip install warp-lang")
    sys.exit(max(found.values()) > 1e-4)
