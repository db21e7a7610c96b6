"""Robot, table, object and cameras become one Twin that compiles, renders and says where everything came from."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.reconstruct.test_robot_calibrate import ARM, JOINTS, TRUE
from twinproof import cli
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import ConfigError, TwinError
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Camera, Intrinsics, Joint, Mount, Rig, SignalRule
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.source import Declared, Inferred
from twinproof.nouns.splat_files import read_ply
from twinproof.nouns.splats import joined
from twinproof.nouns.twin import Twin
from twinproof.nouns.video_write import write_pictures
from twinproof.reconstruct.articulation import articulation
from twinproof.reconstruct.assemble import Physical, Room, Thing, assembled
from twinproof.reconstruct.background_fill import MADE_UP, WHY
from twinproof.reconstruct.build import Building, corrected
from twinproof.reconstruct.calibration_block import FoundCamera, FoundRobot
from twinproof.reconstruct.collision import hull_of
from twinproof.reconstruct.joint_block import FoundJoint
from twinproof.reconstruct.object_block import FoundObject
from twinproof.reconstruct.poses import quat_of
from twinproof.reconstruct.robot_fit import Robot
from twinproof.reconstruct.surface import bind
from twinproof.reconstruct.twin_clips import clips_for
from twinproof.sim.grid import Plane
from twinproof.sim.link_splats import LinkPoses, link_splats, robot_bodies
from twinproof.sim.parameters.resolve import nominal_value, parameter
from twinproof.sim.render_camera import Named
from twinproof.sim.render_rays import Rays
from twinproof.sim.scene import Scene
from twinproof.sim.track_pose import Track
from twinproof.sim.world import World


class Part:
    """What the assembly asks of a Calibration: which episodes, of which split."""

    ids = ("e" * 32,)
    split = "5" * 64


def box(x: float, y: float, z: float) -> Mesh:
    return hull_of(np.array([[a, b, c] for a in (-x, x) for b in (-y, y) for c in (-z, z)]))


def room(folder) -> Room:
    scene = Scene(ARM)
    model = scene.nominal()
    links = link_splats(model, robot_bodies(model), 0.03)
    robot = Robot((links, links, links), LinkPoses(model, JOINTS, links.bodies), (0, 1, 2))
    lens = Intrinsics(130, 130, 63.5, 47.5)
    cameras = {}
    for name, T in TRUE.items():
        mount = Mount("world", tuple(T[:3, 3].tolist()), quat_of(T), 0.002, 0.003)
        cameras[name] = FoundCamera(128, 96, lens, mount, -0.03, 0.001, 0.0, 0.01, 0.004, 0.9)
    colours = {str(g): (0.2, 0.4, 0.6) for g in np.unique(links.geom)}
    offsets = dict.fromkeys(JOINTS, 0.02)
    found = FoundRobot(
        cameras,
        offsets,
        dict.fromkeys(JOINTS, 0.001),
        {"upper": 0.9},
        (),
        {"front": {"e1": (0, 6)}},
        colours,
        {"front": 0.8},
    )
    found.save(folder)
    return Room(scene, robot, FoundRobot.load(folder), {}, Plane(), Physical(600.0))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("twin")
    mesh, place = box(0.03, 0.02, 0.04), np.eye(4)
    place[:3, 3] = (0.3, 0.1, 0.04)
    thing = FoundObject("mug", mesh, bind(mesh, 1, "mug").splats(), place, {"front/0": 0.9}, ("seen",), ("flat below",))
    thing = replace(thing, episode="e2", pictures={"front": (3, 5)})
    (folder / "thing").mkdir()
    thing.save(folder / "thing")
    (folder / "scene").mkdir()
    twin = assembled(
        room(folder), [Thing(FoundObject.load(folder / "thing"))], Part(),
        folder / "scene",
    )  # fmt: skip
    twin.save(folder / "saved")
    return twin, folder, thing


def test_the_twin_loads_again_and_names_every_source(made) -> None:
    twin, folder, _ = made
    again = Twin.load(folder / "saved")
    assert again.hash == twin.hash
    assert {body.name for body in again.bodies} == {"stand", "upper", "lower", "mug"}
    assert isinstance(again.body("mug").source, Inferred)
    assert isinstance(again.body("upper").source, Declared)
    assert again.start["joint.yaw.offset"] == 0.02
    assert again.body("mug").mass_kg == pytest.approx(600 * 8 * 0.03 * 0.02 * 0.04, rel=1e-3)
    assert "flat below" in again.notes
    assert again.audits["pictures_used"]["robot"] == {"front": {"e1": (0, 6)}}
    assert again.audits["pictures_used"]["objects"] == {"mug": {"front": {"e2": (3, 5)}}}
    assert again.audits["reprojection_px"] == {"front": 0.8}
    gap = again.audits["visual_against_collision"]["mug"]
    assert gap["volume_ratio"] == pytest.approx(1.0, abs=0.05)


def test_what_nobody_saw_of_the_background_is_a_layer_of_its_own_and_declared(made, tmp_path) -> None:
    _, _, thing = made
    flat = bind(box(0.2, 0.2, 0.001), 1, "background").splats()
    behind = joined([flat, replace(flat.take(np.arange(3)), groups=(MADE_UP,))])
    (tmp_path / "scene").mkdir()
    twin = assembled(room(tmp_path), [Thing(replace(thing, background=behind))], Part(), tmp_path / "scene")
    assert isinstance(twin.body("background").source, Inferred)
    assert twin.body(MADE_UP).source == Declared(WHY)
    assert [twin.body(name).splats[1] for name in ("background", MADE_UP)] == [len(flat), 3]
    (tmp_path / "again").mkdir()
    replace(thing, background=behind).save(tmp_path / "again")
    assert FoundObject.load(tmp_path / "again").background.groups == ("background", MADE_UP)


@pytest.mark.parametrize(("gap_m", "told"), [(0.004, None), (-0.003, "mug and tin touch: 3"), (-0.012, "refused")])
def test_objects_of_one_twin_may_touch_and_not_be_inside_each_other(made, tmp_path, gap_m, told) -> None:
    _, _, mug = made
    beside = mug.T_world_object.copy()
    beside[0, 3] += 0.06 + gap_m  # it is 0.06 m wide
    tin = replace(mug, name="tin", T_world_object=beside, splats=replace(mug.splats, groups=("tin",)))
    (tmp_path / "scene").mkdir()
    both = [Thing(mug), Thing(tin)]
    if told == "refused":
        with pytest.raises(
            TwinError, match=r"mug and tin are 1[12]\.. mm inside each other; things that touch are up to 5"
        ):
            assembled(room(tmp_path), both, Part(), tmp_path / "scene")
        return
    notes = assembled(room(tmp_path), both, Part(), tmp_path / "scene").notes
    assert any(told in note for note in notes) if told else not any("touch" in note for note in notes)


def test_its_cameras_stand_where_they_were_found(made) -> None:
    _, folder, _ = made
    world = World(Scene.read(folder / "saved" / "scene.xml").nominal())
    for name, T in TRUE.items():
        camera = Named(name, 128, 96).at(world.model, world.data)
        assert np.allclose(camera.T_world_camera, T, atol=1e-6)
        assert camera.lens.fy == pytest.approx(130, rel=1e-6)


def test_splats_lie_on_their_bodies(made) -> None:
    twin, folder, thing = made
    splats = read_ply(folder / "saved" / "splats.ply")
    first, count = twin.body("mug").splats
    means = splats.means[first : first + count]
    assert np.allclose(means.mean(axis=0), thing.T_world_object[:3, 3], atol=2e-3)
    assert sum(body.splats[1] for body in twin.bodies if body.splats) == len(splats)


def test_the_object_rests_on_the_table(made) -> None:
    _, folder, _ = made
    world = World(Scene.read(folder / "saved" / "scene.xml").nominal())
    world.step(300)
    assert world.data.body("mug").xpos[2] == pytest.approx(0.04, abs=0.002)


def test_an_object_that_a_joint_holds_moves_along_it_and_says_so(made, tmp_path) -> None:
    way = np.tile(made[2].T_world_object, (40, 1, 1))
    way[:, 0, 3] += np.linspace(0, 0.1, 40)
    joint = articulation(way, 0.01, 0.001)
    twin = assembled(room(tmp_path), [Thing(made[2], joint)], Part(), empty(tmp_path / "scene"))
    assert twin.audits["joints"]["mug"]["kind"] == "slide"
    assert "mug" not in twin.audits["standing"]
    assert any("mug is held by a slide" in note for note in twin.notes)
    world = World(Scene.of(twin).nominal())
    low, high = world.model.joint("mug").range
    assert (low, high) == pytest.approx((0.0, 0.1), abs=0.005)
    world.set_joint("mug", np.array([0.05]))
    world.kinematics()
    assert world.body_pose("mug")[:3, 3] == pytest.approx(made[2].T_world_object[:3, 3] + [0.05, 0, 0], abs=5e-3)


def test_what_moving_it_told_is_where_identification_starts(made, tmp_path) -> None:
    one = np.ones(2)
    track = Track(np.arange(2.0), np.tile(np.eye(4), (2, 1, 1)), np.tile(np.eye(6), (2, 1, 1)), one, one, one < 0)
    told = {"body.mug.friction_slide": 0.3, "joint.yaw.offset": 0.001}
    moved = FoundJoint("mug", "e" * 32, track, told, {}, {}, 9.0, 4.0, 3, ("the mass stays weak",))
    twin = assembled(room(tmp_path), [Thing(made[2], moved=moved)], Part(), empty(tmp_path / "scene"))
    assert twin.start["body.mug.friction_slide"] == 0.3
    assert twin.start["joint.yaw.offset"] == 0.02  # calibration's, of all episodes
    assert twin.audits["joint_refinement"]["mug"]["cost"] == (9.0, 4.0)
    assert "the mass stays weak" in twin.notes
    assert nominal_value(Scene.of(twin).nominal(), parameter("body.mug.friction_slide")) == 0.5


def empty(folder):
    folder.mkdir()
    return folder


def test_a_correction_by_hand_is_declared(made) -> None:
    whole, said = corrected(Thing(made[2]), Building(scale=1.1, place_m=(0.01, 0.0, 0.0)))
    thing = whole.found
    assert thing.mesh.volume_m3 == pytest.approx(1.1**3 * made[2].mesh.volume_m3)
    assert thing.T_world_object[0, 3] == pytest.approx(0.31)
    assert "by hand: declared" in said[0]
    with pytest.raises(ConfigError, match="no correction of a size"):
        Building(scale=0.0)


def test_the_command_composes_twins(made, tmp_path, capsys) -> None:
    _, folder, _ = made
    twin = folder / "saved"

    def run(*arguments: object) -> int:
        with pytest.raises(SystemExit) as stop:
            cli.main([str(argument) for argument in arguments])
        return int(stop.value.code or 0)

    assert run("compose", twin, "--add", f"{twin}:mug=other@0.3,-0.1,0.04,0.5", "--out", tmp_path / "two") == 0
    assert {b.name for b in Twin.load(tmp_path / "two").bodies} >= {"mug", "other"}
    assert run("compose", twin, "--add", f"{twin}:mug=other@0.31,0.1,0.04", "--out", tmp_path / "three") == 1
    assert run("compose", twin, "--remove", "mug", "--out", tmp_path / "none") == 0
    assert "mug" not in {b.name for b in Twin.load(tmp_path / "none").bodies}
    assert run("compose", twin, "--move", "mug=0.35,0.1,0.04", "--out", tmp_path / "moved") == 0
    assert run("compose", twin, "--replace", f"mug={twin}:mug", "--out", tmp_path / "same") == 0
    capsys.readouterr()
    for wrong, said in [
        (("--move", "mug"), "is not of the form BODY=x,y,z"),
        (("--move", "mug=1,2"), "is not x,y,z or x,y,z,yaw"),
        ((), "compose changes nothing"),
    ]:
        assert run("compose", twin, *wrong, "--out", tmp_path / "wrong") == 1
        assert said in capsys.readouterr().err
    assert run("compose", twin, "--remove", "mug", "--out", tmp_path / "none") == 1
    assert "Nothing is overwritten" in capsys.readouterr().err


def seen_again(folder, names=("front", "side")) -> Recording:
    """A recording of the same robot: the twin's own cameras draw what is there, an object beside where it stood."""
    twin = Twin.load(folder / "saved")
    world = World(Scene.of(twin).nominal())
    index = world.model.joint("mug_free").qposadr[0]
    world.qpos[index : index + 2] = (0.32, 0.08)
    world.forward()
    times = np.linspace(0, 0.8, 5)
    videos, lens = {}, Intrinsics(130, 130, 63.5, 47.5)
    for name in names:
        rgb = Rays(threads=1).render(world.model, world.data, Named(name, 128, 96), ["rgb"]).rgb
        videos[name] = write_pictures(((t, rgb) for t in times), name, folder / f"again_{name}.mp4")
    columns = tuple(Column(joint, "rad") for joint in JOINTS)
    state = Signal("state", "joint_position", columns, times, np.full((5, 3), 0.02))
    rig = Rig(
        "arm",
        tuple(Joint(joint) for joint in JOINTS),
        cameras={name: Camera(name, lens, mount=Mount()) for name in names},
        signals={"state": SignalRule("state", "joint_position", "rad")},
    )
    return Recording(rig, (Episode.of({"state": state}, videos, source="made"),), {"kind": "made"})


