"""A small box before patterned walls, seen by three cameras: scenes in which an object's pose is planted."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.ndimage import gaussian_filter

from twinproof.nouns.mesh import Mesh
from twinproof.nouns.randomness import stream
from twinproof.nouns.splats import SH0, Splats
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.splat.render import Device, render_many
from twinproof.sim.track_pose import nudged
from twinproof.sim.track_sight import Sight, sight

HALF = np.array([0.028, 0.022, 0.04])
NOISE = 0.012
SIZE = (96, 72)


def box_mesh(half: np.ndarray = HALF) -> Mesh:
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * half
    faces = [[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6], [0, 2, 6],
             [0, 6, 4], [1, 5, 7], [1, 7, 3]]  # fmt: skip
    return Mesh(corners, np.array(faces))


@cache
def thing() -> Splats:
    """Some 250 splats on the box, patched in colours that break its symmetry."""
    from dataclasses import replace

    from twinproof.sim.track_object import surface_splats

    plain = surface_splats(box_mesh(), 0.0075, 0.006)
    rng = stream(3, "thing")
    colours = 0.45 + 0.25 * np.sign(plain.means) * [1, 0.7, -0.6] + rng.normal(0, 0.05, plain.means.shape)
    return replace(plain, sh=((np.clip(colours, 0.05, 0.95) - 0.5) / SH0)[:, None])


@cache
def cameras() -> tuple[Camera, ...]:
    lens = Lens.of_fovy(*SIZE, 30)
    eyes = ((0.75, 0.1, 0.45), (0.0, 0.7, 0.5), (-0.1, -0.6, 0.6))
    return tuple(Camera(lens, looking(np.array(eye), np.array([0.0, 0.0, 0.04]))) for eye in eyes)


@cache
def plates() -> tuple[np.ndarray, ...]:
    made = []
    for k in range(3):
        wall = gaussian_filter(stream(k, "plate").normal(0, 1, (SIZE[1], SIZE[0], 3)), (4, 4, 0))
        made.append((0.5 + 0.1 * wall / wall.std()).astype(np.float32))
    return tuple(made)


def looking(eye: np.ndarray, target: np.ndarray) -> np.ndarray:
    ahead = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(ahead, [0, 0, 1.0])
    right /= np.linalg.norm(right)
    pose = np.eye(4)
    pose[:3] = np.stack([right, np.cross(ahead, right), ahead, eye], axis=1)
    return pose


def standing(x: float = 0.0, y: float = 0.0, yaw: float = 0.0) -> np.ndarray:
    T = np.eye(4)
    T[2, 3] = HALF[2]
    return nudged(T, np.array([x, y, 0, 0, 0, yaw]))


def pictures(
    T: np.ndarray, rng: np.random.Generator, noise: float = NOISE, gains: tuple[float, ...] = (1.0, 1.0, 1.0)
) -> list[np.ndarray]:
    """What the three cameras see of the box at a pose."""
    drawn = render_many(thing(), cameras(), Device(threads=1), moved=[{"object": T}] * 3)
    return [
        gain * (image.colour + (1 - image.alpha[..., None]) * plate) + rng.normal(0, noise, plate.shape)
        for image, plate, gain in zip(drawn, plates(), gains, strict=True)
    ]


def sights(T: np.ndarray, rng: np.random.Generator, **how: object) -> list[Sight]:
    return [
        sight(camera, picture, plate)
        for camera, picture, plate in zip(cameras(), pictures(T, rng, **how), plates(), strict=True)  # type: ignore[arg-type]
    ]
