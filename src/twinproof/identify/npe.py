"""Neural posterior estimation through `sbi`: a normalising flow instead of a mixture, on the same simulations.

One round of 10,000 simulations around the fit by default. With more rounds, each draws its simulations from the region
that the one before still believes in (truncated, so that no correction is needed).
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from twinproof.identify.checkpoint import Checkpoint
from twinproof.identify.fit import Fit
from twinproof.identify.method import Draws, Method
from twinproof.identify.mixture_density import one_thread, torch_module
from twinproof.identify.problem import Problem
from twinproof.identify.simulate import Region, Simulator, Training, training
from twinproof.nouns.errors import MissingExtra
from twinproof.nouns.progress import Progress, quiet


@dataclass(frozen=True)
class Npe(Method):
    """A flow trained on simulations within `times` Laplace sd of the fit. Needs the extra `sbi`.

    `rounds` above one split the simulations: after each the region shrinks to what the draws still reach.
    """

    simulations: int = 10_000
    rounds: int = 1
    times: float = 5.0
    estimator: str = "maf"  # as sbi calls it: maf, nsf, mdn
    draws: int = 1000
    name = "npe"

    def infer(self, problem: Problem, fitted: Fit, rng: np.random.Generator, progress: Progress = quiet) -> Draws:
        """Simulates, trains, and draws at the recording's summary."""
        return self._infer(fitted, rng, progress, None)

    def infer_kept(
        self, problem: Problem, fitted: Fit, rng: np.random.Generator, progress: Progress, keep: Checkpoint
    ) -> Draws:
        """The same; simulations are kept."""
        return self._infer(fitted, rng, progress, keep)

    def _infer(self, fitted: Fit, rng: np.random.Generator, progress: Progress, keep: Checkpoint | None) -> Draws:
        sbi = sbi_module()
        each = max(self.simulations // self.rounds, 100)
        learnt = training(fitted, each, self.times, rng, progress, keep)
        flow = trained(sbi, learnt, self.estimator, rng)
        for _ in range(1, self.rounds):
            learnt = narrowed(learnt, fitted, flow, each, rng, progress)
            flow = trained(sbi, learnt, self.estimator, rng)
        unknowns, log_weights, told = learnt.draws(lambda count: drawn(flow, learnt.observed, count, rng), self.draws)
        told |= {"rounds": self.rounds, "estimator": self.estimator}
        return Draws(unknowns, log_weights, learnt.rollouts, told)


def sbi_module() -> Any:
    """sbi's inference module, or an error that says how to get it."""
    torch_module()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of packages that it imports
            import sbi.inference
            import sbi.utils
    except ImportError:
        raise MissingExtra(
            "NPE needs sbi, which is not installed. Install it with `pip install twinproof[sbi]`, or use "
            "MixtureDensity, which needs torch alone, or Laplace."
        ) from None
    return sbi


def trained(sbi: Any, learnt: Training, estimator: str, rng: np.random.Generator) -> Any:
    """The flow, trained until held-back pairs get no better."""
    torch = torch_module()
    theta, x = (torch.as_tensor(each, dtype=torch.float32) for each in (learnt.z, learnt.summary))
    width = theta.shape[1]
    quietly = contextlib.redirect_stdout(io.StringIO())
    with one_thread(torch), torch.random.fork_rng(), warnings.catch_warnings(), quietly:
        warnings.simplefilter("ignore")  # sbi warns of what it was asked for
        torch.manual_seed(int(rng.integers(2**31)))
        prior = sbi.utils.BoxUniform(low=-torch.ones(width), high=torch.ones(width))
        method = sbi.inference.NPE(
            prior=prior, density_estimator=estimator, show_progress_bars=False, logging_level=logging.ERROR
        )
        return method.append_simulations(theta, x).train(training_batch_size=200, stop_after_epochs=20)


def drawn(flow: Any, observed: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draws z (count, G) of a flow at one summary."""
    torch = torch_module()
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(int(rng.integers(2**31)))
        found = flow.sample((count,), condition=torch.as_tensor(observed[None], dtype=torch.float32))
    array: np.ndarray = found.reshape(count, -1).double().numpy()
    return array


def narrowed(
    before: Training, fitted: Fit, flow: Any, simulations: int, rng: np.random.Generator, progress: Progress
) -> Training:
    """New simulations from the box around what the flow's draws reach, and nothing else."""
    z = drawn(flow, before.observed, 2000, rng)
    z = z[before.region.inside(z)]
    low, high = z.min(axis=0), z.max(axis=0)
    room = 0.1 * (high - low)
    low, high = np.maximum(low - room, -1.0), np.minimum(high + room, 1.0)
    middle, half = (low + high) / 2, (high - low) / 2
    inner = Region(before.region.problem, before.region.unknowns(middle[None])[0], before.region.root * half)
    unknowns, fresh = inner.draw(simulations, rng)
    simulator = Simulator(fitted, rng)
    summary, observed = simulator.summaries(unknowns, progress), simulator.observed
    centre, spread = summary.mean(axis=0), np.maximum(summary.std(axis=0), 1e-9)
    made = Training(inner, fresh, (summary - centre) / spread, (observed - centre) / spread, simulator.rollouts)
    return replace(made, rollouts=before.rollouts + simulator.rollouts)
