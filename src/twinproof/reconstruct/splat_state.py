"""What a splat fit changes: the splats, exposures and pose corrections, and Adam's memory of each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from twinproof.nouns.errors import SplatError
from twinproof.nouns.splats import SH0, Splats
from twinproof.nouns.views import PosedView, Views
from twinproof.reconstruct.splat_recipe import Recipe
from twinproof.sim.render_camera import distort
from twinproof.sim.splat.torch_render import Scene

SPLATS = ("means", "quats", "log_scales", "logits", "sh0", "sh")
BETAS, EPSILON = (0.9, 0.99), 1e-15


@dataclass
class State:
    """Tensors by name, Adam's two averages of each, and how often each was stepped. Changed in place by the fit."""

    values: dict[str, torch.Tensor]
    group: torch.Tensor
    first: dict[str, torch.Tensor]
    second: dict[str, torch.Tensor]
    steps: int = 0

    def scene(self, bands: int) -> Scene:
        """The splats with the first `bands` harmonics, as leaves that collect gradients."""
        sh = torch.cat([self.values["sh0"], self.values["sh"][:, : bands - 1]], 1) if bands > 1 else self.values["sh0"]
        v = self.values
        return Scene(v["means"], v["quats"], v["log_scales"], v["logits"], sh, self.group)

    def step(self, rates: dict[str, float]) -> None:
        """One step of Adam for every tensor that has a gradient and a rate, all in a few launches."""
        self.steps += 1
        undo1, undo2 = 1 - BETAS[0] ** self.steps, (1 - BETAS[1] ** self.steps) ** 0.5
        names = [name for name, rate in rates.items() if rate != 0 and self.values[name].grad is not None]
        with torch.no_grad():
            values, grads = [self.values[name] for name in names], [self.values[name].grad for name in names]
            first, second = [self.first[name] for name in names], [self.second[name] for name in names]
            torch._foreach_lerp_(first, grads, 1 - BETAS[0])
            torch._foreach_mul_(second, BETAS[1])
            torch._foreach_addcmul_(second, grads, grads, 1 - BETAS[1])
            spread = torch._foreach_sqrt(second)
            torch._foreach_div_(spread, undo2)
            torch._foreach_add_(spread, EPSILON)
            torch._foreach_addcdiv_(values, first, spread, [-rates[name] / undo1 for name in names])
        for name in rates:
            self.values[name].grad = None

    def replace_splats(self, changed: dict[str, torch.Tensor], reset: torch.Tensor, group: torch.Tensor) -> None:
        """Takes new splat tensors; Adam forgets those in `reset` and starts anew for rows that were added."""
        for name, value in changed.items():
            old = len(self.first[name])
            for memory in (self.first, self.second):
                fresh = torch.zeros_like(value)
                fresh[:old] = memory[name]
                fresh[reset] = 0
                memory[name] = fresh
            self.values[name] = value.detach().clone().requires_grad_()
        self.group = group

    def save(self, path: Path, more: dict[str, Any]) -> None:
        """Writes everything to one file, whole or not at all."""
        arrays = {f"value.{k}": v.detach().cpu().numpy() for k, v in self.values.items()}
        arrays |= {f"first.{k}": v.cpu().numpy() for k, v in self.first.items()}
        arrays |= {f"second.{k}": v.cpu().numpy() for k, v in self.second.items()}
        arrays |= {f"more.{k}": np.asarray(v) for k, v in more.items()}
        scratch = path.with_suffix(".new.npz")
        np.savez(scratch, group=self.group.cpu().numpy(), steps=self.steps, **arrays)
        scratch.rename(path)

    @classmethod
    def load(cls, path: Path, device: str) -> tuple[State, dict[str, np.ndarray]]:
        """What `save` wrote, and what it was given beside it."""
        parts: dict[str, dict[str, Any]] = {"value": {}, "first": {}, "second": {}, "more": {}}
        with np.load(path, allow_pickle=False) as data:
            for key in data.files:
                kind, _, name = key.partition(".")
                if kind in parts:
                    array = data[key]
                    parts[kind][name] = array if kind == "more" else torch.from_numpy(array).to(device)
            group, steps = torch.from_numpy(data["group"]).to(device), int(data["steps"])
        for value in parts["value"].values():
            value.requires_grad_()
        return cls(parts["value"], group, parts["first"], parts["second"], steps), parts["more"]

    def splats(self, bands: int, groups: tuple[str, ...], flat: bool) -> Splats:
        """A frozen copy."""
        scene = self.scene(bands)
        arrays = [tensor.detach().cpu().numpy() for tensor in scene]
        return Splats(arrays[0], arrays[1], arrays[2], arrays[3], arrays[4], arrays[5], groups, flat)


def extent_of(views: Views) -> float:
    """How far apart the cameras are: the largest distance from their mean, with a tenth on top."""
    centres = np.stack([view.T_world_camera[:3, 3] for view in views.views])
    return max(1.1 * float(np.linalg.norm(centres - centres.mean(axis=0), axis=1).max()), 1e-6)


