"""Views for a splat scene: the pictures, poses and points of a COLMAP model or a transforms.json, decoded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from twinproof.ingest.axes_check import check_axes
from twinproof.ingest.colmap import is_colmap, model_folder, read_colmap
from twinproof.ingest.picture_feed import PICTURES
from twinproof.ingest.picture_planes import Masks, decoded, depth_of
from twinproof.ingest.posed import Posed, PosedImages
from twinproof.ingest.sparse_points import SparsePoints, read_point_cloud, read_points3d
from twinproof.ingest.transforms import FILE, is_transforms, read_transforms
from twinproof.nouns.errors import SplatError
from twinproof.nouns.files import inside
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.rig import Intrinsics, Mount
from twinproof.nouns.views import PosedView, Views
from twinproof.sim.depth_points import depth_points

FEWEST = 3
SHOWN = 5  # names in a note
OPAQUE = 128  # pixels with less alpha do not count


def posed_views(folder: Path, longest_px: int | None = None, progress: Progress = quiet) -> Views:
    """The views of a folder with a COLMAP model or a transforms.json, by name; its points where it has some.

    Pictures may differ in size. With `longest_px`, larger ones are made smaller, and their intrinsics with them.
    Pixels that are transparent or masked out do not count (mask -1; `picture_planes` says where masks and depth lie).
    What was left out stands in `notes`.
    """
    if not is_transforms(folder) and not is_colmap(folder):
        raise SplatError(
            f"{folder} holds neither transforms.json nor a COLMAP model (sparse/0/cameras and images). Name the folder "
            "above them; plain pictures need structure from motion first."
        )
    model = read_transforms(folder) if is_transforms(folder) else read_colmap(folder)
    if len(model.images) < FEWEST:
        raise SplatError(
            f"{folder}: {len(model.images)} posed pictures; a scene needs {FEWEST} at least, and 20 or more to look "
            "good. Take more pictures, or register more of them."
        )
    images = sorted(model.images, key=lambda image: image.file)
    _check_files(folder, model, images)
    views = []
    masks = Masks.below(folder, model.pictures)
    for k, image in enumerate(images):
        views.append(_view(model, image, masks, longest_px))
        progress(k + 1, image.file, len(images))
    xyz, rgb, note = _points(folder, model, views)
    notes = (note, *_unposed(model), *_left_out(model), *_masked(views), *check_axes(folder, model.kind, views, xyz))
    return Views(tuple(views), xyz, rgb, masks.groups, notes)


def _check_files(folder: Path, model: PosedImages, images: list[Posed]) -> None:
    missing = [i.file for i in images if not inside(model.pictures, i.file, SplatError).is_file()]
    if missing:
        raise SplatError(
            f"{folder}: {_listed(missing)} of {len(images)} posed pictures missing below {model.pictures}. Restore "
            "them, or remove their poses."
        )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _view(model: PosedImages, image: Posed, masks: Masks, longest_px: int | None) -> PosedView:
    path = model.pictures / image.file
    rgba, has_alpha, stored = decoded(path, longest_px)
    stated = model.sizes.get(image.camera)
    if stated is not None and stated != stored:
        raise SplatError(
            f"{path} is {stored[0]}×{stored[1]}, its camera {image.camera} states {stated[0]}×{stated[1]}. Intrinsics "
            "belong to one picture size: resize neither or both."
        )
    lens = model.intrinsics[image.camera]
    height, width = rgba.shape[:2]
    w, x, y, z = image.quat_wxyz
    px, py, pz = image.position
    pose = Mount(position_m=(px, py, pz), quat_wxyz=(w, x, y, z)).T_parent_camera
    mask = masks.of(image, stored, (width, height))
    clear = rgba[..., 3] < OPAQUE
    if has_alpha and clear.any():
        mask = np.where(clear, -1, 0 if mask is None else mask)
    depth = depth_of(model.pictures, image, stored, (width, height))
    return PosedView(image.file, rgba[..., :3], resized(lens, stored, (width, height)), pose, depth, mask)


def resized(lens: Intrinsics, stored: tuple[int, int], size: tuple[int, int]) -> Intrinsics:
    """The intrinsics of the same picture in another size; the centre of the first pixel stays (0, 0)."""
    if stored == size:
        return lens
    sx, sy = size[0] / stored[0], size[1] / stored[1]
    return replace(lens, fx=lens.fx * sx, fy=lens.fy * sy, cx=(lens.cx + 0.5) * sx - 0.5, cy=(lens.cy + 0.5) * sy - 0.5)


def _points(folder: Path, model: PosedImages, views: list[PosedView]) -> tuple[np.ndarray, np.ndarray, str]:
    """Points and colours of the model, else of the depth pictures, and where they come from in words."""
    points, source = _model_points(folder, model)
    if points is not None and len(points.xyz):
        note = f"{len(points.xyz)} points from {source}" + ("" if points.coloured else ", without colours")
        return points.xyz, points.rgb, note
    xyz, rgb = depth_points(views)
    if len(xyz):
        return xyz, rgb, f"{len(xyz)} points from depth"
    return xyz, rgb, "there are no points: the scene starts from the cameras alone"


def _model_points(folder: Path, model: PosedImages) -> tuple[SparsePoints | None, str]:
    if model.kind == "colmap":
        below = model_folder(folder)
        found = [below / f"points3D{ending}" for ending in (".bin", ".txt") if (below / f"points3D{ending}").is_file()]
        return (read_points3d(found[0]), found[0].name) if found else (None, "")
    name = json.loads((folder / FILE).read_bytes()).get("ply_file_path")
    return (read_point_cloud(inside(folder, str(name), SplatError)), str(name)) if name else (None, "")


def _unposed(model: PosedImages) -> tuple[str, ...]:
    """Pictures beside the posed ones that the model does not name."""
    named = {(model.pictures / image.file).resolve() for image in model.images}
    beside = sorted(
        path.name
        for folder in {path.parent for path in named}
        for path in folder.iterdir()
        if path.suffix.lower() in PICTURES and path.resolve() not in named
    )
    return (f"{len(beside)} pictures have no pose and are left out: {_listed(beside)}",) if beside else ()


def _left_out(model: PosedImages) -> tuple[str, ...]:
    read = ("points3D", "ply_file_path", "mask_path", "depth_file_path")
    left = [name for name in model.left_out if not any(part in name for part in read)]
    return (f"not looked at: {', '.join(left)}",) if left else ()


def _masked(views: list[PosedView]) -> tuple[str, ...]:
    count = sum(view.mask is not None and bool((view.mask < 0).any()) for view in views)
    return (f"{count} pictures have pixels that do not count (masked or transparent)",) if count else ()
