"""Views for a splat scene: the pictures, poses and points of a COLMAP model or a transforms.json, decoded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.ingest.axes_check import check_axes
from twinproof.ingest.colmap import is_colmap, model_folder, read_colmap
from twinproof.ingest.picture_feed import PICTURES
from twinproof.ingest.posed import Posed, PosedImages
from twinproof.ingest.sparse_points import SparsePoints, read_point_cloud, read_points3d
from twinproof.ingest.transforms import FILE, is_transforms, read_transforms
from twinproof.nouns.errors import SplatError
from twinproof.nouns.files import inside
from twinproof.nouns.pictures import picture_head
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.rig import Intrinsics, Mount
from twinproof.nouns.views import PosedView, Views

FEWEST = 3
SHOWN = 5  # names in a note
OPAQUE = 128  # pixels with less alpha do not count


def posed_views(folder: Path, longest_px: int | None = None, progress: Progress = quiet) -> Views:
    """The views of a folder with a COLMAP model or a transforms.json, by name; its points where it has some.

    Pictures may differ in size. With `longest_px`, larger ones are made smaller, and their intrinsics with them.
    Pixels that are transparent do not count (mask -1). What was left out stands in `notes`.
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
    for k, image in enumerate(images):
        views.append(_view(model, image, longest_px))
        progress(k + 1, image.file, len(images))
    points, notes = _points(folder, model)
    notes = (*notes, *_unposed(model), *_left_out(model), *_transparent(views))
    xyz = points.xyz if points is not None else np.zeros((0, 3))
    notes = (*notes, *check_axes(folder, model.kind, views, xyz))
    return Views(tuple(views), xyz, points.rgb if points is not None else np.zeros((0, 3), np.uint8), notes=notes)


def _check_files(folder: Path, model: PosedImages, images: list[Posed]) -> None:
    missing = [i.file for i in images if not inside(model.pictures, i.file, SplatError).is_file()]
    if missing:
        raise SplatError(
            f"{folder}: {_listed(missing)} of {len(images)} posed pictures missing below {model.pictures}. Restore "
            "them, or remove their poses."
        )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _view(model: PosedImages, image: Posed, longest_px: int | None) -> PosedView:
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
    clear = rgba[..., 3] < OPAQUE
    mask = np.where(clear, -1, 0) if has_alpha and clear.any() else None
    return PosedView(image.file, rgba[..., :3], resized(lens, stored, (width, height)), pose, mask=mask)


def decoded(path: Path, longest_px: int | None = None) -> tuple[np.ndarray, bool, tuple[int, int]]:
    """A picture file as RGBA, made smaller where its longer side exceeds `longest_px`; alpha?; its stored size."""
    import av
    from av.video.reformatter import Interpolation

    data = path.read_bytes()
    head = picture_head(data, str(path))
    try:
        codec: Any = av.CodecContext.create(head.codec, "r")
        frames = [*codec.decode(av.Packet(data)), *codec.decode(None)]
    except (av.error.FFmpegError, OSError, ValueError) as problem:
        raise SplatError(f"{path} does not decode ({problem}). Restore it, or remove its pose.") from None
    if not frames:
        raise SplatError(f"{path} holds no picture. Restore it, or remove its pose.")
    frame = frames[0]
    stored = (int(frame.width), int(frame.height))
    share = min(1.0, longest_px / max(stored)) if longest_px is not None else 1.0
    width, height = (max(1, round(side * share)) for side in stored)
    has_alpha = any(component.is_alpha for component in frame.format.components) or "pal" in frame.format.name
    # Without these two flags the conversion from YUV is fast and darkens every picture by about 0.7 of 255.
    how = Interpolation.FULL_CHR_H_INT | Interpolation.ACCURATE_RND
    how |= Interpolation.AREA if share < 1 else Interpolation.BICUBIC
    rgba: np.ndarray = frame.reformat(width, height, "rgba", interpolation=int(how)).to_ndarray()
    return rgba, has_alpha, stored


def resized(lens: Intrinsics, stored: tuple[int, int], size: tuple[int, int]) -> Intrinsics:
    """The intrinsics of the same picture in another size; the centre of the first pixel stays (0, 0)."""
    if stored == size:
        return lens
    sx, sy = size[0] / stored[0], size[1] / stored[1]
    return replace(lens, fx=lens.fx * sx, fy=lens.fy * sy, cx=(lens.cx + 0.5) * sx - 0.5, cy=(lens.cy + 0.5) * sy - 0.5)


def _points(folder: Path, model: PosedImages) -> tuple[SparsePoints | None, tuple[str, ...]]:
    if model.kind == "colmap":
        below = model_folder(folder)
        found = [below / f"points3D{ending}" for ending in (".bin", ".txt") if (below / f"points3D{ending}").is_file()]
        points = read_points3d(found[0]) if found else None
        source = found[0].name if found else ""
    else:
        name = json.loads((folder / FILE).read_bytes()).get("ply_file_path")
        points = read_point_cloud(inside(folder, str(name), SplatError)) if name else None
        source = str(name)
    if points is None or not len(points.xyz):
        return None, ("there are no points: the scene starts from the cameras alone",)
    note = f"{len(points.xyz)} points from {source}" + ("" if points.coloured else ", without colours")
    return points, (note,)


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
    read = ("points3D", "ply_file_path")
    left = [name for name in model.left_out if not any(part in name for part in read)]
    return (f"not looked at: {', '.join(left)}",) if left else ()


def _transparent(views: list[PosedView]) -> tuple[str, ...]:
    count = sum(view.mask is not None for view in views)
    return (f"{count} pictures have transparent pixels, which do not count",) if count else ()
