"""Why trials fail: one factor at a time is swapped for a trusted one, and what that mends is the cause.

A runner plays a trial with some factors swapped (the lab's oracle for geometry or physics, true state for perception, a
script for the policy) and says whether it succeeded. It is the caller's: this file holds the maths alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from twinproof.evaluate.statistics import Interval, mean_interval, wilson
from twinproof.evaluate.statistics_many import holm
from twinproof.evaluate.statistics_paired import mcnemar, paired_bootstrap
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.failure import Failure
from twinproof.nouns.trial import Trial

ALPHA = 0.05
FEW = 4  # with fewer runs of one trial no test can tell: all must agree
MOST_FACTORS = 8  # of which all subsets are run


@dataclass(frozen=True)
class Factor:
    """What can be swapped, and the label of a failure that the swap mends.

    `includes` names narrower factors that this swap takes along (true state instead of perception includes appearance;
    a value as the twin believes it is inside its range): where both mend a trial, the narrower one is the cause.
    """

    name: str
    failure: Failure
    includes: tuple[str, ...] = ()


FACTORS = (
    Factor("geometry", Failure.RECONSTRUCTION, includes=("range",)),
    Factor("contact", Failure.CONTACT, includes=("range",)),
    Factor("range", Failure.RESIDUAL_RANGE),
    Factor("physics", Failure.PHYSICS, includes=("contact", "range")),
    Factor("draw", Failure.PHYSICS, includes=("contact", "range")),  # as drawn from a belief, not at its point
    Factor("appearance", Failure.PERCEPTION),
    Factor("perception", Failure.PERCEPTION, includes=("appearance",)),
    Factor("embodiment", Failure.EMBODIMENT, includes=("range",)),
    Factor("policy", Failure.POLICY),
)


class Runner(Protocol):
    """Plays one trial."""

    def __call__(self, swapped: frozenset[str], seed: int, repeat: int) -> bool:
        """Whether the trial with this seed succeeds when these factors are swapped."""


@dataclass(frozen=True)
class Effect:
    """What swapping one factor does over all seeds: the change of the success rate, and p after Holm's correction."""

    factor: Factor
    change: Interval
    p_value: float


@dataclass(frozen=True)
class Attribution:
    """Effects of all factors, and a label with its reason for every seed that fails."""

    success: Interval  # with nothing swapped
    effects: tuple[Effect, ...]
    labels: Mapping[int, Failure]
    reasons: Mapping[int, str]


def attribute(
    run: Runner,
    seeds: Sequence[int],
    factors: Sequence[Factor] = FACTORS,
    repeats: int = 1,
    level: float = 0.95,
) -> Attribution:
    """Runs every seed with nothing swapped, and with each factor swapped alone; the same repeats pair up.

    A factor mends a seed when its runs succeed more often than those with nothing swapped (Fisher's exact test, 5 %;
    with fewer than four repeats all must succeed and all must fail). One that mends is the label, several or none are
    undecided, unless all others include it. Effects take seeds as the unit: runs of one seed hang together.
    """
    _check(factors, seeds, repeats)
    plain = np.array([[run(frozenset(), seed, k) for k in range(repeats)] for seed in seeds])
    swapped = {
        f.name: np.array([[run(frozenset({f.name}), seed, k) for k in range(repeats)] for seed in seeds])
        for f in factors
    }
    found = [_change(plain, swapped[f.name], level) for f in factors]
    adjusted = holm([p for _, p in found])
    effects = tuple(Effect(f, change, float(p)) for f, (change, _), p in zip(factors, found, adjusted, strict=True))
    labels, reasons = {}, {}
    for row, seed in enumerate(seeds):
        if not plain[row].all():
            mending = [f for f in factors if _mends(plain[row], swapped[f.name][row])]
            labels[seed], reasons[seed] = decide(mending)
    return Attribution(wilson(int(plain.sum()), plain.size, level), effects, labels, reasons)


def decide(mending: Sequence[Factor]) -> tuple[Failure, str]:
    """The label that the factors which mend a trial give, and why."""
    if not mending:
        return Failure.UNDECIDED, "no single swap mends it"
    names = {f.name for f in mending}
    narrow = [f for f in mending if not set(f.includes) & names]
    if len({f.failure for f in narrow}) == 1:
        return narrow[0].failure, "mended by swapping " + ", ".join(f.name for f in narrow)
    return Failure.UNDECIDED, "mended by any of " + ", ".join(f.name for f in narrow)


