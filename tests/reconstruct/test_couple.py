"""Joint refinement: pixels and a simulated push together place an object better than pixels alone."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from tests.sim.pushing import pushing
from tests.sim.tracking import cameras, pictures, plates, standing, thing
from twinproof.nouns.clip import Clip
from twinproof.nouns.errors import ConfigError, RecordingError
from twinproof.nouns.randomness import stream
from twinproof.nouns.rig import Intrinsics
from twinproof.nouns.theta import Theta
from twinproof.reconstruct.couple import Coupled, Coupling, Seen, Touch, couple
from twinproof.reconstruct.couple_motion import Motion, upright
from twinproof.sim.handled import Variant, pose_of, qpos_of
from twinproof.sim.splat.placed import placed
from twinproof.sim.track import Following, Rest, Tracker
from twinproof.sim.track_clips import track
from twinproof.sim.track_pose import Track, move_between, nudged

TIMES = np.arange(10) * 0.12
SD_M, SD_RAD = 0.002, 0.002
HOW = Coupling(camera_sd_m=SD_M, camera_sd_rad=SD_RAD, offset_sd_rad=3e-4, segment_s=0.4, alike_s=0.1, moves=4)


@cache
def truth(yaw: float = 0.25) -> np.ndarray:
    """Poses of the box at the pictures' times, pushed off its middle, with more friction than the scene says."""
    replay = pushing().replay()
    begun = qpos_of(nudged(standing(), np.array([0.0, 0.012, 0, 0, 0, yaw])))
    planted = Variant(Theta({"geom.box.friction_slide": 0.6}))
    return pose_of(replay.roll(planted, 0, replay.steps, begun, np.zeros(6), list(replay.step_at(TIMES))).qpos)


@cache
def recorded(seed: int) -> tuple[tuple[Clip, ...], dict[str, np.ndarray]]:
    """Clips whose cameras stand where a calibration with some error says."""
    rng = stream(seed, "coupling")
    lens = cameras()[0].lens
    known = Intrinsics(lens.fx, lens.fy, lens.cx, lens.cy)
    shots = [pictures(T, rng) for T in truth()]
    clips = []
    for c, camera in enumerate(cameras()):
        off = nudged(camera.T_world_camera, np.r_[rng.normal(0, SD_M, 3), rng.normal(0, SD_RAD, 3)])
        rgb = np.stack([np.clip(255 * shot[c] + 0.5, 0, 255).astype(np.uint8) for shot in shots])
        clips.append(Clip(f"c{c}", TIMES, rgb, known, np.tile(off, (len(TIMES), 1, 1))))
    return tuple(clips), {f"c{c}": plate for c, plate in enumerate(plates())}


@cache
def separate(seed: int) -> Track:
    clips, known = recorded(seed)
    how = Following(rest=Rest(standing()), camera_sd_m=SD_M, camera_sd_rad=SD_RAD)
    return track(Tracker(thing(), how), clips, known, truth()[0])


@cache
def joint(seed: int) -> Coupled:
    clips, known = recorded(seed)
    seen = Seen(clips, known, thing())
    return couple(pushing(), seen, separate(seed), ("geom.box.friction_slide", "body.box.mass"), HOW)


def rms_m(found: Track, axes: slice = slice(3)) -> float:
    return float(np.sqrt(np.square(move_between(found.T_world_object, truth())[:, axes]).sum(axis=1).mean()))


def test_along_the_push_the_touch_makes_up_for_the_cameras() -> None:
    along = slice(0, 1)
    alone = [rms_m(separate(seed), along) for seed in (0,)]
    together = [rms_m(joint(seed).track, along) for seed in (0,)]
    assert np.mean(together) < 0.5 * np.mean(alone)


def test_what_comes_out_begins_identification_and_says_how_sure_it_is() -> None:
    found = joint(0)
    assert set(found.start) == {"geom.box.friction_slide", "body.box.mass", "joint.push.offset"}
    assert set(found.sd) == set(found.start)
    assert abs(found.start["joint.push.offset"]) < 0.004
    assert sum(found.cost.values()) < sum(found.first_cost.values())
    assert set(found.cost) == {
        "pixels",
        "tracks",
        "torques",
        "seams",
        "parameters",
        "offsets",
        "cameras",
        "shows",
        "scale",
    }
    assert set(found.cameras) == {"c0", "c1", "c2"}
    assert found.scale == 1.0
    assert (found.track.sd_m > 0).all()
    assert found.moves >= 1


def test_a_steady_push_tells_little_of_the_mass_and_says_so() -> None:
    assert any("body.box.mass stays weak" in line for line in joint(0).weak)
    assert any(line.startswith("Camera c") for line in joint(0).weak)


def test_tracks_alone_can_be_fitted() -> None:
    spread = np.tile(np.diag(np.square([1e-3] * 3 + [1e-2] * 3)), (len(TIMES), 1, 1))
    noisy = nudged(truth(), np.concatenate([stream(2, "tag").normal(0, 1e-3, (10, 3)), np.zeros((10, 3))], axis=1))
    rest = np.ones(len(TIMES))
    tag = Track(TIMES, noisy, spread, rest, 0 * rest, rest < 0)
    found = couple(pushing(), None, tag, (), HOW, tracks=[tag])
    assert rms_m(found.track) < 0.7 * rms_m(tag)
    assert found.cost["pixels"] == 0
    assert found.cameras == {}


