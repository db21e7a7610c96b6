"""Designed experiments: they keep the limits, tell more than others, say how much, and refuse what cannot be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.identify.folders import split_folder
from twinproof import cli
from twinproof.identify.beliefs import Stated, beliefs
from twinproof.identify.evolution import Evolution
from twinproof.identify.excitation import Judge
from twinproof.identify.excite import Design, Today, design, prepare
from twinproof.identify.excite_command import RATE_HZ, Asked, rate_of, report, run
from twinproof.identify.excite_information import Rehearsal, Told, told_by
from twinproof.identify.excite_limits import Asked as Limits
from twinproof.identify.excite_limits import motion_limits
from twinproof.identify.problem import Problem, linearise
from twinproof.identify.trajectory import Series
from twinproof.lab.benches import bench
from twinproof.lab.models import textures
from twinproof.lab.record import Options, in_memory
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import ConfigError, PosteriorError, StoreError
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.progress import quiet
from twinproof.nouns.randomness import stream
from twinproof.nouns.recording import Recording
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.trajectory import read_trajectory
from twinproof.nouns.twin import Twin
from twinproof.sim.experiment import experiment
from twinproof.sim.free_air import Clearance, free_air
from twinproof.sim.scene import Scene

MOTOR = """<mujoco><option timestep="0.004" integrator="implicitfast"/><worldbody>
  <body name="rod"><joint name="hinge" axis="0 1 0" damping="0.02" frictionloss="0.01" armature="0.002"/>
    <inertial pos="0 0 -0.2" mass="0.5" diaginertia="0.004 0.004 0.0004"/>
    <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.01" contype="0" conaffinity="0"/></body>
  <body name="post" pos="1 0 0"><geom size="0.1" mass="1" contype="0" conaffinity="0"/></body>
</worldbody><actuator><motor name="hinge" joint="hinge" ctrlrange="-2 2"/></actuator></mujoco>"""

SERVO = """<mujoco><compiler angle="radian"/><option timestep="0.004" integrator="implicitfast"/><worldbody>
  <geom name="table" type="plane" size="2 2 0.1"/>
  <body name="base" pos="0 0 0.3">
    <body name="arm"><joint name="lift" axis="0 1 0" range="-1.5 1.5" damping="0.5" armature="0.05"/>
      <geom type="capsule" fromto="0.05 0 0 0.4 0 0" size="0.02" mass="0.6"/>
      <body name="tip" pos="0.4 0 0"><joint name="bend" axis="0 1 0" range="-1.5 1.5" damping="0.2" armature="0.02"/>
        <geom type="capsule" fromto="0.05 0 0 0.2 0 0" size="0.02" mass="0.2"/></body></body></body>
  <body name="cube" pos="0.9 0.5 0.05"><freejoint/><geom type="box" size="0.05 0.05 0.05" mass="0.3"/></body>
</worldbody>
<actuator>
  <position name="lift" joint="lift" kp="80" kv="4" forcerange="-20 20"/>
  <position name="bend" joint="bend" kp="30" kv="2" forcerange="-8 8"/>
