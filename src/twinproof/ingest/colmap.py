"""A COLMAP model: cameras and images, as text or binary (poses are world-to-camera; x right, y down, z ahead).

COLMAP counts pixels from the picture's corner: the centre of the first is (0.5, 0.5). Ours is (0, 0), as in OpenCV.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from twinproof.ingest.posed import Posed, PosedImages, quat_wxyz_of
from twinproof.ingest.transforms import checked_rotation
from twinproof.nouns.errors import RecordingError
from twinproof.nouns.rig import Intrinsics, Mount

# id, name, how many numbers, and how they become fx fy cx cy + (k1 k2 p1 p2 …)
Take = Callable[..., Intrinsics]
MODELS: tuple[tuple[int, str, int, Take], ...] = (
    (0, "SIMPLE_PINHOLE", 3, lambda f, cx, cy: Intrinsics(f, f, cx, cy)),
    (1, "PINHOLE", 4, lambda fx, fy, cx, cy: Intrinsics(fx, fy, cx, cy)),
    (2, "SIMPLE_RADIAL", 4, lambda f, cx, cy, k: Intrinsics(f, f, cx, cy, (k, 0.0, 0.0, 0.0))),
    (3, "RADIAL", 5, lambda f, cx, cy, k1, k2: Intrinsics(f, f, cx, cy, (k1, k2, 0.0, 0.0))),
    (4, "OPENCV", 8, lambda fx, fy, cx, cy, *k: Intrinsics(fx, fy, cx, cy, k)),
    (6, "FULL_OPENCV", 12, lambda fx, fy, cx, cy, *k: Intrinsics(fx, fy, cx, cy, k)),
)
FOLDERS = ("", "sparse/0", "sparse", "colmap/sparse/0")


Sizes = dict[str, tuple[int, int]]  # by camera: width and height


def _folder(root: Path) -> Path | None:
    for name in FOLDERS:
        for ending in (".bin", ".txt"):
            if (root / name / f"cameras{ending}").is_file() and (root / name / f"images{ending}").is_file():
                return root / name
    return None


def is_colmap(root: Path) -> bool:
    """Whether the folder, or sparse/0 below it, holds cameras and images of a model."""
    return _folder(root) is not None


def model_folder(root: Path) -> Path:
    """The folder of the model's own files, at or below the root."""
    folder = _folder(root)
    if folder is None:
        raise RecordingError(f"{root} holds no COLMAP model (cameras and images). Check the path.")
    return folder


def read_colmap(root: Path) -> PosedImages:
    """Pictures, poses and intrinsics of a model; its 3D points stay in the source."""
    folder = model_folder(root)
    ending = ".bin" if (folder / "cameras.bin").is_file() else ".txt"
    read_cameras, read_images = (_cameras_bin, _images_bin) if ending == ".bin" else (_cameras_txt, _images_txt)
    try:
        cameras, sizes = read_cameras(folder / f"cameras{ending}")
        images = read_images(folder / f"images{ending}")
    except (struct.error, ValueError, IndexError, UnicodeDecodeError, OSError, OverflowError) as problem:
        raise RecordingError(f"{folder}: the COLMAP model is cut off or broken ({problem}). Write it again.") from None
    for image in images:
        if image.camera not in cameras:
            raise RecordingError(f"{folder}: {image.file} names {image.camera}, which cameras{ending} does not list.")
    points = folder / f"points3D{ending}"
    left = (f"{points.relative_to(root).as_posix()}",) if points.is_file() else ()
    return PosedImages("colmap", _pictures(root), tuple(images), cameras, left, sizes)


def _pictures(root: Path) -> Path:
    return root / "images" if (root / "images").is_dir() else root


def _intrinsics(model: Take, numbers: list[float], where: str) -> Intrinsics:
    if not np.isfinite(numbers).all() or numbers[0] <= 0:
        raise RecordingError(f"{where}: a camera's numbers are not finite and positive. Write the model again.")
    lens = model(*numbers)
    return replace(lens, cx=lens.cx - 0.5, cy=lens.cy - 0.5)  # from the corner to the first pixel's centre


def _cameras_txt(path: Path) -> tuple[dict[str, Intrinsics], Sizes]:
    cameras, sizes = {}, {}
    for line in _lines(path):
        id, name, width, height, *numbers = line.split()
        found = [(count, take) for _, known, count, take in MODELS if known == name]
        if not found or len(numbers) != found[0][0]:
            raise RecordingError(f"{path}: camera model {name} with {len(numbers)} numbers is not read. {_cure()}")
        cameras[f"camera_{int(id)}"] = _intrinsics(found[0][1], [float(n) for n in numbers], str(path))
        sizes[f"camera_{int(id)}"] = int(width), int(height)
    return cameras, sizes


def _cameras_bin(path: Path) -> tuple[dict[str, Intrinsics], Sizes]:
    data, at = path.read_bytes(), 8
    cameras, sizes = {}, {}
    for _ in range(struct.unpack_from("<Q", data)[0]):
        id, model, width, height = struct.unpack_from("<IiQQ", data, at)
        found = [(count, take) for number, _, count, take in MODELS if number == model]
        if not found:
            raise RecordingError(f"{path}: camera model number {model} is not read. {_cure()}")
        count, take = found[0]
        numbers = list(struct.unpack_from(f"<{count}d", data, at + 24))
        at += 24 + 8 * count
        cameras[f"camera_{id}"] = _intrinsics(take, numbers, str(path))
        sizes[f"camera_{id}"] = width, height
    return cameras, sizes


def _cure() -> str:
    return f"Undistort the pictures, or use one of {', '.join(name for _, name, _, _ in MODELS)}."


def _images_txt(path: Path) -> list[Posed]:
    images = []
    for line in [line for k, line in enumerate(_lines(path, blank=True)) if k % 2 == 0]:  # every second lists points
        fields = line.split(maxsplit=9)
        numbers = [float(field) for field in fields[1:8]]
        images.append(_posed(fields[9], numbers, f"camera_{int(fields[8])}", path))
    return images


def _images_bin(path: Path) -> list[Posed]:
    data, at = path.read_bytes(), 8
    images = []
    for _ in range(struct.unpack_from("<Q", data)[0]):
        _, *numbers, camera = struct.unpack_from("<I7dI", data, at)
        end = data.index(b"\x00", at + 64)
        (points,) = struct.unpack_from("<Q", data, end + 1)
        images.append(_posed(data[at + 64 : end].decode(), numbers, f"camera_{camera}", path))
        at = end + 9 + 24 * points
        if at > len(data):
            raise ValueError(f"image {len(images)} claims {points} points")
    return images


def _posed(file: str, numbers: list[float], camera: str, path: Path) -> Posed:
    where = f"{path}, {file}"
    if not np.isfinite(numbers).all() or not 0.99 < float(np.linalg.norm(numbers[:4])) < 1.01:
        raise RecordingError(f"{where}: the pose is not finite with a unit quaternion. Write the model again.")
    w, x, y, z = numbers[:4]
    R_camera_world = Mount(quat_wxyz=(w, x, y, z)).T_parent_camera[:3, :3]
    position = -R_camera_world.T @ np.array(numbers[4:])
    return Posed(file, tuple(position.tolist()), quat_wxyz_of(checked_rotation(R_camera_world.T, where)), camera)


def _lines(path: Path, blank: bool = False) -> list[str]:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return lines if blank else [line for line in lines if line.strip()]
