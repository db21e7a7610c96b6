"""A camera on a moving link is calibrated from pictures of a table: planted mount, lens, clock and rolling shutter."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from twinproof.nouns.errors import TwinError
from twinproof.nouns.randomness import stream
from twinproof.nouns.rig import Intrinsics, Mount
from twinproof.nouns.views import PosedView
from twinproof.reconstruct.hand_camera import HandCamera, Level, Prior, Start, hand_camera
from twinproof.reconstruct.hand_camera_frames import Hand, HandFrames, hand_frames, smooth
from twinproof.reconstruct.robot_frames import Angles
from twinproof.sim.grid import Plane
from twinproof.sim.link_splats import LinkPoses, link_splats
from twinproof.sim.render_camera import Lens, pixel_rays
from twinproof.sim.scene import Scene

GANTRY = """
<mujoco>
  <worldbody>
    <body name="bridge" pos="0 0 0.32"><joint name="x" type="slide" axis="1 0 0"/>
      <joint name="z" type="slide" axis="0 0 1"/><geom type="sphere" size="0.01"/>
      <body name="cart"><joint name="y" type="slide" axis="0 1 0"/><geom type="sphere" size="0.01"/>
        <body name="yaw"><joint name="yaw" type="hinge" axis="0 0 1"/><geom type="sphere" size="0.01"/>
          <body name="hand"><joint name="pitch" type="hinge" axis="0 1 0"/>
            <geom type="box" size="0.004 0.02 0.03" pos="0.05 0 -0.09"/>
          </body></body></body></body>
  </worldbody>
