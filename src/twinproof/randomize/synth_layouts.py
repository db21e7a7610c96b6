"""Labelled pictures in the layouts that perception is trained from: BOP for 6-D poses, COCO for boxes and masks.

models/models_info.json, obj_000001.ply        one model for each object, in mm, in the body's frame
train/000000/                                  a thousand pictures each
  rgb/000000.png  depth/000000.png             depth in 16 bits: 1 is `depth_scale` mm; 0 is no reading
  mask/000000_000000.png  mask_visib/…         picture and object: the whole outline, and what is seen of it
  scene_camera.json  scene_gt.json  scene_gt_info.json
instances.json                                 COCO: boxes and run lengths of what is seen; paths from this folder
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.errors import TwinError
from twinproof.nouns.files import write_json, write_whole
from twinproof.nouns.hashing import Json
from twinproof.nouns.pictures import png_bytes
from twinproof.randomize.synth_shot import Set, Shot
from twinproof.sim.parameters.base import names
from twinproof.sim.tessellate import SOLID, geom_triangles

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

PER_SCENE = 1000
DEPTH_SCALE = 1.0  # mm for one count
FARTHEST_M = 65.535 * DEPTH_SCALE
EDGE_M = 0.02
NOWHERE = [-1, -1, -1, -1]


def scene_folder(root: Path, number: int) -> Path:
    """Where the picture of a number lies."""
    return root / "train" / f"{number // PER_SCENE:06d}"


def write_shot(root: Path, shot: Shot) -> Json:
    """Writes a picture's files, and gives what the tables say of it."""
    folder, name = scene_folder(root, shot.number), f"{shot.number % PER_SCENE:06d}"
    for kind in ("rgb", "depth", "mask", "mask_visib"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    write_whole(folder / "rgb" / f"{name}.png", png_bytes(shot.rgb))
    counts = np.where(shot.depth_m > FARTHEST_M, 0.0, shot.depth_m * 1e3 / DEPTH_SCALE)  # further: no reading
    write_whole(folder / "depth" / f"{name}.png", png_bytes(np.round(counts).astype(np.uint16)))
    for k, seen in enumerate(shot.objects):
        for kind, mask in (("mask", seen.whole), ("mask_visib", seen.visible)):
            write_whole(folder / kind / f"{name}_{k:06d}.png", png_bytes(np.where(mask, 255, 0).astype(np.uint8)))
    return {
        "number": shot.number,
        "camera_name": shot.camera,
        "size": [shot.lens.width, shot.lens.height],
        "camera": _camera(shot),
        "gt": [_pose(k + 1, seen.T_camera_object) for k, seen in enumerate(shot.objects)],
        "gt_info": [_info(seen.whole, seen.visible, shot.depth_m) for seen in shot.objects],
        "coco": [_instance(k + 1, seen.visible) for k, seen in enumerate(shot.objects) if seen.visible.any()],
        "theta": dict(shot.theta),
    }


def _camera(shot: Shot) -> Json:
    T, lens = np.linalg.inv(shot.T_world_camera), shot.lens
    return {
        "cam_K": [lens.fx, 0.0, lens.cx, 0.0, lens.fy, lens.cy, 0.0, 0.0, 1.0],
        "cam_R_w2c": T[:3, :3].reshape(-1).tolist(),
        "cam_t_w2c": (1e3 * T[:3, 3]).tolist(),
        "depth_scale": DEPTH_SCALE,
    }


def _pose(number: int, T: Float[np.ndarray, "4 4"]) -> Json:
    return {"obj_id": number, "cam_R_m2c": T[:3, :3].reshape(-1).tolist(), "cam_t_m2c": (1e3 * T[:3, 3]).tolist()}


def _info(whole: Bool[np.ndarray, "H W"], visible: Bool[np.ndarray, "H W"], depth_m: np.ndarray) -> Json:
    every, seen = int(whole.sum()), int(visible.sum())
    return {
        "bbox_obj": box(whole),
        "bbox_visib": box(visible),
        "px_count_all": every,
        "px_count_valid": int((whole & (depth_m > 0)).sum()),
        "px_count_visib": seen,
        "visib_fract": seen / every if every else 0.0,
    }


def box(mask: Bool[np.ndarray, "H W"]) -> list[int]:
    """Left, top, width and height of a mask; -1 throughout where it is empty."""
    if not mask.any():
        return NOWHERE
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return [int(columns[0]), int(rows[0]), int(columns[-1] - columns[0] + 1), int(rows[-1] - rows[0] + 1)]


def _instance(category: int, visible: Bool[np.ndarray, "H W"]) -> Json:
    return {
        "category_id": category,
        "bbox": box(visible),
        "area": int(visible.sum()),
        "iscrowd": 0,
        "segmentation": {"size": list(visible.shape), "counts": run_lengths(visible)},
    }


def run_lengths(mask: Bool[np.ndarray, "H W"]) -> list[int]:
    """COCO's run lengths: column by column, the first run is of zeros."""
    flat = mask.T.reshape(-1)
    edges = np.flatnonzero(np.diff(flat)) + 1
    bounds = np.r_[0, edges, len(flat)]
    found = np.diff(bounds).tolist()
    return [0, *found] if flat[0] else found


def mask_of(size: Sequence[int], counts: Sequence[int]) -> Bool[np.ndarray, "H W"]:
    """The mask of run lengths."""
    values = np.repeat(np.arange(len(counts)) % 2 == 1, counts)
    return np.asarray(values.reshape(size[1], size[0]).T)


def write_tables(root: Path, made: Set, records: Sequence[Mapping[str, Any]]) -> None:
    """The tables of all pictures, and the objects' models."""
    scenes: dict[Path, list[Mapping[str, Any]]] = {}
    for record in records:
        scenes.setdefault(scene_folder(root, record["number"]), []).append(record)
    for folder, mine in scenes.items():
        for table, key in (("scene_camera", "camera"), ("scene_gt", "gt"), ("scene_gt_info", "gt_info")):
            write_json(folder / f"{table}.json", {str(r["number"] % PER_SCENE): r[key] for r in mine})
    write_json(root / "instances.json", _coco(made, records))
    _models(root / "models", made)


def _coco(made: Set, records: Sequence[Mapping[str, Any]]) -> Json:
    images, found = [], list[Json]()
    for record in records:
        number = int(record["number"])
        path = f"train/{number // PER_SCENE:06d}/rgb/{number % PER_SCENE:06d}.png"
        images.append({"id": number, "file_name": path, "width": record["size"][0], "height": record["size"][1]})
        poses = {each["obj_id"]: each for each in record["gt"]}
        for each in record["coco"]:
            pose = {name: poses[each["category_id"]][name] for name in ("cam_R_m2c", "cam_t_m2c")}
            found.append({"id": len(found) + 1, "image_id": number, **each, **pose})
    categories = [{"id": k + 1, "name": name} for k, name in enumerate(made.objects)]
    info = {"description": f"drawn by twinproof from twin {made.twin.hash[:16]}", "version": "1"}
    return {"info": info, "licenses": [], "images": images, "annotations": found, "categories": categories}


def _models(folder: Path, made: Set) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    info: dict[str, Json] = {}
    for k, body in enumerate(made.objects):
        triangles = 1e3 * surface(made.model, body)
        points, faces = np.unique(triangles.reshape(-1, 3), axis=0, return_inverse=True)
        write_whole(folder / f"obj_{k + 1:06d}.ply", _ply(points, faces.reshape(-1, 3)))
        low, size = points.min(axis=0), np.ptp(points, axis=0)
        info[str(k + 1)] = {
            "name": body,
            "diameter": _diameter(points),
            **{f"min_{axis}": float(low[i]) for i, axis in enumerate("xyz")},
            **{f"size_{axis}": float(size[i]) for i, axis in enumerate("xyz")},
        }
    write_json(folder / "models_info.json", info)


def surface(model: Any, body: str) -> Float[np.ndarray, "F 3 3"]:
    """The drawn surface of a body's own geoms, in its frame."""
    from scipy.spatial.transform import Rotation

    found = []
    for geom in np.flatnonzero(model.geom_bodyid == names(model, "body").index(body)):
        if int(model.geom_type[geom]) in SOLID and model.geom_group[geom] <= 2:
            turn = Rotation.from_quat(np.roll(np.array(model.geom_quat[geom]), -1)).as_matrix()
            found.append(geom_triangles(model, int(geom), EDGE_M) @ turn.T + np.array(model.geom_pos[geom]))
    if not found:
        raise TwinError(f"the object {body!r} has no geom that is drawn, so it has no model. Give it a visual geom.")
    return np.concatenate(found)


def _diameter(points: np.ndarray) -> float:
    """The largest distance between two points, over corners of the hull."""
    from scipy.spatial import ConvexHull, QhullError
    from scipy.spatial.distance import pdist

    try:
        corners = points[ConvexHull(points).vertices]
    except QhullError:  # flat
        corners = points
    return float(pdist(corners).max())


def _ply(points: np.ndarray, faces: np.ndarray) -> bytes:
    head = (
        f"ply\nformat ascii 1.0\nelement vertex {len(points)}\nproperty float x\nproperty float y\nproperty float z\n"
        f"element face {len(faces)}\nproperty list uchar int vertex_indices\nend_header\n"
    )
    rows = [" ".join(f"{v:.5f}" for v in point) for point in points]
    rows += [f"3 {a} {b} {c}" for a, b, c in faces]
    return (head + "\n".join(rows) + "\n").encode()
