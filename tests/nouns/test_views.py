"""Posed views: pictures, poses, depth and masks that fit together."""

from __future__ import annotations

import numpy as np
import pytest

from twinproof.nouns.errors import SplatError
from twinproof.nouns.rig import Intrinsics
from twinproof.nouns.views import PosedView, Views


def view(name: str = "a", **changes) -> PosedView:
    fields = {
        "rgb": np.zeros((4, 6, 3), np.uint8),
        "intrinsics": Intrinsics(5, 5, 2.5, 1.5),
        "T_world_camera": np.eye(4),
    }
    return PosedView(name, **{**fields, **changes})


def test_views_may_differ_in_size():
    views = Views((view(), view("b", rgb=np.zeros((8, 3, 3), np.uint8))))
    assert len(views) == 2
    assert views.points.shape == (0, 3)


def test_what_a_view_holds_is_its_own_and_read_only():
    rgb = np.zeros((4, 6, 3), np.uint8)
    made = view(rgb=rgb, depth_m=np.ones((4, 6)), mask=np.full((4, 6), -1))
    rgb[:] = 9
    assert (made.rgb == 0).all()
    assert made.depth_m is not None
    assert made.depth_m.dtype == np.float32
    for array in (made.rgb, made.depth_m, made.mask, made.T_world_camera):
        assert not array.flags.writeable


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rgb": np.zeros((4, 6), np.uint8)}, r"the picture is uint8 of the shape \(4, 6\)"),
        ({"rgb": np.zeros((0, 6, 3), np.uint8)}, r"of the shape \(0, 6, 3\)"),
        ({"rgb": np.zeros((4, 6, 3))}, "the picture is float64"),
        ({"T_world_camera": np.eye(3)}, "not a finite rigid"),
        ({"T_world_camera": np.full((4, 4), np.nan)}, "not a finite rigid"),
        ({"T_world_camera": np.eye(4) * 2}, "not a finite rigid"),
        ({"T_world_camera": np.diag([1.0, 1, -1, 1])}, "mirrored"),
        ({"intrinsics": Intrinsics(0, 5, 2, 2)}, "positive fx and fy"),
        ({"intrinsics": Intrinsics(5, 5, np.nan, 2)}, "positive fx and fy"),
        ({"depth_m": np.ones((4, 5))}, r"depth_m has the shape \(4, 5\), the picture \(4, 6\)"),
        ({"mask": np.ones((6, 4))}, "mask has the shape"),
        ({"depth_m": np.full((4, 6), -1.0)}, "Write 0 where none is known"),
        ({"depth_m": np.full((4, 6), np.inf)}, "Write 0 where none is known"),
    ],
)
def test_a_view_that_breaks_a_law_is_refused(changes, words):
    with pytest.raises(SplatError, match=words):
        view(**changes)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"points": np.zeros((2, 3))}, r"\(2, 3\) points with \(0, 3\) colours"),
        ({"points": np.full((1, 3), np.nan), "colours": np.zeros((1, 3))}, "1 points are not finite"),
        ({"views": (view(), view())}, "two are called 'a'"),
        ({"views": (view(mask=np.ones((4, 6))),)}, "mask runs from 1 to 1, but there are 1 groups"),
        ({"views": (view(mask=np.full((4, 6), -2)),)}, "mask runs from -2 to -2"),
    ],
)
def test_views_that_break_a_law_are_refused(fields, words):
    with pytest.raises(SplatError, match=words):
        Views(**{"views": (view(),), **fields})
