"""A twin brought up to date: what moved is moved, what fits no more is named, the old twin stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.reconstruct.mask_scenes import orbit, push, pushed
from tests.sim.tracking import HALF, box_mesh, cameras, standing, thing
from twinproof.nouns.clip import Clip
from twinproof.nouns.errors import ConfigError, RecordingError, TwinError
from twinproof.nouns.mesh_files import write_mesh
from twinproof.nouns.randomness import stream
from twinproof.nouns.rig import Intrinsics
from twinproof.nouns.source import Declared
from twinproof.nouns.splat_files import read_ply, write_ply
from twinproof.nouns.splats import Splats, joined
from twinproof.nouns.twin import Alignment, Body, Twin
from twinproof.reconstruct import update_bare
from twinproof.reconstruct.motion_block import found_motion
from twinproof.reconstruct.prompts import Prompts
from twinproof.reconstruct.update import Flag, Updated, Updating, update
from twinproof.reconstruct.update_scene import movable, moved_scene
from twinproof.sim.scene import Scene
from twinproof.sim.splat.placed import placed
from twinproof.sim.splat.render import Device, render
from twinproof.sim.track_object import surface_splats
from twinproof.sim.track_pose import move_between, nudged
from twinproof.sim.world import World

SCENE = f"""<mujoco><worldbody><geom type="plane" size="1 1 0.1"/>
  <body name="box" pos="0 0 {HALF[2]}" euler="0 0 0"><freejoint/>
    <geom type="box" size="{HALF[0]} {HALF[1]} {HALF[2]}"/><body name="lid"><geom size="0.005"/></body></body>
</worldbody><keyframe><key qpos="0 0 1 1 0 0 0"/></keyframe></mujoco>"""
SOURCE = Declared("a test")


def floor() -> Splats:
    at = np.stack(np.meshgrid(np.linspace(-0.9, 0.9, 36), np.linspace(-0.9, 0.9, 36)), axis=-1).reshape(-1, 2)
    count = len(at)
    colours = stream(5, "floor").normal(0, 0.4, (count, 1, 3))
    return Splats(
        np.concatenate([at, np.full((count, 1), -0.01)], axis=1), np.tile([1.0, 0, 0, 0], (count, 1)),
        np.full((count, 3), np.log(0.04)), np.full(count, 6.0), colours, np.zeros(count, np.int32),
    )  # fmt: skip


def box(T: np.ndarray) -> Splats:
    return placed(thing(), T)


def twin_in(folder: Path, layer: str = "object") -> Twin:
    folder.mkdir()
    (folder / "scene.xml").write_text(SCENE)
    room, mine = floor(), box(standing())
    write_ply(folder / "splats.ply", joined([room, mine]))
    bodies = (
        Body("room", SOURCE, "background", splats=(0, len(room)), lacks={"mesh": "a plane"}),
        Body("box", SOURCE, layer, splats=(len(room), len(mine)), lacks={"mesh": "a box"}),  # type: ignore[arg-type]
        Body("lid", SOURCE, lacks={"mesh": "a ball", "splats": "too small"}),
    )
    return Twin(folder, bodies, Alignment(SOURCE), "mujoco", ("e1",), {"split": "s"})


def filmed(poses: list[np.ndarray], tint: float = 0.0, wall: float = 0.0) -> list[Clip]:
    """Clips of the twin's scene with its box at these poses, tinted, before a repainted floor."""
    rng = stream(6, "film")
    room = replace(floor(), sh=floor().sh + wall)
    painted = replace(thing(), sh=thing().sh * (1 - tint) + tint * 1.5)
    clips = []
    for c, camera in enumerate(cameras()):
        pictures = []
        for T in poses:
            back = render(room, camera, Device(threads=1)).colour
            drawn = render(painted, camera, Device(threads=1), moved={"object": T})
            seen = drawn.colour + (1 - drawn.alpha[..., None]) * back + rng.normal(0, 0.01, back.shape)
            pictures.append(np.clip(255 * seen + 0.5, 0, 255).astype(np.uint8))
        lens = camera.lens
        known = Intrinsics(lens.fx, lens.fy, lens.cx, lens.cy)
        stands = np.tile(camera.T_world_camera, (len(poses), 1, 1))
        clips.append(Clip(f"c{c}", np.arange(len(poses)) * 0.1, np.stack(pictures), known, stands))
    return clips


def updated(tmp_path: Path, clips: list[Clip], how: Updating | None = None) -> tuple[Twin, Updated]:
    twin = twin_in(tmp_path / "old")
    (tmp_path / "new").mkdir()
    return twin, update(twin, clips, tmp_path / "new", "r" * 8, how)


def test_what_moved_is_moved_and_the_old_twin_stays(tmp_path: Path) -> None:
    poses = [standing(0.01 * k, 0.004 * k, 0.1 * k) for k in range(5)]
    twin, found = updated(tmp_path, filmed(poses))
    before = twin.hash
    assert set(found.moves) == {"box"}
    pose = World(Scene.of(found.twin)).body_pose("box")
    late = [standing(0.01 * k, 0.004 * k, 0.1 * k) for k in (3, 4)]
    assert min(np.linalg.norm(move_between(pose, T)[:3]) for T in late) < 0.03
    last = found.tracks["box"].T_world_object[-1]
    assert np.linalg.norm(move_between(last, poses[-1])[:3]) < 1e-3
    room = len(floor())
    placed = read_ply(found.twin.path("splats.ply")).means[room:]
    np.testing.assert_allclose(placed, thing().means @ pose[:3, :3].T + pose[:3, 3], atol=1e-4)
    assert not found.flags
    assert twin.hash == before
    assert World(Scene.of(twin)).body_pose("box")[0, 3] == 0
    assert found.twin.parents["twin"] == before
    assert found.twin.parents["update"] == "r" * 8
    assert found.twin.hash != before
    audit = found.twin.audits["update"]
    assert len(audit["objects"]["box"]["pose"]) == 5  # type: ignore[index,call-overload]
    assert any("key frames were left out" in note for note in found.twin.notes)
    found.twin.save(tmp_path / "saved")
    assert Twin.load(tmp_path / "saved").hash == found.twin.hash


