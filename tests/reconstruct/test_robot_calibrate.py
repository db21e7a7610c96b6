"""Cameras, joint offsets and clocks come out of pictures of a small robot, and what does not fit is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from scipy.spatial.transform import Rotation

from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import RecordingError, TwinError
from twinproof.nouns.parts import Calibration
from twinproof.nouns.randomness import stream
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Joint, Rig
from twinproof.nouns.signal import Column, Signal
from twinproof.reconstruct.calibration_block import check_sharp
from twinproof.reconstruct.robot_calibrate import calibrate
from twinproof.reconstruct.robot_compare import Outlines, foreground
from twinproof.reconstruct.robot_fit import CAMERA, Guess, Level, Robot, Sighting
from twinproof.reconstruct.robot_frames import Angles, RobotFrames, shrunk
from twinproof.reconstruct.robot_look import Look
from twinproof.reconstruct.robot_match import check, match
from twinproof.reconstruct.robot_starts import Starts, best_start
from twinproof.reconstruct.unit_checks import check_units
from twinproof.sim.link_splats import LinkPoses, link_splats, robot_bodies
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.render_rays import Rays
from twinproof.sim.world import World, compile_text

ARM = """<mujoco><compiler angle="radian"/>
<visual><headlight ambient=".4 .4 .4" diffuse=".4 .4 .4" specular="0 0 0"/></visual>
<asset><texture name="wood" type="2d" builtin="checker" rgb1=".7 .5 .3" rgb2=".6 .42 .25" width="64" height="64"/>
<material name="wood" texture="wood" texrepeat="12 12"/></asset>
<worldbody><geom type="plane" size="2 2 .1" material="wood"/>
  <body name="stand"><geom type="box" size=".09 .06 .03" pos="0 0 .03" rgba=".8 .8 .85 1"/>
    <body name="upper" pos="0 0 .08"><joint name="yaw" axis="0 0 1"/><joint name="lift" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 .25 0 0" size=".03" rgba=".1 .1 .12 1" mass="1"/>
      <body name="lower" pos=".25 0 0"><joint name="bend" axis="0 1 0"/>
        <geom type="box" pos=".1 0 0" size=".1 .03 .02" rgba=".9 .4 .1 1" mass="1"/>
        <geom type="box" pos=".2 0 0" size=".015 .05 .015" rgba=".1 .2 .8 1" mass="1"/></body></body></body>
