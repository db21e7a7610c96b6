"""A real T block, pushed by a real Franka, through the public commands: ingest, split, reconstruct, update.

    python -m bench.real.pusht WORK [--picture P]

Three calibrated cameras become a Recording; the split cuts the one episode in time and seals its end. The recording has
no joint states, so the cameras are taken as given, one click points at the block, and shape and track come from the
calibration part. `twinproof update` follows the block through the whole recording; scored are pictures of the sealed
stretch, opened once.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
from pathlib import Path

import numpy as np
from bench.pusht import CLICK, DATA, scores, sheet, table
from bench.real.public import fresh, keep, recordings, twinproof

from twinproof.nouns.clip import Clip
from twinproof.nouns.mesh_files import read_mesh
from twinproof.nouns.recording import Recording
from twinproof.nouns.split import Split
from twinproof.nouns.twin import Twin
from twinproof.reconstruct.clips import FRAMES
from twinproof.reconstruct.poses import quat_of
from twinproof.sim.handled import pose_of

SIZES = (0.6, 0.05, 0.35)
LOOKS = 25  # pictures of each camera, in the calibration part and in the sealed stretch


def write_source(folder: Path) -> None:
    """Videos with their times, and a rig with the cameras as the recording gives them."""
    place = folder / "recordings" / "demo_0"
    place.mkdir(parents=True)
    lines = ['format = "twinproof/rig/1"', 'robot = "franka"', ""]
    for name, told in json.loads((DATA / "cameras.json").read_text()).items():
        meta = json.loads((DATA / "videos" / f"{name}.json").read_text())
        shutil.copyfile(DATA / "videos" / f"{name}.mp4", place / f"{name}.mp4")
        with (place / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["time_s"], *([repr(t)] for t in meta["timestamps"])])
        K, pose = np.array(meta["K"]), np.array(told["X_WC"]) @ np.diag([1.0, -1.0, -1.0, 1.0])  # theirs look along -z
        lines += [
            f'[cameras."{name}"]',
            f'source = "{name}"',
            f"intrinsics = {{ fx = {K[0, 0]}, fy = {K[1, 1]}, cx = {K[0, 2]}, cy = {K[1, 2]} }}",
            f'[cameras."{name}".mount]',
            'parent = "world"',
            f"position_m = {pose[:3, 3].tolist()}",
            f"quat_wxyz = {list(quat_of(pose))}",
            "",
        ]
    lines += ["[[labels]]", 'episodes = "*"', 'labels = { object = "tee" }', ""]
    (folder / "rig.toml").write_text("\n".join(lines))


def clips_of(recording: Recording, begin_s: float) -> dict[str, Clip]:
    """So many pictures of every camera, evenly from a time on."""
    (episode,) = recording.episodes
    clips = {}
    for name, camera in recording.rig.cameras.items():
        video = episode.fresh().videos[name]
        inside = np.flatnonzero(video.time_s >= begin_s)
        chosen = inside[np.linspace(0, len(inside) - 1, LOOKS).astype(int)]
        with video.reader() as reader:
            pictures = np.stack([reader.frame(int(k)) for k in chosen])
        assert camera.intrinsics is not None
        assert camera.mount is not None
        poses = np.tile(camera.mount.T_parent_camera, (LOOKS, 1, 1))
        clips[name] = Clip(name, video.time_s[chosen], pictures, camera.intrinsics, poses)
    return clips


def told(track: dict) -> tuple[np.ndarray, np.ndarray]:
    """Times and poses of a track as a twin's audit has it."""
    return np.array(track["time_s"]), np.array([pose_of(np.array(pose)) for pose in track["pose"]])


def main() -> None:
    """Runs the commands, scores, and writes bench/results/real_pusht.json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--picture", type=Path, help="a sheet of outlines over sealed pictures")
    asked = parser.parse_args()
    recordings("franka_pusht_3cam")
    work, ground = fresh(asked.work), table()
    write_source(work)
    spent = twinproof("ingest", work / "recordings", "--rig", work / "rig.toml", "--out", work / "recording")
    spent += twinproof(
        "split", work / "recording", "--spans", "--gap-s", 0.2, "--sizes", *SIZES, "--out", work / "split"
    )
    spent += twinproof(
        "reconstruct", work / "split", "--cameras", "given", "--click", CLICK, "--table-m", ground.offset_m,
        "--table-normal", *ground.normal, "--out", work / "twin",
    )  # fmt: skip
    split = Split.load(work / "split")
    (sealed,) = (span for span in split.spans if span.part == "holdout")
    pictures = round(FRAMES / SIZES[0])  # of all, as close together as those of the calibration
    spent += twinproof(
        "update", work / "twin", work / "recording", "--click", CLICK, "--pictures", pictures, "--out", work / "now"
    )
    whole, (calibration, _, _) = Recording.load(work / "recording"), split.parts()
    twin, now = Twin.load(work / "twin"), Twin.load(work / "now")
    mesh = read_mesh(twin.path(str(twin.body("tee").visual)))
    followed, later = twin.audits["followed"]["tee"], now.audits["update"]["objects"]["tee"]  # type: ignore[index,call-overload]
    late = np.array(later["time_s"]) >= sealed.start_s
    held = clips_of(whole, sealed.start_s)
    sides = np.ptp(mesh.vertices, axis=0)
    keep(
        "real_pusht",
        {
            "command": "python -m bench.real.pusht WORK",
            "IoU, median by camera": {
                "calibration": _medians(scores(mesh, clips_of(calibration.recording, -np.inf), *told(followed))),
                "sealed": _medians(scores(mesh, held, *told(later))),
            },
            "lost": {
                "calibration": float(np.mean(followed["lost"])),
                "sealed": float(np.array(later["lost"])[late].mean()),
            },
            "box around it, mm": [round(1e3 * float(side)) for side in sides],
            "cpu_s": round(spent, 1),
        },
    )
    if asked.picture:
        sheet(mesh, held, *told(later), asked.picture)


def _medians(found: dict[str, list[float]]) -> dict[str, float]:
    return {name: round(float(np.median(values)), 3) for name, values in found.items()}


if __name__ == "__main__":
    main()
