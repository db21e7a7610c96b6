"""A correction is learned where the robot was, is silent elsewhere, and is adopted only if rollouts say so."""

from __future__ import annotations

import numpy as np
import pytest

from twinproof.identify.residual_dynamics import RandomFeatures, adopt, labels
from twinproof.nouns.errors import ConfigError, PosteriorError
from twinproof.nouns.randomness import stream
from twinproof.nouns.theta import Theta
from twinproof.sim.driven import Driven
from twinproof.sim.law import Chain
from twinproof.sim.residual_law import ResidualDynamics
from twinproof.sim.scene import Scene
from twinproof.sim.windows import Commands, Start

WHEEL = """
<mujoco>
  <option timestep="0.002" gravity="0 0 0"/>
  <worldbody><body name="wheel"><joint name="axle" axis="0 1 0" stiffness="STIFF"/>
    <inertial pos="0 0 0" mass="1" diaginertia=".02 .02 .02"/></body></worldbody>
  <actuator><motor name="axle" joint="axle"/></actuator>
</mujoco>"""
TRUE, KNOWN = Scene(WHEEL.replace("STIFF", "0.5")), Scene(WHEEL.replace("STIFF", "0"))


def windows(count: int, samples: int, reach: float, seed: int) -> tuple[Start, Commands]:
    rng = stream(seed, "windows")
    start = Start(rng.uniform(-reach, reach, (count, 1)), rng.uniform(-2, 2, (count, 1)))
    sent = np.repeat(rng.uniform(-0.1, 0.1, (count, 1, 1)), samples, axis=1)
    return start, Commands(sent, np.arange(count), np.arange(samples))


def learned() -> ResidualDynamics:
    start, commands = windows(3000, 10, 1.0, 0)
    which = np.zeros(3000, dtype=np.int64)
    seen = Driven(TRUE).roll_rows([Theta()], [Chain(())], which, start, commands)["qvel"][:, -1]
    inputs, torque = labels(Driven(KNOWN), [Theta()], which, start, commands, seen, Chain(()))
    run = np.arange(len(inputs)) % 6
    return RandomFeatures(members=4, features=64).fit(inputs, torque, run, stream(0, "residual"))


RESIDUAL = learned()


def ends(scene: Scene, law: object, seed: int, reach: float = 0.7) -> np.ndarray:
    start, commands = windows(40, 100, reach, seed)
    rolled = Driven(scene).roll_rows([Theta()], [law], np.zeros(40, dtype=np.int64), start, commands)
    return np.asarray(rolled["qpos"][:, [49, 99], 0])


def test_a_spring_that_the_model_lacks_is_learned_and_adopted_on_validation() -> None:
    at = np.array([[0.4, 0.0, 0.0], [-0.8, 1.0, 0.05]])
    np.testing.assert_allclose(RESIDUAL.torque(at)[:, 0], -0.5 * at[:, 0], atol=0.05)
    truth, before, after = ends(TRUE, Chain(()), 5), ends(KNOWN, Chain(()), 5), ends(KNOWN, RESIDUAL, 5)
    verdict = adopt(list(((before - truth) ** 2).T), list(((after - truth) ** 2).T))
    assert verdict.adopted
    assert verdict.reason.startswith("adopted: the validation error falls by")
    assert (np.array(verdict.after) < 0.4 * np.array(verdict.before)).all()


def test_outside_its_domain_it_is_silent_and_says_so() -> None:
    far = np.array([[4.0, 0.0, 0.0]])
    assert RESIDUAL.domain.distance(far)[0] > RESIDUAL.domain.fade
    assert RESIDUAL.domain.weight(far)[0] == 0
    assert RESIDUAL.torque(far)[0, 0] == 0
    inside = np.array([[0.1, 0.2, 0.0]])
    assert RESIDUAL.domain.weight(inside)[0] == pytest.approx(1)
    line = np.linspace([0.1, 0.2, 0], [4, 0.2, 0], 400)
    weight = RESIDUAL.domain.weight(line)
    assert np.abs(np.diff(weight)).max() < 0.2  # it fades, it does not jump
    start, commands = windows(20, 50, 1.0, 8)
    start = Start(start.qpos + 6, start.qvel)
    which = np.zeros(20, dtype=np.int64)
    with_it = Driven(KNOWN).roll_rows([Theta()], [RESIDUAL], which, start, commands)["qpos"]
    without = Driven(KNOWN).roll_rows([Theta()], [Chain(())], which, start, commands)["qpos"]
    np.testing.assert_array_equal(with_it, without)


def test_a_correction_that_does_not_help_is_refused_with_its_reason() -> None:
    rng = stream(0, "verdict")
    old = rng.uniform(0.5, 1.5, 200)
    assert "at horizon 1 the validation error rises by" in adopt([old, old], [0.5 * old, 1.1 * old]).reason
    assert "less than 2 %" in adopt([old], [0.99 * old]).reason
    noisy = old * rng.choice([0.01, 1.9], 200)
    assert "within its standard error" in adopt([old], [noisy * np.mean(old) / np.mean(noisy) * 0.95]).reason
    assert "diverged" in adopt([old], [np.full(200, np.nan)]).reason
    assert "only 3 % of validation lies inside" in adopt([old], [0.1 * old], share_inside=0.03).reason
    with pytest.raises(ConfigError, match="1 horizons without the correction and 0 with it"):
        adopt([old], [])


def test_it_comes_back_the_same_from_numbers_and_arrays() -> None:
    again = ResidualDynamics.unpacked(*RESIDUAL.packed())
    at = stream(3, "inputs").normal(0, 1, (50, 3))
    np.testing.assert_array_equal(RESIDUAL.torque(at), again.torque(at))
    with pytest.raises(PosteriorError, match="a residual model lacks something"):
        ResidualDynamics.unpacked({}, {})


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match="10 samples are too few for 96 features"):
        RandomFeatures().fit(np.zeros((10, 3)), np.zeros((10, 1)), np.zeros(10), stream(0, "few"))
    two = Scene("""<mujoco><worldbody><body name="a"><joint name="a" axis="0 1 0"/><geom size=".1"/>
      <body name="b"><joint name="b" axis="0 1 0"/><geom size=".1" pos="0 0 .2"/></body></body></worldbody></mujoco>""")
    rest = Start(np.zeros((1, 2)), np.zeros((1, 2)))
    with pytest.raises(ConfigError, match="takes 3 inputs; this model has 2 positions"):
        Driven(two).roll([Theta()], [RESIDUAL], rest, np.zeros((1, 3, 0)))
    other = learned()
    rest = Start(np.zeros((1, 1)), np.zeros((1, 1)))
    with pytest.raises(ConfigError, match="one rollout has one residual model"):
        Driven(KNOWN).roll([Theta()] * 2, [RESIDUAL, other], rest, np.zeros((1, 3, 1)))