</actuator>
<sensor><framepos name="where" objtype="body" objname="cube"/></sensor></mujoco>"""

QUICK = Design(
    seconds=2.0, rate_hz=50.0, first=6, evolution=Evolution(generations=2, population=6), bounding=4, checks=4
)
RODS = ("joint.hinge.damping", "joint.hinge.frictionloss", "joint.hinge.armature", "body.rod.mass")


def motor(known=RODS, how=QUICK, seed=0, **more):
    scene = Scene(MOTOR)
    held = beliefs(scene.nominal(), known, [Stated("*.mass", 0.4, 0.6)] if "body.rod.mass" in known else [])
    return design(scene, held, Today.of_prior(held, stream(0, "prior")), how, stream(seed, "design"), **more)


def servo(known=("joint.*.damping", "body.arm.mass"), how=QUICK, **more):
    scene = Scene(SERVO)
    held = beliefs(scene.nominal(), known)
    return design(scene, held, Today.of_prior(held, stream(0, "prior")), how, stream(0, "design"), **more)


TOLD: list[str] = []


@pytest.fixture(scope="module")
def found():
    TOLD.clear()
    return motor(progress=lambda done, name, total=None: TOLD.append(f"{done} of {total}: {name}"))


@pytest.fixture(scope="module")
def search():
    """A search that is ready to judge, and never run."""
    scene = Scene(MOTOR)
    held = beliefs(scene.nominal(), RODS)
    return prepare(scene, held, Today.of_prior(held, stream(0, "prior")), QUICK, stream(0, "design"))


def test_a_designed_experiment_begins_and_ends_at_rest_within_its_limits(found):
    commands = found.trajectory.commands
    assert commands.shape == (100, 1)
    assert np.abs(commands[[0, -1]]).max() == 0
    assert np.abs(np.diff(commands[[0, 1, -2, -1]], axis=0)).max() < 2 * 0.8
    (used,) = found.margins
    assert max(used.position, used.speed, used.torque) <= 1
    assert max(used.position, used.speed, used.torque) > 0.5
    assert found.trajectory.kind == "torque"


def test_it_says_how_much_narrower_every_interval_becomes(found):
    assert found.parameters == tuple(sorted(RODS))
    assert (found.sd_after < found.sd_now).all()
    assert np.allclose(found.ratio, found.sd_now / found.sd_after)
    assert found.gain > 2


def test_the_same_seed_gives_the_same_experiment(found):
    assert np.array_equal(motor().trajectory.commands, found.trajectory.commands)


def test_evolution_climbs_a_ridge_from_where_it_starts():
    steep = np.geomspace(1, 100, 12)
    top = stream(1, "top").normal(size=12)

    def score(points):
        return -np.square((points - top) * steep).sum(axis=1)

    start = np.zeros(12)
    start[:] = 0.5
    begun = float(score(start[None])[0])
    found, best = Evolution(generations=60, population=12).climb(score, start, begun, stream(0, "e"), lambda k, s: None)
    assert best > 0.05 * begun
    assert best == pytest.approx(float(score(found[None])[0]))


def test_evolution_that_finds_nothing_better_stops_and_keeps_its_start():
    told: list[int] = []
    start = np.ones(4)
    quiet_hill = Evolution(generations=50, patience=3)
    found, best = quiet_hill.climb(lambda p: np.zeros(len(p)), start, 1.0, stream(0, "e"), lambda k, s: told.append(k))
    assert told == [1, 2, 3]
    assert best == 1.0
    assert np.array_equal(found, start)


def test_the_search_tells_how_far_it_is_and_how_narrow_it_gets(found):
    total = QUICK.evolution.generations + 2
    assert TOLD[0].startswith(f"1 of {total}: ")
    assert TOLD[-1] == f"{total} of {total}: {found.gain:.2f} times narrower"


def test_what_is_predicted_is_what_the_recording_then_holds(tmp_path):
    """The lab plays the design; readings, rates and noise of the recording tell as much as was said."""
    (passive,), plant = in_memory("pendulum", 1, 4, Options(effects="off", behaviours=("free_swing",)))
    for name, data in textures.assets().items():
        (tmp_path / name).write_bytes(data)
    scene = Scene(bench("pendulum").nominal_scene(None, plant), tmp_path)
    ids = ("actuator.shoulder.gain", "joint.elbow.damping", "joint.shoulder.damping")
    held = beliefs(scene.nominal(), ids, [Stated("actuator.*.gain", 0.8, 1.25)])
    centre = [[float(b.info.to_scale(b.nominal)) for b in held]]
    today = replace(Today.of_prior(held, stream(0, "prior")), draws=np.repeat(centre, 64, axis=0))
    how, home = replace(QUICK, rate_hz=100.0), {"shoulder": 0.0, "elbow": 0.0}
    planned = design(scene, held, today, how, stream(0, "design"), reference=passive, home=home)
    (played,), _ = in_memory("pendulum", 1, 4, Options(effects="off", trajectory=planned.trajectory))
    problem = Problem(held, (experiment(played, free_air(scene)),))
    shooting = problem.shooting(how.window_s)
    linear = linearise(problem, shooting, problem.nominal, shooting.starts, free=np.ones(2, dtype=bool))
    told = told_by(linear, np.zeros((0, len(linear.gap))), 2)
    sd = np.sqrt(np.diag(np.linalg.inv(today.precision + told.information[0])))
    assert planned.sd_after == pytest.approx(sd, rel=0.5)


def test_d_looks_at_all_directions_and_e_at_the_widest():
    """One experiment tells much of the first of two parameters, the other a little of both."""
    much, both = np.diag([1e4, 0.0]), np.diag([8.0, 8.0])
    told = Told(np.stack([much, both]), np.zeros((2, 2, 2)))
    all_ways, widest = (Judge(criterion, np.eye(2), [0, 1]).gain(told) for criterion in "DE")
    assert all_ways[0] == pytest.approx(np.log(1e4 + 1) / 4)
    assert all_ways[0] > all_ways[1]
    assert widest.tolist() == pytest.approx([0.0, np.log(3)])


def test_a_parameter_that_is_not_named_is_averaged_over_and_not_sought():
    tied = Told(np.full((1, 2, 2), 1e4), np.zeros((1, 2, 2)))  # only the sum of the two is seen
    assert Judge("D", np.eye(2), [0]).gain(tied)[0] == pytest.approx(0.5 * np.log(2), rel=1e-3)


def test_servos_keep_their_ranges_and_speeds_and_stay_clear_of_the_table():
    home = {"lift": -0.3, "bend": 0.0}
    free = servo(home=home, asked=Limits({}, {}, clearance_m=0.0))
    assert free.trajectory.kind == "position"
    assert np.allclose(free.trajectory.commands[[0, -1]], [-0.3, 0.0])
    kept = servo(home=home, asked=Limits({"lift": (-0.8, 0.6)}, {"lift": 0.5}, clearance_m=0.15))
    commands = kept.trajectory.commands
    assert commands[:, 0].min() >= -0.8
    assert commands[:, 0].max() <= 0.6
    assert np.abs(np.diff(commands[:, 0])).max() * 50 <= 0.5 + 1e-9
    assert kept.clearance_m >= 0.15 - 1e-9
    assert all(max(m.position, m.speed, m.torque) <= 1 for m in kept.margins)


def test_joints_that_are_not_named_hold_still():
    found = servo(("joint.bend.damping",), joints=("bend",))
    assert np.ptp(found.trajectory.commands[:, 0]) == 0
    assert np.ptp(found.trajectory.commands[:, 1]) > 0


def test_in_free_air_nothing_lies_about_and_the_robot_moves_as_before():
    alone = free_air(Scene(SERVO)).nominal()
    assert alone.nq == 2
    assert alone.nsensor == 0
    assert alone.body("arm").mass[0] == pytest.approx(0.6)


def test_clearance_names_what_comes_near():
    scene = Scene(SERVO)
    home = scene.nominal().qpos0
    low = np.tile(home, (20, 1))
    low[:, 0] = np.linspace(0, 0.7, 20)
    clearance = Clearance(scene, home, 0.05)
    assert clearance.least(np.tile(home, (3, 1))) == (0.05, "")
    distance, who = clearance.least(low)
    assert distance < 0
    assert who == "world and arm" or who == "world and tip"


def test_a_parameter_that_nothing_can_excite_is_named():
    with pytest.raises(PosteriorError, match="says anything of body.post.mass"):
        motor(("joint.hinge.damping", "body.post.mass"))
    with pytest.raises(PosteriorError, match="says anything of body.cube.mass"):
        servo(("joint.lift.damping", "body.cube.mass"))


def test_an_object_that_is_known_of_but_not_asked_for_is_no_obstacle():
    scene = Scene(SERVO)
    held = beliefs(scene.nominal(), ("joint.lift.damping", "body.cube.mass"))
    today = Today.of_prior(held, stream(0, "prior"))
    found = design(scene, held, today, QUICK, stream(0, "d"), parameters=("joint.lift.damping",))
    assert found.parameters == ("joint.lift.damping",)


def test_what_is_already_known_counts_for_less(search, found):
    """A second experiment after an equal first one gains less."""
    commands = found.trajectory.commands[None]
    motions = search.exact.motions(search.judging, commands)
    told = search.exact.information(search.judging[0], commands, motions, 0)
    again = Judge("D", search.judge.precision + told.information[0], [0, 1, 2, 3]).gain(told)[0]
    assert 0 < again < 0.5 * search.judge.gain(told)[0]
    assert again <= 0.5 * np.log(2)  # twice the information is √2 times narrower


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"joints": ("elbow",)}, "no actuator drives a joint 'elbow'"),
        ({"home": {"knee": 0.0}}, "home names the joint 'knee'"),
        ({"parameters": ("body.rod.masss",)}, "none of the parameters that something is known of"),
        ({"asked": Limits({"hinge": (0.01, 0.02)}, {})}, "leave no room for 'hinge'"),
        ({"asked": Limits({"hinge": (1.0, -1.0)}, {})}, "does not rise"),
        ({"asked": Limits({}, {"hinge": 0.0})}, "speed and torque limits must be above zero"),
        ({"asked": Limits({}, {"hinge": 1e-6})}, "even small motions leave them"),
        ({"home": {"hinge": 1.5}, "asked": Limits({}, {"hinge": 0.5})}, "choose a home where the robot rests"),
        ({"how": replace(QUICK, seconds=0.5)}, "an experiment of 0.5 s cannot be designed"),
        ({"how": replace(QUICK, rate_hz=2.0)}, "commands at 2 Hz cannot be designed"),
    ],
)
def test_limits_that_leave_no_room_and_unknown_joints_are_refused(more, words):
    with pytest.raises(ConfigError, match=words):
        motor(**more)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('<actuator><motor name="hinge" joint="hinge" ctrlrange="-2 2"/></actuator>', "", "has no actuators"),
        (' ctrlrange="-2 2"', "", "the motor of 'hinge' has no limit"),
        ("<motor ", "<velocity ", "neither a position servo nor a motor"),
        ("</actuator>", '<position name="s" joint="hinge" kp="5"/></actuator>', "some actuators are servos"),
    ],
)
def test_actuators_that_nothing_can_be_designed_for_are_refused(old, new, words):
    model = Scene(MOTOR.replace(old, new)).nominal()
    with pytest.raises(ConfigError, match=words):
        motion_limits(model, model.qpos0)


def test_series_fill_their_room_and_no_more():
    model = Scene(SERVO).nominal()
    limits = motion_limits(model, model.qpos0)
    series = Series(limits, 50.0, 4.0)
    commands = series.commands(10 * series.random(stream(0, "s"), 5))
    assert (np.abs(commands) <= limits.room + 1e-9).all()
    assert (np.abs(np.diff(commands, axis=1)) * 50 <= limits.speed + 1e-9).all()


def asked(tmp_path: Path, **more) -> Asked:
    (tmp_path / "scene.xml").write_text(MOTOR)
    base = {"artifacts": (), "out": tmp_path / "t.json", "parameters": ("joint.hinge.damping",), "seconds": 2.0}
    return Asked(**{**base, "scene": tmp_path / "scene.xml", "candidates": 8, **more})


def test_the_command_writes_a_trajectory_and_prints_what_it_should_tell(tmp_path, capsys):
    found = run(asked(tmp_path, speed=("hinge=6",), limit=("hinge=-1..1",), home=("hinge=0.1",)), quiet)
    report(found, tmp_path / "t.json")
    said = capsys.readouterr().out
    assert "joint.hinge.damping" in said
    assert "times narrower" in said
    assert read_trajectory(tmp_path / "t.json").joints == ("hinge",)
    with pytest.raises(StoreError, match="Nothing is overwritten"):
        run(asked(tmp_path), quiet)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"scene": None}, "0 folders were given"),
        ({"artifacts": (Path("twin"),)}, "a scene and a twin were given"),
        ({"scene": None, "artifacts": (Path("a"), Path("b")), "prior": ("x=1..2",)}, "--prior goes with --scene"),
        ({"limit": ("hinge=1",)}, "Write JOINT=LOW..HIGH"),
        ({"torque_share": 0.0}, "cannot be kept"),
        ({"clearance_m": -1.0}, "cannot be kept"),
        ({"candidates": 3}, "too few to choose from"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path, more, words):
    with pytest.raises(ConfigError, match=words):
        run(asked(tmp_path, **more), quiet)


def test_commands_that_come_late_by_chance_make_the_prediction_humbler(search, found):
    commands, gains = found.trajectory.commands[None], []
    for jitter_s in (0.0, 0.002, 0.01):
        rough = search.rough
        rehearsal = Rehearsal(
            rough.scene, rough.beliefs, rough.sensors, rough.limits, rough.home, 50.0, 100, jitter_s=jitter_s
        )
        motions = rehearsal.motions(search.judging, commands)
        gains.append(search.judge.gain(rehearsal.information(search.judging[0], commands, motions, 0))[0])
    assert gains[0] > gains[1] > gains[2]


def test_ratios_that_are_known_stay_known_wherever_the_scale_lies():
    """Mass and friction known to 1 % of one another and neither to 50 %: a draw with twice of both fits as well."""
    held = beliefs(Scene(MOTOR).nominal(), RODS)
    rng = stream(0, "draws")
    scale = np.exp(0.3 * rng.normal(size=(500, 1)))
    own = np.exp(0.01 * rng.normal(size=(500, 4)))
    values = np.array([b.nominal for b in held]) * scale * own
    draws = np.stack([b.info.to_scale(column) for b, column in zip(held, values.T, strict=True)], axis=1)
    today = Today.of_draws(held, draws)
    assert today.relative.tolist() == [False, True, True, True]  # a mass is logarithmic already
    along, across = np.ones(4) / 2, np.array([1, -1, 1, -1]) / 2
    assert 1 / np.sqrt(along @ today.precision @ along) == pytest.approx(0.6, rel=0.15)
    assert 1 / np.sqrt(across @ today.precision @ across) == pytest.approx(0.01, rel=0.15)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A twin, a posterior of it, and a recording of the robot."""
    folder = tmp_path_factory.mktemp("excite")
    split_folder(folder)
    limited = (folder / "scene.xml").read_text().replace('joint="hinge"/>', 'joint="hinge" ctrlrange="-2 2"/>')
    (folder / "scene.xml").write_text(limited)
    with pytest.raises(SystemExit):
        cli.main(
            ["reconstruct", str(folder / "split"), "--scene", str(folder / "scene.xml"), "--out", str(folder / "twin")]
        )
    twin = Twin.load(folder / "twin")
    held = beliefs(Scene.of(twin).nominal(), ("joint.hinge.damping", "body.bob.mass"))
    rng = stream(0, "draws")
    draws = np.array([b.nominal for b in held]) * np.exp(0.05 * rng.normal(size=(400, 2)))
    infos, priors = tuple(b.info for b in held), tuple(b.prior for b in held)
    equal = np.full(400, -np.log(400))
    why = "made by hand for a test"
    known = Posterior(infos, priors, draws, equal, "test", ("e1",), {"twin": twin.hash}, no_discrepancy=why)
    known.save(folder / "posterior")
    other = Posterior(infos, priors, draws, equal, "test", ("e1",), {"twin": "0" * 64}, no_discrepancy=why)
    other.save(folder / "other")
    return folder


