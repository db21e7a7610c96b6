"""What a hand-made place or size of a twin's body decides: how its cameras would see it, its mass, where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import TwinError
from twinproof.nouns.mesh_files import read_mesh
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.splat_files import read_ply
from twinproof.nouns.splats import Splats
from twinproof.nouns.twin import Twin
from twinproof.reconstruct.sensitivity import DeclaredRange, Offset, Sensitivity, study
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.scene import Scene
from twinproof.sim.splat.placed import placed
from twinproof.sim.splat.render import render
from twinproof.sim.world import World

if TYPE_CHECKING:
    from jaxtyping import Float

TOLERANCES = {"lowest_point_m": 0.0005}  # what counts as a move; IoU and mass: one part in a hundred


@dataclass(frozen=True, eq=False)
class _Body:
    """A body as it would be: its surfels in the world, its lowest point, its mass."""

    splats: Splats
    lowest_m: float
    mass_kg: float


def placement_study(
    twin: Twin, body: str, declared: DeclaredRange, steps: int = 5, draws: int = 16, progress: Progress = quiet
) -> Sensitivity:
    """Moves and scales one body through its declared range; the cameras of the twin look on."""
    entry = twin.body(body)
    if entry.splats is None or entry.visual is None or entry.mass_kg is None:
        raise TwinError(
            f"the body {body!r} has no splats, mesh or mass of its own, so nothing about it can be studied."
        )
    T = World(Scene.of(twin)).body_pose(body)
    first, count = entry.splats
    own = placed(read_ply(twin.path("splats.ply")).take(np.arange(first, first + count), (body,)), np.linalg.inv(T))
    mesh, mass = read_mesh(twin.path(entry.visual)), entry.mass_kg
    views = {name: _camera(twin, name) for name, c in twin.cameras.items() if c.mount.parent == "world"}

    def make(offset: Offset) -> _Body:
        pose, size = offset.moved(T), 1 + offset.scale
        return _Body(placed(own, pose, size), float(mesh.moved(pose, size).vertices[:, 2].min()), mass * size**3)

    stated = {name: _outline(make(Offset()).splats, camera) for name, camera in views.items()}

    def figures(made: _Body) -> dict[str, float]:
        seen = {name: _outline(made.splats, camera) for name, camera in views.items()}
        told = {f"iou_{name}": _iou(seen[name], stated[name]) for name in views if stated[name].any()}
        return {**told, "mass_kg": made.mass_kg, "lowest_point_m": made.lowest_m}

    return study(make, figures, declared, TOLERANCES, steps, draws, progress=progress)


def _camera(twin: Twin, name: str) -> Camera:
    camera = twin.cameras[name]
    k = camera.intrinsics
    lens = Lens(camera.width, camera.height, k.fx, k.fy, k.cx, k.cy, k.distortion)
    return Camera(lens, camera.mount.T_parent_camera)


def _outline(splats: Splats, camera: Camera) -> np.ndarray:
    mask: np.ndarray = render(splats, camera, what=("alpha",)).alpha > 0.5
    return mask


def _iou(first: Float[np.ndarray, "H W"], second: Float[np.ndarray, "H W"]) -> float:
    return float((first & second).sum() / max(1, (first | second).sum()))
