"""Trials that a monitor watched say so, are not mixed with others, and the screen tells what the summary holds."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from tests.evaluate.test_examine import exam  # noqa: F401
from tests.evaluate.test_verdict import panel, run
from twinproof.evaluate import report
from twinproof.evaluate.examine import examine
from twinproof.evaluate.foresight import Foresight, guard, measured_alarms, thresholds_of
from twinproof.evaluate.monitor import Thresholds
from twinproof.evaluate.verdict import figures
from twinproof.nouns.episode import Episode
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.trials import Trials


@pytest.fixture
def watched(exam):  # noqa: F811
    """The examination of one policy, its robot watched under thresholds as they are or as they are changed."""
    foresight = Foresight(exam.task.machine, exam.beliefs.best)
    found: Thresholds = thresholds_of(foresight, exam.split.parts()[1].recording.episodes)

    def make(**changed: float):
        by = replace(found, **changed)
        measure = partial(measured_alarms, foresight, by)
        place = replace(exam.place, watched=by.told(), measure=measure, watch=guard(foresight, by))
        return replace(exam, contenders=exam.contenders[:1], place=place)

    return make


def real(found: Trials) -> list:
    return [trial for trial in found.trials if trial.domain == "real"]


def test_what_was_watched_stands_on_the_trial_and_in_the_summary(watched, tmp_path, capsys):
    calm = watched(slow=1e9, stop=1e9)
    found = examine(calm)
    for trial in real(found):
        assert 0 < trial.metrics["fidelity"] <= 1
        assert (trial.metrics["slowed_ticks"], trial.metrics["stopped_ticks"]) == (0, 0)
    assert all("fidelity" not in trial.metrics for trial in found.trials if trial.domain != "real")
    told = found.summary["monitor"]
    assert (told["trials"], told["slowed"], told["stopped"]) == (2, 0, 0)
    assert told["stop_false_alarms"] == calm.place.watched["stop_false_alarms"]
    assert told["measured"]["episodes"] == 2  # the holdout's, which set no threshold
    assert (told["measured"]["stop"]["alarms"], told["measured"]["stop"]["low"]) == (0, 0)
    assert told["measured"]["stop"]["high"] == pytest.approx(0.842, abs=1e-3)
    nervous = examine(watched(slow=1e-9, stop=1e-9))  # the same store: nothing of the calm one may be taken
    assert all(trial.metrics["stopped_ticks"] > 0 for trial in real(nervous))
    assert nervous.summary["monitor"]["stopped"] == 2
    report.trials(nervous, tmp_path)
    said = capsys.readouterr().out
    assert "monitor: 2 slowed, 2 stopped of 2" in said or "monitor: 0 slowed, 2 stopped of 2" in said
    assert (
        "false alarms measured on 2 holdout episodes, which set no threshold: 2 slowed (16 … 100 %), 2 stopped" in said
    )
    assert "failures in real: 2 " in said
    alone = examine(replace(calm, place=replace(calm.place, watched=None, watch=None)))
    assert alone.summary["monitor"] is None
    assert all("fidelity" not in trial.metrics for trial in real(alone))


def test_the_screen_shows_ranks_and_what_the_twin_is_worth(tmp_path, capsys):
    rates = {"good": 1.0, "fair": 0.5, "bad": 0.2}
    made = run(panel(), rates)
    report.trials(Trials(tuple(made), {}, {}, {**figures(panel(), made, list(rates)), "notes": []}), tmp_path)
    said = capsys.readouterr().out
    assert "twin: MMRV 0.000 (" in said
    assert "a perfect twin would show at most" in said
    assert "points (" in said
    assert "; ρ 0." in said
    assert "failures in twin: 20 undecided" in said


def test_false_alarms_that_cannot_be_measured_say_why(watched, tmp_path):
    place = watched().place
    short = Episode.of({"state": Signal("state", "joint_position", (Column("elbow", "rad"),), [0.0], [[0.0]])}, {})
    assert "was not recorded, and the monitor needs" in place.measure([short])["why_not"]
    assert report._false_alarms(place.measure([])) == (
        "false alarms were not measured: no episodes to count alarms over. Give at least one."
    )
