"""Joint refinement with physics against the same blocks one after the other, on fresh episodes of the lab's push bench.

python -m bench.couple SEED EPISODE... > rows        scored seeds are never those the code was built on
python -m bench.couple table rows...                  the page
python -m bench.couple together SEED EPISODE...       E: these episodes at once, sharing cameras and joint offsets

A tracker       every frame by itself: pixels of three cameras, table tie, the cameras' stated errors
B smoothed      A under a Gaussian window of 0.04 s, weighed by its covariances
C rollout       A, then a rollout with friction and mass fitted to it; cameras and joints stay as calibrated
D joint         pixels, rollout, friction, mass, joint offsets and cameras at once, beginning at A
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bench.couple_scene import CAMERA_SD_M, CAMERA_SD_RAD, OFFSET_SD_RAD, Filmed, filmed
from scipy.spatial import cKDTree

from twinproof.nouns.randomness import stream
from twinproof.nouns.splats import Splats
from twinproof.reconstruct.couple import Coupling, Seen, couple
from twinproof.reconstruct.couple_episodes import Task, couple_all
from twinproof.sim.handled import Handling, resting_height
from twinproof.sim.scene import Scene
from twinproof.sim.track import Following, Rest, Tracker
from twinproof.sim.track_clips import sight_of, times_of, track
from twinproof.sim.track_fit import Pixels
from twinproof.sim.track_object import learnt, surface_splats
from twinproof.sim.track_pose import Track, move_between, nudged

PIXELS = Pixels(darkest=0.5)
SPACING_M, PIXEL_M = 0.006, 0.0045
PARAMETERS = ("geom.object.friction_slide", "body.object.mass")
CAMERA = {"camera_sd_m": CAMERA_SD_M / np.sqrt(3), "camera_sd_rad": CAMERA_SD_RAD / np.sqrt(3)}


def separate(film: Filmed, scene: Scene, start: np.ndarray) -> tuple[Splats, Track]:
    """Colours and tracks by turns, each from what the other gave."""
    rest = resting_height(
        scene, "object", nudged(np.eye(4), np.r_[start[:2, 3], film.mesh.vertices[:, 2].max(), 0, 0, 0])
    )
    how = Following(rest=Rest(rest), pixels=PIXELS, **CAMERA)
    splats = surface_splats(film.mesh, SPACING_M, PIXEL_M, film.rgb)
    time_s, groups = times_of(film.clips)
    some, poses = list(range(0, 12, 3)), [start] * 4
    for _ in range(2):
        splats = coloured(film, splats, groups, some, poses)
        tracker = Tracker(splats, how)
        found = []
        for i, T in zip(some, poses, strict=True):
            tracker.restart(T, float(time_s[i]))
            sights = [sight_of(film.clips[c], k, film.plates, None, time_s[i]) for c, k in groups[i]]
            found.append(tracker.step(sights, float(time_s[i]), T).T_world_object)
        poses = found
    first = track(Tracker(splats, how), film.clips, film.plates, poses[0], again=False)
    splats = coloured(film, splats, groups, range(0, len(time_s), 6), first.T_world_object[::6])
    return splats, track(Tracker(splats, how), film.clips, film.plates, poses[0])


def coloured(film: Filmed, splats: Splats, groups: list, frames: object, poses: object) -> Splats:
    """The object's colours as pictures at these poses show them: one on each side."""
    sights, where = [], []
    for i, T in zip(frames, poses, strict=True):
        for c, k in groups[i]:
            sights.append(sight_of(film.clips[c], k, film.plates).exposed())
            where.append(T)
    return learnt(splats, sights, where, plain=True)


def smoothed(found: Track, wide_s: float = 0.04) -> Track:
    """Poses under a Gaussian window, weighed by what each is sure of."""
    poses = []
    for k, t in enumerate(found.time_s):
        H, g = np.zeros((6, 6)), np.zeros(6)
        for j in np.flatnonzero((np.abs(found.time_s - t) < 3 * wide_s) & ~found.lost):
            weight = np.exp(-(((found.time_s[j] - t) / wide_s) ** 2) / 2) * np.linalg.inv(found.covariance[j])
            H, g = H + weight, g + weight @ move_between(found.T_world_object[k], found.T_world_object[j])
        poses.append(nudged(found.T_world_object[k], np.linalg.solve(H + 1e-9 * np.eye(6), g)))
    return Track(found.time_s, np.stack(poses), found.covariance, found.seen, found.residual, found.lost)


