"""Pictures of the robot by cameras that stand still, with the joint angles of the moment and the empty scene behind.

The scene behind the robot (the plate) is what a camera sees most of the time in one episode, brightness evened out. As
soon as it is known roughly where the robot is, its pixels are left out; pixels that it never left are not known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import TwinError
from twinproof.nouns.parts import Calibration
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Camera, Rig
from twinproof.reconstruct.depth_beside import is_depth

if TYPE_CHECKING:
    from jaxtyping import Float

LONGEST_PX = 320  # larger pictures are averaged down: more pixels cost time and tell little more
FOR_PLATE = 18  # pictures of an episode that make its plate
GUESSED, FADES_PX = 0.7, 8.0  # trust in the plate just behind the edge of what was never seen, and how it fades
SPARSE = 3  # of so many pixels along each side one is looked at for brightness
LIT = 0.02  # darker than this a pixel says nothing about brightness


@dataclass(frozen=True, eq=False)
class Angles:
    """Joint angles of an episode as the encoders gave them, between samples drawn straight."""

    time_s: Float[np.ndarray, "T"]
    value: Float[np.ndarray, "T J"]

    def at(self, time_s: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N J"]:
        """All joints at times on the robot's clock; before the first and after the last sample they stand still."""
        return np.stack([np.interp(time_s, self.time_s, column) for column in self.value.T], axis=1)


@dataclass(frozen=True, eq=False)
class RobotFrames:
    """One camera in one episode. Pictures are divided by their brightness relative to the plate."""

    camera: str
    episode: str
    angles: Angles
    time_s: Float[np.ndarray, "F"]  # the camera's stamps with what the rig says about its clock
    rgb: Float[np.ndarray, "F H W 3"]
    plate: Float[np.ndarray, "H W 3"]
    trust: Float[np.ndarray, "H W"]  # in the plate, 0 … 1
    chosen: tuple[int, ...]  # those of the pictures that are fitted
    shrink: int = 1  # recorded pixels along a side of one of these
    numbers: tuple[int, ...] = ()  # of the pictures, in their video

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self.rgb.shape[2], self.rgb.shape[1]


def joint_angles(episode: Episode, rig: Rig) -> Angles:
    """The joints of the rig, in its order, on the robot's clock."""
    signals = episode.of_kind("joint_position")
    held = {column.name: signal for signal in signals for column in signal.columns}
    lacking = [name for name in rig.joint_names if name not in held]
    if lacking or not rig.joints:
        raise TwinError(
            f"episode {episode.id[:8]} has no joint_position of {', '.join(lacking) or 'any joint'}. State the robot's "
            "joints in rig.toml, and which signal carries their positions."
        )
    main = held[rig.joint_names[0]]
    clock = rig.signals[main.name].clock_offset_s if main.name in rig.signals else 0.0
    columns = []
    for name in rig.joint_names:
        signal = held[name]
        values, whole = signal.column(name), np.isfinite(signal.column(name))
        own = rig.signals[signal.name].clock_offset_s if signal.name in rig.signals else 0.0
        columns.append(np.interp(main.time_s + clock, signal.time_s[whole] + own, values[whole]))
    return Angles(main.time_s + clock, np.stack(columns, axis=1))


def standing(rig: Rig) -> tuple[str, ...]:
    """Cameras of the rig, of colour or depth, that stand in the world and whose lens is known."""
    return tuple(
        name for name, c in rig.cameras.items() if c.mount is not None and c.mount.parent == "world" and c.intrinsics
    )


def still_cameras(recording: Recording) -> tuple[str, ...]:
    """Cameras that stand in the world and whose lens is known; those that take depth have no colours to fit."""
    return tuple(name for name in standing(recording.rig) if not takes_depth(recording, name))


def takes_depth(recording: Recording, camera: str) -> bool:
    """Whether a camera's pictures are depth in any episode."""
    return any(camera in e.videos and is_depth(e.videos[camera]) for e in recording.episodes)


def robot_frames(
    calibration: Calibration, cameras: Sequence[str], per_camera: int = 40, progress: Progress = quiet
) -> list[RobotFrames]:
    """Frames of these cameras over all episodes: about `per_camera` of each are chosen, in poses far apart."""
    episodes = [e for e in calibration.recording.episodes if any(name in e.videos for name in cameras)]
    share = max(2, round(per_camera / max(1, len(episodes))))
    out, total = list[RobotFrames](), len(episodes) * len(cameras)
    for episode in episodes:
        fresh = episode.fresh()
        angles = joint_angles(fresh, calibration.recording.rig)
        for name in cameras:
            if name in fresh.videos:
                out.append(_read(fresh, name, calibration.recording.rig.cameras[name], angles, share))
            progress(len(out), f"pictures of {name}", total)
    if not out:
        raise TwinError(f"no episode has pictures of {', '.join(cameras)}. Record with the cameras on.")
    return out


