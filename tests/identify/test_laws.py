"""Laws beside the parameters, through the command: fitted on calibration, kept only where validation says they help."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.identify.arms import asked, swings
from tests.identify.folders import TRUTH
from tests.identify.test_command import command, fits
from tests.sim.motions import BOX, DOUBLE, PENDULUM, SERVO, gaussian, joint_signals, moved, sines, swing
from twinproof.guard.audit import audit
from twinproof.guard.make import Grouping, make
from twinproof.identify.laws import bench, deadband_of, friction_of
from twinproof.identify.residual_dynamics import ResidualDynamics
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import ConfigError, RecordingError
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Rig
from twinproof.sim.scene import Scene

SPRING = {**TRUTH, "joint.hinge.stiffness": 0.6}  # which the scene knows nothing of
FIXED = ("--fix", "body.bob.mass=0.6", "actuator.hinge.gain=1.2")


def deaf(deadband: float, seed: int) -> Episode:
    """A swing of a motor that does not hear small commands, and hears the others by as much less."""
    sent = sines(400, 1, 0.004, seed, 0.5)
    heard = np.sign(sent) * np.maximum(np.abs(sent) - deadband, 0.0)
    motion = moved(Scene(PENDULUM), heard, TRUTH, qpos=np.array([0.3 * np.cos(seed)]))
    signals = joint_signals(motion, sent, 2, gaussian(seed, state=1e-3), ("state",))
    return Episode.of(signals, {}, labels={"session": f"day_{seed}"}, source=f"deaf {seed}")


def folder_of(place: Path, truth: dict[str, float], episodes: list[Episode] | None = None) -> Path:
    made = episodes or [swing(PENDULUM, truth, k, 1.6, labels={"session": f"day_{k}"}, size=0.5) for k in range(6)]
    place.mkdir(parents=True)
    (place / "scene.xml").write_text(PENDULUM)
    make(
        Recording(Rig("pendulum"), tuple(made), {"kind": "test", "name": "made here"}),
        place / "split",
        Grouping(("session",)),
    )
    assert command("reconstruct", place / "split", "--scene", place / "scene.xml", "--out", place / "twin") == 0
    return place


def identify(place: Path, *more: object) -> int:
    asked_for = ("--parameters", "joint.hinge.damping", *FIXED, "--out", place / "posterior")
    return command("identify", place / "twin", place / "split", *asked_for, *more)


def test_a_spring_that_nobody_modelled_is_learned_and_adopted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = folder_of(tmp_path / "spring", SPRING)
    assert identify(place, "--residual", place / "residual") == 0
    assert "residual: adopted: the validation error falls by" in capsys.readouterr().out
    told = json.loads((place / "residual" / "verdict.json").read_text())
    assert told["verdict"]["adopted"]
    assert all(
        after < before for before, after in zip(told["verdict"]["before"], told["verdict"]["after"], strict=True)
    )
    learnt = ResidualDynamics.load(place / "residual")
    pull = learnt.members(np.array([[0.5, 0.0, 0.0], [-0.5, 0.0, 0.0]])).mean(axis=0)[:, 0]
    np.testing.assert_allclose(pull, [-0.3, 0.3], rtol=0.25)  # as the spring does
    assert fits(place) == ["reconstruct", "identify", "identify residual"]
    assert audit(place / "split", (place / "twin", place / "posterior")).ok


def test_laws_that_do_not_help_are_said_and_not_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = folder_of(tmp_path / "plain", TRUTH)
    assert identify(place, "--residual", place / "residual", "--actuators", place / "actuators.json") == 0
    shown = capsys.readouterr().out
    assert "actuators: " in shown
    assert "residual: not adopted: " in shown
    assert not (place / "residual" / "residual.safetensors").exists()
    law = json.loads((place / "actuators.json").read_text())
    assert set(law["actuators"]) == {"hinge"}
    assert not law["deadband"]["adopted"]
    assert law["actuators"]["hinge"]["deadband"] == 0
    assert {"joint.hinge.damping", "joint.hinge.frictionloss"} == set(law["parameters"])
    assert fits(place) == ["reconstruct", "identify", "identify actuators", "identify residual"]


def test_a_deadband_is_found_and_adopted_where_validation_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = folder_of(tmp_path / "deaf", TRUTH, [deaf(0.1, k) for k in range(6)])
    assert identify(place, "--actuators", place / "actuators.json") == 0
    assert "deadband: adopted: the validation error falls by" in capsys.readouterr().out
    told = json.loads((place / "actuators.json").read_text())
    assert told["deadband"]["adopted"]
    assert told["verdict"]["adopted"]
    assert told["actuators"]["hinge"]["deadband"] == pytest.approx(0.1, rel=0.15)
    assert all(
        each["adopted"] is (told["actuators"][motor]["friction"]["drift"] > 0) for motor, each in told["drift"].items()
    )


def test_servos_have_no_deadband_to_be_found() -> None:
    problem = asked(SERVO, ["joint.hinge.damping"], swings(SERVO, {}, 2, seconds=0.6))
    made = bench(problem, problem, problem.nominal)
    _, matched, _ = friction_of(made)
    assert deadband_of(made, matched, (made.theta, matched.law)) is None


def test_an_existing_place_for_a_law_is_refused_before_work(tmp_path: Path) -> None:
    (tmp_path / "actuators.json").write_text("{}")
    nowhere = ("identify", tmp_path / "twin", tmp_path / "split", "--parameters", "joint.*.damping")
    assert command(*nowhere, "--out", tmp_path / "p", "--actuators", tmp_path / "actuators.json") != 0
    assert (tmp_path / "actuators.json").read_text() == "{}"


def test_what_laws_cannot_do_is_an_error() -> None:
    problem = asked(PENDULUM, ["joint.hinge.damping"], swings(PENDULUM, TRUTH, 2, seconds=0.6))
    at = problem.nominal
    with pytest.raises(ConfigError, match="a law is judged on validation, and the split has none"):
        bench(problem, None, at)
    own = asked(PENDULUM, ["joint.hinge.damping"], problem.experiments, own={"joint.hinge.damping": "episode"})
    with pytest.raises(ConfigError, match="laws are fitted where all parameters are shared. Leave --differ out"):
        bench(own, problem, own.nominal)
    loose = [replace(each, scene=type(each.scene)(BOX)) for each in problem.experiments]
    free = asked(BOX, ["body.box.mass"], loose)
    with pytest.raises(ConfigError, match="laws act on hinges and slides, and this scene has bodies that move freely"):
        bench(free, free, free.nominal)
    half = [
        replace(each, readings=tuple(replace(r, place=r.place[:1], value=r.value[:, :1]) for r in each.readings))
        for each in swings(DOUBLE, {}, 2, seconds=0.6)
    ]
    two = asked(DOUBLE, ["joint.elbow.damping"], half)
    with pytest.raises(RecordingError, match="no signal says where joint 'elbow' is, and a law needs all joints"):
        bench(two, two, two.nominal)
    idle = PENDULUM[: PENDULUM.index("<actuator>")] + PENDULUM[PENDULUM.index("</actuator>") + len("</actuator>") :]
    still = asked(idle, ["joint.hinge.damping"], swings(idle, {}, 2, seconds=0.6))
    with pytest.raises(ConfigError, match="no motor of this scene drives a single joint"):
        friction_of(bench(still, still, still.nominal))
