"""BayesSim's way to a posterior: a network that answers a summary with a mixture of Gaussians over the unknowns.

simulations around the fit ──> (summary, unknowns) pairs ──> network ──> the mixture at the recording's own summary

Means are a linear function of the summary plus what the network adds, so a problem that is linear is learnt at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinproof.identify.checkpoint import Checkpoint
from twinproof.identify.fit import Fit
from twinproof.identify.method import Draws, Method
from twinproof.identify.problem import Problem
from twinproof.identify.simulate import training
from twinproof.nouns.errors import MissingExtra
from twinproof.nouns.progress import Progress, quiet


@dataclass(frozen=True)
class MixtureDensity(Method):
    """Full-covariance Gaussian mixtures, trained on simulations within `times` Laplace sd of the fit.

    The draws are those of the prior's part inside that region; mass at its edge is told in the diagnostics.
    """

    simulations: int = 2000
    times: float = 5.0
    components: int = 4
    hidden: int = 64
    epochs: int = 300  # at most: training ends when held-back pairs get no better
    draws: int = 1000
    name = "mixture_density"

    def infer(self, problem: Problem, fitted: Fit, rng: np.random.Generator, progress: Progress = quiet) -> Draws:
        """Simulates, trains, and draws at the recording's summary."""
        return self._infer(fitted, rng, progress, None)

    def infer_kept(
        self, problem: Problem, fitted: Fit, rng: np.random.Generator, progress: Progress, keep: Checkpoint
    ) -> Draws:
        """The same; simulations are kept."""
        return self._infer(fitted, rng, progress, keep)

    def _infer(self, fitted: Fit, rng: np.random.Generator, progress: Progress, keep: Checkpoint | None) -> Draws:
        learnt = training(fitted, self.simulations, self.times, rng, progress, keep)
        mixture, loss = train(learnt.summary, learnt.z, self, rng, progress)
        chances, means, roots = mixture(learnt.observed)

        def sample(count: int) -> np.ndarray:
            which = rng.choice(len(chances), size=count, p=chances)
            noise = rng.normal(size=(count, means.shape[1]))
            found: np.ndarray = means[which] + np.einsum("nij,nj->ni", roots[which], noise)
            return found

        unknowns, log_weights, told = learnt.draws(sample, self.draws)
        told |= {"held_back_loss": loss, "chances": [round(float(c), 4) for c in chances]}
        return Draws(unknowns, log_weights, learnt.rollouts, told)


def torch_module() -> Any:
    """torch, or an error that says how to get it."""
    try:
        import torch
    except ImportError:
        raise MissingExtra(
            "posterior networks need torch, which is not installed. Install it with `pip install twinproof[learn]`, or "
            "use Laplace, BlockBootstrap or Svgd, which do without."
        ) from None
    return torch


