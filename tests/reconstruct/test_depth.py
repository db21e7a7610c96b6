"""RGB-D recordings: depth is laid onto colour, and shapes that no outline shows come out of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.reconstruct import rgbd
from tests.reconstruct.solids import solid
from twinproof.nouns.parts import Calibration
from twinproof.nouns.progress import quiet
from twinproof.nouns.rig import Camera
from twinproof.reconstruct.assemble import Physical, Room
from twinproof.reconstruct.build import Building, _object
from twinproof.reconstruct.calibration_block import robot_of
from twinproof.reconstruct.clips import clips_of
from twinproof.reconstruct.depth_beside import depth_notes
from twinproof.reconstruct.generate import InProcess
from twinproof.reconstruct.hand_block import riding_cameras
from twinproof.reconstruct.object_block import FoundObject, Shaping
from twinproof.reconstruct.prompts import read_clicks
from twinproof.reconstruct.robot_frames import still_cameras
from twinproof.sim.grid import Plane
from twinproof.sim.render_camera import Camera as Eye
from twinproof.sim.render_camera import Lens
from twinproof.sim.render_rays import Rays
from twinproof.sim.scene import Scene
from twinproof.sim.world import World, compile_text


@pytest.fixture(autouse=True)
def one_thread():
    """Torch adds in another order with every run of several threads; a few vertices of a surface then lie elsewhere."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


NEAR = Lens(*rgbd.SIZE, rgbd.LENS.fx, rgbd.LENS.fy, rgbd.LENS.cx, rgbd.LENS.cy)


@pytest.fixture(scope="module")
def part(tmp_path_factory) -> Calibration:
    return rgbd.recorded(tmp_path_factory.mktemp("rgbd"))


def room_of(part: Calibration, cameras: tuple[str, ...]) -> Room:
    """The room as calibration would leave it, with some of the cameras."""
    found = rgbd.known(part, 8)
    found = replace(found, cameras={name: found.cameras[name] for name in cameras})
    scene = Scene(rgbd.ARM)
    return Room(scene, robot_of(scene, part.recording.rig), found, {}, Plane(), Physical())


def reconstructed(part: Calibration, *cameras: str, generator: InProcess | None = None) -> FoundObject:
    """The block of the command that makes an object, from one click."""
    T = np.linalg.inv(rgbd.EYES["front"])
    x, y, z = T[:3, :3] @ (rgbd.PLACE + np.array([0, 0, 0.01])) + T[:3, 3]
    click = f"front,0,{NEAR.cx + NEAR.fx * x / z:.0f},{NEAR.cy + NEAR.fy * y / z:.0f}=tray"
    how = Building(shaping=Shaping(read_clicks([click]), generator=generator))
    return _object(part.recording.episodes[0], part, room_of(part, cameras), how, "tray", quiet)


def test_depth_shows_the_hollow_that_outlines_do_not(part: Calibration) -> None:
    found = reconstructed(part, "front", "side", "back")
    assert found.mesh.closed
    assert found.mesh.volume_m3 == pytest.approx(rgbd.VOLUME_M3, rel=0.2)  # filled up, it would have 2.2 times as much
    above = found.mesh.moved(found.T_world_object).vertices - rgbd.PLACE
    inside = above[(np.abs(above[:, 0]) < 0.035) & (np.abs(above[:, 1]) < 0.025)]
    off = np.abs(inside[inside[:, 2] > 0.004, 2] - 0.01)  # from the hollow's floor; a few vertices climb a wall
    assert np.median(off) < 0.0015
    assert (off < 0.004).mean() > 0.9
    assert any(note.startswith("depth of side is from side_depth") for note in found.notes)
    assert any("3 depth pictures" in note for note in found.notes)
    assert found.episode == part.recording.episodes[0].id
    assert set(found.pictures) == {"front", "side", "back"}
    assert all(len(numbers) == 1 for numbers in found.pictures.values())  # cameras that stand, a thing at rest


def test_one_view_with_depth_has_a_shape_and_says_what_it_fills(part: Calibration) -> None:
    found = reconstructed(part, "front")
    assert found.mesh.closed
    assert np.ptp(found.mesh.vertices, axis=0) == pytest.approx([0.12, 0.10, 0.06], abs=0.012)
    assert any("what no depth picture saw is taken as filled" in line for line in found.declared)


def test_one_view_with_depth_tells_a_models_shape_its_size(part: Calibration) -> None:
    def sides(p: np.ndarray) -> np.ndarray:
        outer = (np.abs(p) - np.array([0.06, 0.05, 0.03])).max(axis=-1)
        hollow = (np.abs(p - [0, 0, 0.01]) - np.array([0.05, 0.04, 0.03])).max(axis=-1)
        return np.maximum(outer, -hollow)

    unit = solid(sides).moved(np.eye(4), 5.0)  # five times too large
    found = reconstructed(part, "front", generator=InProcess(lambda *_: unit, "trays"))
    assert found.made_by.startswith("made by trays")
    assert np.ptp(found.mesh.vertices, axis=0).max() == pytest.approx(0.12, abs=0.012)
    assert found.T_world_object[:2, 3] == pytest.approx(rgbd.PLACE[:2], abs=0.012)


def test_depth_with_a_lens_of_its_own_is_laid_onto_the_colour(part: Calibration) -> None:
    model = compile_text(rgbd.tray())
    world, rig = World(model), part.recording.rig
    episode = part.recording.episodes[0]
    clip = clips_of(episode, rig, room_of(part, ("side",)).found, room_of(part, ("side",)).robot)["side"]
    assert clip.depth_m is not None
    signal = episode.signals["state"]
    world.qpos[:3] = [np.interp(clip.time_s[0], signal.time_s, signal.value[:, k]) for k in range(3)]
    world.forward()
    true = Rays(threads=1, shadow_samples=1).render(model, world.data, Eye(NEAR, rgbd.EYES["side"]), ["depth"]).depth_m
    assert true is not None
    known = clip.depth_m[0] > 0
    assert known.mean() > 0.95
    off = np.abs(clip.depth_m[0] - true)[known]
    assert np.median(off) < 0.003
    assert (off < 0.01).mean() > 0.95


def test_depth_cameras_are_not_fitted_as_colour_and_their_use_is_said(part: Calibration) -> None:
    recording = part.recording
    assert still_cameras(recording) == ("front", "side", "back")
    hung = {n: replace(c, mount=replace(c.mount, parent="lower")) for n, c in recording.rig.cameras.items()}  # type: ignore[type-var]
    assert riding_cameras(replace(recording, rig=replace(recording.rig, cameras=hung))) == ("front", "side", "back")
    notes = depth_notes(recording.rig, recording.episodes[0], ("front",))
    assert notes[0] == "depth of front is from front_depth"
    assert notes[1].startswith("back_depth is a depth camera beside no colour camera")
    bare = {**recording.rig.cameras, "side_depth": Camera("d")}
    notes = depth_notes(replace(recording.rig, cameras=bare), recording.episodes[0], ("side",))
    assert "has another size, lens or mount than side and is not used; register it, or state both" in notes[0]
