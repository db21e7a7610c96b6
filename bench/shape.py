"""Shapes: Chamfer, volume, decomposition and time on scanned objects, the dino ring and the red kitchen.

OMP_NUM_THREADS=1 python -m bench.shape objects --views 24
OMP_NUM_THREADS=1 python -m bench.shape refine
OMP_NUM_THREADS=1 python -m bench.shape surfels
OMP_NUM_THREADS=1 python -m bench.shape dino --picture dino.png
OMP_NUM_THREADS=1 python -m bench.shape kitchen
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bench.sections import run_sections
from bench.shape_scene import (
    DINO_BOX,
    GSO,
    depth_of,
    dino_views,
    kitchen_maps,
    object_views,
    silhouettes_of,
    true_mesh,
)  # fmt: skip

from twinproof.nouns.mesh import Mesh
from twinproof.nouns.views import Views
from twinproof.reconstruct.collision import Decomposing, convex_parts
from twinproof.reconstruct.gap import chamfer_m, collision_gap, volume_error
from twinproof.reconstruct.mesh_mend import meshed, simplified
from twinproof.reconstruct.shape import Shape, ShapeRecipe, shape_from_depth, shape_from_masks
from twinproof.sim.fusion import DepthMap, fuse
from twinproof.sim.grid import Grid, Plane
from twinproof.sim.mesh_raster import rasterise
from twinproof.sim.render_camera import Camera, pixel_rays


def timed(make: Callable[[], Any]) -> tuple[Any, float, float]:
    """What comes out, seconds by the clock and CPU-seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    made = make()
    return made, time.perf_counter() - wall, time.process_time() - cpu


def volume_above_percent(found: Mesh, true: Mesh, height_m: float) -> float:
    """The error of the volume above a height: without what lies on the table and nobody saw."""
    import manifold3d

    volumes = [
        manifold3d.Manifold(manifold3d.Mesh(mesh.vertices.astype(np.float32), mesh.faces.astype(np.uint32)))
        .trim_by_plane((0.0, 0.0, 1.0), height_m)
        .volume()
        for mesh in (found, true)
    ]
    return 100 * (volumes[0] / volumes[1] - 1)


def scored(shape: Shape, true: Mesh, wall: float, cpu: float) -> dict[str, Any]:
    chamfer, p95 = chamfer_m(shape.mesh, true)
    return {
        "chamfer_mm": 1000 * chamfer, "p95_mm": 1000 * p95, "volume_percent": 100 * volume_error(shape.mesh, true),
        "volume_above_6_mm_percent": volume_above_percent(shape.mesh, true, 0.006),
        "closed": shape.mesh.closed, "solid": shape.check.solid, "genus": shape.check.genus,
        "faces": len(shape.mesh.faces), "wall_s": wall, "cpu_s": cpu, "notes": shape.notes, "declared": shape.declared,
    }  # fmt: skip


def objects(name: str, count: int) -> dict[str, Any]:
    """A scanned object on a table, 320 × 240, exact masks: hull, depth with and without noise, decomposition."""
    views, cameras = object_views(name, count)
    true, table, masks = true_mesh(name), Plane(), silhouettes_of(views, cameras)
    free = [
        DepthMap(view.depth_m, camera)
        for view, camera in zip(views.views, cameras, strict=True)
        if view.depth_m is not None
    ]
    low, high = true.vertices.min(axis=0) - 0.005, true.vertices.max(axis=0) + 0.005
    ways: dict[str, Callable[[], Shape]] = {
        "masks": lambda: shape_from_masks(masks, support=table),
        "depth and masks": lambda: shape_from_depth(depth_of(views, cameras), silhouettes=masks, support=table),
        "depth (noise 1 mm at 0.45 m) and masks": lambda: shape_from_depth(
            depth_of(views, cameras, noise=0.005), silhouettes=masks, support=table
        ),
        "depth of all, no masks": lambda: shape_from_depth(free, support=Plane(offset_m=0.001), box=(low, high)),
    }
    result: dict[str, Any] = {}
    for way, make in ways.items():
        shape, wall, cpu = timed(make)
        result[way] = scored(shape, true, wall, cpu)
    few, _ = simplified(true, 3000)
    parts, wall, _ = timed(lambda: convex_parts(few, Decomposing(seconds=300)))
    gap = collision_gap(true, parts, 5000)
    result["decomposition of the true mesh"] = {"parts": len(parts), "wall_s": wall, **gap.as_json()}
    return result


