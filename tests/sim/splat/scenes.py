"""Small scenes for the splat tests: random ones, and the nasty ones that break rasterisers."""

from __future__ import annotations

import numpy as np
import torch

from twinproof.sim.render_camera import Lens
from twinproof.sim.splat.lens import packed
from twinproof.sim.splat.torch_render import Scene

WIDTH, HEIGHT = 52, 37  # no multiple of the tile
BENT = (0.1, -0.05, 0.003, -0.002, 0.01, 0.02, -0.01, 0.0, 0.001, -0.001, 0.002, 0.001)


def lens(distortion: tuple[float, ...] = (), width: int = WIDTH, height: int = HEIGHT) -> torch.Tensor:
    return torch.from_numpy(
        packed(Lens(width, height, 0.9 * width, 0.92 * width, width / 2 - 0.8, height / 2 + 0.3, distortion))
    )


def T_camera_world() -> torch.Tensor:
    pose = torch.eye(4, dtype=torch.float64)
    pose[:3, :3] = _turn(0.1, -0.2, 0.05)
    pose[2, 3] = 2.0
    return pose


def T_world_group() -> torch.Tensor:
    poses = torch.eye(4, dtype=torch.float64).repeat(2, 1, 1)
    poses[1, :3, :3] = _turn(0.3, 0.1, -0.4)
    poses[1, :3, 3] = torch.tensor([0.1, -0.05, 0.2])
    return poses


def _turn(x: float, y: float, z: float) -> torch.Tensor:
    skew = torch.tensor([[0, -z, y], [z, 0, -x], [-y, x, 0]], dtype=torch.float64)
    return torch.matrix_exp(skew)


def random_scene(count: int = 200, seed: int = 0, bands: int = 16, size: float = 0.06) -> Scene:
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.from_numpy(rng.normal(size=shape).astype(np.float32))

    scales = torch.from_numpy(np.log(rng.uniform(0.005, size, (count, 3))).astype(np.float32))
    group = torch.from_numpy(rng.integers(0, 2, count))
    return Scene(
        normal(count, 3) * 0.5, normal(count, 4), scales, normal(count) * 2, normal(count, bands, 3) * 0.3, group
    )


def _some(count: int, **changed: object) -> Scene:
    return random_scene(count, seed=count, bands=4)._replace(**changed)  # type: ignore[arg-type]


def nasty_scenes() -> dict[str, Scene]:
    """By name: each has what the name says, most beside ordinary splats."""
    many = random_scene(60, seed=5, bands=4)
    behind = many.means.clone()
    behind[::2, 2] = -3.0
    beside = many.means.clone()
    beside[::3] = torch.tensor([3.0, 0.0, -1.9])  # far outside the picture, near the camera's plane
    huge = many.log_scales.clone()
    huge[::6] = 2.0
    needle = many.log_scales.clone()
    needle[:, 0], needle[:, 1:] = 0.5, -5.0  # 40 pixels by a sixth of one
    point = torch.full_like(many.log_scales, -30.0)
    stack = random_scene(1500, seed=6, bands=1)
    crowd = stack.means * torch.tensor([0.001, 0.001, 0.3])
    faint = torch.full_like(stack.logits, -4.0)
    on_border = torch.zeros(40, 3)
    on_border[:, 2] = torch.linspace(-0.2, 0.2, 40)
    edge_on = torch.zeros(30, 4)
    edge_on[:, 0] = edge_on[:, 2] = 0.5**0.5  # the disc's normal lies across the view
    return {
        "behind the camera": many._replace(means=behind),
        "beside the camera": many._replace(means=beside),
        "huge": many._replace(log_scales=huge),
        "needles": many._replace(log_scales=needle),
        "points without extent": many._replace(log_scales=point),
        "all but transparent": many._replace(logits=many.logits - 6),
        "opaque": many._replace(logits=many.logits.abs() + 9),
        "on tile borders": _some(40, means=on_border),
        "seen edge on": _some(30, quats=edge_on),
        "thousands in one pixel": stack._replace(means=crowd, logits=faint),
        "equal depths": _some(50, means=torch.cat([torch.rand(50, 2) - 0.5, torch.zeros(50, 1)], 1)),
        "colours below zero": many._replace(sh=many.sh - 3.0),
        "one": random_scene(1, seed=8),
        "none at all": random_scene(0),
    }
