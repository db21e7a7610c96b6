"""Colours that pull at vertices: each pixel reads the mesh's own colours where its ray meets the mesh.

Discs blend with their neighbours, the nearest most, and so draw a surface's colours a little too far out: pulled by
them, a mesh shrinks. Here no disc takes part: the faces that pixels see are found exactly, a pixel's place on its face
is a smooth function of the corners, and colours stand at the vertices. So only sliding along the texture is felt.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from twinproof.nouns.mesh import Mesh
from twinproof.sim.mesh_raster import rasterise
from twinproof.sim.render_camera import Camera

if TYPE_CHECKING:
    from jaxtyping import Float


def read_colours(
    vertices: Float[torch.Tensor, "V 3"],
    mesh: Mesh,
    shades: Float[torch.Tensor, "V 3"],
    camera: Camera,
    rays: Float[torch.Tensor, "H W 2"],
) -> tuple[np.ndarray, Float[torch.Tensor, "N 3"]]:
    """Which pixels see the mesh (H, W), and their colours in that order; slopes reach vertices and shades.

    `rays` are the camera's, (x, y) of every pixel's (x, y, 1), where the vertices are. Which face a pixel sees is found
    on the CPU, whatever the device.
    """
    seen = rasterise(Mesh(vertices.detach().double().cpu().numpy(), mesh.faces), camera)
    some, device = seen.face >= 0, vertices.device
    faces = torch.tensor(mesh.faces[seen.face[some]], dtype=torch.int64, device=device)
    T = torch.tensor(np.linalg.inv(camera.T_world_camera), dtype=vertices.dtype, device=device)
    corners = vertices[faces] @ T[:3, :3].T + T[:3, 3]
    weights = on_face(corners, rays[torch.tensor(some, device=device)])
    return some, (weights[..., None] * shades[faces]).sum(dim=1)


def on_face(corners: Float[torch.Tensor, "N 3 3"], rays: Float[torch.Tensor, "N 2"]) -> Any:
    """Where the rays (x, y, 1) meet the planes of triangles, as weights of their corners."""
    z = corners[..., 2]
    flat = corners[..., :2] / z[..., None] - rays[:, None]
    a, b, c = flat[:, 0], flat[:, 1], flat[:, 2]
    areas = torch.stack([_cross(b, c), _cross(c, a), _cross(a, b)], dim=1)
    over = areas / z  # areas in the picture are shares of 1 / depth
    total = over.sum(dim=1, keepdim=True)
    return over / torch.where(total.abs() > 1e-20, total, torch.full_like(total, 1e-20))


def _cross(p: Any, q: Any) -> Any:
    return p[:, 0] * q[:, 1] - p[:, 1] * q[:, 0]
