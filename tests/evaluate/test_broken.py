"""A policy that breaks in one trial of the twin: it is labelled, the others go on, nothing is played twice."""

from __future__ import annotations

import numpy as np
import pytest

from tests.evaluate.springs import saved, served_spring, talking
from tests.evaluate.swing import spring
from tests.evaluate.test_closed_loop import SCENE, TASK, jobs
from tests.policies.servers import openpi
from twinproof.evaluate.beliefs import Beliefs
from twinproof.evaluate.closed_loop import run_jobs
from twinproof.evaluate.command import contenders_of
from twinproof.evaluate.examine import Contender, Examination, examine
from twinproof.evaluate.freeze import Design, domains_of, freeze
from twinproof.nouns.errors import PanelError
from twinproof.nouns.failure import Failure
from twinproof.nouns.split import Split
from twinproof.nouns.store import Store
from twinproof.nouns.twin import Twin
from twinproof.tasks import reach


class Breaking:
    """A spring that gives no number in one world at one tick, or another shape in all."""

    def __init__(self, world: int = -1, tick: int = 10, task=TASK) -> None:
        self._spring, self._world, self._when, self._tick = spring(task), world, tick, 0
        self.contract = self._spring.contract

    def reset(self, count: int, seed: int, which: np.ndarray | None = None) -> None:
        self._spring.reset(count, seed, which)

    def act(self, seen: dict[str, np.ndarray]) -> np.ndarray:
        actions, self._tick = self._spring.act(seen), self._tick + 1
        if self._tick == self._when:
            if self._world < 0:
                return actions[:, :, :1]
            actions[self._world, 0, 1] = np.nan
        return actions


def test_a_number_that_is_none_ends_its_own_trial_alone():
    whole = run_jobs(SCENE, TASK, spring(TASK), jobs())
    found = run_jobs(SCENE, TASK, Breaking(world=2), jobs())
    assert [run.failure for run in found] == [None, None, Failure.POLICY, None]
    assert found[2].note == "the policy broke: the policy gave a number that is none"
    assert len(found[2].trace.signals["command"].time_s) == 9  # what was told before
    others = [0, 1, 3]
    assert [found[k].trace.hash for k in others] == [whole[k].trace.hash for k in others]


def test_a_shape_that_is_wrong_ends_all_that_were_asked():
    found = run_jobs(SCENE, TASK, Breaking(), jobs(2))
    assert [run.failure for run in found] == [Failure.POLICY] * 2
    assert "actions of shape (2, 1, 1); (2, 1, 2) is needed" in found[0].note


@pytest.fixture
def served(practice, tmp_path):
    """An examination of a served spring, in the twin alone."""
    twin, split = Twin.load(practice.twin), Split.load(practice.split)
    task = reach.of(twin, horizon_s=0.6)
    panel = freeze(task.panel_task(), split, Design(domains_of(["twin=4"]), conditions=1))

    def make(address: str) -> tuple[Examination, Contender]:
        (who,) = contenders_of([saved(served_spring(address, task, 3), tmp_path / "policy")], task, None)
        return Examination(panel, split, task, Beliefs(twin), (who,), Store(tmp_path / "store")), who

    return make, task


def test_a_server_that_breaks_once_costs_one_trial_which_is_never_played_again(served):
    make, task = served
    heard: list = []
    begun: list[int] = []
    marked: list[int] = []

    def reply(number: int, rows: np.ndarray) -> np.ndarray:
        if begun and len(heard) > begun[0] + 30 and not marked:  # in the middle of the trials
            marked.append(number)
            return np.full_like(rows, np.nan)
        return rows

    with openpi(talking(task, 3, reply), heard=heard) as address:
        exam, who = make(address)
        found = examine(exam, say=lambda text: begun.append(len(heard)))
        first = len(heard)
        again = examine(exam, say=lambda text: begun.append(len(heard)))
        who.actor._actor.close()
    assert marked
    broken = [trial for trial in found.trials if trial.failure is Failure.POLICY]
    assert len(broken) == 1
    assert "gave nan for" in broken[0].note
    assert sum(trial.note == "no time was left" or trial.success for trial in found.trials) == 3
    assert [trial.trace for trial in again.trials] == [trial.trace for trial in found.trials]
    assert begun[1] > first  # what is tried before the holdout opens is tried again
    assert len(heard) == begun[1]  # and no trial is


def test_a_policy_that_breaks_wherever_it_is_tried_is_refused_before_the_holdout_opens(served):
    make, task = served
    with openpi(talking(task, 3, lambda number, rows: rows[:, :1])) as address:
        exam, who = make(address)
        with pytest.raises(PanelError, match="breaks in every trial that is tried first. the policy broke: ws://"):
            examine(exam)
        who.actor._actor.close()
    assert "opened" not in [line.kind for line in exam.split.ledger.lines()]