def test_a_new_recording_is_seen_through_the_twins_cameras(made, tmp_path) -> None:
    _, folder, _ = made
    recording = seen_again(folder)
    clips = clips_for(Twin.load(folder / "saved"), recording.episodes[0], recording.rig)
    assert set(clips) == {"front", "side"}
    for name, clip in clips.items():
        assert np.allclose(clip.T_world_camera[0], TRUE[name], atol=1e-9)
        assert clip.robot[0].mean() > 0.02
        assert clip.time_s[0] == pytest.approx(-0.03)


def test_the_command_updates_a_twin_and_the_old_one_stays(made, tmp_path, capsys) -> None:
    twin, folder, _ = made
    seen_again(folder).save(tmp_path / "again")
    with pytest.raises(SystemExit) as stop:
        cli.main(["update", str(folder / "saved"), str(tmp_path / "again"), "--out", str(tmp_path / "new")])
    assert not stop.value.code
    assert "mug" in capsys.readouterr().out
    new = Twin.load(tmp_path / "new")
    pose = World(Scene.of(new)).body_pose("mug")
    assert np.linalg.norm(pose[:2, 3] - (0.32, 0.08)) < 0.006
    assert new.parents["twin"] == twin.hash
    assert Twin.load(folder / "saved").hash == twin.hash


