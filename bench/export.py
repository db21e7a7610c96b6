"""What each export costs and keeps: bytes, CPU-seconds to write and to read again, and pictures against the twin's own.

python -m bench.export TWIN                              every format of a reconstructed twin
python -m bench.export TWIN --width 320 --height 240

Splats are drawn by the twin's cameras before and after; meshes are drawn without light, since a GLB has none.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.export.read_back import ReadBack, read_back
from twinproof.export.subject import Subject, subject_of
from twinproof.export.write import FORMATS, export
from twinproof.nouns.splat_files import read_ply
from twinproof.nouns.twin import Twin
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.splat.render import render
from twinproof.sim.unlit import unlit

FILES = {"mjcf": "mjcf/scene.xml", "usdz": "twin.usdz", "glb": "twin.glb", "ply": "splats.ply", "spz": "splats.spz"}


def cpu_s() -> float:
    """Of this process and of all that it has started."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = cpu_s()
    return work(), cpu_s() - start


def psnr(picture: np.ndarray, truth: np.ndarray) -> float:
    return float(-10 * np.log10(np.mean((picture - truth) ** 2) + 1e-12))


def cameras(subject: Subject, width: int, height: int) -> dict[str, Camera]:
    """The twin's cameras at rest, in small."""
    found = {}
    for name, each in subject.twin.cameras.items():
        link = subject.anatomy.named.get(each.mount.parent, subject.anatomy.links[0])
        k, share = each.intrinsics, (width / each.width, height / each.height)
        lens = Lens(width, height, k.fx * share[0], k.fy * share[1], (width - 1) / 2, (height - 1) / 2)
        found[name] = Camera(lens, link.T_world_link @ each.mount.T_parent_camera)
    return found


def near(subject: Subject, width: int, height: int) -> dict[str, Camera]:
    """A camera for each object of the twin that it fills: colours are told apart there."""
    found = {}
    for body in (body for body in subject.twin.bodies if body.layer == "object" and body.visual):
        points = np.concatenate([each.mesh.vertices for each in subject.standing() if each.link == body.name])
        middle, size_m = (points.min(axis=0) + points.max(axis=0)) / 2, float(np.ptp(points, axis=0).max())
        ahead = np.array([-1.0, 1.0, -0.7]) / np.linalg.norm([-1.0, 1.0, -0.7])
        right = np.cross(ahead, (0, 0, 1)) / np.linalg.norm(np.cross(ahead, (0, 0, 1)))
        T = np.eye(4)
        T[:3, :3], T[:3, 3] = np.stack([right, np.cross(ahead, right), ahead], axis=1), middle - 3 * size_m * ahead
        lens = Lens(width, height, 2 * height, 2 * height, (width - 1) / 2, (height - 1) / 2)
        found[f"near {body.name}"] = Camera(lens, T)
    return found


def kept(back: ReadBack, subject: Subject, eyes: dict[str, Camera]) -> list[str]:
    """Decibels by camera: splats against the twin's own, and surfaces against what was to be written."""
    rows = []
    if back.splats is not None:
        own = read_ply(subject.twin.path("splats.ply"))
        each = [psnr(render(back.splats, eye).over(), render(own, eye).over()) for eye in eyes.values()]
        rows.append("splats " + ", ".join(f"{db:.1f}" for db in each))
    if back.surfaces:
        shown = subject.standing()
        each = [psnr(unlit(back.surfaces, eye), unlit(shown, eye)) for eye in eyes.values()]
        rows.append("surfaces " + ", ".join(f"{db:.1f}" for db in each))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("twin", type=Path)
    parser.add_argument("--width", type=int, default=320)
    parser.add_argument("--height", type=int, default=240)
    options = parser.parse_args()
    twin = Twin.load(options.twin)
    subject, reading_s = timed(lambda: subject_of(twin))
    eyes = {**cameras(subject, options.width, options.height), **near(subject, options.width, options.height)}
    count = 0 if subject.splats is None else len(subject.splats)
    print(f"{twin.hash[:12]}: {len(subject.surfaces)} surfaces, {count} splats, {reading_s:.1f} CPU-s to read")
    print(f"cameras: {', '.join(eyes)}\n")
    print("| format | MB | CPU-s in all | CPU-s to read again | dB by camera |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for name in FORMATS:
            if name in ("ply", "spz") and not count:
                continue
            out = Path(scratch) / name
            done, write_s = timed(lambda name=name, out=out: export(twin, [name], out))
            size = sum((out / file).stat().st_size for file in done.files[name]) / 1e6
            read, db = "–", "–"
            if name in FILES:
                back, read_s = timed(lambda name=name, out=out: read_back(out / FILES[name]))
                read, db = f"{read_s:.1f}", "; ".join(kept(back, subject, eyes))
            print(f"| {name} | {size:.2f} | {write_s:.1f} | {read} | {db} |", flush=True)


if __name__ == "__main__":
    main()
