"""Cameras that ride on a link, as numbers that can be stored: calibrated on the table, after the robot is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.nouns.errors import TwinError
from twinproof.nouns.files import read_json, write_json
from twinproof.nouns.parts import Calibration
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Intrinsics, Mount
from twinproof.nouns.strict import build, plain
from twinproof.reconstruct.calibration_block import FoundCamera, FoundRobot, triple
from twinproof.reconstruct.clips import hand_of, offsets_of
from twinproof.reconstruct.hand_camera import HandCamera, Prior, Start, hand_camera
from twinproof.reconstruct.hand_camera_frames import HandFrames, hand_frames
from twinproof.reconstruct.poses import quat_of
from twinproof.reconstruct.robot_fit import Robot, shrunk_lens
from twinproof.reconstruct.robot_frames import takes_depth
from twinproof.sim.grid import Plane
from twinproof.sim.render_camera import Lens

FORMAT = "twinproof/reconstruct-hand-cameras/2"
FRAMES = 120  # pictures that are laid on the table


@dataclass(frozen=True)
class FoundHands:
    """The riding cameras by name, with their links as the mounts' parents; and what was left out, and why."""

    cameras: Mapping[str, FoundCamera]
    notes: tuple[str, ...] = ()

    def save(self, folder: Path) -> None:
        """Writes hands.json."""
        told: Any = plain(self)
        write_json(folder / "hands.json", {"format": FORMAT, **told})

    @classmethod
    def load(cls, folder: Path) -> FoundHands:
        """Reads it back."""
        path = folder / "hands.json"
        data = dict(read_json(path, FORMAT, TwinError))
        data.pop("format")
        return build(cls, data, str(path), TwinError)


def riding_cameras(recording: Recording) -> tuple[str, ...]:
    """Cameras that are mounted on a link and whose lens is known; those that take depth have no colours to fit."""
    return tuple(
        name
        for name, c in recording.rig.cameras.items()
        if c.mount is not None and c.mount.parent != "world" and c.intrinsics and not takes_depth(recording, name)
    )


def found_hands(
    calibration: Calibration, robot: Robot, found: FoundRobot, table: Plane, progress: Progress = quiet
) -> FoundHands:
    """Every riding camera, one after the other; one that cannot be calibrated is left out with the reason.

    The arm's kinematics tie the table to the robot's frame; pictures of the still cameras, which are known less well,
    would only pull at it.
    """
    rig, cameras, notes = calibration.recording.rig, dict[str, FoundCamera](), list[str]()
    for name in riding_cameras(calibration.recording):
        camera = rig.cameras[name]
        assert camera.mount is not None
        try:
            hand = hand_of(robot, camera.mount.parent)
            frames = hand_frames(calibration, name, offsets_of(rig, found), hand, FRAMES)
            start = _start(calibration, name, frames)
            done = hand_camera(frames, hand, start[0], table, progress=progress)
        except TwinError as problem:
            notes.append(f"camera {name} is left out: {problem}")
            continue
        notes += done.notes
        cameras[name] = _told(camera.mount.parent, done, start[1])
    return FoundHands(cameras, tuple(notes))


def _start(calibration: Calibration, name: str, frames: list[HandFrames]) -> tuple[Start, int]:
    camera = calibration.recording.rig.cameras[name]
    lens, mount = camera.intrinsics, camera.mount
    assert lens is not None
    assert mount is not None
    width = next(e.videos[name].width for e in calibration.recording.episodes if name in e.videos)
    height = next(e.videos[name].height for e in calibration.recording.episodes if name in e.videos)
    shrink = width // next(f.rgb.shape[2] for f in frames if len(f.time_s))
    whole = Lens(width, height, lens.fx, lens.fy, lens.cx, lens.cy, lens.distortion)
    usual = Prior()
    prior = Prior(
        max(usual.turn_rad, mount.rotation_sd_rad),
        max(usual.shift_m, mount.position_sd_m),
        clock_s=max(usual.clock_s, camera.clock_offset_sd_s),
    )
    return Start(mount, shrunk_lens(whole, shrink), prior=prior), shrink


def _told(link: str, done: HandCamera, shrink: int) -> FoundCamera:
    sd = np.sqrt(np.diag(done.covariance))  # turn, shift, log focal length, clock, readout, …
    lens = shrunk_lens(done.lens, 1 / shrink)
    turn, shift = float(np.linalg.norm(sd[:3])), float(np.linalg.norm(sd[3:6]))
    mount = Mount(link, triple(done.T_link_camera[:3, 3]), quat_of(done.T_link_camera), shift, turn)
    return FoundCamera(
        lens.width, lens.height, Intrinsics(lens.fx, lens.fy, lens.cx, lens.cy, lens.distortion), mount, done.clock_s,
        float(sd[7]), done.readout_s, float(sd[8]), float(sd[6]), 1.0,
    )  # fmt: skip
