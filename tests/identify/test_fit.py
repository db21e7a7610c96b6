"""The point estimate gives back what was planted, in one go or after a stop; and says when it cannot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.identify.arms import DELAY, NOISE, TRUTH, asked, pendulum, servo, swinging, swings, told
from tests.sim.motions import DOUBLE, PENDULUM
from twinproof.identify.checkpoint import Checkpoint
from twinproof.identify.fit import Fit, GaussNewton, check_started, fit, prior_cost
from twinproof.identify.laplace import covariance_of
from twinproof.nouns.errors import PosteriorError

OTHERS = {id: value for id, value in TRUTH.items() if id != "joint.hinge.damping"}
# a pendulum that swings on for many seconds
LIGHT = PENDULUM.replace('damping="0.05" frictionloss="0.03"', 'damping="0.002"')
QUICK = GaussNewton(((0.15,), (0.5,), (0.15,)), free_starts=True)


def test_a_pendulum_gives_up_damping_friction_mass_gain_and_a_delay_between_steps() -> None:
    found = told(pendulum())
    for id, value in {**TRUTH, DELAY: 0.0137}.items():
        assert found[id] == pytest.approx(value, rel=0.01), id


def test_the_truth_lies_within_the_stated_uncertainty() -> None:
    found = pendulum()
    truth = {**TRUTH, DELAY: 0.0137}
    at = np.array([float(b.info.to_scale(truth[b.id])) for b in found.problem.beliefs])
    z = (found.unknowns - at) / np.sqrt(np.diag(covariance_of(found)))
    assert np.abs(z).max() < 4.5


def test_the_noise_of_every_signal_is_found() -> None:
    (stage,) = pendulum().stages
    for entry, sd in zip(stage.shooting.entries, stage.sd, strict=True):
        assert sd == pytest.approx(NOISE[entry.split(".")[0]], rel=0.15), entry


def test_a_servo_magnifies_nothing_and_is_first_followed_over_one_long_stage() -> None:
    found = servo()
    assert told(found)["actuator.hinge.gain"] == pytest.approx(24.0, rel=0.01)
    assert told(found)["body.bob.mass"] == pytest.approx(0.6, rel=0.02)
    assert told(found)[DELAY] == pytest.approx(0.0137, rel=0.02)
    seen = set[str]()
    few = GaussNewton(max_steps=1)
    fit(found.problem, few, progress=lambda done, name, total=None: seen.add(name.split(":")[0]))
    assert seen == {"stage 1 of 2", "stage 2 of 2"}
    wild = asked(LIGHT, ["joint.hinge.damping"], swings(LIGHT, {}, 1, seconds=2.5))
    fit(wild, few, progress=lambda done, name, total=None: seen.add(name.split(":")[0]))
    assert seen >= {"stage 1 of 3", "stage 2 of 3", "stage 3 of 3"}


def test_two_swinging_links_keep_their_starts_and_are_fitted_on_short_windows_last() -> None:
    truth = {"joint.elbow.damping": 0.02, "body.lower.mass": 0.4}
    made = swings(DOUBLE, truth, 2, noise={"state": 5e-4})
    found = fit(asked(DOUBLE, list(truth), made), GaussNewton())
    (stage,) = found.stages
    assert stage.free is not None
    assert stage.windows is None
    assert (stage.shooting.length * stage.shooting.step_s).max() < 0.3
    assert told(found)["body.lower.mass"] == pytest.approx(0.4, rel=0.02)
    assert told(found)["joint.elbow.damping"] == pytest.approx(0.02, rel=0.05)


def test_a_perfect_model_needs_no_process_noise_and_a_wrong_one_does() -> None:
    right = swinging()
    held = {**OTHERS, "actuator.hinge.gain": 1.6}  # a motor that is a third stronger than it was
    wrong = fit(asked(PENDULUM, ["joint.hinge.damping"], right.problem.experiments, fixed=held), QUICK)
    assert (right.stages[-1].process < 0.02).all()
    assert (wrong.stages[-1].process > 3 * right.stages[-1].process).all()
    assert told(right)["joint.hinge.damping"] == pytest.approx(0.08, rel=0.02)


def test_information_is_that_of_the_recording_and_adds_up_over_episodes() -> None:
    found = swinging()
    np.testing.assert_allclose(found.by_episode.sum(axis=0), found.information, rtol=1e-10)
    assert len(found.scores) == len(found.score_episode)
    assert set(found.score_episode.tolist()) == {0, 1, 2}
    assert np.abs(found.gradient[0]) / np.sqrt(found.information[0, 0]) < 0.3  # an optimum: nothing pulls
    assert found.rollouts > 100


def test_objects_get_masses_of_their_own() -> None:
    made = []
    for k, kg in enumerate((0.4, 0.7, 0.4)):
        (one,) = swings(PENDULUM, {**TRUTH, "body.bob.mass": kg}, 1, seed=k, labels={"object": f"bob {kg}"}, size=0.5)
        made.append(one)
    fixed = {id: value for id, value in TRUTH.items() if id not in ("body.bob.mass", "joint.hinge.damping")}
    problem = asked(
        PENDULUM, ["body.bob.mass", "joint.hinge.damping"], made, fixed=fixed, own={"body.bob.mass": "object"}
    )
    found = fit(problem, GaussNewton())
    values = problem.values(found.unknowns)
    np.testing.assert_allclose(values[:, 0], [0.4, 0.7, 0.4], rtol=0.01)
    np.testing.assert_allclose(values[:, 1], 0.08, rtol=0.02)
    assert found.information.shape == (3, 3)
    assert abs(found.information[1, 2]) < 1e-9 * found.information[1, 1]  # what one object tells of the other


def test_an_informative_prior_pulls_and_its_cost_counts() -> None:
    made = swings(PENDULUM, TRUTH, 1, seconds=0.3)
    plain = fit(asked(PENDULUM, ["joint.hinge.damping"], made, fixed=OTHERS), QUICK)
    held = asked(PENDULUM, ["joint.hinge.damping"], made, ("joint.hinge.damping=0.2+-0.001",), OTHERS)
    pulled = fit(held, QUICK)
    assert abs(told(pulled)["joint.hinge.damping"] - 0.2) < abs(told(plain)["joint.hinge.damping"] - 0.2)
    assert told(pulled)["joint.hinge.damping"] > 0.15
    assert prior_cost(held, np.array([0.203])) == pytest.approx(4.5)


def test_outliers_do_not_bend_the_fit() -> None:
    (clean,) = swings(PENDULUM, TRUTH, 1)
    (reading,) = clean.readings
    value = reading.value.copy()
    value[::25] += 0.3
    dirty = replace(clean, readings=(replace(reading, value=value),))
    found = fit(asked(PENDULUM, ["joint.hinge.damping"], [dirty], fixed=OTHERS), QUICK)
    assert told(found)["joint.hinge.damping"] == pytest.approx(0.08, rel=0.03)


# ---- stopped and resumed


class Stopped(Exception):
    """The machine was taken away."""


def test_a_fit_that_was_killed_after_a_stage_goes_on_and_ends_the_same(tmp_path: Path) -> None:
    truth = {"joint.hinge.damping": 0.003, "body.bob.mass": 0.55}
    problem = asked(LIGHT, list(truth), swings(LIGHT, truth, 2, seconds=1.0))
    whole = fit(problem, QUICK)

    def last(name: str) -> bool:
        _, number, _, count = name.split(":")[0].split()
        return number == count

    def stop(done: int, name: str, total: int | None = None) -> None:
        if last(name):
            raise Stopped

    keep = Checkpoint(tmp_path / "kept", "one question")
    with pytest.raises(Stopped):
        fit(problem, QUICK, progress=stop, keep=keep)
    assert (keep.folder / "stage0.npz").is_file()
    seen: list[str] = []
    resumed = fit(problem, QUICK, progress=lambda done, name, total=None: seen.append(name), keep=keep)
    assert seen
    assert all(map(last, seen))
    np.testing.assert_array_equal(resumed.unknowns, whole.unknowns)
    np.testing.assert_array_equal(resumed.information, whole.information)
    assert (resumed.rollouts, resumed.history) == (whole.rollouts, whole.history)
    other = fit(problem, QUICK, keep=Checkpoint(tmp_path / "kept", "another question"))
    np.testing.assert_array_equal(other.unknowns, whole.unknowns)


def test_when_every_rollout_diverges_the_fit_says_so() -> None:
    made = swings(PENDULUM, {}, 1, seconds=0.3)
    mad = {"joint.hinge.stiffness": 1e6, "joint.hinge.frictionloss": 0.03}
    problem = asked(PENDULUM, ["joint.hinge.damping"], made, fixed=mad)
    found: Fit = fit(problem, GaussNewton(max_steps=3))
    with pytest.raises(PosteriorError, match="every rollout diverged at the best parameters"):
        check_started(found)


def test_a_good_fit_has_started() -> None:
    check_started(pendulum())
