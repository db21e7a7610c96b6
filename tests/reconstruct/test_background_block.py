"""The background of a table that a camera flies over is found, without what stands on it, and judged on views apart."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reconstruct.test_robot_calibrate import looking
from twinproof.nouns.clip import Clip
from twinproof.nouns.rig import Intrinsics
from twinproof.nouns.splats import SH0, Splats
from twinproof.nouns.views import PosedView, Views
from twinproof.reconstruct.background_block import found_background
from twinproof.reconstruct.background_fill import MADE_UP, at_other_times, said
from twinproof.sim.grid import Plane
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.render_rays import Rays
from twinproof.sim.splat.render import render
from twinproof.sim.world import World, compile_text

ROOM = """<mujoco><visual><headlight ambient=".6 .6 .6" diffuse=".3 .3 .3" specular="0 0 0"/></visual>
<asset><texture name="t" type="2d" builtin="checker" rgb1=".8 .6 .3" rgb2=".2 .4 .5" width="64" height="64"/>
<material name="t" texture="t" texrepeat="8 8"/></asset>
<worldbody><geom type="plane" size="1 1 .1" material="t"/>
<geom name="cube" type="box" pos="0 0 .05" size=".05 .05 .05" rgba=".9 .1 .1 1"/></worldbody></mujoco>"""
LENS = Lens(64, 48, 50.0, 50.0, 31.5, 23.5)


def flown(count: int) -> Views:
    world, views = World(compile_text(ROOM)), []
    cube = world.model.geom("cube").id
    for k in range(count):
        angle = 2 * np.pi * k / count
        pose = looking((0.5 * np.cos(angle), 0.5 * np.sin(angle), 0.45), (0, 0, 0.02))
        drawn = Rays(threads=1, shadow_samples=1).render(
            world.model, world.data, Camera(LENS, pose), ["rgb", "segmentation"]
        )
        mask = np.where(drawn.geom == cube, 1, np.where(drawn.geom < 0, -1, 0))
        views.append(PosedView(f"v{k}", drawn.rgb, Intrinsics(50, 50, 31.5, 23.5), pose, mask=mask))
    return Views(tuple(views), groups=("other", "cube"))


def red() -> Splats:
    """A red blob where the cube is."""
    colour = ((np.array([0.9, 0.1, 0.1]) - 0.5) / SH0)[None, None]
    spots = np.array([[x, y, z] for x in (-0.03, 0.03) for y in (-0.03, 0.03) for z in (0.02, 0.08)])
    n = len(spots)
    return Splats(
        spots, np.tile([1.0, 0, 0, 0], (n, 1)), np.full((n, 3), np.log(0.02)), np.full(n, 3.0),
        np.tile(colour, (n, 1, 1)), np.zeros(n, int), ("cube",), flat=True,
    )  # fmt: skip


def test_a_background_is_found_from_many_views() -> None:
    found = found_background(flown(14), red(), Plane(), 60)
    assert found is not None
    assert found.views + found.apart == 14
    assert found.psnr_db > 15
    assert np.isfinite(found.object_psnr_db)
    assert 0.2 < found.ssim < 1
    assert 0 < found.object_ssim < 1
    low = np.abs(found.splats.means[:, 2]) < 0.1
    assert low.mean() > 0.8  # on the table


def test_an_object_taken_away_leaves_neither_a_hole_nor_its_ghost() -> None:
    views = flown(14)
    found = found_background(views, red(), Plane(), 60)
    assert found is not None
    assert found.splats.groups == ("background", MADE_UP)
    made = found.splats.of(MADE_UP)
    assert np.abs(made.means[:, 2]).max() < 1e-6  # on the table
    assert np.abs(made.means[:, :2]).max() < 0.15  # and only where the cube, 0.1 m wide, hides it from all views
    assert said(found.splats)[0].endswith("(inpainted)")
    for view in views.views[::5]:
        drawn = render(found.splats, Camera(LENS, view.T_world_camera), what=("colour", "alpha"))
        stood = view.mask == 1
        assert drawn.alpha[stood].min() > 0.9
        assert (drawn.colour[stood][:, 0] > 0.75).mean() < 0.2  # the cube's red is 0.9, the table's at most 0.8
        assert (drawn.colour[stood][:, 1] < 0.2).mean() < 0.05  # the cube's green is 0.1, the table's at least 0.4


def test_what_a_still_camera_saw_at_another_time_is_a_view_of_the_background() -> None:
    rgb, labels = np.full((6, 48, 64, 3), 120, np.uint8), np.full((6, 48, 64), -1)
    for k in range(6):  # a red thing stands on the left, then on the right
        columns = slice(10, 22) if k < 3 else slice(40, 52)
        rgb[k, 20:32, columns], labels[k, 20:32, columns] = (255, 0, 0), 0
    k = Intrinsics(50, 50, 31.5, 23.5)
    clip = Clip("front", np.arange(6.0), rgb, k, np.tile(np.eye(4), (6, 1, 1)))
    view = PosedView("front/000000", rgb[0], k, np.eye(4), mask=labels[0] + 1)
    (more,) = at_other_times({"front": clip}, {"front": labels}, Views((view,), groups=("other", "thing")))
    assert more.mask is not None
    assert (more.mask[20:32, 10:22] == 0).all()  # what it hid, and nothing else
    assert (more.mask == 0).sum() == 12 * 12
    assert (more.rgb[20:32, 10:22] == 120).all()
    rests = np.repeat(labels[:1], 6, axis=0)
    assert at_other_times({"front": clip}, {"front": rests}, Views((view,), groups=("other", "thing"))) == ()


@pytest.mark.parametrize(("views", "steps"), [(5, 60), (14, 0)])
def test_too_few_views_or_no_steps_give_none(views, steps) -> None:
    assert found_background(flown(views), red(), Plane(), steps) is None
