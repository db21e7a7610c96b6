"""Groups and their assignment: nothing straddles, sizes are met as whole groups allow, order is irrelevant."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.guard.recordings import recording
from twinproof.guard.assign import assign
from twinproof.guard.group import groups_of, label_table, require_three
from twinproof.guard.make import Grouping
from twinproof.nouns.errors import SplitError
from twinproof.nouns.split import PARTS, Alike, Split


def test_default_keys_are_those_of_the_four_that_are_labelled() -> None:
    made = recording([{"object": "a", "session": "1", "operator": "x"}, {"object": "b", "session": "1"}])
    keys, labels = label_table(made, None)
    assert keys == ("object", "session")
    assert labels[made.episodes[0].id] == {"object": "a", "session": "1"}


def test_an_episode_without_a_label_that_others_have_is_named() -> None:
    made = recording([{"object": "a"}, {"object": "b"}, {"scene": "s"}])
    with pytest.raises(SplitError, match=r"1 of 3 episodes have no 'object': episode 002\. .*leave 'object' out"):
        label_table(made, ("object",))
    with pytest.raises(SplitError, match=r"7 of 7 episodes have no 'operator': .* and 2 more\."):
        label_table(recording([{}] * 7), ("operator",))


def test_a_recording_without_labels_is_refused_unless_that_is_asked_for() -> None:
    made = recording([{"task": "push"}] * 3)
    with pytest.raises(SplitError, match="--group-by none"):
        label_table(made, None)
    assert label_table(made, ())[1] == {episode.id: {} for episode in made.episodes}


def test_episodes_hang_together_through_labels_and_copies() -> None:
    labels = {
        "a": {"object": "1", "session": "x"},
        "b": {"object": "1", "session": "y"},
        "c": {"object": "2", "session": "y"},
        "d": {"object": "3", "session": "z"},
        "e": {"object": "4", "session": "1"},  # "1" is an object there and a session here
    }
    assert groups_of(labels, []) == [("a", "b", "c"), ("d",), ("e",)]
    assert groups_of(labels, [Alike("d", "e", 1.0, 0.0)]) == [("a", "b", "c"), ("d", "e")]


def test_too_few_groups_name_what_binds_most() -> None:
    labels = {str(k): {"object": str(k), "session": "monday"} for k in range(5)}
    with pytest.raises(SplitError, match=r"1 group, .*session 'monday' binds 5 of 5 episodes\. .*--spans"):
        require_three(groups_of(labels, []), labels, ())
    pairs = (Alike("0", "1", 1.0, 0.0),)
    alone: dict[str, dict[str, str]] = {"0": {}, "1": {}, "2": {}}
    with pytest.raises(SplitError, match=r"2 groups, .*1 near-duplicate pairs bind the 3 episodes\. .*--threshold"):
        require_three(groups_of(alone, pairs), alone, pairs)
    with pytest.raises(SplitError, match=r"there are 1 episodes\. Record more"):
        require_three([("0",)], {"0": {}}, ())


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"sizes": (0.5, 0.5, 0.0)}, "three shares above 0"),
        ({"sizes": (0.5, 0.2, 0.2)}, "add up to 1"),
        ({"duplicates": "drop"}, "Use 'group' or 'refuse'"),
        ({"threshold": 0.0}, "above 0 is needed"),
        ({"gap_s": -1.0}, "0 s or more"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, object], match: str) -> None:
    with pytest.raises(SplitError, match=match):
        Grouping(**settings)  # type: ignore[arg-type]


def test_single_episodes_meet_the_sizes_exactly() -> None:
    parts = assign([(str(k),) for k in range(100)], (0.6, 0.2, 0.2), np.random.default_rng(0))
    assert [len(parts[name]) for name in PARTS] == [60, 20, 20]


def test_one_huge_group_leaves_one_for_each_other_part() -> None:
    groups = [tuple(f"a{k}" for k in range(50)), ("b",), ("c",)]
    parts = assign(groups, (0.1, 0.1, 0.8), np.random.default_rng(0))
    assert sorted(len(ids) for ids in parts.values()) == [1, 1, 50]
    assert len(parts["holdout"]) == 50


def test_the_seed_decides_between_equal_choices_and_nothing_else_does() -> None:
    groups = [(f"{k:02d}",) for k in range(20)]
    again = [assign(groups, (0.6, 0.2, 0.2), np.random.default_rng(7)) for _ in range(2)]
    assert again[0] == again[1]
    assert again[0] != assign(groups, (0.6, 0.2, 0.2), np.random.default_rng(8))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=3, max_size=7), st.integers(0, 99))
def test_sizes_come_close_to_the_best_that_whole_groups_allow(counts: list[int], seed: int) -> None:
    groups = [tuple(f"{g}_{k}" for k in range(count)) for g, count in enumerate(counts)]
    parts = assign(groups, (0.6, 0.2, 0.2), np.random.default_rng(seed))
    target = np.array([0.6, 0.2, 0.2]) * sum(counts)

    def error(got: np.ndarray) -> float:
        return float(((got - target) ** 2).sum())

    best = min(
        error(np.bincount(choice, weights=counts, minlength=3))
        for choice in itertools.product(range(3), repeat=len(counts))
        if len(set(choice)) == 3
    )
    found = np.array([len(parts[name]) for name in PARTS])
    assert all(found)
    assert error(found) <= best + max(counts) ** 2  # off by less than one group
    assert {id for ids in parts.values() for id in ids} == {id for group in groups for id in group}


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 8)), min_size=3, max_size=25),
    st.lists(st.tuples(st.integers(0, 24), st.integers(0, 24)), max_size=4),
    st.integers(0, 1000),
)
def test_for_any_labels_the_laws_hold_or_the_error_says_why(
    values: list[tuple[int, int]], copies: list[tuple[int, int]], seed: int
) -> None:
    labels = {f"e{k}": {"object": f"o{a}", "session": f"s{b}"} for k, (a, b) in enumerate(values)}
    pairs = tuple(Alike(f"e{a}", f"e{b}", 1.0, 0.0) for a, b in copies if a < b < len(values))
    groups = groups_of(labels, pairs)
    assert groups == groups_of(dict(reversed(labels.items())), reversed(pairs))
    if len(groups) < 3:
        with pytest.raises(SplitError, match="three parts need at least 3"):
            require_three(groups, labels, pairs)
        return
    parts = assign(groups, (0.6, 0.2, 0.2), np.random.default_rng(seed))
    made = Split(
        "r", ("object", "session"), labels, parts["calibration"], parts["validation"], parts["holdout"], {}, seed,
        (0.6, 0.2, 0.2), 3.0, alike=pairs,
    )  # fmt: skip
    for key in made.keys:  # the Split checked itself; here without its help
        for value in {each[key] for each in labels.values()}:
            holders = {part for part in PARTS for id in made.ids(part) if labels[id][key] == value}
            assert len(holders) == 1
    assert sorted(id for part in PARTS for id in made.ids(part)) == sorted(labels)
