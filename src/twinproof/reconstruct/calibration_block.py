"""The first block of a reconstruction: cameras and joint offsets, as numbers that can be stored and read again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.errors import RecordingError, TwinError
from twinproof.nouns.files import read_json, write_json
from twinproof.nouns.hashing import Json
from twinproof.nouns.parts import Calibration
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.rig import Intrinsics, Mount, Rig
from twinproof.nouns.strict import build, plain
from twinproof.reconstruct.masks_checks import SOFT_PX, edge_width
from twinproof.reconstruct.poses import quat_of
from twinproof.reconstruct.robot_calibrate import Calibrated, calibrate, start_of
from twinproof.reconstruct.robot_fit import CAMERA, Robot, shrunk_lens
from twinproof.reconstruct.robot_frames import LONGEST_PX, RobotFrames, robot_frames, standing, still_cameras
from twinproof.reconstruct.robot_match import Match, check, match
from twinproof.reconstruct.robot_starts import Tried
from twinproof.reconstruct.unit_checks import check_units
from twinproof.sim.link_splats import LinkPoses, link_splats, robot_bodies

if TYPE_CHECKING:
    from twinproof.sim.scene import Scene

FORMAT = "twinproof/reconstruct-calibration/3"
SEVEN = 7  # of a camera's unknowns: turn, shift, log focal length
EDGE_PX, EDGES_M = 2.6, (0.004, 0.02)  # of the triangles that carry the links' surfels


@dataclass(frozen=True)
class FoundCamera:
    """A camera as found: lens in pixels of the recorded pictures, mount with its error, clock and shutter."""

    width: int
    height: int
    intrinsics: Intrinsics
    mount: Mount
    clock_offset_s: float  # beyond what the rig states
    clock_offset_sd_s: float
    readout_s: float
    readout_sd_s: float
    focal_sd: float  # share
    agrees: float  # share of the drawn robot's pixels whose colour agrees
    covariance: tuple[tuple[float, ...], ...] = ()  # 7 × 7: turn (camera), shift (world), log focal length

    def placed(self, T_world_camera: np.ndarray, grown: float, covariance: np.ndarray) -> FoundCamera:
        """The same camera elsewhere, its focal length so many times as long, known so well."""
        k, sd = self.intrinsics, np.sqrt(np.diag(covariance))
        shift, turn = float(np.linalg.norm(sd[3:6])), float(np.linalg.norm(sd[:3]))
        return replace(
            self,
            intrinsics=Intrinsics(grown * k.fx, grown * k.fy, k.cx, k.cy, k.distortion),
            mount=Mount("world", triple(T_world_camera[:3, 3]), quat_of(T_world_camera), shift, turn),
            focal_sd=float(sd[6]),
            covariance=tuple(tuple(float(v) for v in row) for row in covariance),
        )


@dataclass(frozen=True)
class FoundRobot:
    """All of the first block. Offsets are encoder minus truth, rad."""

    cameras: Mapping[str, FoundCamera]
    offsets: Mapping[str, float]
    offset_sd: Mapping[str, float]
    links: Mapping[str, float]  # share of each link's pixels that agree
    weak: tuple[str, ...]
    frames: Mapping[str, Mapping[str, tuple[int, ...]]]  # that were fitted: numbers in the video, by camera and episode
    colours: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)  # of the model's geoms, by id
    reprojection_px: Mapping[str, float] = field(default_factory=dict)  # of the robot's outline, by camera
    starts: Mapping[str, Tried] = field(default_factory=dict)  # what was tried, by camera

    def save(self, folder: Path) -> None:
        """Writes calibration.json."""
        write_json(folder / "calibration.json", {"format": FORMAT, **_plain(self)})

    @classmethod
    def load(cls, folder: Path) -> FoundRobot:
        """Reads it back."""
        path = folder / "calibration.json"
        data = dict(read_json(path, FORMAT, TwinError))
        data.pop("format")
        return build(cls, data, str(path), TwinError)


def _plain(found: FoundRobot) -> dict[str, Json]:
    told: Any = plain(found)
    return dict(told)


def robot_of(scene: Scene, rig: Rig) -> Robot:
    """The robot in its model, ready to be drawn; offsets are sought for the arms' joints that turn."""
    model: Any = scene.nominal()
    bodies = robot_bodies(model)
    if not bodies:
        raise TwinError(
            "no body of the robot's model is driven by an actuator. Name the MJCF with its actuators, or a URDF whose "
            "joints have limits."
        )
    fine, middle, coarse = (link_splats(model, bodies, block * _edge_m(rig)) for block in (1, 2, 4))
    poses = LinkPoses(model, rig.joint_names, fine.bodies)
    grips = {arm.gripper for arm in rig.arms}
    hinges = {model.joint(k).name for k in range(model.njnt) if model.jnt_type[k] == 3}
    sought = tuple(k for k, name in enumerate(rig.joint_names) if name in hinges and name not in grips)
    return Robot((fine, middle, coarse), poses, sought)