def _read(episode: Episode, name: str, camera: Camera, angles: Angles, share: int) -> RobotFrames:
    video = episode.videos[name]
    times = video.time_s + camera.clock_offset_s
    count = min(len(times), FOR_PLATE)
    picked = np.unique(np.linspace(0, len(times) - 1, count).round().astype(int))
    with video.reader() as reader:
        pictures = [shrunk(reader.frame(int(k))) for k in picked]
    rgb = np.stack(pictures).astype(np.float32) / 255
    even, plate = _even(rgb, np.zeros(rgb.shape[:3], bool))
    trust = np.ones(plate.shape[:2], np.float32)
    shrink = video.width // even.shape[2]
    frames = RobotFrames(
        name, episode.id, angles, times[picked], even, plate, trust, (), shrink, tuple(picked.tolist())
    )
    return replace(frames, chosen=far_apart(angles.at(times[picked]), share))


def shrunk(picture: np.ndarray, longest: int = LONGEST_PX) -> np.ndarray:
    """The picture in colour, averaged over whole blocks of pixels until its longer side is at most so long."""
    rgb = picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, axis=2)
    block = int(np.ceil(max(rgb.shape[:2]) / longest))
    return averaged(rgb, block)


def averaged(picture: np.ndarray, block: int) -> np.ndarray:
    """Means over blocks of pixels; rows and columns that fill no block are left out."""
    if block == 1:
        return picture
    height, width = picture.shape[0] // block, picture.shape[1] // block
    cut = picture[: height * block, : width * block]
    small: np.ndarray = cut.reshape(height, block, width, block, *picture.shape[2:]).mean(axis=(1, 3))
    return small


def far_apart(points: np.ndarray, count: int) -> tuple[int, ...]:
    """Indices of points that are far from one another, each next the farthest from those before."""
    spread = points / np.maximum(points.std(axis=0), 0.02)
    chosen = [0]
    far = np.linalg.norm(spread - spread[0], axis=1)
    while len(chosen) < min(count, len(points)):
        chosen.append(int(far.argmax()))
        far = np.minimum(far, np.linalg.norm(spread - spread[chosen[-1]], axis=1))
    return tuple(sorted(chosen))


def spread(chosen: tuple[int, ...], most: int) -> list[int]:
    """At most so many of the chosen ones, evenly over all of them."""
    if len(chosen) <= most:
        return list(chosen)
    return [chosen[i] for i in np.linspace(0, len(chosen) - 1, most).round().astype(int)]


def _even(rgb: np.ndarray, robot: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pictures with their brightness evened out, and the plate: the middle value where the robot is not."""
    small, hidden = rgb[:, ::SPARSE, ::SPARSE], robot[:, ::SPARSE, ::SPARSE]
    gains = np.ones((len(rgb), 3), np.float32)
    for _ in range(2):
        even = small / gains[:, None, None]
        plate = _middle(even, hidden)
        lit = (plate > LIT).all(axis=2)
        for k, picture in enumerate(even):
            use = ~hidden[k] & lit & (picture > LIT).all(axis=2)
            if use.sum() > 50:
                gains[k] *= np.median(picture[use] / plate[use], axis=0)
    evened = rgb / gains[:, None, None]
    return evened, _middle(evened, robot)


def _middle(rgb: np.ndarray, robot: np.ndarray) -> np.ndarray:
    hidden = robot & ~robot.all(axis=0)  # where it always is, the middle of all it is
    counts = (~hidden).sum(axis=0)
    ordered = np.sort(np.where(hidden[..., None], np.float32(np.inf), rgb), axis=0)
    low, high = (np.take_along_axis(ordered, k[None, ..., None], axis=0)[0] for k in ((counts - 1) // 2, counts // 2))
    return np.asarray(0.5 * (low + high), np.float32)


def with_plate(frames: RobotFrames, robot: Callable[[float], np.ndarray], least: float = 0.1) -> RobotFrames:
    """The same frames with the plate made without the robot's pixels; `robot(time)` is where it is drawn to be."""
    hidden = np.stack([robot(float(t)) for t in frames.time_s])
    even, plate = _even(frames.rgb, hidden)
    known = (~hidden).mean(axis=0) >= least
    filled, trust = _filled(plate, known)
    return replace(frames, rgb=even, plate=filled, trust=trust)


def _filled(plate: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The plate continued smoothly behind what the robot never leaves, and how far that can be trusted.

    Without it the base, which never moves, would be held from one side only: where it is drawn too far out.
    """
    from scipy.ndimage import distance_transform_edt, gaussian_filter

    if known.all():
        return plate, known.astype(np.float32)
    weight, total = np.zeros(known.shape, np.float32), np.zeros_like(plate)
    for sigma in (2.0, 4.0, 8.0, 16.0):  # the finest that reaches a pixel decides
        near = gaussian_filter(known.astype(np.float32), sigma)
        mean = gaussian_filter(plate * known[..., None], (sigma, sigma, 0)) / np.maximum(near, 1e-6)[..., None]
        share = np.clip(1 - weight, 0, 1) * np.clip(near / 0.2, 0, 1)
        total, weight = total + share[..., None] * mean, weight + share
    far = distance_transform_edt(~known)
    filled = np.where(known[..., None], plate, total / np.maximum(weight, 1e-6)[..., None])
    return filled.astype(np.float32), np.where(known, 1.0, GUESSED * np.exp(-((far / FADES_PX) ** 2))).astype(
        np.float32
    )
