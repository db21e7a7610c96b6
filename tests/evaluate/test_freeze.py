"""A panel is frozen: holdout episodes by id, contents unread, a line in the ledger before anything is opened."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.nouns import examples
from twinproof.evaluate.freeze import Design, check_frozen, domains_of, freeze
from twinproof.guard.audit import audit
from twinproof.nouns.errors import ConfigError, PanelError
from twinproof.nouns.panel import Domain, Panel
from twinproof.nouns.split import Split

DESIGN = Design(domains_of(["real=2", "twin=2", "draws=4"], "lab bench 'pendulum', simulated"), seed=3)


def task():
    return examples.panel().task


def test_a_panel_names_every_holdout_episode_and_stands_in_the_ledger_before_an_opening(practice, tmp_path):
    split = Split.load(practice.split)
    panel = freeze(task(), split, DESIGN)
    assert {condition.episode for condition in panel.conditions} == set(split.holdout)
    assert len({condition.seed for condition in panel.conditions}) == len(panel.conditions)
    check_frozen(panel, split)
    kinds = [line.kind for line in split.ledger.lines()]
    assert kinds == ["created", "panel"]
    with split.parts()[2].open(by=panel.hash):
        pass
    panel.save(tmp_path / "panel")
    assert Panel.load(tmp_path / "panel") == panel
    assert audit(practice.split, [tmp_path / "panel"]).ok


def test_the_sealed_file_is_not_read(practice):
    split = Split.load(practice.split)
    (practice.split / "holdout" / "key").unlink()
    assert len(freeze(task(), split, DESIGN).conditions) == len(split.holdout)


def test_all_three_claims_have_a_criterion_and_its_threshold(practice):
    panel = freeze(task(), Split.load(practice.split), replace(DESIGN, transfers_above=0.7))
    assert {c.claim: c.number for c in panel.criteria} == {
        "the twin fits": "replay_rmse in twin, upper bound",
        "the ranges cover": "coverage on validation",
        "the policy transfers": "success in real, lower bound",
    }
    assert panel.criteria[2].threshold == 0.7


def test_some_conditions_are_drawn_by_the_seed_alone(practice):
    split = Split.load(practice.split)
    one, same, other = (freeze(task(), split, replace(DESIGN, conditions=1, seed=s)) for s in (0, 0, 5))
    assert one.conditions == same.conditions
    assert one.conditions[0].seed != other.conditions[0].seed


def test_a_panel_of_another_split_is_refused(practice):
    split = Split.load(practice.split)
    with pytest.raises(PanelError, match="was not frozen"):
        check_frozen(examples.panel(), split)


def test_more_conditions_than_episodes_and_labels_that_the_split_does_not_know_are_refused(practice):
    split = Split.load(practice.split)
    with pytest.raises(PanelError, match="99 conditions were asked for, and 3 holdout episodes fit"):
        freeze(task(), split, replace(DESIGN, conditions=99))
    with pytest.raises(ConfigError, match="chosen by object; the split knows no label"):
        freeze(task(), split, replace(DESIGN, only={"object": "box_01"}))


def test_domains_are_read_from_texts():
    assert domains_of(["draws=20"]) == (Domain("draws", "draws", 20),)
    for text in ("draws", "draws=", "draws=x", "moon=3"):
        with pytest.raises(ConfigError, match="Write KIND=TRIALS"):
            domains_of([text])
