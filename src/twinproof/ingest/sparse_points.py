"""Points on the surface of a scene: COLMAP's points3D (text or binary), or a plain PLY point cloud."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.errors import RecordingError
from twinproof.nouns.twin_files import HEADER_LIMIT, NUMBERS

if TYPE_CHECKING:
    from jaxtyping import Float, Int, UInt8

GREY = 128  # of points without a colour
RED_GREEN_BLUE = (("red", "green", "blue"), ("diffuse_red", "diffuse_green", "diffuse_blue"), ("r", "g", "b"))


@dataclass(frozen=True, eq=False)
class SparsePoints:
    """Points in the world; where they come from SfM, how well they fit and how many pictures show them (else 0)."""

    xyz: Float[np.ndarray, "P 3"]
    rgb: UInt8[np.ndarray, "P 3"]
    error_px: Float[np.ndarray, "P"]
    track_length: Int[np.ndarray, "P"]
    coloured: bool = True


def read_points3d(path: Path) -> SparsePoints:
    """The points of a points3D.bin or points3D.txt."""
    try:
        rows = _points_bin(path.read_bytes()) if path.suffix == ".bin" else _points_txt(path)
        found = np.array(rows, np.float64).reshape(-1, 8)
    except (struct.error, ValueError, IndexError, UnicodeDecodeError, OSError, OverflowError) as problem:
        raise RecordingError(f"{path} is cut off or broken ({problem}). Write the COLMAP model again.") from None
    if not np.isfinite(found[:, :3]).all() or not ((found[:, 3:6] >= 0) & (found[:, 3:6] <= 255)).all():
        raise RecordingError(f"{path} holds points that are not finite or colours beyond 255. Write the model again.")
    return SparsePoints(found[:, :3], found[:, 3:6].astype(np.uint8), found[:, 6], found[:, 7].astype(np.int64))


def _points_bin(data: bytes) -> list[tuple[float, ...]]:
    (count,) = struct.unpack_from("<Q", data)
    if count * 51 > len(data):  # the smallest point: id, xyz, rgb, error, length of an empty track
        raise ValueError(f"{count} points do not fit into {len(data)} bytes")
    rows, at = list[tuple[float, ...]](), 8
    for _ in range(count):
        _, x, y, z, r, g, b, error, track = struct.unpack_from("<QdddBBBdQ", data, at)
        rows.append((x, y, z, r, g, b, error, track))
        at += 51 + 8 * track
        if at > len(data):
            raise ValueError(f"point {len(rows)} claims a track of {track}")
    return rows


def _points_txt(path: Path) -> list[tuple[float, ...]]:
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            _, *numbers = line.split()
            rows.append((*(float(number) for number in numbers[:7]), (len(numbers) - 7) / 2))
    return rows


def read_point_cloud(path: Path) -> SparsePoints:
    """The vertices of a PLY, ascii or binary little endian, with their colours where it has them."""
    try:
        with path.open("rb") as handle:
            head = handle.read(HEADER_LIMIT)
    except OSError as problem:
        raise RecordingError(f"{path} cannot be read ({problem.strerror}). Restore it, or remove its name.") from None
    text, marker, _ = head.partition(b"end_header")
    offset = head.find(b"\n", len(text)) + 1
    if not head.startswith(b"ply") or not marker or not offset:
        raise RecordingError(f"{path} has no PLY header. Write the points as a PLY with x y z red green blue.")
    ascii, count, properties = _header(path, text.decode("utf-8", "replace"))
    dtype = np.dtype([(name, NUMBERS[kind]) for name, kind in properties.items()])
    rows = _ascii_rows(path, offset, count, dtype) if ascii else _binary_rows(path, offset, count, dtype)
    colours = next((names for names in RED_GREEN_BLUE if set(names) <= set(properties)), None)
    xyz = np.stack([rows[name].astype(np.float64) for name in "xyz"], axis=1)
    if not np.isfinite(xyz).all():
        raise RecordingError(f"{path} holds points that are not finite. Remove them.")
    rgb = np.full((count, 3), GREY, np.uint8)
    for k, name in enumerate(colours or ()):
        whole = properties[name] in ("uchar", "uint8")  # other types: 0 to 1
        rgb[:, k] = rows[name] if whole else (rows[name].astype(np.float64) * 255).round().clip(0, 255)
    return SparsePoints(xyz, rgb, np.zeros(count), np.zeros(count, np.int64), colours is not None)


def _header(path: Path, text: str) -> tuple[bool, int, dict[str, str]]:
    """Whether it is ascii, how many vertices, and their properties in order; later elements are not looked at."""
    kind, count, properties = "", -1, dict[str, str]()
    for line in text.splitlines()[1:]:
        match line.split():
            case ["comment" | "obj_info", *_] | []:
                pass
            case ["format", "ascii" | "binary_little_endian" as kind, "1.0"]:
                pass
            case ["element", "vertex", number] if number.isdecimal() and len(number) < 16 and count < 0:
                count = int(number)
            case ["element", _, _] if count >= 0:
                break
            case ["property", of, name] if of in NUMBERS and count >= 0 and name not in properties:
                properties[name] = of
            case _:
                raise RecordingError(
                    f"{path}: the header says {line[:60]!r}. Points are read from a PLY, ascii or binary_little_endian "
                    "1.0, that begins with vertices x y z red green blue: export it so."
                )
    if not kind or not {"x", "y", "z"} <= set(properties):
        raise RecordingError(f"{path}: the header lacks the format, or a vertex with x, y and z. Export it again.")
    return kind == "ascii", count, properties


def _binary_rows(path: Path, offset: int, count: int, dtype: np.dtype[np.void]) -> np.ndarray:
    needed, size = offset + count * dtype.itemsize, path.stat().st_size
    if needed > size:
        raise RecordingError(
            f"{path}: the header promises {count} points, {needed} bytes; the file has {size}. Export it again."
        )
    return np.fromfile(path, dtype, count, offset=offset)


def _ascii_rows(path: Path, offset: int, count: int, dtype: np.dtype[np.void]) -> np.ndarray:
    names = dtype.names or ()
    lines = path.read_bytes()[offset:].split(b"\n")[:count]
    try:
        if len(lines) < count or any(len(line.split()) != len(names) for line in lines):
            raise ValueError(f"{count} lines of {len(names)} numbers were promised")
        values = np.array([line.split() for line in lines], np.float64).reshape(count, len(names))
    except ValueError as problem:
        raise RecordingError(f"{path} is cut off or broken ({problem}). Export it again.") from None
    rows = np.empty(count, dtype)
    with np.errstate(all="ignore"):  # what does not fit is found by the caller's check of finite points
        for k, name in enumerate(names):
            rows[name] = values[:, k]
    return rows
