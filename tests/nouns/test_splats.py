"""Splats: their laws, groups, and what joining and taking keep."""

from __future__ import annotations

import numpy as np
import pytest

from twinproof.nouns.errors import SplatError
from twinproof.nouns.randomness import stream
from twinproof.nouns.splats import Splats, joined


def splats(count: int = 12, coefficients: int = 4, seed: int = 0, **changes) -> Splats:
    """Random splats in two groups."""
    rng = stream(seed, "splats")
    fields = {
        "means": rng.normal(size=(count, 3)),
        "quats_wxyz": rng.normal(size=(count, 4)),
        "log_scales": rng.uniform(-5, -1, (count, 3)),
        "logit_opacities": rng.normal(0, 2, count),
        "sh": rng.normal(0, 0.3, (count, coefficients, 3)),
        "group": np.arange(count) % 2,
        "groups": ("background", "mug"),
    }
    return Splats(**{**fields, **changes})


@pytest.mark.parametrize(("coefficients", "degree"), [(1, 0), (4, 1), (9, 2), (16, 3)])
def test_the_count_of_coefficients_is_the_degree(coefficients, degree):
    assert splats(coefficients=coefficients).degree == degree


def test_arrays_are_read_only_copies_in_float32():
    means = np.zeros((2, 3))
    made = splats(2, means=means)
    means[0] = 7
    assert made.means.dtype == np.float32
    assert (made.means == 0).all()
    with pytest.raises(ValueError, match="read-only"):
        made.means[0] = 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"means": np.zeros((12, 2))}, r"means has the shape \(12, 2\); needed is \(12, 3\)"),
        ({"quats_wxyz": np.ones((11, 4))}, r"quats_wxyz has the shape \(11, 4\)"),
        ({"sh": np.zeros((12, 5, 3))}, r"sh has the shape \(12, 5, 3\)"),
        ({"sh": np.zeros((12, 3))}, r"sh has the shape \(12, 3\)"),
        ({"log_scales": np.full((12, 3), np.nan)}, r"12 rows of log_scales are not finite \(first: 0\)"),
        ({"means": np.full((12, 3), 1e300)}, "12 rows of means are not finite"),
        ({"quats_wxyz": np.zeros((12, 4))}, r"12 have the quaternion 0 0 0 0 \(first: 0\)"),
        ({"group": np.zeros(3, int)}, r"group has the shape \(3,\) and 2 names"),
        ({"groups": ()}, "and 0 names"),
        ({"group": np.full(12, 2)}, "group runs from 2 to 2, but there are 2 names"),
        ({"group": np.full(12, -1)}, "group runs from -1 to -1"),
    ],
)
def test_splats_that_break_a_law_are_refused(changes, words):
    with pytest.raises(SplatError, match=words):
        splats(**changes)


def test_no_splats_at_all_are_splats_too():
    assert len(splats(0)) == 0
    assert len(splats().of("mug").of("mug")) == 6
    assert len(splats(group=np.zeros(12, int)).of("mug")) == 0


def test_a_group_taken_out_is_a_group_of_its_own():
    whole = splats()
    mug = whole.of("mug")
    assert mug.groups == ("mug",)
    assert (mug.group == 0).all()
    assert np.array_equal(mug.means, whole.means[1::2])
    with pytest.raises(SplatError, match="there is no group 'cup'; there are background, mug"):
        whole.of("cup")


def test_joining_the_groups_gives_every_splat_back():
    whole = splats()
    again = joined([whole.of("mug"), whole.of("background")])
    assert again.groups == ("mug", "background")
    for name in whole.groups:
        assert np.array_equal(again.of(name).means, whole.of(name).means)


def test_joining_fills_lower_degrees_with_zeros_and_joins_equal_names():
    both = joined([splats(coefficients=1), splats(coefficients=9, seed=1)])
    assert both.degree == 2
    assert both.groups == ("background", "mug")
    assert (both.sh[:12, 1:] == 0).all()
    assert len(both.of("mug")) == 12


def test_volumes_and_surfels_do_not_join_nor_does_nothing():
    for parts in ([], [splats(), splats(flat=True)]):
        with pytest.raises(SplatError, match="joining needs at least one scene"):
            joined(parts)
