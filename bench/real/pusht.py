"""A real T block, pushed by a real Franka: `twinproof ingest` and `twinproof split`, then the blocks of bench.pusht.

    python -m bench.real.pusht WORK

Three calibrated cameras become a Recording; the split cuts the one episode in time and seals its end. The recording has
no joint states, and `twinproof reconstruct` needs them to tell the arm from the block, so the blocks that it is made of
are called here on the split's calibration part. Scored are pictures of the sealed stretch.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
import time
from pathlib import Path

import numpy as np
from bench.pusht import CLICK, DATA, carved, followed, orange, scores, table
from bench.real.public import fresh, keep, recordings, twinproof

from twinproof.nouns.clip import Clip
from twinproof.nouns.recording import Recording
from twinproof.nouns.split import Split
from twinproof.reconstruct.masks import segment
from twinproof.reconstruct.object_block import at_rest, shaped
from twinproof.reconstruct.poses import quat_of
from twinproof.reconstruct.prompts import read_clicks

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


def clips_of(recording: Recording, begin_s: float = -np.inf) -> dict[str, Clip]:
    """So many pictures of every camera, evenly from a time on."""
    (episode,) = recording.episodes
    clips = {}
    for name, camera in recording.rig.cameras.items():
        video = episode.fresh().videos[name]
        inside = np.flatnonzero(video.time_s > begin_s)
        chosen = inside[np.linspace(0, len(inside) - 1, LOOKS).astype(int)]
        with video.reader() as reader:
            pictures = np.stack([reader.frame(int(k)) for k in chosen])
        assert camera.intrinsics is not None
        assert camera.mount is not None
        poses = np.tile(camera.mount.T_parent_camera, (LOOKS, 1, 1))
        clips[name] = Clip(name, video.time_s[chosen], pictures, camera.intrinsics, poses)
    return clips


def main() -> None:
    """Runs the commands and the blocks, and writes bench/results/real_pusht.json."""
    recordings("franka_pusht_3cam")
    work = fresh(Path(sys.argv[1]))
    write_source(work)
    spent = twinproof("ingest", work / "recordings", "--rig", work / "rig.toml", "--out", work / "recording")
    spent += twinproof(
        "split", work / "recording", "--spans", "--gap-s", 0.2, "--sizes", *SIZES, "--out", work / "split"
    )
    began, ground = time.process_time(), table()
    calibration, validation, _ = Split.load(work / "split").parts()
    clips = clips_of(calibration.recording)
    masks = segment(clips, read_clicks([CLICK]), ground)
    own = {name: np.array(masks.of("tee", name)) for name in clips}
    thing = shaped(at_rest(masks, "tee", clips), "tee", "tee", ground)
    found = followed(thing, clips, own, None)
    thing = carved(thing, clips, own, found)
    found = followed(thing, clips, own, found.T_world_object[int(np.argmin(found.lost))])
    seen = scores(thing, clips, found)
    (last,) = validation.recording.episodes
    sealed = clips_of(Recording.load(work / "recording"), float(last.span_s[1]))
    coloured = {name: orange(clip.rgb) for name, clip in sealed.items()}
    later = followed(thing, sealed, coloured, found.T_world_object[np.flatnonzero(~found.lost)[-1]])
    keep(
        "real_pusht",
        {
            "command": "python -m bench.real.pusht WORK",
            "IoU, median by camera": {
                "calibration": {name: round(float(np.median(v)), 3) for name, v in seen.items()},
                "sealed": {name: round(float(np.median(v)), 3) for name, v in scores(thing, sealed, later).items()},
            },
            "lost": {"calibration": float(found.lost.mean()), "sealed": float(later.lost.mean())},
            "cpu_s": round(spent + time.process_time() - began, 1),
        },
    )


if __name__ == "__main__":
    main()
