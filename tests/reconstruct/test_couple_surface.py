"""The shape of an object that is pushed: pictures of all times become views of one thing at rest."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from tests.sim.tracking import HALF, box_mesh, cameras, pictures, standing, thing
from twinproof.nouns.clip import Clip
from twinproof.nouns.errors import MissingExtra, RecordingError
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.randomness import stream
from twinproof.nouns.rig import Intrinsics
from twinproof.reconstruct.couple_surface import object_views, reshaped
from twinproof.sim.mesh_raster import rasterise
from twinproof.sim.splat.render import render
from twinproof.sim.track_pose import Track, move_between, nudged, poses_at

TIMES = np.arange(4) * 0.1


def poses() -> np.ndarray:
    return np.stack([standing(0.02 * k, -0.01 * k, 0.6 * k) for k in range(4)])


def known() -> Track:
    rest = np.ones(4)
    return Track(TIMES, poses(), np.tile(1e-8 * np.eye(6), (4, 1, 1)), rest, 0 * rest, rest < 0)


def filmed() -> tuple[list[Clip], dict[str, np.ndarray]]:
    rng = stream(0, "surface")
    shots = [pictures(T, rng) for T in poses()]
    clips, masks = [], {}
    for c, camera in enumerate(cameras()):
        rgb = np.stack([np.clip(255 * shot[c], 0, 255).astype(np.uint8) for shot in shots])
        lens = camera.lens
        stands = np.tile(camera.T_world_camera, (4, 1, 1))
        robot = np.zeros(rgb.shape[:3], bool)
        robot[:, :3] = True
        clips.append(Clip(f"c{c}", TIMES, rgb, Intrinsics(lens.fx, lens.fy, lens.cx, lens.cy), stands, robot))
        masks[f"c{c}"] = np.stack([rasterise(box_mesh().moved(T), camera).face >= 0 for T in poses()])
    return clips, masks


def test_every_view_shows_the_object_at_rest() -> None:
    clips, masks = filmed()
    views = object_views(clips, masks, known(), every=2)
    assert len(views) == 6
    for view in views.views:
        assert view.mask is not None
        camera = replace(cameras()[0], T_world_camera=view.T_world_camera)
        seen = render(thing(), camera).alpha > 0.5
        both = (seen & (view.mask == 0)).sum() / (seen | (view.mask == 0)).sum()
        assert both > 0.85
        assert (view.mask[:3] == -1).all()


def test_refined_cameras_replace_those_of_the_clips() -> None:
    clips, masks = filmed()
    moved = {"c0": nudged(cameras()[0].T_world_camera, np.array([0.01, 0, 0, 0, 0, 0]))}
    one = object_views(clips, masks, known()).views[0]
    two = object_views(clips, masks, known(), moved).views[0]
    assert np.linalg.norm(one.T_world_camera[:3, 3] - two.T_world_camera[:3, 3]) == pytest.approx(0.01)


def test_a_mesh_that_is_too_small_grows_to_its_pictures() -> None:
    from twinproof.reconstruct.surface_refine import Refining

    clips, masks = filmed()
    fine = box_mesh()
    for _ in range(2):
        fine = halved(fine)
    small = Mesh(fine.vertices * 0.92, fine.faces)
    found = reshaped(small, clips, masks, known(), how=Refining(steps=40, colour_steps=2))
    before, after = (
        abs(small.volume_m3 / box_mesh().volume_m3 - 1),
        abs(found.mesh.volume_m3 / box_mesh().volume_m3 - 1),
    )
    assert after < 0.6 * before


def halved(mesh: Mesh) -> Mesh:
    """Each triangle cut into four."""
    a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    corners = np.stack([a, b, c, (a + b) / 2, (b + c) / 2, (c + a) / 2], axis=1).reshape(-1, 3)
    cut = np.array([[0, 3, 5], [3, 1, 4], [5, 4, 2], [3, 4, 5]])
    faces = (6 * np.arange(len(mesh.faces))[:, None, None] + cut).reshape(-1, 3)
    points, back = np.unique(np.round(corners, 9), axis=0, return_inverse=True)
    return Mesh(points, back.reshape(-1)[faces])


def test_poses_between_times_lie_on_the_way() -> None:
    track = known()
    T = poses_at(track, np.array([-1.0, 0.05, 9.0]))
    assert np.allclose(T[0], poses()[0])
    assert np.allclose(T[2], poses()[3])
    half = move_between(poses()[0], poses()[1]) / 2
    assert np.allclose(move_between(poses()[0], T[1]), half, atol=1e-9)
    one = replace(track, lost=np.array([True, False, True, True]))
    assert np.allclose(poses_at(one, np.array([0.0]))[0], poses()[1])
    assert len(object_views(*filmed(), one)) == 9
    with pytest.raises(RecordingError, match="lost at all of its 4 times"):
        poses_at(replace(track, lost=np.ones(4, bool)), TIMES)


def test_masks_and_torch_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clips, masks = filmed()
    with pytest.raises(RecordingError, match="camera c1 has no masks"):
        object_views(clips, {"c0": masks["c0"]}, known())
    monkeypatch.setitem(sys.modules, "twinproof.reconstruct.surface", None)
    with pytest.raises(MissingExtra, match=r"twinproof\[learn\]"):
        reshaped(box_mesh(), clips, masks, known())
    assert HALF[0] > 0
