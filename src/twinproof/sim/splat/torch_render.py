"""Splats as a torch function: pictures with gradients to splats, group transforms, camera pose and lens."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from twinproof.nouns.errors import SplatError
from twinproof.sim.splat import engine
from twinproof.sim.splat.blend import Flow
from twinproof.sim.splat.lens import NUMBERS
from twinproof.sim.splat.project import Eye
from twinproof.sim.threads import threads_usable

if TYPE_CHECKING:
    from jaxtyping import Float, Int


class Rendered(NamedTuple):
    """Pictures of B cameras. From `depth` on there is None where only colours were asked for.

    depth: expected, m along the optical axis. median: where half of the light is stopped, 0 where less is. normal: in
    the camera's frame, not of unit length where alpha is not 1. group: seen at the median depth, -1 where it is 0.
    """

    colour: Float[torch.Tensor, "B H W 3"]
    alpha: Float[torch.Tensor, "B H W"]
    depth: Float[torch.Tensor, "B H W"] | None
    median: Float[torch.Tensor, "B H W"] | None
    normal: Float[torch.Tensor, "B H W 3"] | None
    group: Int[torch.Tensor, "B H W"] | None


@dataclass(frozen=True)
class Settings:
    """How to draw."""

    flat: bool = False
    more: bool = False  # depth, normals and groups too
    near: float = engine.NEAR
    threads: int = 0  # 0: all that this process may use


PLAIN = Settings()


class Scene(NamedTuple):
    """Splats as tensors, in the numbers that `Splats` keeps (logarithms, logits)."""

    means: Float[torch.Tensor, "N 3"]
    quats: Float[torch.Tensor, "N 4"]
    log_scales: Float[torch.Tensor, "N 3"]
    logits: Float[torch.Tensor, "N"]
    sh: Float[torch.Tensor, "N K 3"]
    group: Int[torch.Tensor, "N"]


def render(
    scene: Scene,
    T_camera_world: Float[torch.Tensor, "B 4 4"],
    lens: Float[torch.Tensor, "B 18"],
    T_world_group: Float[torch.Tensor, "B G 4 4"] | Float[torch.Tensor, "G 4 4"] | None = None,
    settings: Settings = PLAIN,
) -> Rendered:
    """Pictures on the CPU. Lenses of one batch have one size; gradients reach every tensor that asks for them."""
    V = placed(scene.group, T_camera_world, T_world_group)
    sizes = {(int(w), int(h)) for w, h in lens[:, 16:].tolist()}
    if lens.shape[1:] != (NUMBERS,) or len(sizes) != 1:
        raise SplatError(f"splats: lenses of one batch have one size; found {sorted(sizes)}. Render them apart.")
    outputs = _Rasterise.apply(
        scene.means, scene.quats, scene.log_scales, scene.logits, scene.sh, V[:, :, :3], lens, scene.group, settings
    )
    colour, alpha, more, median, group = outputs
    if not settings.more:
        return Rendered(colour, alpha, None, None, None, None)
    some = (alpha >= 0.5) & (group >= 0)
    depth = more[..., 0] / alpha.clamp(min=1e-10)
    return Rendered(
        colour, alpha, depth, median * some, more[..., 1:], torch.where(some, group, torch.full_like(group, -1))
    )


def placed(group: Any, T_camera_world: Any, T_world_group: Any) -> Any:
    """T_camera_group (B, G, 4, 4); without placements every group stays where it is."""
    groups = int(group.max()) + 1 if len(group) else 1
    if T_world_group is None:
        return T_camera_world[:, None].expand(-1, groups, -1, -1)
    if T_world_group.shape[-3] < groups:
        raise SplatError(
            f"splats: {groups} groups but only {T_world_group.shape[-3]} placements. Give T_world_group of every group."
        )
    return T_camera_world[:, None] @ T_world_group


class _Rasterise(torch.autograd.Function):  # type: ignore[misc]
    """The CPU engine between numpy arrays that share memory with the tensors."""

    @staticmethod
    def forward(ctx: Any, means, quats, log_scales, logits, sh, V, lens, group, settings):
        arrays = [_array(x) for x in (means, quats, log_scales, logits, sh)]
        cloud = engine.cloud_of(*arrays, group.numpy().astype(np.int32))
        threads = settings.threads or threads_usable()
        by_lens = ctx.needs_input_grad[6]
        eyes = [Eye(v, k, settings.near, sh.shape[1], by_lens) for v, k in zip(_wide(V), _wide(lens), strict=True)]
        kept = engine.forward_batch(cloud, eyes, settings.flat, settings.more, threads)
        ctx.cloud, ctx.kept, ctx.settings, ctx.threads, ctx.groups = cloud, kept, settings, threads, V.shape[1]
        ctx.dtypes = V.dtype, lens.dtype
        pictures = [k.picture for k in kept]
        colour = torch.from_numpy(np.stack([x.colour for x in pictures]))
        alpha = torch.from_numpy(1.0 - np.stack([x.light for x in pictures]))
        more, median = (torch.from_numpy(np.stack([x[k] for x in pictures])) for k in (3, 5))
        seen = torch.from_numpy(np.stack([x.group for x in pictures]))
        ctx.mark_non_differentiable(seen)
        return colour, alpha, more, median, seen

    @staticmethod
    def backward(ctx: Any, g_colour, g_alpha, g_more, g_median, _):
        flows = [
            Flow(*(x.contiguous().numpy() for x in each))
            for each in zip(g_colour, g_alpha, g_more, g_median, strict=True)
        ]
        settings = ctx.settings
        slopes, V, lens = engine.backward_batch(
            ctx.cloud, ctx.kept, flows, settings.flat, settings.more, ctx.threads, ctx.groups
        )
        tensors = [torch.from_numpy(x) for x in slopes]
        return (
            *tensors,
            torch.from_numpy(V).to(ctx.dtypes[0]),
            torch.from_numpy(lens).to(ctx.dtypes[1]),
            None,
            None,
        )


def _array(tensor: Any) -> np.ndarray:
    if tensor.dtype != torch.float32 or tensor.device.type != "cpu":
        raise SplatError(
            f"splats: the CPU engine takes float32 tensors on the CPU, found {tensor.dtype} on {tensor.device}. "
            "Convert them."
        )
    array: np.ndarray = tensor.detach().contiguous().numpy()
    return array


def _wide(tensor: Any) -> np.ndarray:
    return np.ascontiguousarray(tensor.detach().double().numpy())