def start(views: Views, recipe: Recipe, rng: np.random.Generator, device: str) -> State:
    """Splats at the known points, filled up with random ones where there are few; one exposure and pose a view."""
    from scipy.spatial import KDTree

    points, colours = np.asarray(views.points, np.float64), np.asarray(views.colours, np.float64) / 255
    lacking = min(recipe.start_points, recipe.growth.most) - len(points)
    if lacking > 0:
        extra, shades = _scattered(views, points, lacking, rng)
        points, colours = np.concatenate([points, extra]), np.concatenate([colours, shades])
    elif len(points) > recipe.growth.most:
        keep = rng.choice(len(points), recipe.growth.most, replace=False)
        points, colours = points[keep], colours[keep]
    if len(points) < 4:
        raise SplatError(f"{len(points)} points to start from are too few: at least 4. Raise start_points.")
    near = KDTree(points).query(points, k=4)[0][:, 1:]
    size = np.clip(np.sqrt((near**2).mean(axis=1)), 1e-6, 0.1 * extent_of(views))
    count, bands = len(points), (recipe.degree + 1) ** 2
    quats = rng.normal(size=(count, 4))
    if recipe.flat:
        quats = _facing(points, views)
    arrays = {
        "means": points,
        "quats": quats,
        "log_scales": np.repeat(np.log(size)[:, None], 3, axis=1),
        "logits": np.full(count, np.log(recipe.start_opacity / (1 - recipe.start_opacity))),
        "sh0": ((colours - 0.5) / SH0)[:, None],
        "sh": np.zeros((count, bands - 1, 3)),
        "exposure": np.tile([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]], (len(views), 1, 1)),
        "pose": np.zeros((len(views), 6)),
    }
    plain = {name: torch.from_numpy(np.array(array, np.float32, order="C")) for name, array in arrays.items()}
    values = {name: value.to(device).requires_grad_() for name, value in plain.items()}
    zeros = [{name: torch.zeros_like(value) for name, value in values.items()} for _ in range(2)]
    return State(values, torch.zeros(count, dtype=torch.int32, device=device), zeros[0], zeros[1])


def _scattered(views: Views, points: np.ndarray, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points on random pixels of all views, as deep as what is known beside them in the picture, in their colours."""
    at = rng.integers(0, len(views), count)
    found, shades = np.empty((count, 3)), np.empty((count, 3))
    for k, view in enumerate(views.views):
        mine = np.flatnonzero(at == k)
        height, width = view.rgb.shape[:2]
        column, row = rng.uniform(0, width - 1, len(mine)), rng.uniform(0, height - 1, len(mine))
        if view.mask is not None:  # a splat in the colour of what does not count would stay there as its ghost
            out = np.flatnonzero(view.mask[row.astype(int), column.astype(int)] < 0)
            row[out], column[out] = np.divmod(rng.choice(np.flatnonzero(view.mask >= 0), len(out)), width)
        lens, pose = view.intrinsics, view.T_world_camera
        z = _depths(view, points, np.stack([column, row], -1), extent_of(views), rng)
        local = np.stack([(column - lens.cx) / lens.fx * z, (row - lens.cy) / lens.fy * z, z], -1)
        found[mine] = local @ pose[:3, :3].T + pose[:3, 3]
        shades[mine] = view.rgb[row.astype(int), column.astype(int)] / 255
    return found, shades


def _depths(
    view: PosedView, points: np.ndarray, pixels: np.ndarray, extent: float, rng: np.random.Generator
) -> np.ndarray:
    """Depths at pixels: measured; else of the nearest known points in the picture; else anything about the extent."""
    from scipy.spatial import KDTree

    _, seen, depth = seen_in(view, points, 0.01 * extent)
    if len(depth) >= 8:
        near = KDTree(seen).query(pixels, k=3)[1]
        z = np.median(depth[near], axis=1)
    else:
        z = rng.choice(np.geomspace(0.5 * extent, 4 * extent, 50), len(pixels))
    if view.depth_m is not None:
        known = view.depth_m[pixels[:, 1].astype(int), pixels[:, 0].astype(int)]
        z = np.where(known > 0, known, z)
    depths: np.ndarray = z
    return depths


def seen_in(view: PosedView, points: np.ndarray, nearest_m: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which points fall into the picture (whatever is before them), on which pixels (x, y), and how deep."""
    k, T = view.intrinsics, np.linalg.inv(view.T_world_camera)
    local = points @ T[:3, :3].T + T[:3, 3]
    ahead = np.flatnonzero(local[:, 2] > nearest_m)
    rays = local[ahead, :2] / local[ahead, 2:]
    pixels = distort(rays, k.distortion) * (k.fx, k.fy) + (k.cx, k.cy)
    height, width = view.rgb.shape[:2]
    inside = ((pixels >= 0) & (pixels <= (width - 1, height - 1))).all(axis=1)
    return ahead[inside], pixels[inside], local[ahead[inside], 2]


def _facing(points: np.ndarray, views: Views) -> np.ndarray:
    """Quaternions that turn each disc towards the nearest camera."""
    centres = np.stack([view.T_world_camera[:3, 3] for view in views.views])
    nearest = np.linalg.norm(points[:, None] - centres[None], axis=2).argmin(axis=1) if len(points) else []
    arrow = centres[nearest] - points
    arrow /= np.maximum(np.linalg.norm(arrow, axis=1, keepdims=True), 1e-9)
    quats = np.stack([1 + arrow[:, 2], -arrow[:, 1], arrow[:, 0], np.zeros(len(points))], -1)  # from +z to the arrow
    quats[arrow[:, 2] < -0.999999] = (0.0, 1.0, 0.0, 0.0)
    return quats
