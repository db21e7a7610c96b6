"""Vertices by turns with poses: kept where pictures kept apart are met better, else left as they were."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.reconstruct.test_couple_surface import filmed, halved, known
from tests.sim.tracking import box_mesh, plates, standing, thing
from twinproof.nouns.mesh import Mesh
from twinproof.reconstruct import joint_shape
from twinproof.reconstruct.gap import chamfer_m
from twinproof.reconstruct.joint_block import FoundJoint
from twinproof.reconstruct.joint_shape import handled_views, resized, together, worse
from twinproof.reconstruct.motion_block import FoundMotion
from twinproof.reconstruct.object_block import FoundObject
from twinproof.sim.grid import Plane
from twinproof.sim.track_pose import Track, nudged

SHRUNK = 0.9


def fine(scale: float) -> Mesh:
    mesh = box_mesh()
    for _ in range(3):
        mesh = halved(mesh)
    return Mesh(scale * mesh.vertices, mesh.faces)


def small() -> FoundObject:
    """The box as it stands, found a tenth too small; its bottom is on the table."""
    T = standing()
    T[2, 3] *= SHRUNK
    return FoundObject("box", fine(SHRUNK), thing(), T, {}, (), ())


def motion() -> FoundMotion:
    _, masks = filmed()
    bare = {f"c{k}": np.round(255 * plate.clip(0, 1)).astype(np.uint8) for k, plate in enumerate(plates())}
    return FoundMotion("box", "e" * 32, known(), masks, bare, thing())


def telling(*tracks: Track) -> tuple[Callable[[FoundObject, FoundMotion], FoundJoint], list[FoundObject]]:
    """A refinement that tells these poses, in turn, and what it was given."""
    given: list[FoundObject] = []

    def refine(shape: FoundObject, _motion: FoundMotion) -> FoundJoint:
        track = tracks[min(len(given), len(tracks) - 1)]
        given.append(shape)
        cost = 9.0 - len(given)
        return FoundJoint("box", "e" * 32, track, {"body.box.mass": 0.1}, {}, {}, cost, cost - 1, 3, ())

    return refine, given


def test_vertices_go_where_pictures_of_the_push_have_them(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint_shape, "STEPS", 40)
    clips, _ = filmed()
    refine, given = telling(known())
    found = together(small(), motion(), clips, Plane(), refine)
    assert found.shape is not None
    assert found.reshaped.startswith("vertices moved by")
    assert "vertices moved by" in found.sentence
    assert given[1] is found.shape
    assert (found.first_cost, found.cost, found.moves) == (8.0, 6.0, 6)
    true = box_mesh()
    up = nudged(np.eye(4), np.r_[0, 0, -(1 - SHRUNK) * standing()[2, 3], 0, 0, 0])  # the frames' heights differ
    before, after = (chamfer_m(each, true.moved(up))[0] for each in (fine(SHRUNK), found.shape.mesh))
    assert after < 0.7 * before
    assert found.shape.mesh.closed
    assert found.shape.mesh.moved(found.shape.T_world_object).vertices[:, 2].min() > -1e-4
    assert found.shape.texture is not None
    found.save(tmp_path)
    again = FoundJoint.load(tmp_path)
    assert again.shape is not None
    assert np.allclose(again.shape.mesh.vertices, found.shape.mesh.vertices, atol=1e-6)
    assert again.reshaped == found.reshaped
    assert again.as_json()["reshaped"] == found.reshaped


def test_vertices_stay_where_the_new_shape_meets_pictures_kept_apart_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint_shape, "STEPS", 10)
    clips, _ = filmed()
    worse = replace(known(), T_world_object=nudged(known().T_world_object, np.array([0.02, 0, 0, 0, 0, 0])))
    refine, _ = telling(known(), worse)
    found = together(small(), motion(), clips, Plane(), refine)
    assert found.shape is None
    assert found.track is not worse
    assert "vertices stay: outlines in pictures kept apart are met by" in found.reshaped


def test_a_shape_that_no_scene_should_hold_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    clips, _ = filmed()
    open_mesh = Mesh(fine(SHRUNK).vertices, fine(SHRUNK).faces[:-1])
    low, large = resized(small(), 1.0), resized(small(), 1.3)
    low = replace(low, T_world_object=nudged(low.T_world_object, np.array([0, 0, -0.003, 0, 0, 0])))
    for bad, why in ((replace(small(), mesh=open_mesh), "left the surface open"), (low, "3.0 mm below"), (large, "%")):
        monkeypatch.setattr(joint_shape, "reshaped_by", lambda *_a, bad=bad: bad)
        refine, given = telling(known())
        found = together(small(), motion(), clips, Plane(), refine)
        assert found.shape is None
        assert len(given) == 1
        assert why in found.reshaped


def test_worse_is_more_than_by_chance() -> None:
    before = np.array([0.9, 0.8, 0.95, 0.85])
    assert not worse(before, before + 0.01)
    assert not worse(before, before + np.array([0.05, -0.06, 0.05, -0.05]))
    assert worse(before, before - np.array([0.02, 0.03, 0.02, 0.03]))
    assert worse(np.zeros(0), np.zeros(0))


def test_a_model_s_shape_and_one_without_masks_stay() -> None:
    clips, _ = filmed()
    refine, _ = telling(known())
    assert (
        "vertices stay as a model made them"
        in together(replace(small(), made_by="a model"), motion(), clips, Plane(), refine).reshaped
    )
    bare = replace(motion(), masks={})
    assert "vertices stay: surface: 0 views show the object" in together(small(), bare, clips, Plane(), refine).reshaped


def test_views_of_an_object_are_kept_with_it(tmp_path) -> None:
    clips, _ = filmed()
    refine, _ = telling(known())
    views, apart = handled_views(small(), motion(), clips, refine(small(), motion()).track)
    assert len(apart.views) == 3
    assert len(views.views) == 9
    replace(small(), views=views).save(tmp_path)
    again = FoundObject.load(tmp_path).views
    assert again is not None
    assert again.groups == views.groups
    for one, two in zip(again.views, views.views, strict=True):
        assert one.name == two.name
        assert one.intrinsics == two.intrinsics
        assert np.array_equal(one.rgb, two.rgb)
        assert np.array_equal(one.mask, two.mask)
        assert np.allclose(one.T_world_camera, two.T_world_camera)
