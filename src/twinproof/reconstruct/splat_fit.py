"""Fits splats to posed pictures: coarse to fine, one picture a step, on the CPU engine or on a GPU.

A step draws one view, compares (L1, L2 and SSIM, exposure of that view applied), goes back, and lets Adam step. Every
so many steps splats that show nothing move to where the picture is wrong. A stopped fit goes on from its checkpoint.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from twinproof.nouns.errors import SplatError
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.randomness import stream
from twinproof.nouns.splats import Splats
from twinproof.nouns.views import PosedView, Views
from twinproof.reconstruct.splat_density import relocate_and_grow, wander
from twinproof.reconstruct.splat_recipe import Recipe
from twinproof.reconstruct.splat_state import State, extent_of, start
from twinproof.sim.picture_loss import Photograph, photograph, picture_loss
from twinproof.sim.render_camera import Lens
from twinproof.sim.splat.lens import packed
from twinproof.sim.splat.torch_render import Rendered, Settings, render

CHECKPOINT = "checkpoint.npz"
KEPT_BYTES = 2 << 30  # of filtered photographs


@dataclass(frozen=True)
class Fitted:
    """The scene, each view's exposure (gain and offset by channel) and pose, and how the loss went."""

    splats: Splats
    exposures: np.ndarray  # (V, 2, 3)
    poses: np.ndarray  # (V, 4, 4) T_world_camera, corrected where that was asked for
    history: list[dict[str, float]] = field(default_factory=list)
    cpu_s: float = 0.0
    steps: int = 0


