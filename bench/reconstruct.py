"""What reconstruct finds against the planted truth: `python -m bench.reconstruct --seeds 201 202 203`.

Each seed is a fresh `push` recording (another robot, other cameras). The truth is read here, for scoring, and nowhere
else. Recordings are kept in build/reconstruct, so that a stopped run goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from twinproof.ingest.assemble import Tolerances
from twinproof.ingest.read import ingest
from twinproof.lab.record import Options, record
from twinproof.nouns.parts import Calibration
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Mount, read_rig
from twinproof.reconstruct.calibration_block import FoundRobot, found_robot, robot_of
from twinproof.reconstruct.hand_block import found_hands
from twinproof.sim.grid import Plane
from twinproof.sim.scene import Scene

ROOT = Path(__file__).parents[1] / "build" / "reconstruct"


def recorded(seed: int, episodes: int, size: tuple[int, int]) -> Path:
    """The folder of a recording with its truth; made first where it is not there."""
    folder = ROOT / f"push_{seed}_{episodes}_{size[0]}x{size[1]}"
    if not (folder / "recording").exists():
        folder.mkdir(parents=True, exist_ok=True)
        record("push", episodes, seed, folder / "lab", folder / "truth.json", Options(to="mcap", size=size))
        rig = read_rig(folder / "lab" / "rig.toml")
        ingest(folder / "lab" / "dataset", rig, folder / "recording", Tolerances())
    return folder


def scored(found: FoundRobot, truth: dict, robot, recording: Recording) -> dict[str, list[float]]:
    """Errors of every camera, of the tool centre over the recorded postures, of clocks and offsets; and their sds."""
    out = {name: [] for name in ("camera_mm", "camera_deg", "focal", "clock_ms", "z_position", "z_turn", "z_clock")}
    for name, camera in found.cameras.items():
        true = truth["cameras"][name]
        T = Mount(**{k: true["mount"][k] for k in ("parent", "position_m", "quat_wxyz")}).T_parent_camera
        S = camera.mount.T_parent_camera
        shift = float(np.linalg.norm(S[:3, 3] - T[:3, 3]))
        turn = float(Rotation.from_matrix(T[:3, :3].T @ S[:3, :3]).magnitude())
        clock = camera.clock_offset_s - true["clock_offset_s"]
        out["camera_mm"].append(1e3 * shift)
        out["camera_deg"].append(np.degrees(turn))
        out["focal"].append(camera.intrinsics.fx / true["intrinsics"]["fx"] - 1)
        out["clock_ms"].append(1e3 * clock)
        out["z_position"].append(shift / max(camera.mount.position_sd_m, 1e-9))
        out["z_turn"].append(turn / max(camera.mount.rotation_sd_rad, 1e-9))
        out["z_clock"].append(clock / max(camera.clock_offset_sd_s, 1e-9))
    names = recording.rig.joint_names
    true_off = np.array([truth["theta"].get(f"joint.{n}.offset", 0.0) for n in names])
    ours = np.array([found.offsets.get(n, 0.0) for n in names])
    sd = np.array([found.offset_sd.get(n, np.inf) for n in names])
    known = np.isfinite(sd)
    out["offset_deg"] = np.degrees(np.abs(ours - true_off))[known].tolist()
    out["z_offset"] = ((ours - true_off) / sd)[known].tolist()
    gaps, before = [], []
    for episode in recording.episodes:
        (signal,) = episode.of_kind("joint_position")
        for row in signal.value[:: max(1, len(signal.value) // 20)]:
            tips = []
            for off in (true_off, ours, 0 * ours):
                robot.poses.at(row - off)
                tips.append(robot.poses.site("tip"))
            gaps.append(1e3 * np.linalg.norm(tips[1] - tips[0]))
            before.append(1e3 * np.linalg.norm(tips[2] - tips[0]))
    out["tip_mm"], out["tip_before_mm"] = gaps, before
    return {key: [float(v) for v in values] for key, values in out.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[201, 202, 203])
    parser.add_argument("--episodes", type=int, default=6)
    parser.add_argument("--size", type=int, nargs=2, default=[320, 240])
    asked = parser.parse_args()
    total: dict[str, list[float]] = {}
    for seed in asked.seeds:
        folder = recorded(seed, asked.episodes, tuple(asked.size))
        recording = Recording.load(folder / "recording")
        robot = robot_of(Scene.read(folder / "lab" / "robot.xml"), recording.rig)
        began, cpu = time.time(), time.process_time()
        part = Calibration(recording, "0" * 64)
        found, _ = found_robot(part, robot)
        hands = found_hands(part, robot, found, Plane())
        (folder / "found").mkdir(exist_ok=True)
        found.save(folder / "found")
        hands.save(folder / "found")
        took = time.time() - began, time.process_time() - cpu
        truth = json.loads((folder / "truth.json").read_text())
        figures = scored(found, truth, robot, recording)
        print(f"seed {seed}: {took[1]:.0f} CPU-s, {took[0]:.0f} s", *found.weak, *hands.notes, sep="\n  ")
        for name, tried in found.starts.items():
            print(f"  {name}: {tried.sentence}")
        for name, camera in hands.cameras.items():
            true = truth["cameras"][name]
            T = Mount(**{k: true["mount"][k] for k in ("parent", "position_m", "quat_wxyz")}).T_parent_camera
            S = camera.mount.T_parent_camera
            total.setdefault("riding_mm", []).append(1e3 * float(np.linalg.norm(S[:3, 3] - T[:3, 3])))
            total.setdefault("riding_deg", []).append(
                float(np.degrees(Rotation.from_matrix(T[:3, :3].T @ S[:3, :3]).magnitude()))
            )
            total.setdefault("riding_clock_ms", []).append(1e3 * (camera.clock_offset_s - true["clock_offset_s"]))
        for key, values in {**figures, "cpu_s": [took[1]]}.items():
            total.setdefault(key, []).extend(values)
            print(f"  {key}: " + " ".join(f"{v:.3g}" for v in values[:9]))
        sys.stdout.flush()
    print("\n| what | median | worst | n |\n|---|---|---|---|")
    for key, values in total.items():
        size = np.abs(values)
        print(f"| {key} | {np.median(size):.3g} | {size.max():.3g} | {len(size)} |")


if __name__ == "__main__":
    main()
