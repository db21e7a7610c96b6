"""The GPU engine: gsplat behind the CPU engine's interface and conventions.

What gsplat counts otherwise is turned here: pixel centres (its first is 0.5), opacities (capped before, not after the
fall-off), harmonics of moved groups (seen in the group's own frame), intrinsics (it has no slopes by them: they are
folded into the view matrix, which has), bent lenses (volumes are then projected in torch), median depth and group.
Depth of surfels is that of their centres; the CPU's is where the ray meets them.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from twinproof.nouns.errors import MissingExtra, SplatError
from twinproof.nouns.splats import BANDS, Splats
from twinproof.sim.render_camera import Camera
from twinproof.sim.splat.harmonics import C0
from twinproof.sim.splat.lens import packed, reach
from twinproof.sim.splat.project import BLUR, CAP, FLOOR
from twinproof.sim.splat.reference import bent, rotation
from twinproof.sim.splat.render import SplatImage, to_world
from twinproof.sim.splat.torch_render import PLAIN, Rendered, Scene, Settings, placed

TILE = 16


def gsplat() -> Any:
    """The library. Importing it compiles its kernels once for a machine, which takes about a minute."""
    if not torch.cuda.is_available():
        raise MissingExtra("splats on a GPU need a CUDA device, and none answers. Draw on the CPU: device='cpu'.")
    try:
        import gsplat as library
    except ImportError:
        raise MissingExtra("splats on a GPU need gsplat. Run: pip install 'twinproof[gpu]'.") from None
    return library


def render(scene: Scene, T_camera_world, lens, T_world_group=None, settings: Settings = PLAIN) -> Rendered:
    """As `torch_render.render`, with tensors on the GPU. A lens that is not differentiated may stay on the CPU."""
    numbers = lens.detach().cpu()  # the sizes are needed on this side: on the GPU this would wait for it
    sizes = {(int(w), int(h)) for w, h in numbers[:, 16:].tolist()}
    if len(sizes) != 1:
        raise SplatError(f"splats: lenses of one batch have one size; found {sorted(sizes)}. Render them apart.")
    size, is_bent = next(iter(sizes)), bool((numbers[:, 4:16] != 0).any())
    if len(scene.means) == 0:
        return _nothing(len(lens), *size, settings.more, scene.means.device)
    if T_world_group is None:
        V = T_camera_world.float()[:, None]
    else:
        V = placed(scene.group, T_camera_world, T_world_group).float()
    opacity = torch.sigmoid(scene.logits).clamp(max=CAP)
    colours = _colours(scene, V)
    points: Any = None
    if settings.more or is_bent or settings.flat:
        view = V[:, scene.group.long()] if V.shape[1] > 1 else V
        points = torch.einsum("cnij,nj->cni", view[..., :3, :3].expand(-1, len(scene.means), -1, -1), scene.means)
        points = points + view[..., :3, 3]
    if settings.more:
        normals = _normals(scene, view[..., :3, :3], points, settings.flat)
        colours = torch.cat([colours, points[..., 2:], normals], -1)
    draw = _surfels if settings.flat else (_bent_volumes if is_bent else _volumes)
    picture, alpha, meta = draw(scene, V, points, opacity, colours, lens, size, settings)
    if not settings.more:
        return Rendered(picture, alpha, None, None, None, None)
    chosen = _median(meta, alpha.shape)
    some = (chosen >= 0) & (alpha >= 0.5)
    safe = chosen.clamp(min=0)
    rows = torch.arange(len(V), device=safe.device)[:, None, None]
    median = torch.where(some, points[rows, safe, 2], torch.zeros_like(alpha))
    group = torch.where(some, scene.group.long()[safe], torch.full_like(safe, -1))
    return Rendered(picture[..., :3], alpha, picture[..., 3] / alpha.clamp(min=1e-10), median, picture[..., 4:], group)


def _colours(scene: Scene, V):
    """Colours (C, N, 3) as each camera sees them; harmonics are taken in the group's own frame."""
    bands = scene.sh.shape[1]
    if bands == 1:
        return (C0 * scene.sh[:, 0] + 0.5).clamp(min=0).expand(len(V), -1, -1)
    back = V[..., :3, :3].transpose(-1, -2)
    own, shift = back @ V[..., :3, :3], (back @ V[..., :3, 3:])[..., 0]  # the arrow is Rᵀ (R m + t), as on the CPU
    if V.shape[1] > 1:
        own, shift = own[:, scene.group.long()], shift[:, scene.group.long()]
    arrows = (own @ scene.means[..., None])[..., 0] + shift
    sh = scene.sh.expand(len(V), -1, -1, -1)
    return (gsplat().spherical_harmonics(BANDS[bands], arrows, sh) + 0.5).clamp(min=0)


