"""The gap in four steps: a planted fault shows in its own step, and a perfect twin shows none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.evaluate.swing import spring
from twinproof.evaluate.closed_loop import Job, Stage, run_jobs
from twinproof.evaluate.decompose import Played, decompose, without_delays
from twinproof.evaluate.deploy import begins
from twinproof.evaluate.replay import with_ranges
from twinproof.lab.benches import bench
from twinproof.nouns.errors import TraceError
from twinproof.nouns.panel import Cell, Condition, Domain, trial_seed
from twinproof.nouns.rig import Arm, Joint, Rig
from twinproof.nouns.signal import Signal
from twinproof.nouns.theta import Theta
from twinproof.sim.scene import Scene
from twinproof.tasks import reach

SCENE = Scene(bench("pendulum").robot_text())
TASK = reach.of(SCENE, horizon_s=1.0)
JOINTS = TASK.machine.joints
RIG = with_ranges(Rig("pendulum", tuple(Joint(name) for name in JOINTS), (Arm("arm", JOINTS),)), SCENE)
HEAVY = Theta({"body.lower_link.mass": 0.7, "body.upper_link.mass": 0.9})
LATE = Theta({"actuator.shoulder.delay": 0.02, "actuator.elbow.delay": 0.02})
NOISY = Theta({f"sensor.{name}_velocity.noise": 1.0 for name in JOINTS})


def played(real: Theta, twin: Theta, count: int = 3) -> list[Played]:
    """Trials in a reality that is a twin with these values."""
    jobs = []
    for k in range(count):
        condition = Condition(f"h{k:02d}", f"e{k}", k)
        cell = Cell("spring", condition, Domain("twin", "twin", 1), 0, trial_seed(condition, 0))
        jobs.append(Job(cell, twin, begins(TASK, cell)))
    policy = spring(TASK, 0.5)
    there = run_jobs(SCENE, TASK, policy, [replace(job, theta=real) for job in jobs])
    here = run_jobs(SCENE, TASK, policy, jobs)
    return [Played(*each) for each in zip(jobs, there, here, strict=True)]


def steps(real: Theta, twin: Theta) -> list[float]:
    return [step["value"] for step in decompose(Stage(SCENE, TASK, spring(TASK, 0.5)), played(real, twin), RIG)]


def test_a_perfect_twin_has_no_gap_in_any_step():
    replay, seen, timing, closed = steps(Theta(), Theta())
    assert replay < 1e-3
    assert seen < 0.03  # states are smoothed over kinks that torques leave
    assert timing == closed == 0


def test_wrong_masses_show_in_the_replay_and_in_the_closed_loop_alone():
    replay, seen, timing, closed = steps(HEAVY, Theta())
    assert replay > 0.005
    assert closed > 0.005
    assert seen < 0.03
    assert timing == 0


def test_noise_shows_in_the_actions_and_a_delay_in_the_timing():
    _, seen, _, _ = steps(NOISY, NOISY)
    assert seen > 0.06
    found = decompose(Stage(SCENE, TASK, spring(TASK, 0.5)), played(LATE, LATE), RIG)
    assert found[2]["value"] > 0.003
    assert found[3]["value"] == 0
    assert found[0]["value"] < 2e-3
    assert [step["step"] for step in found] == [1, 2, 3, 4]
    assert found[2]["interval"][0] < found[2]["value"] < found[2]["interval"][1]


def test_what_is_late_or_noisy_is_left_out_and_masses_stay():
    assert without_delays(HEAVY | LATE | NOISY) == HEAVY


def test_one_trial_has_no_interval_and_a_twin_that_diverges_no_number():
    one = decompose(Stage(SCENE, TASK, spring(TASK, 0.5)), played(Theta(), Theta(), 1), RIG)
    assert one[0]["interval"] is None
    (wild,) = played(Theta(), Theta(), 1)
    nothing = {f"body.{name}.mass": 1e-3 for name in ("upper_link", "lower_link")}
    nothing |= {f"joint.{name}.{what}": 0.0 for name in JOINTS for what in ("armature", "damping", "frictionloss")}
    broken = replace(wild, job=replace(wild.job, theta=Theta(nothing)))
    found = decompose(Stage(SCENE, TASK, spring(TASK, 0.0)), [broken], RIG)
    assert found[0]["value"] is None
    assert found[0]["diverged"] == 1


def test_trials_that_lack_what_was_sent_cannot_be_taken_apart():
    (one,) = played(Theta(), Theta(), 1)
    trace = one.real.trace
    speed = trace.signals["velocity"]
    lost = Signal(speed.name, speed.kind, speed.columns, speed.time_s, speed.value, np.ones(speed.value.shape, bool))
    for signals in ({**trace.signals, "velocity": lost}, {"state": trace.signals["state"]}):
        bare = replace(one, real=replace(one.real, trace=replace(trace, signals=signals)))
        with pytest.raises(TraceError, match="nothing to take apart"):
            decompose(Stage(SCENE, TASK, spring(TASK)), [bare], RIG)
