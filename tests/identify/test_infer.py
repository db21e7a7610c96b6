"""From a twin and calibration episodes to a Posterior that says what it knows, what not, and how its bands cover."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.identify.folders import TRUTH, recorded, split_folder
from tests.sim.motions import BOX, PENDULUM, moved, pose_signal, signal, swing
from twinproof.identify.beliefs import Stated
from twinproof.identify.fit import Fit
from twinproof.identify.infer import Question, identified, infer, problem_of, solve
from twinproof.identify.laplace import Laplace
from twinproof.identify.method import Draws, Method
from twinproof.identify.problem import Problem
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import ConfigError, RecordingError
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.randomness import stream
from twinproof.nouns.split import Split
from twinproof.nouns.twin import Twin
from twinproof.reconstruct.declare import declared
from twinproof.sim.scene import Scene

KNOWN = {"body.bob.mass": 0.6, "actuator.hinge.gain": 1.2}
ASKED = Question(("joint.hinge.damping", "joint.hinge.frictionloss"), fixed=KNOWN)
QUICK = Laplace(draws=300)
SCENE = Scene(PENDULUM)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Split, Twin]:
    folder = tmp_path_factory.mktemp("infer")
    split = split_folder(folder)
    (folder / "scratch").mkdir()
    return split, declared(SCENE, "scene.xml", split.parts()[0], folder / "scratch")


@pytest.fixture(scope="module")
def posterior(made: tuple[Split, Twin]) -> Posterior:
    split, twin = made
    calibration, validation, _ = split.parts()
    return infer(twin, calibration, ASKED, QUICK, stream(0, "infer"), validation=validation, seed_number=7)


def test_the_truth_is_found_and_covered(posterior: Posterior) -> None:
    assert posterior.ids == ASKED.parameters
    for id in ASKED.parameters:
        assert posterior.mean(id) == pytest.approx(TRUTH[id], rel=0.05)
        assert abs(posterior.z_score(id, TRUTH[id])) < 5
    assert posterior.unidentified == ()
    assert posterior.weak_directions == ()


def test_a_posterior_carries_all_that_it_was_made_of(
    posterior: Posterior, made: tuple[Split, Twin], tmp_path: Path
) -> None:
    split, twin = made
    calibration, _, _ = split.parts()
    assert posterior.episodes == calibration.ids
    assert dict(posterior.parents) == {"twin": twin.hash, "split": calibration.split}
    assert (posterior.method, posterior.seed, len(posterior.draws)) == ("laplace", 7, 300)
    assert [each.signal for each in posterior.discrepancy] == ["state.hinge"]
    told = posterior.diagnostics
    for name in ("noise", "episodes", "whiteness", "warnings", "cost", "cost_by_step", "at_bounds", "unknowns"):
        assert name in told, name
    assert told["noise"]["state.hinge"] == pytest.approx(1e-3, rel=0.2)
    assert {each["kind"] for each in told["episodes"]} == {"driven"}
    assert told["warnings"] == ()
    assert told["cost"]["windows_rolled"] > 100
    assert posterior.settings["method"]["draws"] == 300
    posterior.save(tmp_path / "posterior")
    assert Posterior.load(tmp_path / "posterior") == posterior


def test_coverage_on_validation_is_part_of_the_result(posterior: Posterior, made: tuple[Split, Twin]) -> None:
    split, _ = made
    told = posterior.diagnostics["validation"]
    assert set(told["episodes"]) == set(split.validation)
    assert 0.7 <= told["covered"] <= 1.0
    assert told["by_signal"]
    assert not set(told["episodes"]) & set(posterior.episodes)


def test_the_same_seed_gives_the_same_posterior(posterior: Posterior, made: tuple[Split, Twin]) -> None:
    split, twin = made
    again = infer(twin, split.parts()[0], ASKED, QUICK, stream(0, "infer"), seed_number=7)
    np.testing.assert_array_equal(again.draws, posterior.draws)
    assert "validation" not in again.diagnostics


def test_what_the_holdout_holds_is_never_asked(made: tuple[Split, Twin], posterior: Posterior) -> None:
    split, _ = made
    assert not set(posterior.episodes) & set(split.holdout)
    assert not set(posterior.diagnostics["validation"]["episodes"]) & set(split.holdout)


# ---- what the data cannot see


@cache
def episodes(count: int = 2, seconds: float = 0.9) -> tuple[Episode, ...]:
    return recorded(count=count, seconds=seconds).episodes


def answer(question: Question, seen: tuple[Episode, ...], method: Method = QUICK) -> Posterior:
    problem = problem_of(SCENE, seen, question)
    found = solve(problem, method, stream(0, "solve"))
    return found.posterior(
        episodes=tuple(sorted(each.id for each in seen)),
        parents={"twin": "7" * 64, "split": "5" * 64},
        diagnostics=found.diagnostics,
        method=method.name,
    )


def test_gain_and_mass_and_friction_without_torque_are_marked_and_said() -> None:
    found = answer(Question(tuple(TRUTH)), episodes())
    assert {"actuator.hinge.gain", "body.bob.mass"} <= set(found.unidentified)
    assert len(found.weak_directions) == 1
    assert found.sd("body.bob.mass") > 0.05
    ratio = found.column("actuator.hinge.gain") / found.column("body.bob.mass")
    assert ratio.std() < 0.02 * ratio.mean()
    assert ratio.mean() == pytest.approx(2.0, rel=0.02)


def test_a_prior_on_one_of_a_tied_pair_determines_the_other() -> None:
    found = answer(Question(tuple(TRUTH), priors=(Stated.parse("body.bob.mass=0.6+-0.003"),)), episodes())
    assert found.mean("actuator.hinge.gain") == pytest.approx(1.2, rel=0.02)
    assert "actuator.hinge.gain" not in found.unidentified
    assert found.sd("actuator.hinge.gain") == pytest.approx(0.006, rel=0.3)


def test_a_delay_is_scanned_first_and_its_scan_is_kept() -> None:
    late = tuple(swing(PENDULUM, TRUTH, k, 0.9, size=0.4, delay_s=0.0137) for k in range(2))
    known = {**KNOWN, "joint.hinge.frictionloss": 0.04}
    found = answer(Question(("actuator.hinge.delay", "joint.hinge.damping"), fixed=known), late)
    assert found.mean("actuator.hinge.delay") == pytest.approx(0.0137, rel=0.03)
    assert found.diagnostics["delay_scan"][0][0] == 0.0


def test_two_delays_that_only_add_up_are_refused_together() -> None:
    # late commands and late stamps move a free motion alike: their sum is all that one signal tells
    late = []
    for each in episodes():
        state = each.signals["state"]
        late.append(Episode.of({**each.signals, "state": replace(state, time_s=state.time_s + 0.012)}, {}))
    delays = ("actuator.hinge.delay", "signal.state.delay")
    known = {**KNOWN, "joint.hinge.frictionloss": 0.04, "joint.hinge.damping": 0.08}
    with pytest.raises(ConfigError, match="only the sum of actuator.hinge.delay and signal.state.delay is determined"):
        answer(Question(delays, fixed=known), tuple(late))
    alone = answer(Question(delays[1:], fixed=known), tuple(late))
    assert alone.mean(delays[1]) == pytest.approx(0.012, rel=0.02)


def slid(seed: int) -> Episode:
    """A box that slides and turns on a plane, tracked with noise."""
    rng = stream(seed, "box")
    begin = np.r_[rng.uniform(-1, 1, 2), 0, 0, 0, rng.uniform(-5, 5)]
    lying = np.array([0, 0, 0.03, 1, 0, 0, 0])
    motion = moved(Scene(BOX), truth={"body.box.friction_slide": 0.3}, seconds=0.6, qpos=lying, qvel=begin)
    track = pose_signal(motion, "box", "box", every=5)
    noisy = {
        each.name: track.column(each.name) + (3e-4 if each.name in "xyz" else 1e-3) * rng.normal(size=len(track.time_s))
        for each in track.columns
    }
    return Episode.of({"box": signal("box", "pose", noisy, track.time_s, "m")}, {})


def test_a_sliding_box_gives_up_its_friction() -> None:
    seen = tuple(slid(k) for k in range(3))
    problem = problem_of(Scene(BOX), seen, Question(("object.box.friction",)))
    found = solve(problem, QUICK, stream(0, "solve"))
    draws = found.draws[:, 0]
    assert abs(draws.mean() - 0.3) < 4 * draws.std()
    assert draws.mean() == pytest.approx(0.3, rel=0.1)


# ---- families


def test_objects_of_a_family_give_a_population_whose_new_member_is_wider_than_its_centre() -> None:
    seen = recorded(objects={"a": 0.5, "b": 0.6, "c": 0.7}, count=3, seconds=0.8).episodes
    fixed = {id: value for id, value in TRUTH.items() if id != "body.bob.mass"}
    found = answer(Question(("body.bob.mass",), differ={"body.*": "object"}, fixed=fixed), seen)
    family = found.population
    assert family is not None
    assert (family.family, family.instances, family.parameters) == ("object", ("a", "b", "c"), ("body.bob.mass",))
    np.testing.assert_allclose(family.values.mean(axis=0)[:, 0], [0.5, 0.6, 0.7], rtol=0.02)
    assert family.predictive.std() > found.sd("body.bob.mass") > family.values[:, 0, 0].std()
    assert found.mean("body.bob.mass") == pytest.approx(0.6, rel=0.15)


def test_other_objects_may_have_other_scenes() -> None:
    heavy = Scene(PENDULUM.replace('mass=".5"', 'mass=".9"'))
    seen = recorded(objects={"light": 0.5, "heavy": 0.9}, count=2, seconds=0.6).episodes
    problem = problem_of(SCENE, seen, Question(("joint.hinge.damping",), scenes={"object": {"heavy": heavy}}))
    masses = {each.labels["object"]: each.scene.nominal().body("bob").mass[0] for each in problem.experiments}
    assert masses == {"light": 0.5, "heavy": 0.9}


# ---- a user's own method, and bad input


class Nearby(Method):
    """A method of a user's own: a few points around the optimum."""

    name = "nearby"

    def infer(self, problem: Problem, fitted: Fit, rng: np.random.Generator, progress: Progress = quiet) -> Draws:
        rows = fitted.unknowns + 1e-4 * rng.normal(size=(50, len(fitted.unknowns)))
        return Draws(rows, np.full(50, -np.log(50)), 50, {"points": 50})


