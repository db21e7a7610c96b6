"""Scale and pose of shapes whose truth is known: scanned objects, as if a perfect generator had made them.

python -m bench.generate
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from scipy.spatial import KDTree
from scipy.spatial.transform import Rotation

from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_files import read_mesh, welded
from twinproof.nouns.randomness import stream
from twinproof.nouns.rig import Intrinsics
from twinproof.reconstruct.generate import InProcess
from twinproof.reconstruct.generate_check import silhouette
from twinproof.reconstruct.generate_fit import Outline, fit_similarity, surface_points

DATA = Path(__file__).parents[1].parent / "shared" / "data" / "gso_objects"
LENS = Intrinsics(300.0, 300.0, 159.5, 119.5)
FACES, TRIALS = 2000, 4


def main() -> None:
    """Prints the table of bench/results/generate.md."""
    if not DATA.is_dir():
        raise SystemExit(f"{DATA} is not there: this benchmark needs the scanned objects of the shared data.")
    print("| object, what is given | scale error | surface mm (mean, p95) | next best turn, cost ratio | CPU-s |")
    print("|---|---|---|---|---|")
    for path in sorted(DATA.rglob("*.obj")):
        true = _coarser(welded(read_mesh(path)))
        for given in ("3 outlines", "1 outline and depth"):
            rows = [_trial(true, given, seed) for seed in range(TRIALS)]
            scale, mean, p95, ratio, cpu = np.median(rows, axis=0)
            name = path.parent.name
            print(f"| {name}, {given} | {100 * scale:.1f} % | {mean:.2f}, {p95:.2f} | {ratio:.1f} | {cpu:.1f} |")


def _trial(true: Mesh, given: str, seed: int) -> tuple[float, float, float, float, float]:
    rng = stream(seed, "generate")
    middle = (true.vertices.min(axis=0) + true.vertices.max(axis=0)) / 2
    own = np.eye(4)
    own[:3, :3] = Rotation.from_rotvec(rng.normal(size=3)).as_matrix()
    made = (
        InProcess(lambda *_: true.moved(own, 7.0)).complete(np.zeros((4, 4, 3), np.uint8), np.ones((4, 4), bool)).mesh
    )
    size = float(np.ptp(true.moved(own).vertices, axis=0).max())  # the scale that undoes what the generator did
    cameras = [_camera(middle, a + rng.uniform(-15, 15)) for a in (0, 110, 230)]
    outlines = [_outline(true, T, rng) for T in cameras]
    points = None
    if given != "3 outlines":
        outlines, points = outlines[:1], _front(true, cameras[0], rng)
    began = time.process_time()
    fit = fit_similarity(made, points, outlines, seed)
    cpu = time.process_time() - began
    gap = KDTree(surface_points(true, 40_000, rng)).query(surface_points(fit.of(made), 4_000, rng))[0] * 1e3
    return abs(fit.scale / size - 1), float(gap.mean()), float(np.quantile(gap, 0.95)), fit.runner_up, cpu


def _coarser(mesh: Mesh) -> Mesh:
    from fast_simplification import simplify

    vertices, faces = simplify(np.array(mesh.vertices), np.array(mesh.faces), target_count=FACES)
    return Mesh(vertices, faces)


def _camera(target: np.ndarray, azimuth_deg: float) -> np.ndarray:
    a = np.radians(azimuth_deg)
    eye = target + np.array([0.35 * np.cos(a), 0.35 * np.sin(a), 0.25])
    ahead = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(ahead, (0, 0, 1))
    right /= np.linalg.norm(right)
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = np.stack([right, np.cross(ahead, right), ahead], axis=1), eye
    return T


def _outline(mesh: Mesh, T: np.ndarray, rng: np.random.Generator) -> Outline:
    """A mask whose border is ragged by a pixel or two, as real masks are."""
    from scipy.ndimage import gaussian_filter

    mask = silhouette(mesh, Outline(np.ones((240, 320), bool), LENS, T))
    soft = gaussian_filter(mask.astype(float), 1.5) + 0.15 * gaussian_filter(rng.normal(size=mask.shape), 2) * 4
    return Outline(soft > 0.5, LENS, T)


def _front(mesh: Mesh, T: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Points on the side that the camera sees, with 1.5 mm of noise."""
    a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    normal, middle = np.cross(b - a, c - a), (a + b + c) / 3
    facing = (normal * (T[:3, 3] - middle)).sum(axis=1) > 0
    return middle[facing] + 0.0015 * rng.normal(size=(int(facing.sum()), 3))


if __name__ == "__main__":
    main()
