"""What a hand-made placement decides, on figures whose dependence is known."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.reconstruct.boards import pose
from twinproof.nouns.errors import ConfigError, TwinError
from twinproof.reconstruct.sensitivity import DeclaredRange, Offset, study

RANGE = DeclaredRange("the cube's place", x=0.01, yaw=0.1, scale=0.05)


def figures(offset: Offset) -> dict[str, float]:
    return {
        "reach": 0.5 + 3 * offset.x,
        "error": 1.0 + 2000 * offset.x**2,
        "success": 1.0 if offset.yaw < 0.03 else 0.2,
        "mass": 0.1 * (1 + offset.scale) ** 3,
        "colour": 7.0,
    }


def made(offset: Offset) -> Offset:
    return offset


def curve(found, knob, figure):
    return next(one for one in found.curves if one.knob == knob and one.figure == figure)


def test_shapes_spans_and_slopes_are_those_that_were_planted():
    found = study(made, figures, RANGE)
    assert curve(found, "x", "reach").shape == "straight"
    assert curve(found, "x", "reach").slope == pytest.approx(3)
    assert curve(found, "x", "reach").span == pytest.approx(0.06)
    assert curve(found, "x", "error").shape == "best where declared"
    assert curve(found, "yaw", "success").shape == "a cliff"
    assert curve(found, "scale", "mass").shape == "straight"
    assert curve(found, "scale", "reach").shape == "flat"
    assert not any(one.moves for one in found.curves if one.figure == "colour")
    assert found.together["mass"][0] < 0.1 < found.together["mass"][1]


def test_sentences_name_the_strongest_first_and_what_stays():
    said = study(made, figures, RANGE).sentences()
    assert said[0].startswith("success runs from 0.2 to 1 (1 as declared) when the cube's place is off by up to 5.73 °")
    assert any("colour: no knob" in one for one in said)
    assert any("With all knobs at once mass lies between" in one for one in said)


def test_the_table_and_the_report_hold_every_figure_and_knob():
    found = study(made, figures, RANGE, draws=4)
    assert len(found.table().splitlines()) == 2 + 3 * 5
    assert "| reach | x | ± 10 mm | 0.47 | 0.5 | 0.53 | straight |" in found.table()
    report = json.loads(json.dumps(found.report(), allow_nan=False))
    assert report["format"] == "twinproof/sensitivity/1"
    assert report["draws"] == 4
    assert len(report["curves"]) == 15


def test_a_tolerance_decides_what_matters():
    found = study(made, figures, RANGE, tolerances={"reach": 0.1})
    assert not curve(found, "x", "reach").moves


def test_a_place_where_the_twin_cannot_be_built_is_a_result():
    def refusing(offset: Offset) -> Offset:
        if offset.x > 0:
            raise TwinError("the cube is in the wall.")
        return offset

    found = study(refusing, figures, RANGE)
    assert np.isnan(curve(found, "x", "reach").values[-1])
    assert any("x cannot be varied over its whole range: the cube is in the wall." in one for one in found.sentences())
    assert 0 < found.failed < 16
    assert any("could not be built" in one for one in found.sentences())
    assert json.dumps(found.report(), allow_nan=False)


def test_where_nothing_but_the_declared_place_can_be_built_it_says_so():
    def only_here(offset: Offset) -> Offset:
        if offset != Offset():
            raise TwinError("it does not fit.")
        return offset

    found = study(only_here, figures, RANGE, draws=2)
    assert not found.together
    assert found.failed == 2
    assert curve(found, "x", "reach").span == 0
    assert "0.5 | 0.5 | 0.5" in found.table()


def test_the_same_seed_gives_the_same_draws_and_progress_is_told():
    told = []
    first = study(made, figures, RANGE, draws=3, progress=lambda done, doing, total: told.append((done, total)))
    assert told[-1] == (15, 15)
    assert study(made, figures, RANGE, draws=3).together == first.together


def test_an_offset_moves_a_pose_in_the_world_about_the_things_origin():
    start = pose((0, 0, 90), (1, 2, 3))
    moved = Offset(x=0.1, yaw=np.radians(10)).moved(start)
    np.testing.assert_allclose(moved, pose((0, 0, 100), (1.1, 2, 3)), atol=1e-12)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"x": -0.1}, "range of x is -0.1 m"),
        ({"scale": 1.0}, "a share below 1"),
        ({}, "every range is 0"),
    ],
)
def test_ranges_that_cannot_be_are_refused(change, says):
    with pytest.raises(ConfigError, match=says):
        DeclaredRange("the cube", **change)


def test_figures_steps_and_tolerances_that_cannot_be_are_refused():
    with pytest.raises(ConfigError, match="odd number of steps"):
        study(made, figures, RANGE, steps=4)
    with pytest.raises(ConfigError, match="tolerances for weight cannot be"):
        study(made, figures, RANGE, tolerances={"weight": 1.0})
    with pytest.raises(ConfigError, match="a tolerance is positive"):
        study(made, figures, RANGE, tolerances={"reach": 0.0})
    with pytest.raises(ConfigError, match="not finite"):
        study(made, lambda _: {"reach": float("nan")}, RANGE)
    with pytest.raises(ConfigError, match="the same ones every time"):
        study(made, lambda offset: {"a": 1.0} if offset == Offset() else {"b": 1.0}, RANGE)
    with pytest.raises(ConfigError, match="one at least"):
        study(made, lambda _: {}, RANGE)