def test_a_users_own_method_is_as_good_as_ours() -> None:
    found = answer(ASKED, episodes(), Nearby())
    assert (found.method, len(found.draws), found.diagnostics["points"]) == ("nearby", 50, 50)


def test_an_episode_that_fits_nothing_is_left_out_and_said_and_none_at_all_is_an_error() -> None:
    strange = Episode.of(
        {"state": signal("state", "joint_position", {"toe": np.zeros(50)}, np.arange(50) * 0.01)}, {}, source="take 9"
    )
    found = answer(ASKED, (*episodes(), strange))
    assert any("take 9: no signal fits the model" in warning for warning in found.diagnostics["warnings"])
    with pytest.raises(RecordingError, match="take 9: no signal fits the model"):
        problem_of(SCENE, (strange,), ASKED)


def test_what_is_to_differ_must_be_asked_for() -> None:
    question = Question(("joint.hinge.damping",), differ={"body.*.mass": "object"})
    with pytest.raises(ConfigError, match="'body.\\*.mass' is to differ between episodes, and no parameter of the fit"):
        problem_of(SCENE, episodes(), question)


def test_several_starts_end_in_the_same_place_and_their_costs_are_kept(made: tuple[Split, Twin]) -> None:
    split, twin = made
    found, parts, checked = identified(twin, split.parts()[0], ASKED, QUICK, stream(0, "infer"), starts=2)
    assert found.mean("joint.hinge.damping") == pytest.approx(0.08, rel=0.05)
    assert len(found.diagnostics["starts"]) == 2
    assert checked is None
    assert parts.problem.ids == ASKED.parameters
