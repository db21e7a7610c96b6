"""Laws beside the parameters, through the command: fitted on calibration, kept only where validation says they help."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.identify.arms import asked, swings
from tests.identify.folders import TRUTH
from tests.identify.test_command import command, fits
from tests.sim.motions import BOX, DOUBLE, PENDULUM, SERVO, gaussian, joint_signals, moved, sines, swing
from twinproof.evaluate.replay import replay, with_ranges
from twinproof.guard.audit import audit
from twinproof.guard.make import Grouping, make
from twinproof.identify.checkpoint import Checkpoint
from twinproof.identify.law_bench import bench
from twinproof.identify.laws import Search, extra_free, friction_free, motors_of, search_actuators, search_residual
from twinproof.nouns.drive import RESIDUAL
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import ConfigError, RecordingError
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Joint, Rig
from twinproof.nouns.split import Split
from twinproof.nouns.twin import Twin
from twinproof.sim.experiment import experiment
from twinproof.sim.residual_law import ResidualDynamics
from twinproof.sim.scene import Scene

SPRING = {**TRUTH, "joint.hinge.stiffness": 0.6}  # which the scene knows nothing of
FIXED = ("--fix", "body.bob.mass=0.6", "actuator.hinge.gain=1.2")


def deaf(
    seed: int, kinds: tuple[str, ...] = ("state",), steps: int = 0, bent: float = 0.0, **numbers: float
) -> Episode:
    """A swing of a motor that does something else than it is told: `steps` late, clipped, or `bent` out of shape."""
    sent = sines(400, 1, 0.004, seed, 0.5)
    told = np.concatenate([np.repeat(sent[:1], steps, axis=0), sent[: len(sent) - steps]])
    got = heard(told, **numbers) if not bent else told / (1 + bent * np.abs(told)) + 0.3 * np.sin(6 * told)
    motion = moved(Scene(PENDULUM), got, TRUTH, qpos=np.array([0.3 * np.cos(seed)]))
    signals = joint_signals(motion, sent, 2, gaussian(seed, state=1e-3, velocity=5e-3, torque=2e-3), kinds)
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


def identify(place: Path, *more: object) -> Posterior:
    asked_for = ("--parameters", "joint.hinge.damping", *FIXED, "--out", place / "posterior")
    assert command("identify", place / "twin", place / "split", *asked_for, *more) == 0
    return Posterior.load(place / "posterior")


def tried(found: Posterior) -> dict[str, dict[str, object]]:
    told: object = found.diagnostics["drive"]
    return {each["name"]: each for each in told}  # type: ignore[attr-defined]


def test_a_spring_that_nobody_modelled_is_learned_adopted_and_moves_the_twin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = folder_of(tmp_path / "spring", SPRING)
    found = identify(place, "--residual")
    shown = capsys.readouterr().out
    assert "tried residual dynamics: adopted: the validation error falls by" in shown
    assert "drive: residual dynamics. randomize, train, evaluate and view move the twin by it" in shown
    told = tried(found)["residual dynamics"]
    assert all(after < before for before, after in zip(told["before"], told["after"], strict=True))  # type: ignore[call-overload]
    assert found.drive is not None
    learnt = ResidualDynamics.unpacked(found.drive.residual, found.drive.part(RESIDUAL))
    pull = learnt.members(np.array([[0.5, 0.0, 0.0], [-0.5, 0.0, 0.0]])).mean(axis=0)[:, 0]
    np.testing.assert_allclose(pull, [-0.3, 0.3], rtol=0.25)  # as the spring does
    assert (learnt.torque(np.array([[40.0, 0.0, 0.0]])) == 0).all()  # silent where calibration never was
    assert fits(place) == ["reconstruct", "identify"]
    assert audit(place / "split", (place / "twin", place / "posterior")).ok
    unseen, twin = Split.load(place / "split").parts()[1].recording.episodes[0], Twin.load(place / "twin")
    theta = found.point() | {"body.bob.mass": 0.6, "actuator.hinge.gain": 1.2}
    rig = with_ranges(Rig("pendulum", joints=(Joint("hinge"),)), Scene.of(twin))
    plain, moved_by = (replay(Scene.of(twin, drive), unseen, theta, rig).total_rmse for drive in (None, found.drive))
    assert moved_by < 0.9 * plain


def test_coverage_and_model_error_are_of_the_twin_that_the_drive_moves(tmp_path: Path) -> None:
    place = folder_of(tmp_path / "spring", SPRING)
    moved_by = identify(place, "--residual")
    known = ("--split", place / "split", "--twin", place / "twin")
    assert command("randomize", place / "posterior", *known, "--out", place / "ranges") == 0
    alone = identify(folder_of(tmp_path / "again", SPRING))
    far = [max(each.sd[-1] for each in found.discrepancy) for found in (moved_by, alone)]
    assert far[0] < 0.6 * far[1]
    checked, before = (moved_by.diagnostics[name] for name in ("validation", "validation_without_drive"))
    assert before == alone.diagnostics["validation"]
    score = [np.mean([row["interval_score"] for row in each["by_signal"]]) for each in (checked, before)]
    assert score[0] < 0.7 * score[1]
    assert moved_by.drive is not None
    ranges = Randomization.load(place / "ranges")
    assert ranges.drive is not None
    assert ranges.drive.hash == moved_by.drive.hash
    assert ranges.hash != replace(ranges, drive=None).hash


def test_a_law_that_does_not_help_is_said_and_not_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = identify(folder_of(tmp_path / "plain", TRUTH), "--residual")
    shown = capsys.readouterr().out
    assert "tried residual dynamics: not adopted: " in shown
    assert "drive: none was adopted; the twin is moved by its parameters alone" in shown
    assert found.drive is None
    assert "validation_without_drive" not in found.diagnostics


def searched(episodes: list[Episode]) -> Search:
    """Models of the motors, tried where all parameters are right; the last two episodes judge."""
    seen = [experiment(each, Scene(PENDULUM)) for each in episodes]
    known = {id: value for id, value in TRUTH.items() if id != "joint.hinge.damping"}
    first, second = (asked(PENDULUM, ["joint.hinge.damping"], part, fixed=known) for part in (seen[:-2], seen[-2:]))
    search = Search(bench(first, second, first.beliefs[0].info.to_scale(np.array([0.08]))))
    search_actuators(search, 0)
    return search


def test_motors_that_do_as_they_are_told_get_no_model() -> None:
    search = searched([swing(PENDULUM, TRUTH, k, 1.6, size=0.5) for k in range(6)])
    assert search.best is None
    assert [each.name for each in search.tried] == ["friction", "deadband", "saturation", "torque labels"]
    assert str(search.tried[-1]).startswith("torque labels: not tried: there are no measured torques")


def heard(commands: np.ndarray, **numbers: float) -> np.ndarray:
    return np.clip(
        np.sign(commands) * np.maximum(np.abs(commands) - numbers.get("deadband", 0.0), 0.0),
        -numbers.get("saturation", np.inf),
        numbers.get("saturation", np.inf),
    )


@pytest.mark.parametrize(("what", "value"), [("deadband", 0.1), ("saturation", 0.6)])
def test_what_a_motor_does_to_commands_is_found_and_adopted_where_validation_says_so(
    what: str, value: float, tmp_path: Path
) -> None:
    found = identify(folder_of(tmp_path / what, TRUTH, [deaf(k, **{what: value}) for k in range(6)]), "--actuators")
    assert tried(found)[what]["adopted"]
    assert found.drive is not None
    assert motors_of(found.drive).value(f"hinge.{what}") == pytest.approx(value, rel=0.15)
    for name, each in tried(found).items():
        if name.startswith("drift of "):
            assert each["adopted"] is (motors_of(found.drive).value("hinge.drift") > 0)


def test_measured_torques_tell_how_a_command_becomes_torque(tmp_path: Path) -> None:
    late = [deaf(k, kinds=("state", "velocity", "torque"), deadband=0.1, steps=3) for k in range(6)]
    found = identify(folder_of(tmp_path / "labels", TRUTH, late), "--actuators")
    assert tried(found)["torque labels"]["adopted"]
    assert found.drive is not None
    law = motors_of(found.drive)
    assert law.value("hinge.deadband") == pytest.approx(0.1, rel=0.05)
    assert law.value("hinge.delay_s") == pytest.approx(0.012, abs=0.001)
    assert law.value("hinge.gain") == pytest.approx(1.0, rel=0.02)


def test_a_motor_that_no_number_describes_gets_a_network() -> None:
    pytest.importorskip("torch")
    search = searched([deaf(k, kinds=("state", "velocity", "torque"), bent=3.0) for k in range(6)])
    assert [each.name.partition(" (")[0] for each in search.tried] == ["friction", "torque labels", "history network"]
    assert "torque of hinge: not white" in search.tried[-1].name
    assert search.tried[-1].adopted
    assert search.best is not None
    assert search.best.network
    assert search.best.told == "actuator model of hinge and history network"


def test_models_that_were_tried_are_not_tried_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    problem = asked(PENDULUM, ["joint.hinge.damping"], swings(PENDULUM, SPRING, 3, seconds=1.0))
    made, keep = bench(problem, problem, problem.nominal), Checkpoint(tmp_path / "kept", "key")
    first, again = Search(made, keep=keep), Search(made, keep=keep)
    search_residual(first, 0)
    assert first.best is not None
    monkeypatch.setattr("twinproof.identify.laws.residual_of", lambda *_: pytest.fail("it was tried again"))
    search_residual(again, 0)
    assert again.best is not None
    assert (again.best.hash, again.tried) == (first.best.hash, first.tried)


def test_servos_have_slack_and_no_deadband_to_be_found() -> None:
    problem = asked(SERVO, ["joint.hinge.damping"], swings(SERVO, {}, 2, seconds=0.6))
    made = bench(problem, problem, problem.nominal)
    assert [len(list(extra_free(made, what))) for what in ("deadband", "saturation", "backlash")] == [0, 0, 1]


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
        friction_free(bench(still, still, still.nominal))
