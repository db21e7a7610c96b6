"""A ring of cameras around planted points, written as a COLMAP model or a transforms.json, for tests."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np

from tests.ingest.pictures import encoded
from twinproof.ingest.posed import quat_wxyz_of
from twinproof.nouns.randomness import stream

GL = np.diag([1.0, -1.0, -1.0])
FX, FY, CX, CY = 60.0, 62.0, 31.0, 24.5  # as COLMAP counts: from the corner
SIZE = (64, 48)


def points(count: int = 40) -> np.ndarray:
    return stream(0, "ring").uniform(-0.4, 0.4, (count, 3))


def poses(count: int = 6, outward: bool = False) -> list[np.ndarray]:
    """T_world_camera of cameras 2 m from the origin, upright in a z-up world, looking at it or away."""
    made = []
    for angle in np.linspace(0, 2 * np.pi, count, endpoint=False):
        position = np.array([2 * np.cos(angle), 2 * np.sin(angle), 0.6])
        z = position / np.linalg.norm(position) * (1 if outward else -1)
        x = np.cross(z, [0, 0, 1.0])
        x /= np.linalg.norm(x)
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = np.stack([x, np.cross(z, x), z], axis=1), position
        made.append(pose)
    return made


def picture(pose: np.ndarray, dots: np.ndarray, size: tuple[int, int] = SIZE) -> np.ndarray:
    """Black, with a white pixel where each dot falls: the pixel whose area holds it."""
    width, height = size
    local = (dots - pose[:3, 3]) @ pose[:3, :3]
    scale = width / SIZE[0]
    u, v = FX * local[:, 0] / local[:, 2] + CX, FY * local[:, 1] / local[:, 2] + CY
    image = np.zeros((height, width, 3), np.uint8)
    inside = (local[:, 2] > 0) & (u > 0) & (u < SIZE[0]) & (v > 0) & (v < SIZE[1])
    image[(v[inside] * scale).astype(int), (u[inside] * scale).astype(int)] = 255
    return image


def write_pictures(root: Path, at: list[np.ndarray]) -> None:
    (root / "images").mkdir(parents=True)
    for k, pose in enumerate(at):
        (root / "images" / f"{k}.png").write_bytes(encoded("png", "rgb24", picture(pose, points()), "rgb24"))


def write_transforms(root: Path, at: list[np.ndarray], cloud: bool = True, gl: bool = True, **more: object) -> None:
    write_pictures(root, at)
    frames = []
    for k, pose in enumerate(at):
        turned = pose.copy()
        turned[:3, :3] = pose[:3, :3] @ (GL if gl else np.eye(3))
        frames.append({"file_path": f"images/{k}.png", "transform_matrix": turned.tolist()})
    head: dict[str, object] = {"fl_x": FX, "fl_y": FY, "cx": CX, "cy": CY, "w": 64, "h": 48, "frames": frames}
    if cloud:
        head["ply_file_path"] = "cloud.ply"
        write_cloud(root / "cloud.ply")
    (root / "transforms.json").write_text(json.dumps({**head, **more}))


def write_cloud(path: Path, ascii: bool = False) -> None:
    kind = "ascii" if ascii else "binary_little_endian"
    head = f"ply\nformat {kind} 1.0\ncomment points\nelement vertex 40\n"
    head += "".join(f"property float {name}\n" for name in "xyz")
    head += "".join(f"property uchar {name}\n" for name in ("red", "green", "blue"))
    head += "element face 0\nproperty list uchar int vertex_indices\nend_header\n"
    rows = np.zeros(40, [*((name, "<f4") for name in "xyz"), *((name, "u1") for name in "rgb")])
    for k, name in enumerate("xyz"):
        rows[name] = points()[:, k]
    rows["r"], rows["g"], rows["b"] = 10, 20, np.arange(40)
    text = "".join(" ".join(map(str, row.tolist())) + "\n" for row in rows).encode()
    path.write_bytes(head.encode() + (text if ascii else rows.tobytes()))


def write_colmap(root: Path, at: list[np.ndarray], binary: bool = True, inverted: bool = False) -> None:
    write_pictures(root, at)
    folder = root / "sparse" / "0"
    folder.mkdir(parents=True)
    given = at if inverted else [np.linalg.inv(pose) for pose in at]
    images = [(k + 1, *quat_wxyz_of(pose[:3, :3]), *pose[:3, 3]) for k, pose in enumerate(given)]
    cloud = [(k + 1, *xyz, 10, 20, k, 0.5) for k, xyz in enumerate(points().tolist())]
    if binary:
        lens = struct.pack("<IiQQ4d", 7, 1, 64, 48, FX, FY, CX, CY)
        (folder / "cameras.bin").write_bytes(struct.pack("<Q", 1) + lens)
        rows = [struct.pack("<I7dI", *row, 7) + f"{row[0] - 1}.png\0".encode() + bytes(8) for row in images]
        (folder / "images.bin").write_bytes(struct.pack("<Q", len(rows)) + b"".join(rows))
        dots = [struct.pack("<QdddBBBdQIIII", *row, 2, 1, 0, 2, 0) for row in cloud]
        (folder / "points3D.bin").write_bytes(struct.pack("<Q", len(dots)) + b"".join(dots))
    else:
        (folder / "cameras.txt").write_text(f"# comment\n7 PINHOLE 64 48 {FX} {FY} {CX} {CY}\n")
        lines = [f"{' '.join(map(str, map(float, row[1:])))}" for row in images]
        text = "".join(f"{k + 1} {line} 7 {k}.png\n\n" for k, line in enumerate(lines))
        (folder / "images.txt").write_text(f"# comment\n{text}")
        dots = [f"{' '.join(map(str, row))} 1 0 2 0\n" for row in cloud]
        (folder / "points3D.txt").write_text("# comment\n" + "".join(dots))