def refine_section() -> dict[str, Any]:
    """A ball with a dent, planted: what the descent makes of wrong starts (pictures by a rasteriser of triangles)."""
    from tests.reconstruct.planted import pictures
    from tests.reconstruct.solids import ball, dented, solid

    from twinproof.reconstruct.surface import bind
    from twinproof.reconstruct.surface_refine import Refining, refine, sights_of

    true = solid(dented, voxel=0.002)
    views, _ = pictures(true, 14, size=(160, 128), focal=280.0)
    sights = sights_of(views, "thing")
    hull = shape_from_masks([each.silhouette for each in sights], ShapeRecipe(across=40, faces=2000)).mesh
    starts = {"ball 3 mm too small": simplified(ball(0.047), 2000)[0], "visual hull": hull}
    ways = {
        "masks": [Sight(s.silhouette) for s in sights],
        "masks and colours": [Sight(s.silhouette, s.rgb) for s in sights],
        "masks, colours and depth": sights,
    }
    result: dict[str, Any] = {}
    for start_name, start in starts.items():
        before = {"chamfer_mm": 1000 * chamfer_m(start, true)[0], "volume_percent": 100 * volume_error(start, true)}
        for way, seen in ways.items():
            refined = refine(bind(start, 1, "thing"), seen, Refining())
            after = {
                "chamfer_mm": 1000 * chamfer_m(refined.mesh, true)[0],
                "volume_percent": 100 * volume_error(refined.mesh, true), "cpu_s": refined.cpu_s,
            }  # fmt: skip
            result[f"{start_name}, by {way}"] = {"before": before, "after": after}
    return result


def surfels_section(name: str, count: int, cpu_seconds: float) -> dict[str, Any]:
    """A scanned object from colours and masks alone: surfels, their depth, within the hull."""
    from dataclasses import replace

    from twinproof.reconstruct.shape_surfels import SURFELS, object_only, shape_of_surfels

    views, cameras = object_views(name, count)
    blind = Views(tuple(replace(view, depth_m=None) for view in views.views), groups=views.groups)
    true, table, masks = true_mesh(name), Plane(), silhouettes_of(views, cameras)
    hull = shape_from_masks(masks, ShapeRecipe(across=80), support=table)
    alone = object_only(blind, "object", hull.mesh)
    (shape, splats), wall, cpu = timed(
        lambda: shape_of_surfels(alone, masks, replace(SURFELS, cpu_seconds=cpu_seconds), support=table)
    )
    before = {"chamfer_mm": 1000 * chamfer_m(hull.mesh, true)[0], "volume_percent": 100 * volume_error(hull.mesh, true)}
    return {"hull": before, "surfels": scored(shape, true, wall, cpu), "splats": len(splats)}


