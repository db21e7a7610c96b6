"""One trial on a robot: the same observation, judge and trace as in the twin; stops and refusals are labelled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.evaluate.swing import spring
from twinproof.evaluate.closed_loop import Job, run_jobs
from twinproof.evaluate.deploy import Place, begins, check_place, real_run, start_of
from twinproof.lab.benches import bench
from twinproof.lab.robot import LabRobot
from twinproof.nouns.errors import PanelError
from twinproof.nouns.failure import Failure
from twinproof.nouns.panel import Cell, Condition, Domain, trial_seed
from twinproof.nouns.theta import Theta
from twinproof.policies.scripted import Scripted
from twinproof.sim.scene import Scene
from twinproof.tasks import reach

SCENE = Scene(bench("pendulum").robot_text())
TASK = reach.of(SCENE)


def cell(k: int = 1) -> Cell:
    condition = Condition(f"h{k:02d}", f"e{k}", k, {"session": "day_1"})
    return Cell("spring", condition, Domain("real", "real", 1, "lab"), 0, trial_seed(condition, 0))


@pytest.fixture
def place():
    return Place(LabRobot("pendulum", 0), "lab bench 'pendulum', simulated")


def test_a_soft_spring_reaches_on_the_robot_and_the_trace_is_of_the_twins_kind(place):
    run, driven = real_run(place, TASK, spring(TASK, 0.4), cell(), begins(TASK, cell()))
    assert run.success
    assert driven.ended == "done"
    twin = run_jobs(SCENE, TASK, spring(TASK, 0.4), [Job(cell(), Theta(), begins(TASK, cell()))])[0]
    kinds = {name: (s.kind, s.columns) for name, s in twin.trace.signals.items()}
    assert {name: (s.kind, s.columns) for name, s in run.trace.signals.items()} == kinds
    np.testing.assert_array_equal(run.trace.signals["goal"].value, twin.trace.signals["goal"].value)
    assert run.trace.engine == ""
    assert run.trace.domain == "real"


def test_the_same_seed_is_the_same_trial_of_the_lab(place):
    one, two = (real_run(place, TASK, spring(TASK), cell(), begins(TASK, cell()))[0] for _ in range(2))
    assert one.trace.hash == two.trace.hash


def test_a_stiff_spring_has_no_time_left(place):
    run, driven = real_run(place, TASK, spring(TASK, 1.5), cell(), begins(TASK, cell()))
    assert not run.success
    assert driven.ended == "horizon"
    assert run.failure is Failure.UNDECIDED
    assert run.time_s == pytest.approx(TASK.horizon_s)


def test_a_policy_that_breaks_is_labelled_policy_and_a_monitor_that_stops_is_undecided(place):
    ticks = 0

    def breaks(seen):
        nonlocal ticks
        ticks += 1
        return np.full((1, 2), np.nan if ticks > 5 else 0.0)

    run, _ = real_run(place, TASK, Scripted(TASK.deployable, breaks), cell(), begins(TASK, cell()))
    assert run.failure is Failure.POLICY
    assert len(run.trace.signals["command"].time_s) == 5
    run, driven = real_run(place, TASK, spring(TASK), cell(), begins(TASK, cell()), hook=lambda seen, command: "stop")
    assert driven.ended == "hook"
    assert run.failure is Failure.UNDECIDED
    assert "said stop" in run.note
    assert "command" not in run.trace.signals


def test_a_referees_word_counts_above_what_was_measured(place):
    setup = begins(TASK, cell())
    run, _ = real_run(replace(place, referee=lambda task, setup: False), TASK, spring(TASK, 0.4), cell(), setup)
    assert run.failure is Failure.PERCEPTION
    assert "the referee says that it is none" in run.note
    run, _ = real_run(replace(place, referee=lambda task, setup: True), TASK, spring(TASK, 1.5), cell(), setup)
    assert run.success
    assert "by the referee's word" in run.note
    run, _ = real_run(replace(place, referee=lambda task, setup: None), TASK, spring(TASK, 0.4), cell(), setup)
    assert (run.success, run.note) == (True, "")


def test_a_start_carries_object_session_and_place():
    there = replace(cell(), condition=replace(cell().condition, labels={"object": "box_03", "session": "day_2"}))
    start = start_of(there, replace(begins(TASK, there), at_m=(0.3, 0.1), yaw_rad=0.5))
    assert (start.object, start.session, start.at_m, start.yaw_rad) == ("box_03", "day_2", (0.3, 0.1), 0.5)


def test_another_robot_and_a_task_that_nobody_sees_are_refused(place):
    with pytest.raises(PanelError, match="actuators have to stand in the robot's order"):
        check_place(TASK, Place(LabRobot("push", 0), "lab"))
    with pytest.raises(PanelError, match="nothing tracks it"):
        check_place(replace(TASK, tracked=("cube",)), place)


def test_an_object_that_the_tracker_loses_ends_the_trial_and_is_labelled_perception(place):
    class Blinking:
        """Sees a cube for three ticks."""

        def begin(self, seen, setup):
            self.left = 3

        def look(self, seen):
            self.left -= 1
            return {} if self.left < 0 else {"cube": np.array([0.3, 0, 0, 1.0, 0, 0, 0])}

    class Blind:
        """Sees nothing."""

        def begin(self, seen, setup):
            pass

        def look(self, seen):
            return {}

    tracked = replace(TASK, tracked=("cube",))
    run, _ = real_run(replace(place, sight=Blinking()), tracked, spring(TASK), cell(), begins(TASK, cell()))
    assert run.failure is Failure.PERCEPTION
    assert len(run.trace.signals["cube_pose"].time_s) == 3
    assert "does not see cube" in run.note
    run, _ = real_run(replace(place, sight=Blind()), tracked, spring(TASK), cell(), begins(TASK, cell()))
    assert run.failure is Failure.PERCEPTION
    assert run.final_error is None
