"""Rollouts with a force law in the loop are what a loop over single worlds with the same law does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
import pytest

from tests.sim.models import ARM
from twinproof.nouns.errors import SimError
from twinproof.nouns.randomness import stream
from twinproof.nouns.theta import Theta
from twinproof.sim.driven import Driven, mass_matrices
from twinproof.sim.instantiate import instantiate
from twinproof.sim.law import Action, Chain, Law, Moment, Plant, Running, plant
from twinproof.sim.rollout import Rollouts
from twinproof.sim.scene import Scene
from twinproof.sim.windows import Held, Start

SCENE = Scene("""
<mujoco>
  <option timestep="0.002"/>
  <worldbody><body name="upper"><joint name="shoulder" axis="0 1 0"/>
    <geom name="upper" type="capsule" fromto="0 0 0 0 0 -.2" size=".02" mass=".5"/>
    <body name="lower" pos="0 0 -.2"><joint name="elbow" axis="0 1 0"/>
      <geom name="lower" type="capsule" fromto="0 0 0 0 0 -.3" size=".02" mass=".4"/></body></body></worldbody>
  <actuator><motor name="shoulder" joint="shoulder"/><motor name="elbow" joint="elbow" gear="2"/></actuator>
  <sensor><jointpos name="elbow" joint="elbow"/></sensor>