def test_a_posterior_and_a_recording_decide_what_is_sought_and_how_fast_commands_come(folders, tmp_path):
    artifacts = (folders / "twin", folders / "posterior")
    settings = {"artifacts": artifacts, "parameters": ("joint.*",), "seconds": 2.0, "candidates": 8}
    limits = {"speed": ("hinge=8",), "limit": ("hinge=-2..2",), "home": ("hinge=0",)}
    found = run(Asked(out=tmp_path / "t.json", split=folders / "split", **settings, **limits), quiet)
    assert found.parameters == ("joint.hinge.damping",)
    assert found.sd_now[0] == pytest.approx(0.05, rel=0.2)
    assert found.ratio[0] > 1
    told = Recording.load(folders / "split" / "calibration").episodes[0].of_kind("joint_command")[0].time_s
    assert found.trajectory.rate_hz == pytest.approx(1 / np.median(np.diff(told)), rel=0.02)


def excited(folders, out, *more):
    """The exit code of `twinproof excite` on the folders, small."""
    small = ("--seconds", "2", "--candidates", "8", "--speed", "hinge=8", "--limit", "hinge=-2..2", "--home", "hinge=0")
    given = ("excite", folders / "twin", folders / "posterior", "--out", out, *small, *more)
    with pytest.raises(SystemExit) as stop:
        cli.main([str(each) for each in given])
    return stop.value.code


