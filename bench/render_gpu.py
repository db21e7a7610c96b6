"""How fast a GPU makes pictures, beside bare mujoco_warp, and how far they are from the CPU's.

    python -m bench.render_gpu RESULT.json [PICTURE.png]

Needs CUDA, torch, warp-lang and mujoco_warp (warp's CPU device serves for a trial: fewer worlds). The scene is the lab
with two arms, textures and shadows. Each section stands alone: one that fails prints its traceback and the others go
on. Kernels are compiled and graphs captured before anything is timed; the contenders take turns and the best counts.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import mujoco_warp as mjw
import numpy as np
import torch
import warp as wp
from bench.lab_scene import lab_model, lab_state, png
from bench.sections import run_sections

from twinproof.sim.render import Image
from twinproof.sim.render_camera import Named
from twinproof.sim.render_gpu import Bare, GpuCameras
from twinproof.sim.render_rays import Rays

CUDA = wp.is_cuda_available()
DEVICE = "cuda:0" if CUDA else "cpu"
COUNTS = (1024, 4096) if CUDA else (2, 4)
SIZES = (64, 128) if CUDA else (16, 32)
ROUNDS, FRAMES = 5, 10
PARITY_SIZE = (320, 240) if CUDA else (96, 72)
NAMES = ("front", "side", "top")


def _wait() -> None:
    if CUDA:
        torch.cuda.synchronize()
    wp.synchronize()


def poses(model: Any, count: int) -> np.ndarray:
    """Every world with its arms turned a little farther."""
    return np.stack([lab_state(model, t).qpos for t in np.linspace(0, 2, count)])


def worlds_in(model: Any, qpos: np.ndarray) -> Bare:
    worlds = Bare(model, mjw.put_model(model), mjw.make_data(model, nworld=len(qpos), nconmax=1, njmax=1))
    worlds.data.qpos.assign(qpos.astype(np.float32))
    for stage in (mjw.kinematics, mjw.com_pos, mjw.camlight):
        stage(worlds.model, worlds.data)
    return worlds


def bare(worlds: Bare, size: int, what: tuple[str, ...]) -> Callable[[], None]:
    """mujoco_warp alone: the same channels and light, rays made beforehand, one captured graph."""
    context = mjw.create_render_context(
        worlds.host, nworld=worlds.data.nworld, cam_res=(size, size), cam_active=["front"], render_rgb="rgb" in what,
        render_depth="depth" in what, render_seg=False, use_shadows=True, render_skybox=True,
    )  # fmt: skip

    def work() -> None:
        mjw.refit_bvh(worlds.model, worlds.data, context)
        mjw.render(worlds.model, worlds.data, context)

    if not CUDA:
        work()
        return work
    with wp.ScopedDevice(DEVICE):
        work()
        with wp.ScopedCapture(device=wp.get_device(DEVICE)) as capture:
            work()

    def launch(kept: Any = (context, worlds)) -> None:  # a graph does not keep its arrays alive
        with wp.ScopedDevice(DEVICE):
            wp.capture_launch(capture.graph)

    return launch


def timed(run: Callable[[], Any]) -> float:
    _wait()
    begun = time.perf_counter()
    for _ in range(FRAMES):
        run()
    _wait()
    return (time.perf_counter() - begun) / FRAMES


def speed(model: Any, count: int, size: int) -> dict[str, Any]:
    """Frames in a second of one camera, ours and bare mujoco_warp's, and the ratio."""
    worlds, found = worlds_in(model, poses(model, count)), {}
    for what in (("rgb", "depth"), ("depth",)):
        begun = time.perf_counter()
        ours = GpuCameras(worlds, ["front"], (size, size), what)
        unshaded = GpuCameras(worlds, ["front"], (size, size), what, shadows=False)
        ways = {"ours": ours.render, "bare": bare(worlds, size, what), "ours without shadows": unshaded.render}
        for way in ways.values():
            way()
            way()
        _wait()
        label = ", ".join(what)
        found[f"{label}: seconds to make, compile and capture"] = time.perf_counter() - begun
        best = dict.fromkeys(ways, np.inf)
        for _ in range(ROUNDS):
            for name, way in ways.items():
                best[name] = min(best[name], timed(way))
        found |= {f"{label}: {name}, frames/s": count / seconds for name, seconds in best.items()}
        found[f"{label}: ours / bare"] = best["bare"] / best["ours"]
        ours.render()
        begun = time.perf_counter()
        ours.render()
        found[f"{label}: ms of the host for one call"] = 1e3 * (time.perf_counter() - begun)
    return found


def parity(model: Any, picture: Path | None) -> dict[str, Any]:
    """Three worlds through three cameras against the ray caster."""
    qpos = poses(model, 3)
    seen = GpuCameras(worlds_in(model, qpos), NAMES, PARITY_SIZE).render()
    exact = Rays().render_many(model, list(qpos), [Named(name, *PARITY_SIZE) for name in NAMES])
    off, agree, level, total = [], 0, [], 0
    for world, row in enumerate(exact):
        for camera, image in enumerate(row):
            depth, geom, rgb = (seen[name][world, camera].cpu().numpy() for name in ("depth", "segmentation", "rgb"))
            same = geom == image.geom
            agree, total = agree + int(same.sum()), total + same.size
            shared = same & np.isfinite(image.depth_m)
            off.append(np.abs(depth[shared] - image.depth_m[shared]))
            level.append(np.abs(rgb.astype(float) - image.rgb).mean())
    if picture is not None:
        picture.write_bytes(png(side_by_side(seen, exact[0])))
    every = np.concatenate(off)
    return {
        "pixels": total,
        "ids that agree": agree / total,
        "depth difference where ids agree, m: median": float(np.median(every)),
        "99th percentile": float(np.percentile(every, 99)),
        "largest": float(every.max()),
        "mean difference of colours, of 255": float(np.mean(level)),
    }


def side_by_side(seen: dict[str, Any], exact: list[Image]) -> np.ndarray:
    """A row for each camera: colours of GPU and CPU, depths of both, and where ids differ."""
    rows = []
    for camera, image in enumerate(exact):
        depth, geom, rgb = (seen[name][0, camera].cpu().numpy() for name in ("depth", "segmentation", "rgb"))
        far = float(np.max(image.depth_m[np.isfinite(image.depth_m)]))
        greys = [np.uint8(255 * (1 - np.clip(each / far, 0, 1))) for each in (depth, image.depth_m)]
        greys.append(np.where(geom == image.geom, 0, 255).astype(np.uint8))
        rows.append(
            np.concatenate([rgb, image.rgb, *(np.repeat(grey[..., None], 3, axis=2) for grey in greys)], axis=1)
        )
    return np.concatenate(rows, axis=0)


def main() -> None:
    wp.config.quiet = True
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    picture = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    result: dict[str, Any] = {"mujoco": mujoco.__version__, "warp": wp.config.version, "device": DEVICE}
    if CUDA:
        result["device"] = torch.cuda.get_device_name()
    model = lab_model()
    sections: dict[str, Callable[[], dict[str, Any]]] = {"agreement with the CPU": lambda: parity(model, picture)}
    for size in SIZES:
        for count in COUNTS:
            name = f"{count} worlds, {size} × {size}, {model.ngeom} geoms"
            sections[name] = lambda count=count, size=size: speed(model, count, size)
    with wp.ScopedDevice(DEVICE):
        run_sections(result, sections, path)


if __name__ == "__main__":
    main()
