"""A stated scene around a robot that pictures show: its cameras stand where they were found, the rest is declared."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reconstruct.test_assemble import Part, room
from tests.reconstruct.test_robot_calibrate import ARM, TRUE
from twinproof.nouns.errors import TwinError
from twinproof.nouns.source import Declared, Inferred
from twinproof.nouns.splat_files import read_ply
from twinproof.nouns.twin import Twin
from twinproof.reconstruct.stated import in_scene
from twinproof.sim.render_camera import Named
from twinproof.sim.scene import Scene
from twinproof.sim.world import World

STATED = ARM.replace(
    "</worldbody>",
    '<camera name="front" pos="5 5 5"/><camera name="mine" pos="1 1 1"/>'
    '<body name="cube" pos="0.3 0 0.02"><freejoint/><geom type="box" size=".02 .02 .02"/></body></worldbody>',
)


@pytest.fixture(scope="module")
def twin(tmp_path_factory) -> Twin:
    folder = tmp_path_factory.mktemp("stated")
    (folder / "scene").mkdir()
    made = in_scene(Scene(STATED), "room.xml", room(folder), Part(), folder / "scene")
    made.save(folder / "saved")
    return Twin.load(folder / "saved")


def test_cameras_and_offsets_are_found_and_the_rest_is_declared(twin: Twin) -> None:
    assert isinstance(twin.body("cube").source, Declared)
    assert isinstance(twin.alignment.source, Inferred)
    assert all(isinstance(camera.source, Inferred) for camera in twin.cameras.values())
    assert twin.start["joint.yaw.offset"] == 0.02
    assert twin.audits["calibration"]["offset_sd_rad"]["yaw"] == 0.001
    assert "joint offsets are from pictures" in twin.notes[0]


def test_the_scenes_own_camera_of_that_name_gives_way_and_others_stay(twin: Twin) -> None:
    world = World(Scene.of(twin).nominal())
    for name, T in TRUE.items():
        assert np.allclose(Named(name, 128, 96).at(world.model, world.data).T_world_camera, T, atol=1e-6)
    assert np.allclose(Named("mine", 128, 96).at(world.model, world.data).T_world_camera[:3, 3], 1.0)


def test_surfels_cover_the_robot_alone(twin: Twin) -> None:
    covered = {body.name: body.splats for body in twin.bodies if body.splats}
    assert set(covered) == {"stand", "upper", "lower"}
    assert sum(count for _, count in covered.values()) == len(read_ply(twin.path("splats.ply")))
    assert twin.body("cube").lacks["splats"] == "nothing was reconstructed"


def test_a_scene_without_the_robot_is_refused(tmp_path) -> None:
    other = "<mujoco><worldbody><body name='upper'><geom size='.1'/></body></worldbody></mujoco>"
    with pytest.raises(TwinError, match="room.xml has no body stand, lower, which the robot's model has"):
        in_scene(Scene(other), "room.xml", room(tmp_path), Part(), tmp_path)
