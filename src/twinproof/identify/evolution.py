"""Search without gradients in some dozen dimensions: an evolution strategy with a step size for each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float

Score = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Evolution:
    """Separable CMA-ES (Ros and Hansen 2008): `score` (C, n) -> (C,) is made large."""

    generations: int = 14
    population: int = 12
    step: float = 0.25  # of the starting point's usual size
    patience: int = 6  # generations without a better point that end it

    def climb(
        self,
        score: Score,
        start: Float[np.ndarray, "n"],
        best: float,
        rng: np.random.Generator,
        told: Callable[[int, float], None],
    ) -> tuple[Float[np.ndarray, "n"], float]:
        """The best point met, at least as good as the start, and its score."""
        n, count = len(start), self.population
        half = count // 2
        weights = np.log(half + 0.5) - np.log(np.arange(1, half + 1))
        weights /= weights.sum()
        mass = 1 / np.square(weights).sum()
        c_step = (mass + 2) / (n + mass + 5)
        damping = 1 + c_step + 2 * max(0.0, np.sqrt((mass - 1) / (n + 1)) - 1)
        c_path = (4 + mass / n) / (n + 4 + 2 * mass / n)
        c_one = 2 / ((n + 1.3) ** 2 + mass) * (n + 2) / 3  # the separable kind may learn faster
        c_rank = min(1 - c_one, 2 * (mass - 2 + 1 / mass) / ((n + 2) ** 2 + mass) * (n + 2) / 3)
        usual = np.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n**2))
        mean, found, sigma = np.array(start), np.array(start), self.step * float(np.sqrt(np.mean(start**2)))
        variance, path_s, path_c = np.ones(n), np.zeros(n), np.zeros(n)
        since = 0
        for generation in range(self.generations):
            z = rng.normal(size=(count, n))
            points = mean + sigma * np.sqrt(variance) * z
            scores = score(points)
            order = np.argsort(-scores, kind="stable")[:half]
            since += 1
            if scores[order[0]] > best:
                found, best, since = points[order[0]].copy(), float(scores[order[0]]), 0
            told(generation + 1, best)
            if since >= self.patience:
                break
            step = weights @ z[order]
            mean = mean + sigma * np.sqrt(variance) * step
            path_s = (1 - c_step) * path_s + np.sqrt(c_step * (2 - c_step) * mass) * step
            length = float(np.linalg.norm(path_s)) / np.sqrt(1 - (1 - c_step) ** (2 * generation + 2))
            steady = length < (1.4 + 2 / (n + 1)) * usual
            path_c = (1 - c_path) * path_c + steady * np.sqrt(c_path * (2 - c_path) * mass) * np.sqrt(variance) * step
            spread = weights @ np.square(np.sqrt(variance) * z[order])
            variance = (1 - c_one - c_rank) * variance + c_one * path_c**2 + c_rank * spread
            sigma *= float(np.exp(c_step / damping * (np.linalg.norm(path_s) / usual - 1)))
        return found, best
