"""Parameters mean in motion what they say."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.models import ARM, EVERYTHING
from twinproof.nouns.theta import Theta
from twinproof.sim.instantiate import instantiate, poke_model
from twinproof.sim.parameters.bodies import COORDINATES, Inertial, from_log_cholesky, log_cholesky
from twinproof.sim.parameters.contacts import damping_ratio, restitution
from twinproof.sim.scene import Scene

BALL = """<mujoco><option timestep="0.0002" gravity="0 0 0"/><worldbody>
<geom name="floor" type="plane" size="1 1 .1"/>
<body name="ball" pos="0 0 .1005"><freejoint/><geom name="ball" size=".1"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("bounce", [0.05, 0.1353, 0.4, 0.7, 0.9])
def test_a_ball_bounces_with_its_restitution(bounce):
    model = instantiate(Scene(BALL), Theta({"geom.ball.restitution": bounce, "geom.floor.restitution": bounce}))
    data = mujoco.MjData(model)
    data.qvel[2] = -1.0
    while data.qvel[2] <= 0 or data.ncon:
        mujoco.mj_step(model, data)
        assert data.time < 2
    assert data.qvel[2] == pytest.approx(bounce, rel=0.02, abs=0.002)


@given(st.floats(1e-3, 0.97))
def test_damping_ratio_and_restitution_are_inverse(bounce):
    assert restitution(damping_ratio(np.array([bounce])))[0] == pytest.approx(bounce, rel=1e-12)


@settings(max_examples=30)
@given(st.lists(st.floats(-2, 2), min_size=10, max_size=10))
def test_any_ten_coordinates_are_a_physical_body_and_come_back(numbers):
    wanted = np.array([numbers])
    body = from_log_cholesky(wanted)
    low, middle, high = np.sort(body.moments[0])
    assert low > 0
    assert high <= low + middle + 1e-12 * high
    np.testing.assert_allclose(log_cholesky(body), wanted, rtol=1e-6, atol=1e-6)


def test_coordinates_of_a_known_box():
    half = np.array([0.1, 0.2, 0.3])
    moments = 2.0 / 3 * (np.sum(half**2) - half**2)
    box = Inertial(np.array([2.0]), np.array([[1.0, 2.0, 3.0]]), np.array([[1.0, 0, 0, 0]]), moments[None])
    found = dict(zip(COORDINATES, log_cholesky(box)[0], strict=True))
    assert np.exp(2 * found["alpha"]) == pytest.approx(2)
    assert [found["t1"], found["t2"], found["t3"]] == [1, 2, 3]
    assert np.exp([found["d1"], found["d2"], found["d3"]]) == pytest.approx(half / np.sqrt(3))


def test_a_servo_with_more_gain_still_stops_at_its_target():
    model = poke_model(Scene(ARM).nominal(), Theta({"actuator.shoulder.gain": 400.0, "gravity.magnitude": 0.01}))
    data = mujoco.MjData(model)
    data.ctrl[:] = 0.5
    for _ in range(4000):
        mujoco.mj_step(model, data)
    assert data.qpos[:2] == pytest.approx([0.5, 0.5], abs=1e-2)


def test_tilted_gravity_keeps_its_strength_and_leans():
    model = instantiate(Scene(ARM), Theta({"gravity.tilt_x": 0.1, "gravity.tilt_y": -0.2}))
    assert np.linalg.norm(model.opt.gravity) == pytest.approx(9.81)
    assert -model.opt.gravity[1] / 9.81 == pytest.approx(-np.sin(0.1))
    assert np.arctan2(-model.opt.gravity[0], -model.opt.gravity[2]) == pytest.approx(-0.2)


def test_a_scaled_geom_takes_its_mass_along_by_density_and_keeps_a_stated_one():
    scene = Scene(EVERYTHING)
    before = scene.nominal()
    grown = instantiate(scene, Theta({"mesh.wedge.scale": 2.0}))
    assert grown.body("meshed").mass[0] == pytest.approx(8 * before.body("meshed").mass[0])
    assert grown.body("meshed").inertia == pytest.approx(32 * before.body("meshed").inertia)
    stated = instantiate(scene, Theta({"geom.by_mass.scale": 2.0}))
    assert stated.body("by_mass").mass[0] == pytest.approx(0.3)
    assert stated.body("by_mass").inertia == pytest.approx(4 * before.body("by_mass").inertia)
    explicit = instantiate(scene, Theta({"geom.by_inertia.scale": 2.0}))
    assert explicit.body("by_inertia").inertia == pytest.approx(before.body("by_inertia").inertia)
    capsule = instantiate(scene, Theta({"geom.by_density.scale": 2.0}))
    assert capsule.geom("by_density").size[:2] == pytest.approx(2 * before.geom("by_density").size[:2])
    assert capsule.geom("by_density").pos == pytest.approx(before.geom("by_density").pos)


def test_a_camera_turns_about_its_own_axes():
    model = Scene(
        '<mujoco><worldbody><camera name="c"/></worldbody></mujoco>'
    )  # looks along -z, right is x, down is -y
    for turn, moved, wanted in (
        ("pitch", (0, 0, -1), (0, np.sin(0.1), -np.cos(0.1))),  # the view goes up when it turns about right
        ("yaw", (0, 0, -1), (np.sin(0.1), 0, -np.cos(0.1))),  # and to the right about down
        ("roll", (1, 0, 0), (np.cos(0.1), -np.sin(0.1), 0)),  # and right goes down about the view
    ):
        turned = instantiate(model, Theta({f"camera.c.{turn}": 0.1}))
        result = np.zeros(3)
        mujoco.mju_rotVecQuat(result, np.array(moved, float), turned.cam_quat[0])
        assert result == pytest.approx(np.array(wanted)), turn


def test_a_heavier_body_falls_no_faster_and_pushes_harder():
    scene = Scene(ARM)
    for model in (
        scene.nominal(),
        poke_model(scene.nominal(), Theta({"body.cube.mass": 5.0, "body.cube.com_x": 0.02})),
    ):
        data = mujoco.MjData(model)
        for _ in range(1500):
            mujoco.mj_step(model, data)
        assert data.body("cube").xpos[2] == pytest.approx(0.05, abs=2e-3)
        mass = model.body("cube").mass[0]
        data_force = data.qfrc_constraint[model.joint("cube").dofadr[0] + 2]
        assert data_force == pytest.approx(mass * 9.81, rel=0.01)
