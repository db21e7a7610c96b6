"""Several episodes under the same cameras: what one tells of them helps the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.reconstruct.test_couple import HOW, recorded, separate
from tests.sim.pushing import pushing
from tests.sim.tracking import thing
from twinproof.nouns.errors import RecordingError
from twinproof.reconstruct.couple import Seen
from twinproof.reconstruct.couple_episodes import Task, couple_all, together
from twinproof.reconstruct.couple_normal import Shared


def task() -> Task:
    clips, known = recorded(0)
    return Task(pushing(), Seen(clips, known, thing()), separate(0))


def test_two_episodes_know_their_cameras_better_than_one() -> None:
    how = replace(HOW, moves=2)
    alone = couple_all([task()], how)[0]
    both = couple_all([task(), task()], how, rounds=1)
    assert len(both) == 2
    assert np.mean([both[1].camera_sd[c][:3].mean() for c in both[1].camera_sd]) < np.mean(
        [alone.camera_sd[c][:3].mean() for c in alone.camera_sd]
    )
    size = 1 + 6 * 3
    assert both[0].told.precision.shape == (size, size)
    assert np.linalg.eigvalsh(both[0].told.precision).min() > -1e-3


def test_knowledge_adds_up_once() -> None:
    base = np.eye(2)
    one, two = Shared(3 * np.eye(2), np.array([1.0, 0.0])), Shared(np.zeros((2, 2)), np.array([9.0, 9.0]))
    made = together(base, [one, two])
    np.testing.assert_allclose(made.precision, 4 * np.eye(2))
    np.testing.assert_allclose(made.mean, [0.75, 0.0])


def test_episodes_of_other_robots_or_cameras_are_refused() -> None:
    first = task()
    with pytest.raises(RecordingError, match="was given no episode"):
        couple_all([])
    other = replace(first.handling, joints=("idle",))
    with pytest.raises(RecordingError, match="move different joints: push and idle"):
        couple_all([first, replace(first, handling=other)])
    fewer = replace(first.seen, clips=first.seen.clips[:2])
    with pytest.raises(RecordingError, match="seen by other cameras"):
        couple_all([first, replace(first, seen=fewer)])