def dino(picture: Path | None) -> dict[str, Any]:
    """The visual hull of sixteen views; how well its silhouettes fit those of the pictures."""
    views, cameras = dino_views()
    masks = silhouettes_of(views, cameras)
    recipe = ShapeRecipe(voxel_m=0.0005, faces=40_000)
    shape, wall, cpu = timed(lambda: shape_from_masks(masks, recipe, box=DINO_BOX))
    drawn = [rasterise(shape.mesh, m.camera).depth_m > 0 for m in masks]
    iou = [
        float((d & (m.mask == 1)).sum() / ((d | (m.mask == 1)) & (m.mask >= 0)).sum())
        for d, m in zip(drawn, masks, strict=True)
    ]
    if picture is not None:
        save_shaded(
            shape.mesh, [cameras[k] for k in (0, 4, 8, 12)], [views.views[k].rgb for k in (0, 4, 8, 12)], picture
        )
    return {
        "iou_mean": float(np.mean(iou)), "iou_worst": min(iou), "volume_cm3": 1e6 * shape.volume_m3,
        "extent_mm": np.round(1000 * np.ptp(shape.mesh.vertices, axis=0), 1).tolist(), "faces": len(shape.mesh.faces),
        "closed": shape.mesh.closed, "genus": shape.check.genus, "wall_s": wall, "cpu_s": cpu, "notes": shape.notes,
    }  # fmt: skip


def save_shaded(mesh: Mesh, cameras: list[Camera], pictures: list[np.ndarray], path: Path) -> None:
    """The mesh lit from the camera above the photographs."""
    from PIL import Image

    rows = []
    for camera, photo in zip(cameras, pictures, strict=True):
        seen = rasterise(mesh, camera)
        corners = mesh.vertices[mesh.faces[seen.face.clip(0)]]
        normal = np.cross(corners[..., 1, :] - corners[..., 0, :], corners[..., 2, :] - corners[..., 0, :])
        normal /= np.maximum(np.linalg.norm(normal, axis=-1, keepdims=True), 1e-30)
        rays = np.dstack([pixel_rays(camera.lens), np.ones(seen.face.shape)]) @ camera.T_world_camera[:3, :3].T
        light = -np.einsum("hwd,hwd->hw", normal, rays) / np.linalg.norm(rays, axis=-1)
        grey = np.where(seen.face >= 0, 40 + 200 * light.clip(0, 1), 0).astype(np.uint8)
        rows.append(np.vstack([np.repeat(grey[..., None], 3, axis=2), photo]))
    Image.fromarray(np.hstack(rows)).resize((320 * len(rows), 480)).save(path)


def kitchen(voxel_m: float) -> dict[str, Any]:
    """63 real depth frames in one field: time a frame on one thread, and on two."""
    maps = kitchen_maps()
    low, high = np.array([-2.0, -1.6, 1.0]), np.array([2.1, 1.0, 3.6])
    grid = Grid.over(low, high, voxel_m)
    fuse(grid, maps[:1], 4 * voxel_m, threads=1)
    result: dict[str, Any] = {"voxels_million": float(np.prod(grid.shape) / 1e6)}
    for threads in (1, 2):
        volume, wall, cpu = timed(lambda threads=threads: fuse(grid, maps, 4 * voxel_m, threads=threads))  # type: ignore[misc]
        result[f"{threads} threads, CPU ms a frame"] = 1000 * cpu / len(maps)
        result[f"{threads} threads, wall ms a frame"] = 1000 * wall / len(maps)
    surface, wall, cpu = timed(lambda: meshed(volume.known(4 * voxel_m)))
    result |= {"marching_cubes_cpu_s": cpu, "vertices": len(surface.vertices)}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("objects", "refine", "surfels", "dino", "kitchen"))
    parser.add_argument("--views", type=int, default=24)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    sections: dict[str, dict[str, Callable[[], dict[str, Any]]]] = {
        "objects": {name: (lambda name=name: objects(name, asked.views)) for name in GSO},  # type: ignore[misc]
        "refine": {"planted": refine_section},
        "surfels": {name: (lambda name=name: surfels_section(name, asked.views, 60.0)) for name in GSO},  # type: ignore[misc]
        "dino": {"dino": lambda: dino(asked.picture)},
        "kitchen": {f"{mm} mm": (lambda mm=mm: kitchen(mm / 1000)) for mm in (20, 10)},  # type: ignore[misc]
    }
    result: dict[str, Any] = {}
    run_sections(result, sections[asked.what], asked.json)
    print(json.dumps(result, indent=1, default=str))


if __name__ == "__main__":
    main()