def test_the_command_line_takes_the_rate_that_the_recorded_robot_took(folders, tmp_path):
    told = rate_of(Recording.load(folders / "split" / "calibration").episodes[0])
    assert told != RATE_HZ
    for name, more, rate_hz in [
        ("as_recorded", ("--split", folders / "split"), told),
        ("as_asked", ("--split", folders / "split", "--rate-hz", "40"), 40.0),
        ("nothing_said", (), RATE_HZ),
    ]:
        assert not excited(folders, tmp_path / name, *more)
        found = read_trajectory(tmp_path / name)
        assert found.for_robot(("hinge",), rate_hz) is found


def test_the_command_line_has_the_clearance_that_its_error_names(folders, tmp_path, capsys):
    assert excited(folders, tmp_path / "t.json", "--clearance-m", "11") == 1
    assert "--clearance-m 11.0 cannot be kept" in capsys.readouterr().err
    assert not (tmp_path / "t.json").exists()


def test_a_posterior_of_another_twin_and_a_parameter_nobody_knows_are_refused(folders, tmp_path):
    with pytest.raises(ConfigError, match="fitted to another twin"):
        run(Asked((folders / "twin", folders / "other"), tmp_path / "t.json"), quiet)
    with pytest.raises(ConfigError, match="nothing is known of a parameter 'joint.knee.*'"):
        run(Asked((folders / "twin", folders / "posterior"), tmp_path / "t.json", ("joint.knee.*",)), quiet)


def test_a_recording_without_commands_gives_no_rate():
    time_s = np.arange(5) / 100
    state = Signal("state", "joint_position", (Column("hinge", "rad"),), time_s, np.zeros((5, 1)))
    with pytest.raises(ConfigError, match="no commands to take a rate from"):
        rate_of(Episode.of({"state": state}, {}, source="run 1"))
