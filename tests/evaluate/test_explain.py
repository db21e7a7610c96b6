"""A failed trial's commands, played again in twins that each believe one thing otherwise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.evaluate.swing import spring
from tests.evaluate.test_closed_loop import SCENE, TASK, jobs
from tests.tasks.scenes import home, lab_scene
from twinproof.evaluate.closed_loop import Batch, Stage, run_jobs
from twinproof.evaluate.explain import Explained, Guess, decided, explain, guesses, refined
from twinproof.nouns.failure import Failure
from twinproof.nouns.randomization import Randomization, Range
from twinproof.nouns.source import Declared
from twinproof.nouns.theta import Theta
from twinproof.sim.parameters.resolve import parameter
from twinproof.tasks import push

HEAVY = Guess("physics", "the object's mass × 30", Theta({"body.object.mass": 3.0}))
STICKY = Guess("contact", "the object's friction × 6", Theta({"geom.object.friction_slide": 2.0}))


def test_motors_that_answer_late_are_told_from_all_else():
    late = Theta({"actuator.shoulder.delay": 0.12, "actuator.elbow.delay": 0.12})
    (real,) = run_jobs(SCENE, TASK, spring(TASK, 1.5), jobs(1, late), Batch(as_seen=True))
    found = explain(Stage(SCENE, TASK, spring(TASK, 1.5)), jobs(1)[0], real.trace)
    assert found.believed > 1
    assert found.costs["embodiment"][0] < 1e-6
    label, why = decided(found)
    assert label is Failure.EMBODIMENT
    assert "commands 0.12 s late" in why


def test_commands_that_make_the_same_motion_in_the_twin_were_given_on_something_else_seen():
    (real,) = run_jobs(SCENE, TASK, spring(TASK, 0.0), jobs(1))
    found = explain(Stage(SCENE, TASK, spring(TASK)), jobs(1)[0], real.trace)
    assert found.believed < 1e-9
    assert decided(found)[0] is Failure.PERCEPTION
    assert decided(Explained(0.1, {}, succeeds=True))[0] is Failure.UNDECIDED


def test_one_factor_alone_is_told_two_or_none_are_not():
    told = Explained(20.0, {"physics": (0.3, HEAVY), "contact": (9.0, STICKY)}, False)
    assert decided(told) == (Failure.PHYSICS, "a replay is 0.01 times as far off with the object's mass × 30")
    near = Explained(20.0, {"physics": (0.3, HEAVY), "contact": (0.9, STICKY)}, False)
    assert decided(near)[0] is Failure.UNDECIDED
    assert decided(near)[1].endswith("and nearly so with the object's friction × 6")
    none = Explained(20.0, {"physics": (8.0, HEAVY), "contact": (9.0, STICKY)}, False)
    assert decided(none)[1].startswith("no single guess explains the motion")


def test_a_value_beyond_the_range_that_was_drawn_from_is_a_missed_range():
    info, why = parameter("body.object.mass").info, ("planted", "a test", "a test")
    ranges = Randomization((Range(info, 0.02, 0.5, 0.1, Declared("a test"), "dynamics", *why),), {})
    told = Explained(20.0, {"physics": (0.3, HEAVY)}, False)
    assert decided(told, ranges)[0] is Failure.RESIDUAL_RANGE
    assert "body.object.mass was drawn from 0.02 to 0.5" in decided(told, ranges)[1]


def test_guesses_lie_around_what_the_twin_believes_and_are_refined_around_the_best():
    made = guesses(TASK, Theta({"body.lower_link.mass": 1.0}))
    assert {guess.factor for guess in made} == {"embodiment", "physics", "perception"}
    links = next(guess for guess in made if guess.name == "the links' mass × 1.5")
    assert links.theta["body.lower_link.mass"] == 1.5
    nearer = refined(links, TASK, Theta({"body.lower_link.mass": 1.0}))
    values = [guess.theta["body.lower_link.mass"] for guess in nearer]
    assert min(values) < 1.5 < max(values)
    eyes = next(guess for guess in made if guess.factor == "perception")
    assert len(refined(eyes, TASK, Theta())) == 8
    assert all(np.isfinite(list(guess.theta.values())).all() for guess in made)


def test_geoms_that_only_show_are_not_guessed_about():
    shown = '<geom name="skin" type="sphere" size="0.03" contype="0" conaffinity="0" mass="0"/>'
    scene = lab_scene("push")
    dressed = replace(scene, xml=scene.xml.replace('<freejoint name="object"/>', f'<freejoint name="object"/>{shown}'))
    task = push.of(dressed, home=home("push"))
    touched = next(guess for guess in guesses(task, Theta()) if guess.name.startswith("the object's friction"))
    assert dressed.xml != scene.xml
    assert set(touched.theta) == {"geom.object.friction_slide"}
