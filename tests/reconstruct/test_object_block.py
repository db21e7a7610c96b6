"""An object after its shape: views apart that nothing was fitted to, colours under one exposure, a texture, files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.reconstruct.test_background_block import flown  # noqa: E402
from twinproof.nouns.baked import Baked  # noqa: E402
from twinproof.nouns.clip import Clip  # noqa: E402
from twinproof.nouns.mesh import Mesh  # noqa: E402
from twinproof.nouns.views import Views  # noqa: E402
from twinproof.reconstruct.background_block import kept_and_apart  # noqa: E402
from twinproof.reconstruct.collision import hull_of  # noqa: E402
from twinproof.reconstruct.object_block import FoundObject, Shaping, _when_seen, with_background  # noqa: E402
from twinproof.reconstruct.surface import bind  # noqa: E402
from twinproof.reconstruct.surface_smooth import above, area_of, crosses, few_threads  # noqa: E402
from twinproof.sim.grid import Plane  # noqa: E402


def cube() -> Mesh:
    """The cube of the scene, in its own frame."""
    return hull_of(0.05 * np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]))


def thing() -> FoundObject:
    T = np.eye(4)
    T[2, 3] = 0.05
    return FoundObject("cube", cube(), bind(cube(), per_face=16, group="cube").splats(), T, {}, (), ())


def test_an_object_is_painted_from_the_views_that_are_not_kept_apart(tmp_path) -> None:
    views = flown(14)
    kept, apart = kept_and_apart(views)
    assert len(kept.views) + len(apart.views) == 14
    spoilt = {view.name for view in apart.views}
    blue = np.array([0, 0, 255], np.uint8)
    lies = Views(
        tuple(
            replace(v, rgb=np.where((v.mask == 1)[..., None], blue, v.rgb)) if v.name in spoilt else v
            for v in views.views
        ),
        groups=views.groups,
    )
    found = with_background(thing(), lies, Plane(), Shaping(background=25))
    assert found.texture is not None
    assert found.background is not None
    red, _, there = found.texture.reshape(-1, 3).mean(axis=0)
    assert red > 100 > 60 > there  # no view apart, which shows it blue, was looked at
    assert found.held_out["object_psnr_db"] < 10
    assert {"ssim", "object_ssim"} <= set(found.held_out)
    assert isinstance(found.shape_at(found.T_world_object), Baked)
    found.save(tmp_path)
    again = FoundObject.load(tmp_path)
    assert np.array_equal(again.texture, found.texture)
    assert np.allclose(again.uv, found.uv)


def test_few_views_are_all_fitted_and_an_object_without_a_texture_is_a_mesh() -> None:
    views = flown(3)
    assert kept_and_apart(views)[0] is views
    assert isinstance(thing().shape_at(np.eye(4)), Mesh)


def test_a_view_is_taken_from_where_the_camera_was_at_the_objects_rows() -> None:
    view = flown(1).views[0]
    assert view.mask is not None
    sweep = np.array([[0, 0, 0, 0.02, 0, 0]])
    clip = Clip("wrist", np.zeros(1), view.rgb[None], view.intrinsics, view.T_world_camera[None], sweep=sweep)
    named = replace(view, name="wrist/000000")
    share = (np.nonzero(view.mask == 1)[0].mean() + 0.5) / len(view.rgb) - 0.5
    moved = np.linalg.inv(view.T_world_camera) @ _when_seen(named, 1, {"wrist": clip}).T_world_camera
    assert moved[0, 3] == pytest.approx(0.02 * share)
    bare = replace(named, mask=np.zeros_like(view.mask))
    assert _when_seen(bare, 1, {"wrist": clip}) is bare


def test_vertices_below_the_support_are_lifted_to_it_and_areas_add_up() -> None:
    box = cube()
    vertices = torch.tensor(box.vertices, dtype=torch.float32)
    assert float(area_of(crosses(vertices, box)[1])) == pytest.approx(6 * 0.1**2, rel=1e-5)
    lifted = above(vertices, Plane(offset_m=-0.02))
    assert float(lifted[:, 2].min()) == pytest.approx(-0.02)
    assert torch.equal(lifted[vertices[:, 2] > 0], vertices[vertices[:, 2] > 0])
    assert above(vertices, None) is vertices


def test_threads_of_torch_are_as_before_after_small_work() -> None:
    before = torch.get_num_threads()
    with few_threads(1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