</mujoco>""")


@dataclass(frozen=True)
class Brake(Law):
    """A spring to where the row began, a drag, and a command that comes `late` steps late: state and memory at once."""

    drag: float
    late: int = 0

    def memory(self, step_s: float) -> int:
        return self.late

    @staticmethod
    def running(laws: Sequence[Brake], which: np.ndarray, plant: Plant, begin: Moment) -> Running:
        return _Braking(np.array([law.drag for law in laws])[which], laws[0].late, begin.qpos)


class _Braking(Running):
    def __init__(self, drag: np.ndarray, late: int, home: np.ndarray) -> None:
        self._drag, self._late, self._home, self._steps = drag, late, home, 0

    def act(self, now: Moment) -> Action:
        self._steps += 1
        torque = -self._drag[:, None] * now.qvel - (now.qpos - self._home) / self._steps
        return Action(now.sent[:, -1 - self._late], torque)

    def restart(self, rows: np.ndarray, begin: Moment) -> None:
        raise AssertionError("rows of a rollout do not begin anew")


def commands(windows: int, samples: int, seed: int = 0) -> np.ndarray:
    return np.cumsum(stream(seed, "driven").normal(0, 0.05, (windows, samples, 2)), axis=1)


def start(windows: int) -> Start:
    rng = stream(1, "driven", "start")
    return Start(rng.normal(0, 0.5, (windows, 2)), rng.normal(0, 1, (windows, 2)))


def test_rows_under_a_law_are_what_single_worlds_with_the_law_do() -> None:
    thetas = [Theta({"body.lower.mass": 0.6}), Theta()]
    laws = [Brake(0.05, late=3), Brake(0.1, late=3)]
    sent, begin = commands(3, 20), start(3)
    rolled = Driven(SCENE, ("qpos", "qvel", "sensordata"), substeps=2).roll(thetas, laws, begin, sent)
    assert rolled["qpos"].shape == (2, 3, 20, 2)
    for p, (theta, law) in enumerate(zip(thetas, laws, strict=True)):
        model = instantiate(SCENE, theta)
        for w in range(3):
            data = mujoco.MjData(model)
            data.qpos[:], data.qvel[:] = begin.qpos[w], begin.qvel[w]
            line = np.concatenate([np.repeat(sent[w, :1], 3, axis=0), np.repeat(sent[w], 2, axis=0)])
            for k in range(40):
                data.ctrl[:] = line[k]  # three steps late, and before the start the first command held
                data.qfrc_applied[:] = -law.drag * data.qvel - (data.qpos - begin.qpos[w]) / (k + 1)
                mujoco.mj_step(model, data)
                if k % 2:
                    np.testing.assert_allclose(rolled["qpos"][p, w, k // 2], data.qpos, rtol=0, atol=1e-10)
                    np.testing.assert_allclose(rolled["sensordata"][p, w, k // 2], data.qpos[1], atol=1e-10)


def test_a_law_that_does_nothing_changes_nothing_and_leaves_no_force_behind() -> None:
    sent, begin = commands(2, 15), start(2)
    plain = Rollouts(SCENE).roll([Theta()], begin, sent)
    driven = Driven(SCENE)
    pushed = driven.roll([Theta()], [Brake(0.5)], begin, sent)
    nothing = driven.roll([Theta()], [Chain(())], begin, sent)
    np.testing.assert_array_equal(plain["qpos"], nothing["qpos"])
    assert np.abs(pushed["qpos"] - plain["qpos"]).max() > 1e-3


def test_a_chain_passes_controls_on_and_adds_torques() -> None:
    sent, begin = commands(2, 15), start(2)
    driven = Driven(SCENE)
    chain = driven.roll([Theta()], [Chain((Brake(0.1, late=2), Brake(0.2)))], begin, sent)
    again = driven.roll([Theta()], [Chain((Brake(0.2), Brake(0.1, late=2)))], begin, sent)
    np.testing.assert_allclose(chain["qpos"][:, :, :1], again["qpos"][:, :, :1], atol=1e-12)
    data, model = mujoco.MjData(SCENE.nominal()), SCENE.nominal()
    data.qpos[:], data.qvel[:] = begin.qpos[0], begin.qvel[0]
    data.ctrl[:], data.qfrc_applied[:] = sent[0, 0], -0.3 * data.qvel
    mujoco.mj_step(model, data)
    np.testing.assert_allclose(chain["qpos"][0, 0, 0], data.qpos, atol=1e-12)


def test_the_past_of_a_start_is_what_a_late_command_still_has_to_carry_out() -> None:
    sent, begin = commands(1, 5), start(1)
    past = np.array([[[9.0, 0.0], [0.3, 0.1]]])
    late = Driven(SCENE).roll([Theta()], [Brake(0.0, late=1)], Start(begin.qpos, begin.qvel, past=past), sent)
    now = np.concatenate([past[:, 1:], sent[:, :-1]], axis=1)
    prompt = Driven(SCENE).roll([Theta()], [Brake(0.0)], begin, now)
    np.testing.assert_allclose(late["qpos"], prompt["qpos"], atol=1e-12)


def test_commands_on_their_own_clock_are_held_as_in_plain_rollouts() -> None:
    held = Held(np.array([0.0, 0.013]), np.array([[[0.1, 0.0], [-0.2, 0.1]]]))
    begin = start(1)
    plain = Rollouts(SCENE).roll([Theta()], begin, held, samples=20)
    driven = Driven(SCENE).roll([Theta()], [Chain(())], begin, held, samples=20)
    np.testing.assert_array_equal(plain["qpos"], driven["qpos"])


def test_a_row_that_a_law_blows_up_is_flagged_and_the_others_go_on() -> None:
    sent, begin = commands(2, 60), start(2)
    rolled = Driven(SCENE).roll([Theta(), Theta()], [Brake(-80.0), Brake(0.1)], begin, sent)
    assert rolled.diverged[0].all()
    assert not rolled.diverged[1].any()
    assert np.isfinite(rolled["qpos"][1]).all()
    assert "force law" in str(rolled.why(0, 1))
    assert rolled.why(1, 0) is None


def test_encoder_offsets_shift_what_is_measured_and_where_a_row_begins() -> None:
    theta = Theta({"joint.elbow.offset": 0.2})
    begin = Start(np.array([[0.0, 0.2]]), np.zeros((1, 2)), encoders=True)
    driven = Driven(SCENE, ("qpos", "measured"))
    rolled = driven.roll([theta], [Brake(0.1)], begin, np.zeros((1, 10, 2)))
    np.testing.assert_allclose(rolled["qpos"], 0, atol=1e-12)
    np.testing.assert_allclose(rolled["measured"], 0.2, atol=1e-12)


def test_a_plant_knows_which_joint_a_control_drives() -> None:
    known = plant(SCENE.nominal())
    assert known.actuators == ("shoulder", "elbow")
    assert (known.dof.tolist(), known.gear.tolist()) == ([0, 1], [1.0, 2.0])
    assert plant(Scene(ARM).nominal()).nu == 2


def test_mass_matrices_are_those_of_each_rows_theta() -> None:
    thetas = [Theta(), Theta({"body.lower.mass": 0.8})]
    found = mass_matrices(SCENE, thetas, np.array([0, 1, 1]), np.array([[0.0, 0], [0, 0], [0, 1]]))
    assert found[1, 1, 1] == pytest.approx(2 * found[0, 1, 1])
    assert found[2, 0, 0] < found[1, 0, 0]


def test_laws_that_do_not_fit_are_refused() -> None:
    driven, begin, sent = Driven(SCENE), start(1), commands(1, 3)
    with pytest.raises(SimError, match="no Thetas were given"):
        driven.roll([], [Brake(0.1)], begin, sent)
    with pytest.raises(SimError, match="2 force laws were given for 3 Thetas"):
        driven.roll([Theta()] * 3, [Brake(0.1)] * 2, begin, sent)
    with pytest.raises(SimError, match="of one kind, found Brake and Chain"):
        driven.roll([Theta()] * 2, [Brake(0.1), Chain(())], begin, sent)
