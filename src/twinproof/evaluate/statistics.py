"""Success rates and means with intervals that hold what they promise: a rate without its trials says nothing."""

from __future__ import annotations

import math

from twinproof.nouns.errors import ConfigError, TraceError
from twinproof.nouns.interval import (
    Interval,
    check_counts,
    check_level,
    clopper_pearson,
    mean_interval,
    refuse_level,
)

__all__ = [
    "Interval",
    "at_least",
    "beta_posterior",
    "check_level",
    "clopper_pearson",
    "mean_interval",
    "share_interval",
    "trials_needed",
    "wilson",
]


def at_least(successes: int, trials: int, level: float = 0.95) -> float:
    """The exact one-sided lower bound of a success rate, for claims."""
    return clopper_pearson(successes, trials, 2 * level - 1).low if level > 0.5 else refuse_level(level)


def wilson(successes: int, trials: int, level: float = 0.95) -> Interval:
    """Wilson's score interval of a success rate: covers about `level`, and is narrower than the exact one."""
    check_counts(successes, trials, level)
    return _score(successes / trials, trials, level)


def _score(p: float, trials: float, level: float) -> Interval:
    z = _quantile((1 + level) / 2)
    middle = (p + z**2 / (2 * trials)) / (1 + z**2 / trials)
    half = z / (1 + z**2 / trials) * math.sqrt(p * (1 - p) / trials + z**2 / (4 * trials**2))
    low = 0.0 if p == 0 else middle - half  # exactly, and not but for rounding
    high = 1.0 if p == 1 else middle + half
    return Interval(p, low, high, level)


def share_interval(mean: float, variance: float, samples: int, level: float = 0.95) -> Interval:
    """The interval of an estimated share in [0, 1] whose estimate has this variance, from so many samples.

    Wilson's, with as many trials as would scatter like that (Korn and Graubard, Survey Methodology 24, 1998): it stays
    honest where all samples agree and their own variance is zero.
    """
    from scipy.special import stdtrit

    check_level(level)
    if not (0 <= mean <= 1 and variance >= 0 and samples >= 2):
        raise TraceError(f"a share of {mean} with variance {variance} from {samples} samples cannot be.")
    scatter = mean * (1 - mean)
    trials = scatter / variance if scatter > 0 and variance > 0 else float(samples)
    fewer = (_quantile((1 + level) / 2) / float(stdtrit(samples - 1, (1 + level) / 2))) ** 2
    return _score(mean, trials * fewer, level)


def beta_posterior(
    successes: int, trials: int, level: float = 0.95, prior: tuple[float, float] = (1.0, 1.0)
) -> Interval:
    """Mean and central credible interval of a success rate under a Beta prior."""
    from scipy.special import betaincinv

    check_counts(successes, trials, level, fewest=0)
    a, b = prior[0] + successes, prior[1] + trials - successes
    if not (prior[0] > 0 and prior[1] > 0):
        raise ConfigError(f"the Beta prior is {prior}; both numbers are above zero.")
    low, high = (float(betaincinv(a, b, share)) for share in ((1 - level) / 2, (1 + level) / 2))
    return Interval(a / (a + b), low, high, level)


def trials_needed(
    worse: float, better: float, power: float = 0.8, alpha: float = 0.05, correlation: float = 0.0
) -> int:
    """Trials a policy that tell two success rates apart (one-sided, normal approximation).

    `correlation` is that of the outcomes on the same seeds: pairing saves this share of the trials.
    """
    if not 0 <= worse < better <= 1:
        raise ConfigError(f"success rates of {worse} and {better} cannot be told apart: 0 <= worse < better <= 1.")
    if not (0 < power < 1 and 0 < alpha < 1 and -1 <= correlation < 1):
        raise ConfigError(f"power {power}, alpha {alpha} or correlation {correlation} lies outside its range.")
    spread = worse * (1 - worse) + better * (1 - better)
    size = (_quantile(1 - alpha) + _quantile(power)) ** 2 * spread / (better - worse) ** 2
    return max(1, math.ceil(size * (1 - correlation) - 1e-9))


def _quantile(share: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(share))
