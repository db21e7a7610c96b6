"""The laws of Panel."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.nouns.examples import contract, panel, trials
from twinproof.nouns.errors import PanelError
from twinproof.nouns.failure import Failure
from twinproof.nouns.panel import Condition, Criterion, Domain, Metric, Task


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"conditions": ()}, "a panel needs conditions"),
        (
            {"domains": (Domain("a", "twin", 1), Domain("a", "real", 1))},
            "a panel needs domains, each with its own name",
        ),
        ({"metrics": (Metric("", "m", "lower"),)}, "a panel needs metrics"),
        ({"conditions": (Condition("a", "", 1),)}, "condition 'a' needs the id of a holdout episode"),
        ({"conditions": (Condition("a", "h1", -1),)}, "a seed from 0"),
        ({"domains": (Domain("a", "twin", 0),)}, "domain 'a' has 0 trials"),
        ({"failure_labels": ("policy",)}, "'undecided' among them"),
        ({"failure_labels": ("bad luck", "undecided")}, "must be from reconstruction, contact"),
        ({"criteria": (Criterion("the twin fits", "x", "lower", 1),) * 2}, "a claim has two criteria"),
    ],
)
def test_a_panel_that_breaks_a_law_is_refused(change, words):
    with pytest.raises(PanelError, match=words):
        panel(**change)


def test_a_task_says_what_success_is_and_how_long_it_may_take():
    with pytest.raises(PanelError, match="says when it has succeeded"):
        Task("push", contract(), "", "fell", 10)
    with pytest.raises(PanelError, match="a horizon of 0 s"):
        Task("push", contract(), "there", "fell", 0)


def test_conditions_come_from_the_holdout():
    panel().check_holdout({"h1", "h2", "h3"})
    with pytest.raises(PanelError, match="condition 'blue cube' names the episode h2, which is not in the holdout"):
        panel().check_holdout({"h1"})


def test_every_policy_meets_every_condition_with_the_same_seeds():
    cells = list(panel().cells(["a", "b"]))
    assert len(cells) == 2 * 2 * (2 + 3)
    seeds = {}
    for cell in cells:
        seeds.setdefault((cell.condition.name, cell.repeat), set()).add(cell.seed)
    assert all(len(found) == 1 for found in seeds.values())
    assert len(set.union(*seeds.values())) == 2 * 3
    assert all(0 <= cell.seed < 2**63 for cell in cells)


def test_whole_trials_pass_in_any_order():
    panel().check_trials(trials(panel()))
    panel().check_trials(trials(panel())[::-1])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows[:-1], "1 trials are missing, the first is 2 of policy 'scripted' in condition 'blue cube'"),
        (
            lambda rows: (*rows, rows[0]),
            "trial 0 of policy 'ppo' in condition 'red cube', domain 'lab' is not in the panel",
        ),
        (lambda rows: (replace(rows[0], condition="green cube"), *rows[1:]), "is not in the panel, or stands twice"),
        (lambda rows: (replace(rows[0], repeat=9), *rows[1:]), "is not in the panel, or stands twice"),
        (lambda rows: (replace(rows[0], seed=5), *rows[1:]), r"ran with seed 5, the panel states \d+"),
        (
            lambda rows: (replace(rows[0], metrics={"luck": 1.0}), *rows[1:]),
            r"metrics that the panel does not: \['luck'\]",
        ),
    ],
)
def test_a_dropped_added_or_changed_trial_is_named(change, words):
    with pytest.raises(PanelError, match=words):
        panel().check_trials(change(trials(panel())))


def test_a_label_that_the_panel_does_not_use_is_named():
    few = panel(failure_labels=("policy", "undecided"))
    with pytest.raises(PanelError, match="is labelled 'perception', which the panel does not use"):
        few.check_trials(trials(few))
    assert Failure.of("residual_range") is Failure.RESIDUAL_RANGE
