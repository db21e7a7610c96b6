"""Real pictures of a Franka through `twinproof ingest` and `twinproof calibrate`, beside ViSP's published figure.

    python -m bench.real.hand_eye WORK

Eight pictures and the hand's reported poses become a folder; an AprilTag on the hand puts the camera. Both figures are
in sample, over the same eight pictures: bench/results/hand_eye.md has each pose left out once.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
from pathlib import Path

import numpy as np
from bench.hand_eye import DATA, FREE, LENS, PUBLISHED, SIZE_M, TAG, _pose
from bench.real.public import fresh, keep, recordings, twinproof
from scipy.spatial.transform import Rotation

FIGURES = {"camera_deg": 0.512, "camera_mm": 2.35}  # ViSP's tutorial, quoted in the data's SOURCE.txt
RIG = f"""format = "twinproof/rig/1"
robot = "franka"

[signals.hand]
source = "hand"
kind = "pose"
units = ["m", "m", "m", "1", "1", "1", "1"]
columns = ["x", "y", "z", "qw", "qx", "qy", "qz"]
max_gap_s = 2.0

[cameras.front]
source = "front"
intrinsics = {{ fx = {LENS.fx}, fy = {LENS.fy}, cx = {LENS.cx}, cy = {LENS.cy} }}

[[labels]]
episodes = "*"
labels = {{ object = "none" }}
"""


def write_source(folder: Path) -> None:
    """Pictures with their times, and the hand's pose at each, as a user has them."""
    place = folder / "recordings" / "snapshots"
    (place / "front").mkdir(parents=True)
    with (place / "hand.csv").open("w", newline="") as hand, (place / "front" / "times.csv").open("w") as times:
        table = csv.writer(hand)
        table.writerow(["time_s", "x", "y", "z", "qw", "qx", "qy", "qz"])
        times.write("file,time_s\n")
        for k in range(1, 9):
            T = _pose(k)
            x, y, z, w = Rotation.from_matrix(T[:3, :3]).as_quat()
            table.writerow([k, *map(repr, T[:3, 3].tolist()), *map(repr, (float(v) for v in (w, x, y, z)))])
            times.write(f"{k:04d}.png,{k}\n")
            shutil.copyfile(DATA / f"franka_image-{k}.png", place / "front" / f"{k:04d}.png")
    (folder / "rig.toml").write_text(RIG)


def main() -> None:
    """Runs the commands and writes bench/results/real_hand_eye.json."""
    recordings("franka_handeye")
    work = fresh(Path(sys.argv[1]))
    write_source(work)
    spent = twinproof("ingest", work / "recordings", "--rig", work / "rig.toml", "--out", work / "recording",
                      "--max-gap-s", 5)  # fmt: skip
    spent += twinproof(
        "calibrate", work / "recording", "--board", f"tag36h11:{TAG}@hand={SIZE_M}",
        "--lens-sd", FREE.focal, FREE.centre_px, FREE.k1, FREE.k2, "--out", work / "cameras",
    )  # fmt: skip
    (camera,) = json.loads((work / "cameras" / "cameras.json").read_text())["cameras"]
    off = np.array(camera["mount"]["position_m"]) - PUBLISHED
    keep(
        "real_hand_eye",
        {
            "command": "python -m bench.real.hand_eye WORK",
            "ours": {
                "camera_deg": round(camera["scatter_of_camera"]["deg"], 3),
                "camera_mm": round(camera["scatter_of_camera"]["mm"], 2),
                "position_sd_mm": round(1e3 * camera["mount"]["position_sd_m"], 2),
                "from_published_mm": round(1e3 * float(np.linalg.norm(off)), 2),
                "cpu_s": round(spent, 1),
            },
            "published": FIGURES,
        },
    )


if __name__ == "__main__":
    main()
