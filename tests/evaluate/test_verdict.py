"""What trials say: rates, pairs, agreement and the claims, each against numbers computed by hand."""

from __future__ import annotations

import json
import re

import pytest

from tests.nouns import examples
from twinproof.evaluate.report import paired
from twinproof.evaluate.statistics import clopper_pearson
from twinproof.evaluate.verdict import claims, figures
from twinproof.nouns.failure import Failure
from twinproof.nouns.panel import Criterion, Domain, Metric, Panel
from twinproof.nouns.trial import Trial

DOMAINS = (Domain("real", "real", 6), Domain("twin", "twin", 20))
METRICS = (Metric("replay_rmse", "1", "lower"), Metric("time_s", "s", "lower"))
CRITERIA = (
    Criterion("the twin fits", "replay_rmse in twin, upper bound", "lower", 0.05),
    Criterion("the policy transfers", "success in real, lower bound", "higher", 0.3),
)


def panel(**changes) -> Panel:
    return examples.panel(**{"domains": DOMAINS, "metrics": METRICS, "criteria": CRITERIA, **changes})


def run(of: Panel, rates: dict[str, float], rmse: float = 0.01) -> list[Trial]:
    """Of every cell the first trials succeed, as many as the rate says, in both domains."""
    made = []
    for cell in of.cells(rates):
        good = cell.repeat < rates[cell.policy] * cell.domain.trials
        known = {"time_s": 1.0 + cell.repeat}
        if cell.domain.kind == "twin":
            known["replay_rmse"] = rmse * (1 if cell.condition.name == "red cube" else 1.2)
        failure = None if good else Failure.UNDECIDED
        made.append(
            Trial(
                cell.policy, cell.condition.name, cell.domain.name, cell.seed, good, failure, known, None, cell.repeat
            )
        )
    return made


def test_rates_pairs_and_failures_are_those_of_the_trials():
    found = figures(panel(), run(panel(), {"good": 1.0, "bad": 0.5}), ["good", "bad"])
    real = found["success"]["bad"]["real"]
    assert (real["successes"], real["trials"]) == (6, 12)
    assert real["exact"]["low"] == pytest.approx(clopper_pearson(6, 12).low)
    assert found["failures"]["bad"]["twin"] == {"undecided": 20}
    assert "good" not in found["failures"]
    pair = found["policies_paired"]["twin"]["pairs"][0]
    assert pair["difference"]["value"] == pytest.approx(-0.5)
    assert pair["sequential"]["verdict"] == "first"
    assert 1 <= pair["sequential"]["pairs"] <= 40
    assert pair["trials_needed"] >= 5
    assert found["policies_paired"]["twin"]["letters"] == {"good": "a", "bad": "b"}
    assert found["metrics"]["good"]["real"]["time_s"]["value"] == pytest.approx(3.5)
    json.dumps(found, allow_nan=False)


def test_the_screen_says_how_far_policies_are_apart_and_what_it_would_take():
    def said(**rates: float) -> list[str]:
        return paired(figures(panel(), run(panel(), rates), list(rates))["policies_paired"])

    real, twin = said(good=1.0, bad=0.5)
    assert re.fullmatch(
        r"twin: bad minus good -50 points \(-\d+ … -\d+\), p .+; rates like these need \d+ trials each", twin
    )
    assert real.startswith("real: bad minus good -50 points")
    assert said(good=1.0) == []
    assert not any("need" in line for line in said(a=0.5, b=0.5))
    three = said(good=1.0, bad=0.5, worse=0.5)
    assert [line.partition(" points")[0] for line in three if "minus" in line and "twin" in line] == [
        "twin: bad minus good -50",
        "twin: worse minus good -50",
    ]
    assert three[-1] == "twin: who shares a letter was not told apart: good a, bad b, worse b"


def test_policies_of_one_rate_need_no_number_of_trials():
    pair = figures(panel(), run(panel(), {"a": 0.5, "b": 0.5}), ["a", "b"])["policies_paired"]["real"]["pairs"][0]
    assert pair["trials_needed"] is None
    assert pair["sequential"]["verdict"] == "no difference found"


def test_domains_are_paired_on_the_same_seeds_and_few_real_trials_are_helped_by_many_simulated():
    found = figures(panel(), run(panel(), {"good": 0.5}), ["good"])
    both = found["domains_paired"]["good"]["twin"]
    assert both["both"] == 6
    assert both["only_real"] == 0
    assert both["bias_points"]["value"] > 0
    powered = found["powered"]["good"]["twin"]
    assert powered["estimate"]["low"] < powered["estimate"]["value"] < powered["estimate"]["high"]
    few = panel(domains=(Domain("real", "real", 2), Domain("twin", "twin", 4)))
    assert (
        "10 and 2 are needed" in figures(few, run(few, {"good": 0.5}), ["good"])["powered"]["good"]["twin"]["why_not"]
    )


def test_three_policies_are_ranked_with_a_ceiling_and_two_are_not():
    rates = {"a": 0.9, "b": 0.5, "c": 0.2}
    told = figures(panel(), run(panel(), rates), list(rates))["agreement"]["twin"]
    assert told["pearson"]["value"] > 0.9
    assert told["mmrv"]["value"] == 0
    assert told["ceiling"]["pearson"][0] <= told["ceiling"]["pearson"][2]
    assert figures(panel(), run(panel(), {"a": 1.0, "b": 0.5}), ["a", "b"])["agreement"] is None


def test_claims_are_held_or_failed_by_the_panels_own_thresholds():
    fits, transfers = claims(panel(), run(panel(), {"good": 1.0}), ["good"])
    assert (fits["verdict"], transfers["verdict"]) == ("held", "held")
    assert transfers["interval"][0] == pytest.approx(clopper_pearson(12, 12).low)
    fits, transfers = claims(panel(), run(panel(), {"good": 0.4}, rmse=0.2), ["good"])
    assert (fits["verdict"], transfers["verdict"]) == ("failed", "failed")


def test_one_condition_decides_by_its_own_number():
    one = panel(conditions=examples.panel().conditions[:1])
    fits, _ = claims(one, run(one, {"good": 1.0}, rmse=0.04), ["good"])
    assert fits["verdict"] == "held"
    assert "interval" not in fits


def test_without_reality_or_criteria_claims_are_not_tested_and_say_why():
    simulated = panel(domains=(DOMAINS[1],))
    _, transfers = claims(simulated, run(simulated, {"good": 1.0}), ["good"])
    assert transfers == {
        "name": "the policy transfers",
        "verdict": "not tested",
        "reason": "no robot and no logged real trials",
    }
    silent = panel(criteria=())
    assert {c["reason"] for c in claims(silent, run(silent, {"good": 1.0}), ["good"])} == {
        "the panel states no criterion"
    }
    nominal = panel(domains=(Domain("nominal", "nominal", 2),))
    fits, _ = claims(nominal, run(nominal, {"good": 1.0}), ["good"])
    assert fits["reason"] == "no episode was replayed in the twin"
    found = figures(nominal, run(nominal, {"good": 1.0}), ["good"])
    assert found["domains_paired"] == found["powered"] == {"good": {}}
