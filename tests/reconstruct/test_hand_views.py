"""Pictures of a riding camera find their own poses on the table, and the rows of a rolling shutter theirs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reconstruct.test_robot_calibrate import looking
from twinproof.nouns.clip import Clip
from twinproof.nouns.errors import RecordingError
from twinproof.nouns.randomness import stream
from twinproof.nouns.rig import Intrinsics
from twinproof.reconstruct.hand_views import Ride, agreed, pose_at_row
from twinproof.reconstruct.poses import difference, nudged
from twinproof.sim.grid import Plane
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.render_rays import Rays
from twinproof.sim.world import World, compile_text

ROOM = """<mujoco><visual><headlight ambient=".6 .6 .6" diffuse=".3 .3 .3" specular="0 0 0"/></visual>
<worldbody><geom type="plane" size="1 1 .1" rgba=".7 .6 .5 1"/>{tiles}</worldbody></mujoco>"""
LENS = Lens(128, 96, 100.0, 100.0, 63.5, 47.5)


def flown(count: int) -> Ride:
    """Pictures of a table with tiles of many sizes and colours, by a camera that goes around it."""
    rng = stream(3, "tiles")
    tiles = "".join(
        f'<geom type="box" size="{a:.3f} {b:.3f} .0002" pos="{x:.3f} {y:.3f} 0" rgba="{r:.2f} {g:.2f} .4 1"/>'
        for x, y, a, b, r, g in zip(
            *rng.uniform(-0.35, 0.35, (2, 150)), *rng.uniform(0.005, 0.03, (2, 150)), *rng.uniform(0, 1, (2, 150)),
            strict=True,
        )
    )  # fmt: skip
    world = World(compile_text(ROOM.format(tiles=tiles)))
    poses, pictures = [], []
    for k in range(count):
        angle = 2 * np.pi * k / count
        poses.append(looking((0.3 * np.cos(angle), 0.3 * np.sin(angle), 0.35), (0, 0, 0)))
        drawn = Rays(threads=1, shadow_samples=1).render(world.model, world.data, Camera(LENS, poses[-1]), ["rgb"])
        pictures.append(drawn.rgb)
    ends = np.stack([np.stack(poses)] * 2, axis=1)
    return Ride(LENS, np.stack(pictures), np.ones((count, 96, 128), bool), ends)


def test_pictures_that_are_off_by_millimetres_agree_again() -> None:
    true = flown(14)
    rng = stream(4, "poses")
    off = rng.normal(0, [0.003] * 3 + [0.002] * 3, (14, 6))
    off -= off.mean(axis=0)  # what all of them share no picture tells
    moved = np.stack([nudged(true.ends[:, k], off) for k in range(2)], axis=1)
    done = agreed(Ride(true.lens, true.rgb, true.use, moved), Plane())

    def apart_px(poses: np.ndarray) -> float:
        """How far the middle of the table is from where it is seen, after what all share is taken off."""
        pixels = []
        for T, S in zip(poses, true.ends[:, 0], strict=True):
            p, q = ((np.linalg.inv(each) @ [0, 0, 0, 1])[:3] for each in (T, S))
            pixels.append(LENS.fx * (p[:2] / p[2] - q[:2] / q[2]))
        return float(np.sqrt((np.stack(pixels) ** 2).sum(axis=1).mean()))

    assert apart_px(moved[:, 0]) > 0.4
    assert apart_px(done.ends[:, 0]) < 0.5 * apart_px(moved[:, 0])


def test_few_pictures_stay_where_the_joints_have_them() -> None:
    ride = flown(3)
    assert agreed(ride, Plane()) is ride


def test_a_rows_pose_lies_between_those_of_the_first_and_the_last() -> None:
    ends = np.stack([np.eye(4), nudged(np.eye(4), np.array([0.01, 0, 0, 0, 0, 0.002]))])[None]
    ride = Ride(LENS, np.zeros((1, 96, 128, 3), np.uint8), np.ones((1, 96, 128), bool), ends)
    k = Intrinsics(100, 100, 63.5, 47.5)
    clip = Clip("wrist", np.zeros(1), ride.rgb, k, ride.at(0.5), sweep=ride.sweep)
    assert np.allclose(difference(ends[0, 0], pose_at_row(clip, 0, -0.5)), 0, atol=1e-4)
    assert np.allclose(difference(ends[0, 1], pose_at_row(clip, 0, 95.5)), 0, atol=1e-4)
    still = Clip("front", np.zeros(1), ride.rgb, k, ride.at(0.5))
    assert np.array_equal(pose_at_row(still, 0, 0.0), ride.at(0.5)[0])
    with pytest.raises(RecordingError, match="sweep has the shape"):
        Clip("wrist", np.zeros(1), ride.rgb, k, ride.at(0.5), sweep=np.zeros((1, 3)))
