r"""The README's picture: what the cameras recorded, beside what the twin's splats show from the same place and posture.

    twinproof lab record push --episodes 12 --seed 0 --out lab
    twinproof ingest lab/dataset --rig lab/rig.toml --out recording
    twinproof split recording --group-by object,session --out split
    twinproof reconstruct split --robot lab/robot.xml --object can_08 --click front,0,75,65=can_08 --pictures 20 \
        --background-steps 400 --out twin
    python -m bench.picture split twin docs/twin_beside_recording.png

The robot stands as its encoders said, corrected by the offsets that the twin found;
the object lies where the twin has it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from PIL import Image, ImageDraw

from twinproof.nouns.episode import Episode
from twinproof.nouns.rig import Rig
from twinproof.nouns.split import Split
from twinproof.nouns.twin import Twin
from twinproof.reconstruct.robot_frames import joint_angles
from twinproof.sim.scene import Scene
from twinproof.tasks.eyes import SplatEyes

WIDTH, GAP, HEAD = 400, 8, 22  # px
INK, PAPER = (31, 41, 55), (255, 255, 255)


@dataclass
class Standing:
    """One world as it stands, in the form that eyes look at."""

    model: Any
    data: Any
    patient: bool = True
    xp: Any = np

    def view(self, name: str) -> np.ndarray:
        """An array of all bodies, with a first axis of one world."""
        return np.array(getattr(self.data, name))[None]


def standing(twin: Twin, episode: Episode, rig: Rig, time_s: float) -> Standing:
    """The twin's scene with the robot as it was measured at a time."""
    model = Scene.of(twin).nominal()
    data = mujoco.MjData(model)
    angles = joint_angles(episode, rig)
    for name, angle in zip(rig.joint_names, angles.at(np.array([time_s]))[0], strict=True):
        data.qpos[model.joint(name).qposadr[0]] = angle - twin.start.get(f"joint.{name}.offset", 0.0)
    mujoco.mj_forward(model, data)
    return Standing(model, data)


def rows_of(split: Path, twin: Twin, cameras: tuple[str, ...]) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Camera, recorded picture, the twin's picture: the start of the calibration episode whose object it has."""
    calibration = Split.load(split).parts()[0].recording
    bodies = {body.name for body in twin.bodies}
    episode = next((e for e in calibration.episodes if e.labels.get("object") in bodies), calibration.episodes[0])
    fresh = episode.fresh()
    rows = []
    for name in cameras:
        video = fresh.videos[name]
        time_s = float(video.time_s[0])
        seen = SplatEyes(twin, (name,), width=twin.cameras[name].width).see(
            standing(twin, fresh, calibration.rig, time_s + calibration.rig.cameras[name].clock_offset_s)
        )
        with video.reader() as reader:
            rows.append((name, reader.frame(0), np.asarray(seen[name][0])))
    return rows


def sheet(rows: list[tuple[str, np.ndarray, np.ndarray]]) -> Image.Image:
    """A row for each camera: recorded on the left, the twin on the right."""
    pairs = [(name, *(Image.fromarray(p).resize(_size(p), Image.Resampling.LANCZOS) for p in both))
             for name, *both in rows]  # fmt: skip
    height = HEAD + sum(left.height + GAP for _, left, _ in pairs)
    page = Image.new("RGB", (2 * WIDTH + 3 * GAP, height), PAPER)
    pen = ImageDraw.Draw(page)
    for k, text in enumerate(("recorded", "the twin, drawn from its splats")):
        pen.text((GAP + k * (WIDTH + GAP), 5), text, fill=INK)
    y = HEAD
    for _, left, right in pairs:
        page.paste(left, (GAP, y))
        page.paste(right, (2 * GAP + WIDTH, y))
        y += left.height + GAP
    return page


def _size(picture: np.ndarray) -> tuple[int, int]:
    return WIDTH, round(WIDTH * picture.shape[0] / picture.shape[1])


def main() -> None:
    """Draws and writes the picture."""
    split, twin, out = (Path(word) for word in sys.argv[1:4])
    made = Twin.load(twin)
    still = tuple(name for name, camera in made.cameras.items() if camera.mount.parent == "world")
    page = sheet(rows_of(split, made, still[:2]))
    page.quantize(256, method=Image.Quantize.MEDIANCUT).save(out, optimize=True)
    print(f"{out}: {page.width} × {page.height}, {out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
