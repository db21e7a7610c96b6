"""From a human hand's track to a robot's motion: what the hand did about the object is what the tip does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.tasks.scenes import home, lab_scene
from twinproof import cli
from twinproof.lab.hands import KINDS, human_track
from twinproof.nouns.errors import RecordingError, TaskError
from twinproof.nouns.recording import Recording
from twinproof.nouns.source import Declared
from twinproof.nouns.twin import Alignment, Body, Twin
from twinproof.sim.scene import engine
from twinproof.tasks import track
from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.experts import expert_of
from twinproof.tasks.machine import Machine
from twinproof.tasks.named import task_named
from twinproof.tasks.things import thing_of
from twinproof.train.hand_track import HandTrack
from twinproof.train.retarget import Retarget, recording_of, retarget

COARSE = Retarget(yaws=8)


@pytest.fixture(scope="module")
def machine() -> Machine:
    return Machine.of(lab_scene("push"), home=home("push"))


@pytest.fixture(scope="module")
def half_m(machine) -> np.ndarray:
    return thing_of(machine.scene).half_m


@pytest.fixture(scope="module")
def push(machine, half_m):
    """A push that was shown, and the robot's motion for it."""
    shown = human_track("push", half_m, 0)
    return shown, retarget(shown.track, machine, COARSE)


def test_a_person_shows_motions_in_a_frame_and_a_unit_of_their_own(half_m):
    units = []
    for kind in KINDS:
        shown = human_track(kind, half_m, 3)
        assert shown.touches == bool(np.linalg.norm(shown.object_m[-1] - shown.object_m[0]) > 0.01)
        units.append(np.median(shown.track.object_size / (2 * half_m)))
        near = np.linalg.norm(shown.relative_m, axis=1).min()
        assert near < 0.06 if shown.touches else near > 0.04
    assert np.ptp(units) > 0.3


def test_the_motion_about_the_object_is_kept_within_limits(machine, push):
    shown, motion = push
    assert np.median(motion.error_m) < 0.002
    assert (motion.joints >= machine.limits.low - 1e-9).all()
    assert (motion.joints <= machine.limits.high + 1e-9).all()
    speed = np.abs(np.diff(motion.joints[:, :6], axis=0)) * machine.rate_hz
    assert (speed <= machine.limits.speed[:6]).all()
    # the scale came from the object's size: 8 cm of push are 8 cm of push
    pushed = np.linalg.norm(motion.object_pose[-1, :3] - motion.object_pose[0, :3])
    assert pushed == pytest.approx(np.linalg.norm(shown.object_m[-1] - shown.object_m[0]), rel=0.08)
    ticks = motion.time_s / motion.slowed
    truth = np.stack([np.interp(ticks, shown.time_s, column) for column in shown.relative_m.T], axis=1)
    apart = np.linalg.norm(motion.tip_m - motion.object_pose[:, :3], axis=1)
    assert np.median(np.abs(apart - np.linalg.norm(truth, axis=1))) < 0.01


def test_a_pinch_closes_the_fingers_and_a_release_opens_them(machine, half_m):
    motion = retarget(human_track("pick", half_m, 1).track, machine, COARSE)
    grip = motion.joints[:, machine.joints.index("gripper")]
    assert motion.holding.any()
    assert grip[motion.holding].max() < half_m[:2].min() - 0.005
    assert grip[~motion.holding].max() > half_m[:2].min()


def test_who_follows_the_motion_moves_the_object_as_the_hand_did(machine, push):
    _, motion = push
    episode = recording_of(motion, machine, "push").episodes[0]
    task = track.of(machine.scene, episode, home=home("push"), relative=True)
    arena = Arena(machine.scene, task, 4, play=Play(bank=4, nthread=1, auto_reset=False))
    expert, seen = expert_of(task), arena.reset()
    expert.reset(4, 0)
    for _ in range(task.ticks):
        step = arena.step(expert.act(seen)[:, 0])
        seen = step.observations
    assert step.done.all()
    assert step.succeeded.sum() >= 3
    assert np.median(task.error(arena.situation)) < 0.02
    moved = arena.situation.objects["object"][:, :2] - arena.situation.first["object"][:, :2]
    assert (np.linalg.norm(moved, axis=1) > 0.05).all()


