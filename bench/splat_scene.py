"""Scenes for the splat benchmarks: the points of a real room (7-Scenes red kitchen), made into splats as labs do."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from twinproof.nouns.splats import SH0, Splats
from twinproof.nouns.views import Views

DATA = Path(__file__).parents[1].parent / "shared" / "data"
KITCHEN = DATA / "redkitchen_rgbd"
FOCAL = 525.0  # of the colour pictures, px; SfM finds about 526


def kitchen_frames(count: int | None = None) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(rgb, depth in m with 0 for none, T_world_camera) of the kitchen's frames, in order."""
    from PIL import Image

    if not KITCHEN.is_dir():
        raise SystemExit(f"{KITCHEN} is not there: this benchmark needs the real room of the shared data.")
    frames = []
    for path in sorted((KITCHEN / "color").iterdir())[:count]:
        stem = path.name.split(".")[0]
        depth = np.asarray(Image.open(next((KITCHEN / "depth").glob(f"{stem}.*"))), np.float32)
        pose = np.loadtxt(next((KITCHEN / "pose").glob(f"{stem}.*")))
        frames.append((np.asarray(Image.open(path)), np.where(depth >= 65535, 0, depth) / 1000, pose))
    return frames


def kitchen_points(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """`count` points of the room's surfaces and their colours, drawn from all frames alike."""
    rng = np.random.default_rng(seed)
    points, colours = [], []
    frames = kitchen_frames()
    for rgb, depth, pose in frames:
        rows, columns = np.nonzero((depth > 0.3) & (depth < 6))
        pick = rng.choice(len(rows), min(len(rows), 2 * count // len(frames) + 1), replace=False)
        r, c = rows[pick], columns[pick]
        z = depth[r, c]
        local = np.stack([(c - 319.5) / 585 * z, (r - 239.5) / 585 * z, z], -1)
        points.append(local @ pose[:3, :3].T + pose[:3, 3])
        colours.append(rgb[r, c])
    pick = rng.choice(sum(map(len, points)), count, replace=False)
    return np.concatenate(points)[pick], np.concatenate(colours)[pick]


def room(count: int, seed: int = 0, bands: int = 1) -> Splats:
    """Splats at the room's points: scales from the three nearest neighbours, stretched; opacities 0.1 to 0.95."""
    from scipy.spatial import KDTree

    points, colours = kitchen_points(count, seed)
    rng = np.random.default_rng([seed, 1])
    near = KDTree(points).query(points, k=4)[0][:, 1:].mean(axis=1)
    scales = np.maximum(near, 1e-4)[:, None] * np.exp(rng.normal(0, 0.4, (count, 3)))
    opacity = rng.uniform(0.1, 0.95, count)
    sh = rng.normal(0, 0.05, (count, bands, 3))
    sh[:, 0] = (colours / 255 - 0.5) / SH0
    return Splats(
        points, rng.normal(size=(count, 4)), np.log(scales), np.log(opacity / (1 - opacity)), sh, np.zeros(count, int)
    )


def view(width: int, height: int, frame: int = 20) -> tuple[np.ndarray, tuple[float, float, float, float]]:
    """T_world_camera of a frame, and fx, fy, cx, cy for a picture of that size."""
    pose = np.loadtxt(sorted((KITCHEN / "pose").iterdir())[frame])
    u, _, v = np.linalg.svd(pose[:3, :3])
    pose[:3, :3] = u @ v
    focal = FOCAL * width / 640
    return pose, (focal, focal, (width - 1) / 2, (height - 1) / 2)


def kitchen_views(longest_px: int) -> Views:
    """The kitchen's pictures with the poses and points that SfM finds in them (made once, in build/, in 90 CPU-s)."""
    from twinproof.ingest.posed_views import posed_views
    from twinproof.reconstruct.sfm import structure_from_motion

    model = Path(__file__).parents[1] / "build" / "kitchen_sfm"
    if not (model / "sfm.json").is_file():
        structure_from_motion(KITCHEN / "color", model)
    return posed_views(model, longest_px)
