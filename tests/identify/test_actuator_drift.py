"""A Coulomb level that wanders is found with its pace; one that stands still is left standing."""

from __future__ import annotations

import numpy as np
import pytest

from tests.identify.test_actuators import SWING, excitation, law
from tests.sim.test_driven import Brake
from twinproof.identify.actuator_drift import walk, wander
from twinproof.identify.actuator_fit import Matched, Matching, Run, Windowed
from twinproof.identify.laws import Bench, drifts_of, told
from twinproof.nouns.drive import Drive
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.randomness import stream
from twinproof.nouns.theta import Theta
from twinproof.sim.driven import Driven
from twinproof.sim.windows import Start


def levels(drift: float, seed: int) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    rng, times = stream(seed, "drift"), [np.arange(0, 60, 0.5)] * 3
    steps = [drift * np.sqrt(0.5) * rng.standard_normal(len(t)) for t in times]
    read = [0.2 + np.cumsum(s) + rng.normal(0, 0.02, len(s)) for s in steps]
    return times, read, [np.full(len(t), 0.02) for t in times]


def test_the_pace_of_a_walk_is_found_again() -> None:
    found = walk(*levels(0.02, 0), 0.2)
    assert found.drift == pytest.approx(0.02, rel=0.35)
    assert found.found
    assert len(found.level) == 360


def test_a_level_that_stands_still_gets_no_drift() -> None:
    found = walk(*levels(0.0, 1), 0.2)
    assert not found.found
    assert found.level.std() < 0.01


def test_rollouts_tell_how_the_level_wandered() -> None:
    """The level rises step by step: every second is simulated with its own."""
    driven, command = Driven(SWING), 0.3 + excitation(4000, 2)
    q, v, at = np.zeros((4001, 1)), np.zeros((4001, 1)), np.linspace(0.05, 0.15, 8)
    for k, level in enumerate(at):
        begin, part = k * 500, slice(k * 500, (k + 1) * 500)
        sent = command[part].reshape(1, -1, 1)
        rolled = driven.roll([Theta()], [law(coulomb=level)], Start(q[begin : begin + 1], v[begin : begin + 1]), sent)
        q[begin + 1 : begin + 501], v[begin + 1 : begin + 501] = rolled["qpos"][0, 0], rolled["qvel"][0, 0]
    run = Run("warm", q[:-1], q[:-1], v[:-1], command[:, None])
    windows = Windowed(driven, [run], Matching(length=200, stride=100))
    found = wander(windows, Matched({}, {}, law(coulomb=0.1), 0.0, 0, 0), "axle")
    assert found.found
    assert np.polyfit(found.time_s, found.level, 1)[0] == pytest.approx(0.1 / 8, rel=0.35)
    with pytest.raises(ConfigError, match="Coulomb level of a Brake is not known"):
        wander(windows, Matched({}, {}, Brake(0.1), 0.0, 0, 0), "axle")
    with pytest.raises(ConfigError, match="'axle' has no Coulomb friction"):
        wander(windows, Matched({}, {}, law(), 0.0, 0, 0), "axle")


def warming(seed: int, pace: float) -> Run:
    """A run whose Coulomb level walks: every tenth of a second is simulated with its own."""
    driven, rng = Driven(SWING), stream(seed, "warming")
    command = 0.3 + excitation(4000, seed)
    count = 4000 // 50
    at = np.maximum(0.1 + np.cumsum(pace * np.sqrt(50 * driven.sample_s) * rng.normal(size=count)), 0.01)
    q, v = np.zeros((4001, 1)), np.zeros((4001, 1))
    for k, level in enumerate(at):
        here = slice(50 * k, 50 * k + 1)
        sent = command[50 * k : 50 * (k + 1)].reshape(1, -1, 1)
        rolled = driven.roll([Theta()], [law(coulomb=float(level))], Start(q[here], v[here]), sent)
        q[50 * k + 1 : 50 * k + 51], v[50 * k + 1 : 50 * k + 51] = rolled["qpos"][0, 0], rolled["qvel"][0, 0]
    noise = 1e-4 * rng.normal(size=(4000, 1))
    return Run(f"warm {seed}", q[:-1] + noise, q[:-1], v[:-1], command[:, None])


@pytest.mark.parametrize("wanders", [True, False])
def test_a_drift_is_adopted_where_validation_wanders_too(wanders: bool) -> None:
    first, later = warming(1, 0.02), warming(2, 0.02 if wanders else 0.0)
    made = Bench(Driven(SWING), (first,), (later,), Theta(), ((), ()))
    found = dict(drifts_of(made, Drive(told(law(coulomb=0.1)))))["axle"]
    assert found.gain > 3
    assert found.adopted is wanders
    assert found.drift == pytest.approx(0.02, rel=0.7)
    assert dict(drifts_of(made, Drive(told(law())))) == {}  # without friction there is no level


def test_too_few_levels_are_refused() -> None:
    with pytest.raises(ConfigError, match="2 levels with their times and errors were given"):
        walk([np.arange(2.0)], [np.zeros(2)], [np.ones(2)], 0.1)
