"""Fitting splats: known scenes come back, stopped fits go on to the same result, bad captures are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.reconstruct.splat_captures import capture, truth
from twinproof.nouns.errors import SplatError
from twinproof.nouns.views import Views
from twinproof.reconstruct.splat_density import relocate_and_grow, shared, wander
from twinproof.reconstruct.splat_fit import Fitted, fit, lens_of, shrunk
from twinproof.reconstruct.splat_judge import exposure_for, grouped, held_out, judge, settled
from twinproof.reconstruct.splat_recipe import Growth, Recipe
from twinproof.reconstruct.splat_state import start
from twinproof.sim.render_camera import Camera
from twinproof.sim.splat.render import render

SMALL = Recipe(iterations=250, start_points=300, growth=Growth(most=400, every=25), sizes=((0.0, 2), (0.3, 1)))


def psnr_of(fitted: Fitted, train: Views, test: Views) -> float:
    return float(np.mean([each.psnr_db for each in judge(settled(fitted), train, test)]))


def test_a_known_scene_is_seen_again_from_views_that_were_held_out() -> None:
    train, test = held_out(capture(), 6)
    fitted = fit(train, SMALL, threads=1)
    blank = replace(fitted, splats=fitted.splats.take(np.zeros(len(fitted.splats), bool)))
    assert psnr_of(fitted, train, test) > 22
    assert psnr_of(fitted, train, test) > psnr_of(blank, train, test) + 6
    assert fitted.history[-1]["loss"] < 0.5 * fitted.history[0]["loss"]


def test_surfels_with_depth_stand_nearer_to_where_the_surface_was_measured() -> None:
    views, gaps = capture(depth=True), []
    for weight in (0.0, 0.5):
        fitted = fit(views, replace(SMALL, flat=True, depth_weight=weight), threads=1)
        assert fitted.splats.flat
        for view in views.views[:4]:
            image = render(fitted.splats, Camera(lens_of(view), view.T_world_camera), what=("median",))
            both = (image.median > 0) & (view.depth_m > 0)
            gaps.append(np.median(np.abs(image.median - view.depth_m)[both]))
    assert np.mean(gaps[4:]) < 0.08
    assert np.mean(gaps[4:]) < 0.9 * np.mean(gaps[:4])


def test_exposures_come_back_as_they_were_made() -> None:
    fitted = settled(fit(capture(gains=True), replace(SMALL, rates=replace(SMALL.rates, exposures=1e-2)), threads=1))
    gain = fitted.exposures[:, 0].mean(axis=1)
    assert gain[1::2].mean() / gain[::2].mean() == pytest.approx(0.7, abs=0.12)


def test_a_held_out_exposure_is_that_of_its_neighbours_by_name() -> None:
    exposures = np.arange(6.0).reshape(3, 2, 1) * np.ones((3, 2, 3))
    assert np.allclose(exposure_for("b", ["a", "c", "d"], exposures), exposures[:2].mean(axis=0))
    assert np.allclose(exposure_for("z", ["a", "c", "d"], exposures), exposures[2])


def test_settling_changes_who_carries_the_exposure_and_no_picture() -> None:
    views = capture(gains=True)
    fitted = fit(views, replace(SMALL, iterations=60), threads=1)
    moved = settled(fitted)
    view = views.views[3]
    for k in (0, 3):
        pair = []
        for each in (fitted, moved):
            picture = render(each.splats, Camera(lens_of(view), view.T_world_camera))
            solid = picture.alpha > 0.999
            pair.append((picture.colour * each.exposures[k, 0] + each.exposures[k, 1])[solid])
        assert np.abs(pair[0] - pair[1]).max() < 0.02


def test_a_wrong_pose_is_corrected_when_that_is_asked() -> None:
    views = capture()
    wrong = views.views[2].T_world_camera.copy()
    wrong[:3, 3] += [0.03, -0.02, 0.02]
    bent = replace(views, views=(*views.views[:2], replace(views.views[2], T_world_camera=wrong), *views.views[3:]))
    recipe = replace(SMALL, iterations=400, poses=True, rates=replace(SMALL.rates, poses=1e-3))
    fitted = fit(bent, recipe, threads=1)
    true = views.views[2].T_world_camera[:3, 3]
    assert np.linalg.norm(fitted.poses[2, :3, 3] - true) < 0.6 * np.linalg.norm(wrong[:3, 3] - true)


def test_a_stopped_fit_goes_on_to_the_same_result(tmp_path: Path) -> None:
    views, recipe = capture(6), replace(SMALL, iterations=80)
    whole = fit(views, recipe, 3, threads=1)

    class Stop(Exception):
        pass

    def stop(step: int, _: Fitted) -> None:
        if step >= 40:
            raise Stop

    with pytest.raises(Stop):
        fit(views, recipe, 3, threads=1, folder=tmp_path, save_every_s=-1.0, look=stop)
    resumed = fit(views, recipe, 3, threads=1, folder=tmp_path, save_every_s=-1.0)
    assert resumed.steps == whole.steps
    for name in ("means", "quats_wxyz", "log_scales", "logit_opacities", "sh"):
        assert np.array_equal(getattr(whole.splats, name), getattr(resumed.splats, name)), name
    assert [row["loss"] for row in resumed.history] == [row["loss"] for row in whole.history]


def test_the_number_of_threads_does_not_change_the_result() -> None:
    views, recipe = capture(4), replace(SMALL, iterations=30)
    one, two = (fit(views, recipe, threads=threads).splats for threads in (1, 2))
    assert np.array_equal(one.means, two.means)
    assert np.array_equal(one.sh, two.sh)


def test_masks_give_splats_their_groups() -> None:
    splats, views = truth(), capture(split_at=0.1)
    named = grouped(splats, views)
    assert named.groups == ("low", "high")
    clear = np.abs(splats.means[:, 2] - 0.1) > 0.25
    assert np.mean(named.group[clear] == (splats.means[clear, 2] > 0.1)) > 0.85
    assert grouped(splats, capture(3)) is splats


def test_pixels_that_a_mask_leaves_out_do_not_count() -> None:
    views = capture(4)
    spoiled = []
    for view in views.views:
        rgb, mask = view.rgb.copy(), np.zeros(view.rgb.shape[:2], int)
        rgb[:10], mask[:10] = 255, -1
        spoiled.append(replace(view, rgb=rgb, mask=mask))
    plain = [replace(view, mask=mask) for view, mask in zip(views.views, [s.mask for s in spoiled], strict=True)]
    recipe = replace(SMALL, iterations=3, ssim=0.0, start_points=0, sizes=((0.0, 1),))
    one, other = (fit(replace(views, views=tuple(each)), recipe, threads=1).splats for each in (plain, spoiled))
    assert np.abs(one.means - other.means).max() < 1e-6


def test_a_splat_shared_among_copies_looks_as_one_did() -> None:
    opacity, copies = torch.tensor([0.8, 0.5, 0.3]), torch.tensor([3.0, 2.0, 1.0])
    each, shrink = shared(opacity, copies)
    assert torch.allclose(1 - (1 - each) ** copies, opacity, atol=1e-5)
    assert float(shrink[2]) == pytest.approx(1, abs=1e-4)
    assert float(shrink[0]) < 1


def test_dead_splats_move_to_living_ones_and_growth_stops_at_the_most() -> None:
    views = capture(3)
    state = start(views, SMALL, np.random.default_rng(0), "cpu")
    with torch.no_grad():
        state.values["logits"][:50] = -9.0
    worth, generator = torch.ones(len(state.group)), torch.Generator().manual_seed(0)
    born = relocate_and_grow(state, Growth(most=320, by=1.2), worth, generator)
    assert born == 20
    assert len(state.group) == 320 == len(state.first["sh"])
    assert float(torch.sigmoid(state.values["logits"]).min().detach()) >= 0.004
    assert relocate_and_grow(state, Growth(most=320), torch.zeros(320), generator) == 0


def test_only_faint_splats_wander() -> None:
    state = start(capture(3), SMALL, np.random.default_rng(0), "cpu")
    before = state.values["means"].detach().clone()
    with torch.no_grad():
        state.values["logits"][:10] = -8.0
    wander(state, Growth(noise=1e4), 1e-3, torch.Generator().manual_seed(0))
    moved = (state.values["means"].detach() - before).norm(dim=1)
    assert float(moved[:10].min()) > 0
    assert float(moved[10:].max()) == 0


def test_pictures_shrink_by_means_and_their_lens_with_them() -> None:
    view = capture(3).views[0]
    lens = lens_of(view, 2)
    assert (lens.width, lens.height) == (24, 20)
    assert lens.cx == pytest.approx((23.5 + 0.5) / 2 - 0.5)
    assert np.allclose(shrunk(view.rgb, 2)[3, 5], view.rgb[6:8, 10:12].reshape(-1, 3).mean(axis=0))


def test_views_without_points_start_about_where_they_look() -> None:
    views = capture(6)
    bare = Views(views.views)
    fitted = fit(bare, replace(SMALL, iterations=20), threads=1)
    assert np.isfinite(fitted.splats.means).all()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda v: replace(v, views=v.views[:2]), "2 views are too few"),
        (lambda v: _with(v, mask=np.full(v.views[1].rgb.shape[:2], -1)), "masked out as a whole"),
        (lambda v: _with(v, rgb=np.zeros((12, 40, 3), np.uint8)), "40 × 12 pixels, at least 16 × 16"),
    ],
)
def test_captures_that_cannot_be_fitted_are_refused(spoil: object, said: str) -> None:
    with pytest.raises(SplatError, match=said):
        fit(spoil(capture(4)), SMALL)  # type: ignore[operator]


def test_too_few_points_to_start_from_are_said() -> None:
    views = replace(capture(3), points=np.zeros((2, 3)), colours=np.zeros((2, 3), np.uint8))
    with pytest.raises(SplatError, match="2 points to start from are too few"):
        fit(views, replace(SMALL, start_points=0))


def _with(views: Views, **changed: object) -> Views:
    return replace(views, views=(views.views[0], replace(views.views[1], **changed), *views.views[2:]))  # type: ignore[arg-type]


def test_normals_agree_with_the_depth_of_a_tilted_plane_and_not_with_another() -> None:
    from twinproof.reconstruct.splat_shape import normal_loss
    from twinproof.sim.render_camera import Lens, pixel_rays
    from twinproof.sim.splat.torch_render import Rendered

    lens = Lens(20, 16, 20.0, 20.0, 9.5, 7.5)
    normal = np.array([0.3, -0.2, -1.0]) / np.linalg.norm([0.3, -0.2, -1.0])
    rays = np.concatenate([pixel_rays(lens), np.ones((16, 20, 1))], -1)
    depth = (normal @ [0, 0, 2.0]) / (rays @ normal)
    alpha = torch.ones(1, 16, 20)
    losses = []
    for shown in (normal, -normal):
        plane = torch.tensor(np.broadcast_to(shown, (1, 16, 20, 3)).copy())
        image = Rendered(plane, alpha, torch.tensor(depth)[None], None, plane, None)
        losses.append(float(normal_loss(image, lens)))
    assert losses[0] == pytest.approx(0, abs=1e-6)
    assert losses[1] == pytest.approx(2, abs=1e-6)


def test_surfels_with_the_normal_term_lie_flatter() -> None:
    from twinproof.reconstruct.splat_shape import normal_loss
    from twinproof.sim.splat.lens import packed
    from twinproof.sim.splat.torch_render import Scene, Settings
    from twinproof.sim.splat.torch_render import render as render_torch

    views, bends = capture(6), []
    for weight in (0.0, 0.2):
        s = fit(views, replace(SMALL, iterations=120, flat=True, normal_weight=weight), threads=1).splats
        arrays = (s.means, s.quats_wxyz, s.log_scales, s.logit_opacities, s.sh, s.group)
        scene = Scene(*(torch.from_numpy(np.array(array)) for array in arrays))
        view = views.views[0]
        pose = torch.from_numpy(np.linalg.inv(view.T_world_camera))[None]
        image = render_torch(scene, pose, torch.from_numpy(packed(lens_of(view)))[None], None, Settings(True, True))
        bends.append(float(normal_loss(image, lens_of(view))))
    assert bends[1] < 0.8 * bends[0]
