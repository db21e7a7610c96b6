"""Ranges that missed, made wider: a parameter's to what validation points to, a signal's model error to what it left.

Nothing is widened beyond a physical limit; where validation points further, the reason says so, as that is a sign of an
effect that the model lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from twinproof.nouns.belief import Discrepancy
from twinproof.nouns.randomization import Randomization, Range
from twinproof.randomize.against import Against, Told
from twinproof.randomize.coverage import Judgement, SignalCover
from twinproof.randomize.inferred import Block, stretched
from twinproof.sim.predictive import LEVEL, bins

ROUNDS = 4  # of widening and judging again


def wider_ranges(
    made: Randomization, judged: Callable[[Randomization], Judgement]
) -> tuple[Randomization, Judgement, tuple[str, ...]]:
    """The randomisation with every range that misses widened, its judgement, and a sentence for each range.

    Predictions are not linear, so what is wider is judged again, a few times. Ranges of noise and starts that miss are
    named and left: a person has to say whether that day was special.
    """
    now, seen, last = made, judged(made), dict[str, Told]()
    for _ in range(ROUNDS):
        missed = {check.id: check.told for check in seen.parameters if check.missed and check.told is not None}
        if not missed:
            break
        for id, told in missed.items():
            last[id] = _reach(now.range(id), told)
        now = _with(made, last, seen.episodes)
        seen = judged(now)
    return now, seen, tuple(f"{id}: {_ends(made.range(id), told)[1]}" for id, told in last.items())


def _reach(entry: Range, told: Told) -> Told:
    """The same, its ends where the range shall end: beyond the value, so that it does not lie at the very edge."""
    beyond = max(entry.low - told.value, told.value - entry.high, 0.0) / 4
    low = told.value - max(2 * (told.value - told.low), beyond)
    high = told.value + max(2 * (told.high - told.value), beyond)
    return replace(told, low=min(low, entry.low), high=max(high, entry.high))


def _with(made: Randomization, told: Mapping[str, Told], episodes: tuple[str, ...]) -> Randomization:
    """The randomisation with some ranges wider, and its draws with them."""
    block = Block(tuple(made.range(id) for id in made.joint), np.array(made.draws))
    single = {entry.id: entry for entry in made.ranges if entry.id not in made.joint}
    for id, each in told.items():
        entry = made.range(id)
        ends, why = _ends(entry, each)
        if id in made.joint:
            block = stretched(block, id, ends, why)
        else:
            single[id] = replace(entry, low=ends[0], high=ends[1], reason=f"{entry.reason}; {why}")
    order = {entry.id: entry for entry in (*block.ranges, *single.values())}
    ranges = tuple(order[entry.id] for entry in made.ranges)
    return replace(made, ranges=ranges, draws=block.draws, episodes=episodes)


def louder_signals(made: Randomization, seen: Judgement, against: Against) -> tuple[Randomization, tuple[str, ...]]:
    """The randomisation with a larger model error of every signal that its bands still miss; itself where none does."""
    sentences: list[str] = []
    errors = {each.signal: each for each in made.discrepancy}
    for cover in seen.signals:
        if cover.missed:
            errors[cover.signal], why = _louder(errors.get(cover.signal), cover, against)
            sentences.append(f"{cover.signal}: {why}")
    if not sentences:
        return made, ()
    return replace(made, discrepancy=tuple(errors.values()), episodes=seen.episodes), tuple(sentences)


def _ends(entry: Range, told: Told) -> tuple[tuple[float, float], str]:
    """The range that holds what validation points to, cut at the physical limits, and the reason."""
    info = entry.parameter
    low, high = min(entry.low, told.low), max(entry.high, told.high)
    ends = max(low, info.low), min(high, info.high)
    why = (
        f"widened from {entry.low:.4g} … {entry.high:.4g} to {ends[0]:.4g} … {ends[1]:.4g} {info.unit}, as validation "
        f"points to {told.value:.4g}"
    )
    if ends != (low, high):
        why += (
            f", and further than the physical limits {info.low:.4g} … {info.high:.4g} allow: the model lacks something"
        )
    return ends, why


def _louder(before: Discrepancy | None, cover: SignalCover, against: Against) -> tuple[Discrepancy, str]:
    """The model error with which the bands would have covered the signal, horizon by horizon."""
    told, made = against.prediction, against.bands()
    horizons_s = before.horizon_s if before is not None else (float(told.shooting.horizon.max()),)
    old = before.sd if before is not None else (0.0,)
    mine = (told.shooting.entry == told.shooting.entries.index(cover.signal)) & told.seen
    lacking = (np.square(told.gap) - np.square(made.half)) / ndtri(0.5 + LEVEL / 2) ** 2
    where = bins(told.shooting.horizon, horizons_s)
    sds = []
    for h, sd in enumerate(old):
        near = mine & (where == h)
        more = float(np.quantile(lacking[near], LEVEL)) if near.any() else 0.0
        sds.append(float(np.sqrt(sd**2 + max(more, 0.0))))
    why = (
        f"model error at {horizons_s[-1]:g} s widened from {old[-1]:.4g} to {sds[-1]:.4g} {cover.unit}, as no "
        "parameter explains what its bands missed"
    )
    return Discrepancy(cover.signal, cover.unit, horizons_s, tuple(sds)), why
