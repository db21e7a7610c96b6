"""Clips with true masks: recordings of the lab's push bench, and a real Franka pushing a T block under three cameras.

The lab's cameras, clocks and joint zeros are the true ones: finding those is calibration's task, not that of masks.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinproof.lab.benches import bench as bench_named
from twinproof.lab.effects import chosen, row_times
from twinproof.lab.models.things import object_geoms
from twinproof.lab.reality import Reality
from twinproof.lab.take import play, takes
from twinproof.nouns.clip import Clip
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Intrinsics
from twinproof.sim.render_camera import FLIP, Camera, Lens
from twinproof.sim.render_rays import Rays
from twinproof.sim.world import World, compile_text

ROOT = Path(__file__).parents[1]
PUSHT = ROOT.parent / "shared" / "data" / "franka_pusht_3cam"
SIZE = (320, 240)
BANDS = 4  # a rolling exposure's true mask is drawn in so many bands of rows


@dataclass(frozen=True, eq=False)
class Take:
    """Clips of one episode, the object's family, and where it truly is in every picture."""

    name: str
    family: str
    clips: dict[str, Clip]
    truth: dict[str, np.ndarray]  # camera -> (T, H, W) bool


def recorded(seed: int, episodes: int, folder: Path) -> tuple[Recording, Path]:
    """The ingested recording of a seed and its truth file; recorded on the first call."""
    lab, truth, out = (
        folder / f"lab_{seed}_{episodes}",
        folder / f"truth_{seed}_{episodes}.json",
        folder / f"recording_{seed}_{episodes}",
    )
    tool = [sys.executable, "-m", "twinproof.cli"]
    if not out.is_dir():
        size = [str(side) for side in SIZE]
        told = ["--size", *size, "--to", "mcap", "--truth", str(truth), "--out", str(lab)]
        subprocess.run(
            [*tool, "lab", "record", "push", "--episodes", str(episodes), "--seed", str(seed), *told], check=True
        )
        subprocess.run(
            [*tool, "ingest", str(lab / "dataset"), "--rig", str(lab / "rig.toml"), "--out", str(out)], check=True
        )
    return Recording.load(out), truth


def lab_takes(
    seed: int, episodes: int, folder: Path, zeros_known: bool = True, every: int = 1, only: Sequence[int] = ()
) -> Iterator[Take]:
    """The episodes of a seed, or `only` some, each `every`-th picture.

    Without `zeros_known` the joints are as the encoders say.
    """
    recording, path = recorded(seed, episodes, folder)
    truth = json.loads(path.read_text(encoding="utf-8"))
    bench = bench_named("push")
    plant, effects = bench.plant(seed), chosen("all", bench)
    for plan, told in zip(takes(bench, episodes, seed), truth["episodes"], strict=True):
        if only and plan.number not in only:
            continue
        episode = next(e for e in recording.episodes if dict(e.labels) == told["labels"])
        played = play(bench, plant, plan, effects, seed)
        state = episode.signals["state"]
        zero = [truth["theta"].get(f"joint.{name}.offset", 0.0) * zeros_known for name in bench.joints]
        robot = _Robot(bench.robot_text(), bench.joints, state.time_s, state.value - np.array(zero))
        clips, masks = {}, {}
        for camera in plant.cameras:
            exposed = np.array(told["exposures_s"][camera.name])[::every]
            lens = camera.lens(SIZE, true=True)
            with episode.videos[camera.name].reader() as reader:
                rgb = np.stack([reader.frame(k) for k in range(0, len(told["exposures_s"][camera.name]), every)])
            middle = exposed + camera.readout_s / 2
            drawn, poses = robot.seen(middle, lens, camera.parent, camera.T_true)
            clips[camera.name] = Clip(camera.name, middle, rgb, lens, poses, drawn)
            masks[camera.name] = true_masks(played.reality, camera.name, lens, exposed, camera.readout_s)
        yield Take(f"{seed}_{plan.number}_{plan.behaviour}_{plan.object}", plan.object[:-3], clips, masks)


