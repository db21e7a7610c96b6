"""How discs on a mesh are drawn: which look at a camera, how opaque each is, how soft the edges of all come out."""

# mypy: allow-untyped-calls, allow-untyped-defs, allow-incomplete-defs
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from twinproof.nouns.errors import MeshError
from twinproof.reconstruct.surface import COVER, Bound
from twinproof.reconstruct.surface_smooth import crosses
from twinproof.sim.mesh_raster import rasterise
from twinproof.sim.render_camera import Camera
from twinproof.sim.silhouette import Silhouette
from twinproof.sim.splat.lens import packed
from twinproof.sim.splat.torch_render import Scene, Settings

DEPTH = 4.0  # optical depth of the surface: e⁻⁴ of the light passes
REACH_PX = 4  # beyond, discs draw all or nothing


def engine_on(device: str) -> Callable[..., Any]:
    """The rasteriser that draws on a device, called as `torch_render.render`."""
    if torch.device(device).type == "cpu":
        from twinproof.sim.splat.torch_render import render

        return render
    from twinproof.sim.splat.cuda import gsplat
    from twinproof.sim.splat.cuda import render as drawn_there

    gsplat()
    return drawn_there


def towards(scene: Scene, bound: Bound, vertices: Any, T_camera_world: Any, focal_px: float) -> Scene:
    """The discs whose faces look at the camera, as opaque as their number asks for.

    A closed mesh hides the others, but their borders would peep out. However small a disc is, it is drawn as a dot of
    about a pixel: where many share a pixel the nearest would win, and its colour spread over its neighbours behind.
    """
    with torch.no_grad():
        opacity = opacities(bound, vertices, T_camera_world, focal_px)
        keep = opacity > 0
    logits = torch.logit(opacity[keep].clamp(1e-4, 0.98))
    return Scene(*(tensor[keep] for tensor in scene))._replace(logits=logits)


def opacities(bound: Bound, vertices: Any, T_camera_world: Any, focal_px: float) -> Any:
    """For every disc the opacity with which discs like it stop DEPTH of the light together; 0 where it looks away."""
    corners, cross = crosses(vertices, bound.mesh)
    eye = torch.linalg.inv(T_camera_world[0])[:3, 3].to(vertices.dtype)
    ray = eye - corners.mean(dim=1)
    distance = ray.norm(dim=1)
    piece_px = 0.5 * (ray * cross).sum(dim=1) / distance**3 * focal_px**2 / bound.per_face
    # An even triangle's spread is 0.096 of its area along both axes; a dot's is 0.5 px².
    disc_px = torch.maximum(0.096 * COVER**2 * piece_px, torch.full_like(piece_px, 0.5))
    return torch.where(
        piece_px > 0, 1 - torch.exp(-1.15 * DEPTH * piece_px / (2 * np.pi * disc_px)), 0.0
    ).repeat_interleave(bound.per_face)


def edge_drawn(
    bound: Bound, cameras: Sequence[Camera], most: int = 6, device: str = "cpu"
) -> Callable[[np.ndarray], Any]:
    """The alpha that discs on this mesh have at a distance (px) from the exact edge of its silhouette."""
    distances, alphas = [np.zeros(0)], [np.zeros(0)]
    scene, render = bound.scene(bound.vertices.to(device)), engine_on(device)
    for camera in list(cameras)[:: max(1, len(cameras) // most)]:
        exact = (rasterise(bound.mesh, camera).depth_m > 0).astype(np.int8)
        if not exact.any():
            continue
        pose = torch.tensor(np.linalg.inv(camera.T_world_camera), device=device)[None]
        with torch.no_grad():
            drawn = render(scene, pose, torch.tensor(packed(camera.lens))[None], None, Settings(True))
        distance = Silhouette(exact, camera).distance_px()
        near = np.abs(distance) < REACH_PX
        distances.append(distance[near])
        alphas.append(drawn.alpha[0].cpu().numpy()[near])
    distance, alpha = np.concatenate(distances), np.concatenate(alphas)
    places = np.linspace(-REACH_PX, REACH_PX, 4 * REACH_PX + 1)
    which = np.digitize(distance, 0.5 * (places[1:] + places[:-1]))
    profile = np.array([alpha[which == k].mean() if (which == k).any() else np.nan for k in range(len(places))])
    known = np.isfinite(profile)
    if known.sum() < 4:
        raise MeshError("surface: no view sees the mesh that it is to refine. Check that both are in one frame.")
    falling = np.minimum.accumulate(profile[known])
    return lambda px: torch.tensor(np.interp(px, places[known], falling, 1.0, 0.0).astype(np.float32), device=device)
