"""The monitor at work: the twin foresees the next tick, validation sets the threshold, a changed robot is stopped."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.evaluate.swing import spring
from tests.evaluate.test_replay import ARM, recorded
from twinproof.evaluate.deploy import Place, begins, real_run
from twinproof.evaluate.foresight import Foresight, Guarding, guard, thresholds_of
from twinproof.evaluate.monitor import Reading, Watch, alarms
from twinproof.lab.benches import bench
from twinproof.lab.robot import LabRobot
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import RecordingError
from twinproof.nouns.panel import Cell, Condition, Domain, trial_seed
from twinproof.nouns.robot import Limits, Observation
from twinproof.nouns.theta import Theta
from twinproof.sim.scene import Scene
from twinproof.tasks import reach
from twinproof.tasks.machine import Machine

LIMITS = Limits(np.full(2, -2.0), np.full(2, 2.0), np.full(2, np.inf))
MACHINE = Machine.of(Scene(ARM), rate_hz=100.0, limits=LIMITS)
HEAVY = Theta({"body.lower.mass": 1.5})
LATE = Theta({"actuator.a.delay": 0.03, "actuator.b.delay": 0.03})


@pytest.fixture(scope="module")
def usual() -> list[Episode]:
    return [recorded(Theta(), seconds=1.0, seed=k) for k in range(5)]


def test_the_twin_foresees_a_robot_that_is_the_twin_and_not_another(usual):
    foresight = Foresight(MACHINE, Theta())
    predicted, measured = foresight.episode(usual[0])
    np.testing.assert_allclose(predicted[3:], measured[3:], atol=1e-9)
    other, seen = foresight.episode(recorded(HEAVY, seconds=1.0))
    assert np.abs(other - seen).max() > 0.01


def test_delays_and_encoder_offsets_of_the_twin_are_in_its_foresight():
    predicted, measured = Foresight(MACHINE, LATE).episode(recorded(LATE, seconds=0.6))
    # before its first command that robot was sent the same all along, ours was at rest: the delay's time apart
    np.testing.assert_allclose(predicted[4:], measured[4:], atol=1e-9)
    shifted = Foresight(MACHINE, Theta({"joint.a.offset": 0.1}))
    at, still = np.array([[0.1, 0.0]]), np.zeros((1, 2))
    np.testing.assert_allclose(
        shifted.next(at, still, np.zeros((1, shifted.ticks, 2)), still)[0, :2], [0.1, 0], atol=1e-9
    )


def test_thresholds_promise_what_so_few_episodes_can_and_a_changed_robot_stops(usual):
    foresight = Foresight(MACHINE, Theta({"body.lower.mass": 0.32}))  # a twin that is a little off
    found = thresholds_of(foresight, usual)
    assert found.stop_alpha == pytest.approx(1 / 6)
    new = [foresight.episode(recorded(Theta(), seconds=1.0, seed=k)) for k in range(10, 14)]
    faulty = [foresight.episode(recorded(HEAVY, seconds=1.0, seed=k)) for k in range(4)]
    assert alarms(found, faulty)["stop"].value == 1
    assert alarms(found, new)["stop"].value <= 0.5


def test_the_hook_says_ok_on_the_usual_robot_and_stop_on_a_changed_one(usual):
    foresight = Foresight(MACHINE, Theta({"body.lower.mass": 0.32}))
    thresholds = thresholds_of(foresight, usual)
    told: list[Reading] = []
    for theta, ends in ((Theta(), "ok"), (HEAVY, "stop")):
        episode = recorded(theta, seconds=1.0, seed=2)
        hook = guard(foresight, thresholds, told.append)()
        state, speed, command = (episode.signals[name].value for name in ("state", "velocity", "command"))
        for k, sent in enumerate(command):
            last = hook(Observation(0.01 * k, state[k], speed[k], np.zeros(2)), sent)
        assert last == ends
    assert [reading.state for reading in told][-1] == "stop"


def test_a_robot_that_the_twin_no_longer_explains_is_stopped_in_its_trial():
    scene = Scene(bench("pendulum").robot_text())
    task = reach.of(scene)
    condition = Condition("h01", "e1", 1)
    cell = Cell("spring", condition, Domain("real", "real", 1), 0, trial_seed(condition, 0))
    place = Place(LabRobot("pendulum", 0), "lab")
    foresight = Foresight(task.machine, Theta())
    run, _ = real_run(place, task, spring(task, 0.4), cell, begins(task, cell))
    signals = {name: run.trace.signals[name] for name in ("state", "velocity", "command")}
    usual = thresholds_of(foresight, [Episode.of(signals, {})])
    strict = replace(usual, slow=usual.slow / 50, stop=usual.stop / 50)
    for thresholds, ended in ((usual, "done"), (strict, "hook")):
        watched = replace(place, watch=lambda t=thresholds: Guarding(foresight, Watch(t)))
        assert real_run(watched, task, spring(task, 0.4), cell, begins(task, cell))[1].ended == ended


def test_an_episode_without_speeds_cannot_be_foreseen(usual):
    bare = {name: usual[0].signals[name] for name in ("state", "command")}
    with pytest.raises(RecordingError, match="joint_velocity of a, b was not recorded"):
        Foresight(MACHINE, Theta()).episode(Episode.of(bare, {}, source="take 0"))