class _Robot:
    """The nominal robot at logged joint angles."""

    def __init__(self, xml: str, joints: tuple[str, ...], time_s: np.ndarray, angles: np.ndarray) -> None:
        self.world, self.joints, self.time_s, self.angles = World(compile_text(xml)), joints, time_s, angles

    def seen(
        self, at_s: np.ndarray, lens: Intrinsics, parent: str, T_parent_camera: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Where the robot is drawn, and where the camera is, at every time."""
        glass = Lens(*SIZE, lens.fx, lens.fy, lens.cx, lens.cy)
        masks, poses = [], []
        for t in at_s:
            for k, name in enumerate(self.joints):
                angle = float(np.interp(t, self.time_s, self.angles[:, k]))
                self.world.set_joint(name, angle)
                if k == len(self.joints) - 1:
                    self.world.set_joint(f"{name}_mirror", angle)
            self.world.kinematics()
            T_world_parent = np.eye(4) if parent == "world" else self.world.body_pose(parent)
            poses.append(T_world_parent @ T_parent_camera)
            view = Camera(glass, poses[-1])
            image = Rays(threads=1).render(self.world.model, self.world.data, view, ["segmentation"])
            masks.append(image.geom >= 0)
        return np.stack(masks), np.stack(poses)


def true_masks(reality: Reality, camera: str, lens: Intrinsics, exposed_s: np.ndarray, readout_s: float) -> np.ndarray:
    """Where the object is seen, hidden parts left out, row by row as a rolling shutter reads them."""
    from twinproof.sim.render_camera import Named

    world = World(reality.world.model)
    assert reality.thing is not None
    geoms = [world.model.geom(name).id for name in object_geoms(reality.thing)]
    width, height = SIZE
    edges = np.linspace(0, height, BANDS + 1).astype(int)
    masks = []
    for start in exposed_s:
        bands = []
        for t, a, b in zip(start + row_times(readout_s, BANDS), edges[:-1], edges[1:], strict=True):
            world.qpos[:] = reality.log.qpos[min(len(reality.log.qpos) - 1, max(0, round(float(t) / reality.dt)))]
            world.kinematics()
            glass = Lens(width, int(b - a), lens.fx, lens.fy, lens.cx, lens.cy - float(a))
            image = Rays(threads=1).render(world.model, world.data, Named(camera, lens=glass), ["segmentation"])
            bands.append(np.isin(image.geom, geoms))
        masks.append(np.concatenate(bands))
    return np.stack(masks)


def pusht_clips(first: int, last: int, every: int) -> dict[str, Clip]:
    """Pictures first … last - 1 of the three real cameras, each `every`-th. No robot model comes with them."""
    import av

    if not PUSHT.is_dir():
        raise SystemExit(f"{PUSHT} is not there: this benchmark needs the real pushes of the shared data.")
    clips = {}
    for serial, entry in json.loads((PUSHT / "cameras.json").read_text(encoding="utf-8")).items():
        about = json.loads((PUSHT / entry["metadata_path"]).read_text(encoding="utf-8"))
        K = np.array(about["K"])
        pose = np.array(entry["X_WC"])
        pose[:3, :3] = pose[:3, :3] @ FLIP  # theirs looks along -z with y up
        rgb = []
        with av.open(str(PUSHT / entry["video_path"])) as video:
            for k, frame in enumerate(video.decode(video=0)):
                if k >= last:
                    break
                if k >= first and (k - first) % every == 0:
                    rgb.append(frame.to_ndarray(format="rgb24"))
        times = np.array(about["timestamps"])[first:last:every][: len(rgb)]
        lens = Intrinsics(float(K[0, 0]), float(K[1, 1]), float(K[0, 2]), float(K[1, 2]))
        clips[serial] = Clip(serial, times, np.stack(rgb), lens, np.repeat(pose[None], len(rgb), axis=0))
    return clips


def pusht_table() -> tuple[float, float, float, float]:
    """a b c d of the table a x + b y + c z = d."""
    a, b, c, d = json.loads((PUSHT / "ground_plane.json").read_text(encoding="utf-8"))["plane"]
    return a, b, c, d


def orange(rgb: np.ndarray) -> np.ndarray:
    """The colour reference of the real T block: saturated orange-red, specks elsewhere in the room left out."""
    from scipy import ndimage

    r, g, b = (rgb[..., k].astype(np.int16) for k in range(3))
    parts, _ = ndimage.label((r > 150) & (r - g > 60) & (r - b > 60) & (g < 0.62 * r))
    sizes = np.bincount(parts.ravel())
    sizes[0] = 0
    return np.asarray((sizes >= max(60, 0.04 * sizes.max()))[parts])
