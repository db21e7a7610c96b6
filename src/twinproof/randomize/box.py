"""The smallest central box that holds a share of joint draws, and equally weighted rows inside it.

Every parameter keeps its own two-sided share, and correlations are those of the draws: rows are kept or left whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import RandomizationError

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


def central(rows: Float[np.ndarray, "N K"], weights: Float[np.ndarray, "N"], share: float) -> Bool[np.ndarray, "N"]:
    """Which rows lie in the smallest box of equal tails that holds at least this share of the weight jointly."""
    if not 0 < share <= 1:
        raise RandomizationError(
            f"ranges are to cover the share {share} of the posterior. Ask for more than 0, at most 1."
        )
    tail = np.full(len(rows), np.inf)  # of each row: the weight beyond it, on the side and in the column with the least
    for column in rows.T:
        order = np.argsort(column, kind="stable")
        values, cumulated = column[order], np.cumsum(weights[order])
        below = cumulated[np.searchsorted(values, column, side="right") - 1]
        first = np.searchsorted(values, column, side="left")
        above = 1 - np.where(first > 0, cumulated[np.maximum(first - 1, 0)], 0.0)
        tail = np.minimum(tail, np.minimum(below, above))
    order = np.argsort(-tail, kind="stable")
    reached = int(np.searchsorted(np.cumsum(weights[order]), share * weights.sum() * (1 - 1e-12)))
    return np.asarray(tail >= tail[order[min(reached, len(rows) - 1)]])


def resampled(rows: np.ndarray, weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """As many rows of equal weight (systematic resampling); the rows as they are where weights are equal already."""
    if np.allclose(weights, weights[0], rtol=1e-9):
        return rows
    at = (np.arange(len(rows)) + rng.uniform()) / len(rows)
    chosen = np.searchsorted(np.cumsum(weights) / weights.sum(), at)
    found: np.ndarray = rows[np.minimum(chosen, len(rows) - 1)]
    return found
