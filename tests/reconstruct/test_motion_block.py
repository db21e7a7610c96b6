"""An object is followed through an episode, refined together with physics, and held by a joint where it has one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from tests.reconstruct.mask_scenes import orbit, push, pushed
from tests.reconstruct.test_couple import TIMES, recorded, separate, truth
from tests.sim.pushing import SCENE, angle_at
from tests.sim.tracking import box_mesh, cameras, standing, thing
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import TwinError
from twinproof.nouns.rig import Intrinsics, Mount, Rig, SignalRule
from twinproof.nouns.signal import Column, Signal
from twinproof.reconstruct import joint_block
from twinproof.reconstruct.articulation import Kind
from twinproof.reconstruct.calibration_block import FoundCamera, FoundRobot
from twinproof.reconstruct.joint_block import FoundJoint, found_joint
from twinproof.reconstruct.motion_block import FoundMotion, found_motion
from twinproof.reconstruct.moving import joint_of
from twinproof.reconstruct.object_block import FoundObject
from twinproof.reconstruct.recorded_track import COLUMNS, recorded_track
from twinproof.reconstruct.robot_frames import Angles
from twinproof.sim.grid import Plane
from twinproof.sim.scene import Scene
from twinproof.sim.track_pose import Track, nudged


@cache
def motion() -> FoundMotion:
    """A red box that is pushed by 12 cm, seen by three cameras; nobody points at it."""
    clips, _ = push()
    mesh, T = box_mesh(np.array([0.03, 0.02, 0.025])), np.eye(4)
    T[:3, 3] = (0.06, -0.03, 0.025)
    return found_motion(clips, FoundObject("box", mesh, thing(), T, {}, (), ()), "e" * 32, Plane())


def test_a_pushed_box_is_found_and_followed(tmp_path) -> None:
    found, path = motion(), np.array(pushed(9))
    good = ~found.track.lost
    assert good.mean() > 0.7
    off = np.linalg.norm(found.track.T_world_object[good, :2, 3] - path[good], axis=1)
    assert np.median(off) < 0.006
    assert found.moves
    found.save(tmp_path)
    again = FoundMotion.load(tmp_path)
    assert np.array_equal(again.track.T_world_object, found.track.T_world_object)
    assert all(np.array_equal(again.masks[name], mask) for name, mask in found.masks.items())
    assert len(again.splats) == len(found.splats)


def calibrated() -> FoundRobot:
    lens = cameras()[0].lens
    clips, _ = recorded(0)
    camera = FoundCamera(
        lens.width, lens.height, Intrinsics(lens.fx, lens.fy, lens.cx, lens.cy), Mount("world"), 0, 0, 0, 0, 0, 1
    )
    stated = replace(camera, mount=Mount("world", position_sd_m=0.0035, rotation_sd_rad=0.0035))
    return FoundRobot({c.camera: stated for c in clips}, {"push": 0.01}, {"push": 3e-4}, {}, (), {})


def test_what_moving_it_told_begins_identification_and_can_be_stored(tmp_path) -> None:
    clips, known = recorded(0)
    bare = {n: np.round(255 * p).astype(np.uint8) for n, p in known.items()}
    seen = FoundMotion("box", "e" * 32, separate(0), {}, bare, thing())
    time_s = np.arange(0, 1.2001, 0.01)
    found = found_joint(Scene(SCENE), seen, clips, Angles(time_s, angle_at(time_s)[:, None]), calibrated(), ("push",))
    assert found.cost < found.first_cost
    assert {"body.box.friction_slide", "body.box.mass"} <= set(found.start)
    assert "a start for identify, declared, and no prior" in found.sentence
    found.save(tmp_path)
    again = FoundJoint.load(tmp_path)
    assert again.start == found.start
    assert again.as_json()["cost"] == [found.first_cost, found.cost]
    assert set(again.as_json()["cameras"]) == {clip.camera for clip in clips}
    assert again.theta["body.box.mass"] == found.start["body.box.mass"]


def test_the_command_asks_for_the_scale_and_recorded_tracks_join(tmp_path, monkeypatch) -> None:
    clips, known = recorded(0)
    clips = tuple(
        replace(clip, T_world_camera=np.tile(camera.T_world_camera, (len(TIMES), 1, 1)))
        for clip, camera in zip(clips, cameras(), strict=True)
    )
    bare = {n: np.round(255 * p).astype(np.uint8) for n, p in known.items()}
    small = replace(thing(), means=thing().means * 0.97, log_scales=thing().log_scales + np.log(0.97))
    seen, time_s = FoundMotion("box", "e" * 32, separate(0), {}, bare, small), np.arange(0, 1.2001, 0.01)
    sure = replace(calibrated().cameras["c0"], focal_sd=0.05, mount=Mount("world", (0, 0, 0), (1, 0, 0, 0), 2e-4, 2e-4))
    found = replace(calibrated(), cameras={clip.camera: sure for clip in clips})
    T_sensor = nudged(np.eye(4), np.array([0.02, -0.01, 0.03, 0.2, 0.1, 0.4]))
    sensed = truth() @ T_sensor
    rows = np.concatenate(
        [sensed[:, :3, 3], Rotation.from_matrix(sensed[:, :3, :3]).as_quat()[:, [3, 0, 1, 2]]], axis=1
    )
    columns = tuple(Column(name, "m" if name in "xyz" else "1", "world") for name in COLUMNS)
    signal = Signal("object_pose", "pose", columns, TIMES - 0.5, rows)
    rig = Rig("arm", signals={"object_pose": SignalRule("p", "pose", clock_offset_s=0.5)})
    told, said = recorded_track(Episode.of({"object_pose": signal}, {}, source="made"), rig, "box", separate(0))
    assert told is not None
    assert "object_pose joins the refinement of box: 10 poses" in said
    ways = np.diff(told.T_world_object[:, :3, 3], axis=0) - np.diff(truth()[:, :3, 3], axis=0)
    assert np.abs(ways).max() < 1e-3  # how it moves, whatever the sensor's frame is
    angles = Angles(time_s, angle_at(time_s)[:, None])
    joined: list[object] = []
    couple = joint_block.couple
    monkeypatch.setattr(joint_block, "couple", lambda *a, **k: joined.append(k["tracks"]) or couple(*a, **k))
    done = found_joint(Scene(SCENE), seen, clips, angles, found, ("push",), (told,))
    assert joined == [(told,)]
    assert done.scale == pytest.approx(1 / 0.97, abs=0.012)
    done.save(tmp_path)
    assert FoundJoint.load(tmp_path).scale == done.scale
    bad = replace(signal, columns=tuple(replace(c, frame="tag") for c in columns))
    none, why = recorded_track(Episode.of({"object_pose": bad}, {}, source="made"), rig, "box", separate(0))
    assert none is None
    assert "object_pose is not used: its columns are not" in why
    far = Episode.of({"object_pose": replace(signal, time_s=TIMES + 99)}, {}, source="made")
    assert "0 samples of it are of times" in recorded_track(far, rig, "box", separate(0))[1]


def still_track(moves_m: float, lost: bool = False) -> Track:
    way = np.stack([nudged(standing(), np.r_[moves_m * k / 29, 0, 0, 0, 0, 0]) for k in range(30)])
    spread = np.tile(np.diag([1e-6] * 3 + [1e-4] * 3), (30, 1, 1))
    one = np.ones(30)
    return Track(np.arange(30) / 10, way, spread, one, 0 * one, np.full(30, lost))


def test_a_thing_that_hardly_moves_is_not_refined() -> None:
    still = FoundMotion("box", "e" * 32, still_track(0.001), {}, {}, thing())
    assert not still.moves
    assert not FoundMotion("box", "e" * 32, still_track(0.1, lost=True), {}, {}, thing()).moves
    with pytest.raises(TwinError, match="hardly moves in episode eeeeeeee"):
        found_joint(Scene(SCENE), still, (), Angles(TIMES, TIMES[:, None]), calibrated(), ("push",))


def test_a_slide_is_told_from_its_track() -> None:
    found = joint_of(FoundMotion("box", "e" * 32, still_track(0.1), {}, {}, thing()), 0.1)
    assert found.kind is Kind.SLIDE
    assert np.abs(found.axis) == pytest.approx([1, 0, 0], abs=0.02)
    assert found.as_json()["kind"] == "slide"


def test_without_a_still_camera_nothing_is_followed() -> None:
    moving, _ = orbit(3)
    box = FoundObject("box", box_mesh(), thing(), standing(), {}, (), ())
    with pytest.raises(TwinError, match="no camera of episode eeeeeeee stands still"):
        found_motion({"hand": moving}, box, "e" * 32, Plane())


def test_a_track_that_is_lost_is_not_refined() -> None:
    from twinproof.reconstruct.joint_block import _span

    with pytest.raises(TwinError, match="lost in nearly all pictures"):
        _span(still_track(0.1, lost=True), Angles(TIMES, TIMES[:, None]))