def _normals(scene: Scene, turn, points, flat: bool):
    axes = turn.expand(-1, len(scene.means), -1, -1) @ rotation(scene.quats)
    short = torch.full((len(scene.means),), 2, device=points.device) if flat else scene.log_scales.argmin(-1)
    normals = torch.gather(axes, 3, short[None, :, None, None].expand(len(axes), -1, 3, 1))[..., 0]
    return torch.where((normals * points).sum(-1, keepdim=True) > 0, -normals, normals)


@lru_cache(maxsize=256)
def _intrinsics(lenses: tuple[tuple[float, ...], ...], device: str):
    """Their matrices (C, 3, 3) on a device, gsplat's pixels counted from 0.5; kept, as sending them takes time."""
    return torch.tensor([[[fx, 0, cx + 0.5], [0, fy, cy + 0.5], [0, 0, 1]] for fx, fy, cx, cy in lenses], device=device)


def _cameras(V, lens):
    """View matrices and intrinsics as gsplat takes them; slopes by the intrinsics flow through the matrices."""
    K = _intrinsics(tuple(map(tuple, lens.detach()[:, :4].tolist())), str(V.device))
    if lens.requires_grad:
        fixed = lens.detach().to(V.device).float()
        live = lens.float()
        one, none = torch.ones_like(live[:, 0]), torch.zeros_like(live[:, 0])
        rows = [live[:, 0] / fixed[:, 0], none, (live[:, 2] - fixed[:, 2]) / fixed[:, 0], none]
        rows += [none, live[:, 1] / fixed[:, 1], (live[:, 3] - fixed[:, 3]) / fixed[:, 1], none]
        rows += [none, none, one, none, none, none, none, one]
        V = torch.stack(rows, -1).reshape(-1, 1, 4, 4) @ V
    return V, K


def _projected(scene: Scene, V, lens, opacity, size, settings: Settings):
    """Every group by its own matrix, then all together in the splats' order: nothing is copied to be moved."""
    library = gsplat()
    V, K = _cameras(V, lens)
    width, height = size
    scales = scene.log_scales.exp()
    parts, order = [], []
    for g in range(V.shape[1]):
        mine: Any = torch.nonzero(scene.group == g)[:, 0] if V.shape[1] > 1 else slice(None)
        if V.shape[1] > 1 and not len(mine):
            continue
        one = (scene.means[mine], scene.quats[mine], scales[mine])
        if settings.flat:
            parts.append(
                library.fully_fused_projection_2dgs(
                    *one, V[:, g].contiguous(), K, width, height, eps2d=BLUR, near_plane=settings.near, packed=False
                )
            )
        else:
            means, quats, size3 = one
            parts.append(
                library.fully_fused_projection(
                    means, None, quats, size3, V[:, g].contiguous(), K, width, height, eps2d=BLUR,
                    near_plane=settings.near, packed=False, opacities=opacity[mine],
                )
            )  # fmt: skip
        order.append(mine)
    if len(parts) == 1 and V.shape[1] == 1:
        return parts[0]
    back = torch.argsort(torch.cat(order))
    return tuple(None if part[0] is None else torch.cat(part, 1)[:, back] for part in zip(*parts, strict=True))


