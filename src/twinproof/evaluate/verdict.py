"""What the trials of a panel say: success with intervals, policies and domains against each other, and the claims.

Every figure is computed from the trials, so that anyone who has them can compute it again. Trials of one condition
share an episode's setting; intervals take trials as independent, which the same seeds on both sides of a pair do not
harm and which many repeats of few conditions do: the number of conditions stands beside every rate.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from twinproof.evaluate.statistics import (
    Interval,
    beta_posterior,
    clopper_pearson,
    mean_interval,
    trials_needed,
    wilson,
)
from twinproof.evaluate.statistics_agreement import agreement
from twinproof.evaluate.statistics_many import compact_letters, holm
from twinproof.evaluate.statistics_paired import mcnemar
from twinproof.evaluate.statistics_powered import FEWEST, correlation, powered
from twinproof.evaluate.statistics_sequential import sequential_comparison
from twinproof.nouns.hashing import Json
from twinproof.nouns.panel import Criterion, Domain, Panel
from twinproof.nouns.randomness import stream
from twinproof.nouns.strict import plain
from twinproof.nouns.trial import Trial

ALPHA = 0.05
RANKED = 3  # policies, from which on a correlation over them is told

Key = tuple[str, int]  # condition and repeat: what pairs trials up


def figures(panel: Panel, trials: Sequence[Trial], policies: Sequence[str], level: float = 0.95) -> dict[str, Json]:
    """All figures as plain data. `policies` are in the order of the command: the first is the one under test."""
    table = _table(trials)
    return {
        "conditions": len(panel.conditions),
        "level": level,
        "success": {p: {d.name: _rate(table[p, d.name], level) for d in panel.domains} for p in policies},
        "failures": _failures(trials),
        "metrics": _metrics(panel, trials, policies, level),
        "policies_paired": {d.name: _policies(table, policies, d.name, level) for d in panel.domains},
        "domains_paired": {p: _domains(table, p, panel, level) for p in policies},
        "agreement": ranks(panel, trials, policies, level),
        "powered": {p: _powered(table, p, panel, level) for p in policies},
        "claims": claims(panel, trials, policies, level),
    }


def _table(trials: Iterable[Trial]) -> dict[tuple[str, str], dict[Key, Trial]]:
    found: dict[tuple[str, str], dict[Key, Trial]] = {}
    for trial in trials:
        found.setdefault((trial.policy, trial.domain), {})[trial.condition, trial.repeat] = trial
    return found


def _told(found: Interval) -> Json:
    return {"value": found.value, "low": found.low, "high": found.high, "level": found.level}


def _rate(rows: Mapping[Key, Trial], level: float) -> Json:
    k, n = sum(trial.success for trial in rows.values()), len(rows)
    return {
        "successes": k,
        "trials": n,
        "wilson": _told(wilson(k, n, level)),
        "exact": _told(clopper_pearson(k, n, level)),
        "beta": _told(beta_posterior(k, n, level)),
    }


def _failures(trials: Sequence[Trial]) -> Json:
    found: dict[str, dict[str, Counter[str]]] = {}
    for trial in trials:
        if trial.failure is not None:
            found.setdefault(trial.policy, {}).setdefault(trial.domain, Counter())[trial.failure.label] += 1
    return plain(found)


def _metrics(panel: Panel, trials: Sequence[Trial], policies: Sequence[str], level: float) -> Json:
    """Means over trials that know the metric; an interval where there are two or more."""
    found: dict[str, dict[str, dict[str, Json]]] = {}
    for policy, domain, metric in itertools.product(policies, panel.domains, panel.metrics):
        mine = [t.metrics for t in trials if t.policy == policy and t.domain == domain.name]
        values = [known[metric.name] for known in mine if metric.name in known]
        if values:
            told = {"value": float(np.mean(values)), "low": None, "high": None, "level": level, "count": len(values)}
            if len(values) > 1:
                told |= {name: getattr(mean_interval(values, level), name) for name in ("low", "high")}
            found.setdefault(policy, {}).setdefault(domain.name, {})[metric.name] = told
    return found


def _both(one: Mapping[Key, Trial], other: Mapping[Key, Trial]) -> tuple[list[bool], list[bool]]:
    """Outcomes of the pairs that both have."""
    shared = sorted(set(one) & set(other))
    return [one[key].success for key in shared], [other[key].success for key in shared]


def _policies(
    table: Mapping[tuple[str, str], Mapping[Key, Trial]], policies: Sequence[str], domain: str, level: float
) -> Json:
    """Every two policies on the same seeds (McNemar, Holm over all pairs), and letters that say who is apart."""
    pairs = list(itertools.combinations(policies, 2))
    if not pairs:
        return None
    found = [mcnemar(*_both(table[a, domain], table[b, domain]), level) for a, b in pairs]
    adjusted = holm([each.p_value for each in found])
    different = [pair for pair, p in zip(pairs, adjusted, strict=True) if p < ALPHA]
    best = sorted(policies, key=lambda p: -sum(t.success for t in table[p, domain].values()))
    rows = [
        {
            "first": a,
            "second": b,
            "difference": _told(each.difference),
            "p_value": each.p_value,
            "p_holm": float(p),
            **_apart(*_both(table[a, domain], table[b, domain]), level),
        }
        for (a, b), each, p in zip(pairs, found, adjusted, strict=True)
    ]
    return {"pairs": rows, "letters": dict(compact_letters(best, different))}


def _apart(first: Sequence[bool], second: Sequence[bool], level: float) -> dict[str, Json]:
    """When a test that looks after every pair would have stopped, and how many trials rates like these need."""
    looked = sequential_comparison([float(x) for x in first], [float(x) for x in second], len(first), level)
    worse, better = sorted((float(np.mean(first)), float(np.mean(second))))
    rho = correlation(np.asarray(first, float), np.asarray(second, float), level).value
    needed = trials_needed(worse, better, correlation=min(rho, 0.99)) if worse < better else None
    return {"sequential": {"verdict": looked.verdict, "pairs": looked.pairs}, "trials_needed": needed}


def _domains(
    table: Mapping[tuple[str, str], Mapping[Key, Trial]], policy: str, panel: Panel, level: float
) -> dict[str, Json]:
    """Each simulated domain against reality on the same conditions and seeds: who succeeded where, bias in points."""
    real = _real(panel)
    if real is None:
        return {}
    found: dict[str, Json] = {}
    for domain in _simulated(panel):
        both = mcnemar(*_both(table[policy, real.name], table[policy, domain.name]), level)
        points = {name: 100 * float(getattr(both.difference, name)) for name in ("value", "low", "high")}
        counts = {"both": both.both, "only_real": both.only_first, "only_sim": both.only_second}
        found[domain.name] = {**counts, "neither": both.neither, "bias_points": points, "p_value": both.p_value}
    return found


def ranks(
    panel: Panel, trials: Sequence[Trial], policies: Sequence[str], level: float = 0.95, fewest: int = RANKED
) -> Json:
    """r and MMRV over policies with intervals and noise ceiling; nothing where policies are too few to be ranked."""
    real = _real(panel)
    if real is None or len(policies) < fewest:
        return None
    table = _table(trials)
    found: dict[str, Json] = {}
    for domain in _simulated(panel):
        counts = [
            [(sum(t.success for t in rows.values()), len(rows)) for rows in (table[p, name] for p in policies)]
            for name in (real.name, domain.name)
        ]
        told = agreement(counts[0], counts[1], stream(panel.order_seed, "evaluate", "agreement", domain.name), level)
        found[domain.name] = {
            "policies": len(policies),
            "pearson": None if told.pearson is None else _told(told.pearson),
            "mmrv": _told(told.mmrv),
            "bias_points": _told(told.bias_points),
            "ceiling": {"pearson": list(told.ceiling.pearson), "mmrv": list(told.ceiling.mmrv)},
        }
    return found


def _powered(
    table: Mapping[tuple[str, str], Mapping[Key, Trial]], policy: str, panel: Panel, level: float
) -> dict[str, Json]:
    """Success in reality from few real and many simulated trials; the outcomes' correlation is the twin's worth."""
    real = _real(panel)
    if real is None:
        return {}
    found: dict[str, Json] = {}
    rows = table[policy, real.name]
    for domain in _simulated(panel):
        sim = table[policy, domain.name]
        shared, others = sorted(set(rows) & set(sim)), sorted(set(sim) - set(rows))
        if len(shared) < FEWEST or len(others) < 2:
            found[domain.name] = {
                "why_not": f"{len(shared)} pairs and {len(others)} further simulated trials; {FEWEST} and 2 are needed"
            }
            continue
        y, same = ([float(side[key].success) for key in shared] for side in (rows, sim))
        told = powered(y, same, [float(sim[key].success) for key in others], level)
        names = ("estimate", "real_alone", "correlation")
        found[domain.name] = {
            **{name: _told(getattr(told, name)) for name in names},
            "weight": told.weight,
            "saved": told.saved,
        }
    return found


def _real(panel: Panel) -> Domain | None:
    return next((domain for domain in panel.domains if domain.kind == "real"), None)


def _simulated(panel: Panel) -> list[Domain]:
    return [domain for domain in panel.domains if domain.kind != "real"]


def claims(panel: Panel, trials: Sequence[Trial], policies: Sequence[str], level: float = 0.95) -> list[Json]:
    """The two claims that trials decide, each held, failed or not tested, by the panel's own criteria."""
    stated = {criterion.claim: criterion for criterion in panel.criteria}
    return [
        _fits(panel, trials, stated.get("the twin fits"), level),
        _transfers(panel, trials, policies, stated.get("the policy transfers"), level),
    ]