def lens_of(view: PosedView, shrink: int = 1) -> Lens:
    """The lens of a view whose picture is shrunk by averaging blocks of shrink × shrink pixels."""
    height, width = view.rgb.shape[:2]
    k, size = view.intrinsics, (width // shrink, height // shrink)
    centre = ((k.cx + 0.5) / shrink - 0.5, (k.cy + 0.5) / shrink - 0.5)
    return Lens(*size, k.fx / shrink, k.fy / shrink, *centre, k.distortion)


def shrunk(plane: np.ndarray, shrink: int) -> np.ndarray:
    """Means over blocks; what does not fill a block at the right and lower border is cut off."""
    height, width = plane.shape[0] // shrink, plane.shape[1] // shrink
    cut = plane[: height * shrink, : width * shrink].astype(np.float32)
    means: np.ndarray = cut.reshape(height, shrink, width, shrink, *plane.shape[2:]).mean(axis=(1, 3))
    return means


class _Pictures:
    """Photographs at the size in use, filtered once and kept while memory allows."""

    def __init__(self, views: Views, device: str) -> None:
        self.views, self.device = views, device
        self._shrink, self._kept, self._bytes = 0, dict[int, Any](), 0

    def at(self, index: int, shrink: int) -> tuple[Photograph, np.ndarray | None, Lens]:
        if shrink != self._shrink:
            self._shrink, self._kept, self._bytes = shrink, {}, 0
        if index not in self._kept:
            found = self._made(self.views.views[index], shrink)
            size = sum(plane.nbytes for plane in found[0])
            if self._bytes + size > KEPT_BYTES:
                return found
            self._kept[index], self._bytes = found, self._bytes + size
        kept: tuple[Photograph, np.ndarray | None, Lens] = self._kept[index]
        return kept

    def _made(self, view: PosedView, shrink: int) -> tuple[Photograph, np.ndarray | None, Lens]:
        weight = None if view.mask is None else shrunk((view.mask >= 0).astype(np.float32), shrink)
        depth = None if view.depth_m is None else view.depth_m[shrink // 2 :: shrink, shrink // 2 :: shrink]
        lens = lens_of(view, shrink)
        target = photograph(shrunk(view.rgb, shrink) / np.float32(255), weight)
        if self.device != "cpu":
            target = Photograph(*(torch.as_tensor(plane, device=self.device) for plane in target))
        return target, None if depth is None else depth[: lens.height, : lens.width], lens


def check(views: Views) -> None:
    """Refuses what cannot be fitted."""
    if len(views) < 3:
        raise SplatError(f"{len(views)} views are too few: depth comes from at least 3. Take more pictures.")
    for view in views.views:
        if min(view.rgb.shape[:2]) < 16:
            size = f"{view.rgb.shape[1]} × {view.rgb.shape[0]}"
            raise SplatError(f"view {view.name} has {size} pixels, at least 16 × 16 are needed. Use larger pictures.")
        if view.mask is not None and not (view.mask >= 0).any():
            raise SplatError(f"view {view.name} is masked out as a whole. Leave it away, or mend its mask.")


@dataclass
class _Run:
    """One fit under way."""

    views: Views
    recipe: Recipe
    device: str
    threads: int
    state: State
    rng: np.random.Generator
    torch_rng: torch.Generator
    worth: torch.Tensor
    history: list[dict[str, float]]
    cpu_s: float = 0.0  # before this process took over

    def __post_init__(self) -> None:
        self.extent = extent_of(self.views)
        self.pictures = _Pictures(self.views, self.device)
        poses = np.stack([np.linalg.inv(v.T_world_camera) for v in self.views.views])
        self.poses = torch.tensor(poses, device=self.device)
        self.order: list[int] = []
        self.sums = torch.zeros((), device=self.device)  # of the loss since the last line of the history
        self.graphs: dict[tuple[int, int], Any] = {}
        self.adam: Any = None
        self.began = time.process_time()

    @property
    def spent(self) -> float:
        return self.cpu_s + time.process_time() - self.began

    @property
    def share(self) -> float:
        """How much of the run is done: 0 to 1."""
        if self.recipe.cpu_seconds is not None:
            return min(self.spent / self.recipe.cpu_seconds, 1.0)
        return self.state.steps / self.recipe.iterations

    def rates(self, share: float) -> dict[str, float]:
        r = self.recipe.rates
        fade = r.ends**share
        means = r.means * (r.means_end / r.means) ** share * self.extent
        moving = {"means": means, "quats": r.quats * fade, "log_scales": r.scales * fade, "logits": r.opacities * fade}
        looks = {"sh0": r.colours * fade, "sh": r.harmonics * fade}
        nuisance = {"exposure": r.exposures * fade if self.recipe.exposure else 0.0}
        return {**moving, **looks, **nuisance, "pose": r.poses * fade if self.recipe.poses and share > 0.2 else 0.0}

    def next_view(self) -> int:
        if not self.order:
            self.order = self.rng.permutation(len(self.views)).tolist()
        return self.order.pop()

    def drawn(self, index: int, lens: Lens, share: float, more: bool) -> Rendered:
        degree = min(self.recipe.degree, int(share / self.recipe.degree_every))
        scene = self.state.scene((degree + 1) ** 2)
        pose = self.poses[index]
        if self.recipe.poses:
            pose = nudged(self.state.values["pose"][index], self.extent) @ pose
        if self.device != "cpu":
            from twinproof.sim.splat.cuda import render as render_cuda

            numbers = torch.from_numpy(packed(lens))[None]
            return render_cuda(scene, pose[None], numbers, None, Settings(self.recipe.flat, more))
        settings = Settings(self.recipe.flat, more, threads=self.threads)
        return render(scene, pose[None], torch.from_numpy(packed(lens))[None], None, settings)

    def step(self) -> torch.Tensor:
        """One view; gives the loss, which stays on the device."""
        share, recipe = self.share, self.recipe
        shrink = [by for begin, by in recipe.sizes if share >= begin][-1]
        index = self.next_view()
        target, depth, lens = self.pictures.at(index, shrink)
        more = (depth is not None and recipe.depth_weight > 0) or recipe.normal_weight > 0
        rates = self.rates(share)
        if self.device != "cpu":
            self._record(rates)
        image = self.drawn(index, lens, share, more)
        if self.device == "cpu":
            loss = self._stepped(image, index, target, self._shape_loss(image, depth, lens), rates)
        else:
            loss = self._stepped_cuda(image, index, target, self._shape_loss(image, depth, lens), rates)
        if share < recipe.growth.until:
            wander(self.state, recipe.growth, rates["means"] / self.extent, self.torch_rng)
            if self.state.steps % recipe.growth.every == 0:
                self._relocate()
        return loss

    def _stepped(
        self, image: Rendered, index: int, target: Photograph, shape: torch.Tensor | None, rates: dict[str, float]
    ) -> torch.Tensor:
        """Compares, goes back, steps."""
        colour = image.colour[0]
        if self.recipe.exposure:
            gain, offset = self.state.values["exposure"][index]
            colour = colour * gain + offset
        loss = picture_loss(colour, target, self.recipe.ssim, self.recipe.squares)
        (loss if shape is None else loss + shape).backward()
        self._regularise()
        self._note_worth()
        self.state.step(rates)
        return loss.detach()

    def _stepped_cuda(
        self, image: Rendered, index: int, target: Photograph, shape: torch.Tensor | None, rates: dict[str, float]
    ) -> torch.Tensor:
        """The same with loss and Adam replayed from recordings."""
        from twinproof.reconstruct.splat_cuda import LossGraph

        colour, exposures = image.colour[0], self.state.values["exposure"]
        height, width = colour.shape[:2]
        if (height, width) not in self.graphs:
            self.graphs[height, width] = LossGraph(height, width, self.recipe, self.device)
        loss, by_colour, by_exposure = self.graphs[height, width](colour.detach(), exposures[index].detach(), target)
        if shape is not None:
            torch.autograd.backward([colour, shape], [by_colour, None])
        else:
            colour.backward(by_colour)
        assert exposures.grad is not None
        exposures.grad[index] += by_exposure
        self._note_worth()
        self.adam(rates)
        return loss.clone()

    def _record(self, rates: dict[str, float]) -> None:
        """Records Adam anew where the splats' tensors were replaced; before they are drawn, as it touches them."""
        from twinproof.reconstruct.splat_cuda import AdamGraph

        if self.adam is None or not self.adam.fits():
            still = {"exposure": not self.recipe.exposure, "pose": not self.recipe.poses}
            names = tuple(name for name in rates if not still.get(name, False))
            self.adam = AdamGraph(self.state, self.recipe, self.extent, names)

    def _shape_loss(self, image: Rendered, depth: np.ndarray | None, lens: Lens) -> torch.Tensor | None:
        """Depth where it was measured, and normals that agree with the depth's own slope; None where neither counts."""
        from twinproof.reconstruct.splat_shape import depth_loss, normal_loss

        total = None
        if depth is not None and self.recipe.depth_weight > 0:
            total = self.recipe.depth_weight * depth_loss(image, depth)
        if self.recipe.normal_weight > 0:
            bend = self.recipe.normal_weight * normal_loss(image, lens)
            total = bend if total is None else total + bend
        return total

    def _regularise(self) -> None:
        """Adds the slopes of the mean opacity and of the mean scale."""
        values, recipe = self.state.values, self.recipe
        with torch.no_grad():
            opacity = torch.sigmoid(values["logits"])
            values["logits"].grad += recipe.opacity_weight * opacity * (1 - opacity) / len(opacity)
            scales = values["log_scales"].exp()
            values["log_scales"].grad += recipe.scale_weight * scales / scales.numel() / self.extent

    def _note_worth(self) -> None:
        """Remembers how strongly the picture pulls at each splat, as a moving average, while splats still move."""
        if self.share >= self.recipe.growth.until:
            return
        grad = self.state.values["means"].grad
        assert grad is not None
        self.worth.mul_(0.98).add_(
            grad.norm(dim=1) * self.state.values["log_scales"].detach().exp().amax(dim=1), alpha=0.02
        )

    def _relocate(self) -> None:
        growth = self.recipe.growth
        opacity = torch.sigmoid(self.state.values["logits"].detach())
        worth = opacity * (self.worth + 1e-12) ** growth.by_error if growth.by_error else opacity
        born = relocate_and_grow(self.state, growth, worth, self.torch_rng)
        if born:
            self.worth = torch.cat([self.worth, self.worth.new_full((born,), float(self.worth.mean()))])


def nudged(pose: torch.Tensor, extent: float) -> torch.Tensor:
    """The small rigid motion of six numbers: a turn (rad) and a shift (share of the extent)."""
    x, y, z = pose[:3].double()
    zero = torch.zeros_like(x)
    skew = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero]).reshape(3, 3)
    top = torch.cat([torch.matrix_exp(skew), extent * pose[3:, None].double()], 1)
    return torch.cat([top, top.new_tensor([[0.0, 0.0, 0.0, 1.0]])])


