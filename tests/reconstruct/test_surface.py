"""Triangles that carry Gaussians: moving a vertex moves the discs, slopes are right, and refining finds the shape."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.reconstruct.planted import pictures, shade  # noqa: E402
from tests.reconstruct.solids import ball, box, dented, solid  # noqa: E402
from twinproof.nouns.errors import MeshError  # noqa: E402
from twinproof.nouns.mesh import Mesh  # noqa: E402
from twinproof.reconstruct.gap import chamfer_m  # noqa: E402
from twinproof.reconstruct.mesh_mend import simplified  # noqa: E402
from twinproof.reconstruct.surface import bind, frames, quaternions  # noqa: E402
from twinproof.reconstruct.surface_colour import on_face, read_colours  # noqa: E402
from twinproof.reconstruct.surface_draw import edge_drawn  # noqa: E402
from twinproof.reconstruct.surface_refine import Refining, refine, sights_of  # noqa: E402
from twinproof.reconstruct.surface_target import Sight, targets_of, together  # noqa: E402
from twinproof.sim.mesh_raster import rasterise  # noqa: E402
from twinproof.sim.render_camera import Camera, pixel_rays  # noqa: E402
from twinproof.sim.silhouette import Silhouette  # noqa: E402
from twinproof.sim.splat.render import render  # noqa: E402

CORNERS = torch.tensor([[[0, 0, 0], [0.3, 0.1, 0], [0.1, 0.2, 0.1]]], dtype=torch.float64)


@pytest.mark.parametrize("per_face", [1, 4, 9, 16])
def test_discs_lie_on_the_mesh_and_cover_it(per_face) -> None:
    bound = bind(ball(voxel=0.01), per_face, "thing")
    splats = bound.splats()
    assert len(splats) == per_face * len(bound.mesh.faces)
    assert splats.groups == ("thing",)
    assert splats.flat
    assert np.linalg.norm(splats.means, axis=1) == pytest.approx(0.05, abs=0.001)
    _, cameras = pictures(bound.mesh, 1)
    image = render(splats, cameras[0])
    exact = rasterise(bound.mesh, cameras[0]).depth_m > 0
    assert image.alpha[exact].min() > 0.85


def test_the_middle_of_the_pieces_is_the_middle_of_the_face_and_all_are_inside() -> None:
    for per_face in (4, 9, 16):
        weights = bind(box(), per_face).weights
        assert weights.mean(axis=0) == pytest.approx(np.full(3, 1 / 3))
        assert weights.min() > 0


def test_a_face_has_the_spread_and_the_normal_of_its_triangle() -> None:
    found = frames(CORNERS)
    rng = np.random.default_rng(0)
    s, t = np.sqrt(rng.random(200_000)), rng.random(200_000)
    points = np.stack([1 - s, s * (1 - t), s * t], axis=1) @ CORNERS[0].numpy()
    spread = np.linalg.eigvalsh(np.cov(points.T))[::-1]
    assert found.sizes[0].numpy() ** 2 == pytest.approx(spread[:2], rel=0.02)
    w, x, y, z = (found.quats[0] / found.quats[0].norm()).numpy()
    third = [2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)]
    assert third == pytest.approx(found.normal[0].numpy(), abs=1e-9)


def test_every_rotation_has_its_quaternion() -> None:
    turns = torch.linalg.qr(torch.randn(50, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))[0]
    turns = turns * torch.linalg.det(turns)[:, None, None].sign()
    q = quaternions(turns)
    w, x, y, z = (q / q.norm(dim=1, keepdim=True)).T
    assert (1 - 2 * (y * y + z * z)).numpy() == pytest.approx(turns[:, 0, 0].numpy(), abs=1e-9)
    assert (2 * (x * y - w * z)).numpy() == pytest.approx(turns[:, 0, 1].numpy(), abs=1e-9)
    assert (2 * (y * z + w * x)).numpy() == pytest.approx(turns[:, 2, 1].numpy(), abs=1e-9)


def test_slopes_reach_vertices_through_places_and_normals() -> None:
    def of(corners):
        found = frames(corners)
        return torch.cat([found.normal, found.sizes], dim=1)

    slopes = torch.autograd.functional.jacobian(of, CORNERS).reshape(5, 9).numpy()
    step = 1e-6
    for k in range(9):
        up, down = CORNERS.clone(), CORNERS.clone()
        up.view(-1)[k] += step
        down.view(-1)[k] -= step
        # The longest axis is held while slopes are taken, and at it the size's slope by turning is 0.
        assert slopes[:, k] == pytest.approx(((of(up) - of(down)) / (2 * step)).numpy()[0], abs=1e-4)


def test_moving_a_vertex_moves_its_discs_and_no_others() -> None:
    bound = bind(box(), 1)
    points = bound.vertices
    points[0] += 0.01
    moved = np.abs(bound.splats(points).means - bound.splats().means).max(axis=1) > 1e-6
    assert moved.tolist() == (bound.mesh.faces == 0).any(axis=1).tolist()
    still, free = bound.scene(points, still=True), bound.scene(points)
    assert torch.equal(still.log_scales, free.log_scales)


def test_discs_take_the_colours_of_the_mesh_and_give_them_back() -> None:
    mesh = ball(voxel=0.01)
    mesh = Mesh(mesh.vertices, mesh.faces, shade(mesh.vertices) * 0.2 + 0.4)
    bound = bind(mesh, 1)
    back = bound.moved(bound.vertices, bound.looks).mesh.colours
    assert np.abs(back - mesh.colours).mean() < 0.05


def test_refining_lowers_the_distance_to_a_planted_shape_and_finds_its_colours() -> None:
    true = solid(dented, voxel=0.003)
    views, cameras = pictures(true, 10)
    start = simplified(ball(0.047), 700)[0]
    refined = refine(bind(start, 1, "thing"), sights_of(views, "thing"), Refining(steps=80, colour_steps=60))
    before, after = chamfer_m(start, true, 3000)[0], chamfer_m(refined.mesh, true, 3000)[0]
    assert after < 0.4 * before
    assert refined.mesh.closed
    assert refined.splats.groups == ("thing",)
    drawn = render(refined.splats, cameras[0])
    inside = (views.views[0].mask == 1) & (drawn.alpha > 0.9)
    off = np.abs(drawn.colour / np.maximum(drawn.alpha, 0.1)[..., None] - views.views[0].rgb / 255)[inside]
    assert off.mean() < 0.15  # waves of 6 pixels through discs of 4
    assert refined.history[-1]["colour"] < refined.history[-6]["colour"]


def test_silhouettes_alone_mend_a_shape_that_is_too_small() -> None:
    true = ball(0.05, voxel=0.003)
    views, _ = pictures(true, 8)
    start = simplified(ball(0.046), 700)[0]
    sights = [Sight(each.silhouette) for each in sights_of(views, "thing")]
    refined = refine(bind(start, 1), sights, Refining(steps=60))
    assert chamfer_m(refined.mesh, true, 3000)[0] < 0.3 * chamfer_m(start, true, 3000)[0]


def test_a_pixel_reads_the_colour_of_the_place_that_it_sees() -> None:
    mesh = ball(voxel=0.004)
    _, cameras = pictures(mesh, 1)
    places = torch.tensor(mesh.vertices, dtype=torch.float64)
    rays = torch.tensor(pixel_rays(cameras[0].lens))
    some, found = read_colours(places, mesh, places, cameras[0], rays)  # colours that say where they stand
    seen = rasterise(mesh, cameras[0])
    exact = np.einsum("nc,ncd->nd", seen.weights[some], mesh.vertices[mesh.faces[seen.face[some]]])
    assert found.numpy() == pytest.approx(exact, abs=1e-9)


def test_slopes_of_a_place_on_a_face_are_those_of_small_moves() -> None:
    corners = torch.tensor([[[0.1, 0.0, 1.0], [-0.1, 0.1, 1.2], [0.0, -0.2, 0.9]]], dtype=torch.float64)
    ray = torch.tensor([[0.01, -0.02]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda c: on_face(c, ray), (corners.requires_grad_(),))
    assert float(on_face(corners, ray).sum().detach()) == pytest.approx(1)


def test_colours_pull_without_shrinking_the_shape() -> None:
    true = ball(0.05, voxel=0.004)
    views, _ = pictures(true, 8)
    start = simplified(ball(0.05), 1200)[0]
    sights = [Sight(each.silhouette, each.rgb) for each in sights_of(views, "thing")]
    refined = refine(bind(start, 1), sights, Refining(steps=40, colour_steps=1))
    assert abs(refined.mesh.volume_m3 / true.volume_m3 - 1) < 0.02


def test_colours_are_in_the_history_of_a_refinement() -> None:
    views, _ = pictures(ball(voxel=0.006), 3)
    refined = refine(bind(ball(voxel=0.012), 1), sights_of(views, "thing"), Refining(steps=3, colour_steps=2))
    assert "colour" in refined.history[0]


def test_what_a_gpu_does_gives_the_same_surface() -> None:
    """Views cut to one size and drawn at once, an inverse for the solve, tensors where they are told: all but the
    engine, which is held to the CPU's elsewhere. The name "cpu:0" takes that way with the CPU's engine."""
    views, _ = pictures(solid(dented, voxel=0.004), 8)
    sights, start = sights_of(views, "thing"), bind(simplified(ball(0.047), 500)[0], 1, "thing")
    how = Refining(steps=12, colour_steps=6, bands=4, area_weight=0.1)
    here, there = refine(start, sights, how), refine(start, sights, how, device="cpu:0")
    moved = np.abs(here.mesh.vertices - start.mesh.vertices).max()
    assert moved > 5e-4
    assert np.abs(here.mesh.vertices - there.mesh.vertices).max() < 0.01 * moved
    assert here.splats.sh == pytest.approx(there.splats.sh, abs=2e-3)
    assert here.splats.logit_opacities == pytest.approx(there.splats.logit_opacities, abs=1e-3)


def test_cuts_of_one_size_show_the_same_and_know_nothing_beyond_the_picture() -> None:
    views, _ = pictures(box((0.1, 0.06, 0.04)), 6)
    sights = sights_of(views, "thing")
    own, alike = targets_of(sights, 6), targets_of(sights, 6, alike=True)
    assert len(together(own)) > 1
    assert together(alike) == [list(range(6))]
    for a, b in zip(own, alike, strict=True):
        height, width = a.distance.shape
        assert torch.equal(a.rgb * a.inside[..., None], (b.rgb * b.inside[..., None])[:height, :width])
        assert float(a.mask.sum()) == float(b.mask.sum())
        assert float(a.inside.sum()) == float(b.inside.sum())
        assert torch.allclose(a.rays, b.rays[:height, :width])
    corner = np.zeros_like(sights[0].silhouette.mask)
    corner[-9:, -9:] = 1
    last = targets_of([sights[0], Sight(Silhouette(corner, sights[0].silhouette.camera))], 6, alike=True)[1]
    assert last.distance.shape == own[0].distance.shape
    top, left = last.known.shape[0] - int(last.known[:, 0].sum()), last.known.shape[1] - int(last.known[0].sum())
    assert (top > 0, left > 0, float(last.mask.sum())) == (True, True, 81)
    assert float(last.known[-top:].sum() + last.known[:, -left:].sum()) == 0


def test_what_is_not_known_lends_the_object_no_colour() -> None:
    """An arm before the object touches it on three sides: the distance to its edge says inside, the mask does not."""
    views, _ = pictures(box((0.1, 0.06, 0.04)), 2)
    whole = sights_of(views, "thing")[0]
    mask = np.array(whole.silhouette.mask)
    row = int(np.nonzero((mask == 1).any(axis=1))[0].mean())
    mask[row - 5 : row + 6][mask[row - 5 : row + 6] == 1] = -1
    (target,) = targets_of([Sight(Silhouette(mask, whole.silhouette.camera), whole.rgb)], 6)
    assert float(target.inside.sum()) > 0
    assert float((target.inside * (1 - target.known)).sum()) == 0


def test_what_hides_the_object_is_taken_as_not_known() -> None:
    views, _ = pictures(box(), 2)
    sights = sights_of(views, "thing", hidden_by=("background",))
    assert set(np.unique(sights[0].silhouette.mask)) == {-1, 1}


def test_nonsense_is_refused() -> None:
    views, _ = pictures(box(), 2)
    with pytest.raises(MeshError, match="cut into 1, 4, 9, 16"):
        bind(box(), 3)
    with pytest.raises(MeshError, match="no group 'cup'"):
        sights_of(views, "cup")
    with pytest.raises(MeshError, match="show the object; 2"):
        refine(bind(box(), 1), sights_of(views, "thing")[:1])
    with pytest.raises(MeshError, match="at least 1"):
        Refining(steps=0)
    far = Mesh(box().vertices + 9.0, box().faces)
    with pytest.raises(MeshError, match="no view sees the mesh"):
        edge_drawn(bind(far, 1), [sight.silhouette.camera for sight in sights_of(views, "thing")])


def test_the_rasteriser_agrees_with_a_ray_through_each_pixel() -> None:
    mesh = box((0.1, 0.06, 0.04))
    _, cameras = pictures(mesh, 3)
    for camera in cameras:
        seen = rasterise(mesh, camera)
        rows, columns = np.nonzero(seen.face >= 0)
        place = np.einsum(
            "nc,ncd->nd", seen.weights[rows, columns], mesh.vertices[mesh.faces[seen.face[rows, columns]]]
        )
        T = np.linalg.inv(camera.T_world_camera)
        local = place @ T[:3, :3].T + T[:3, 3]
        assert local[:, 2] == pytest.approx(seen.depth_m[rows, columns], abs=1e-9)
        assert camera.lens.fx * local[:, 0] / local[:, 2] + camera.lens.cx == pytest.approx(columns, abs=1e-6)
        assert (np.abs(place) <= np.array([0.05, 0.03, 0.02]) + 1e-9).all()
        assert isinstance(camera, Camera)
