"""Every figure that is computed from trials: success, metrics, bias, failures; each with its count and interval."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from twinproof.nouns.failure import Failure
from twinproof.nouns.hashing import Json
from twinproof.nouns.interval import Interval, clopper_pearson, mean_interval
from twinproof.nouns.panel import Domain, Panel
from twinproof.nouns.trial import Trial

LEVEL = 0.95
REPLAYED = "replay_"  # metrics of a condition's episode played again in a world, whatever the policy


def figures_of(panel: Panel, trials: Sequence[Trial], judged: str) -> dict[str, Json]:
    """All figures as plain data. `judged` is the policy that the claim of transfer is about."""
    policies = list(dict.fromkeys(trial.policy for trial in trials))
    cells = [(policy, domain) for policy in policies for domain in panel.domains]
    return {
        "level": LEVEL,
        "judged": judged,
        "success": [_success(trials, policy, domain) for policy, domain in cells],
        "by_condition": [
            {"condition": condition.name, **_success(trials, policy, domain, condition.name)}
            for policy, domain in cells
            for condition in panel.conditions
        ],
        "metrics": [row for policy, domain in cells for row in _metrics(panel, trials, policy, domain)],
        "bias": [row for policy in policies for row in _bias(panel, trials, policy)],
        "failures": [row for policy, domain in cells for row in _failures(trials, policy, domain)],
    }


def _of(trials: Iterable[Trial], policy: str, domain: str, condition: str | None = None) -> list[Trial]:
    return [
        trial
        for trial in trials
        if (trial.policy, trial.domain) == (policy, domain) and condition in (None, trial.condition)
    ]


def _counts(trials: Sequence[Trial]) -> tuple[int, int]:
    return sum(trial.success for trial in trials), len(trials)


def told(found: Interval) -> dict[str, Json]:
    """A number and its interval as plain data."""
    return {"value": found.value, "low": found.low, "high": found.high}


def _success(trials: Sequence[Trial], policy: str, domain: Domain, condition: str | None = None) -> dict[str, Json]:
    successes, count = _counts(_of(trials, policy, domain.name, condition))
    rate = told(clopper_pearson(successes, count, LEVEL))
    return {
        "policy": policy,
        "domain": domain.name,
        "kind": domain.kind,
        "successes": successes,
        "trials": count,
        **rate,
    }


def _metrics(panel: Panel, trials: Sequence[Trial], policy: str, domain: Domain) -> list[dict[str, Json]]:
    """The mean of every metric with Student's interval over what is independent; one value has no interval.

    Trials are, but a replay is the same for every trial of its condition: there the condition is.
    """
    rows = []
    for metric in panel.metrics:
        found: dict[Any, list[float]] = {}
        over = "conditions" if metric.name.startswith(REPLAYED) else "trials"
        for k, trial in enumerate(_of(trials, policy, domain.name)):
            if metric.name in trial.metrics:
                key = trial.condition if over == "conditions" else k
                found.setdefault(key, []).append(trial.metrics[metric.name])
        if not found:
            continue
        values = [math.fsum(each) / len(each) for each in found.values()]
        mean: dict[str, Json] = {"value": values[0], "low": None, "high": None}
        if len(values) > 1:
            mean = told(mean_interval(values, LEVEL))
        named = {"metric": metric.name, "unit": metric.unit, "better": metric.better}
        rows.append({"policy": policy, "domain": domain.name, **named, "count": len(values), "over": over, **mean})
    return rows


def _bias(panel: Panel, trials: Sequence[Trial], policy: str) -> list[dict[str, Json]]:
    """Success in each simulated domain minus that in reality, in points.

    Square-and-add of the two exact intervals (Newcombe, Statistics in Medicine 17, 1998, with Clopper and Pearson's in
    the place of Wilson's: wider, and never too narrow for few trials).
    """
    real = [domain for domain in panel.domains if domain.kind == "real"]
    if not real:
        return []
    one = clopper_pearson(*_counts(_of(trials, policy, real[0].name)), LEVEL)
    rows = []
    for domain in (domain for domain in panel.domains if domain.kind != "real"):
        other = clopper_pearson(*_counts(_of(trials, policy, domain.name)), LEVEL)
        apart = other.value - one.value
        low = apart - math.hypot(other.value - other.low, one.high - one.value)
        high = apart + math.hypot(other.high - other.value, one.value - one.low)
        points = {"value": 100 * apart, "low": 100 * low, "high": 100 * high}
        rows.append({"policy": policy, "domain": domain.name, "against": real[0].name, **points})
    return rows


def _failures(trials: Sequence[Trial], policy: str, domain: Domain) -> list[dict[str, Json]]:
    labels = Counter(t.failure.label for t in _of(trials, policy, domain.name) if t.failure is not None)
    return [
        {"policy": policy, "domain": domain.name, "label": label, "meaning": Failure.of(label).value, "trials": count}
        for label, count in sorted(labels.items(), key=lambda entry: (-entry[1], entry[0]))
    ]


def same(one: Any, other: Any) -> bool:
    """Whether two trees of figures are the same but for rounding: another machine adds in another order."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return set(one) == set(other) and all(same(one[name], other[name]) for name in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return bool(one == other)
