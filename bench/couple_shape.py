"""Joint refinement by the command's own blocks, vertices included, against the same blocks one after the other.

python -m bench.couple_shape SEED EPISODE... > rows     scored seeds are never those the code was built on
python -m bench.couple_shape table rows...               the page

Every contender gets the same: pictures of three cameras with what calibration leaves, joint angles, nobody's
measurement of the object. Masks, hull and refined surface of its rest (found_object), then its track (found_motion).

A tracker       shape of the rest, every frame by itself
C rollout       A, then a rollout with friction and mass fitted to it; shape, cameras and joints stay
V vertices      A, then vertices by all pictures at A's poses: blocks in a row, no physics
D joint         pixels, rollout, physics, torques, cameras and offsets at once, by turns with vertices and looks
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from bench.couple_scene import CAMERA_SD_M, CAMERA_SD_RAD, OFFSET_SD_RAD, Filmed, filmed
from scipy.spatial import cKDTree

from twinproof.lab.benches import bench as bench_of
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.rig import Mount
from twinproof.reconstruct.assemble import Physical, Room, Thing, write_scene
from twinproof.reconstruct.calibration_block import FoundCamera, FoundRobot
from twinproof.reconstruct.couple import Coupling, couple
from twinproof.reconstruct.gap import chamfer_m, volume_error
from twinproof.reconstruct.joint_block import FoundJoint, found_joint
from twinproof.reconstruct.joint_shape import reshaped_by, resized, together
from twinproof.reconstruct.motion_block import FoundMotion, found_motion
from twinproof.reconstruct.moving import ROLLED
from twinproof.reconstruct.object_block import FoundObject, Shaping, found_object
from twinproof.reconstruct.prompts import Prompt, Prompts
from twinproof.reconstruct.robot_frames import Angles
from twinproof.sim.grid import Plane
from twinproof.sim.handled import Handling
from twinproof.sim.scene import Scene
from twinproof.sim.track_object import surface_splats
from twinproof.sim.track_pose import Track, move_between

NAMES = ("A tracker", "C rollout", "V vertices", "D joint")
ASKED = Prompts((Prompt("object", words="the thing that moved"),))


@dataclass(frozen=True, eq=False)
class Ready:
    """An episode after the blocks that all contenders share."""

    film: Filmed
    thing: FoundObject
    motion: FoundMotion
    cpu_s: float


def ready(seed: int, number: int) -> Ready:
    """Films an episode, finds its object and follows it."""
    film = filmed(seed, number)
    begun, clips = time.process_time(), {clip.camera: clip for clip in film.clips}
    thing = found_object(clips, "object", Plane(), Shaping(prompts=ASKED))
    motion = found_motion(clips, thing, f"{number:032d}", Plane(), ASKED)
    return Ready(film, thing, motion, time.process_time() - begun)


def room_of(film: Filmed) -> Room:
    """What calibration says: cameras and offsets with the errors that they truly have, on average."""
    cameras = {}
    for clip in film.clips:
        width, height = clip.size
        mount = Mount("world", position_sd_m=CAMERA_SD_M, rotation_sd_rad=CAMERA_SD_RAD)
        cameras[clip.camera] = FoundCamera(width, height, clip.intrinsics, mount, 0, 0.002, 0, 0, 0.003, 1.0)
    sd = dict.fromkeys(film.joints, OFFSET_SD_RAD)
    found = FoundRobot(cameras, dict.fromkeys(film.joints, 0.0), sd, {}, (), {})
    root = Path(tempfile.mkdtemp())
    for name, data in film.assets.items():
        (root / name).write_bytes(data)
    none: object = None
    return Room(Scene(bench_of("push").robot_text(), root), none, found, {}, Plane(), Physical())  # type: ignore[arg-type]


class Scenes:
    """The scenes that the command would write; one of the same object is not cut again."""

    def __init__(self, room: Room) -> None:
        self.room, self.made = room, list[tuple[FoundObject, Scene]]()

    def of(self, thing: FoundObject) -> Scene:
        """With this object."""
        for each, scene in self.made:
            if each is thing:
                return scene
        folder = Path(tempfile.mkdtemp())
        write_scene(self.room, [Thing(thing)], folder, ROLLED)
        self.made.append((thing, Scene.read(folder / "scene.xml")))
        return self.made[-1][1]


def run(seed: int, number: int, got: Ready | None = None) -> dict:
    """One episode: errors of all contenders."""
    got = got or ready(seed, number)
    film, thing, motion = got.film, got.thing, got.motion
    room, angles = room_of(film), Angles(film.joint_time_s, film.joint)
    scenes = Scenes(room)
    row: dict = {"episode": film.name, "seed": seed, "number": number, "shared_cpu_s": round(got.cpu_s, 1)}
    begun = time.process_time()
    handling = Handling(scenes.of(thing).leaner(), "object", film.joints, angles.time_s, angles.value)
    ids = ("body.object.friction_slide", "body.object.mass")
    track = motion.track
    rolled = couple(handling, None, track, ids, Coupling(offset_sd_rad=1e-7, moves=3), tracks=[track]).track
    row["C rollout"] = scored(thing, rolled, film) | {"cpu_s": round(time.process_time() - begun, 1)}
    row["A tracker"] = scored(thing, track, film) | {"cpu_s": 0.0}
    begun = time.process_time()
    alone = FoundJoint("object", "", track, {}, {}, {}, 0.0, 0.0, 0, ())
    shaped = reshaped_by(thing, motion, film.clips, alone, Plane())
    row["V vertices"] = scored(shaped, track, film) | {"cpu_s": round(time.process_time() - begun, 1)}
    begun = time.process_time()

    def refine(thing: FoundObject, motion: FoundMotion) -> FoundJoint:
        return found_joint(scenes.of(thing), motion, film.clips, angles, room.found, film.joints, (), film.torque)

    joint = together(thing, motion, film.clips, Plane(), refine)
    spent = round(time.process_time() - begun, 1)
    row["D joint"] = scored(resized(joint.shape or thing, joint.scale), joint.track, film) | {"cpu_s": spent}
    row["friction"] = [joint.start[ids[0]], film.truth.friction]
    row["mass"] = [joint.start[ids[1]], film.truth.mass_kg]
    row["covered"] = covered(resized(joint.shape or thing, joint.scale), joint.track, film)
    row["torques"] = joint.torques
    row["reshaped"], row["scale"], row["cost"] = joint.reshaped, joint.scale, [joint.first_cost, joint.cost]
    return row


def scored(thing: FoundObject, track: Track, film: Filmed) -> dict:
    """Errors of poses (rms over time) and of the shape. The measured frame is laid on the true one by the shapes."""
    T = laid_on(thing.mesh, film.truth.mesh, np.linalg.inv(track.T_world_object[0]) @ film.truth.poses(track.time_s)[0])
    off, angle = poses_off(T, track, film)
    mine = thing.mesh.moved(np.linalg.inv(T))
    placed = replace(track, T_world_object=track.T_world_object @ T)
    return {
        "mm": float(1e3 * np.sqrt(np.mean(np.square(off[:, :3]).sum(axis=1)))),
        "xy_mm": float(1e3 * np.sqrt(np.mean(np.square(off[:, :2]).sum(axis=1)))),
        "deg": float(np.degrees(np.sqrt(np.mean(angle**2)))),
        "motion_mm": float(1e3 * np.sqrt(np.mean(np.square(off[:, :3] - off[:, :3].mean(axis=0)).sum(axis=1)))),
        "chamfer_mm": 1e3 * chamfer_m(mine, film.truth.mesh)[0],
        "volume": volume_error(mine, film.truth.mesh),
        "placed_mm": placed_mm(mine, placed, film),
    }


def poses_off(T: np.ndarray, track: Track, film: Filmed) -> tuple[np.ndarray, np.ndarray]:
    """Moves to the true poses, and the angle of each; a can looks the same however it is turned: its axis counts."""
    found, true = track.T_world_object @ T, film.truth.poses(track.time_s)
    off = move_between(found, true)
    angle = np.linalg.norm(off[:, 3:], axis=1)
    if film.name.startswith("can"):
        angle = np.arccos(np.clip(np.einsum("ti,ti->t", found[:, :3, 2], true[:, :3, 2]), -1, 1))
    return off, angle


def covered(thing: FoundObject, track: Track, film: Filmed) -> float:
    """The share of times whose true (x, y) lies in the stated 90 % ellipse."""
    T = laid_on(thing.mesh, film.truth.mesh, np.linalg.inv(track.T_world_object[0]) @ film.truth.poses(track.time_s)[0])
    off = poses_off(T, track, film)[0][:, :2]
    far = np.einsum("ti,tij,tj->t", off, np.linalg.inv(track.covariance[:, :2, :2]), off)
    return float(np.mean(far < -2 * np.log(0.1)))


def laid_on(mine: Mesh, true: Mesh, T: np.ndarray, rounds: int = 40) -> np.ndarray:
    """T_mine_true that lays the true shape best on the measured one (nearest points both ways), beginning at T."""
    ours, theirs = (surface_splats(each, 0.003, 0.0).means for each in (mine, true))
    tree = cKDTree(ours)
    for _ in range(rounds):
        there = theirs @ T[:3, :3].T + T[:3, 3]
        one, two = (
            np.concatenate([there, there[cKDTree(there).query(ours)[1]]]),
            np.concatenate([ours[tree.query(there)[1]], ours]),
        )
        weight = np.r_[np.full(len(there), 1 / len(there)), np.full(len(ours), 1 / len(ours))]
        middle_one, middle_two = np.average(one, axis=0, weights=weight), np.average(two, axis=0, weights=weight)
        u, _, vt = np.linalg.svd(((one - middle_one) * weight[:, None]).T @ (two - middle_two))
        turn = vt.T @ np.diag([1, 1, np.linalg.det(vt.T @ u.T)]) @ u.T
        step = np.eye(4)
        step[:3, :3], step[:3, 3] = turn, middle_two - turn @ middle_one
        T = step @ T
    return T


def placed_mm(mine: Mesh, track: Track, film: Filmed) -> float:
    """Chamfer distance of the surface where it was found to the true one where it was, over ten times."""
    ours, theirs = (surface_splats(each, 0.004, 0.0).means for each in (mine, film.truth.mesh))
    off = []
    for k in np.linspace(0, len(track) - 1, 10).astype(int):
        T, T_true = track.T_world_object[k], film.truth.poses(track.time_s[k : k + 1])[0]
        one, two = ours @ T[:3, :3].T + T[:3, 3], theirs @ T_true[:3, :3].T + T_true[:3, 3]
        off.append(0.5 * (cKDTree(two).query(one)[0].mean() + cKDTree(one).query(two)[0].mean()))
    return 1e3 * float(np.mean(off))


def table(rows: list[dict]) -> str:
    """Each episode, the means, and by how much each contender is below the tracker."""
    lines = ["| episode | " + " | ".join(f"{name}: mm / deg / Chamfer mm" for name in NAMES) + " |", "|---" * 5 + "|"]
    keys = ("mm", "deg", "chamfer_mm")
    for row in rows:
        cells = [" / ".join(f"{row[name][key]:.2f}" for key in keys) for name in NAMES]
        lines.append(f"| {row['episode']} | " + " | ".join(cells) + " |")
    mean = {
        name: {key: np.mean([row[name][key] for row in rows]) for key in (*keys, "placed_mm", "motion_mm", "cpu_s")}
        for name in NAMES
    }
    lines.append(
        "| **mean** | " + " | ".join("**" + " / ".join(f"{mean[n][k]:.2f}" for k in keys) + "**" for n in NAMES) + " |"
    )
    less = [" / ".join(f"{1 - mean[n][k] / mean['A tracker'][k]:.0%}" for k in keys) for n in NAMES]
    lines.append("| lower than A | " + " | ".join(less) + " |")
    for key, said in (
        ("motion_mm", "motion alone (place taken off), mm"),
        ("placed_mm", "surface as placed, mm"),
        ("cpu_s", "CPU-s beyond A"),
    ):
        lines.append(f"| {said} | " + " | ".join(f"{mean[n][key]:.2f}" for n in NAMES) + " |")
    lines.append("")
    for key in ("friction", "mass"):
        off = np.mean([abs(np.log(row[key][0] / row[key][1])) for row in rows])
        lines.append(f"{key}: D is off by {off:.0%} (mean absolute log ratio).")
    lines.append(
        "D's 90 % ellipses of (x, y) cover " + ", ".join(f"{row['covered']:.0%}" for row in rows) + " of the times."
    )
    lines += [f"{row['episode']}: {row['reshaped']}." for row in rows]
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1] == "table":
        print(table([json.loads(line) for name in sys.argv[2:] for line in Path(name).read_text().splitlines()]))
    else:
        for episode in sys.argv[2:]:
            print(json.dumps(run(int(sys.argv[1]), int(episode))), flush=True)