</mujoco>
"""
JOINTS = ("x", "y", "yaw", "pitch", "z")
LENS = Lens(96, 72, 62.0, 62.0, 47.5, 35.5)
DOWN = Rotation.from_matrix([[0, -1, 0], [-1, 0, 0], [0, 0, -1]])  # looks down, its upper rim to the front
CLOCK_S, READOUT_S = -0.04, 0.02
LEVELS = (Level(0.02, 0.5, 4, 5), Level(0.012, 0.3, 3, 3), Level(0.008, 0.15, 2, 4), Level(0.005, 0.05, 2, 4))


@cache
def gantry(link: str = "hand") -> Hand:
    model = Scene(GANTRY).nominal()
    links = link_splats(model, ("bridge", "cart", "yaw", "hand"))
    return Hand(links, LinkPoses(model, JOINTS, links.bodies), link)


def true_mount() -> np.ndarray:
    T = np.eye(4)
    T[:3, :3] = (DOWN * Rotation.from_euler("xyz", [4, -3, 5], degrees=True)).as_matrix()
    T[:3, 3] = 0.03, -0.01, 0.02
    return T


def start(**prior: float) -> Start:
    T = true_mount()
    T[:3, :3] = T[:3, :3] @ Rotation.from_rotvec([0.012, -0.01, 0.015]).as_matrix()
    quat = Rotation.from_matrix(T[:3, :3]).as_quat()[[3, 0, 1, 2]]
    place = T[:3, 3] + (0.004, -0.003, 0.003)
    mount = Mount("hand", tuple(place), tuple(quat), 0.005, 0.02)  # type: ignore[arg-type]
    return Start(
        mount,
        replace(LENS, fx=LENS.fx * 1.01, fy=LENS.fy * 1.01),
        prior=Prior(joint_rad=1e-4, ripple_rad=1e-4, **prior),
    )


def colour(points: np.ndarray) -> np.ndarray:
    """A table of soft waves in all directions, 3 to 12 cm long, in two tints."""
    rng = stream(5, "table")
    shade = np.zeros((*points.shape[:-1], 2))
    for k in range(24):
        wave = rng.normal(size=2)
        wave *= 2 * np.pi / rng.uniform(0.03, 0.12) / np.linalg.norm(wave)
        shade[..., k % 2] += 0.07 * np.sin(points[..., :2] @ wave + rng.uniform(0, 7))
    rgb = np.stack([shade[..., 0] + 0.5 * shade[..., 1], shade[..., 0], shade[..., 0]], axis=-1)
    return np.asarray(np.clip(0.45 + rgb, 0, 1))


def picture(poses: np.ndarray, lens: Lens) -> np.ndarray:
    """T_world_camera for each row -> what the camera sees of the table at z = 0."""
    rays = pixel_rays(lens)
    ahead = np.concatenate([rays, np.ones((*rays.shape[:2], 1))], -1)
    ahead = np.einsum("rij,rcj->rci", poses[:, :3, :3], ahead)
    depth = -poses[:, None, 2, 3] / ahead[..., 2]
    return (255 * colour(poses[:, None, :3, 3] + depth[..., None] * ahead) + 0.5).astype(np.uint8)


def angles_of(turning: float = 1.0, moving: float = 1.0) -> Angles:
    time = np.arange(0, 6, 0.01)
    waves = [(0.10, 1.1, 0), (0.08, 1.7, 1), (0.9 * turning, 0.9, 2), (0.4 * turning, 2.1, 0.5), (0.08, 1.4, 3)]
    return Angles(time, np.stack([moving * a * np.sin(w * time + p) for a, w, p in waves], axis=1))


@cache
def filmed(turning: float = 1.0, moving: float = 1.0, plain: bool = False, count: int = 24) -> HandFrames:
    angles, hand = angles_of(turning, moving), gantry()
    stamps = np.linspace(0.3, 5.6, count) - CLOCK_S
    shares = READOUT_S * (np.arange(LENS.height) + 0.5) / LENS.height
    shown = []
    for stamp in stamps:
        rows = [hand.T_world_link(q) @ true_mount() for q in angles.at(stamp + CLOCK_S + shares)]
        shown.append(picture(np.stack(rows), LENS))
    rgb = np.full_like(np.stack(shown), 120) if plain else np.stack(shown)
    return HandFrames("wrist", "day", angles, stamps, rgb)


@cache
def calibrated() -> HandCamera:
    return hand_camera([filmed()], gantry(), start(height_m=1e-5), levels=LEVELS)


def test_mount_lens_clock_and_readout_are_found_and_their_deviations_are_honest() -> None:
    found = calibrated()
    T = true_mount()
    turn = Rotation.from_matrix(T[:3, :3].T @ found.T_link_camera[:3, :3]).magnitude()
    assert turn < np.radians(0.15)
    assert np.linalg.norm(found.T_link_camera[:3, 3] - T[:3, 3]) < 0.0012
    assert abs(found.lens.fx / LENS.fx - 1) < 0.003
    assert abs(found.clock_s - CLOCK_S) < 0.002
    assert abs(found.readout_s - READOUT_S) < 0.003
    sd = np.sqrt(np.diag(found.covariance))
    assert found.covariance.shape == (len(found.names),) * 2
    assert (sd[:9] > 0).all()
    assert sd[7] < 0.002
    assert not found.notes


def test_a_still_camera_that_is_known_fixes_the_height_of_the_table() -> None:
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = DOWN.as_matrix(), (0.0, 0.0, 0.5)
    lens = Lens(96, 72, 80.0, 80.0, 47.5, 35.5)
    shown = picture(np.repeat(T[None], 72, axis=0), lens)
    view = PosedView("above", shown, Intrinsics(80.0, 80.0, 47.5, 35.5), T, mask=np.zeros((72, 96), np.int32))
    low = Plane(offset_m=-0.002)
    found = hand_camera([filmed()], gantry(), start(height_m=0.004), low, [("day", view)], LEVELS)
    assert abs(found.height_m - 0.002) < 0.001


def test_a_camera_that_never_turns_says_that_its_place_was_hardly_measured() -> None:
    notes = hand_camera([filmed(turning=0.0)], gantry(), start(), levels=LEVELS[:2]).notes
    assert any("shift_x was hardly measured" in note for note in notes)


def test_the_clip_has_the_pose_of_the_middle_row_and_the_drawn_robot() -> None:
    frames, hand = filmed(), gantry()
    found = replace(calibrated(), T_link_camera=true_mount(), clock_s=CLOCK_S, readout_s=0.02)
    clip = found.clip(frames, hand)
    wanted = hand.T_world_link(frames.angles.at(frames.time_s[:1] + CLOCK_S + 0.01)[0]) @ true_mount()
    np.testing.assert_allclose(clip.T_world_camera[0], wanted, atol=1e-12)
    assert clip.robot is not None
    assert 0.005 < clip.robot.mean() < 0.5


def test_smoothing_leaves_a_parabola_as_it_is_and_few_samples_too() -> None:
    time = np.arange(0, 1, 0.01)
    angles = Angles(time, np.stack([time**2, 1 - time], axis=1))
    np.testing.assert_allclose(smooth(angles).value, angles.value, atol=1e-12)
    assert smooth(Angles(time[:3], angles.value[:3])).value.shape == (3, 2)


def test_what_cannot_be_calibrated_is_refused_with_the_reason() -> None:
    hand, frames = gantry(), filmed()
    with pytest.raises(TwinError, match="no pictures of the camera on the robot"):
        hand_camera([], hand, start())
    with pytest.raises(TwinError, match="moves by 0 mm in all"):
        hand_camera([filmed(moving=0.0, count=4)], hand, start())
    with pytest.raises(TwinError, match="of its pixels see the table"):
        hand_camera([frames], hand, start(), Plane(offset_m=2.0), levels=LEVELS[:1])
    with pytest.raises(TwinError, match="say nothing about where it looks"):
        hand_camera([filmed(plain=True)], hand, start(), levels=LEVELS[:1])
    with pytest.raises(TwinError, match="no link 'thumb'"):
        gantry("thumb")


def test_a_recording_without_the_camera_is_refused() -> None:
    part: Any = SimpleNamespace(recording=SimpleNamespace(rig=None, episodes=()))
    with pytest.raises(TwinError, match="no episode has pictures of wrist"):
        hand_frames(part, "wrist", np.zeros(4), gantry())
