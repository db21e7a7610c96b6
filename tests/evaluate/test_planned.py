"""Sampling MPC as a policy on a panel: the same trial from the same seed, alone and beside others."""

from __future__ import annotations

from tests.evaluate.test_closed_loop import SCENE, jobs
from twinproof.evaluate.closed_loop import Batch, Stage
from twinproof.evaluate.command import contenders_of
from twinproof.evaluate.smoke import steady
from twinproof.nouns.theta import Theta
from twinproof.tasks import reach

TASK = reach.of(SCENE, horizon_s=0.1)


def test_a_planner_is_named_like_an_expert_and_plans_with_what_is_known():
    (plain,) = contenders_of(["mpc=mppi"], TASK, None)
    (told,) = contenders_of(["mpc=mppi"], TASK, None, Theta({"body.lower_link.mass": 0.6}))
    assert plain.name == "mpc"
    assert plain.hash != told.hash
    assert plain.actor.contract == TASK.deployable


def test_a_planned_trial_depends_on_its_seed_alone():
    (who,) = contenders_of(["mpc=mppi"], TASK, None)
    found = steady(Stage(SCENE, TASK, who.actor, Batch(worlds=who.worlds)), jobs(2), "mpc")
    assert found.same
