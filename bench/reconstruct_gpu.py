"""An object's reconstruction at 640 × 480, block by block, with what can run on a GPU there.

python -m bench.reconstruct_gpu OUT.json [--device cuda] [--size 640 480] [--pictures 40] [--steps 800]

The scan of the lab's push bench is played and drawn here, so nothing has to be decoded; cameras are the true ones. The
drawing is not timed. Which block ran where is in the answer: today only the background's fit runs on the GPU.
"""

from __future__ import annotations

import argparse
import json
import time
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
from twinproof.reconstruct.object_block import AREA, Shaping, at_rest, only_of, shaped, with_background
from twinproof.reconstruct.prompts import read_clicks
from twinproof.reconstruct.robot_look import pixels_of
from twinproof.reconstruct.shape import ShapeRecipe, shape_from_masks
from twinproof.reconstruct.surface import Bound, bind
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


def hull_alone(views: Views, name: str, table: Plane) -> Bound:
    """What the refinement begins with."""
    shown = [s.silhouette for s in sights_of(views, name) if (s.silhouette.mask == 1).any()]
    return bind(shape_from_masks(shown, ShapeRecipe(across=96, faces=4000), support=table).mesh, 1, name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--size", type=int, nargs=2, default=[640, 480])
    parser.add_argument("--pictures", type=int, default=40)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--seed", type=int, default=320)
    parser.add_argument("--threads", type=int, nargs="*", default=[], help="time the refinement with so many too")
    asked = parser.parse_args()
    began = time.time()
    clips, true = filmed(asked.seed, tuple(asked.size), asked.pictures)
    told: dict = {"size": asked.size, "drawing_s": round(time.time() - began, 1), "blocks": {}}
    middle = true.vertices.mean(axis=0)
    front = clips["front"]
    k = front.intrinsics
    x, y = pixels_of(Camera(Lens(*front.size, k.fx, k.fy, k.cx, k.cy), front.T_world_camera[0]), middle[None])[0][0]

    def block(name: str, where: str, work):
        wall, cpu = time.time(), time.process_time()
        made = work()
        spent = {"on": where, "wall_s": round(time.time() - wall, 2), "cpu_s": round(time.process_time() - cpu, 2)}
        told["blocks"][name] = spent
        print(name, spent, flush=True)
        return made

    table, prompts = Plane(), read_clicks([f"front,0,{x:.0f},{y:.0f}=thing"])
    masks = block("masks", "cpu", lambda: segment(clips, prompts, table))
    views = block("views", "cpu", lambda: at_rest(masks, "thing", clips))
    only = only_of(views, "thing")
    kept, _ = kept_and_apart(only)
    for threads in asked.threads:
        how = Refining(area_weight=AREA, support=table, threads=threads)
        mesh = hull_alone(kept, "thing", table)
        block(f"refined surface, {threads} threads", "cpu", lambda: refine(mesh, sights_of(kept, "thing"), how))  # noqa: B023
    told["apart"] = {name: told["blocks"].pop(name) for name in list(told["blocks"]) if "threads" in name}
    thing = block("hull and refined surface", "cpu", lambda: shaped(kept, "thing", "thing", table))
    how_shown = Shaping(background=asked.steps, device=asked.device)
    thing = block(
        "background, colours and texture", asked.device, lambda: with_background(thing, only, table, how_shown)
    )
    if find_spec("coacd") is None:
        told["blocks"]["convex parts"] = "not run: coacd is not installed there"
    else:
        block("convex parts", "cpu", lambda: convex_parts(simplified(thing.mesh, 2000)[0], Decomposing(seconds=500)))
    ours = thing.mesh.moved(thing.T_world_object)
    mean, p95 = chamfer_m(ours, true)
    told["total_wall_s"] = round(sum(each["wall_s"] for each in told["blocks"].values() if "wall_s" in each), 1)
    told["chamfer_mm"], told["p95_mm"] = round(1e3 * mean, 2), round(1e3 * p95, 2)
    told["volume_error"], told["views"] = round(volume_error(ours, true), 4), len(views.views)
    told["held_out"] = {name: round(value, 2) for name, value in thing.held_out.items()}
    asked.out.write_text(json.dumps(told, indent=1))
    print(json.dumps(told))


if __name__ == "__main__":
    main()
