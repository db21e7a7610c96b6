"""Shapes whose views are known exactly: depth and silhouettes of balls and boxes, by ray casting in numpy."""

from __future__ import annotations

import numpy as np

from twinproof.sim.render_camera import Camera, Lens, pixel_rays

LENS = Lens(96, 80, 110.0, 112.0, 47.3, 39.8)
BENT = Lens(96, 80, 110.0, 112.0, 47.3, 39.8, (0.08, -0.05, 0.002, -0.001))


def looking(eye, at=(0.0, 0.0, 0.0), up=(0.0, 0.0, 1.0)) -> np.ndarray:
    """T_world_camera of a camera at `eye` that looks at a point."""
    ahead = np.subtract(at, eye) / np.linalg.norm(np.subtract(at, eye))
    right = np.cross(ahead, up)
    right /= np.linalg.norm(right)
    pose = np.eye(4)
    pose[:3, :3] = np.stack([right, np.cross(ahead, right), ahead], axis=1)
    pose[:3, 3] = eye
    return pose


def around(count: int, distance=0.5, height=0.25, lens=LENS, at=(0.0, 0.0, 0.0)) -> list[Camera]:
    """Cameras in a ring, every second one lower."""
    cameras = []
    for k in range(count):
        angle = 2 * np.pi * k / count
        place = (distance * np.cos(angle), distance * np.sin(angle), height if k % 2 else -0.4 * height)
        eye = np.add(at, place)
        cameras.append(Camera(lens, looking(eye, at)))
    return cameras


def ball_depth(camera: Camera, centre=(0.0, 0.0, 0.0), radius=0.05) -> np.ndarray:
    """Depth along the axis of a ball's near side, 0 beside it."""
    rays = np.dstack([pixel_rays(camera.lens), np.ones((camera.lens.height, camera.lens.width))])
    T = np.linalg.inv(camera.T_world_camera)
    c = T[:3, :3] @ np.array(centre) + T[:3, 3]
    a, b = (rays**2).sum(axis=-1), rays @ c
    root = b**2 - a * (c @ c - radius**2)
    return np.where(root > 0, (b - np.sqrt(np.maximum(root, 0))) / a, 0.0)