def test_numpy_and_torch_track_alike(machine, push):
    episode = recording_of(push[1], machine, "push").episodes[0]
    task = track.of(machine.scene, episode, home=home("push"))
    found = []
    for kind in ("numpy", "torch"):
        arena = Arena(machine.scene, task, 2, play=Play(bank=2, nthread=1), arrays=kind)
        step = arena.step(arena.sensed.last)
        found.append({n: np.asarray(v) for n, v in {**step.observations, **step.rewards}.items()})
    for name, value in found[0].items():
        np.testing.assert_allclose(found[1][name], value, atol=1e-5, err_msg=name)


def test_the_command_writes_a_motion_that_is_a_task(half_m, tmp_path, capsys):
    scene = lab_scene("push")
    (tmp_path / "scene").mkdir()
    (tmp_path / "scene" / "scene.xml").write_text(scene.xml)
    for file in scene.root.iterdir():
        (tmp_path / "scene" / file.name).write_bytes(file.read_bytes())
    said = Declared("a test")
    model = scene.nominal()
    bodies = tuple(
        Body(model.body(k).name, said, lacks={"mesh": "geoms", "splats": "none"}) for k in range(1, model.nbody)
    )
    Twin(tmp_path / "scene", bodies, Alignment(said), engine(), (), {}).save(tmp_path / "twin")
    human_track("sweep", half_m, 0).track.save(tmp_path / "track.npz")
    rest = [f"{name}={value}" for name, value in home("push").items()]
    words = [
        "retarget",
        tmp_path / "track.npz",
        "--twin",
        tmp_path / "twin",
        "--out",
        tmp_path / "motion",
        "--home",
        *rest,
    ]
    with pytest.raises(SystemExit) as stop:
        cli.main([str(word) for word in words])
    assert stop.value.code == 0
    assert "mm of the hand in the median" in capsys.readouterr().out
    assert (tmp_path / "motion" / "motion.png").read_bytes().startswith(b"\x89PNG")
    assert Recording.load(tmp_path / "motion").episodes[0].labels["task"] == "track"
    task = task_named(str(tmp_path / "motion"), scene, home=home("push"))
    assert task.name == "track"


def test_a_track_that_cannot_be_used_is_refused(machine, half_m, tmp_path):
    good = human_track("sweep", half_m, 0).track
    with pytest.raises(RecordingError, match="the hand lacks index_tip; it has wrist, thumb_tip, little_tip"):
        replace(good, names=("wrist", "thumb_tip", "little_tip"))
    with pytest.raises(RecordingError, match="its 150 times must rise, and be eight or more"):
        replace(good, time_s=good.time_s[::-1])
    with pytest.raises(RecordingError, match=r"'object_pose' has the shape \(2, 7\); \(150, 7\) is needed"):
        replace(good, object_pose=good.object_pose[:2])
    with pytest.raises(RecordingError, match="every side is above zero"):
        replace(good, object_size=np.zeros(3))
    gone = np.array(good.object_pose)
    gone[40:80] = np.nan
    with pytest.raises(RecordingError, match="the object was not seen for 1.37 s; 0.5 s can be bridged"):
        replace(good, object_pose=gone)
    with pytest.raises(RecordingError, match="the object was never seen"):
        replace(good, object_pose=np.full_like(gone, np.nan))
    flat = np.array(good.object_pose)
    flat[:, 3:] = 0.0
    with pytest.raises(RecordingError, match="orientations that are no quaternions"):
        replace(good, object_pose=flat)
    (tmp_path / "x.npz").write_text("no")
    with pytest.raises(RecordingError, match="is no readable .npz file"):
        HandTrack.load(tmp_path / "x.npz")
    np.savez(tmp_path / "y.npz", time_s=np.arange(9.0))
    with pytest.raises(RecordingError, match="lacking are names, points, object_pose, object_size"):
        HandTrack.load(tmp_path / "y.npz")
    far = replace(good, points=good.object_pose[:, None, :3] + 8 * (good.points - good.object_pose[:, None, :3]))
    with pytest.raises(TaskError, match="It leaves the arm's reach: put the object elsewhere"):
        retarget(far, machine, COARSE)


def test_a_motion_for_another_robot_is_refused(machine, push):
    episode = recording_of(push[1], machine, "push").episodes[0]
    with pytest.raises(TaskError, match="needs the signals state, object_pose, and lacks object_pose"):
        track.reference_of(replace(episode, signals={"state": episode.signals["state"]}), machine)
    with pytest.raises(TaskError, match="ticks of 0.0500 s .* this robot has waist.* at 10 Hz. Retarget it"):
        track.reference_of(episode, replace(machine, rate_hz=10.0))
