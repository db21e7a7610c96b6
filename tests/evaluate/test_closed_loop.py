"""Trials in the twin, side by side: each by its own seed alone, paired with the robot's, kept whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.evaluate.swing import spring
from twinproof.evaluate.closed_loop import Batch, Job, Stage, run_jobs
from twinproof.evaluate.deploy import begins
from twinproof.evaluate.pairs import apart_rmse
from twinproof.evaluate.runs import Runs
from twinproof.evaluate.smoke import steady
from twinproof.evaluate.tally import LATENCY
from twinproof.lab.benches import bench
from twinproof.nouns.artifact import read_arrays, write_arrays
from twinproof.nouns.errors import PanelError, PolicyError, TraceError
from twinproof.nouns.failure import Failure
from twinproof.nouns.panel import Cell, Condition, Domain, trial_seed
from twinproof.nouns.rig import Joint, Rig
from twinproof.nouns.theta import Theta
from twinproof.policies.chunks import Chunked
from twinproof.policies.safety import Safety
from twinproof.policies.scripted import Scripted
from twinproof.sim.scene import Scene
from twinproof.tasks import reach
from twinproof.tasks.arena import Arena, Play

SCENE = Scene(bench("pendulum").robot_text())
TASK = reach.of(SCENE, horizon_s=1.2)
LATE = Theta({"actuator.shoulder.delay": 0.03, "actuator.elbow.delay": 0.03})


def jobs(count: int = 4, theta: Theta | None = None) -> list[Job]:
    made = []
    for k in range(count):
        condition = Condition(f"h{k:02d}", f"e{k}", k)
        cell = Cell("spring", condition, Domain("twin", "twin", 1), 0, trial_seed(condition, 0))
        made.append(Job(cell, Theta() if theta is None else theta, begins(TASK, cell)))
    return made


@pytest.fixture(scope="module")
def runs():
    return run_jobs(SCENE, TASK, spring(TASK), jobs())


def test_a_trial_is_the_same_alone_in_another_order_in_other_company_and_in_a_world_that_another_used(runs):
    alone = [run_jobs(SCENE, TASK, spring(TASK), [job])[0] for job in jobs()]
    turned = run_jobs(SCENE, TASK, spring(TASK), jobs()[::-1])[::-1]
    mixed = run_jobs(SCENE, TASK, spring(TASK), [*jobs(2, LATE), *jobs()])[2:]
    in_turn = run_jobs(SCENE, TASK, spring(TASK), [*jobs(2, LATE), *jobs()], Batch(worlds=3))[2:]
    for others in (alone, turned, mixed, in_turn):
        assert [run.trace.hash for run in others] == [run.trace.hash for run in runs]


def test_a_delay_that_is_stated_as_zero_is_none(runs):
    none = {"actuator.shoulder.delay": 0.0, f"sensor.{SCENE.nominal().sensor(0).name}.delay": 0.0}
    stated = run_jobs(SCENE, TASK, spring(TASK), jobs(theta=Theta(none)))
    for mine, plain in zip(stated, runs, strict=True):
        for name, signal in plain.trace.signals.items():
            np.testing.assert_array_equal(mine.trace.signals[name].value, signal.value)


def test_a_spring_succeeds_where_commands_come_at_once_and_fails_where_they_come_late(runs):
    assert all(run.success and run.failure is None for run in runs)
    late = run_jobs(SCENE, TASK, spring(TASK, 2.0), jobs(theta=LATE))
    assert not any(run.success for run in late)
    assert {run.failure for run in late} == {Failure.UNDECIDED}
    assert {run.note for run in late} == {"no time was left"}
    assert late[0].time_s == pytest.approx(1.2)


def test_a_trace_tells_what_was_measured_sent_and_asked(runs):
    signals = runs[0].trace.signals
    assert {name: s.kind for name, s in signals.items()} == {
        "state": "joint_position",
        "velocity": "joint_velocity",
        "command": "joint_command",
        "goal": "other",
        "error": "other",
    }
    ticks = len(signals["command"].time_s)
    assert len(signals["state"].time_s) == ticks + 1
    assert signals["command"].columns[0].unit == "N m"
    assert signals["state"].columns[0].unit == "rad"
    assert signals["error"].value[-1, 0] == runs[0].final_error
    assert runs[0].time_s == pytest.approx(ticks / TASK.contract.rate_hz)
    assert runs[0].trace.engine.startswith("mujoco")


def test_trials_begin_at_home_as_a_robot_does(runs):
    assert not begins(TASK, jobs()[0].cell).joints
    np.testing.assert_allclose([run.trace.signals["state"].value[0] for run in runs], 0.0, atol=1e-12)


def test_runs_are_read_back_as_they_were_and_a_changed_one_is_found(runs, tmp_path: Path):
    Runs(runs).save(tmp_path / "runs")
    read = Runs.load(tmp_path / "runs").runs
    assert [run.trace for run in read] == [run.trace for run in runs]
    assert [(run.success, run.time_s, run.note) for run in read] == [
        (run.success, run.time_s, run.note) for run in runs
    ]
    arrays = read_arrays(tmp_path / "runs" / "signals.npz", TraceError)
    arrays["0/state/value"][0, 0] += 1e-9
    write_arrays(tmp_path / "runs" / "signals.npz", arrays)
    with pytest.raises(TraceError, match="holds another trace"):
        Runs.load(tmp_path / "runs")


def test_a_run_becomes_a_row_of_the_panel(runs):
    trial = runs[0].trial(jobs()[0].cell, {"replay_rmse": 0.02})
    known = {"time_s": runs[0].time_s, "final_error": runs[0].final_error, "replay_rmse": 0.02}
    assert trial.metrics == {**known, **runs[0].measured}
    assert trial.trace == runs[0].trace.hash


def test_two_traces_of_one_trial_are_apart_by_what_their_joints_are(runs):
    rig = Rig("pendulum", (Joint("shoulder", (-1.0, 1.0)), Joint("elbow", (-1.0, 1.0))))
    assert apart_rmse(runs[0].trace, runs[0].trace, rig) == 0
    other = run_jobs(SCENE, TASK, spring(TASK), jobs(1, LATE))[0]
    apart = apart_rmse(runs[0].trace, other.trace, rig)
    assert apart is not None
    assert 0.01 < apart < 1.0
    short = replace(runs[0].trace, signals={"state": runs[0].trace.signals["state"].window(0.0, 0.02)})
    assert apart_rmse(short, runs[0].trace, rig) is None


def test_a_policy_that_gives_chunks_is_told_to_be_wrapped():
    chunky = Scripted(replace(TASK.deployable, chunk=3), lambda seen: np.zeros((len(seen["goal"]), 3, 2)))
    with pytest.raises(PolicyError, match="3 actions at once"):
        run_jobs(SCENE, TASK, chunky, jobs(1))


def test_a_steady_policy_passes_and_says_how_steady_it_is():
    heavy = Theta({"body.lower_link.mass": 0.5, "actuator.elbow.delay": 0.01, "actuator.elbow.gain": 1.0})
    found = steady(Stage(SCENE, TASK, spring(TASK, 0.5)), jobs(theta=heavy), "spring").told()
    assert found["same_seed_same_trial"] is True
    assert 0 < found["by_parameters"] < 0.01
    assert 0 < found["by_observations"] < 0.01


def test_a_policy_with_luck_of_its_own_is_refused():
    rng = np.random.default_rng()

    def lucky(seen):
        return rng.normal(size=(len(seen["goal"]), 2))

    with pytest.raises(PanelError, match="no function of its seed"):
        steady(Stage(SCENE, TASK, Scripted(TASK.deployable, lucky)), jobs(), "lucky")


def test_a_served_policys_own_luck_is_told_and_not_refused():
    rng = np.random.default_rng(0)
    base = spring(TASK, 0.5)

    def lucky(seen):
        base.reset(len(seen["goal"]), 0)
        return base.act(seen)[:, 0] + rng.normal(0, 0.01, (len(seen["goal"]), 2))

    found = steady(Stage(SCENE, TASK, Scripted(TASK.deployable, lucky)), jobs(), "lucky", repeatable=False).told()
    assert found["same_seed_same_trial"] is False
    assert found["by_parameters"] > 0
    told = steady(Stage(SCENE, TASK, base), jobs(), "spring", repeatable=False).told()
    assert told["same_seed_same_trial"] is True


def test_a_policy_that_magnifies_the_unknowable_is_refused():
    def wild(seen):
        return 6.0 * np.sign(np.sin(1e5 * (seen["joint_position"] + seen["goal"])))

    with pytest.raises(PanelError, match="magnifies what nobody can know"):
        steady(Stage(SCENE, TASK, Scripted(TASK.deployable, wild)), jobs(theta=LATE), "wild")


def test_how_long_a_policy_thinks_and_which_limits_it_meets_stand_on_every_trial():
    def pushes(seen):
        return np.repeat(50.0 * np.ones((len(seen["goal"]), 1, 2)), 4, axis=1)

    chunky = Chunked(Scripted(replace(TASK.deployable, chunk=4), pushes))
    plain = run_jobs(SCENE, TASK, chunky, jobs(2))
    for run in plain:
        ticks = len(run.trace.signals["command"].time_s)
        assert run.measured["safety_joint_limit"] == ticks
        assert set(run.measured) == {*LATENCY, "safety_joint_limit", "safety_speed_limit"}
    machine = TASK.machine
    safety = Safety(machine.joints, machine.limits, machine.rate_hz, effort=np.full(2, 1.0), torque_driven=True)
    kept = run_jobs(SCENE, TASK, chunky, jobs(2), Batch(safety=safety))
    assert all(run.measured["safety_effort_limit"] > 0 for run in kept)
    stopped = run_jobs(SCENE, TASK, chunky, jobs(2), Batch(safety=replace(safety, beyond="stop")))
    assert {run.failure for run in stopped} == {Failure.POLICY}
    assert {len(run.trace.signals["command"].time_s) for run in stopped} == {1}
    assert {run.note for run in stopped} == {"the policy meets a limit that is to stop it"}
    assert safety.told() != replace(safety, beyond="stop").told()


def test_a_world_whose_trial_is_over_stands_still_until_it_gets_another_one():
    ended: list[int] = []
    policy = spring(TASK, 0.8)
    run_jobs(SCENE, TASK, policy, jobs(), Batch(worlds=4), lambda place, run: ended.append(place))
    assert sorted(ended) == [0, 1, 2, 3]
    arena = Arena(SCENE, TASK, 3, play=Play(auto_reset=False, bank=9, nthread=1))
    arena.step(np.ones((3, 2)))
    arena.rest([1])
    before = np.array(arena.backing.view("qpos"))
    arena.step(np.ones((3, 2)))
    after = np.array(arena.backing.view("qpos"))
    np.testing.assert_array_equal(after[1], before[1])
    assert (after[[0, 2]] != before[[0, 2]]).all()
    arena.reset([1])
    arena.step(np.ones((3, 2)))
    assert (np.array(arena.backing.view("qpos"))[1] != before[1]).all()