def _fits(panel: Panel, trials: Sequence[Trial], criterion: Criterion | None, level: float) -> Json:
    name = "the twin fits"
    twin = next((domain.name for domain in panel.domains if domain.kind == "twin"), None)
    values: dict[str, list[float]] = {}
    for trial in trials:
        if trial.domain == twin and trial.policy == trials[0].policy and "replay_rmse" in trial.metrics:
            values.setdefault(trial.condition, []).append(trial.metrics["replay_rmse"])
    if criterion is None or not values:
        why = "the panel states no criterion" if criterion is None else "no episode was replayed in the twin"
        return {"name": name, "verdict": "not tested", "reason": why}
    means = [float(np.mean(each)) for each in values.values()]
    told = mean_interval(means, level) if len(means) > 1 else None
    decides = means[0] if told is None else told.high
    return {
        "name": name,
        "verdict": "held" if decides <= criterion.threshold else "failed",
        "number": f"{criterion.number}, {len(means)} conditions",
        "value": float(np.mean(means)),
        **({} if told is None else {"interval": [told.low, told.high]}),
        "threshold": criterion.threshold,
    }


def _transfers(
    panel: Panel, trials: Sequence[Trial], policies: Sequence[str], criterion: Criterion | None, level: float
) -> Json:
    name, real = "the policy transfers", _real(panel)
    mine = [t.success for t in trials if real is not None and t.domain == real.name and t.policy == policies[0]]
    if criterion is None or not mine:
        why = "the panel states no criterion" if criterion is None else "no robot and no logged real trials"
        return {"name": name, "verdict": "not tested", "reason": why}
    told = clopper_pearson(sum(mine), len(mine), level)
    return {
        "name": name,
        "verdict": "held" if told.low >= criterion.threshold else "failed",
        "number": f"success of {policies[0]} in {real.name if real else ''}, {sum(mine)} of {len(mine)} trials",
        "value": told.value,
        "interval": [told.low, told.high],
        "threshold": criterion.threshold,
    }
