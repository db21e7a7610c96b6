"""A law of physics in this house: compiled per Theta, poked into one model, or batched, a world does the same."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinproof.nouns.randomness import stream
from twinproof.nouns.theta import Theta
from twinproof.sim.instantiate import instantiate, poke_model
from twinproof.sim.parameters import parameter
from twinproof.sim.scene import Scene
from twinproof.sim.worlds import Worlds

SERVO = """
<mujoco>
  <option timestep="0.002"/>
  <worldbody>
    <body name="upper"><joint name="shoulder" axis="0 1 0" damping=".1" frictionloss=".05"/>
      <geom name="upper" type="capsule" fromto="0 0 0 .3 0 0" size=".03"/>
      <body name="lower" pos=".3 0 0"><joint name="elbow" axis="0 1 0" damping=".1" range="-1 1" limited="true"/>
        <geom name="lower" type="box" size=".12 .02 .03" pos=".12 0 0" mass=".4"/></body></body>
  </worldbody>
  <actuator><position name="shoulder" joint="shoulder" kp="40" kv="2"/><motor name="elbow" joint="elbow"/></actuator>
  <sensor><jointpos name="elbow" joint="elbow"/></sensor>
</mujoco>"""
CUBE = """
<mujoco>
  <option timestep="0.002" integrator="implicitfast" cone="elliptic"/>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 .1"/>
    <body name="cube" pos="0 0 .12" euler="20 30 10"><freejoint name="cube"/>
      <geom name="cube" type="box" size=".05 .04 .03" mass=".2" friction=".5 .01 .001" condim="6"/></body>
    <body name="pusher" pos="-.2 0 .04"><joint name="pusher" type="slide" axis="1 0 0" damping="1"/>
      <geom name="pusher" size=".03" mass=".5"/></body>
  </worldbody>
  <actuator><position name="pusher" joint="pusher" kp="60" kv="4" forcerange="-10 10"/></actuator>
</mujoco>"""
BALL = """
<mujoco>
  <option timestep="0.004" integrator="RK4"/>
  <worldbody>
    <body name="rod" pos="0 0 1"><joint name="ball" type="ball" damping=".05"/>
      <inertial pos="0 0 -.2" quat=".9 .1 .2 .3" mass="1" diaginertia=".02 .025 .01"/>
      <geom name="rod" type="cylinder" size=".02 .2" pos="0 0 -.2"/></body>
  </worldbody>