def _lists(means2d, radii, depths, size):
    library = gsplat()
    across, down = -(-size[0] // TILE), -(-size[1] // TILE)
    count = len(means2d)
    _, keys, flat = library.isect_tiles(means2d, radii, depths, TILE, across, down, packed=False, n_images=count)
    return library.isect_offset_encode(keys, count, across, down).reshape(count, down, across), flat


def _volumes(scene: Scene, V, points, opacity, colours, lens, size, settings: Settings):
    radii, means2d, depths, conics, _ = _projected(scene, V, lens, opacity, size, settings)
    return _blend(means2d, radii, depths, conics, opacity, colours, size)


def _blend(means2d, radii, depths, conics, opacity, colours, size):
    offsets, flat = _lists(means2d, radii, depths, size)
    opacities = opacity.expand(len(means2d), -1).contiguous()
    picture, alpha = gsplat().rasterize_to_pixels(
        means2d, conics, colours.contiguous(), opacities, size[0], size[1], TILE, offsets, flat, packed=False
    )
    return picture, alpha[..., 0], ("ellipses", means2d, conics, opacities, size, offsets, flat)


def _bent_volumes(scene: Scene, V, points, opacity, colours, lens, size, settings: Settings):
    """The CPU engine's own projection in torch, for lenses with distortion."""
    on_device = lens.to(points.device).float()
    parts = [_bent_one(scene, V[c], points[c], opacity, on_device[c], settings.near) for c in range(len(V))]
    means2d, radii, depths, conics = (torch.stack(part) for part in zip(*parts, strict=True))
    return _blend(means2d, radii, depths, conics, opacity, colours, size)


def _bent_one(scene: Scene, V, point, opacity, lens, near: float):
    low_x, high_x, low_y, high_y = reach(lens.detach().double().cpu().numpy())
    z = torch.where(point[:, 2] > near, point[:, 2], torch.ones_like(point[:, 2]))
    ray = point[:, :2] / z[:, None]
    seen = (point[:, 2] > near) & (ray[:, 0] >= low_x) & (ray[:, 0] <= high_x)
    seen &= (ray[:, 1] >= low_y) & (ray[:, 1] <= high_y) & (opacity > FLOOR)
    ray = torch.where(seen[:, None], ray, torch.zeros_like(ray))
    spot, slopes = bent(ray, lens[4:16])
    E = lens[:2, None] * slopes
    J = torch.cat([E, -(E @ ray[:, :, None])], -1) / z[:, None, None]
    turn = V[scene.group.long(), :3, :3] if len(V) > 1 else V[0, :3, :3]
    M = J @ (turn @ rotation(scene.quats)) * scene.log_scales.exp()[:, None, :]
    cov = M @ M.transpose(1, 2) + BLUR * torch.eye(2, device=M.device)
    xx, xy, yy = cov[:, 0, 0], cov[:, 0, 1], cov[:, 1, 1]
    det = xx * yy - xy * xy
    conic = torch.stack([yy / det, -xy / det, xx / det], -1)
    reach2 = 2 * torch.log((opacity / FLOOR).clamp(min=1))
    with torch.no_grad():
        half = torch.stack([(reach2 * xx).sqrt(), (reach2 * yy).sqrt()], -1).ceil()
        radii = torch.where(seen[:, None], half, torch.zeros_like(half)).int()
    return spot * lens[:2] + lens[2:4] + 0.5, radii, point[:, 2], conic


def _surfels(scene: Scene, V, points, opacity, colours, lens, size, settings: Settings):
    if bool((lens[:, 4:16] != 0).any()):
        raise SplatError("splats: surfels through a lens with distortion are drawn on the CPU only. Undistort first.")
    radii, _, depths, transforms, normals = _projected(scene, V, lens, opacity, size, settings)
    # gsplat centres the dot on the ellipse, not on the centre's pixel, and cuts discs at three of their scales
    k = lens.to(points.device).float()[:, None]
    means2d = points[..., :2] / points[..., 2:].clamp(min=settings.near) * k[..., :2] + k[..., 2:4] + 0.5
    radii = torch.where(radii > 0, (radii * 1.12).ceil().int() + 2, radii)
    offsets, flat = _lists(means2d, radii, depths, size)
    opacities = opacity.expand(len(means2d), -1).contiguous()
    room = torch.zeros_like(means2d, requires_grad=True)
    picture, alpha, *_ = gsplat().rasterize_to_pixels_2dgs(
        means2d, transforms, colours.contiguous(), opacities, normals, room, size[0], size[1], TILE, offsets, flat,
        packed=False,
    )  # fmt: skip
    return picture, alpha[..., 0], ("discs", means2d, transforms, opacities, size, offsets, flat)


def _median(meta, shape):
    """The last splat of each pixel that got more than half of the light; -1 where there is none."""
    kind, means2d, form, opacities, (width, height), offsets, flat = meta
    library = gsplat()
    listed = library.rasterize_to_indices_in_range if kind == "ellipses" else library.rasterize_to_indices_in_range_2dgs
    with torch.no_grad():
        light = torch.ones(shape, device=means2d.device)
        who, pixel, image = listed(0, 1 << 30, light, means2d, form, opacities, width, height, TILE, offsets, flat)
        who, pixel, image = who.long(), pixel.long(), image.long()
        at = torch.stack([pixel % width, pixel // width], -1) + 0.5
        delta = at - means2d[image, who]
        f = form[image, who]
        if kind == "ellipses":
            squares = f[:, 0] * delta[:, 0] ** 2 + f[:, 2] * delta[:, 1] ** 2 + 2 * f[:, 1] * delta[:, 0] * delta[:, 1]
        else:
            across, down = at[:, :1] * f[:, 2] - f[:, 0], at[:, 1:] * f[:, 2] - f[:, 1]
            cross = torch.linalg.cross(across, down)
            squares = torch.minimum((cross[:, :2] / cross[:, 2:]).square().sum(-1), 2 * delta.square().sum(-1))
        alpha = (opacities[image, who] * torch.exp(-0.5 * squares)).double()
        passed = torch.log1p(-alpha.clamp(max=CAP))
        before = torch.cumsum(passed, 0) - passed
        place = image * (width * height) + pixel
        first = torch.ones_like(place, dtype=torch.bool)
        first[1:] = place[1:] != place[:-1]
        start = torch.cummax(torch.where(first, torch.arange(len(place), device=place.device), 0), 0).values
        middle = before - before[start] > np.log(0.5)
        found = torch.full((light.numel(),), -1, dtype=torch.long, device=place.device)
        ranks = torch.where(middle, torch.arange(len(place), device=place.device), -1)
        found.scatter_reduce_(0, place, ranks, "amax", include_self=True)
        return torch.where(found >= 0, who[found.clamp(min=0)] if len(who) else found, found).reshape(shape)


def _nothing(count: int, width: int, height: int, more: bool, device) -> Rendered:
    plane = torch.zeros(count, height, width, device=device)
    colour = torch.zeros(count, height, width, 3, device=device)
    if not more:
        return Rendered(colour, plane, None, None, None, None)
    return Rendered(colour, plane, plane, plane, colour, torch.full(plane.shape, -1, device=device))


def scene_of(splats: Splats, device: str) -> Scene:
    """The splats as tensors on a device."""
    arrays = (splats.means, splats.quats_wxyz, splats.log_scales, splats.logit_opacities, splats.sh, splats.group)
    tensors = [torch.from_numpy(np.array(array)).to(device) for array in arrays]
    return Scene(tensors[0], tensors[1], tensors[2], tensors[3], tensors[4], tensors[5])


def render_images(
    splats: Splats, cameras: Sequence[Camera], placed: Sequence[np.ndarray], index: int, more: bool
) -> list[SplatImage]:
    """As `render_many` on the CPU; cameras are drawn one by one."""
    device = f"cuda:{index}"
    gsplat()
    scene, images = scene_of(splats, device), []
    with torch.no_grad():
        for camera, poses in zip(cameras, placed, strict=True):
            pose = torch.from_numpy(np.linalg.inv(camera.T_world_camera))[None].to(device)
            lens = torch.from_numpy(packed(camera.lens))[None].to(device)
            moves = None if len(poses) == 1 and np.allclose(poses[0], np.eye(4)) else torch.from_numpy(poses).to(device)
            images.append(_image(render(scene, pose, lens, moves, Settings(splats.flat, more)), camera))
    return images


def _image(drawn: Rendered, camera: Camera) -> SplatImage:
    def host(tensor) -> np.ndarray:
        array: np.ndarray = tensor[0].cpu().numpy()
        return array

    colour, alpha = host(drawn.colour), host(drawn.alpha)
    if drawn.depth is None or drawn.median is None or drawn.normal is None or drawn.group is None:
        return SplatImage(colour, alpha)
    depth = np.where(alpha > 0, host(drawn.depth), 0).astype(np.float32)
    normal = to_world(host(drawn.normal), camera)
    return SplatImage(colour, alpha, depth, host(drawn.median), normal, host(drawn.group).astype(np.int32))
