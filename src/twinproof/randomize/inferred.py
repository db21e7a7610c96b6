"""Ranges from a posterior: for a new instance of the objects, correlations kept, and said where nothing is known.

draws of the posterior (new instance) ─ smallest central box of the share ─> rows to draw from, and their extremes
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import RandomizationError
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.randomization import Range
from twinproof.nouns.source import Inferred, Source
from twinproof.nouns.theta import ParameterInfo
from twinproof.randomize.box import central, resampled
from twinproof.randomize.meaning import meaning, sentence
from twinproof.sim.parameters.resolve import parameter

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, eq=False)
class Block:
    """Ranges of parameters that are drawn together, and the rows that they are drawn from."""

    ranges: tuple[Range, ...]
    draws: Float[np.ndarray, "N K"]

    def without(self, ids: frozenset[str]) -> Block:
        """The same without some parameters; the others keep their correlations."""
        keep = [k for k, entry in enumerate(self.ranges) if entry.id not in ids]
        return Block(tuple(self.ranges[k] for k in keep), self.draws[:, keep])


def from_posterior(posterior: Posterior, share: float, rng: np.random.Generator) -> Block:
    """What stays uncertain after the recordings, for an instance that was never measured."""
    needed = 1 / (1 - share) if share < 1 else 1.0
    if posterior.effective_draws < needed:
        raise RandomizationError(
            f"the posterior is worth {posterior.effective_draws:.1f} equal draws; a range that covers {share:.0%} "
            f"needs at least {needed:.0f}. Draw more, or identify with another method."
        )
    rows = posterior.new_instance_draws
    kept = central(rows, posterior.weights, share)
    draws = resampled(rows[kept], posterior.weights[kept], rng)
    low, high = rows[kept].min(axis=0), rows[kept].max(axis=0)
    ranges = [
        _range(posterior, physical(info), (float(low[k]), float(high[k])), centre(info, draws[:, k]), share)
        for k, info in enumerate(posterior.parameters)
    ]
    return Block(tuple(ranges), draws)


def physical(info: ParameterInfo) -> ParameterInfo:
    """The same parameter with what is physical as its limits: a posterior's are those of the prior."""
    low, high = parameter(info.id).limits
    if info.log and low <= 0:
        low = info.low
    return replace(info, low=min(low, info.low), high=max(high, info.high))


def centre(info: ParameterInfo, draws: np.ndarray) -> float:
    """The mean of draws on the parameter's natural scale; between their extremes, whatever rounding does."""
    mean = float(info.from_scale(float(np.mean(info.to_scale(draws)))))
    return min(max(mean, float(draws.min())), float(draws.max()))


def _range(posterior: Posterior, info: ParameterInfo, ends: tuple[float, float], point: float, share: float) -> Range:
    about = meaning(info.id)
    unknown = info.id in posterior.unidentified
    prior = posterior.priors[posterior.ids.index(info.id)]
    source: Source = prior.source if unknown else Inferred(posterior.hash, share)
    return Range(
        info, *ends, point, source, about.gap, about.approximates, about.check, _reason(posterior, info.id, share)
    )


def _reason(posterior: Posterior, id: str, share: float) -> str:
    """What the recordings leave open, and of what kind of thing."""
    if id in posterior.unidentified:
        told = f"{len(posterior.episodes)} calibration episodes do not determine it: it stays as wide as before them"
        weak = [each for each in posterior.weak_directions if id in each]
        return sentence(f"{told} ({weak[0]})" if weak else told, id)
    family = posterior.population
    whose = "the one that was measured"
    if family is not None and id in family.parameters:
        whose = f"a new {family.family}, after {len(family.instances)} were measured"
    return sentence(f"{share:.0%} of what {len(posterior.episodes)} calibration episodes leave open, for {whose}", id)


def joined(blocks: list[Block], rng: np.random.Generator) -> Block:
    """Blocks that know nothing of each other side by side: rows of each in an order of its own."""
    count = max(len(block.draws) for block in blocks)
    columns = [blocks[0].draws[np.arange(count) % len(blocks[0].draws)]]
    for block in blocks[1:]:
        order = rng.permutation(count) % len(block.draws)
        columns.append(block.draws[order])
    return Block(tuple(entry for block in blocks for entry in block.ranges), np.concatenate(columns, axis=1))


def stretched(block: Block, id: str, ends: tuple[float, float], reason: str) -> Block:
    """The same with one range wider, its draws spread evenly over it, as nobody knows where in it the truth lies.

    They keep their order, and so their rank correlations with the others.
    """
    k = next(k for k, entry in enumerate(block.ranges) if entry.id == id)
    entry, draws = block.ranges[k], np.array(block.draws)
    info = entry.parameter
    rank = np.empty(len(draws))
    rank[np.argsort(draws[:, k], kind="stable")] = (np.arange(len(draws)) + 0.5) / len(draws)
    low, high = (float(info.to_scale(end)) for end in ends)
    draws[:, k] = np.clip(info.from_scale(low + (high - low) * rank), *ends)  # exp(log(x)) may miss x by a rounding
    wider = replace(entry, low=ends[0], high=ends[1], reason=f"{entry.reason}; {reason}")
    return Block((*block.ranges[:k], wider, *block.ranges[k + 1 :]), draws)