def fit(
    views: Views,
    recipe: Recipe,
    seed: int = 0,
    *,
    device: str = "cpu",
    threads: int = 0,
    folder: Path | None = None,
    save_every_s: float = 30.0,
    progress: Progress = quiet,
    look: Callable[[int, Fitted], None] | None = None,
) -> Fitted:
    """The scene. With `folder` it is resumable; `look` is shown the state ten times on the way."""
    check(views)
    run = _begin(views, recipe, seed, device, threads, folder)
    total, shown, saved = recipe.iterations, int(10 * run.share), time.monotonic()
    while run.share < 1:
        run.sums = run.sums + run.step()
        steps = run.state.steps
        if steps % 25 == 0:
            level, run.sums = float(run.sums) / 25, torch.zeros((), device=device)
            done = int(run.share * total) if recipe.cpu_seconds is not None else steps
            progress(done, f"loss {level:.4f}, {len(run.state.group)} splats", total)
            run.history.append({"step": steps, "loss": level, "splats": len(run.state.group), "cpu_s": run.spent})
        if look is not None and int(10 * run.share) > shown:
            shown = int(10 * run.share)
            look(steps, _fitted(run))
        if folder is not None and time.monotonic() - saved > save_every_s:
            _save(run, folder)
            saved = time.monotonic()
    return _fitted(run)


