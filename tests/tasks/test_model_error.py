"""Model error that a posterior states is played: joints stray about as far as it says, and no further."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tests.tasks.scenes import home, lab_scene
from tests.train.folders import ranges
from tests.train.folders import scene as pendulum
from twinproof.nouns.belief import Discrepancy
from twinproof.nouns.theta import Theta
from twinproof.tasks import reach
from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.commands import COMMAND, LATE, PUSH_WHEN, PUSH_WHERE
from twinproof.tasks.machine import Machine
from twinproof.tasks.model_error import FIRST, NEXT, kept_of, kicks_of
from twinproof.tasks.model_error import strays as grown
from twinproof.tasks.senses import LOST_READING, LOST_TRACK, READING, TRACK

STATED = Discrepancy("state.hinge", "rad", (0.05, 0.2, 0.4), (0.001, 0.01, 0.025))


def strays(draws, ticks: int, model_error: bool = True) -> np.ndarray:
    """Where 64 pendulums with the same start and parameters are after some ticks without torque."""
    task = reach.of(pendulum())
    arena = Arena(pendulum(), task, 64, draws=draws, play=Play(bank=64, nthread=1, model_error=model_error))
    setup = task.draw(np.random.default_rng(0))
    arena.reset(setups=[setup] * 64, thetas=[Theta({"body.bob.mass": 0.5})] * 64)
    for _ in range(ticks):
        arena.step(np.zeros((64, 1)))
    return np.array(arena.situation.position[:, 0])


def test_joints_stray_as_far_as_the_posterior_states_and_no_further():
    draws = replace(ranges(), discrepancy=(STATED,))
    rate_hz = reach.of(pendulum()).machine.rate_hz
    for horizon_s, sd in ((0.2, 0.01), (0.4, 0.025)):
        spread = strays(draws, round(horizon_s * rate_hz)).std()
        assert 0.3 * sd < spread < 1.3 * sd
    assert strays(draws, 20, model_error=False).std() < 1e-12
    assert strays(replace(draws, strength=0.0), 20).std() < 1e-12


def test_what_is_stated_of_other_signals_or_does_not_grow_is_not_played():
    machine = reach.of(pendulum()).machine
    draws = ranges()
    assert not kicks_of(draws, machine).any()
    assert not kicks_of([Theta()], machine).any()
    for other in (
        replace(STATED, signal="state.other"),
        replace(STATED, unit="N m"),
        replace(STATED, sd=(0.1, 0.1, 0)),
    ):
        assert not kicks_of(replace(draws, discrepancy=(other,)), machine).any()
    twice = replace(draws, discrepancy=(STATED,), strength=2.0)
    assert kicks_of(twice, machine) == pytest.approx(2 * kicks_of(replace(twice, strength=1.0), machine))


def test_servos_are_kicked_by_what_grows_within_a_tenth_of_a_second():
    machine = Machine.of(lab_scene("push"), home=home("push"))
    stated = Discrepancy("state.waist", "rad", (0.05, 0.1, 0.2, 1.0), (0.002, 0.0044, 0.0045, 0.0045))
    found = kicks_of(replace(ranges(), discrepancy=(stated,)), machine)
    kept = np.exp(-0.05)  # of a load, after a tick of 50 ms
    first, second = 0.05**2, (0.1**2 + 0.05**2 + 2 * kept * 0.1 * 0.05)  # what loads of 1 a tick come to
    assert [grown(0.05, machine), grown(0.1, machine)] == pytest.approx([first, second])
    assert found[0] == pytest.approx(np.sqrt((0.0044**2 - 0.002**2) / (second - first)))
    assert not found[1:].any()


@pytest.mark.parametrize("rate_hz", [10.0, 20.0, 25.0, 50.0, 100.0])
def test_horizons_between_ticks_count_as_long_as_they_are(rate_hz):
    machine = replace(Machine.of(lab_scene("push"), home=home("push")), rate_hz=rate_hz)
    horizons = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # as identify states them
    grows = [grown(each, machine) for each in horizons]
    assert all(low < high for low, high in itertools.pairwise(grows))
    stated = Discrepancy("state.waist", "rad", horizons, tuple(0.01 * each for each in horizons))
    kick = kicks_of(replace(ranges(), discrepancy=(stated,)), machine)[0]
    assert kick > 0
    over = [
        kick**2 * (far - grows[0]) / (sd**2 - stated.sd[0] ** 2)
        for far, sd in zip(grows[1:3], stated.sd[1:3], strict=True)
    ]
    assert max(over) == pytest.approx(1.0), "no further than stated at any horizon up to a tenth of a second"


def test_what_strays_is_the_sum_over_all_pairs_of_ticks():
    machine = Machine.of(lab_scene("push"), home=home("push"))
    n = round(2.0 * machine.rate_hz)
    lasts = 2.0 - np.arange(n) / machine.rate_hz
    together = kept_of(machine) ** np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    assert grown(2.0, machine) == pytest.approx(lasts @ together @ lasts)


def test_loads_and_pushes_are_drawn_from_other_numbers():
    pushes = {each + 10 * k for each in (PUSH_WHEN, PUSH_WHERE, TRACK, LOST_TRACK) for k in range(50)}
    assert not {FIRST, NEXT} & (pushes | {COMMAND, LATE, READING, LOST_READING})


def test_a_load_persists_through_a_second_and_each_episode_has_its_own():
    draws = replace(ranges(), discrepancy=(STATED,))
    task = reach.of(pendulum())
    arena = Arena(pendulum(), task, 400, draws=draws, play=Play(bank=400, nthread=1, model_error=True))
    loads = []
    for _ in range(round(task.machine.rate_hz)):
        loads.append(np.array(arena._astray._load[:, 0]))
        arena.step(np.zeros((400, 1)))
    assert np.std(loads[0]) == pytest.approx(1.0, abs=0.15)
    assert np.std(loads[-1]) == pytest.approx(1.0, abs=0.15)
    assert np.corrcoef(loads[0], loads[1])[0, 1] > 0.97
    assert np.corrcoef(loads[0], loads[-1])[0, 1] == pytest.approx(np.exp(-1), abs=0.15)
    before = np.array(arena._astray._load[:, 0])
    arena.reset(np.arange(200))
    after = np.array(arena._astray._load[:, 0])
    np.testing.assert_array_equal(after[200:], before[200:])
    assert abs(np.corrcoef(after[:200], before[:200])[0, 1]) < 0.25
