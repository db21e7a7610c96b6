"""transforms.json, as instant-ngp and nerfstudio write it: camera-to-world, OpenGL axes (y up, looking along -z).

It counts pixels from the picture's corner: the centre of the first is (0.5, 0.5). Ours is (0, 0), as in OpenCV.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.ingest.picture_feed import PICTURES
from twinproof.ingest.posed import Posed, PosedImages, quat_wxyz_of
from twinproof.nouns.errors import RecordingError
from twinproof.nouns.files import inside
from twinproof.nouns.pictures import picture_head
from twinproof.nouns.rig import Intrinsics

FILE = "transforms.json"
LEFT_OUT = ("ply_file_path", "applied_transform", "mask_path", "depth_file_path")
MODELS = ("", "OPENCV", "PINHOLE", "SIMPLE_PINHOLE")


def is_transforms(root: Path) -> bool:
    """Whether the folder holds a transforms.json."""
    return (root / FILE).is_file()


def read_transforms(root: Path) -> PosedImages:
    """Pictures, poses and intrinsics of a transforms.json."""
    path = root / FILE
    try:
        data = json.loads(path.read_bytes())
        frames = list(data["frames"])
        images, intrinsics = [], dict[Intrinsics, str]()
        for i, frame in enumerate(frames):
            where = f"{path}, frame {i}"
            file = _file(root, str(frame["file_path"]), where)
            camera = intrinsics.setdefault(
                _intrinsics({**data, **frame}, root / file, where), f"camera_{len(intrinsics)}"
            )
            position, quat = _pose(frame["transform_matrix"], where)
            mask, depth = (str(frame.get(key) or "") for key in ("mask_path", "depth_file_path"))
            unit = float(data.get("depth_unit_scale_factor", 0.001))
            images.append(Posed(file, position, quat, camera, mask, depth, unit))
    except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError) as problem:
        raise RecordingError(f"{path} cannot be read as transforms ({problem!r}). Write it again.") from None
    twice = {image.file for image in images if sum(other.file == image.file for other in images) > 1}
    if twice:
        raise RecordingError(f"{path} lists {min(twice)} twice. Each picture has one pose.")
    left = tuple(f"{FILE}: {key}" for key in LEFT_OUT if key in data or any(key in frame for frame in frames))
    return PosedImages("transforms", root, tuple(images), {name: i for i, name in intrinsics.items()}, left)


def _file(root: Path, name: str, where: str) -> str:
    path = inside(root, name, RecordingError)
    if path.suffix.lower() not in PICTURES:  # instant-ngp leaves the ending away
        for suffix in PICTURES:
            if path.with_name(path.name + suffix).is_file():
                return path.with_name(path.name + suffix).relative_to(root).as_posix()
    if not path.is_file():
        raise RecordingError(f"{where}: the picture {name} is missing. Restore it, or remove its frame.")
    return path.relative_to(root).as_posix()


def _intrinsics(table: dict[str, Any], picture: Path, where: str) -> Intrinsics:
    model = str(table.get("camera_model", ""))
    if model not in MODELS:
        raise RecordingError(f"{where}: camera model {model!r} is not a pinhole with OpenCV distortion. Undistort it.")
    head = picture_head(picture.read_bytes(), str(picture))
    width, height = int(table.get("w", head.width)), int(table.get("h", head.height))
    if (width, height) != (head.width, head.height):
        raise RecordingError(
            f"{where}: {picture.name} is {head.width}×{head.height}, the file states {width}×{height}. "
            "Intrinsics belong to one picture size: resize neither or both."
        )
    if "fl_x" in table:
        fx = float(table["fl_x"])
    elif "camera_angle_x" in table:
        fx = width / 2 / math.tan(float(table["camera_angle_x"]) / 2)
    else:
        raise RecordingError(f"{where}: no focal length. Add fl_x (pixels) or camera_angle_x (radians).")
    distortion = tuple(float(table.get(key, 0.0)) for key in ("k1", "k2", "p1", "p2", "k3"))
    return Intrinsics(
        fx,
        float(table.get("fl_y", fx)),
        float(table.get("cx", width / 2)) - 0.5,  # from the corner to the first pixel's centre
        float(table.get("cy", height / 2)) - 0.5,
        distortion if any(distortion) else (),
    )


def _pose(rows: Any, where: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    T_world_gl = np.array(rows, dtype=np.float64)
    if T_world_gl.shape not in ((4, 4), (3, 4)) or not np.isfinite(T_world_gl).all():
        raise RecordingError(f"{where}: transform_matrix is not a finite 4×4 matrix. Write it again.")
    rotation = T_world_gl[:3, :3] @ np.diag([1.0, -1.0, -1.0])  # OpenGL axes to x right, y down, z ahead
    return tuple(T_world_gl[:3, 3].tolist()), quat_wxyz_of(checked_rotation(rotation, where))


def checked_rotation(rotation: np.ndarray, where: str) -> np.ndarray:
    """The same matrix if it is a rotation; a mirrored or scaled one is an error."""
    if np.abs(rotation @ rotation.T - np.eye(3)).max() > 1e-3:
        raise RecordingError(f"{where}: the pose is not a rotation (scaled or sheared). Remove the scale.")
    if np.linalg.det(rotation) < 0:
        raise RecordingError(f"{where}: the pose is mirrored (left-handed). Convert it to right-handed axes.")
    return rotation
