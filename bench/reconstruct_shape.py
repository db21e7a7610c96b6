"""An object's shape after all blocks, against its true one: `python -m bench.reconstruct_shape --seeds 201 202 203`.

Goes on from `bench.reconstruct`, which keeps the cameras it found. One click in the front camera points at the object
of the scan episode; it is put where the object truly is, as a person would click.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import numpy as np
from bench.reconstruct import recorded
from scipy.spatial.transform import Rotation

from twinproof.nouns.mesh import Mesh
from twinproof.nouns.recording import Recording
from twinproof.reconstruct.calibration_block import FoundRobot, robot_of
from twinproof.reconstruct.clips import clips_of, hand_clip
from twinproof.reconstruct.collision import hull_of
from twinproof.reconstruct.gap import chamfer_m, volume_error
from twinproof.reconstruct.hand_block import FoundHands
from twinproof.reconstruct.object_block import Shaping, found_object
from twinproof.reconstruct.prompts import read_clicks
from twinproof.reconstruct.robot_look import pixels_of
from twinproof.sim.grid import Plane
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.scene import Scene


def true_mesh(thing: dict) -> Mesh:
    """The lab's object in its own frame."""
    x, y, z = thing["half_m"]

    def box(a: float, b: float, c: float, at: float = 0.0) -> np.ndarray:
        return np.array([[i, j + at, k] for i in (-a, a) for j in (-b, b) for k in (-c, c)])

    if thing["shape"] == "can":
        turn = np.linspace(0, 2 * np.pi, 97)[:-1]
        return hull_of(np.array([[x * np.cos(t), x * np.sin(t), h] for t in turn for h in (-z, z)]))
    if thing["shape"] == "tee":
        import trimesh

        parts = [trimesh.convex.convex_hull(p) for p in (box(x, y, z), box(y, x - y, z, -x))]
        whole = trimesh.boolean.union(parts)
        return Mesh(whole.vertices, whole.faces)
    return hull_of(box(x, y, z))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[201, 202, 203])
    parser.add_argument("--steps", type=int, default=600)
    asked = parser.parse_args()
    print("| seed | object | Chamfer mm (p95) | volume | closed | PSNR apart: all / object dB | CPU-s |")
    print("|---|---|---|---|---|---|---|")
    for seed in asked.seeds:
        folder = recorded(seed, 6, (320, 240))
        recording, truth = Recording.load(folder / "recording"), json.loads((folder / "truth.json").read_text())
        rig = recording.rig
        robot = robot_of(Scene.read(folder / "lab" / "robot.xml"), rig)
        found, hands = FoundRobot.load(folder / "found"), FoundHands.load(folder / "found")
        number = next(e["number"] for e in truth["episodes"] if e["labels"]["behaviour"] == "scan")
        told, episode = (
            truth["episodes"][number],
            next(e for e in recording.episodes if e.labels["behaviour"] == "scan"),
        )
        name, pose = told["labels"]["object"], np.array(told["object_pose"][20])
        cpu = time.process_time()
        clips = clips_of(episode.fresh(), rig, found, robot)
        clips["wrist"] = hand_clip(episode.fresh(), rig, "wrist", hands.cameras["wrist"], robot, found, Plane(), 2)
        prompts = read_clicks([_click(clips["front"], pose[:3], name)])
        thing = found_object(clips, name, Plane(), Shaping(prompts, background=asked.steps))
        cpu = time.process_time() - cpu
        T = np.eye(4)
        T[:3, :3], T[:3, 3] = Rotation.from_quat(pose[[4, 5, 6, 3]]).as_matrix(), pose[:3]
        true, ours = true_mesh(truth["objects"][name]).moved(T), thing.mesh.moved(thing.T_world_object)
        mean, p95 = chamfer_m(ours, true)
        figures = f"{thing.held_out.get('psnr_db', np.nan):.1f} / {thing.held_out.get('object_psnr_db', np.nan):.1f}"
        print(
            f"| {seed} | {name} | {1e3 * mean:.2f} ({1e3 * p95:.2f}) | {volume_error(ours, true):+.1%} | "
            f"{ours.closed} | {figures} | {cpu:.0f} |"
        )
        sys.stdout.flush()


def _click(clip, place: np.ndarray, name: str) -> str:
    k = clip.intrinsics
    pixel, _ = pixels_of(Camera(Lens(*clip.size, k.fx, k.fy, k.cx, k.cy), clip.T_world_camera[0]), place[None])
    x, y = (int(v) for v in pixel[0].round())
    frame = next(f for f in range(len(clip)) if not clip.robot[f, y, x])
    return f"{clip.camera},{frame},{x},{y}={name}"


if __name__ == "__main__":
    main()
