"""Recorded commands for many Thetas and windows at once, and how a trajectory moves with everything it depends on."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from tests.sim.models import ARM
from twinproof.nouns.errors import SimError
from twinproof.nouns.randomness import stream
from twinproof.nouns.theta import Theta
from twinproof.sim.divergence import Limits
from twinproof.sim.instantiate import instantiate
from twinproof.sim.jacobian import Differences, jacobian
from twinproof.sim.parameters import parameter
from twinproof.sim.rollout import Rollouts
from twinproof.sim.scene import Scene
from twinproof.sim.tangent import differentiate_pos, integrate_pos
from twinproof.sim.windows import Held, Start, cut
from twinproof.sim.worlds import Worlds

SCENE = Scene(ARM)
PENDULUM = """
<mujoco>
  <option timestep="0.001" integrator="RK4"/>
  <worldbody><body name="bob"><joint name="hinge" axis="0 1 0"/>
    <inertial pos="0 0 -.5" mass="2" diaginertia="1e-6 1e-6 1e-6"/><geom size=".01" pos="0 0 -.5"/></body></worldbody>
  <actuator><motor name="hinge" joint="hinge"/></actuator>
</mujoco>"""
MASS_ON_RAIL = """
<mujoco>
  <option timestep="0.002" gravity="0 0 0"/>
  <worldbody><body name="cart"><joint name="rail" type="slide" axis="1 0 0"/>
    <geom name="cart" size=".1" mass="2"/></body></worldbody>
  <actuator><motor name="push" joint="rail"/></actuator>
</mujoco>"""
TUMBLE = """
<mujoco>
  <option timestep="0.002" integrator="implicitfast"/>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 .1"/>
    <body name="brick" pos="0 0 1"><freejoint/><geom name="brick" type="box" size=".1 .05 .03" mass=".5"/>
      <body name="rod" pos=".1 0 0"><joint name="ball" type="ball" damping=".01"/>
        <geom name="rod" type="capsule" size=".01" fromto="0 0 0 .2 0 0" mass=".1"/></body></body>
    <body name="arm" pos="1 0 1"><joint name="arm" axis="0 1 0" damping=".1"/>
      <geom name="arm" type="capsule" size=".02" fromto="0 0 0 .3 0 0" mass=".3"/></body>
  </worldbody>
  <actuator><position name="arm" joint="arm" kp="10"/></actuator>
