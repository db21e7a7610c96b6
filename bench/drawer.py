"""A drawer end to end: recorded, its cameras found, cut out, followed, and put into a twin with its joint.

python -m bench.drawer --seed 401          against the planted truth: axis, origin and range

The three still cameras record (the wrist's is left out: nothing here needs it). One click on the drawer's front, put
where the front truly is, as a person would click. `reconstruct` does the rest, through the function that the command
calls. The origin's error is across the axis: along it a slide has none.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from twinproof.ingest.assemble import Tolerances
from twinproof.ingest.read import ingest
from twinproof.lab.models.things import CABINET_X_M, PLINTH_M
from twinproof.lab.record import Options, record
from twinproof.nouns.parts import Calibration
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Mount, read_rig
from twinproof.reconstruct.build import Building, built
from twinproof.reconstruct.object_block import Shaping
from twinproof.reconstruct.prompts import read_clicks
from twinproof.reconstruct.robot_look import pixels_of
from twinproof.sim.render_camera import Camera, Lens

ROOT = Path(__file__).parents[1] / "build" / "drawer"
CAMERAS, EPISODES = ("front", "left", "right"), 3
ABOVE_M = 0.016  # the drawer's middle over half its height, as the lab's cabinets are built


def recorded(seed: int, size: tuple[int, int]) -> Path:
    """The folder of a recording with its truth; made first where it is not there."""
    folder = ROOT / f"{seed}_{size[0]}x{size[1]}"
    if not (folder / "recording").exists():
        folder.mkdir(parents=True, exist_ok=True)
        how = Options(to="mcap", size=size, behaviours=("pull_back",), scan=False, cameras=CAMERAS)
        record("drawer", EPISODES, seed, folder / "lab", folder / "truth.json", how)
        ingest(folder / "lab" / "dataset", read_rig(folder / "lab" / "rig.toml"), folder / "recording", Tolerances())
    return folder


def front_of(thing: dict) -> np.ndarray:
    """The middle of the closed drawer's front, in the world."""
    return np.array([CABINET_X_M, 0.0, PLINTH_M + thing["half_m"][2] + ABOVE_M])


def click(truth: dict, recording: Recording, name: str, label: str) -> str:
    """On the front, a little beside the handle, in the first picture."""
    told = truth["cameras"][name]
    T = Mount(**{k: told["mount"][k] for k in ("parent", "position_m", "quat_wxyz")}).T_parent_camera
    episode = next(e for e in recording.episodes if e.labels["object"] == label)
    k, video = told["intrinsics"], episode.videos[name]
    lens = Lens(video.width, video.height, k["fx"], k["fy"], k["cx"], k["cy"])
    half = truth["objects"][label]["half_m"]
    place = front_of(truth["objects"][label]) + np.array([0.0, -0.6 * half[1], 0.3 * half[2]])
    x, y = pixels_of(Camera(lens, T), place[None])[0][0]
    return f"{name},0,{x:.0f},{y:.0f}=drawer"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=401)
    parser.add_argument("--size", type=int, nargs=2, default=[320, 240])
    parser.add_argument("--pictures", type=int, default=24)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    folder = recorded(asked.seed, tuple(asked.size))
    recording, truth = Recording.load(folder / "recording"), json.loads((folder / "truth.json").read_text())
    label = truth["episodes"][0]["labels"]["object"]
    prompts = read_clicks([click(truth, recording, "front", label)])
    how = Building(label, shaping=Shaping(prompts), pictures=asked.pictures, joint_of="drawer")
    cpu = time.process_time()
    with tempfile.TemporaryDirectory() as scratch:
        part = Calibration(recording, "0" * 64)
        twin = built(part, folder / "lab" / "robot.xml", how, folder / "work", Path(scratch), progress=_say)
        if asked.out:
            shutil.rmtree(asked.out, ignore_errors=True)
            twin.save(asked.out)
        found = twin.audits["joints"]["drawer"]
        joint = [
            line.strip()
            for line in (Path(scratch) / "scene.xml").read_text().splitlines()
            if 'type="slide" lim' in line
        ]
    axis, origin = np.array(found["axis"]), np.array(found["origin"])
    off = np.degrees(np.arccos(abs(float(axis @ [-1.0, 0.0, 0.0]))))
    away = origin - front_of(truth["objects"][label])
    across = 1e3 * float(np.linalg.norm(away[1:]))
    opened = np.array(truth["episodes"][0]["drawer_m"])
    print(f"{label}: {found['kind']}, {found['reason']}")
    print(
        f"  axis off by {off:.2f}° (stated {found['axis_sd_deg']:.2f}°); origin off by {across:.1f} mm across the axis"
    )
    print(f"  range {np.ptp(found['range']):.3f} m; truly it went by {np.ptp(opened):.3f} m; in scene.xml: {joint}")
    print(f"  {found['frames']} poses; {time.process_time() - cpu:.0f} CPU-s", *twin.notes, sep="\n  ")


def _say(done: int, what: str, total: int | None = None) -> None:
    if done == total:
        print(what, flush=True)


if __name__ == "__main__":
    main()
