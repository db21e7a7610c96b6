"""The twin's splats followed in a robot's pictures: the pose that was planted, late by what pictures take."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.nouns import examples
from tests.sim.tracking import HALF, SIZE, cameras, standing, thing
from twinproof.nouns.errors import RobotError, TwinError
from twinproof.nouns.randomness import stream
from twinproof.nouns.rig import Camera, Intrinsics, Mount, Rig
from twinproof.nouns.robot import Observation, Picture
from twinproof.nouns.source import Declared
from twinproof.nouns.splat_files import write_ply
from twinproof.nouns.splats import SH0, Splats, joined
from twinproof.nouns.twin import Alignment, Body, Twin, TwinCamera
from twinproof.sim.splat.placed import placed
from twinproof.sim.splat.render import Device, render
from twinproof.tasks.sight import TwinSight, clock_offsets, seven
from twinproof.tasks.task import Setup

SCENE = f"""<mujoco><compiler angle="radian"/><worldbody>
 <body name="arm" pos="0 -0.15 0.05"><joint name="swing" axis="0 0 1"/>
  <geom name="stick" type="capsule" fromto="0 0 0 0.15 0 0" size="0.02"/></body>
 <body name="box" pos="0 0 {HALF[2]}"><freejoint/><geom type="box" size="{HALF[0]} {HALF[1]} {HALF[2]}"/></body>
 <body name="floor"><geom type="plane" size="1 1 0.1"/></body>
</worldbody></mujoco>"""


def floor() -> Splats:
    """A patterned floor."""
    x, y = np.meshgrid(np.arange(-0.5, 0.5, 0.02), np.arange(-0.5, 0.5, 0.02))
    count = x.size
    colours = stream(0, "floor").uniform(0.3, 0.7, (count, 3))
    return Splats(
        np.stack([x.ravel(), y.ravel(), np.zeros(count)], axis=1),
        np.tile([1.0, 0, 0, 0], (count, 1)),
        np.log(np.tile([0.014, 0.014, 0.001], (count, 1))),
        np.full(count, 5.0),
        ((colours - 0.5) / SH0)[:, None],
        np.zeros(count, np.int32),
        ("floor",),
    )


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Twin:
    root: Path = tmp_path_factory.mktemp("twin")
    (root / "scene.xml").write_text(SCENE)
    box = placed(thing(), standing())
    write_ply(root / "splats.ply", joined([box, floor()]), groups=False)
    source = Declared("a test")
    made = {}
    for k, camera in enumerate(cameras()):
        lens, T = camera.lens, camera.T_world_camera
        pose = seven(T)
        mount = Mount("world", tuple(pose[:3].tolist()), tuple(pose[3:].tolist()))
        made[f"cam{k}"] = TwinCamera(*SIZE, Intrinsics(lens.fx, lens.fy, lens.cx, lens.cy), mount, source)
    lacks = {"mesh": "a test", "splats": "a test"}
    bodies = (
        Body("arm", source, "robot", lacks=lacks),
        Body("box", source, "object", splats=(0, len(box)), lacks=lacks),
        Body("floor", source, "background", splats=(len(box), len(floor())), lacks=lacks),
    )
    return Twin(root, bodies, Alignment(source), "mujoco 3.17.0", ("e1",), {}, made)


def shown(T: np.ndarray, stamp_s: float, late_s: float = 0.0) -> Observation:
    """What the robot's cameras show of the box at a pose, with a little noise."""
    scene = joined([placed(thing(), T), floor()])
    rng = stream(round(1e3 * stamp_s), "noise")
    pictures = {}
    for k, camera in enumerate(cameras()):
        image = render(scene, camera, Device(threads=1)).colour + rng.normal(0, 0.01, (SIZE[1], SIZE[0], 3))
        pictures[f"cam{k}"] = Picture(stamp_s - late_s, (255 * np.clip(image, 0, 1)).astype(np.uint8))
    return Observation(stamp_s, np.zeros(1), np.zeros(1), np.zeros(1), pictures)


def test_a_box_is_found_and_followed_to_millimetres(twin):
    sight = TwinSight(twin, "box", ("swing",))
    for k in range(4):
        T = standing(0.02 + 0.01 * k, -0.03, 0.1 * k)
        pose = sight.look(shown(T, 0.05 * k))["box"]
        assert np.linalg.norm(pose[:3] - T[:3, 3]) < 0.003
        assert abs(pose[3:] @ seven(T)[3:]) > 0.999
    there = standing(-0.05, 0.06, 0.7)
    sight.begin(shown(there, 1.0), Setup(at_m=(-0.045, 0.055), yaw_rad=0.6))  # put there by hand, about
    assert sight.last is None
    pose = sight.look(shown(there, 1.0))["box"]
    assert np.linalg.norm(pose[:3] - there[:3, 3]) < 0.003
    assert abs(pose[3:] @ seven(there)[3:]) > 0.999
    sight.begin(shown(there, 2.0), Setup())  # nobody says where
    assert sight.last is None


def test_a_picture_that_was_seen_before_is_not_looked_at_again_and_an_old_pose_is_forgotten(twin):
    sight = TwinSight(twin, "box", ("swing",), {"cam0": 0.02, "cam1": 0.02, "cam2": 0.02})
    first = shown(standing(), 0.1, late_s=0.05)
    found = sight.look(first)["box"]
    assert sight.last is not None
    assert sight.last.time_s == pytest.approx(0.07)  # the stamp, on the robot's clock
    later = Observation(0.6, np.zeros(1), np.zeros(1), np.zeros(1), first.images)
    np.testing.assert_array_equal(sight.look(later)["box"], found)
    assert sight.look(Observation(2.0, np.zeros(1), np.zeros(1), np.zeros(1), first.images)) == {}


def test_the_robot_before_the_object_is_drawn_away(twin):
    sight = TwinSight(twin, "box", ("swing",))
    sight.look(shown(standing(), 0.0))
    arm = sight._drawn(sight.cameras["cam1"], 0.0)
    assert 0 < (arm > 0).mean() < 0.2


def test_what_cannot_be_followed_is_refused(twin, tmp_path):
    with pytest.raises(TwinError, match="'arm' has no splats"):
        TwinSight(twin, "arm", ("swing",))
    sight = TwinSight(twin, "box", ("swing",))
    with pytest.raises(RobotError, match="none of the twin's still cameras"):
        sight.look(Observation(0.0, np.zeros(1), np.zeros(1), np.zeros(1)))
    bare = examples.twin(tmp_path / "bare", bodies=(examples.cube(splats=(0, 20)),), cameras={})
    with pytest.raises(TwinError, match="no camera that stands in the world"):
        TwinSight(bare, "cube", ())


def test_a_twin_without_background_is_refused(twin, tmp_path):
    alone = examples.twin(tmp_path / "alone", bodies=(examples.cube(splats=(0, 20)),), cameras=dict(twin.cameras))
    with pytest.raises(TwinError, match="no background in splats"):
        TwinSight(alone, "cube", ())


def test_clock_offsets_are_the_rigs_and_what_was_found_beyond_them(twin):
    rig = Rig("r", cameras={"cam0": Camera("x", clock_offset_s=0.01), "cam1": Camera("y")})
    assert clock_offsets(twin, rig) == {"cam0": 0.01, "cam1": 0.0}
