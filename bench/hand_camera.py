"""The camera on the hand, calibrated on lab recordings whose truth only the scoring reads.

    twinproof lab record push --episodes 6 --seed 113 --size 320 240 --to mcap --out made --truth truth.json
    twinproof ingest made/dataset --rig made/rig.toml --out recording
    python -m bench.hand_camera recording made/robot.xml truth.json [--pinned]

The encoders' offsets are the true ones with 0.1° of noise, as if another block had found them. With --pinned the three
cameras that stand still enter too, with errors of 1.5 mm and 0.15°.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from twinproof.nouns.progress import quiet
from twinproof.nouns.randomness import stream
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Intrinsics, Mount
from twinproof.nouns.views import PosedView
from twinproof.reconstruct.hand_camera import HandCamera, Start, hand_camera
from twinproof.reconstruct.hand_camera_frames import Hand, hand_frames
from twinproof.sim.link_splats import LinkPoses, link_splats, robot_bodies
from twinproof.sim.render_camera import Lens
from twinproof.sim.scene import Scene


@dataclass(frozen=True)
class Whole:
    """A recording as the part that is fitted: the bench seals nothing."""

    recording: Recording


def pinned_views(recording: Recording, truth: dict[str, Any], seed: int) -> list[tuple[str, PosedView]]:
    """For each scene the still cameras' middle picture: the robot moves, the table does not."""
    out, done = [], set[tuple[str, str]]()
    for episode in recording.episodes:
        scene = episode.labels["scene"]
        for name in ("front", "left", "right"):
            if name not in episode.videos or (scene, name) in done:
                continue
            done.add((scene, name))
            video, rng = episode.videos[name], stream(seed, "pinned", name)
            with video.reader() as reader:
                shown = [reader.frame(int(k)) for k in np.linspace(0, len(video.time_s) - 1, 15)]
            pose = Mount(**truth["cameras"][name]["mount"]).T_parent_camera
            pose[:3, 3] += rng.normal(0, 0.0015 / np.sqrt(3), 3)
            pose[:3, :3] = (
                pose[:3, :3] @ Rotation.from_rotvec(rng.normal(0, np.radians(0.15) / np.sqrt(3), 3)).as_matrix()
            )
            lens = Intrinsics(**truth["cameras"][name]["intrinsics"])
            plate = np.median(np.stack(shown), axis=0).astype(np.uint8)
            out.append((scene, PosedView(f"{scene}.{name}", plate, lens, pose)))
    return out


def scored(found: HandCamera, hand: Hand, truth: dict[str, Any], noise: np.ndarray) -> str:
    """Errors, each with the standard deviation that was stated.

    An error of the joint that turns the hand and a turn of the mount about its axis are one and the same to every
    picture, so the turn is also given with that joint as it was.
    """
    camera, sd = truth["cameras"]["wrist"], np.sqrt(np.diag(found.covariance))
    T = Mount(**camera["mount"]).T_parent_camera
    shift = 1000 * np.linalg.norm(found.T_link_camera[:3, 3] - T[:3, 3])
    turn = np.degrees(Rotation.from_matrix(T[:3, :3].T @ found.T_link_camera[:3, :3]).magnitude())
    last, still = np.zeros(len(found.joints_rad)), np.zeros(len(found.joints_rad))
    last[len(noise) - 1] = -noise[-1]
    along = np.linalg.inv(hand.T_world_link(still)) @ hand.T_world_link(last) @ found.T_link_camera
    apart = np.degrees(Rotation.from_matrix(T[:3, :3].T @ along[:3, :3]).magnitude())
    focal = 100 * (found.lens.fx / camera["intrinsics"]["fx"] - 1)
    clock, readout = 1000 * (found.clock_s - camera["clock_offset_s"]), 1000 * (found.readout_s - camera["readout_s"])
    return (
        f"| {shift:.2f} ({1000 * np.linalg.norm(sd[3:6]):.2f}) | {turn:.2f} ({np.degrees(np.linalg.norm(sd[:3])):.2f}) "
        f"| {focal:+.2f} ({100 * sd[6]:.2f}) | {clock:+.2f} ({1000 * sd[7]:.2f}) | {readout:+.2f} ({1000 * sd[8]:.2f}) "
        f"| {apart:.2f} |"
    )


def main() -> None:
    """One row of the table."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("recording", type=Path)
    asked.add_argument("model", type=Path)
    asked.add_argument("truth", type=Path)
    asked.add_argument("--pinned", action="store_true")
    asked.add_argument("--noise-deg", type=float, default=0.1)
    args = asked.parse_args()
    recording, truth = Recording.load(args.recording), json.loads(args.truth.read_text())
    rig, camera = recording.rig, recording.rig.cameras["wrist"]
    assert camera.mount is not None
    assert camera.intrinsics is not None
    model = Scene.read(args.model).nominal()
    links = link_splats(model, robot_bodies(model), 0.015)
    hand = Hand(links, LinkPoses(model, rig.joint_names, links.bodies), camera.mount.parent)
    offsets = np.array([truth["theta"].get(f"joint.{name}.offset", 0.0) for name in rig.joint_names])
    noise = np.random.default_rng(truth["seed"]).normal(0, np.radians(args.noise_deg), len(offsets) - 1)
    offsets[:-1] += noise
    begun, wall = time.process_time(), time.time()
    frames = hand_frames(Whole(recording), "wrist", offsets, hand, scene="scene")  # type: ignore[arg-type]
    lens = Lens(*frames[0].rgb.shape[2:0:-1], *(getattr(camera.intrinsics, k) for k in ("fx", "fy", "cx", "cy")))
    views = pinned_views(recording, truth, truth["seed"]) if args.pinned else []
    found = hand_camera(frames, hand, Start(camera.mount, lens), pinned=views, progress=quiet)
    spent = time.process_time() - begun
    print("| seed | shift mm (sd) | turn ° (sd) | focal % (sd) | clock ms (sd) | readout ms (sd) | but last joint ° |")
    print(f"| {truth['seed']}{' pinned' if args.pinned else ''} {scored(found, hand, truth, noise)}")
    print(f"{spent:.0f} CPU-s, {time.time() - wall:.0f} s; table {1000 * found.height_m:.1f} mm high; {found.notes}")


if __name__ == "__main__":
    main()