def _edge_m(rig: Rig) -> float:
    """Triangles of two to three pixels, as the cameras that stand see the robot."""
    sizes = []
    for name in standing(rig):
        mount, lens = rig.cameras[name].mount, rig.cameras[name].intrinsics
        assert mount is not None
        assert lens is not None
        across = 2 * max(lens.cx, lens.cy)
        sizes.append(EDGE_PX * float(np.linalg.norm(mount.position_m)) / lens.fx * max(1.0, across / LONGEST_PX))
    return float(np.clip(np.median(sizes), *EDGES_M)) if sizes else EDGES_M[1]


def found_robot(
    calibration: Calibration, robot: Robot, pictures: int = 40, progress: Progress = quiet
) -> tuple[FoundRobot, Calibrated]:
    """Calibrates all still cameras of the rig together with the joints; refuses what does not match."""
    rig = calibration.recording.rig
    cameras = still_cameras(calibration.recording)
    if not cameras:
        raise TwinError(
            "no camera of the rig stands still with a known lens: nothing shows the robot from outside. State "
            "[cameras.NAME.intrinsics] and [cameras.NAME.mount] with parent = 'world' in rig.toml, as well as you know."
        )
    check_units(robot, calibration)
    frames = robot_frames(calibration, cameras, pictures, progress)
    check_sharp(frames)
    seen = tuple(dict.fromkeys(f.camera for f in frames))
    start = start_of(rig, seen, {f.camera: f.size for f in frames}, {f.camera: f.shrink for f in frames})
    stated = {name: mount for name in seen if (mount := rig.cameras[name].mount) is not None}
    done = calibrate(robot, rig.joint_names, start, frames, mounts=stated, progress=progress)
    agreed = match(robot, done)
    check(agreed, seen)
    return _told(rig, robot, done, agreed), done


def check_sharp(frames: Sequence[RobotFrames]) -> None:
    """Refuses a recording all of whose pictures are blurred, before a robot is fitted to them in vain."""
    widths = dict[str, list[float]]()
    for f in frames:
        widths.setdefault(f.camera, []).extend(edge_width(255 * f.rgb[k]) for k in f.chosen)
    soft = {name: min(each) for name, each in widths.items() if each and min(each) > SOFT_PX}
    if widths and len(soft) == len(widths):
        told = ", ".join(f"{name} (edges of {width:.0f} pixels and more)" for name, width in soft.items())
        raise RecordingError(
            f"all pictures of the cameras that stand are blurred: {told}. Focus them, expose for a shorter time, or "
            "halve the pictures."
        )


def _told(rig: Rig, robot: Robot, done: Calibrated, agreed: Match) -> FoundRobot:
    sd = dict(zip(done.names, np.sqrt(np.diag(done.covariance)), strict=True))
    cameras = {}
    for name, sight in done.guess.cameras.items():
        shrink = next(f.shrink for f in done.frames if f.camera == name)
        lens = shrunk_lens(sight.lens, 1 / shrink)
        at = [done.names.index(f"{name}.{unknown}") for unknown in CAMERA[:SEVEN]]
        cameras[name] = FoundCamera(
            lens.width, lens.height, Intrinsics(lens.fx, lens.fy, lens.cx, lens.cy, lens.distortion), Mount(),
            sight.clock_s, float(sd[f"{name}.clock"]), sight.readout_s, float(sd[f"{name}.readout"]), 0.0,
            agreed.by_camera[name],
        ).placed(sight.T_world_camera, 1.0, done.covariance[np.ix_(at, at)])  # fmt: skip
    joints = {rig.joint_names[j]: j for j in robot.sought}
    used = dict[str, dict[str, tuple[int, ...]]]()
    for f in done.frames:
        used.setdefault(f.camera, {})[f.episode] = tuple(f.numbers[k] for k in f.chosen if f.numbers)
    first = next(iter(done.looks.values()))
    return FoundRobot(
        cameras,
        {name: float(done.guess.offsets[j]) for name, j in joints.items()},
        {name: float(sd[f"joint.{name}"]) for name in joints},
        agreed.by_link,
        done.weak,
        used,
        {str(geom): triple(np.clip(table[0], 0, 1)) for geom, table in first.tables.items()},
        agreed.outline_px,
        done.tried,
    )


def triple(values: np.ndarray) -> tuple[float, float, float]:
    """Three plain numbers."""
    return float(values[0]), float(values[1]), float(values[2])