def _mends(plain: np.ndarray, swapped: np.ndarray) -> bool:
    runs = len(plain)
    before, after = int(plain.sum()), int(swapped.sum())
    if runs < FEW:
        return before == 0 and after == runs
    return _fisher(before, after, runs) <= ALPHA


def _fisher(before: int, after: int, runs: int) -> float:
    """The one-sided exact p that `after` of the runs succeed, given all successes of both."""
    total = before + after
    ways = [math.comb(runs, k) * math.comb(runs, total - k) for k in range(max(0, total - runs), min(runs, total) + 1)]
    first = max(0, total - runs)
    return sum(ways[after - first :]) / sum(ways)


def _change(plain: np.ndarray, swapped: np.ndarray, level: float) -> tuple[Interval, float]:
    """The change of the success rate with its interval, and the exact sign test over seeds (McNemar's, run once)."""
    change = swapped.mean(axis=1) - plain.mean(axis=1)
    signs = mcnemar(change < 0, change > 0, level)
    if plain.shape[1] == 1 or len(plain) < 2:
        return mcnemar(plain[:, 0], swapped[:, 0], level).difference, signs.p_value
    return mean_interval(change, level), signs.p_value


@dataclass(frozen=True)
class Shares:
    """How the whole change from nothing swapped to all swapped is shared among factors (Shapley); they add up to it."""

    whole: float
    by_factor: Mapping[str, Interval]


def shapley(
    run: Runner, seeds: Sequence[int], factors: Sequence[Factor], rng: np.random.Generator, level: float = 0.95
) -> Shares:
    """Runs every subset of the factors on every seed, and shares the change fairly; intervals draw seeds anew."""
    _check(factors, seeds, 1)
    if len(factors) > MOST_FACTORS or len(seeds) < 2:
        raise ConfigError(
            f"{len(factors)} factors on {len(seeds)} seeds: shares take at most {MOST_FACTORS} factors, as every "
            "subset is run, and two seeds or more."
        )
    names = [f.name for f in factors]
    subsets = [frozenset(s) for n in range(len(names) + 1) for s in itertools.combinations(names, n)]
    value = {s: np.array([run(s, seed, 0) for seed in seeds], dtype=float) for s in subsets}
    count, shares = len(names), {}
    for name in names:
        share = np.zeros(len(seeds))
        for s in subsets:
            if name not in s:
                weight = math.factorial(len(s)) * math.factorial(count - len(s) - 1) / math.factorial(count)
                share += weight * (value[s | {name}] - value[s])
        shares[name] = paired_bootstrap(np.zeros(len(seeds)), share, rng, level)
    return Shares(float((value[frozenset(names)] - value[frozenset()]).mean()), shares)


@dataclass(frozen=True)
class Confusion:
    """Planted causes against assigned labels. `right` counts decided ones only; `decided` is their share."""

    table: Mapping[tuple[Failure, Failure], int]  # (planted, assigned) -> count
    right: Interval | None  # None where nothing was decided
    decided: Interval


def confusion(planted: Sequence[Failure], assigned: Sequence[Failure], level: float = 0.95) -> Confusion:
    """How well labels are assigned, over trials whose single fault is known."""
    if len(planted) != len(assigned) or not planted:
        raise ConfigError(f"{len(planted)} planted and {len(assigned)} assigned labels; as many of both are needed.")
    table: dict[tuple[Failure, Failure], int] = {}
    for pair in zip(planted, assigned, strict=True):
        table[pair] = table.get(pair, 0) + 1
    told = [(a, b) for a, b in zip(planted, assigned, strict=True) if b is not Failure.UNDECIDED]
    right = wilson(sum(a is b for a, b in told), len(told), level) if told else None
    return Confusion(table, right, wilson(len(told), len(planted), level))


def labelled(trials: Sequence[Trial], found: Attribution) -> tuple[Trial, ...]:
    """The trials with the labels and reasons that were found; successes and seeds that were not run stay as is."""
    return tuple(
        replace(trial, failure=found.labels[trial.seed], note=found.reasons[trial.seed])
        if not trial.success and trial.seed in found.labels
        else trial
        for trial in trials
    )


def _check(factors: Sequence[Factor], seeds: Sequence[int], repeats: int) -> None:
    names = [f.name for f in factors]
    if not names or len(set(names)) != len(names):
        raise ConfigError(f"the factors are {', '.join(names) or 'none'}. Each needs a name of its own.")
    if not seeds or len(set(seeds)) != len(seeds) or repeats < 1:
        raise ConfigError(f"{len(seeds)} seeds with {repeats} repeats: seeds differ, and both are one or more.")
