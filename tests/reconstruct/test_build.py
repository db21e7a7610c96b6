"""The whole of `reconstruct` on a lab recording; minutes long, so marked slow. What it refuses is quick to see."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.reconstruct.test_motion_block import still_track
from tests.reconstruct.test_robot_calibrate import ARM, JOINTS
from tests.sim.tracking import box_mesh, standing, thing
from twinproof import cli
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import ConfigError, TwinError
from twinproof.nouns.parts import Calibration
from twinproof.nouns.progress import quiet
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Camera, Intrinsics, Joint, Model, Mount, Rig
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.store import Store
from twinproof.nouns.twin import Twin
from twinproof.nouns.views import PosedView, Views
from twinproof.reconstruct import build
from twinproof.reconstruct.assemble import Physical, Room
from twinproof.reconstruct.build import Building, Kept, _names, built, corrected, episode_with, objects_of
from twinproof.reconstruct.calibration_block import FoundRobot, found_robot, robot_of
from twinproof.reconstruct.motion_block import FoundMotion
from twinproof.reconstruct.moving import held_by
from twinproof.reconstruct.object_block import FoundObject, Shaping, shaped
from twinproof.reconstruct.prompts import read_clicks
from twinproof.reconstruct.robot_frames import joint_angles
from twinproof.sim.grid import Plane
from twinproof.sim.scene import Scene


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main([str(argument) for argument in arguments])
    return int(stop.value.code or 0)


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    folder = tmp_path_factory.mktemp("push")
    lab = folder / "lab"
    truth = ("--truth", folder / "truth.json")
    assert run("lab", "record", "push", "--episodes", 6, "--seed", 7, "--to", "mcap", "--out", lab, *truth) == 0
    assert run("ingest", lab / "dataset", "--rig", lab / "rig.toml", "--out", folder / "recording") == 0
    sizes = ("--sizes", 0.8, 0.1, 0.1)
    assert run("split", folder / "recording", "--group-by", "object", *sizes, "--out", folder / "split") == 0
    return folder


@pytest.mark.slow
def test_a_twin_is_made_from_pictures_and_a_second_run_reuses_the_blocks(split, capsys) -> None:
    arguments = ("reconstruct", split / "split", "--robot", split / "lab" / "robot.xml", "--background-steps", 0)
    assert run(*arguments, "--pictures", 12, "--out", split / "twin") == 0
    twin, truth = Twin.load(split / "twin"), json.loads((split / "truth.json").read_text())
    for name, camera in twin.cameras.items():
        if camera.mount.parent == "world":
            true, stated = (truth["cameras"][name][k] for k in ("mount", "stated_mount"))
            places = [np.array(Mount(**m).position_m) for m in (true, stated)]
            assert np.linalg.norm(np.array(camera.mount.position_m) - places[0]) < 0.03
    assert run("audit", split / "split", split / "twin") == 0
    (split / "twin").rename(split / "first")
    capsys.readouterr()
    assert run(*arguments, "--pictures", 12, "--out", split / "twin") == 0
    assert Twin.load(split / "twin").files == Twin.load(split / "first").files


def test_one_of_robot_and_scene_is_needed(tmp_path, capsys) -> None:
    assert run("reconstruct", tmp_path, "--out", tmp_path / "twin") == 1
    assert "needs one of --robot" in capsys.readouterr().err


def box(went_m: float) -> FoundObject:
    return FoundObject("box", box_mesh(), thing(), standing(), {}, (), (), went_m=went_m)


def small(rig: Rig, **signals: Signal) -> Calibration:
    return Calibration(
        Recording(rig, (Episode.of(signals, {}, source="made", labels={"object": "mug"}),), {}), "5" * 64
    )


def angles(*names: str) -> Signal:
    columns = tuple(Column(name, "rad") for name in names)
    return Signal("state", "joint_position", columns, np.arange(3.0), np.zeros((3, len(names))))


def test_what_a_reconstruction_needs_is_said(tmp_path) -> None:
    joints = tuple(Joint(name) for name in JOINTS)
    still = {"front": Camera("f", Intrinsics(130, 130, 63, 47), mount=Mount())}
    robot = robot_of(Scene(ARM), Rig("arm", joints))
    with pytest.raises(TwinError, match="driven by an actuator"):
        robot_of(Scene(ARM.split("<actuator>")[0] + "</mujoco>"), Rig("arm", joints))
    with pytest.raises(TwinError, match="stands still with a known lens"):
        found_robot(small(Rig("arm", joints), state=angles(*JOINTS)), robot)
    with pytest.raises(TwinError, match="no episode has pictures of front"):
        found_robot(small(Rig("arm", joints, cameras=still), state=angles(*JOINTS)), robot)
    with pytest.raises(TwinError, match="has no joint_position of bend"):
        joint_angles(small(Rig("arm", joints), state=angles("yaw", "lift")).recording.episodes[0], Rig("arm", joints))
    model = tmp_path / "robot.xml"
    model.write_text(ARM)
    part = small(Rig("arm", joints, model=Model("robot.xml", "0" * 64)), state=angles(*JOINTS))
    with pytest.raises(TwinError, match="is not the robot's model that rig.toml states"):
        built(part, model, Building(), tmp_path / "work", tmp_path)
    room = Room(Scene(ARM), robot, FoundRobot({}, {}, {}, {}, (), {}), {}, Plane(), Physical())
    with pytest.raises(TwinError, match="no calibration episode has the object 'cup'; there are mug"):
        episode_with(small(Rig("arm", joints), state=angles(*JOINTS)), "cup", room)
    assert episode_with(small(Rig("arm", joints), state=angles(*JOINTS)), "mug", room).labels["object"] == "mug"


def asked(*names: str, **how) -> Building:
    prompts = read_clicks([f"front,0,{10 * k},10={name}" for k, name in enumerate(names)])
    return Building(shaping=Shaping(prompts), **how)


def test_every_prompted_object_is_asked_for_and_the_jointed_one_first(tmp_path, monkeypatch) -> None:
    episode = small(Rig("arm"), state=angles(*JOINTS)).recording.episodes[0]
    assert _names(Building(), episode) == ("mug",)
    assert _names(asked("cup", "bowl"), episode) == ("cup", "bowl")
    assert _names(asked("cup", "bowl", joint_of="bowl"), episode) == ("bowl", "cup")
    with pytest.raises(ConfigError, match="--joint-of lid: prompts name cup, bowl"):
        _names(asked("cup", "bowl", joint_of="lid"), episode)
    with pytest.raises(ConfigError, match="correct one object, and prompts name cup, bowl"):
        _names(asked("cup", "bowl", scale=1.1), episode)
    made = []

    def one(_episode, _part, _room, how: Building, name: str, _progress) -> FoundObject:
        made.append((name, how.shaping.background))
        return replace(box(0.0), name=name)

    monkeypatch.setattr(build, "_object", one)
    how = replace(asked("cup", "bowl"), shaping=replace(asked("cup", "bowl").shaping, background=9))
    kept = Kept(Store(tmp_path), "a" * 64, quiet)
    found = objects_of(small(Rig("arm"), state=angles(*JOINTS)), episode, None, how, kept)  # type: ignore[arg-type]
    assert [each.name for each in found.values()] == ["cup", "bowl"]
    assert made == [("cup", 9), ("bowl", 0)]


def test_a_hand_made_place_moves_the_joint_along() -> None:
    slid = FoundMotion("box", "e" * 32, still_track(0.12), {}, {}, thing())
    held, by = held_by(box(0.1), slid, {}), np.array([0.01, -0.02, 0.03])
    moved, said = corrected(held, Building(place_m=tuple(by.tolist()), scale=1.1))
    assert moved.joint is not None
    assert held.joint is not None
    assert np.allclose(moved.T_world_object[:3, 3], held.T_world_object[:3, 3] + by)
    assert np.allclose(moved.joint.origin, held.joint.origin + by)
    assert moved.joint.mjcf("box") == held.joint.mjcf("box")  # in the body's frame nothing changed
    assert "by hand: declared" in said[0]
    assert corrected(held, Building()) == (held, ())


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("--place", 0, 0, 0.1), "--place"),
        (("--density-kgm3", 300), "--density-kgm3"),
        (("--object", "mug"), "--object"),
    ],
)
def test_flags_that_a_stated_scene_would_ignore_are_refused(tmp_path, capsys, given, named) -> None:
    both = ("--scene", tmp_path / "scene.xml", "--robot", tmp_path / "robot.xml")
    assert run("reconstruct", tmp_path, *both, *given, "--out", tmp_path / "twin") == 1
    assert (
        f"{named} would do nothing: with --scene every object that no click points at is as the scene has it."
        in capsys.readouterr().err
    )
    assert run("reconstruct", tmp_path, *both[:2], "--pictures", 9, "--out", tmp_path / "twin") == 1
    assert "--pictures would do nothing" in capsys.readouterr().err
    pointed = (*both, "--click", "front,0,1,1=mug")
    assert run("reconstruct", tmp_path, *pointed, "--joint-of", "mug", "--out", tmp_path / "twin") == 1
    assert "--joint-of would do nothing: with --scene an object's place and joint are" in capsys.readouterr().err
    assert run("reconstruct", tmp_path / "none", *pointed, "--out", tmp_path / "twin") == 1
    assert "would do nothing" not in capsys.readouterr().err


def test_an_object_that_one_view_shows_has_no_shape() -> None:
    mask = np.zeros((48, 64), int)
    mask[20:30, 20:30] = 1
    view = PosedView("a", np.zeros((48, 64, 3), np.uint8), Intrinsics(50, 50, 31, 23), np.eye(4), mask=mask)
    with pytest.raises(TwinError, match="is seen by 1 of 1 views"):
        shaped(Views((view,), groups=("background", "mug")), "mug", "mug", Plane())