</mujoco>"""
# what is drawn for each scene: id -> range
SCENES = {
    "servo and delay": (
        Scene(SERVO, control_delay_s=0.02),
        {
            "body.lower.mass": (0.2, 1.0),
            "body.upper.com_x": (0.1, 0.2),
            "joint.shoulder.damping": (0.01, 0.5),
            "joint.shoulder.frictionloss": (0.0, 0.2),
            "joint.elbow.armature": (0.001, 0.05),
            "joint.elbow.range_offset": (-0.1, 0.1),
            "actuator.shoulder.gain": (20.0, 60.0),
            "actuator.shoulder.delay": (0.0, 0.02),
            "gravity.tilt_x": (-0.05, 0.05),
        },
    ),
    "contact": (
        Scene(CUBE),
        {
            "body.cube.mass": (0.1, 0.5),
            "body.cube.inertia_s12": (-0.2, 0.2),
            "geom.cube.friction_slide": (0.2, 1.0),
            "geom.floor.contact_timeconst": (0.01, 0.03),
            "geom.cube.restitution": (0.1, 0.6),
            "actuator.pusher.force_limit": (2.0, 12.0),
        },
    ),
    "ball joint": (
        Scene(BALL),
        {"body.rod.mass": (0.5, 2.0), "body.rod.inertia_d1": (-0.2, 0.2), "joint.ball.damping": (0.01, 0.2)},
    ),
}
WORLDS, STEPS = 4, 150


def drawn(ranges: dict[str, tuple[float, float]], seed: int) -> list[Theta]:
    rng = stream(seed, "three ways")
    thetas = []
    for world in range(WORLDS):
        some = [id for id in ranges if world == 0 or rng.random() < 0.7]  # not all worlds vary the same ids
        thetas.append(Theta({id: rng.uniform(*ranges[id]) for id in some}))
    return thetas


def one_by_one(models: list[mujoco.MjModel], controls: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """The states (worlds, steps, nq + nv) of each model, stepped by MuJoCo itself."""
    out = []
    for world, model in enumerate(models):
        data = mujoco.MjData(model)
        data.qvel[:] = turn
        data.ctrl[:] = 0
        rows = []
        for control in controls[:, world]:
            data.ctrl[:] = control
            mujoco.mj_step(model, data)
            rows.append(np.concatenate([data.qpos, data.qvel]))
        out.append(rows)
    return np.array(out)


@pytest.mark.parametrize("name", SCENES)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_compiled_poked_and_batched_worlds_move_alike_to_the_last_bit(name: str, seed: int) -> None:
    scene, ranges = SCENES[name]
    thetas = drawn(ranges, seed)
    nominal = scene.nominal()
    rng = stream(seed, "controls")
    controls = rng.uniform(-1, 1, (1, WORLDS, nominal.nu)).repeat(STEPS, axis=0)
    controls[STEPS // 2 :] *= -0.5
    turn = rng.uniform(-1, 1, nominal.nv)

    compiled = one_by_one([instantiate(scene, theta) for theta in thetas], controls, turn)
    poked = one_by_one([poke_model(nominal, theta) for theta in thetas], controls, turn)
    worlds = Worlds(scene, thetas)
    worlds.view("qacc_warmstart")[...] = 0  # a fresh MjData has none
    worlds.qvel[...] = turn
    batched = np.empty_like(compiled)
    for step in range(STEPS):
        worlds.step(controls[step])
        batched[:, step] = np.concatenate([worlds.qpos, worlds.qvel], axis=1)

    assert np.isfinite(compiled).all()
    assert not np.array_equal(compiled[0], compiled[1])  # the Thetas do something
    np.testing.assert_array_equal(batched, poked)
    # compiling takes other roads to some inertias and frames: rounding, grown by 150 steps of contact
    np.testing.assert_allclose(poked, compiled, rtol=0, atol=1e-9)


def test_the_order_in_which_worlds_were_given_their_thetas_is_irrelevant() -> None:
    scene, ranges = SCENES["contact"]
    first, second = drawn(ranges, 1), drawn(ranges, 2)
    changed, fresh = Worlds(scene, first), Worlds(scene, second)
    changed.step(np.ones((WORLDS, 1)), 20)
    changed.reset([2, 0], thetas=[second[2], second[0]])
    changed.reset([1, 3], thetas=[second[1], second[3]])
    for worlds in (changed, fresh):
        worlds.step(np.full((WORLDS, 1), 0.3), 100)
    np.testing.assert_array_equal(changed.qpos, fresh.qpos)


def test_a_parameter_that_must_be_compiled_runs_on_models_of_its_own() -> None:
    scene, _ = SCENES["contact"]
    assert not parameter("geom.cube.scale").fast(scene.nominal())
    thetas = [Theta({"geom.cube.scale": 1.5, "body.cube.mass": 0.3}), Theta({"geom.cube.scale": 0.7})]
    worlds = Worlds(scene, thetas)
    worlds.view("qacc_warmstart")[...] = 0
    models = [instantiate(scene, theta) for theta in thetas]
    alone = one_by_one(models, np.zeros((200, 2, 1)), np.zeros(worlds.model.nv))
    for step in range(200):
        worlds.step(np.zeros((2, 1)))
        np.testing.assert_array_equal(worlds.qpos, alone[:, step, : worlds.model.nq])