def test_torques_of_touch_pull_the_friction_the_right_way() -> None:
    replay, times = pushing().replay(), np.arange(0, 1.2, 0.03)
    begun = qpos_of(nudged(standing(), np.array([0.0, 0.012, 0, 0, 0, 0.25])))
    planted = Variant(Theta({"geom.box.friction_slide": 0.6}))
    poses = pose_of(replay.roll(planted, 0, replay.steps, begun, np.zeros(6), list(replay.step_at(times))).qpos)
    time_s, torque, qpos, qvel = [], [], begun, np.zeros(6)
    for low, high in pairwise(np.linspace(0, replay.steps, 49).astype(int).tolist()):
        piece = replay.roll(planted, low, high, qpos, qvel, [])
        time_s.append(replay.begin_s + (low + high) / 2 * replay.step_s)
        torque.append(piece.load)
        qpos, qvel = piece.end_qpos, piece.end_qvel
    rest, spread = np.ones(len(times)), np.diag(np.square([1e-3] * 3 + [1e-2] * 3))
    tag = Track(times, poses, np.tile(spread, (len(times), 1, 1)), rest, 0 * rest, rest < 0)
    touch = Touch(np.array(time_s), np.stack(torque), np.array([0.05]))
    found = couple(pushing(), None, tag, ("geom.box.friction_slide",), HOW, tracks=[tag], touch=touch)
    assert 0.41 < found.start["geom.box.friction_slide"] < 0.7
    assert found.cost["torques"] > 0
    motion = Motion(pushing(), tag, ("geom.box.friction_slide",), 0.3, times)
    load = motion.loads(touch.time_s, touch.torque)
    off = [
        np.abs(motion.roll(motion.nodes, np.array([np.log(mu / 0.4)]), np.zeros(1), 0.0).load - load).sum()
        for mu in (0.4, 0.6)
    ]
    assert off[1] < 0.5 * off[0]
    with pytest.raises(RecordingError, match="torques of touch have the shape"):
        couple(pushing(), None, tag, (), HOW, tracks=[tag], touch=replace(touch, torque=np.zeros((2, 3))))


def test_the_scale_of_an_object_is_found_from_its_pictures() -> None:
    clips, known = recorded(0)
    small = replace(thing(), means=thing().means * 0.97, log_scales=thing().log_scales + np.log(0.97))
    how = replace(HOW, scale_sd=0.05, camera_sd_m=1e-4, camera_sd_rad=1e-4)
    true = tuple(
        replace(clip, T_world_camera=np.tile(camera.T_world_camera, (len(TIMES), 1, 1)))
        for clip, camera in zip(clips, cameras(), strict=True)
    )
    rest = np.ones(len(TIMES))
    start = Track(TIMES, truth(), np.tile(1e-6 * np.eye(6), (10, 1, 1)), rest, 0 * rest, rest < 0)
    found = couple(pushing(), Seen(true, known, small), start, (), how)
    assert found.scale == pytest.approx(1 / 0.97, abs=0.008)


def test_what_pictures_always_show_wrong_bends_no_pose_that_touch_tells() -> None:
    clips, known = recorded(0)
    turn = np.eye(4)
    turn[:2, :2] = [[np.cos(0.05), -np.sin(0.05)], [np.sin(0.05), np.cos(0.05)]]
    seen = Seen(clips, known, placed(thing(), turn))  # its looks are turned on it by three degrees
    off = []
    for sd_rad in (0.0, 0.05):
        how = replace(HOW, shows_sd_m=5e-4, shows_sd_rad=sd_rad, alike_s=0.3)
        found = couple(pushing(), seen, separate(0), ("geom.box.friction_slide",), how)
        off.append(np.sqrt(np.square(move_between(found.track.T_world_object, truth())[:, 5]).mean()))
        assert (found.cost["shows"] > 0) == (sd_rad > 0)
    assert off[1] < 0.7 * off[0]


def test_an_upright_pose_keeps_its_turn() -> None:
    T = nudged(standing(0, 0, 0.7), np.array([0, 0, 0, 0.05, -0.03, 0]))
    made = upright(T)
    assert made[2, 2] == pytest.approx(1.0)
    assert abs(move_between(T, made)[5]) < 0.01


def test_coupling_needs_something_that_was_seen() -> None:
    found = separate(0)
    with pytest.raises(RecordingError, match="neither clips nor tracks"):
        couple(pushing(), None, found)
    gone = replace(found, lost=np.ones(len(found), bool))
    with pytest.raises(RecordingError, match="was seen in 0 of 10 pictures"):
        couple(pushing(), None, gone, tracks=[found])
    with pytest.raises(ConfigError, match=r"segments of 0\.0 s"):
        Coupling(segment_s=0.0)
