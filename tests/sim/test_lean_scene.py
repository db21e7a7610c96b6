"""A lean scene moves exactly as the full one: only what shows is gone."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.models import ARM, EVERYTHING
from tests.sim.motions import BOX, DOUBLE, DRAWER, moved
from twinproof.nouns.randomness import stream
from twinproof.sim.scene import Scene

DRESSED = """
<mujoco>
  <option timestep="0.002"/>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 .1"/>
    <geom name="wall" type="box" size=".1 .1 .1" pos="0 2 0" contype="0" conaffinity="0"/>
    <light name="lamp" pos="0 0 3"/>
    <camera name="looked_from" pos="0 -2 1"/>
    <camera name="unused" pos="0 -2 1"/>
    <body name="box" pos="0 0 .2">
      <freejoint/>
      <geom name="core" type="box" size=".05 .04 .03" mass=".2"/>
      <geom name="badge" type="sphere" size=".02" pos=".03 .01 0" mass=".1" contype="0" conaffinity="0"/>
      <geom name="feeler" type="sphere" size=".02" pos="0 0 -.05" mass=".01" contype="0" conaffinity="0"/>
      <geom name="probe" type="sphere" size=".01" pos="0 0 .05" mass=".01" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
  <contact><pair geom1="feeler" geom2="floor"/></contact>
  <sensor>
    <framepos name="where" objtype="geom" objname="probe"/>
    <framepos name="seen" objtype="geom" objname="core" reftype="camera" refname="looked_from"/>
  </sensor>
</mujoco>
"""


@pytest.mark.parametrize("text", [ARM, BOX, DOUBLE, DRAWER, DRESSED, EVERYTHING])
def test_a_lean_scene_moves_bit_for_bit_like_the_full_one(text: str) -> None:
    full, lean = Scene(text), Scene(text).leaner()
    model, rng = full.nominal(), stream(0, "lean")
    controls = rng.uniform(-1, 1, (250, model.nu)) if model.nu else None
    qvel = rng.uniform(-1, 1, model.nv)
    one, other = (moved(scene, controls, seconds=0.5, qvel=qvel) for scene in (full, lean))
    np.testing.assert_array_equal(one.qpos, other.qpos)
    np.testing.assert_array_equal(one.qvel, other.qvel)
    np.testing.assert_array_equal(one.torque, other.torque)
    np.testing.assert_array_equal(one.sensors, other.sensors)


def test_what_only_shows_is_gone_and_what_sensors_and_pairs_name_stays() -> None:
    spec = Scene(DRESSED).leaner().spec()
    assert {geom.name for geom in spec.geoms} == {"floor", "core", "feeler", "probe"}
    assert [camera.name for camera in spec.cameras] == ["looked_from"]
    assert len(spec.lights) == 0
    full, lean = Scene(DRESSED).nominal(), Scene(DRESSED).leaner().nominal()
    np.testing.assert_array_equal(full.body_mass, lean.body_mass)
    np.testing.assert_array_equal(full.body_inertia, lean.body_inertia)
    assert lean.body("box").mass[0] == pytest.approx(0.32)


def test_parameters_change_a_lean_scene_as_they_change_the_full_one() -> None:
    truth = {"body.box.mass": 0.5, "body.box.com_x": 0.01, "body.box.friction_slide": 0.2}
    text = DRESSED.replace("<contact>", "<!--").replace("</contact>", "-->")  # a pair has a friction of its own
    one, other = (
        moved(scene, truth=truth, seconds=0.4, qvel=np.array([1, 0, 0, 0, 0, 2.0]))
        for scene in (Scene(text), Scene(text).leaner())
    )
    np.testing.assert_allclose(one.qpos, other.qpos, atol=1e-12)


def test_a_lean_scene_is_another_scene() -> None:
    assert Scene(DRESSED).leaner() != Scene(DRESSED)
    assert Scene(DRESSED).leaner() == Scene(DRESSED).leaner()
    assert Scene(DRESSED).leaner().leaner() == Scene(DRESSED).leaner()
