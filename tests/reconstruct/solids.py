"""Solids made by hand: boxes, balls, and a cup that no silhouette shows whole."""

from __future__ import annotations

import numpy as np

from twinproof.nouns.mesh import Mesh
from twinproof.reconstruct.mesh_mend import meshed
from twinproof.sim.grid import Field, Grid

_BOX = np.array([[0, 2, 1], [0, 3, 2], [4, 5, 6], [4, 6, 7], [0, 1, 5], [0, 5, 4],
                 [1, 2, 6], [1, 6, 5], [2, 3, 7], [2, 7, 6], [3, 0, 4], [3, 4, 7]])  # fmt: skip


def box(size=(0.1, 0.06, 0.04), at=(0.0, 0.0, 0.0)) -> Mesh:
    """A box with its centre at a place."""
    x, y, z = np.array(size) / 2
    corners = [[-x, -y, -z], [x, -y, -z], [x, y, -z], [-x, y, -z], [-x, -y, z], [x, -y, z], [x, y, z], [-x, y, z]]
    return Mesh(np.array(corners) + at, _BOX)


def solid(distance, half=0.08, voxel=0.004) -> Mesh:
    """The solid where distance(points) is below 0."""
    grid = Grid.over(np.full(3, -half), np.full(3, half), voxel)
    return meshed(Field(grid, distance(grid.points()).astype(np.float32)))


def ball(radius=0.05, voxel=0.004) -> Mesh:
    """A ball around the origin."""
    return solid(lambda p: np.linalg.norm(p, axis=-1) - radius, voxel=voxel)


def bumpy(points: np.ndarray) -> np.ndarray:
    """A ball with bumps: nothing about it is flat or round."""
    r = np.linalg.norm(points, axis=-1)
    x, y, z = np.moveaxis(points, -1, 0) / 0.05
    return r - 0.045 - 0.006 * np.sin(3 * x) * np.cos(2 * y) * np.cos(2 * z)


def dented(points: np.ndarray) -> np.ndarray:
    """A ball with a dent that no silhouette shows: a bowl of 2 cm in its side."""
    body = np.linalg.norm(points, axis=-1) - 0.05
    return np.maximum(body, 0.03 - np.linalg.norm(points - np.array([0.055, 0.0, 0.0]), axis=-1))
