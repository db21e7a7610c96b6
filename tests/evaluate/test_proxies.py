"""Labels from real data alone: few, and undecided where nothing tells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.evaluate.swing import spring
from tests.evaluate.test_decompose import NOISY, SCENE, TASK, played
from twinproof.evaluate.closed_loop import Stage
from twinproof.evaluate.decompose import Played
from twinproof.evaluate.proxies import LARGE, Told, decide, labelled
from twinproof.nouns.failure import Failure
from twinproof.nouns.randomness import stream
from twinproof.nouns.theta import Theta

WEAK = spring(TASK, 0.02)
HEAVY = Theta({"body.lower_link.mass": 4.0, "body.upper_link.mass": 4.0})


def failing(real: Theta, twin: Theta, actor) -> dict[int, Played]:
    """Trials of a policy in a reality that is a twin with these values."""
    from twinproof.evaluate.closed_loop import run_jobs

    found = {}
    for k, each in enumerate(played(Theta(), twin)):
        job = replace(each.job, theta=real)
        found[k] = Played(
            each.job,
            run_jobs(SCENE, TASK, actor, [job])[0],
            run_jobs(SCENE, TASK, actor, [each.job])[0],
        )
    return found


def test_rules_give_the_label_that_they_state():
    assert decide(Told(False, True, None))[0] is Failure.POLICY
    assert decide(Told(False, False, None))[0] is Failure.UNDECIDED
    assert "there is no script" in decide(Told(False, None, None))[1]
    assert decide(Told(True, True, 2 * LARGE))[0] is Failure.PERCEPTION
    assert decide(Told(True, True, LARGE / 2))[0] is Failure.UNDECIDED
    assert "not as believed" in decide(Told(True, None, None))[1]


def test_a_weak_policy_is_told_and_heavy_links_are_not():
    weak = labelled(Stage(SCENE, TASK, WEAK), spring(TASK, 0.6), failing(Theta(), Theta(), WEAK))
    assert {run.failure for run in weak.values()} == {Failure.POLICY}
    assert all("no time was left; the twin foresees" in run.note for run in weak.values())
    good = spring(TASK, 0.6)
    heavy = labelled(Stage(SCENE, TASK, good), good, failing(HEAVY, Theta(), good))
    assert {run.failure for run in heavy.values()} == {Failure.UNDECIDED}
    quick = labelled(Stage(SCENE, TASK, good), good, failing(HEAVY, Theta(), good), again=0)
    assert all(run.note.endswith("is not as believed") for run in quick.values()), "nothing was played again"
    assert {k: run.note for k, run in quick.items()} != {k: run.note for k, run in heavy.items()}


def test_noise_that_moves_actions_far_is_perception():
    loud = Theta({id: 12 * value for id, value in NOISY.items()})
    stiff = spring(TASK, 0.6)
    found = labelled(Stage(SCENE, TASK, stiff), stiff, failing(loud, Theta(), stiff))
    assert found
    assert {run.failure for run in found.values()} == {Failure.PERCEPTION}


def test_successes_and_trials_that_ended_by_themselves_are_left_alone():
    pairs = failing(Theta(), Theta(), spring(TASK, 0.6))
    assert labelled(Stage(SCENE, TASK, WEAK), None, pairs) == {}
    broke = replace(pairs[0].real, success=False, failure=Failure.POLICY)
    assert labelled(Stage(SCENE, TASK, WEAK), None, {0: replace(pairs[0], real=broke)}) == {}
    short = replace(pairs[0].real.trace, signals={"state": pairs[0].real.trace.signals["state"]})
    lost = replace(pairs[0].real, success=False, failure=Failure.UNDECIDED, note="", trace=short)
    (run,) = labelled(Stage(SCENE, TASK, WEAK), None, {0: replace(pairs[0], real=lost)}).values()
    assert run.note.startswith("it succeeds in the twin")
    (told,) = labelled(
        Stage(SCENE, TASK, WEAK), None, {0: replace(pairs[0], real=replace(lost, note="It is over."))}
    ).values()
    assert told.note.startswith("It is over; it succeeds in the twin")
    assert np.isfinite(run.time_s)


def test_a_failure_within_what_is_believed_gets_the_label_of_the_doubt_that_makes_it():
    good = spring(TASK, 0.6)
    stage, pairs = Stage(SCENE, TASK, good), failing(HEAVY, Theta(), good)

    def draw(masses: tuple[float, float], delays: tuple[float, float] | None = None):
        def one(job, k: int) -> Theta:
            rng = stream(job.cell.seed, str(k))
            nominal = {"body.lower_link.mass": 0.46, "body.upper_link.mass": 0.62}
            links = {id: kg * rng.uniform(*masses) for id, kg in nominal.items()}
            late = ("shoulder", "elbow") if delays else ()
            return Theta(links | {f"actuator.{name}.delay": rng.uniform(*delays or ()) for name in late})

        return one

    wide = labelled(stage, good, pairs, draw=draw((6.0, 9.0)))
    assert {run.failure for run in wide.values()} == {Failure.PHYSICS}
    assert all("under physics alone in 12" in run.note for run in wide.values())
    tight = labelled(stage, good, pairs, draw=draw((0.98, 1.02)))
    assert {run.failure for run in tight.values()} == {Failure.UNDECIDED}
    assert all("at their point it fails in 0 of 12 worlds" in run.note for run in tight.values())
    both = labelled(stage, good, pairs, draw=draw((6.0, 9.0), (0.15, 0.2)))
    assert {run.failure for run in both.values()} == {Failure.UNDECIDED}
    assert all("and under" in run.note for run in both.values())


def test_pictures_that_move_actions_far_are_perception_and_say_so():
    failure, why = decide(Told(True, True, 2 * LARGE, looks=True))
    assert failure is Failure.PERCEPTION
    assert why.startswith(
        "it succeeds in the twin; the robot's pictures, instead of the twin's of the same states, move"
    )
