"""The object's surfels and those behind it, drawn in one picture and corrected together around the object.

The background's fit does not see the object, and the object's colours were fitted alone. So discs of the table may hang
over the object's sides, and the borders of both are softer than the pictures' are. Here the pictures around the object
are drawn with all there is. The object's discs learn colours, sizes and opacities; those behind keep their colours, so
that none of them turns into a picture of the object, and only those that are drawn over it learn where they end.
"""

# mypy: allow-untyped-calls, allow-untyped-defs, allow-incomplete-defs
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.randomness import stream
from twinproof.nouns.splats import SH0, Splats, joined
from twinproof.reconstruct.surface_draw import engine_on
from twinproof.reconstruct.surface_smooth import few_threads
from twinproof.reconstruct.surface_target import Sight, Target, targets_of
from twinproof.sim.splat.torch_render import Rendered, Scene, Settings
from twinproof.sim.threads import threads_usable


@dataclass(frozen=True)
class Among:
    """How far and how fast; rates are Adam's and fall to a tenth."""

    steps: int = 150
    views_a_step: int = 2
    margin_px: int = 6  # around the object
    colours: float = 0.02
    shine: float = 0.004  # of the harmonics that follow the direction of a look
    opacities: float = 0.05
    sizes: float = 0.01  # of logarithms
    places_m: float = 2e-4  # of the discs behind
    squares: float = 5.0  # of L2 beside L1
    over_px: float = 5.0  # discs behind that cover less of the object than this, in all views together, stay
    threads: int = 4


def settled_among(
    behind: Splats,
    thing: Splats,
    sights: Sequence[Sight],
    how: Among | None = None,
    progress: Progress = quiet,
    device: str = "cpu",
) -> tuple[Splats, Splats]:
    """What is behind, and the object, as they are best together in the pictures of these sights."""
    how = how or Among()
    targets = [each for each in targets_of(sights, how.margin_px, device) if each.rgb is not None]
    if not targets:
        return behind, thing
    run = _Run(behind, thing, device, how)
    rng, order = stream(0, "surface among"), list[int]()
    with few_threads(how.threads):
        run.hold(targets)
        for step in range(how.steps):
            batch = list[Target]()
            for _ in range(how.views_a_step):
                order = order or rng.permutation(len(targets)).tolist()
                batch.append(targets[order.pop()])
            loss = run.step(batch, 0.1 ** (step / how.steps))
            if step % 10 == 0 or step == how.steps - 1:
                progress(step + 1, f"together {loss:.4f}", how.steps)
    return run.parts(behind, thing)


class _Run:
    """The tensors, which of them learn, and Adam."""

    def __init__(self, behind: Splats, thing: Splats, device: str, how: Among) -> None:
        whole = joined([behind, thing])
        self.device, self.first, self.how = device, len(behind), how

        def sent(array: np.ndarray) -> Any:
            return torch.tensor(np.asarray(array, np.float32), device=device)

        means, sh = sent(whole.means), sent(whole.sh)
        self.own_means, self.quats = means[self.first :], sent(whole.quats_wxyz)
        self.sh_behind = sh[: self.first]
        self.group = torch.zeros(len(whole), dtype=torch.int64, device=device)
        self.values = {
            "colours": sh[self.first :, :1].clone(),
            "shine": sh[self.first :, 1:].clone(),
            "opacities": sent(whole.logit_opacities),
            "sizes": sent(whole.log_scales),
            "places_m": means[: self.first].clone(),
        }
        for value in self.values.values():
            value.requires_grad_()
        self.adam = torch.optim.Adam([{"params": [value]} for value in self.values.values()], betas=(0.9, 0.99))

    def scene(self) -> Scene:
        v = self.values
        own = torch.cat([v["colours"], v["shine"]], dim=1)
        sh, means = torch.cat([self.sh_behind, own]), torch.cat([v["places_m"], self.own_means])
        return Scene(means, self.quats, v["sizes"], v["opacities"], sh, self.group)

    def hold(self, targets: Sequence[Target]) -> None:
        """Finds which discs behind cover the object; the others are to stay."""
        scene = Scene(*(tensor.detach() for tensor in self.scene()))
        even = torch.zeros_like(scene.sh).requires_grad_()  # the slope by it is what a disc covers
        for target in targets:
            (self.drawn(scene._replace(sh=even), target).colour[0] * target.mask[..., None]).sum().backward()
        assert even.grad is not None
        covered = even.grad[: self.first, 0, 0] / SH0
        self.free = (covered > self.how.over_px).float()

    def drawn(self, scene: Scene, target: Target) -> Rendered:
        """All there is, in one picture."""
        settings = Settings(True, threads=min(self.how.threads, threads_usable()))
        found: Rendered = engine_on(self.device)(scene, target.T_camera_world, target.lens, None, settings)
        return found

    def step(self, batch: Sequence[Target], share: float) -> float:
        """One step of Adam; the loss before it."""
        scene, loss, how = self.scene(), torch.zeros((), device=self.device), self.how
        for target in batch:
            off = (self.drawn(scene, target).colour[0] - target.rgb) * target.known[..., None]
            loss = loss + (off.abs() + how.squares * off**2).sum() / target.known.sum().clamp(min=1) / 3 / len(batch)
        loss.backward()
        for name in ("opacities", "sizes", "places_m"):
            grad = self.values[name].grad[: self.first]
            grad.mul_(self.free if grad.ndim == 1 else self.free[:, None])
        for name, group in zip(self.values, self.adam.param_groups, strict=True):
            group["lr"] = share * getattr(how, name)
        self.adam.step()
        self.adam.zero_grad()
        return float(loss.detach())

    def parts(self, behind: Splats, thing: Splats) -> tuple[Splats, Splats]:
        means, _, sizes, logits, sh, _ = (tensor.detach().cpu().numpy() for tensor in self.scene())
        n, bands = self.first, behind.sh.shape[1]
        return (
            replace(behind, means=means[:n], log_scales=sizes[:n], logit_opacities=logits[:n], sh=sh[:n, :bands]),
            replace(thing, log_scales=sizes[n:], logit_opacities=logits[n:], sh=sh[n:]),
        )
