"""The GPU engine against the CPU engine: same pictures, same gradients. Run on a machine with CUDA: pytest -m gpu."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.sim.splat.scenes import T_camera_world, T_world_group, lens, random_scene
from twinproof.nouns.splats import Splats
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.splat.torch_render import Scene, Settings, render

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
MILD = (0.05, -0.02, 0.001, -0.001)


def both(flat: bool, distortion: tuple[float, ...], more: bool, moved: bool):
    """Inputs and outputs on the CPU and on the GPU."""
    from twinproof.sim.splat import cuda

    scene = random_scene(300, 3, bands=16)
    found = []
    for device, draw in (("cpu", render), ("cuda", cuda.render)):
        inputs = [
            x.clone().to(device).requires_grad_() for x in (*scene[:5], T_camera_world()[None], lens(distortion)[None])
        ]
        moves = T_world_group().to(device).requires_grad_() if moved else None
        out = draw(Scene(*inputs[:5], scene.group.to(device)), inputs[5], inputs[6], moves, Settings(flat, more))
        found.append((inputs + ([moves] if moved else []), out))
    return found


@pytest.mark.parametrize(
    ("flat", "distortion", "moved"),
    [(False, (), False), (False, (), True), (False, MILD, True), (True, (), False), (True, (), True)],
    ids=["volumes", "volumes moved", "volumes bent", "surfels", "surfels moved"],
)
def test_pictures_and_gradients_are_those_of_the_cpu(flat: bool, distortion: tuple[float, ...], moved: bool) -> None:
    (cpu_in, cpu), (gpu_in, gpu) = both(flat, distortion, True, moved)
    losses = []
    weights = torch.Generator().manual_seed(0)
    for name in ("colour", "alpha", *(() if flat else ("depth", "median")), "normal"):
        a, b = getattr(cpu, name), getattr(gpu, name).cpu()
        far = (a - b).abs().detach()
        limit = 1e-2 if name in ("depth", "median") else 5e-3  # an alpha next to 1/255 may be drawn by one alone
        assert float(torch.quantile(far.flatten().double(), 0.99)) < 5e-5, name
        assert float((far > limit).float().mean()) < 0.01, name
        if name in ("colour", "alpha", "normal"):
            weight = torch.randn(a.shape, generator=weights)
            losses.append(((a * weight).sum(), (getattr(gpu, name) * weight.to("cuda")).sum()))
    assert float((cpu.group != gpu.group.cpu()).float().mean()) < 0.01
    sum(a for a, _ in losses).backward()
    sum(b for _, b in losses).backward()
    for k, (a, b) in enumerate(zip(cpu_in, gpu_in, strict=True)):
        wanted, grad = a.grad[..., :4] if k == 6 else a.grad, (b.grad[..., :4] if k == 6 else b.grad).cpu()
        assert float((wanted - grad).norm() / wanted.norm()) < 1e-4, k


def test_the_public_render_gives_the_same_picture_on_both() -> None:
    from twinproof.sim.splat.render import CUDA
    from twinproof.sim.splat.render import render as public

    scene = random_scene(200, 5)
    splats = Splats(*(x.numpy() for x in scene), groups=("a", "b"))
    camera = Camera(Lens(64, 48, 60, 60, 31.5, 23.5), np.linalg.inv(T_camera_world().numpy()))
    moved = {"b": T_world_group()[1].numpy()}
    what = ("colour", "depth", "group")
    one, other = public(splats, camera, moved=moved, what=what), public(splats, camera, CUDA, moved=moved, what=what)
    assert np.quantile(np.abs(one.colour - other.colour), 0.99) < 2e-4
    assert np.mean(one.group != other.group) < 0.01


def test_worlds_show_what_single_pictures_show() -> None:
    from twinproof.sim.splat.render import CUDA
    from twinproof.sim.splat.render import render as public
    from twinproof.sim.splat.worlds import SplatWorlds

    rng = np.random.default_rng(0)
    count = 3000
    means = rng.uniform(-1, 1, (count, 3)) * [1, 1, 0.1] + [0, 0, 0.5]
    near = rng.uniform(-0.2, 0.2, (500, 3))
    sh = rng.normal(0, 0.5, (count + 500, 1, 3))
    splats = Splats(
        np.concatenate([means, near]), rng.normal(size=(count + 500, 4)), np.full((count + 500, 3), np.log(0.04)),
        np.full(count + 500, 3.0), sh, np.repeat([0, 1], [count, 500]), ("wall", "cube"),
    )  # fmt: skip
    lens_ = Lens(64, 64, 60, 60, 31.5, 31.5)
    pose = T_camera_world().numpy()
    worlds = SplatWorlds(splats, ["cube"], lens_, detail=count)
    moves = np.tile(np.eye(4), (3, 1, 1, 1))
    moves[:, 0, 0, 3] = [-0.3, 0.0, 0.3]
    on_gpu = torch.tensor(moves, device="cuda")
    camera = torch.tensor(pose, device="cuda")
    still = worlds.over(worlds.fixed(camera[None]), on_gpu)
    loose = worlds.moved(camera.expand(3, 4, 4), on_gpu)
    for k in range(3):
        wanted = public(splats, Camera(lens_, np.linalg.inv(pose)), CUDA, moved={"cube": moves[k, 0]}).colour
        assert np.abs(loose[k].cpu().numpy() - wanted).mean() < 1e-3
        assert np.abs(still[k].cpu().numpy() - wanted).mean() < 0.02  # one depth a pixel: soft edges differ


def test_a_fit_on_the_gpu_goes_as_on_the_cpu() -> None:
    from twinproof.nouns.rig import Intrinsics
    from twinproof.nouns.views import PosedView, Views
    from twinproof.reconstruct.splat_fit import fit
    from twinproof.reconstruct.splat_recipe import Growth, Recipe

    rng = np.random.default_rng(0)
    points = rng.uniform(-0.5, 0.5, (300, 3))
    views = []
    for k in range(4):
        pose = np.eye(4)
        pose[:3, 3] = [0.2 * k - 0.3, 0, -2]
        picture = np.zeros((48, 64, 3), np.uint8)
        picture[16:32, 20:44] = (200, 90, 40)
        views.append(PosedView(f"{k}", picture, Intrinsics(60, 60, 31.5, 23.5), pose))
    data = Views(tuple(views), points, np.full((300, 3), 128, np.uint8))
    recipe = Recipe(iterations=120, start_points=0, sizes=((0.0, 1),), growth=Growth(most=300, until=0.0))
    one, other = (fit(data, recipe, device=device) for device in ("cpu", "cuda"))
    assert one.history[-1]["loss"] < 0.7 * one.history[0]["loss"]
    assert abs(one.history[-1]["loss"] - other.history[-1]["loss"]) < 0.02 * one.history[-1]["loss"]
