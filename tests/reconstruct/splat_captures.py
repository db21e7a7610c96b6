"""A small capture whose truth is known: a coloured cloud seen from a ring of cameras."""

from __future__ import annotations

import numpy as np

from twinproof.nouns.rig import Intrinsics
from twinproof.nouns.splats import SH0, Splats
from twinproof.nouns.views import PosedView, Views
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.splat.render import render

SIZE = (48, 40)
INTRINSICS = Intrinsics(45.0, 45.0, 23.5, 19.5)


def truth(seed: int = 0, count: int = 150) -> Splats:
    rng = np.random.default_rng(seed)
    colour = rng.uniform(0.1, 0.9, (count, 1, 3))
    scales = np.log(rng.uniform(0.04, 0.12, (count, 3)))
    opacity = np.full(count, 3.0)
    means = rng.uniform(-0.5, 0.5, (count, 3))
    return Splats(means, rng.normal(size=(count, 4)), scales, opacity, (colour - 0.5) / SH0, np.zeros(count, int))


def pose(angle: float) -> np.ndarray:
    """T_world_camera on a ring of 1.6 m, looking at the middle."""
    eye = np.array([1.6 * np.cos(angle), 1.6 * np.sin(angle), 0.5])
    z = -eye / np.linalg.norm(eye)
    x = np.cross(z, [0, 0, 1])
    x /= np.linalg.norm(x)
    T = np.eye(4)
    T[:3] = np.stack([x, np.cross(z, x), z, eye], -1)
    return T


def capture(count: int = 12, gains: bool = False, depth: bool = False, split_at: float | None = None) -> Views:
    """Views of the truth; with `gains` each second one is darker; with `split_at` masks name two groups by height."""
    scene, views = truth(), []
    for k in range(count):
        camera = Camera(Lens(*SIZE, 45.0, 45.0, 23.5, 19.5), pose(2 * np.pi * k / count))
        image = render(scene, camera, what=("colour", "median"))
        rgb = np.clip(image.over((0.0, 0.0, 0.0)) * (0.7 if gains and k % 2 else 1.0), 0, 1)
        mask = None
        if split_at is not None:
            rows, columns = np.indices(image.alpha.shape)
            local = (
                np.stack([(columns - 23.5) / 45, (rows - 19.5) / 45, np.ones(rows.shape)], -1) * image.median[..., None]
            )
            height = (local @ camera.T_world_camera[:3, :3].T + camera.T_world_camera[:3, 3])[..., 2]
            mask = np.where(image.median > 0, (height > split_at).astype(int), 0)
        views.append(
            PosedView(
                f"view_{k:02d}", (rgb * 255 + 0.5).astype(np.uint8), INTRINSICS, camera.T_world_camera,
                image.median if depth else None, mask,
            )
        )  # fmt: skip
    points = scene.means + np.random.default_rng(1).normal(0, 0.02, scene.means.shape)
    groups = ("low", "high") if split_at is not None else ("background",)
    return Views(tuple(views), points, np.full(points.shape, 128, np.uint8), groups)