def test_what_did_not_move_stays_to_the_last_digit(tmp_path: Path) -> None:
    twin, found = updated(tmp_path, filmed([standing()] * 3))
    assert not found.moves
    assert not found.flags
    assert found.twin.path().read_text() == twin.path().read_text()


def test_an_object_that_is_gone_is_flagged_and_left(tmp_path: Path) -> None:
    away = nudged(standing(), np.array([0, 0, 5.0, 0, 0, 0]))
    _, found = updated(tmp_path, filmed([standing(), away, away, away]))
    assert [flag.kind for flag in found.flags if flag.what == "box"] == ["lost"]
    assert "was not found in" in found.flags[0].sentence
    assert not found.moves


def test_an_object_that_looks_otherwise_is_flagged(tmp_path: Path) -> None:
    _, found = updated(tmp_path, filmed([standing()] * 3, tint=0.5), Updating(most_misfit=0.03))
    assert any(flag.what == "box" and flag.kind in ("misfit", "lost") for flag in found.flags)


def test_a_repainted_room_is_flagged(tmp_path: Path) -> None:
    clips = filmed([standing()] * 3)
    half = clips[0].rgb.copy()
    half[:, :, : half.shape[2] // 3] = 10
    _, found = updated(tmp_path, [replace(clips[0], rgb=half), *clips[1:]])
    assert any(flag.what == "camera c0" and flag.kind == "background" for flag in found.flags)
    assert any("differs in" in note for note in found.twin.notes)


def test_without_a_background_one_object_is_followed_by_masks(tmp_path: Path, monkeypatch) -> None:
    clips, _ = push()
    mesh, at = box_mesh(np.array([0.03, 0.02, 0.025])), (0.06, -0.03, 0.025)
    folder = tmp_path / "old"
    (folder / "meshes").mkdir(parents=True)
    write_mesh(folder / "meshes" / "box.obj", mesh)
    (folder / "scene.xml").write_text(SCENE.replace(f"0 0 {HALF[2]}", " ".join(map(str, at))))
    T = np.eye(4)
    T[:3, 3] = at
    own = placed(surface_splats(mesh, 0.005, 0.005), T)
    write_ply(folder / "splats.ply", own)
    bodies = (
        Body("box", SOURCE, visual="meshes/box.obj", splats=(0, len(own)), lacks={"mesh": "no convex parts"}),
        Body("lid", SOURCE, lacks={"mesh": "a ball", "splats": "too small"}),
    )
    twin = Twin(folder, bodies, Alignment(SOURCE), "mujoco", ("e1",), {"split": "s"})
    (tmp_path / "new").mkdir()
    found = update(twin, tuple(clips.values()), tmp_path / "new", "r" * 8, Updating(last_s=0.2))
    assert not found.flags
    pose = World(Scene.of(found.twin)).body_pose("box")
    assert np.linalg.norm(pose[:2, 3] - pushed(9)[-1]) < 0.006  # it was pushed by 120 mm
    assert any("has no background" in note for note in found.twin.notes)
    seen = list[object]()
    monkeypatch.setattr(update_bare, "found_motion", lambda *a, **k: seen.append(a[4]) or found_motion(*a, **k))
    monkeypatch.setattr(update_bare, "_around", lambda *_: ())  # no camera shows where it was
    (tmp_path / "moved").mkdir()
    assert update(twin, tuple(clips.values()), tmp_path / "moved", "r", Updating(last_s=0.2)).moves
    assert seen == [Prompts()]
    (tmp_path / "third").mkdir()
    with pytest.raises(TwinError, match="has no background splats, so box cannot be told from what is behind"):
        update(twin, [orbit(5)[0]], tmp_path / "third", "r")


def test_sentences_of_flags_name_what_was_found_and_allowed() -> None:
    assert "moved by 12.0 mm, but hangs on another body" in Flag("lid", "fixed", 0.012, 0.002).sentence
    assert "off by 0.100 (0.060 is allowed)" in Flag("box", "misfit", 0.1, 0.06).sentence


def test_updates_that_cannot_be_made_are_refused(tmp_path: Path) -> None:
    twin, clips = twin_in(tmp_path / "old"), filmed([standing()] * 2)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x")
    with pytest.raises(TwinError, match="is not empty"):
        update(twin, clips, tmp_path / "full", "r")
    with pytest.raises(RecordingError, match="updating was given no clip"):
        update(twin, [], tmp_path / "full", "r")
    with pytest.raises(TwinError, match="has no object with splats"):
        update(twin_in(tmp_path / "robots", "robot"), clips, tmp_path / "full", "r")
    with pytest.raises(ConfigError, match="most_lost 0"):
        Updating(most_lost=0)
    assert movable(twin.path()) == ("box",)
    with pytest.raises(TwinError, match="'lid' does not stand in the world"):
        moved_scene(twin.path(), {"lid": np.eye(4)})
    odd = tmp_path / "odd.xml"
    odd.write_text("<!DOCTYPE mujoco><mujoco/>")
    with pytest.raises(TwinError, match="declares entities"):
        movable(odd)
