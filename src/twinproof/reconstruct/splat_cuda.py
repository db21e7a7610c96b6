"""A step of the fit on a GPU in few launches: loss and Adam are recorded once as CUDA graphs and replayed.

On a GPU the work of a step is a millisecond, and telling it 150 small things takes four. The picture itself cannot be
recorded: how much there is to draw changes from view to view. Same formulas as on the CPU, held equal by a test.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
from __future__ import annotations

import torch

from twinproof.reconstruct.splat_recipe import Recipe
from twinproof.reconstruct.splat_state import BETAS, EPSILON, State
from twinproof.sim.picture_loss import Photograph, torch_loss

WARM = 3  # runs before a recording: libraries set themselves up in the first


class LossGraph:
    """Loss of a picture under an exposure, with its slopes by both, for pictures of one size."""

    def __init__(self, height: int, width: int, recipe: Recipe, device: str) -> None:
        self.colour = torch.zeros(height, width, 3, device=device).requires_grad_()
        self.exposure = torch.tensor([[1.0] * 3, [0.0] * 3], device=device).requires_grad_()
        plane = torch.zeros(3, height, width, device=device)
        self.target = (plane, plane.clone(), plane.clone(), torch.ones(height, width, device=device))

        def work():
            gain, offset = self.exposure
            loss = torch_loss(self.colour * gain + offset, Photograph(*self.target), recipe.ssim, recipe.squares)
            return (loss.detach(), *torch.autograd.grad(loss, (self.colour, self.exposure)))

        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM):
                work()
        torch.cuda.current_stream().wait_stream(aside)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = work()

    def __call__(self, colour, exposure, target: Photograph):
        """Loss, slopes by the picture, slopes by the exposure; overwritten by the next call."""
        with torch.no_grad():
            torch._foreach_copy_([self.colour, self.exposure, *self.target], [colour, exposure, *target])
        self.graph.replay()
        return self.out


class AdamGraph:
    """Regularisation and one step of Adam for all tensors of a state, as long as their sizes stay."""

    def __init__(self, state: State, recipe: Recipe, extent: float, names: tuple[str, ...]) -> None:
        self.names, self.state = names, state
        device = state.group.device
        self.rates = torch.zeros(len(names) + 2, device=device)
        for name in state.values:
            state.values[name].grad = torch.zeros_like(state.values[name])
        self.recorded = [value.data_ptr() for value in state.values.values()]
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self._work(state, recipe, extent)

    def _work(self, state: State, recipe: Recipe, extent: float) -> None:
        logits, scales = state.values["logits"], state.values["log_scales"]
        opacity = torch.sigmoid(logits)
        logits.grad.add_(opacity * (1 - opacity), alpha=recipe.opacity_weight / len(opacity))
        scales.grad.add_(scales.exp(), alpha=recipe.scale_weight / scales.numel() / extent)
        values = [state.values[name] for name in self.names]
        grads = [value.grad for value in values]
        first, second = [state.first[name] for name in self.names], [state.second[name] for name in self.names]
        torch._foreach_lerp_(first, grads, 1 - BETAS[0])
        torch._foreach_mul_(second, BETAS[1])
        torch._foreach_addcmul_(second, grads, grads, 1 - BETAS[1])
        spread = torch._foreach_sqrt(second)
        torch._foreach_mul_(spread, self.rates[-1])
        torch._foreach_add_(spread, EPSILON)
        steps = torch._foreach_div(first, spread)
        for k, step in enumerate(steps):
            step.mul_(self.rates[k])
        torch._foreach_sub_(values, steps)
        torch._foreach_zero_([value.grad for value in state.values.values()])

    def __call__(self, rates: dict[str, float]) -> None:
        """One step; takes the slopes and leaves zeros."""
        self.state.steps += 1
        undo1, undo2 = 1 - BETAS[0] ** self.state.steps, (1 - BETAS[1] ** self.state.steps) ** 0.5
        numbers = [rates[name] / undo1 for name in self.names]
        self.rates.copy_(torch.tensor([*numbers, 0.0, 1 / undo2]), non_blocking=True)
        self.graph.replay()

    def fits(self) -> bool:
        """Whether the state still has the tensors that were recorded: growth replaces them."""
        return self.recorded == [value.data_ptr() for value in self.state.values.values()]
