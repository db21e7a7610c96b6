"""`twinproof splat mesh`: from posed pictures of one object to a closed mesh with its texture, judged on others.

OUT/object.glb     the mesh with its texture;  object.ply  the same with colours on its vertices
OUT/mesh.json      views, size, volume, agreement of outlines in held-out views, what was found and what was assumed
OUT/mesh.png       photographs that were held out, above the mesh from the same places
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from twinproof.nouns.errors import MeshError
from twinproof.nouns.files import new_folder, write_json
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_files import write_mesh
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.views import PosedView, Views
from twinproof.reconstruct.backdrop import GROUPS, OBJECT
from twinproof.reconstruct.shape import Shape, ShapeRecipe, shape_from_masks
from twinproof.reconstruct.texture import Painted, Photo, bake
from twinproof.sim.grid import Plane
from twinproof.sim.mesh_raster import rasterise
from twinproof.sim.render_camera import Camera, Lens, pixel_rays
from twinproof.sim.silhouette import Silhouette

if TYPE_CHECKING:
    from jaxtyping import UInt8

FORMAT = "twinproof/object-mesh/1"
SHOWN = 4  # photographs in the picture
ENOUGH = 6  # views; fewer are all used, and none is held out


@dataclass(frozen=True)
class Meshing:
    """How an object's mesh is made from its masked views."""

    by: Literal["outlines", "colours"] = "outlines"
    shape: ShapeRecipe = ShapeRecipe()
    support: Plane | None = None
    texture_px: int = 1024
    hold_out_every: int = 8


@dataclass(frozen=True, eq=False)
class Made:
    """The shape, its texture, how many views made it, and how well outlines agree in those held out."""

    shape: Shape
    painted: Painted
    used: int
    agreement: dict[str, float]  # view -> intersection over union

    def told(self) -> dict[str, Any]:
        """As plain data. Lengths are in the unit of the cameras' poses."""
        mesh, low = self.shape.mesh, self.shape.mesh.vertices.min(axis=0)
        return {
            "format": FORMAT,
            "views": self.used,
            "faces": len(mesh.faces),
            "closed": mesh.closed,
            "low": low.tolist(),
            "size": np.ptp(mesh.vertices, axis=0).tolist(),
            "volume": self.shape.volume_m3,
            "outlines_iou": self.agreement,
            "seen_share": self.painted.seen_share,
            "notes": list(self.shape.notes),
            "assumed": [*self.shape.declared, *self.painted.declared],
        }


def made_of(views: Views, how: Meshing, progress: Progress = quiet) -> Made:
    """A closed mesh of the group 'object', from views with masks of it."""
    every = how.hold_out_every if len(views) > ENOUGH else 0
    apart = [view for k, view in enumerate(views.views) if every and not k % every]
    used = replace(views, views=tuple(view for view in views.views if view not in apart))
    outlines = [_outline(view) for view in used.views]
    shape = shape_from_masks(outlines, how.shape, support=how.support)
    if how.by == "colours":
        shape = _coloured(used, outlines, shape, how, progress)
    pairs = zip(used.views, outlines, strict=True)
    photos = [Photo(view.rgb, outline.camera, outline.mask == 1) for view, outline in pairs]
    painted = bake(shape.mesh, photos, how.texture_px)
    return Made(shape, painted, len(outlines), {view.name: _iou(shape.mesh, _outline(view)) for view in apart})


def _outline(view: PosedView) -> Silhouette:
    """What a view with a mask of `cut_out` shows of the object."""
    assert view.mask is not None
    own, lens, (height, width) = GROUPS.index(OBJECT), view.intrinsics, view.mask.shape
    camera = Camera(Lens(width, height, lens.fx, lens.fy, lens.cx, lens.cy, lens.distortion), view.T_world_camera)
    return Silhouette(np.where(view.mask < 0, -1, view.mask == own).astype(np.int8), camera)


def _coloured(used: Views, outlines: Sequence[Silhouette], hull: Shape, how: Meshing, progress: Progress) -> Shape:
    """Surfels fitted to the object's colours within its hull: hollows that no outline shows, where there is texture."""
    from twinproof.reconstruct.shape_surfels import object_only, shape_of_surfels

    alone = object_only(used, OBJECT, hull.mesh)
    shape, _ = shape_of_surfels(alone, outlines, shape=how.shape, support=how.support, progress=progress)
    return shape


def write(views: Views, how: Meshing, out: Path, progress: Progress = quiet) -> Made:
    """Makes the mesh and writes everything into a new folder."""
    if out.exists():
        raise MeshError(f"{out} exists. Nothing is overwritten: name another folder, or remove it.")
    made = made_of(views, how, progress)
    with new_folder(out) as folder:
        write_mesh(folder / "object.glb", made.painted.baked)
        write_mesh(folder / "object.ply", made.painted.baked.mesh)
        shown = [view for view in views.views if view.name in made.agreement] or list(views.views)
        _picture(folder / "mesh.png", made.shape.mesh, shown[:SHOWN])
        write_json(folder / "mesh.json", {**made.told(), "notes": [*views.notes, *made.shape.notes]})
    return made


def _iou(mesh: Mesh, outline: Silhouette) -> float:
    mask, drawn = outline.mask, rasterise(mesh, outline.camera).depth_m > 0
    both, either = (drawn & (mask == 1)).sum(), ((drawn | (mask == 1)) & (mask >= 0)).sum()
    return float(both / max(1, either))


def _picture(path: Path, mesh: Mesh, views: Sequence[PosedView]) -> None:
    from matplotlib.image import imsave

    rows = max(len(view.rgb) for view in views)
    columns = [np.vstack([_padded(view.rgb, rows), _padded(_lit(mesh, _outline(view).camera), rows)]) for view in views]
    imsave(path, np.hstack(columns))


def _padded(rgb: UInt8[np.ndarray, "H W 3"], rows: int) -> np.ndarray:
    return np.pad(rgb, ((0, rows - len(rgb)), (0, 0), (0, 0)))


def _lit(mesh: Mesh, camera: Camera) -> UInt8[np.ndarray, "H W 3"]:
    """The mesh lit from the camera."""
    seen = rasterise(mesh, camera)
    corners = mesh.vertices[mesh.faces[seen.face.clip(0)]]
    normal = np.cross(corners[..., 1, :] - corners[..., 0, :], corners[..., 2, :] - corners[..., 0, :])
    normal /= np.maximum(np.linalg.norm(normal, axis=-1, keepdims=True), 1e-30)
    rays = np.dstack([pixel_rays(camera.lens), np.ones(seen.face.shape)]) @ camera.T_world_camera[:3, :3].T
    light = -np.einsum("hwd,hwd->hw", normal, rays) / np.linalg.norm(rays, axis=-1)
    grey = np.where(seen.face >= 0, 40 + 200 * light.clip(0, 1), 0).astype(np.uint8)
    return np.repeat(grey[..., None], 3, axis=2)
