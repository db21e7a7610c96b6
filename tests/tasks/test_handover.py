"""The stages of a handover, told by contacts in a world and by what is measured on a robot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.tasks.scenes import made
from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.experts import expert_of
from twinproof.tasks.grasp import columns, kinematics
from twinproof.tasks.inverse import tools


def test_what_is_measured_tells_the_stages_that_contacts_tell() -> None:
    task = made("handover")
    arena = Arena(task.machine.scene, task, 2, seed=3, play=Play(auto_reset=False, stop_at_success=False, bank=2))
    expert, seen = expert_of(task), arena.reset()
    expert.reset(arena.count, 0)
    measured, told = {"stage": np.zeros(arena.count)}, []
    for _ in range(task.ticks):
        step = arena.step(expert.act(seen)[:, 0])
        seen, now = step.observations, arena.situation
        measured = dict(task.notes(replace(now, touching=None, notes=measured)))
        told.append((np.array(now.notes["stage"]), measured["stage"]))
    assert step.succeeded.all()
    known, seen_so = (np.stack(rows) for rows in zip(*told, strict=True))
    for stage in range(1, 7):  # the same stages, within a third of a second
        late = (seen_so >= stage).argmax(axis=0) - (known >= stage).argmax(axis=0)
        assert (np.abs(late) <= 7).all(), stage
    assert (seen_so[-1] == 6).all()


def test_fingers_that_close_on_nothing_hold_nothing() -> None:
    task = made("handover")
    arena = Arena(task.machine.scene, task, 1, seed=3, play=Play(bank=1))
    arena.reset()
    now = replace(arena.situation, touching=None, command=arena.situation.position - 0.02)
    assert task.notes(now)["stage"] == 0.0  # both tips are far from the object


def test_a_swing_ends_at_the_pose_in_the_posture_nearest_to_home() -> None:
    machine = made("handover").machine
    arm, x = machine.arms[0], np.array([[1.0, 0.0, 0.0]])
    home, mine = machine.home[columns(machine, arm)], kinematics(machine, arm)
    place, turn = (
        np.array([[0.0, 0.0, 0.24], [0.0, 0.002, 0.24]]),
        tools(np.tile(x, (2, 1)), np.tile([[0, 1, 0]], (2, 1))),
    )
    found = mine.solved(home, place, turn)
    at, facing, _ = mine.poses(found)
    np.testing.assert_allclose(at, place, atol=1e-5)
    np.testing.assert_allclose(facing, turn, atol=1e-5)
    assert np.abs(found[0] - found[1]).max() < 0.02  # neighbours stay neighbours
    assert np.abs(found[:, [3, 5]]).max() < 0.05  # neither forearm nor hand rolls over
