"""Where splats go: dead ones move to where they are of use, new ones are born there, faint ones wander.

After "3D Gaussian Splatting as Markov Chain Monte Carlo" (Kheradmand et al. 2024): a splat that becomes n copies of
itself keeps the picture as it is, by opacities 1 - (1 - o)^(1/n) and narrower scales.
"""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

import torch

from twinproof.reconstruct.splat_recipe import Growth
from twinproof.reconstruct.splat_state import SPLATS, State
from twinproof.sim.splat.reference import rotation

if TYPE_CHECKING:
    from jaxtyping import Float

MOST_COPIES = 20


def shared(
    opacity: Float[torch.Tensor, "N"], copies: Float[torch.Tensor, "N"]
) -> tuple[Float[torch.Tensor, "N"], Float[torch.Tensor, "N"]]:
    """Opacity of each of n copies, and by what their scales shrink, so that together they look as one did."""
    n = copies.clamp(1, MOST_COPIES)
    each = 1 - (1 - opacity) ** (1 / n)
    total = torch.zeros_like(opacity)
    for i in range(1, int(n.max()) + 1):
        inner = torch.zeros_like(opacity)
        for k in range(i):
            inner = inner + comb(i - 1, k) * (-1) ** k / (k + 1) ** 0.5 * each ** (k + 1)
        total = total + torch.where(i <= n, inner, torch.zeros_like(inner))
    return each, opacity / total.clamp(min=1e-8)


def relocate_and_grow(state: State, growth: Growth, worth: Float[torch.Tensor, "N"], generator: torch.Generator) -> int:
    """Moves dead splats and adds new ones where `worth` is large; gives how many were born."""
    with torch.no_grad():
        opacity = torch.sigmoid(state.values["logits"])
        dead = opacity <= growth.dead
        count = len(opacity)
        born = max(min(growth.most, int(growth.by * count)) - count, 0)
        weights = torch.where(dead, torch.zeros_like(worth), worth)
        if not bool((weights > 0).any()):
            return 0
        places = torch.cat([torch.nonzero(dead)[:, 0], torch.arange(count, count + born, device=dead.device)])
        if not len(places):
            return 0
        parents = torch.multinomial(weights.cpu(), len(places), replacement=True, generator=generator).to(dead.device)
        copies = torch.bincount(parents, minlength=count).to(opacity.dtype) + 1
        touched = torch.nonzero(copies > 1)[:, 0]
        each, shrink = shared(opacity[touched], copies[touched])
        changed = {name: torch.cat([v, v.new_zeros((born, *v.shape[1:]))]) for name, v in _splats(state).items()}
        changed["logits"][touched] = torch.logit(each.clamp(growth.dead, 1 - 1e-6))
        changed["log_scales"][touched] += torch.log(shrink)[:, None]
        for value in changed.values():
            value[places] = value[parents]
        group = torch.cat([state.group, state.group.new_zeros(born)])
        group[places] = group[parents]
        state.replace_splats(changed, torch.cat([touched, places]), group)
        return born


def _splats(state: State) -> dict[str, torch.Tensor]:
    return {name: state.values[name].detach() for name in SPLATS}


def wander(state: State, growth: Growth, rate: float, generator: torch.Generator) -> None:
    """Moves splats that are all but transparent by noise of their own shape, so that they find something to show."""
    with torch.no_grad():
        logits = state.values["logits"]
        faint = torch.nonzero(logits < -2.0)[:, 0]  # above an opacity of 0.12 the step would be nothing
        if not len(faint) or growth.noise == 0:
            return
        shy = torch.sigmoid(100 * (growth.dead - torch.sigmoid(logits[faint])))  # next to nothing from 0.06 on
        axes = rotation(state.values["quats"][faint]) * state.values["log_scales"][faint].exp()[:, None, :]
        noise = torch.randn(len(faint), 3, generator=generator).to(logits.device)
        step = (axes @ (axes.transpose(1, 2) @ noise[:, :, None]))[:, :, 0]
        state.values["means"][faint] += step * (shy * growth.noise * rate)[:, None]