</worldbody><actuator><position joint="yaw"/><position joint="lift"/><position joint="bend"/></actuator></mujoco>"""
SIZE, JOINTS = (128, 96), ("yaw", "lift", "bend")
OFFSETS = np.array([0.02, -0.03, 0.025])
LATE_S = -0.03
LEVELS = (
    Level(2, 1.5, 0.5, 4, 6, CAMERA[:3], joints=False, compare=Outlines(), grow_px=8),
    Level(2, 1.0, 0.3, 6, 6, (*CAMERA[:6], "clock"), grow_px=5),
    Level(1, 1.0, 0.25, 5, 6, (*CAMERA[:6], "clock"), grow_px=3),
)


def looking(eye, at) -> np.ndarray:
    z = np.subtract(at, eye) / np.linalg.norm(np.subtract(at, eye))
    x = np.cross(z, [0, 0, 1.0])
    x /= np.linalg.norm(x)
    T = np.eye(4)
    T[:3] = np.stack([x, np.cross(z, x), z, eye], -1)
    return T


TRUE = {"front": looking((0.9, 0.3, 0.5), (0.15, 0, 0.12)), "side": looking((0.1, -0.8, 0.55), (0.15, 0, 0.1))}


@pytest.fixture(scope="module")
def taken():
    """Frames of two cameras, the robot, and the true guess."""
    model = compile_text(ARM)
    links, *more = (link_splats(model, robot_bodies(model), 0.014 * block) for block in (1, 2, 4))
    poses = LinkPoses(model, JOINTS, links.bodies)
    time_s = np.linspace(0, 6, 241)
    wave = np.stack(
        [0.8 * np.sin(1.1 * time_s), -0.5 + 0.4 * np.sin(1.7 * time_s), 0.7 + 0.6 * np.sin(2.3 * time_s)], 1
    )
    angles = Angles(time_s, wave + OFFSETS)
    lens, frames, rng = Lens(*SIZE, 130.0, 130.0, 63.5, 47.5), [], stream(0, "pictures")
    world = World(model)
    for name, pose in TRUE.items():
        stamps = np.linspace(0.3, 5.7, 12)
        pictures = []
        for stamp in stamps:
            world.qpos[:] = [np.interp(stamp + LATE_S, time_s, column) for column in wave.T]
            world.forward()
            rgb = Rays(threads=1, shadow_samples=1).render(model, world.data, Camera(lens, pose), ["rgb"]).rgb
            pictures.append(rgb / 255 + rng.normal(0, 0.008, rgb.shape))
        rgb = np.stack(pictures).astype(np.float32)
        frames.append(
            RobotFrames(
                name,
                "e",
                angles,
                stamps,
                rgb,
                np.median(rgb, 0),
                np.ones(SIZE[::-1], np.float32),
                tuple(range(0, 12, 2)),
            )
        )
    truth = Guess({name: Sighting(pose, lens, LATE_S) for name, pose in TRUE.items()}, OFFSETS)
    return Robot((links, *more), poses, (0, 1, 2)), frames, truth


def shaken(truth: Guess, turn: float = 0.04, shift: float = 0.03) -> Guess:
    rng = stream(3, "shaken")
    cameras = {}
    for name, sight in truth.cameras.items():
        by = np.zeros(len(CAMERA))
        by[:3], by[3:6] = (rng.normal(size=3) for _ in range(2))
        by[:3] *= turn / np.linalg.norm(by[:3])
        by[3:6] *= shift / np.linalg.norm(by[3:6])
        cameras[name] = replace(sight.changed(by), clock_s=0.0)
    return Guess(cameras, np.zeros(3))


@pytest.fixture(scope="module")
def found(taken):
    robot, frames, truth = taken
    return calibrate(robot, JOINTS, shaken(truth), frames, LEVELS)


def test_cameras_offsets_and_clocks_are_found(found, taken) -> None:
    truth = taken[2]
    for name, sight in found.guess.cameras.items():
        true = truth.cameras[name].T_world_camera
        turn = Rotation.from_matrix(true[:3, :3].T @ sight.T_world_camera[:3, :3]).magnitude()
        assert np.linalg.norm(sight.T_world_camera[:3, 3] - true[:3, 3]) < 0.016
        assert np.degrees(turn) < 1.0  # from 2.3, with pixels of 0.4
        assert sight.clock_s == pytest.approx(LATE_S, abs=0.008)
    assert np.degrees(np.abs(found.guess.offsets - OFFSETS)).max() < 1.0


def test_a_camera_that_the_rig_puts_too_far_off_is_found_from_another_start(taken) -> None:
    robot, frames, truth = taken
    far = shaken(truth, turn=0.12)  # 6.9°: outlines alone lead the front camera elsewhere
    ends = [calibrate(robot, JOINTS, far, frames, LEVELS, starts=how) for how in (Starts(count=0), Starts())]
    true, gaps = truth.cameras["front"].T_world_camera, []
    for end in ends:
        turn = Rotation.from_matrix(true[:3, :3].T @ end.guess.cameras["front"].T_world_camera[:3, :3])
        gaps.append(np.degrees(turn.magnitude()))
    assert gaps[0] > 2.0 > 1.0 > gaps[1]
    assert ends[0].tried == {}
    told = ends[1].tried["front"]
    assert told.taken > 0
    assert told.misfits[0] > 0.5 > 0.2 > min(told.misfits)
    assert "rig's own 0.8" in told.sentence
    again, _ = best_start(robot, far, frames, Look.of_model(robot.fine), LEVELS[:1], Starts())
    twice, _ = best_start(robot, far, frames, Look.of_model(robot.fine), LEVELS[:1], Starts())
    assert np.array_equal(again.cameras["front"].T_world_camera, twice.cameras["front"].T_world_camera)


def test_a_start_that_is_as_good_as_others_stays(taken, found) -> None:
    robot, frames, truth = taken
    start, tried = best_start(robot, shaken(truth), frames, Look.of_model(robot.fine), LEVELS[:1], Starts())
    assert {name: each.taken for name, each in tried.items()} == {"front": 0, "side": 0}
    assert np.array_equal(start.cameras["side"].T_world_camera, shaken(truth).cameras["side"].T_world_camera)
    assert found.tried.keys() == tried.keys()
    assert best_start(robot, shaken(truth), frames, Look.of_model(robot.fine), (), Starts())[1] == {}


def test_uncertainties_are_of_the_size_of_the_errors(found) -> None:
    sd = np.sqrt(np.diag(found.covariance))
    assert len(found.names) == 2 * len(CAMERA) + 3
    joints = [k for k, name in enumerate(found.names) if name.startswith("joint.")]
    assert (sd[joints] < 0.03).all()  # believed to 0.04 beforehand; links are doubted in all cameras at once too
    assert (sd > 0).all()


def test_a_robot_that_matches_is_accepted_and_another_is_named(found, taken) -> None:
    robot, _, _ = taken
    agreed = match(robot, found)
    check(agreed, tuple(TRUE))
    assert min(agreed.by_camera.values()) > 0.7
    wrong = compile_text(ARM.replace('size=".1 .03 .02" rgba=".9 .4 .1 1"', 'size=".1 .03 .14" rgba=".9 .4 .1 1"'))
    links = link_splats(wrong, robot_bodies(wrong), 0.014)
    other = Robot((links, links, links), LinkPoses(wrong, JOINTS, links.bodies), (0, 1, 2))
    with pytest.raises(TwinError, match="by link: lower"):
        check(match(other, found), tuple(TRUE))


def test_the_outlines_gap_is_told_in_recorded_pixels_and_grows_with_the_error(found, taken) -> None:
    robot, _, truth = taken
    near = match(robot, found).outline_px
    assert set(near) == set(TRUE)
    assert max(near.values()) < 1.2
    off = match(robot, replace(found, guess=shaken(truth, 0.01, 0.01))).outline_px
    assert min(off.values()) > 1.5 * max(near.values())
    coarse = replace(found, frames=[replace(f, shrink=2) for f in found.frames])
    assert match(robot, coarse).outline_px["front"] == pytest.approx(2 * near["front"])


def test_blurred_pictures_and_impossible_units_are_refused_before_anything_is_fitted(taken) -> None:
    robot, frames, _ = taken
    check_sharp(frames)
    soft = [replace(f, rgb=gaussian_filter(f.rgb, (0, 6, 6, 0))) for f in frames]
    with pytest.raises(RecordingError, match=r"all pictures of the cameras that stand are blurred: front \(edges of"):
        check_sharp(soft)
    check_sharp([soft[0], *frames[1:]])
    rig = Rig("arm", tuple(Joint(name) for name in JOINTS))

    def turned(to: float, speed: float = 0.0) -> Calibration:
        columns = tuple(Column(name, "rad") for name in JOINTS)
        value = np.tile(to - speed * (0.1 * np.arange(30.0))[:, None], (1, 3))
        state = Signal("state", "joint_position", columns, 0.1 * np.arange(30.0), value)
        return Calibration(Recording(rig, (Episode.of({"state": state}, {}, source="made"),), {}), "5" * 64)

    check_units(robot, turned(1.5))
    check_units(robot, turned(40.0, speed=3.0))  # joints without stops may turn as often as they like
    with pytest.raises(RecordingError, match=r"yaw goes to 86.0 rad, 14 turns, at up to 40 rad/s; .* Is it in degrees"):
        check_units(robot, turned(86.0, speed=40.0))
    stopped = compile_text(ARM.replace('name="bend"', 'name="bend" range="-2 2"'))
    held = replace(robot, poses=LinkPoses(stopped, JOINTS, robot.fine.bodies))
    check_units(held, turned(2.4))  # encoders are off, and models' stops are not measured
    with pytest.raises(RecordingError, match=r"bend is at 40.0 rad, and its model stops it at 2.00 rad. Is it in deg"):
        check_units(held, turned(40.0))
    large = compile_text(re.sub(r'(size|pos|fromto)="([^"]*)"', _thousandfold, ARM))
    links = link_splats(large, robot_bodies(large), 14.0)
    mm = Robot((links, links, links), LinkPoses(large, JOINTS, links.bodies), (0, 1, 2))
    with pytest.raises(TwinError, match="from end to end; robots are 0.02 to 20 m. Is it in millimetres"):
        check_units(mm, turned(1.5))


def _thousandfold(found: re.Match[str]) -> str:
    numbers = " ".join(str(1000 * float(x)) for x in found[2].split())
    return f'{found[1]}="{numbers}"'


def test_a_camera_that_looks_away_is_refused(found, taken) -> None:
    robot, _, _ = taken
    away = {n: replace(s, T_world_camera=looking((0.9, 0.3, 0.5), (5, 5, 3))) for n, s in found.guess.cameras.items()}
    with pytest.raises(TwinError, match="it is not in view"):
        check(match(robot, replace(found, guess=Guess(away, OFFSETS))), tuple(TRUE))


def test_a_shadow_is_not_taken_for_the_robot() -> None:
    plate = np.full((4, 4, 3), [0.3, 0.5, 0.4], np.float32)
    picture = plate.copy()
    picture[0] *= 0.6
    picture[1] = [0.8, 0.3, 0.1]
    sure = foreground(picture, plate)
    assert sure[0].max() < 0.05
    assert sure[1].min() > 0.95
    assert sure[2:].max() == 0


def test_large_pictures_are_averaged_down() -> None:
    assert shrunk(np.zeros((480, 640, 3), np.uint8)).shape == (240, 320, 3)
    assert shrunk(np.zeros((30, 40), np.uint8)).shape == (30, 40, 3)
