"""Torques of touch: what is left of measured ones when free air is taken off, and how well that is known."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tests.reconstruct.test_couple import HOW
from tests.sim.pushing import SCENE, angle_at
from tests.sim.tracking import standing
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import SimError
from twinproof.nouns.randomness import stream
from twinproof.nouns.rig import Joint, Rig, SignalRule
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.theta import Theta
from twinproof.reconstruct.couple import couple
from twinproof.reconstruct.robot_frames import Angles
from twinproof.reconstruct.touch_felt import felt, recorded_torques, stands_still
from twinproof.sim.free_torques import free_torques
from twinproof.sim.handled import Handling, Variant, pose_of, qpos_of
from twinproof.sim.scene import Scene
from twinproof.sim.track_pose import Track, nudged

LONG_S = 3.0
TIMES = np.arange(0, LONG_S + 0.001, 0.01)
BIAS, RUBBING = 0.3, 0.5
FRICTION = 0.6


def way(time_s: np.ndarray) -> np.ndarray:
    """The pusher goes to and fro in free air, waits, and pushes at the end."""
    time_s = np.asarray(time_s)
    return np.where(time_s < 1.8, -0.06 - 0.01 * np.sin(2 * np.pi * time_s / 0.9) ** 2, angle_at(time_s - 1.8))


def planted() -> tuple[Track, np.ndarray, np.ndarray]:
    """The box's track, what the pusher's motor reports, and what touch truly puts on it."""
    handling = Handling(Scene(SCENE), "box", ("push",), TIMES, way(TIMES)[:, None])
    replay = handling.replay()
    variant, qpos, qvel = Variant(Theta({"geom.box.friction_slide": FRICTION})), qpos_of(standing()), np.zeros(6)
    seen, load = np.arange(0, LONG_S, 0.05), np.zeros(len(TIMES))
    poses = np.zeros((len(seen), 7))
    for low, high in pairwise(np.linspace(0, replay.steps, 101).astype(int).tolist()):
        mine = np.flatnonzero((replay.step_at(seen) >= low) & (replay.step_at(seen) < high))
        piece = replay.roll(variant, low, high, qpos, qvel, list(replay.step_at(seen)[mine]))
        poses[mine], qpos, qvel = piece.qpos, piece.end_qpos, piece.end_qvel
        load[(replay.step_at(TIMES) >= low) & (replay.step_at(TIMES) <= high)] = piece.load[0]
    rest, spread = np.ones(len(seen)), np.diag(np.square([1e-3] * 3 + [1e-2] * 3))
    track = Track(seen, pose_of(poses), np.tile(spread, (len(seen), 1, 1)), rest, 0 * rest, rest < 0)
    free = free_torques(Scene(SCENE), ("push",), TIMES, way(TIMES)[:, None])
    noise = stream(0, "torque").normal(0, 0.05, len(TIMES))
    motor = free.torque[:, 0] + BIAS + RUBBING * np.tanh(free.speed[:, 0] / 0.02) + load + noise
    return track, motor, load


def test_what_a_robot_bears_in_free_air_is_its_own_mass() -> None:
    free = free_torques(Scene(SCENE), ("push",), TIMES, way(TIMES)[:, None])
    k = int(np.argmin(np.abs(TIMES - 0.45)))
    bend = (way(TIMES[k] + 0.01) - 2 * way(TIMES[k]) + way(TIMES[k] - 0.01)) / 0.01**2
    assert free.torque[k, 0] == pytest.approx(0.51 * bend, rel=0.15)
    assert not free.tied.any()
    with pytest.raises(SimError, match="no joint 'lift'"):
        free_torques(Scene(SCENE), ("lift",), TIMES, way(TIMES)[:, None])
    with pytest.raises(SimError, match="too few to tell how they speed up"):
        free_torques(Scene(SCENE), ("push",), TIMES[:5], way(TIMES[:5])[:, None])


def test_touch_is_what_is_left_and_its_error_is_that_of_free_air() -> None:
    track, motor, load = planted()
    touch, said = felt(Scene(SCENE), ("push",), Angles(TIMES, way(TIMES)[:, None]), motor[:, None], track, 0.25)
    assert touch is not None
    assert "torques of touch join" in said
    assert 0.003 < touch.sd[0] < 0.06
    pushing = load > 0.3
    assert pushing.sum() > 20
    assert touch.torque[pushing, 0].mean() == pytest.approx(load[pushing].mean(), abs=0.06)
    still = stands_still(track, TIMES)
    assert abs(touch.torque[still, 0].mean()) < 0.02
    assert not still[pushing].any()
    late = np.where(TIMES < 0.2, np.nan, motor)[:, None]
    again, _ = felt(Scene(SCENE), ("push",), Angles(TIMES, way(TIMES)[:, None]), late, track, 0.25)
    assert again is not None
    assert again.time_s[0] == pytest.approx(0.2)
    assert again.torque[-1, 0] == pytest.approx(touch.torque[-1, 0], abs=0.03)


def test_felt_torques_pull_the_friction_to_the_truth() -> None:
    track, motor, _ = planted()
    touch, _ = felt(Scene(SCENE), ("push",), Angles(TIMES, way(TIMES)[:, None]), motor[:, None], track, 0.25)
    handling = Handling(Scene(SCENE), "box", ("push",), TIMES, way(TIMES)[:, None])
    ids = ("geom.box.friction_slide",)
    found = [couple(handling, None, track, ids, HOW, tracks=[track], touch=each) for each in (None, touch)]
    off = [abs(np.log(each.start[ids[0]] / FRICTION)) for each in found]
    assert off[1] < 0.5 * off[0]
    assert found[1].sd[ids[0]] < found[0].sd[ids[0]]


def test_without_torques_or_free_air_there_is_a_reason() -> None:
    track, motor, _ = planted()
    angles = Angles(TIMES, way(TIMES)[:, None])
    drifting = nudged(track.T_world_object, np.outer(track.time_s, [0.05, 0, 0, 0, 0, 0]))
    never = Track(track.time_s, drifting, track.covariance, track.seen, track.residual, track.lost)
    none, why = felt(Scene(SCENE), ("push",), angles, motor[:, None], never, 0.25)
    assert none is None
    assert "stands still in fewer than 5 stretches" in why
    none, why = felt(Scene(SCENE), ("push",), angles, np.full((len(TIMES), 1), np.nan), track, 0.25)
    assert none is None
    assert "no joint that moves by itself has its torque recorded" in why
    rig = Rig("arm", (Joint("push"),), signals={"effort": SignalRule("e", "joint_torque", clock_offset_s=0.5)})
    moved = Signal("moved", "joint_position", (Column("push", "m"),), TIMES, way(TIMES)[:, None])
    empty = Episode.of({"moved": moved}, {}, source="made")
    assert "the episode has no joint_torque" in recorded_torques(empty, rig, TIMES)[1]
    signal = Signal("effort", "joint_torque", (Column("push", "N m"),), TIMES - 0.5, motor[:, None])
    told, why = recorded_torques(Episode.of({"effort": signal}, {}, source="made"), rig, TIMES)
    assert why == ""
    assert np.allclose(told[:, 0], motor)