def errors(found: Track, film: Filmed) -> tuple[np.ndarray, np.ndarray]:
    """Position (mm) and angle (degrees) at each time. A can looks the same however it is turned: its axis counts."""
    true = film.truth.poses(found.time_s)
    off = move_between(found.T_world_object, true)
    angle = np.linalg.norm(off[:, 3:], axis=1)
    if film.name.startswith("can"):
        cosine = np.einsum("ti,ti->t", found.T_world_object[:, :3, 2], true[:, :3, 2])
        angle = np.arccos(np.clip(cosine, -1, 1))
    return 1e3 * np.linalg.norm(off[:, :3], axis=1), np.degrees(angle)


def placed_mm(found: Track, film: Filmed) -> float:
    """Chamfer distance (mm) of the measured surface where it was found to the true one where it was, over ten times."""
    mine, true = surface_splats(film.mesh, 0.004, 0.0).means, surface_splats(film.truth.mesh, 0.004, 0.0).means
    off = []
    for k in np.linspace(0, len(found) - 1, 10).astype(int):
        T, T_true = found.T_world_object[k], film.truth.poses(found.time_s[k : k + 1])[0]
        one, two = mine @ T[:3, :3].T + T[:3, 3], true @ T_true[:3, :3].T + T_true[:3, 3]
        there, back = cKDTree(two).query(one)[0], cKDTree(one).query(two)[0]
        off.append(0.5 * (there.mean() + back.mean()))
    return 1e3 * float(np.mean(off))


@dataclass(frozen=True, eq=False)
class Tracked:
    """An episode that the tracker has followed."""

    film: Filmed
    handling: Handling
    splats: Splats
    found: Track
    cpu_s: float

    @property
    def seen(self) -> Seen:
        """What joint refinement gets of it."""
        return Seen(self.film.clips, self.film.plates, self.splats, PIXELS)


def tracked(seed: int, number: int) -> Tracked:
    """Films an episode and follows its object from a start that is some millimetres and degrees off."""
    film = filmed(seed, number)
    root = Path(tempfile.mkdtemp())
    for name, data in film.assets.items():
        (root / name).write_bytes(data)
    scene = Scene(film.xml, root).leaner()
    rng = stream(seed, "bench", "couple", "start", f"{number}")
    start = nudged(film.truth.T_world_object[0], np.r_[rng.normal(0, 0.004, 2), 0, 0, 0, rng.normal(0, 0.08)])
    handling = Handling(scene, "object", film.joints, film.joint_time_s, film.joint)
    begun = time.process_time()
    splats, found = separate(film, scene, start)
    return Tracked(film, handling, splats, found, time.process_time() - begun)


def together(seed: int, numbers: list[int]) -> None:
    """E: several episodes of one recording at once; they share cameras and joint offsets. Prints a line for each."""
    ready = [tracked(seed, number) for number in numbers]
    how = Coupling(offset_sd_rad=OFFSET_SD_RAD, **CAMERA)
    tasks = [Task(each.handling, each.seen, each.found, PARAMETERS) for each in ready]
    for each, joint in zip(ready, couple_all(tasks, how), strict=True):
        pair = [np.sqrt(np.mean(np.square(errors(t, each.film)), axis=1)) for t in (each.found, joint.track)]
        print(each.film.name, "A mm, deg:", pair[0], "E:", pair[1], flush=True)


