"""What recordings cannot tell is said in sentences that name the pair, and the right way round."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.identify.arms import TRUTH, asked, pendulum, swinging, swings, told, wheel
from tests.sim.motions import DOUBLE, PENDULUM
from twinproof.identify.fit import Fit, GaussNewton, fit
from twinproof.identify.identifiability import (
    Direction,
    at_bounds,
    episode_shifts,
    sd_of,
    unidentified,
    weak_directions,
)
from twinproof.identify.laplace import Laplace
from twinproof.identify.problem import Problem
from twinproof.nouns.randomness import stream

OTHERS = {id: value for id, value in TRUTH.items() if id != "joint.hinge.damping"}


def test_gain_against_mass_without_torque_is_a_ratio() -> None:
    (only,) = weak_directions(wheel())
    assert only.sentence(wheel().problem) in (
        "only the ratio of actuator.hinge.gain and body.bob.mass is determined",
        "only the ratio of body.bob.mass and actuator.hinge.gain is determined",
    )
    assert only.sd > 0.9
    drawn = Laplace().infer(wheel().problem, wheel(), stream(0, "draws")).unknowns
    assert unidentified(wheel().problem, drawn) == ("actuator.hinge.gain", "body.bob.mass")


def test_a_pendulum_with_torque_has_no_weak_direction() -> None:
    assert weak_directions(pendulum()) == ()
    drawn = Laplace().infer(pendulum().problem, pendulum(), stream(0, "draws")).unknowns
    assert unidentified(pendulum().problem, drawn) == ()
    assert at_bounds(pendulum().problem, pendulum()) == ()


def test_a_pendulum_without_torque_tells_ratios_alone() -> None:
    made = swings(PENDULUM, TRUTH, 2, size=0.5)
    found = fit(asked(PENDULUM, list(TRUTH), made), GaussNewton())
    (only,) = weak_directions(found)
    said = only.sentence(found.problem)
    assert said.startswith(("only ratios among ", "only combinations of "))
    assert "actuator.hinge.gain" in said
    assert "body.bob.mass" in said


def test_a_parameter_that_nothing_sees_is_not_determined() -> None:
    # the wall that limits the joint is never reached
    text = PENDULUM.replace('damping="0.05"', 'damping="0.05" range="-3 3" limited="true" armature="0.001"')
    made = swings(text, {}, 1, seconds=1.0)
    found = fit(asked(text, ["joint.hinge.damping", "joint.hinge.range_offset"], made), GaussNewton())
    said = [each.sentence(found.problem) for each in weak_directions(found)]
    assert said == ["joint.hinge.range_offset is not determined by these recordings (100% of its prior remains)"]
    drawn = Laplace().infer(found.problem, found, stream(0, "draws")).unknowns
    assert unidentified(found.problem, drawn) == ("joint.hinge.range_offset",)
    assert told(found)["joint.hinge.range_offset"] == pytest.approx(0.0, abs=1e-3)  # and it stays where it was


def pair(first: float, second: float, ids: tuple[str, str]) -> str:
    problem = asked(DOUBLE, list(ids), swings(DOUBLE, {}, 1, seconds=0.1))
    assert problem.ids == ids
    parts = np.array([first, second]) / np.hypot(first, second)
    return Direction(parts, 0.9).sentence(problem)


def test_the_sentence_names_what_stays_while_the_direction_is_walked() -> None:
    logs = ("body.lower.mass", "body.upper.mass")
    plain = ("joint.elbow.damping", "joint.shoulder.damping")
    # one grows while the other falls: their product, or their sum, is what is known
    assert pair(1, -1.1, logs) == "only the product of body.upper.mass and body.lower.mass is determined"
    assert pair(1, 1.1, logs) == "only the ratio of body.upper.mass and body.lower.mass is determined"
    assert pair(1.1, -1, plain) == "only the sum of joint.elbow.damping and joint.shoulder.damping is determined"
    assert pair(1.1, 1, plain) == "only the difference of joint.elbow.damping and joint.shoulder.damping is determined"
    mixed = pair(1, 0.5, ("body.lower.mass", "joint.elbow.damping"))
    assert mixed == (
        "only a combination of body.lower.mass and joint.elbow.damping is determined "
        "(free along +1 body.lower.mass, +0.5 joint.elbow.damping, in prior sd)"
    )
    assert pair(1, 0.1, logs).startswith("body.lower.mass is not determined by these recordings (90% of its prior")


def test_many_logarithms_that_grow_together_are_ratios() -> None:
    ids = ("actuator.elbow.gain", "body.lower.mass", "body.upper.mass")
    problem = asked(DOUBLE, list(ids), swings(DOUBLE, {}, 1, seconds=0.1))
    together = Direction(np.array([1, 1.1, 1.2]) / 2, 0.9).sentence(problem)
    assert together == (
        "only ratios among body.upper.mass, body.lower.mass and actuator.elbow.gain are determined: "
        "all can grow together"
    )
    against = Direction(np.array([1, -1.1, 1.2]) / 2, 0.9).sentence(problem)
    assert against.startswith(
        "only combinations of body.upper.mass, body.lower.mass and actuator.elbow.gain are determined"
    )


# ---- limits


def test_a_prior_that_excludes_the_optimum_is_said() -> None:
    problem = asked(
        PENDULUM, ["joint.hinge.damping"], swings(PENDULUM, TRUTH, 1), ("joint.hinge.damping=0.1..0.3",), OTHERS
    )
    found = fit(problem, GaussNewton())
    assert at_bounds(problem, found) == (
        "joint.hinge.damping is at its lower limit 0.1 N m s/rad or N s/m: the prior may exclude the optimum",
    )
    drawn = Laplace().infer(problem, found, stream(0, "draws")).unknowns
    assert (drawn >= 0.1).all()
    assert drawn.mean() < 0.11


def test_an_optimum_inside_is_at_no_bound() -> None:
    assert at_bounds(swinging().problem, swinging()) == ()


# ---- episodes


def test_uncertainty_is_recording_and_prior_together() -> None:
    found = swinging()
    width = found.problem.width[0]
    assert sd_of(found)[0] == pytest.approx((found.information[0, 0] + width**-2) ** -0.5)


def odd_one() -> Fit:
    made = swings(PENDULUM, TRUTH, 4, seconds=1.0)
    (odd,) = swings(PENDULUM, {**TRUTH, "joint.hinge.damping": 0.14}, 1, seed=9, seconds=1.0)
    problem: Problem = asked(PENDULUM, ["joint.hinge.damping"], [*made, odd], fixed=OTHERS)
    return fit(problem, GaussNewton(((0.15,), (0.6,)), process_noise=False))


def test_an_episode_that_pulls_elsewhere_is_found_and_without_it_the_others_agree() -> None:
    found = odd_one()
    shifts = episode_shifts(found)
    assert shifts.shape == (5, 1)
    assert np.argmax(np.abs(shifts[:, 0])) == 4
    assert shifts[4, 0] < -4  # without it the damping would fall
    assert np.abs(shifts[:4]).max() < 0.7 * abs(shifts[4, 0])
    calm = episode_shifts(swinging())
    assert np.abs(calm).max() < 3


def test_what_one_episode_alone_tells_does_not_move_when_it_is_left_out() -> None:
    found = swinging()
    (stage,) = found.stages
    assert stage.reduced is not None
    alone = np.zeros_like(stage.reduced.by_episode)
    alone[0] = stage.reduced.hessian
    only = replace(found, stages=(replace(stage, reduced=replace(stage.reduced, by_episode=alone)),))
    np.testing.assert_array_equal(episode_shifts(only)[0], 0.0)
