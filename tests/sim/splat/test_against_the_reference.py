"""The CPU engine against the dense float64 reference: pictures to 1e-5, every gradient to 1e-4."""

from __future__ import annotations

import pytest
import torch

from tests.sim.splat.scenes import BENT, T_camera_world, T_world_group, lens, nasty_scenes, random_scene
from twinproof.sim.splat.reference import rasterise
from twinproof.sim.splat.torch_render import Scene, Settings, render

KINDS = pytest.mark.parametrize("flat", [False, True], ids=["volumes", "surfels"])
INPUTS = ("means", "quats", "log_scales", "logits", "sh", "T_camera_world", "lens", "T_world_group")


def compared(scene: Scene, flat: bool, distortion: tuple[float, ...] = (), more: bool = True) -> dict[str, float]:
    """The largest difference of each channel, and the relative error of the gradient to each input."""
    ours = [
        x.clone().requires_grad_()
        for x in (*scene[:5], T_camera_world()[None], lens(distortion)[None], T_world_group())
    ]
    theirs = [x.detach().double().clone().requires_grad_() for x in ours]
    out = render(Scene(*ours[:5], scene.group), ours[5], ours[6], ours[7], Settings(flat, more))
    V = (theirs[5] @ theirs[7])[:, :3]
    expected = rasterise(*theirs[:5], scene.group, V, theirs[6][0], flat)
    sure = ~expected.undecided
    assert sure.float().mean() > 0.95
    found, losses = {}, []
    weights = torch.Generator().manual_seed(3)
    for name in ("colour", "alpha", *(("depth", "median", "normal") if more else ())):
        a, b = getattr(out, name)[0].double(), getattr(expected, name)
        counts = sure if a.ndim == 2 else sure[..., None]
        if name == "depth":  # a mean over what is seen: judged by its share of the pixel
            a, b = a * out.alpha[0], b * expected.alpha
        found[name] = float(((a - b).detach().abs() * counts).max()) if a.numel() else 0.0
        weight = torch.randn(a.shape, generator=weights, dtype=torch.float64) * counts
        losses.append(((a * weight).sum(), (b * weight).sum()))
    if more:
        found["group"] = float((out.group[0] != expected.group)[sure].sum())
    sum(a for a, _ in losses).backward()
    sum(b for _, b in losses).backward()
    for name, a, b in zip(INPUTS, ours, theirs, strict=True):
        grad, wanted = a.grad.double()[..., :16], b.grad[..., :16]
        found[f"by {name}"] = float((grad - wanted).norm() / (wanted.norm() + 1e-6))
    return found


def hold(found: dict[str, float], picture: float = 1e-5) -> None:
    for name, value in found.items():
        assert value <= (1e-4 if name.startswith("by ") else picture), (name, value, found)


@KINDS
@pytest.mark.parametrize("seed", range(3))
def test_random_scenes_agree(flat: bool, seed: int) -> None:
    hold(compared(random_scene(200, seed), flat))


@KINDS
def test_bent_lenses_agree_and_pass_gradients_to_their_coefficients(flat: bool) -> None:
    hold(compared(random_scene(150, 7), flat, BENT))


@KINDS
@pytest.mark.parametrize("bands", [1, 4, 9])
def test_lower_degrees_agree(flat: bool, bands: int) -> None:
    hold(compared(random_scene(60, 9, bands), flat, more=False))


@KINDS
@pytest.mark.parametrize("name", sorted(nasty_scenes()))
def test_nasty_scenes_agree(flat: bool, name: str) -> None:
    # Thin discs that reach behind the camera: s and t run to 1e4 inside a tile, which float32 holds to 1e-3.
    hold(compared(nasty_scenes()[name], flat), picture=1e-4 if flat and name == "needles" else 1e-5)


@KINDS
def test_colours_alone_are_the_colours_of_the_full_picture(flat: bool) -> None:
    scene = random_scene(100, 11)
    few = render(scene, T_camera_world()[None], lens()[None], T_world_group(), Settings(flat))
    all_ = render(scene, T_camera_world()[None], lens()[None], T_world_group(), Settings(flat, more=True))
    assert torch.equal(few.colour, all_.colour)
    assert torch.equal(few.alpha, all_.alpha)
    assert few.depth is None
