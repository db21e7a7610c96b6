"""An object's reconstruction at 640 × 480, block by block, with what can run on a GPU there.

python -m bench.reconstruct_gpu OUT.json [--device cuda] [--size 640 480] [--pictures 40] [--steps 800] [--runs 2]

The scan of the lab's push bench is played and drawn here, so nothing has to be decoded; cameras are the true ones. The
drawing is not timed. All of it is run `--runs` times: in the first run on a machine kernels are compiled on the way
(numba's for the CPU; gsplat's when the GPU is first asked), and later runs read them. Which block ran where is in the
answer: with `--device cuda` the surface, its colours and the background are fitted there.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from bench.couple_scene import _below as below
from bench.couple_scene import mesh_of

from twinproof.lab.benches import bench as bench_of
from twinproof.lab.cameras import Film
from twinproof.lab.effects import chosen
from twinproof.lab.take import play, takes
from twinproof.nouns.clip import Clip
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.views import Views
from twinproof.reconstruct.background_block import kept_and_apart
from twinproof.reconstruct.collision import Decomposing, convex_parts
from twinproof.reconstruct.gap import chamfer_m, volume_error
from twinproof.reconstruct.masks import segment
from twinproof.reconstruct.mesh_mend import simplified
from twinproof.reconstruct.object_block import AREA, FoundObject, Shaping, at_rest, only_of, shaped, with_background
from twinproof.reconstruct.prompts import read_clicks
from twinproof.reconstruct.robot_look import pixels_of
from twinproof.reconstruct.shape import ShapeRecipe, shape_from_masks
from twinproof.reconstruct.surface import bind
from twinproof.reconstruct.surface_refine import Refining, refine, sights_of
from twinproof.sim.grid import Plane
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.render_rays import Rays
from twinproof.sim.world import World

STILL = 4  # pictures of a camera that stands


def filmed(seed: int, size: tuple[int, int], pictures: int) -> tuple[dict[str, Clip], Mesh]:
    """Clips of three still cameras and the wrist's, with the robot drawn into masks, and the true object."""
    bench = bench_of("push")
    plant, effects = bench.plant(seed), chosen("off", bench)
    take = takes(bench, 1, seed, ("scan",), False)[0]
    played = play(bench, plant, take, effects, seed)
    assert played.thing is not None
    reality, path = played.reality, ("lab", bench.name, "episode0")
    scratch, span_s = World(reality.world.model), (len(reality.log.qpos) - 1) * reality.dt
    names = [scratch.model.body(k).name for k in range(scratch.model.nbody)]
    arm = [k for k in range(scratch.model.nbody) if below(scratch.model, k, names.index("base"))]
    clips = dict[str, Clip]()
    with Rays(threads=1).on(scratch.model) as studio:
        for camera in plant.cameras:
            times = np.linspace(0.05, span_s - 0.1, STILL if camera.parent == "world" else pictures)
            film, lens = Film(reality, camera, size, path, seed), camera.lens(size, true=True)
            poses, hidden = [], []
            for t in times:
                scratch.qpos[:] = reality.log.qpos[round(t / reality.dt)]
                scratch.kinematics()
                hand = np.eye(4) if camera.parent == "world" else scratch.body_pose(camera.parent)
                poses.append(hand @ camera.T_true)
                view = Camera(Lens(*size, lens.fx, lens.fy, lens.cx, lens.cy), poses[-1])
                hidden.append(np.isin(studio.render(scratch.data, view, ("segmentation",)).body, arm))
            rgb = np.stack([film.picture(float(t), k) for k, t in enumerate(times)])
            clips[camera.name] = Clip(camera.name, times, rgb, lens, np.stack(poses), np.stack(hidden))
    scratch.qpos[:] = reality.log.qpos[0]
    scratch.kinematics()
    return clips, mesh_of(played.thing).moved(scratch.body_pose("object"))


class Blocks:
    """Times of blocks, as they run one after the other."""

    def __init__(self) -> None:
        self.told = dict[str, dict]()

    def __call__(self, name: str, where: str, work: Callable):
        """Its result; the times are kept under its name."""
        wall, cpu = time.time(), time.process_time()
        made = work()
        spent = {"on": where, "wall_s": round(time.time() - wall, 2), "cpu_s": round(time.process_time() - cpu, 2)}
        self.told[name] = spent
        print(name, spent, flush=True)
        return made

    @property
    def wall_s(self) -> float:
        """Of all of them."""
        return round(sum(each["wall_s"] for each in self.told.values()), 1)


def one_run(clips: Mapping[str, Clip], click: str, steps: int, device: str, block: Blocks) -> tuple[FoundObject, Views]:
    """The object and the views it was made from."""
    table, prompts = Plane(), read_clicks([click])
    masks = block("masks", "cpu", lambda: segment(clips, prompts, table))
    views = only_of(at_rest(masks, "thing", clips), "thing")
    kept, _ = kept_and_apart(views)
    how = Shaping(background=steps, device=device)
    thing = block("hull and refined surface", device, lambda: shaped(kept, "thing", "thing", table, device=device))
    thing = block("background, colours and texture", device, lambda: with_background(thing, views, table, how))
    if find_spec("coacd") is None:
        print("convex parts: not run, coacd is not installed here", flush=True)
    else:
        block("convex parts", "cpu", lambda: convex_parts(simplified(thing.mesh, 2000)[0], Decomposing(seconds=500)))
    return thing, kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--size", type=int, nargs=2, default=[640, 480])
    parser.add_argument("--pictures", type=int, default=40)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--seed", type=int, default=320)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument(
        "--threads", type=int, nargs="*", default=[], help="then time the surface on the CPU with so many"
    )
    asked = parser.parse_args()
    began = time.time()
    clips, true = filmed(asked.seed, tuple(asked.size), asked.pictures)
    told: dict = {"size": asked.size, "drawing_s": round(time.time() - began, 1), "runs": []}
    middle = true.vertices.mean(axis=0)
    front = clips["front"]
    k = front.intrinsics
    x, y = pixels_of(Camera(Lens(*front.size, k.fx, k.fy, k.cx, k.cy), front.T_world_camera[0]), middle[None])[0][0]
    for number in range(asked.runs):
        block = Blocks()
        print(f"run {number + 1} of {asked.runs}", flush=True)
        thing, kept = one_run(clips, f"front,0,{x:.0f},{y:.0f}=thing", asked.steps, asked.device, block)
        ours = thing.mesh.moved(thing.T_world_object)
        mean, p95 = chamfer_m(ours, true)
        told["runs"].append(
            {
                "blocks": block.told,
                "total_wall_s": block.wall_s,
                "chamfer_mm": round(1e3 * mean, 2),
                "p95_mm": round(1e3 * p95, 2),
                "volume_error": round(volume_error(ours, true), 4),
                "views": len(kept.views),
                "held_out": {name: round(value, 2) for name, value in thing.held_out.items()},
            }
        )
        asked.out.write_text(json.dumps(told, indent=1))
    alone = Blocks()
    if asked.threads:
        sights = [sight for sight in sights_of(kept, "thing") if sight.shown]
        hull = shape_from_masks(
            [s.silhouette for s in sights], ShapeRecipe(across=96, faces=4000), support=Plane()
        ).mesh
        for threads in asked.threads:
            how = Refining(area_weight=AREA, support=Plane(), threads=threads)
            alone(f"refined surface, {threads} threads", "cpu", lambda: refine(bind(hull, 1, "thing"), sights, how))  # noqa: B023
    told["apart"] = alone.told
    asked.out.write_text(json.dumps(told, indent=1))
    print(json.dumps(told))


if __name__ == "__main__":
    main()
