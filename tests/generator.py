"""Recordings for tests and for the demo: a 6-joint arm pushes objects under two cameras, all of it drawn from a seed.

`python -m tests.generator FOLDER` writes a LeRobot v3.0 dataset and a rig.toml beside it, as a user would have them.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from twinproof.nouns.episode import Episode
from twinproof.nouns.randomness import stream
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Arm, Camera, Intrinsics, Joint, Labels, Mount, Rig, SignalRule
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.strict import plain
from twinproof.nouns.toml_text import to_toml
from twinproof.nouns.video_write import write_pictures

JOINTS = ("waist", "shoulder", "elbow", "forearm", "wrist", "hand")
CAMERAS = ("front", "side")


def practice_rig(size: tuple[int, int] = (160, 120)) -> Rig:
    """What the user states about the practice arm."""
    width, height = size
    lens = Intrinsics(0.9 * width, 0.9 * width, width / 2, height / 2)
    mounts = (
        Mount("world", (0.9, 0.0, 0.5), (0.2, 0.68, 0.68, 0.2)),
        Mount("world", (0.0, 0.9, 0.5), (0.0, 0.0, 0.8, 0.6)),
    )
    return Rig(
        robot="practice_arm",
        joints=tuple(Joint(name, (-3.1, 3.1)) for name in JOINTS),
        arms=(Arm("arm", JOINTS),),
        signals={
            "state": SignalRule("observation.state", "joint_position", "rad", columns=JOINTS),
            "command": SignalRule("action", "joint_command", "rad", columns=JOINTS),
        },
        cameras={
            name: Camera(
                f"observation.images.{name}", lens, mount=replace(mount, position_sd_m=0.02, rotation_sd_rad=0.05)
            )
            for name, mount in zip(CAMERAS, mounts, strict=True)
        },
    )


def practice_episode(
    folder: Path, number: int, *, seed: int = 0, seconds: float = 3.0, fps: int = 30, size: tuple[int, int] = (160, 120)
) -> Episode:
    """One push: joints follow a smooth path, cameras see a block move over a table."""
    rng = stream(seed, "practice", f"episode{number}")
    time_s = np.arange(round(seconds * rng.uniform(0.7, 1.3) * fps)) / fps
    command = _path(rng, time_s)
    state = _lagged(command, fps) + rng.normal(0, 1e-3, command.shape)
    columns = tuple(Column(name, "rad") for name in JOINTS)
    signals = {
        "state": Signal("state", "joint_position", columns, time_s, state),
        "command": Signal("command", "joint_command", columns, time_s, command),
    }
    colour = rng.integers(60, 230, 3)
    videos = {}
    for i, camera in enumerate(CAMERAS):
        pictures = ((float(t), _picture(state[k], size, colour, i)) for k, t in enumerate(time_s))
        videos[camera] = write_pictures(pictures, camera, folder / f"{number:03d}_{camera}.mp4")
    labels = {"object": f"block_{number % 7}", "session": f"day_{number % 7 % 4}", "task": "push the block"}
    outcome = "success" if rng.random() < 0.8 else "failure"
    return Episode.of(signals, videos, labels=labels, outcome=outcome, source=f"episode {number}")


def _path(rng: np.random.Generator, time_s: np.ndarray) -> np.ndarray:
    """A sum of slow sines for each joint, starting at rest."""
    phase, weight = rng.uniform(0, 2 * np.pi, (3, len(JOINTS))), rng.uniform(0.05, 0.4, (3, len(JOINTS)))
    speed = np.array([0.7, 1.3, 2.1])[:, None]
    angle = 2 * np.pi * speed[:, None, :] * time_s[:, None] * 0.3 + phase[:, None, :]
    path: np.ndarray = (weight[:, None, :] * np.sin(angle)).sum(0)
    return path


def _lagged(command: np.ndarray, fps: int, time_constant_s: float = 0.08) -> np.ndarray:
    """What a servo makes of a command: a first-order lag."""
    share = 1 / (1 + time_constant_s * fps)
    state = command.copy()
    for k in range(1, len(command)):
        state[k] = state[k - 1] + share * (command[k] - state[k - 1])
    return state


def _picture(joints: np.ndarray, size: tuple[int, int], colour: np.ndarray, view: int) -> np.ndarray:
    """A table, a block where the arm pushes it, and a two-link arm."""
    width, height = size
    y, x = np.mgrid[0:height, 0:width]
    grain = 12 * np.sin(x / 7.0 + view) * np.sin(y / 5.0)
    image = np.stack([150 + grain, 120 + grain, 95 + grain], axis=-1)
    image[: height // 4] = (205, 210, 214)
    block = (width * (0.5 + 0.25 * np.sin(joints[0] + view)), height * (0.65 + 0.1 * joints[1]))
    inside = (abs(x - block[0]) < width * 0.06) & (abs(y - block[1]) < height * 0.08)
    image[inside] = colour
    base, elbow = np.array([width * 0.5, height * 0.2]), np.array([width * (0.5 + 0.2 * joints[2]), height * 0.45])
    for start, end in ((base, elbow), (elbow, np.array(block))):
        image[_near_segment(x, y, start, end) < width * 0.018] = (52, 56, 64)
    return image.clip(0, 255).astype(np.uint8)


def _near_segment(x: np.ndarray, y: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    span = end - start
    along = (((x - start[0]) * span[0] + (y - start[1]) * span[1]) / (span @ span)).clip(0, 1)
    distance: np.ndarray = np.hypot(x - start[0] - along * span[0], y - start[1] - along * span[1])
    return distance


def practice_recording(folder: Path, episodes: int = 14, **how: object) -> Recording:
    """A recording of several pushes; videos lie below `folder`."""
    size = how.get("size", (160, 120))
    made = tuple(practice_episode(folder, number, **how) for number in range(episodes))  # type: ignore[arg-type]
    return Recording(practice_rig(size), made, {"kind": "practice", "name": "practice"})  # type: ignore[arg-type]


def main(out: Path, episodes: int = 14, **how: object) -> None:
    """Writes OUT as a LeRobot dataset and rig.toml beside it."""
    from twinproof.ingest.lerobot_write import write_lerobot

    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        recording = practice_recording(Path(scratch), episodes, **how)
        write_lerobot(recording, out)
        shutil.rmtree(out / "twinproof")  # a user's dataset has no sidecar
        rules = [Labels(str(k), dict(e.labels), e.outcome) for k, e in enumerate(recording.episodes)]
        rig = replace(recording.rig, labels=tuple(rules))
    (out.parent / "rig.toml").write_text(to_toml(plain(rig)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