def _begin(views: Views, recipe: Recipe, seed: int, device: str, threads: int, folder: Path | None) -> _Run:
    rng = stream(seed, "splat fit")
    torch_rng = torch.Generator().manual_seed(int(rng.integers(2**62)))
    path = None if folder is None else folder / CHECKPOINT
    if path is None or not path.exists():
        state = start(views, recipe, rng, device)
        worth = torch.zeros(len(state.group), device=device)
        return _Run(views, recipe, device, threads, state, rng, torch_rng, worth, [])
    state, more = State.load(path, device)
    rng.bit_generator.state = _unpacked(more["rng"])
    torch_rng.set_state(torch.from_numpy(more["torch_rng"]))
    history = [dict(zip(("step", "loss", "splats", "cpu_s"), row, strict=True)) for row in more["history"].tolist()]
    worth = torch.from_numpy(more["worth"]).to(device)
    run = _Run(views, recipe, device, threads, state, rng, torch_rng, worth, history, float(more["cpu_s"]))
    run.order = more["order"].astype(int).tolist()
    run.sums = torch.tensor(more["sums"], device=device)
    return run


def _save(run: _Run, folder: Path) -> None:
    history = np.array([list(row.values()) for row in run.history]).reshape(-1, 4)
    more = {
        "rng": _packed(run.rng.bit_generator.state),
        "torch_rng": run.torch_rng.get_state().numpy(),
        "history": history,
        "worth": run.worth.cpu().numpy(),
        "order": np.array(run.order, float),
        "cpu_s": run.spent,
        "sums": run.sums.cpu().numpy(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    run.state.save(folder / CHECKPOINT, more)


def _packed(state: Any) -> np.ndarray:
    return np.frombuffer(json.dumps(state).encode(), np.uint8)


def _unpacked(data: np.ndarray) -> Any:
    return json.loads(bytes(data))


def _fitted(run: _Run) -> Fitted:
    recipe = run.recipe
    poses = np.stack([view.T_world_camera for view in run.views.views])
    if recipe.poses:
        with torch.no_grad():
            nudges = [nudged(pose.cpu(), run.extent) for pose in run.state.values["pose"]]
            poses = np.stack([torch.linalg.inv(n @ T).numpy() for n, T in zip(nudges, run.poses.cpu(), strict=True)])
    exposures = run.state.values["exposure"].detach().cpu().numpy().copy()
    splats = run.state.splats((recipe.degree + 1) ** 2, run.views.groups, recipe.flat)
    return Fitted(splats, exposures, poses, list(run.history), run.spent, run.state.steps)