def test_a_twin_without_calibrated_cameras_cannot_be_updated(made, tmp_path) -> None:
    _, folder, _ = made
    recording = seen_again(folder)
    twin = Twin.load(folder / "saved")
    with pytest.raises(TwinError, match="was not made from pictures"):
        clips_for(replace(twin, audits={}), recording.episodes[0], recording.rig)
    with pytest.raises(TwinError, match="none of the twin's cameras"):
        clips_for(twin, recording.episodes[0], replace(recording.rig, cameras={}))


def test_the_command_studies_what_a_size_by_hand_decides(made, tmp_path, capsys) -> None:
    _, folder, _ = made

    def run(*arguments: object) -> int:
        with pytest.raises(SystemExit) as stop:
            cli.main(["study", "sensitivity", str(folder / "saved"), *(str(a) for a in arguments)])
        return int(stop.value.code or 0)

    assert run("--body", "mug", "--scale", 0.1, "--draws", 4, "--out", tmp_path / "study") == 0
    assert "mass_kg" in capsys.readouterr().out
    told = json.loads((tmp_path / "study" / "sensitivity.json").read_text())
    assert told["format"] == "twinproof/sensitivity/1"
    assert "mass_kg" in (tmp_path / "study" / "sensitivity.md").read_text()
    assert run("--body", "mug", "--scale", 0.1, "--out", tmp_path / "study") == 1
    assert "Nothing is overwritten" in capsys.readouterr().err
    assert run("--body", "upper", "--scale", 0.1, "--out", tmp_path / "other") == 1
    assert "nothing about it can be studied" in capsys.readouterr().err
