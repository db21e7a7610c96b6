"""Splats on a GPU: a training step against bare gsplat, and pictures of many worlds. python -m bench.splat_gpu OUT.json

Needs CUDA. Scenes are made here: no data of ours travels to that machine.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

from twinproof.nouns.rig import Intrinsics
from twinproof.nouns.splats import Splats, joined
from twinproof.nouns.views import PosedView, Views
from twinproof.reconstruct.splat_fit import _begin
from twinproof.reconstruct.splat_recipe import Growth, Recipe
from twinproof.sim.render_camera import Lens
from twinproof.sim.splat.worlds import SplatWorlds


def room(count: int, seed: int = 0) -> Splats:
    """A closed room of 6 × 5 × 3 m with a table: splats on its surfaces, two deep on average."""
    rng = np.random.default_rng(seed)
    size = np.array([6.0, 5.0, 3.0])
    points = rng.uniform(0, 1, (count, 3)) * size
    face = rng.integers(0, 7, count)
    for k in range(6):
        points[face == k, k // 2] = size[k // 2] * (k % 2)
    table = face == 6
    points[table] = rng.uniform([2, 1.5, 0.74], [4, 3.5, 0.76], (table.sum(), 3))
    area = 2 * (30 + 18 + 15) / 6 / (count / 7)
    scales = np.sqrt(area / 3) * np.exp(rng.normal(0, 0.4, (count, 3)))
    opacity = rng.uniform(0.1, 0.95, count)
    sh = rng.normal(0, 0.6, (count, 1, 3))
    return Splats(
        points, rng.normal(size=(count, 4)), np.log(scales), np.log(opacity / (1 - opacity)), sh, np.zeros(count, int)
    )


def looking(at: np.ndarray, eye: np.ndarray) -> np.ndarray:
    """T_world_camera of a camera at `eye` that looks at `at`, z up."""
    z = (at - eye) / np.linalg.norm(at - eye)
    x = np.cross(z, [0, 0, 1])
    x /= np.linalg.norm(x)
    pose = np.eye(4)
    pose[:3] = np.stack([x, np.cross(z, x), z, eye], -1)
    return pose


def timed(work, repeat: int = 50, warm: int = 10) -> float:
    """Median seconds of a call, the device waited for."""
    for _ in range(warm):
        work()
    times = []
    for _ in range(repeat):
        torch.cuda.synchronize()
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def training(count: int = 100_000, width: int = 640, height: int = 480) -> dict[str, float]:
    """A whole step of our fit against gsplat's own forward and backward of the same scene, in turns."""
    import gsplat

    splats = room(count)
    pose = looking(np.array([3.0, 2.5, 0.8]), np.array([0.7, 0.6, 1.6]))
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 255, (height, width, 3), np.uint8)
    views = Views(
        tuple(PosedView(f"{k}", picture, Intrinsics(525, 525, 319.5, 239.5), pose + 0.0) for k in range(3)),
        splats.means, rng.integers(0, 255, (count, 3), np.uint8),
    )  # fmt: skip
    recipe = Recipe(iterations=10**6, sizes=((0.0, 1),), degree=0, growth=Growth(most=count, until=0.0))
    run = _begin(views, recipe, 0, "cuda", 0, None)
    device = {name: value.detach().clone().requires_grad_() for name, value in run.state.values.items()}
    view = torch.tensor(np.linalg.inv(pose), device="cuda", dtype=torch.float32)[None]
    K = torch.tensor([[525, 0, 320], [0, 525, 240], [0, 0, 1.0]], device="cuda")[None]
    upstream = torch.randn(1, height, width, 3, device="cuda")

    def bare() -> None:
        scales, opacity = device["log_scales"].exp(), torch.sigmoid(device["logits"])
        colour = device["sh0"][:, 0]
        picture, _, _ = gsplat.rasterization(
            device["means"], device["quats"], scales, opacity, colour, view, K, width, height, packed=False
        )
        (picture * upstream).sum().backward()

    times = {"bare": [], "step": []}
    for _ in range(3):
        times["bare"].append(timed(bare))
        times["step"].append(timed(run.step))
    return {
        "bare gsplat forward + backward, ms": 1e3 * min(times["bare"]),
        "whole step of the fit, ms": 1e3 * min(times["step"]),
        "ratio": min(times["step"]) / min(times["bare"]),
    }


def worlds(count: int = 1024, size: int = 128) -> dict[str, float]:
    """Pictures of many worlds: background of 100,000 splats, a robot of 8 links and an object move in each."""
    import gsplat

    rng = np.random.default_rng(0)
    background = room(100_000)
    parts = []
    for k in range(9):
        points = rng.normal((3.0 + 0.1 * (k - 4), 2.5, 0.9 + 0.05 * k), 0.06, (1000, 3))
        parts.append(
            Splats(points, rng.normal(size=(1000, 4)), np.full((1000, 3), np.log(0.012)), np.full(1000, 2.0),
                   rng.normal(0, 0.6, (1000, 1, 3)), np.zeros(1000, int), (f"part{k}",))
        )  # fmt: skip
    splats = joined([background, *parts])
    lens = Lens(size, size, 0.9 * size, 0.9 * size, (size - 1) / 2, (size - 1) / 2)
    stage = SplatWorlds(splats, splats.groups[1:], lens)
    centre = np.array([3.0, 2.5, 0.8])
    fixed = torch.tensor(np.linalg.inv(looking(centre, np.array([1.5, 1.2, 1.7]))), device="cuda")[None]
    moves = torch.eye(4, device="cuda").repeat(count, 9, 1, 1)
    moves[:, :, :3, 3] = 0.1 * torch.randn(count, 9, 3, device="cuda")
    eyes = [looking(centre, np.array([1.5, 1.2, 1.7]) + rng.normal(0, 0.2, 3)) for _ in range(count)]
    cameras = torch.tensor(np.linalg.inv(np.stack(eyes)), device="cuda", dtype=torch.float32)
    backdrop = stage.fixed(fixed)
    whole = stage._whole
    K = stage._K.expand(count, 3, 3).contiguous()

    def bare() -> None:
        with torch.no_grad():
            gsplat.rasterization(
                whole.means, whole.quats, whole.scales, whole.opacity, whole.colour, cameras, K, size, size, packed=True
            )

    rates = {
        "fixed cameras": count / timed(lambda: stage.over(backdrop, moves), 10, 3),
        "moving cameras": count / timed(lambda: stage.moved(cameras, moves), 10, 3),
        "bare gsplat, background alone": count / timed(bare, 10, 3),
    }
    with torch.no_grad():
        full = stage._drawn([(whole, cameras[:64])], depth=False)[0]
        few = stage._drawn([(stage._plain, cameras[:64])], depth=False)[0]
    error = ((full - few) ** 2).mean()
    return {f"{name}, frames/s": rate for name, rate in rates.items()} | {
        "splats of the simplified background": len(stage._plain.means),
        "simplified against whole background, PSNR dB": float(-10 * torch.log10(error)),
    }


def main() -> None:
    result = {"device": torch.cuda.get_device_name(), "training": training(), "worlds": worlds()}
    print(json.dumps(result, indent=1))
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
