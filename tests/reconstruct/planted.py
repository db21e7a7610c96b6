"""Pictures of a solid by an independent renderer: colours by place, exact masks and depth."""

from __future__ import annotations

import numpy as np

from tests.sim.shapes import looking
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.rig import Intrinsics
from twinproof.nouns.views import PosedView, Views
from twinproof.sim.mesh_raster import rasterise
from twinproof.sim.render_camera import Camera, Lens


def shade(points: np.ndarray) -> np.ndarray:
    """A colour for every place: waves that no two sides share."""
    waves = [np.sin(330 * points[..., 0]), np.sin(290 * points[..., 1] + 1), np.sin(370 * points[..., 2] + 2)]
    return 0.5 + 0.4 * np.stack(waves, axis=-1)


def pictures(mesh: Mesh, count: int, size=(96, 80), distance=0.4, focal=150.0) -> tuple[Views, list[Camera]]:
    """Views from all around: group 1 is the solid."""
    views, cameras = [], []
    lens = Lens(*size, focal, focal, (size[0] - 1) / 2, (size[1] - 1) / 2)
    for k in range(count):
        turn, tilt = k * np.pi * (3 - np.sqrt(5)), np.arcsin(1 - (2 * k + 1) / count)
        eye = distance * np.array([np.cos(turn) * np.cos(tilt), np.sin(turn) * np.cos(tilt), np.sin(tilt)])
        camera = Camera(lens, looking(eye))
        seen = rasterise(mesh, camera)
        where = np.einsum("hwc,hwcd->hwd", seen.weights, mesh.vertices[mesh.faces[seen.face.clip(0)]])
        colour = np.where(seen.face[..., None] >= 0, shade(where), 0.1)
        views.append(
            PosedView(
                f"view_{k}", np.round(255 * colour).astype(np.uint8), Intrinsics(lens.fx, lens.fy, lens.cx, lens.cy),
                camera.T_world_camera, seen.depth_m, (seen.face >= 0).astype(np.int32),
            )
        )  # fmt: skip
        cameras.append(camera)
    return Views(tuple(views), groups=("background", "thing")), cameras
