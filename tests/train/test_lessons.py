"""Demonstrations of a handover as rows to learn from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.tasks.scenes import made
from twinproof.lab.record import Options, in_memory
from twinproof.nouns.errors import RecordingError
from twinproof.nouns.parts import Calibration
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Joint, Rig
from twinproof.train.groups import action_scale
from twinproof.train.lessons import at_ticks, lessons_of


@pytest.fixture(scope="module")
def shown() -> Calibration:
    how = Options(tracker="mocap", behaviours=("handover",), effects="off")
    episodes, _ = in_memory("handover", 1, 5, how)
    rig = Rig("two_arms", tuple(Joint(name) for name in made("handover").machine.joints))
    return Calibration(Recording(rig, episodes, {}), "5" * 64)


def test_a_demonstrated_handover_is_asked_to_end_where_it_ended(shown: Calibration) -> None:
    task = made("handover", relative=True)
    found = lessons_of(shown, task)
    sensed, command = at_ticks(shown.recording.episodes[0], task)
    ended = sensed.objects[task.tracked[0]][-1, :3]
    goal = sum(int(np.prod(c.shape)) for c in task.deployable.observations[:-4])  # before goal, to goal, time, clock
    assert [c.name for c in task.deployable.observations][-4] == "goal"
    np.testing.assert_allclose(found.rows.seen[:, 0, goal : goal + 3], np.tile(ended, (len(found.rows.seen), 1)), 1e-5)
    centre, half = action_scale(task.contract)
    steps = np.clip((command - sensed.last - centre) / half, -1, 1)
    np.testing.assert_allclose(found.rows.wanted, steps[: len(found.rows.wanted)], atol=1e-4)


def test_only_successes_show_a_handover(shown: Calibration) -> None:
    failed = replace(shown.recording.episodes[0], outcome="failure")
    with pytest.raises(RecordingError, match="no calibration episode is a handover that succeeded"):
        lessons_of(Calibration(replace(shown.recording, episodes=(failed,)), "5" * 64), made("handover"))
