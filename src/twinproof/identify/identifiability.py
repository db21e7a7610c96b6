"""What a recording cannot tell, in sentences: parameters that stay as uncertain as before, and ones tied together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinproof.identify.fit import Fit
from twinproof.identify.problem import Problem

WEAK = 0.5  # a direction whose sd is above this share of the prior's is weakly determined
TAKES_PART = 0.25  # share of a direction from which on a parameter is named
MOST_NAMED = 5
ALONE = 5.0  # an unknown whose sd grows by more than this without an episode is known from that one alone


@dataclass(frozen=True, eq=False)
class Direction:
    """A direction in the space of unknowns, each in units of its prior's sd, and how far along it all is possible."""

    parts: np.ndarray  # G, of length one
    sd: float  # of the posterior along it, in prior sd

    def sentence(self, problem: Problem) -> str:
        """What it means for a person."""
        order = np.argsort(-np.abs(self.parts))
        named = [int(u) for u in order if abs(self.parts[u]) >= TAKES_PART][:MOST_NAMED]
        names = [problem.names[u] for u in named]
        logs = [problem.beliefs[problem.parameter_of[u]].info.log for u in named]
        if len(named) == 1:
            return f"{names[0]} is not determined by these recordings ({min(self.sd, 1.0):.0%} of its prior remains)"
        shares = ", ".join(f"{self.parts[u] / self.parts[named[0]]:+.2g} {problem.names[u]}" for u in named)
        if len(named) == 2:
            against = self.parts[named[0]] * self.parts[named[1]] < 0
            word = ("product" if against else "ratio") if all(logs) else ("sum" if against else "difference")
            if any(logs) and not all(logs):
                return (
                    f"only a combination of {names[0]} and {names[1]} is determined (free along {shares}, in prior sd)"
                )
            return f"only the {word} of {names[0]} and {names[1]} is determined"
        together = f"{', '.join(names[:-1])} and {names[-1]}"
        if all(logs) and len({np.sign(self.parts[u]) for u in named}) == 1:
            return f"only ratios among {together} are determined: all can grow together"
        return f"only combinations of {together} are determined (free along {shares}, in prior sd)"


def weak_directions(fitted: Fit, below: float = WEAK) -> tuple[Direction, ...]:
    """Directions along which the recording leaves more than `below` of the prior's sd, the weakest first.

    The information is taken in units of the prior, so that one scale serves masses and delays alike.
    """
    problem = fitted.problem
    width = problem.width
    information = fitted.information * np.outer(width, width)
    values, vectors = np.linalg.eigh(information)
    found = []
    for value, vector in zip(values, vectors.T, strict=True):
        sd = 1 / np.sqrt(max(float(value), 0.0) + 1.0)  # with a prior of one sd
        if sd > below:
            found.append(Direction(vector, sd))
    return tuple(found)


def unidentified(problem: Problem, draws: np.ndarray) -> tuple[str, ...]:
    """Unknowns whose draws spread over more than `WEAK` of their prior's sd."""
    spread = draws.std(axis=0)
    return tuple(
        name for name, sd, width in zip(problem.names, spread, problem.width, strict=True) if sd > WEAK * width
    )


def at_bounds(problem: Problem, fitted: Fit) -> tuple[str, ...]:
    """Sentences about unknowns that the fit pushed against their limits."""
    low, high = problem.span
    found = []
    for u, name in enumerate(problem.names):
        info = problem.beliefs[problem.parameter_of[u]].info
        for edge, limit, word in ((low[u], info.low, "lower"), (high[u], info.high, "upper")):
            if abs(fitted.unknowns[u] - edge) < 1e-3 * (high[u] - low[u]) and abs(fitted.gradient[u]) > 0:
                found.append(
                    f"{name} is at its {word} limit {limit:.4g} {info.unit}: the prior may exclude the optimum"
                )
    return tuple(found)


def sd_of(fitted: Fit) -> np.ndarray:
    """The unknowns' sd by recording and prior together, without any widening."""
    return np.asarray(np.sqrt(np.diag(np.linalg.inv(fitted.information + _prior_precision(fitted.problem)))))


def _prior_precision(problem: Problem) -> np.ndarray:
    return np.diag(problem.prior()[1] + 1 / np.square(problem.width))


def episode_shifts(fitted: Fit) -> np.ndarray:
    """How far each unknown would move, in its own sd, were an episode left out (episodes, G): one Gauss–Newton step.

    Where the others say little of an unknown, the prior holds it, and it does not move far.
    """
    problem = fitted.problem
    total = fitted.information + _prior_precision(problem)
    sd = sd_of(fitted)
    found = np.zeros((len(fitted.by_episode), len(sd)))
    for e, share in enumerate(fitted.by_episode):
        pull = fitted.scores[fitted.score_episode == e].sum(axis=0)
        without = np.linalg.inv(total - share)
        told = np.sqrt(np.diag(without)) < ALONE * sd  # by the other episodes
        found[e] = np.where(told, -(without @ pull) / sd, 0.0)
    return found
