"""Contact margins of boxes, whose cliffs can be worked out by hand; overlaps in a scene."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reconstruct.solids import ball, box
from twinproof.nouns.errors import MeshError, SimError
from twinproof.reconstruct.margin import cliff, grip_margin, standing_margin
from twinproof.sim.grid import Plane
from twinproof.sim.scene import Scene
from twinproof.sim.separation import Solids, overlaps


def test_a_box_topples_where_its_centre_leaves_its_base() -> None:
    stand = standing_margin([box((0.1, 0.06, 0.2), (0, 0, 0.1))], (0, 0, 0.1), Plane())
    assert stand.gap_m == pytest.approx(0)
    assert stand.shift_m == pytest.approx(0.001)
    assert stand.base_m2 == pytest.approx(0.006)
    assert stand.tip_rad == pytest.approx(np.arctan2(0.03, 0.1))
    assert abs(stand.tip_towards[1]) == pytest.approx(1)
    assert stand.as_json()["base_m2"] == stand.base_m2


def test_a_tilted_box_and_a_ball_do_not_stand() -> None:
    turned = box((0.1, 0.1, 0.1)).moved(
        np.array([[1, 0, 0, 0], [0, 0.8, -0.6, 0], [0, 0.6, 0.8, 0.07], [0, 0, 0, 1.0]])
    )
    assert standing_margin([turned], (0, 0, 0.07), Plane()).tip_rad == 0
    ball_on_top = ball().moved(np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0.05], [0, 0, 0, 1.0]]))
    assert standing_margin([ball_on_top], (0, 0, 0.05), Plane(), 1e-5).base_m2 < 1e-4


def test_the_cliff_of_a_grip_is_where_a_finger_lets_go() -> None:
    shape = [box((0.04, 0.04, 0.04))]
    left, right = box((0.01, 0.02, 0.02), (-0.0245, 0, 0.01)), box((0.01, 0.02, 0.02), (0.0245, 0, 0.01))
    grip = grip_margin(shape, (left, right))
    assert grip.pressed_m == pytest.approx((0.0005, 0.0005), abs=1e-6)
    assert grip.cliff_m == pytest.approx(0.0005, abs=2e-5)
    assert abs(grip.cliff_towards[0]) == pytest.approx(1)
    assert grip.as_json()["cliff_m"] == grip.cliff_m


def test_a_cliff_is_found_between_steps_and_its_absence_is_said() -> None:
    assert cliff(lambda x: x > 0.1234, 1.0) == pytest.approx(0.1234, abs=1e-4)
    assert cliff(lambda x: False, 1.0) == 1.0


def test_separation_is_that_of_the_boxes() -> None:
    solids = Solids({"one": [box((0.1, 0.1, 0.1))], "two": [box((0.1, 0.1, 0.1))]})
    T = np.eye(4)
    T[0, 3] = 0.13
    assert solids.separation_m("one", "two", T) == pytest.approx(0.03, abs=1e-6)
    T[0, 3] = 0.09
    assert solids.separation_m("one", "two", None, T) == pytest.approx(-0.01, abs=1e-5)
    with pytest.raises(SimError, match="no solid 'three'"):
        solids.separation_m("one", "three")


def test_bodies_inside_each_other_are_found() -> None:
    xml = """<mujoco><worldbody><body name="a" pos="0 0 {z}"><freejoint/><geom type="box" size=".1 .1 .1"/></body>
    <body name="b"><geom type="box" size=".1 .1 .1"/></body></worldbody></mujoco>"""
    assert overlaps(Scene(xml.format(z=0.2))) == ()
    (found,) = overlaps(Scene(xml.format(z=0.15)))
    assert (found.first, found.second) == ("a", "b")
    assert found.depth_m == pytest.approx(0.05, abs=1e-3)


def test_nothing_cannot_stand() -> None:
    with pytest.raises(MeshError, match="no collision part"):
        standing_margin([], (0, 0, 0), Plane())
