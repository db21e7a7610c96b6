"""The public render: pictures without torch, groups that move, exposure, threads, batches, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.splat.scenes import random_scene
from twinproof.nouns.errors import SplatError
from twinproof.nouns.splats import SH0, Splats
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.splat.render import Device, render, render_many
from twinproof.sim.splat.simplify import simplified

LENS = Lens(64, 48, 60.0, 60.0, 31.5, 23.5)
AHEAD = Camera(LENS, np.eye(4))


def ball(at: tuple[float, float, float], rgb: tuple[float, float, float], size: float = 0.1) -> Splats:
    sh = (np.array([[rgb]]) - 0.5) / SH0
    return Splats([at], [[1.0, 0, 0, 0]], np.full((1, 3), np.log(size)), [6.0], sh, [0])


def two() -> Splats:
    near, far = ball((0, 0, 1), (1, 0, 0)), ball((0, 0, 2), (0, 1, 0), 0.5)
    return Splats(
        np.concatenate([near.means, far.means]),
        np.concatenate([near.quats_wxyz, far.quats_wxyz]),
        np.concatenate([near.log_scales, far.log_scales]),
        [6.0, 6.0],
        np.concatenate([near.sh, far.sh]),
        [0, 1],
        ("near", "far"),
    )


def crowd(count: int = 400, flat: bool = False) -> Splats:
    scene = random_scene(count, 2)
    return Splats(*(x.numpy() for x in scene), groups=("a", "b"), flat=flat)


def behind(z: float = 2.0) -> Camera:
    pose = np.eye(4)
    pose[2, 3] = -z
    return Camera(LENS, pose)


def test_the_nearer_splat_hides_the_farther_one_and_names_its_group() -> None:
    image = render(two(), AHEAD, what=("colour", "depth", "median", "normal", "group"))
    assert image.colour[24, 32, 0] > 0.9 > 0.1 > image.colour[24, 32, 1]
    assert image.group[24, 32] == 0
    assert image.group[10, 32] == 1
    assert image.median[24, 32] == pytest.approx(1.0, abs=1e-3)
    assert image.median[10, 32] == pytest.approx(2.0, abs=1e-3)
    assert np.linalg.norm(image.normal[24, 32]) == pytest.approx(1, abs=1e-5)


def test_moving_a_group_moves_its_picture_and_nothing_else() -> None:
    away = np.eye(4)
    away[0, 3] = 10.0
    image = render(two(), AHEAD, moved={"near": away})
    assert np.array_equal(image.colour, render(two().of("far"), AHEAD).colour)


def test_a_moved_group_shows_its_own_harmonics_turned_with_it() -> None:
    splats = crowd()
    turn = np.eye(4)
    turn[:3, :3] = [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    camera = behind()
    turned = Camera(LENS, turn @ camera.T_world_camera)
    moved = render(splats, turned, moved={"a": turn, "b": turn})
    assert np.abs(moved.colour - render(splats, camera).colour).max() < 1e-4


def test_an_exposure_maps_the_colours() -> None:
    gain = np.eye(3, 4) * 0.5
    gain[:, 3] = 0.1
    plain, dimmed = render(two(), AHEAD), render(two(), AHEAD, exposure=gain)
    assert np.allclose(dimmed.colour, 0.5 * plain.colour + 0.1 * plain.alpha[..., None], atol=1e-6)


@pytest.mark.parametrize("flat", [False, True])
def test_pictures_do_not_depend_on_threads_or_batches(flat: bool) -> None:
    splats, cameras = crowd(9000, flat), [behind(1.5 + 0.2 * k) for k in range(6)]
    what = ("colour", "depth", "median", "normal", "group")
    single = [render(splats, camera, Device(threads=1), what=what) for camera in cameras]
    for threads in (1, 2, 3):
        for one, other in zip(single, render_many(splats, cameras, Device(threads=threads), what=what), strict=True):
            for name in ("colour", "alpha", "depth", "median", "normal", "group"):
                assert np.array_equal(getattr(one, name), getattr(other, name)), (threads, name)


def test_gradients_do_not_depend_on_threads() -> None:
    import torch

    from tests.sim.splat.scenes import T_camera_world, T_world_group, lens
    from twinproof.sim.splat.torch_render import Scene, Settings
    from twinproof.sim.splat.torch_render import render as render_torch

    grads = []
    for threads in (1, 2):
        scene = random_scene(9000, 4)
        leaves = [x.requires_grad_() for x in (*scene[:5], T_camera_world()[None])]
        settings = Settings(threads=threads)
        out = render_torch(Scene(*leaves[:5], scene.group), leaves[5], lens()[None], T_world_group(), settings)
        out.colour.square().sum().backward()
        grads.append([x.grad for x in leaves])
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


def test_a_camera_inside_the_cloud_gives_a_picture() -> None:
    image = render(crowd(), AHEAD)
    assert np.isfinite(image.colour).all()
    assert 0 <= image.alpha.min() <= image.alpha.max() <= 1


def test_no_splats_give_an_empty_picture() -> None:
    nothing = crowd().take(np.zeros(400, bool))
    image = render(nothing, AHEAD, what=("colour", "depth", "group"))
    assert not image.colour.any()
    assert (image.group == -1).all()
    assert np.allclose(image.over((1, 1, 1)), 1)


def test_pictures_of_several_sizes_come_from_one_call() -> None:
    small = Camera(Lens(20, 10, 20, 20, 9.5, 4.5), np.eye(4))
    shapes = [image.alpha.shape for image in render_many(two(), [AHEAD, small])]
    assert shapes == [(48, 64), (10, 20)]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: render(two(), AHEAD, what=("colour", "heat")), "no picture has heat"),
        (lambda: render(two(), AHEAD, moved={"mug": np.eye(4)}), "no group 'mug'"),
        (lambda: render(two(), AHEAD, moved={"near": 2 * np.eye(4)}), "not rigid"),
        (lambda: render(two(), AHEAD, exposure=np.eye(3)), "3 × 4"),
        (lambda: render_many(two(), [AHEAD], moved=[{}, {}]), "1 cameras but 2 placements"),
        (lambda: simplified(two(), 1), "1 cannot stand for 2 groups"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_a_reason(call: object, said: str) -> None:
    with pytest.raises(SplatError, match=said):
        call()  # type: ignore[operator]


def test_tensors_of_the_wrong_kind_and_lenses_of_two_sizes_are_refused() -> None:
    import torch

    from tests.sim.splat.scenes import T_camera_world, T_world_group, lens
    from twinproof.sim.splat.torch_render import render as render_torch

    scene, pose = random_scene(5, 1), T_camera_world()[None]
    with pytest.raises(SplatError, match="float32 tensors on the CPU, found torch.float64"):
        render_torch(scene._replace(means=scene.means.double()), pose, lens()[None], T_world_group())
    both = torch.stack([lens(), lens((), 10, 12)])
    with pytest.raises(SplatError, match="lenses of one batch have one size"):
        render_torch(scene, pose.expand(2, 4, 4), both, T_world_group())
    with pytest.raises(SplatError, match="2 groups but only 1 placements"):
        render_torch(scene, pose, lens()[None], T_world_group()[:1])


def test_fewer_splats_look_alike_from_afar() -> None:
    rng = np.random.default_rng(0)
    count = 4000
    sheet = np.concatenate([rng.uniform(-1, 1, (count, 2)), np.zeros((count, 1))], 1)
    colour = np.stack(
        [0.5 + 0.4 * np.sin(3 * sheet[:, 0]), 0.5 + 0.4 * np.cos(2 * sheet[:, 1]), np.full(count, 0.5)], -1
    )
    splats = Splats(
        sheet, rng.normal(size=(count, 4)), np.full((count, 3), np.log(0.03)), np.full(count, 1.0),
        (colour[:, None] - 0.5) / SH0, np.zeros(count, int),
    )  # fmt: skip
    few = simplified(splats, 1000)
    assert 500 < len(few) <= 1000
    pair = [render(each, behind(4.0)).colour for each in (splats, few)]
    assert -10 * np.log10(np.mean((pair[0] - pair[1]) ** 2)) > 25
    assert simplified(splats, count) is splats


def test_a_gpu_that_is_not_there_is_said_with_the_cure() -> None:
    import torch

    from twinproof.nouns.errors import MissingExtra

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(MissingExtra, match="none answers. Draw on the CPU"):
        render(two(), AHEAD, Device("cuda"))