@contextmanager
def one_thread(torch: Any) -> Iterator[None]:
    """Networks this small lose more by handing work to threads than they win."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def train(
    summary: np.ndarray, z: np.ndarray, how: MixtureDensity, rng: np.random.Generator, progress: Progress = quiet
) -> tuple[Any, float]:
    """The mixture as a function of one summary (chances, means, lower roots of covariances), and its held-back loss."""
    with one_thread(torch_module()):
        return _train(torch_module(), summary, z, how, rng, progress)


def _train(
    torch: Any, summary: np.ndarray, z: np.ndarray, how: MixtureDensity, rng: np.random.Generator, progress: Progress
) -> tuple[Any, float]:
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    network = _Mixture(torch, summary.shape[1], z.shape[1], how.hidden, how.components, generator)
    x, y = (torch.as_tensor(each, dtype=torch.float32) for each in (summary, z))
    held = torch.as_tensor(rng.permutation(len(x)) < max(len(x) // 10, 20))
    network.start(x[~held], y[~held])
    optimiser = torch.optim.Adam(network.weights, lr=2e-3)
    best, kept, since = float("inf"), [w.detach().clone() for w in network.weights], 0
    for epoch in range(how.epochs):
        order = torch.randperm(int((~held).sum()), generator=generator)
        xs, ys = x[~held][order], y[~held][order]
        for first in range(0, len(xs), 128):
            optimiser.zero_grad()
            network.loss(xs[first : first + 128], ys[first : first + 128]).backward()
            torch.nn.utils.clip_grad_norm_(network.weights, 5.0)
            optimiser.step()
        with torch.no_grad():
            now = float(network.loss(x[held], y[held]))
        progress(epoch + 1, f"training: {now:.4g}", how.epochs)
        if now < best - 1e-4:
            best, kept, since = now, [w.detach().clone() for w in network.weights], 0
        else:
            since += 1
        if since in (8, 16):  # slower towards the end
            for group in optimiser.param_groups:
                group["lr"] /= 4
        if since >= 24:
            break
    with torch.no_grad():
        for weight, value in zip(network.weights, kept, strict=True):
            weight.copy_(value)
    return network.mixture, best


class _Mixture:
    """The network: two hidden layers beside a linear path to the means."""

    def __init__(self, torch: Any, inputs: int, width: int, hidden: int, components: int, generator: Any) -> None:
        self.torch, self.width, self.components = torch, width, components
        self.triangle = width * (width + 1) // 2
        outputs = components * (1 + width + self.triangle)
        sizes = ((hidden, inputs), (hidden, hidden), (outputs, hidden))
        self.weights = []
        for k, (out, into) in enumerate(sizes):
            scale = 0.1 if k == 2 else 1.0
            drawn = torch.randn(out, into, generator=generator) * scale / into**0.5
            self.weights += [drawn.requires_grad_(), torch.zeros(out).requires_grad_()]
        # Components begin apart, or they would all learn the same.
        apart = torch.randn(components, width, generator=generator)
        apart[0] = 0.0
        with torch.no_grad():
            self.weights[-1][components : components * (1 + width)] = apart.reshape(-1)
        self.weights += [torch.zeros(width, inputs).requires_grad_(), torch.zeros(width).requires_grad_()]
        self.row, self.column = torch.tril_indices(width, width)
        self.root = torch.eye(width)

    def start(self, x: Any, y: Any) -> None:
        """Begins at the best linear answer: its slope, and the root of what it leaves."""
        torch = self.torch
        one = torch.cat([x, torch.ones(len(x), 1)], dim=1).double()
        ridge = 1e-3 * len(x) * torch.eye(one.shape[1]).double()
        slope = torch.linalg.solve(one.T @ one + ridge, one.T @ y.double())
        left = y.double() - one @ slope
        spread = left.T @ left / len(y) + 1e-10 * torch.eye(self.width).double()
        with torch.no_grad():
            self.weights[-2].copy_(slope[:-1].T)
            self.weights[-1].copy_(slope[-1])
        self.root = torch.linalg.cholesky(spread).float()

    def parts(self, x: Any) -> tuple[Any, Any, Any]:
        """Log chances (N, C), means (N, C, G), and lower roots (N, C, G, G) of covariances."""
        torch = self.torch
        w = self.weights
        inner = torch.tanh(torch.tanh(x @ w[0].T + w[1]) @ w[2].T + w[3]) @ w[4].T + w[5]
        chance, mean, flat = inner.split(
            [self.components, self.components * self.width, self.components * self.triangle], dim=1
        )
        base = (x @ w[6].T + w[7])[:, None]
        moved = mean.reshape(len(x), self.components, self.width) @ self.root.T
        bent = torch.zeros(len(x), self.components, self.width, self.width)
        bent[..., self.row, self.column] = flat.reshape(len(x), self.components, self.triangle)
        diagonal = torch.diagonal(bent, dim1=-2, dim2=-1)
        bent = torch.tril(bent, -1) + torch.diag_embed(torch.exp(torch.clamp(diagonal, -5.0, 5.0)))
        return torch.log_softmax(chance, dim=1), base + moved, self.root @ bent

    def loss(self, x: Any, y: Any) -> Any:
        """Minus the mean log density."""
        torch = self.torch
        log_chance, mean, root = self.parts(x)
        away = torch.linalg.solve_triangular(root, (y[:, None] - mean)[..., None], upper=False)[..., 0]
        log_det = torch.log(torch.diagonal(root, dim1=-2, dim2=-1)).sum(-1)
        each = log_chance - 0.5 * (away**2).sum(-1) - log_det
        return -torch.logsumexp(each, dim=1).mean()

    def mixture(self, summary: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Chances (C), means (C, G) and roots (C, G, G) at one summary."""
        torch = self.torch
        with torch.no_grad():
            parts = self.parts(torch.as_tensor(summary[None], dtype=torch.float32))
        log_chance, mean, root = (part[0].double().numpy() for part in parts)
        chance = np.exp(log_chance)
        return chance / chance.sum(), mean, root
