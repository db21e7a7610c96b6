"""An object alone, before cameras that the rig gives: no robot's model, one click; then followed in a new recording."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.reconstruct.mask_scenes import LENS, middle_of, pushed, room
from tests.reconstruct.test_couple_surface import filmed
from tests.reconstruct.test_joint_shape import motion, small
from twinproof import cli
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import TwinError
from twinproof.nouns.mesh_files import read_mesh
from twinproof.nouns.parts import Calibration
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Camera, Mount, Rig
from twinproof.nouns.source import Declared, Inferred
from twinproof.nouns.twin import Twin
from twinproof.nouns.video_write import write_pictures
from twinproof.reconstruct.assemble import Physical
from twinproof.reconstruct.given import by_its_sides, given_room
from twinproof.reconstruct.poses import quat_of
from twinproof.sim.grid import Plane
from twinproof.sim.handled import pose_of
from twinproof.sim.scene import Scene
from twinproof.sim.world import World

SPREAD = {"position_sd_m": 0.003, "rotation_sd_rad": 0.004}


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main([str(argument) for argument in arguments])
    return int(stop.value.code or 0)


def recording(folder, path) -> tuple[Recording, str]:
    """A box that is pushed while a dark post goes by, three cameras as the rig gives them; and a click on the box."""
    clips, truth = room(path, robot=False)
    videos, cameras = {}, {}
    for name, clip in clips.items():
        file = folder / f"{name}.mp4"
        videos[name] = write_pictures(zip(clip.time_s.tolist(), clip.rgb, strict=True), name, file)
        T = clip.T_world_camera[0]
        cameras[name] = Camera(name, LENS, mount=Mount("world", tuple(T[:3, 3].tolist()), quat_of(T), **SPREAD))
    x, y = middle_of(truth["one"][0] == 0)
    episode = Episode.of({}, videos, source="made", labels={"object": "block"})
    return Recording(Rig("none", cameras=cameras), (episode,), {"kind": "made"}), f"one,0,{x},{y}=block"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder, path = tmp_path_factory.mktemp("given"), pushed(30)
    part, click = recording(folder, path)
    part.save(folder / "recording")
    sizes = ("--spans", "--gap-s", 0.05, "--sizes", 0.8, 0.1, 0.1)
    assert run("split", folder / "recording", *sizes, "--out", folder / "split") == 0
    arguments = ("reconstruct", folder / "split", "--cameras", "given", "--click", click)
    assert run(*arguments, "--out", folder / "twin") == 0
    return folder, path, click


def test_an_object_is_shaped_and_followed_without_a_robot(made) -> None:
    folder, path, _ = made
    twin = Twin.load(folder / "twin")
    (body,) = twin.bodies
    assert body.name == "block"
    assert isinstance(body.source, Inferred)
    assert all(isinstance(camera.source, Declared) for camera in twin.cameras.values())
    assert all(camera.mount.position_sd_m == pytest.approx(0.003 * 3**0.5) for camera in twin.cameras.values())
    assert any("no robot is drawn" in note for note in twin.notes)
    size = np.ptp(read_mesh(twin.path(body.visual)).vertices, axis=0)
    assert np.abs(size[:2] - (0.06, 0.04)).max() < 0.022  # two to three pixels
    told = twin.audits["followed"]["block"]
    good = ~np.array(told["lost"])
    assert good.mean() > 0.7
    true = np.array(path)[np.round(np.array(told["time_s"]) / 0.1).astype(int)]
    off = np.linalg.norm(np.array(told["pose"])[good][:, :2] - true[good], axis=1)
    assert np.median(off) < 0.006
    assert run("audit", folder / "split", folder / "twin") == 0


def test_a_new_recording_moves_it_where_a_click_says_which_it_is(made, tmp_path, capsys) -> None:
    folder, _, click = made
    assert run("update", folder / "twin", folder / "recording", "--click", click, "--out", tmp_path / "now") == 0
    pose = World(Scene.of(Twin.load(tmp_path / "now"))).body_pose("block")
    assert np.linalg.norm(pose[:2, 3] - pushed(30)[-1]) < 0.008
    told = Twin.load(tmp_path / "now").audits["update"]["objects"]["block"]
    assert np.linalg.norm(pose_of(np.array(told["pose"][0]))[:2, 3] - pushed(30)[0]) < 0.008


def test_what_given_cameras_need_is_said(made, tmp_path, capsys) -> None:
    folder, _, click = made
    asked = ("reconstruct", folder / "split", "--cameras", "given", "--out", tmp_path / "twin")
    for more, said in [
        ((), "Point at the object: --click camera,frame,x,y=name"),
        (("--click", click, "--robot", "arm.xml", "--no-joint"), "--robot, --joint would do nothing"),
        (("--click", click, "--table-normal", 0, 0, 0), "is no direction"),
    ]:
        assert run(*asked, *more) == 1
        assert said in " ".join(capsys.readouterr().err.split())
    part = recording(tmp_path, pushed(3))[0]
    nowhere = replace(part.rig, cameras={name: Camera(name, LENS) for name in part.rig.cameras})
    with pytest.raises(TwinError, match="no camera of the rig has pictures, a lens and a place"):
        given_room(Calibration(replace(part, rig=nowhere), "5" * 64), Plane(), Physical())


def test_a_motion_that_no_picture_shows_leaves_the_shape_as_it_is() -> None:
    clips, _ = filmed()
    bare = replace(motion(), masks={})
    thing = small()
    kept = by_its_sides(thing, bare, clips, Plane())
    assert kept.mesh is thing.mesh
    assert "too few pictures of its motion" in kept.notes[-1]
    model = replace(thing, made_by="a model")
    kept = by_its_sides(model, motion(), clips, Plane())
    assert kept.mesh is model.mesh
    assert kept.notes[-1] == "its shape stays as a model made it"
