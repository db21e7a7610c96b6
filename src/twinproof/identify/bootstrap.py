"""Block bootstrap: how far the estimate would move had other windows, or other episodes, been recorded.

blocks of scores g₁ … g_B ── drawn anew with replacement, weights w ──> step = (H + prior)⁻¹ Σ (w_b − 1) g_b ──> a draw

What residuals have in common within a block (a bump, a cable, a bus that was late) is kept together, so such intervals
stay honest where readings are not independent. Each draw is one Gauss–Newton step of the fitted, linearised problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from twinproof.identify.fit import Fit
from twinproof.identify.method import Draws, Method
from twinproof.identify.problem import Problem
from twinproof.nouns.errors import PosteriorError
from twinproof.nouns.progress import Progress, quiet
from twinproof.sim.least_squares import box_step

FEWEST = 5  # blocks


@dataclass(frozen=True)
class BlockBootstrap(Method):
    """Draws by re-weighting blocks: windows, or whole episodes.

    Weights are those of drawing with replacement, or of the smoother Bayesian bootstrap. Episodes are the honest block
    where an error lasts longer than a window; they need at least five. Draws are never narrower than white noise leaves
    them.
    """

    draws: int = 1000
    block: Literal["window", "episode"] = "window"
    weights: Literal["multinomial", "exponential"] = "exponential"
    name = "bootstrap"

    def infer(self, problem: Problem, fitted: Fit, rng: np.random.Generator, progress: Progress = quiet) -> Draws:
        """One step for each re-weighting, inside the limits."""
        scores = blocks(fitted, self.block)
        count = len(scores)
        if count < FEWEST:
            raise PosteriorError(
                f"a bootstrap over {count} {self.block}s says little; {FEWEST} are needed. "
                + (
                    "Use windows as blocks, or record more."
                    if self.block == "episode"
                    else "Record more, or use Laplace."
                )
            )
        times = reweighted(count, self.draws, self.weights, rng)
        pulls = (times - 1.0) @ (scores - scores.mean(axis=0)) * np.sqrt(count / (count - 1))
        precision = np.maximum(problem.prior()[1], 1 / np.square(problem.width))
        # The prior is drawn anew with the blocks: what no block pulls at stays as wide as it was believed to be.
        pulls += np.sqrt(precision) * rng.normal(size=pulls.shape)
        hessian = fitted.information + np.diag(precision)
        low, high = problem.span
        room = (low - fitted.unknowns, high - fitted.unknowns)
        free = np.linalg.solve(hessian, pulls.T).T
        # Starts and unknowns were fitted to the blocks, so few of them scatter too little: noise alone gives this much.
        least = np.sqrt(np.diag(np.linalg.inv(hessian)))
        free *= np.maximum(1.0, least / np.maximum(free.std(axis=0), 1e-300))
        outside = np.flatnonzero(((free < room[0]) | (free > room[1])).any(axis=1))
        for done, k in enumerate(outside, 1):
            free[k] = box_step(hessian, pulls[k], *room)
            progress(done, "draws at a limit", len(outside))
        unknowns = np.clip(fitted.unknowns + free, low, high)
        diagnostics = {"blocks": count, "block": self.block, "at_a_limit": len(outside) / self.draws}
        return Draws(unknowns, np.full(self.draws, -np.log(self.draws)), 0, diagnostics)


def blocks(fitted: Fit, block: Literal["window", "episode"]) -> np.ndarray:
    """The pulls (blocks, G) of windows, or of episodes."""
    scores = fitted.scores
    if block == "window":
        return scores
    episodes = fitted.score_episode
    return np.stack([scores[episodes == e].sum(axis=0) for e in np.unique(episodes)])


def reweighted(
    blocks: int, draws: int, kind: Literal["multinomial", "exponential"], rng: np.random.Generator
) -> np.ndarray:
    """Weights (draws, blocks) with mean one."""
    if kind == "multinomial":
        return rng.multinomial(blocks, np.full(blocks, 1 / blocks), size=draws).astype(np.float64)
    drawn = rng.exponential(size=(draws, blocks))
    weights: np.ndarray = drawn / drawn.mean(axis=1, keepdims=True)
    return weights
