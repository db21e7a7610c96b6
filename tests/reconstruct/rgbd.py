"""A small made RGB-D recording: an arm that moves over a table, and a planted tray whose hollow no outline shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.reconstruct.test_robot_calibrate import ARM, JOINTS, looking
from twinproof.nouns.episode import Episode
from twinproof.nouns.parts import Calibration
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Camera, Intrinsics, Joint, Mount, Rig
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.video_write import write_pictures
from twinproof.reconstruct.calibration_block import FoundCamera, FoundRobot
from twinproof.reconstruct.poses import quat_of
from twinproof.sim.render import Image
from twinproof.sim.render_camera import Camera as Eye
from twinproof.sim.render_camera import Lens
from twinproof.sim.render_rays import Rays
from twinproof.sim.world import World, compile_text

PLACE = np.array([0.3, 0.16, 0.0])
WALLS = (  # middle and half sizes: 12 × 10 × 6 cm outside, 1 cm thick, open at the top
    ((0, 0, 0.005), (0.06, 0.05, 0.005)),
    ((0.055, 0, 0.03), (0.005, 0.05, 0.03)),
    ((-0.055, 0, 0.03), (0.005, 0.05, 0.03)),
    ((0, 0.045, 0.03), (0.06, 0.005, 0.03)),
    ((0, -0.045, 0.03), (0.06, 0.005, 0.03)),
)
OUTER_M3 = 0.12 * 0.10 * 0.06
VOLUME_M3 = OUTER_M3 - 0.10 * 0.08 * 0.05
SIZE, FOCAL = (160, 120), 190.0
EYES = {
    "front": looking((0.75, 0.3, 0.5), tuple(PLACE)),
    "side": looking((0.1, 0.6, 0.5), tuple(PLACE)),
    "back": looking((0.1, -0.2, 0.5), tuple(PLACE)),
}
LENS = Intrinsics(FOCAL, FOCAL, 79.5, 59.5)
SMALL = Intrinsics(130.0, 130.0, 59.5, 44.5)  # the side's depth camera has a lens and a place of its own
BESIDE = np.array([[1, 0, 0, 0.02], [0, 1, 0, -0.01], [0, 0, 1, 0.005], [0, 0, 0, 1.0]])
FRAMES = 5


def mount(T: np.ndarray) -> Mount:
    return Mount("world", tuple(float(x) for x in T[:3, 3]), quat_of(T))


def tray() -> str:
    geoms = "".join(
        f'<geom type="box" pos="{" ".join(map(str, at))}" size="{" ".join(map(str, half))}" rgba=".75 .1 .1 1"/>'
        for at, half in WALLS
    )
    place = " ".join(map(str, PLACE))
    return ARM.replace("</worldbody>", f'<body name="tray" pos="{place}">{geoms}</body></worldbody>')


def recorded(folder: Path, cameras: tuple[str, ...] = ("front", "side", "back")) -> Calibration:
    """Colour and depth of some cameras; `side_depth` is another lens beside the colour camera's."""
    model = compile_text(tray())
    world, time_s = World(model), np.linspace(0, 3, 61)
    wave = np.stack([2.5 + 0.3 * np.sin(2 * time_s), -0.5 + 0.2 * np.sin(3 * time_s), 0.6 + 0 * time_s], 1)
    stamps = np.linspace(0.2, 2.8, FRAMES)
    taken: dict[str, tuple[Lens, np.ndarray, str]] = {}
    rig: dict[str, Camera] = {}
    for name in cameras:
        T, near = EYES[name], Lens(*SIZE, LENS.fx, LENS.fy, LENS.cx, LENS.cy)
        taken[name], rig[name] = (near, T, "rgb"), Camera("c", LENS, mount=mount(T))
        if name != "side":
            taken[f"{name}_depth"], rig[f"{name}_depth"] = (near, T, "depth_mm"), Camera("d", LENS, mount=mount(T))
        else:
            own = Lens(120, 90, SMALL.fx, SMALL.fy, SMALL.cx, SMALL.cy)
            taken["side_depth"] = (own, T @ BESIDE, "depth_m")
            rig["side_depth"] = Camera("d", SMALL, mount=mount(T @ BESIDE))
    pictures = {name: list[np.ndarray]() for name in taken}
    for stamp in stamps:
        world.qpos[:3] = [np.interp(stamp, time_s, column) for column in wave.T]
        world.forward()
        for name, (lens, T, pixels) in taken.items():
            image = Rays(threads=1, shadow_samples=1).render(model, world.data, Eye(lens, T), ["rgb", "depth"])
            pictures[name].append(_pixels(image, pixels))
    videos = {
        name: write_pictures(zip(stamps, pictures[name], strict=True), name, folder / f"{name}.mp4", taken[name][2])
        for name in taken
    }
    state = Signal("state", "joint_position", tuple(Column(name, "rad") for name in JOINTS), time_s, wave)
    episode = Episode.of({"state": state}, videos, source="made", labels={"object": "tray"})
    return Calibration(Recording(Rig("arm", tuple(Joint(n) for n in JOINTS), cameras=rig), (episode,), {}), "5" * 64)


def _pixels(image: Image, pixels: str) -> np.ndarray:
    assert image.rgb is not None
    assert image.depth_m is not None
    depth = np.where(image.depth_m < 5, image.depth_m, 0)
    match pixels:
        case "rgb":
            return image.rgb
        case "depth_mm":
            return np.round(1000 * depth).astype(np.uint16)
        case _:
            return depth.astype(np.float32)


def known(calibration: Calibration, geoms: int) -> FoundRobot:
    """Cameras as they are: what calibration would have found."""
    rig = calibration.recording.rig
    cameras = {
        name: FoundCamera(*SIZE, LENS, mount(EYES[name]), 0.0, 0.001, 0.0, 0.001, 0.001, 1.0)
        for name in EYES
        if name in rig.cameras
    }
    colours = {str(k): (0.5, 0.5, 0.5) for k in range(geoms)}
    nil = dict.fromkeys(JOINTS, 0.0)
    return FoundRobot(cameras, nil, dict.fromkeys(JOINTS, 0.001), {}, (), {}, colours)