</mujoco>"""


def episode(scene: Scene, theta: Theta, samples: int, substeps: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """States and commands of one MuJoCo world: state i is there when command i is sent."""
    model = instantiate(scene, theta)
    data = mujoco.MjData(model)
    commands = np.cumsum(stream(seed, "commands").normal(0, 0.2, (samples, model.nu)), axis=0)
    qpos, qvel = [], []
    for command in commands:
        qpos.append(data.qpos.copy())
        qvel.append(data.qvel.copy())
        data.ctrl[:] = command
        for _ in range(substeps):
            mujoco.mj_step(model, data)
    return np.array(qpos), np.array(qvel), commands


def test_rollouts_of_thetas_by_windows_are_what_single_worlds_do() -> None:
    thetas = [Theta({"body.lower.mass": 0.5}), Theta({"joint.elbow.damping": 1.0}), Theta()]
    rollouts = Rollouts(SCENE, ("qpos", "qvel", "sensordata", "xpos"), substeps=4)
    qpos, qvel, commands = episode(SCENE, thetas[0], 30, 4)
    windows = cut(qpos, qvel, commands, length=10)
    rolled = rollouts.roll(thetas, windows.start, windows.controls)
    assert rolled["xpos"].shape == (3, 3, 10, SCENE.nominal().nbody, 3)
    for p, theta in enumerate(thetas):
        model = instantiate(SCENE, theta)
        for w, first in enumerate(windows.first):
            data = mujoco.MjData(model)
            data.qpos[:], data.qvel[:] = qpos[first], qvel[first]
            for t in range(10):
                data.ctrl[:] = commands[first + t]
                for _ in range(4):
                    mujoco.mj_step(model, data)
                np.testing.assert_allclose(rolled["qpos"][p, w, t], data.qpos, rtol=0, atol=1e-10)
                np.testing.assert_allclose(rolled["qvel"][p, w, t], data.qvel, rtol=0, atol=1e-8)
                now = mujoco.MjData(model)
                now.qpos[:], now.qvel[:] = data.qpos, data.qvel
                mujoco.mj_forward(model, now)  # sensors and poses belong to the same instant as the state
                np.testing.assert_allclose(rolled["sensordata"][p, w, t], now.sensordata, atol=1e-8)
                np.testing.assert_allclose(rolled["xpos"][p, w, t], now.xpos, atol=1e-8)
    assert not rolled.diverged.any()


def test_memory_is_bounded_by_chunks_that_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    qpos, qvel, commands = episode(SCENE, Theta(), 20, 3)
    windows = cut(qpos, qvel, commands, length=20)
    outputs = ("qpos", "sensordata", "xpos")
    whole = Rollouts(SCENE, outputs, substeps=3).roll([Theta()], windows.start, windows.controls)
    for chunk in (1, 5000):
        monkeypatch.setattr("twinproof.sim.recorder._CHUNK_BYTES", chunk)
        pieces = Rollouts(SCENE, outputs, substeps=3).roll([Theta()], windows.start, windows.controls)
        for name in outputs:
            np.testing.assert_array_equal(pieces[name], whole[name])


def test_poses_belong_to_their_sample_under_runge_kutta_too() -> None:
    scene = Scene(PENDULUM)
    rolled = Rollouts(scene, ("qpos", "xipos", "sensordata"), substeps=5).roll(
        [Theta()], Start(np.array([[1.0]]), np.zeros((1, 1))), np.zeros((1, 40, 1))
    )
    angle = rolled["qpos"][0, 0, :, 0]
    np.testing.assert_allclose(
        rolled["xipos"][0, 0, :, 1], np.stack([-0.5 * np.sin(angle), 0 * angle, -0.5 * np.cos(angle)], -1)
    )


def test_the_one_step_mode_predicts_every_next_sample() -> None:
    qpos, qvel, commands = episode(SCENE, Theta(), 25, 5)
    windows = cut(qpos, qvel, commands, length=1, stride=1)
    assert windows.controls.shape == (25, 1, 2)
    rolled = Rollouts(SCENE, substeps=5).roll(
        [Theta(), Theta({"body.lower.mass": 2.0})], windows.start, windows.controls
    )
    np.testing.assert_allclose(rolled["qpos"][0, :-1, 0], qpos[1:], atol=1e-9)
    assert np.abs(rolled["qpos"][1, :-1, 0] - qpos[1:]).max() > 1e-4


def test_the_seams_of_multiple_shooting_are_zero_for_the_truth_and_not_for_another() -> None:
    qpos, qvel, commands = episode(SCENE, Theta(), 40, 5)
    windows = cut(qpos, qvel, commands, length=12, stride=7)  # windows overlap by five samples
    assert windows.first.tolist() == [0, 7, 14, 21, 28]
    rolled = Rollouts(SCENE, substeps=5).roll(
        [Theta(), Theta({"joint.elbow.damping": 2.0})], windows.start, windows.controls
    )
    seams = windows.seams(SCENE.nominal(), rolled["qpos"], rolled["qvel"])
    assert seams.shape == (2, 4, 2 * SCENE.nominal().nv)
    np.testing.assert_allclose(seams[0], 0, atol=1e-8)
    assert (np.abs(seams[1]).max(axis=-1) > 1e-3).all()
    apart = cut(qpos, qvel, commands, length=3, stride=5)
    rolled = Rollouts(SCENE, substeps=5).roll([Theta()], apart.start, apart.controls)
    with pytest.raises(SimError, match="3 samples long and begin 5 apart: between them nothing is simulated"):
        apart.seams(SCENE.nominal(), rolled["qpos"], rolled["qvel"])


def test_commands_on_their_own_clock_hold_until_the_next() -> None:
    rollouts = Rollouts(SCENE, substeps=10)  # samples of 20 ms; commands come at 0, 7 and 26 ms
    start = Start(SCENE.nominal().qpos0, np.zeros(SCENE.nominal().nv))
    clock, value = np.array([0.0, 0.007, 0.026]), np.array([[0.1, 0.2], [0.5, -0.3], [-0.2, 0.4]])
    held = rollouts.roll([Theta()], start, Held(clock, value[None]), samples=3)
    model = SCENE.compile()
    data = mujoco.MjData(model)
    for sample in range(3):
        for step in range(10 * sample, 10 * sample + 10):
            data.ctrl[:] = value[np.flatnonzero(clock <= 0.002 * step + 1e-9)[-1]]
            mujoco.mj_step(model, data)
        np.testing.assert_allclose(held["qpos"][0, 0, sample], data.qpos, atol=1e-10)
    own = Held(np.stack([clock, clock + np.array([0, 0.01, 0.01])]), np.stack([value, value]))
    both = rollouts.roll([Theta()], start, own, samples=3)
    np.testing.assert_array_equal(both["qpos"][0, 0], held["qpos"][0, 0])
    assert not np.array_equal(both["qpos"][0, 1], held["qpos"][0, 0])


def test_what_was_commanded_before_the_window_reaches_a_delayed_actuator() -> None:
    scene, delayed = (
        Scene(ARM, control_delay_s=0.02),
        Theta({"actuator.elbow.delay": 0.02, "actuator.shoulder.delay": 0.01}),
    )
    qpos, qvel, commands = episode(scene, delayed, 30, 5)
    rollouts = Rollouts(scene, substeps=5)
    past = np.repeat(commands[10:15], 5, axis=0)
    rest = Start(qpos[15], qvel[15], past=past)
    told = rollouts.roll([delayed], rest, commands[None, 15:])
    np.testing.assert_allclose(told["qpos"][0, 0, :-1], qpos[16:], atol=1e-8)
    untold = rollouts.roll([delayed], Start(qpos[15], qvel[15]), commands[None, 15:])
    assert np.abs(untold["qpos"][0, 0, :-1] - qpos[16:]).max() > 1e-4


def test_rows_that_diverge_are_nan_from_there_on_and_say_why() -> None:
    stiff = Theta({"actuator.elbow.gain": 1e5, "actuator.elbow.velocity_gain": 0.0, "actuator.elbow.force_limit": 1e6,
                   "body.lower.mass": 0.002})  # fmt: skip
    qpos, qvel, commands = episode(SCENE, Theta(), 40, 5)
    windows = cut(qpos, qvel, commands, length=20)
    rollouts = Rollouts(SCENE, ("qpos", "sensordata"), substeps=5)
    rolled = rollouts.roll([Theta(), stiff], windows.start, windows.controls)
    assert rolled.diverged.tolist() == [[False, False], [True, True]]
    alone = rollouts.roll([Theta()], windows.start, windows.controls)
    np.testing.assert_array_equal(rolled["qpos"][0], alone["qpos"][0])
    at = rolled.diverged_at[1, 0]
    for name in ("qpos", "sensordata"):
        assert np.isnan(rolled[name][1, 0, at:]).all()
        assert np.isfinite(rolled[name][1, 0, :at]).all()
    why = rolled.why(1, 0)
    assert why is not None
    assert 5 * at < why.step <= 5 * (at + 1)
    assert "actuator 'elbow': its gain is too stiff" in why.cause
    assert rolled.why(0, 0) is None


def test_a_workspace_bounds_rollouts_too() -> None:
    start = Start(SCENE.nominal().qpos0, np.array([0, 0, 40.0, 0, 0, 0, 0, 0]))
    rolled = Rollouts(SCENE, substeps=5, limits=Limits(workspace_m=2.0)).roll([Theta()], start, np.zeros((1, 30, 2)))
    assert rolled.diverged.all()
    assert "outside the limit of 2 m or rad" in str(rolled.why(0, 0))


def test_simulations_are_kept_between_calls_and_forget_the_last_thetas() -> None:
    rollouts = Rollouts(SCENE, substeps=2)
    start, controls = Start(SCENE.nominal().qpos0, np.zeros(8)), np.full((2, 10, 2), 0.3)
    first = rollouts.roll([Theta({"body.lower.mass": 1.0}), Theta()], start, controls)["qpos"].copy()
    batches = [population.batch for population in rollouts._kept.values()]
    other = rollouts.roll([Theta({"joint.elbow.damping": 1.0}), Theta({"body.lower.mass": 3.0})], start, controls)
    again = rollouts.roll([Theta({"body.lower.mass": 1.0}), Theta()], start, controls)
    assert [population.batch for population in rollouts._kept.values()] == batches
    np.testing.assert_array_equal(again["qpos"], first)
    assert not np.array_equal(other["qpos"], first)
    fresh = Rollouts(SCENE, substeps=2).roll([Theta({"body.lower.mass": 1.0}), Theta()], start, controls)
    np.testing.assert_array_equal(fresh["qpos"], first)


def test_a_parameter_that_must_be_compiled_can_be_rolled_out() -> None:
    thetas = [Theta({"geom.cube.scale": 1.0}), Theta({"geom.cube.scale": 2.0})]
    start = Start(SCENE.nominal().qpos0 + np.array([0, 0, 0, 0, 0.3, 0, 0, 0, 0]), np.zeros(8))
    rolled = Rollouts(SCENE, substeps=5).roll(thetas, start, np.zeros((1, 100, 2)))
    assert rolled["qpos"][0, 0, -1, 4] == pytest.approx(0.05, abs=0.01)
    assert rolled["qpos"][1, 0, -1, 4] == pytest.approx(0.10, abs=0.01)


def test_what_cannot_be_rolled_out_is_refused() -> None:
    rollouts, start = Rollouts(SCENE), Start(SCENE.nominal().qpos0, np.zeros(8))
    with pytest.raises(SimError, match="the controls are 3 wide; the model has 2 actuators: shoulder, elbow"):
        rollouts.roll([Theta()], start, np.zeros((1, 5, 3)))
    bad = np.zeros((2, 5, 2))
    bad[1, 3, 0] = np.inf
    with pytest.raises(SimError, match="actuator 'shoulder' in window 1, sample 3, is not finite"):
        rollouts.roll([Theta()], start, bad)
    with pytest.raises(SimError, match=r"controls have the shape \(5, 2\); needed are \(windows, samples, 2\)"):
        rollouts.roll([Theta()], start, np.zeros((5, 2)))
    with pytest.raises(SimError, match="the start's qvel is 7 wide, the model's is 8"):
        rollouts.roll([Theta()], Start(start.qpos, np.zeros(7)), np.zeros((1, 5, 2)))
    with pytest.raises(SimError, match="the start's qpos of row 0 has a number that is not finite"):
        rollouts.roll([Theta()], Start(start.qpos * np.nan, start.qvel), np.zeros((1, 5, 2)))
    with pytest.raises(SimError, match=r"the start's qpos has the shape \(3, 9\); with 1 Thetas and 2 windows"):
        rollouts.roll([Theta()], Start(np.tile(start.qpos, (3, 1)), start.qvel), np.zeros((2, 5, 2)))
    with pytest.raises(SimError, match="'qposs' is nothing that MuJoCo computes"):
        Rollouts(SCENE, ("qposs",))
    with pytest.raises(SimError, match="a control sample takes 0 physics steps"):
        Rollouts(SCENE, substeps=0)
    with pytest.raises(SimError, match="windows of 9 samples cannot be cut from 5 states and 5 commands"):
        cut(np.zeros((5, 9)), np.zeros((5, 8)), np.zeros((5, 2)), length=9)
    with pytest.raises(SimError, match="held commands have a clock but no end"):
        rollouts.roll([Theta()], start, Held(np.array([0.0]), np.zeros((1, 1, 2))))
    with pytest.raises(SimError, match="the first command begins at 0.5 s; nothing is known from 0 s until then"):
        Held(np.array([0.5]), np.zeros((1, 1, 2)))
    with pytest.raises(SimError, match="the times of held commands must increase"):
        Held(np.array([0.0, 0.0]), np.zeros((1, 2, 2)))
    with pytest.raises(SimError, match=r"\(3,\) command times do not fit commands of the shape \(1, 2, 2\)"):
        Held(np.array([0.0, 0.1, 0.2]), np.zeros((1, 2, 2)))


def test_tangent_space_is_mujocos() -> None:
    model = Scene(TUMBLE).compile()
    rng = stream(0, "tangent")
    for size in (0.0, 1e-9, 0.3, 2.0):
        qpos, change, back = (
            model.qpos0 + rng.normal(0, 1, model.nq),
            size * rng.normal(0, 1, model.nv),
            np.zeros(model.nv),
        )
        mujoco.mj_normalizeQuat(model, qpos)
        expected = qpos.copy()
        mujoco.mj_integratePos(model, expected, change, 1.0)
        moved = integrate_pos(model, np.tile(qpos, (2, 3, 1)), change)
        np.testing.assert_allclose(moved[1, 2], expected, atol=1e-12)
        mujoco.mj_differentiatePos(model, back, 1.0, qpos, expected)
        np.testing.assert_allclose(differentiate_pos(model, qpos, np.tile(expected, (4, 1)))[3], back, atol=1e-12)


def test_the_jacobian_of_a_pushed_mass_is_the_one_on_paper() -> None:
    rollouts = Rollouts(Scene(MASS_ON_RAIL), substeps=5)
    force = np.array([[1.0], [-0.5], [2.0], [0.3]])
    found = jacobian(
        rollouts, Theta({"body.cart.mass": 2.0}), Start(np.array([0.2]), np.array([0.4])), force[None],
        ["body.cart.mass"], state=True, control=True,
    )  # fmt: skip
    step_s, samples = rollouts.sample_s, 4
    time_s = step_s * np.arange(1, samples + 1)
    np.testing.assert_allclose(found.state["qpos"][0, :, 0], np.stack([np.ones(4), time_s], -1), rtol=1e-6)
    np.testing.assert_allclose(found.state["qvel"][0, :, 0], [[0, 1]] * 4, atol=1e-8)
    # v(t) = v0 + sum of f Δt / m, so dv/dm = -sum / m² and dv/df_i = Δt / m for every i already sent
    pushed = np.cumsum(force[:, 0]) * step_s
    np.testing.assert_allclose(found.parameters["qvel"][0, :, 0, 0], -pushed / 4.0, rtol=1e-6)
    np.testing.assert_allclose(found.control["qvel"][0, :, 0], np.tril(np.full((4, 4), step_s / 2.0)), atol=1e-8)
    np.testing.assert_allclose(found.base["qvel"][0, 0, :, 0], 0.4 + pushed / 2.0, rtol=1e-12)
    assert found.trusted.all()


def test_the_jacobian_of_a_small_swing_is_the_one_on_paper() -> None:
    rollouts = Rollouts(Scene(PENDULUM), substeps=20)
    theta = Theta({"joint.hinge.damping": 0.0})
    found = jacobian(
        rollouts, theta, Start(np.array([[1e-3], [2e-3]]), np.zeros((2, 1))), np.zeros((2, 40, 1)),
        ["joint.hinge.damping"], state=True, differences=Differences(state=1e-5, own={"joint.hinge.damping": 1e-3}),
    )  # fmt: skip
    omega, time_s = np.sqrt(9.81 / 0.5), rollouts.sample_s * np.arange(1, 41)
    for window in range(2):
        expected = np.stack([np.cos(omega * time_s), np.sin(omega * time_s) / omega], -1)
        np.testing.assert_allclose(found.state["qpos"][window, :, 0], expected, atol=1e-4)
        # q = q0 e^(-kt) (cos wt + k/w sin wt) with k = d / (2 m l²), so dq/dd = q0 (sin(wt)/w - t cos(wt)) / (2 m l²)
        slope = (
            1e-3 * (window + 1) * (np.sin(omega * time_s) / omega - time_s * np.cos(omega * time_s)) / (2 * 2 * 0.25)
        )
        np.testing.assert_allclose(found.parameters["qpos"][window, :, 0, 0], slope, atol=2e-6)


@pytest.mark.parametrize("central", [True, False])
def test_one_step_agrees_with_mujocos_own_transition_matrices(central: bool) -> None:
    scene = Scene(TUMBLE)
    model = scene.compile()
    data = mujoco.MjData(model)
    rng = stream(3, "transition")
    data.qpos[:] = integrate_pos(model, model.qpos0, rng.normal(0, 0.3, model.nv))
    data.qvel[:] = rng.normal(0, 1, model.nv)
    data.ctrl[:] = 0.4
    start = Start(data.qpos.copy(), data.qvel.copy())
    A, B = np.zeros((2 * model.nv, 2 * model.nv)), np.zeros((2 * model.nv, model.nu))
    mujoco.mjd_transitionFD(model, data, 1e-6, central, A, B, None, None)
    found = jacobian(
        Rollouts(scene), Theta(), start, np.full((1, 1, 1), 0.4), state=True, control=True,
        differences=Differences(central=central),
    )  # fmt: skip
    by_state = np.concatenate([found.state["qpos"][0, 0], found.state["qvel"][0, 0]])
    by_control = np.concatenate([found.control["qpos"][0, 0], found.control["qvel"][0, 0]])
    tolerance = 1e-7 if central else 1e-4
    np.testing.assert_allclose(by_state, A, atol=tolerance)
    np.testing.assert_allclose(by_control, B, atol=tolerance)


def test_the_jacobian_predicts_a_small_change_of_every_parameter_at_once() -> None:
    scene, ids = Scene(ARM), ["body.lower.mass", "joint.shoulder.damping", "actuator.elbow.gain", "body.upper.com_x"]
    rollouts = Rollouts(scene, ("qpos", "sensordata"), substeps=5)
    qpos, qvel, commands = episode(scene, Theta(), 30, 5)
    windows = cut(qpos, qvel, commands, length=15)
    found = jacobian(rollouts, Theta(), windows.start, windows.controls, ids)
    nominal = np.array([parameter(id).read(scene.nominal()) for id in ids])
    change = 1e-3 * np.abs(nominal)
    moved = rollouts.roll([Theta(dict(zip(ids, nominal + change, strict=True)))], windows.start, windows.controls)
    predicted = found.base["sensordata"][0] + found.parameters["sensordata"] @ change
    error = np.abs(moved["sensordata"][0] - predicted).max()
    assert error < 0.02 * np.abs(moved["sensordata"][0] - found.base["sensordata"][0]).max()


def test_a_step_is_cut_at_the_limits_and_a_window_that_diverges_is_not_trusted() -> None:
    damping = parameter("joint.elbow.damping").info
    below, above = Differences(own={damping.id: 0.1}).around(damping, 0.0)
    assert (below, above) == (0.0, 0.1)
    start = Start(np.stack([SCENE.nominal().qpos0] * 2), np.zeros((2, 8)))
    start.qvel[1, 2] = 40.0
    rollouts = Rollouts(SCENE, substeps=5, limits=Limits(workspace_m=2.0))
    found = jacobian(rollouts, Theta(), start, np.zeros((2, 30, 2)), ["body.cube.mass"])
    assert found.trusted.tolist() == [True, False]
    assert np.isnan(found.parameters["qpos"][1, -1]).all()
    with pytest.raises(SimError, match="a Jacobian needs"):
        jacobian(rollouts, Theta(), start, np.zeros((30, 2)), ["body.cube.mass"])


def test_offsets_backlash_and_biases_shape_what_is_commanded_and_measured() -> None:
    theta = Theta({"joint.elbow.offset": 0.1, "actuator.shoulder.backlash": 0.05, "sensor.shoulder.bias": 0.02})
    worlds = Worlds(SCENE, [theta], substeps=5)
    worlds.view("qacc_warmstart")[...] = 0
    commands = np.cumsum(stream(5, "commands").normal(0, 0.1, (20, 2)), axis=0)
    measured = [worlds.measure()[0]]
    for command in commands:
        worlds.step(command[None])
        measured.append(worlds.measure()[0])
    shown = SCENE.nominal().qpos0 + np.array([0, 0.1, 0, 0, 0, 0, 0, 0, 0])  # as the encoders show the start
    rolled = Rollouts(SCENE, ("measured", "qpos"), substeps=5).roll(
        [theta, Theta()], Start(shown, np.zeros(8), encoders=True), commands[None]
    )
    np.testing.assert_allclose(rolled["measured"][0, 0], measured[1:], atol=1e-9)
    assert np.abs(rolled["measured"][1, 0] - measured[1:]).max() > 0.01


def test_nothing_to_roll_out_and_rows_that_are_not_there_are_named() -> None:
    rollouts, start = Rollouts(SCENE), Start(SCENE.nominal().qpos0, np.zeros(8))
    with pytest.raises(SimError, match="no Thetas were given to roll out"):
        rollouts.roll([], start, np.zeros((1, 5, 2)))
    for times in (np.zeros(0), np.zeros((1, 0))):
        with pytest.raises(SimError, match="held commands have no times"):
            Held(times, np.zeros((1, 0, 2)))
    rolled = rollouts.roll([Theta()], start, np.zeros((2, 3, 2)))
    with pytest.raises(SimError, match="there is no Theta 1; there are 1"):
        rolled.why(1, 0)
    with pytest.raises(SimError, match="the number of the window is -1"):
        rolled.why(0, -1)
    with pytest.raises(SimError, match="the seed is -1"):
        Rollouts(SCENE, seed=-1)