def run(seed: int, number: int, keep: Path | None = None) -> dict:
    """One episode: errors of all contenders, and what each cost. `keep` is a folder for the tracks."""
    ready = tracked(seed, number)
    film, handling, found = ready.film, ready.handling, ready.found
    row: dict = {"episode": film.name, "seed": seed, "number": number}
    spent = {"A tracker": ready.cpu_s}
    tracks = {"A tracker": found, "B smoothed": smoothed(found)}
    begun = time.process_time()
    fixed = Coupling(offset_sd_rad=1e-7, moves=3)
    tracks["C rollout"] = couple(handling, None, found, PARAMETERS, fixed, tracks=[found]).track
    spent["C rollout"] = time.process_time() - begun
    begun = time.process_time()
    how = Coupling(offset_sd_rad=OFFSET_SD_RAD, **CAMERA)
    joint = couple(handling, ready.seen, found, PARAMETERS, how)
    spent["D joint"] = time.process_time() - begun
    tracks["D joint"] = joint.track
    for name, each in tracks.items():
        mm, deg = errors(each, film)
        row[name] = {"mm": float(np.sqrt(np.mean(mm**2))), "deg": float(np.sqrt(np.mean(deg**2))),
                     "placed_mm": placed_mm(each, film),
                     "mm_median": float(np.median(mm)), "deg_median": float(np.median(deg)),
                     "cpu_s": round(spent.get(name, 0.0), 1)}  # fmt: skip
    if keep is not None:
        poses = {name[2:]: each.T_world_object for name, each in tracks.items()}
        true = film.truth.poses(found.time_s)
        np.savez(keep / f"{seed}_{number}.npz", time_s=found.time_s, true=true, sd=joint.track.covariance, **poses)
    row["friction"] = [joint.start[PARAMETERS[0]], film.truth.friction]
    row["mass"] = [joint.start[PARAMETERS[1]], film.truth.mass_kg]
    row["cost"], row["weak"], row["moves"] = dict(joint.cost), list(joint.weak), joint.moves
    return row


def table(rows: list[dict]) -> str:
    """The rows as a page: each episode, the means over all, and by how much each contender is below the tracker."""
    names = ("A tracker", "B smoothed", "C rollout", "D joint")
    lines = ["| episode | " + " | ".join(f"{name}: mm / deg" for name in names) + " |", "|---" * 5 + "|"]
    for row in rows:
        cells = [f"{row[name]['mm']:.2f} / {row[name]['deg']:.2f}" for name in names]
        lines.append(f"| {row['episode']} | " + " | ".join(cells) + " |")
    mean = {name: [np.mean([row[name][what] for row in rows]) for what in ("mm", "deg")] for name in names}
    lines.append(
        "| **mean** | " + " | ".join(f"**{mean[name][0]:.2f} / {mean[name][1]:.2f}**" for name in names) + " |"
    )
    less = [[1 - mean[name][k] / mean["A tracker"][k] for k in (0, 1)] for name in names]
    lines.append("| lower than A | " + " | ".join(f"{a:.0%} / {b:.0%}" for a, b in less) + " |")
    placed = [np.mean([row[name]["placed_mm"] for row in rows]) for name in names]
    lines.append("| surface as placed, Chamfer mm | " + " | ".join(f"{p:.2f}" for p in placed) + " |")
    cpu = [np.mean([row[name]["cpu_s"] for row in rows]) for name in names]
    lines.append("| CPU-s | " + " | ".join(f"{c:.0f}" for c in cpu) + " |")
    better = sum(row["D joint"]["mm"] < row["A tracker"]["mm"] for row in rows)
    lines.append("")
    lines.append(f"D is nearer than A in {better} of {len(rows)} episodes (position).")
    for key in ("friction", "mass"):
        began = [abs(np.log(row[key][0] / row[key][1])) for row in rows]
        lines.append(f"{key}: D is off by {np.mean(began):.0%} on average (mean absolute log ratio).")
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1] == "table":
        print(table([json.loads(line) for name in sys.argv[2:] for line in Path(name).read_text().splitlines()]))
    elif sys.argv[1] == "together":
        together(int(sys.argv[2]), [int(number) for number in sys.argv[3:]])
    else:
        for episode in sys.argv[2:]:
            print(json.dumps(run(int(sys.argv[1]), int(episode))), flush=True)
