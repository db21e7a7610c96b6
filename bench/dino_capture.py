"""The Middlebury dino as `twinproof splat` reads it: `python -m bench.dino_capture OUT` writes transforms.json and
pictures. Then: `twinproof splat mesh OUT --backdrop black --tolerance 0.17 --out dino`.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
from bench.shape_scene import DINO


def main() -> None:
    out, frames = Path(sys.argv[1]), []
    out.mkdir(parents=True)
    for line in (DINO / "dinoSR_par.txt").read_text().splitlines()[1:]:
        name, *words = line.split()
        numbers = np.array(words, float)
        K, T_camera_world = numbers[:9].reshape(3, 3), np.eye(4)
        T_camera_world[:3, :3], T_camera_world[:3, 3] = numbers[9:18].reshape(3, 3), numbers[18:]
        pose = np.linalg.inv(T_camera_world) @ np.diag([1.0, -1.0, -1.0, 1.0])
        lens = {"fl_x": K[0, 0], "fl_y": K[1, 1], "cx": K[0, 2] + 0.5, "cy": K[1, 2] + 0.5}
        frames.append({"file_path": name, "transform_matrix": pose.tolist(), **lens})
        shutil.copyfile(DINO / name, out / name)
    (out / "transforms.json").write_text(json.dumps({"frames": frames}, indent=1))


if __name__ == "__main__":
    main()
