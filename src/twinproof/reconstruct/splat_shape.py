"""What a fit knows of the shape beside colours: measured depth, and normals that agree with the depth they stand on."""

from __future__ import annotations

import numpy as np
import torch

from twinproof.sim.render_camera import Lens, pixel_rays
from twinproof.sim.splat.torch_render import Rendered

SOLID = 0.5  # of alpha; below it a pixel's depth says little


def depth_loss(image: Rendered, measured_m: np.ndarray) -> torch.Tensor:
    """Mean relative error of the expected depth where it was measured and something solid is drawn."""
    assert image.depth is not None
    known = torch.tensor(measured_m, device=image.depth.device)  # a copy: views are read-only
    counts = (known > 0) & (image.alpha[0] > SOLID)
    miss = (image.depth[0] - known).abs() / known.clamp(min=0.1)
    total: torch.Tensor = (miss * counts).sum() / counts.sum().clamp(min=1)
    return total


def normal_loss(image: Rendered, lens: Lens) -> torch.Tensor:
    """Mean of 1 - cosine between the drawn normals and those of the surface that the drawn depth makes (2DGS)."""
    assert image.depth is not None
    assert image.normal is not None
    depth = image.depth[0]
    rays = torch.tensor(pixel_rays(lens), dtype=depth.dtype, device=depth.device)
    points = torch.cat([rays, torch.ones_like(rays[..., :1])], -1) * depth[..., None]
    across, down = points[1:-1, 2:] - points[1:-1, :-2], points[2:, 1:-1] - points[:-2, 1:-1]
    slope = torch.nn.functional.normalize(torch.linalg.cross(down, across), dim=-1)  # towards the camera
    drawn = torch.nn.functional.normalize(image.normal[0, 1:-1, 1:-1], dim=-1)
    solid = image.alpha[0] > SOLID
    counts = solid[1:-1, 1:-1] & solid[1:-1, 2:] & solid[1:-1, :-2] & solid[2:, 1:-1] & solid[:-2, 1:-1]
    total: torch.Tensor = ((1 - (slope * drawn).sum(-1)) * counts).sum() / counts.sum().clamp(min=1)
    return total
